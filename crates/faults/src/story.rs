//! What happens in a run, as data drawn from a seed: nodes, gangs, schedulers and faults.
use std::fmt;

use phalanx_core::RetryLimits;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Microseconds since the begin of a run.
pub type Micros = u64;

/// A second.
pub const SECOND: Micros = 1_000_000;

/// Faults begin and end before this time.
pub const CALM_AFTER: Micros = 60 * SECOND;

/// So much happens in each run, campaigns for the lease apart. Spare gangs, and then kubelets, bring what is missing.
pub const ENOUGH: u64 = 200;

/// How many gangs are spare: those that may arrive while there are faults, and those of a single pod, which arrive after.
const SPARE_GANGS: usize = 5;
const SPARE_SINGLE: usize = 9;

/// The share of stories whose nodes are full.
const CROWDED: f64 = 0.35;

/// All that is given in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Seeds delays and the scheduler.
    pub seed: u64,
    /// Processor cores of each node.
    pub nodes: Vec<u32>,
    /// The most cores that queue `limited` may use.
    pub limit: u32,
    /// The cores that queue `limited` deserves: for these it reclaims from `default`, which deserves none.
    pub deserved: u32,
    /// The gangs, by the time of their arrival; then those that are spare.
    pub gangs: Vec<Gang>,
    /// How many of the last gangs arrive one by one where little happens.
    pub spare: usize,
    /// How many schedulers run, one of which leads.
    pub schedulers: usize,
    /// How many processes run the controllers of Jobs, PodGroups and Queues, one of which leads.
    pub controllers: usize,
    /// How often schedulers try waiting gangs: in each cycle, as in a small cluster, or when an event may help them, as in
    /// a large one.
    pub limits: RetryLimits,
    /// The faults, by the time at which they begin.
    pub faults: Vec<Fault>,
}

/// A PodGroup and its pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Gang {
    /// Who makes them.
    pub maker: Maker,
    /// When the PodGroup or the Job is created; the pods follow one by one.
    pub arrives: Micros,
    /// Pods.
    pub size: usize,
    /// `minMember`.
    pub min: usize,
    /// Cores that each pod requests.
    pub cores: u32,
    /// How long each pod runs.
    pub runs: Micros,
    /// PriorityClass `high` instead of none.
    pub high: bool,
    /// Queue `limited` instead of `default`.
    pub limited: bool,
}

/// Who makes the PodGroup of a gang and its pods, also in the place of pods that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// The user.
    User,
    /// An owner of pods makes these alone, and the controllers make their PodGroup, with `minMember` 1.
    Owner,
    /// The controller of Jobs; on the loss of a pod it does this.
    Job(OnLoss),
}

/// The action of a Job's policies for pods that failed or were evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// All pods are made anew.
    RestartJob,
    /// The pods of the task are made anew.
    RestartTask,
    /// The pod is made anew.
    RestartPod,
}

/// `maxRetry` of Jobs.
pub const MAX_RETRY: i32 = 4;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It schedules.
    Scheduler,
    /// It runs the controllers.
    Controllers,
}

impl Role {
    /// The subcommand of `phalanx`.
    pub fn subcommand(self) -> &'static str {
        match self {
            Role::Scheduler => "scheduler",
            Role::Controllers => "controllers",
        }
    }
}

/// A fault, when it begins and how long it lasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When it begins.
    pub at: Micros,
    /// How long it lasts; nothing for what happens at once.
    pub lasts: Micros,
    /// What it is.
    pub kind: FaultKind,
}

/// The kinds of objects that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// Pods.
    Pods,
    /// Nodes.
    Nodes,
    /// PodGroups.
    PodGroups,
    /// Queues.
    Queues,
    /// Jobs of Volcano.
    Jobs,
    /// Commands of Volcano, which open and close queues.
    Commands,
}

/// How many kinds there are.
pub const KINDS: usize = Watched::ALL.len();

impl Watched {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Pods, Self::Nodes, Self::PodGroups, Self::Queues, Self::Jobs, Self::Commands];

    /// Those that a process watches.
    pub fn of(role: Role) -> &'static [Self] {
        match role {
            Role::Scheduler => &[Self::Pods, Self::Nodes, Self::PodGroups, Self::Queues],
            Role::Controllers => &[Self::Jobs, Self::Pods, Self::PodGroups, Self::Queues, Self::Commands],
        }
    }

    /// As in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::PodGroups => "podgroups",
            Self::Queues => "queues",
            Self::Jobs => "jobs",
            Self::Commands => "commands",
        }
    }
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A watch of a process breaks off; it resumes at its last version when the fault is over.
    WatchBreaks(usize, Watched),
    /// The same, and the version is too old by then: the process has to list again, in two pages.
    WatchExpires(usize, Watched),
    /// As above, and the second page is refused with 410 once.
    ListExpires(usize, Watched),
    /// Changes of a kind reach a process late, after those of other kinds.
    WatchLags(usize, Watched),
    /// Changes of a kind reach a process twice.
    WatchDoubles(usize, Watched),
    /// Requests get this answer.
    Answers(Answer, Share),
    /// A node is deleted with its pods, and comes back as another object of the same name.
    NodeDies(usize),
    /// A node is deleted with its pods, and does not come back.
    NodeRemoved(usize),
    /// The kubelet of a node does not answer: the node is not ready, and no pod on it starts, ends or stops.
    NodeUnready(usize),
    /// The user cordons a node, and uncordons it when the fault is over.
    NodeCordoned(usize),
    /// The user closes queue `limited` or `default`, and opens it when the fault is over.
    QueueCloses(&'static str),
    /// The kubelet of a node rejects the pods that are bound to the node.
    KubeletRejects(usize),
    /// A pod of a gang is deleted.
    PodDeleted(usize, usize),
    /// The user deletes a gang: its Job or owner, or its PodGroup and pods.
    GangDeleted(usize),
    /// A process is killed, and started again: at once for 0, else with this request that it sends.
    Crash(usize, usize),
    /// A process is stopped, and goes on.
    Pause(usize),
    /// The wall clock of a process is set by so many seconds.
    ClockSet(usize, i64),
    /// Another scheduler.conf takes effect.
    Reload(usize),
}

/// How the API server answers a request, instead of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 429: it was not carried out.
    Busy,
    /// 500: it was not carried out, which the answer does not say.
    Trouble,
    /// 500: it was carried out, which the answer does not say.
    DoneTrouble,
    /// 403: it was not carried out.
    Refused,
    /// 409 for a status: it was not carried out.
    Conflict,
    /// The request is lost; the client gives up after 15 seconds.
    RequestLost,
    /// The reply is lost: the request was carried out; the client gives up after 15 seconds.
    ReplyLost,
    /// The request is carried out and answered seconds later, when the lease may be another process's.
    Late,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "refused with 429",
            Self::Trouble => "answered by 500 and not carried out",
            Self::DoneTrouble => "carried out and answered by 500",
            Self::Refused => "refused with 403",
            Self::Conflict => "refused with 409",
            Self::RequestLost => "lost",
            Self::ReplyLost => "carried out, and the reply is lost",
            Self::Late => "carried out seconds later",
        })
    }
}

/// How many requests meet a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Every second one, by chance.
    Half,
    /// All.
    All,
}

const ANSWERS: [Answer; 8] = [
    Answer::Busy,
    Answer::Trouble,
    Answer::DoneTrouble,
    Answer::Refused,
    Answer::Conflict,
    Answer::RequestLost,
    Answer::ReplyLost,
    Answer::Late,
];

impl Story {
    /// The story of a seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Pcg64::seed_from_u64(seed);
        let schedulers = if chance.random_bool(0.25) { 2 } else { 1 };
        let controllers = if chance.random_bool(0.1) { 2 } else { 1 };
        let limit = chance.random_range(3..=9);
        let (nodes, mut gangs) =
            if chance.random_bool(CROWDED) { crowded(&mut chance) } else { roomy(&mut chance) };
        gangs.extend((0..SPARE_GANGS).map(|_| Gang::draw(&mut chance).smaller()));
        gangs.extend((0..SPARE_SINGLE).map(|_| Gang::draw(&mut chance).single()));
        let mut story = Self {
            seed,
            nodes,
            limit,
            deserved: chance.random_range(0..=limit),
            gangs,
            spare: SPARE_GANGS + SPARE_SINGLE,
            schedulers,
            controllers,
            limits: RetryLimits::default(),
            faults: Vec::new(),
        };
        story.faults = (0..chance.random_range(1..=4)).map(|_| Fault::draw(&mut chance, &story)).collect();
        story.faults.sort_by_key(|fault| fault.at);
        story.limits = draw_limits(&mut chance);
        story
    }

    /// The number of the first gang that is spare.
    pub fn first_spare(&self) -> usize {
        self.gangs.len() - self.spare
    }

    /// The number of the first spare gang of a single pod.
    pub fn first_single(&self) -> usize {
        self.first_spare() + SPARE_GANGS
    }

    /// How many processes run: schedulers first, then controllers.
    pub fn processes(&self) -> usize {
        self.schedulers + self.controllers
    }

    /// What a process does.
    pub fn role(&self, process: usize) -> Role {
        if process < self.schedulers { Role::Scheduler } else { Role::Controllers }
    }
}

/// Nodes, and gangs that mostly fit.
fn roomy(chance: &mut impl Rng) -> (Vec<u32>, Vec<Gang>) {
    let nodes = (0..chance.random_range(1..=3)).map(|_| chance.random_range(3..=7)).collect();
    (nodes, vec![Gang::draw(chance)])
}

/// Nodes that a first gang fills for long, and a second gang that may evict its pods: for a higher priority, or for what
/// its queue deserves.
fn crowded(chance: &mut impl Rng) -> (Vec<u32>, Vec<Gang>) {
    let cores = chance.random_range(1..=3);
    let (count, fit) = match chance.random_range(0..8) {
        0 => (1, 3),
        1..=4 => (1, 2),
        _ => (2, 1),
    };
    let nodes = (0..count).map(|_| fit * cores + chance.random_range(0..cores)).collect();
    let size = count * fit as usize;
    let min = if chance.random_bool(0.7) { 1 } else { chance.random_range(1..=size) };
    let surplus = size - min;
    let limited = chance.random_bool(0.2);
    let first = Gang {
        arrives: chance.random_range(2 * SECOND..5 * SECOND),
        size,
        min,
        cores,
        runs: chance.random_range(20 * SECOND..120 * SECOND),
        high: false,
        limited,
        ..Gang::draw(chance)
    };
    let size = if chance.random_bool(0.3) { 2 } else { 1 };
    let second = Gang {
        arrives: first.arrives + chance.random_range(3 * SECOND..15 * SECOND),
        size,
        min: chance.random_range(1..=size.min(surplus.max(1))),
        cores: chance.random_range(1..=cores),
        high: true,
        limited: limited || chance.random_bool(0.3),
        ..Gang::draw(chance)
    };
    (nodes, vec![first.with_own_group(), second.with_own_group()])
}

/// As in a small cluster, in a large one, or in one with so many waiting gangs that few have a turn.
fn draw_limits(chance: &mut impl Rng) -> RetryLimits {
    let usual = RetryLimits::default();
    match chance.random_range(0..4) {
        0 | 1 => usual,
        2 => RetryLimits { all_up_to: 0, ..usual },
        _ => RetryLimits { all_up_to: 0, per_cycle: 1, evicting_per_cycle: 1, ..usual },
    }
}

impl Gang {
    /// At most two pods.
    fn smaller(self) -> Self {
        Self { size: self.size.min(2), min: self.min.min(2), ..self }
    }

    /// One pod, and no Job: a run ends soon after enough has happened.
    fn single(self) -> Self {
        Self { maker: Maker::User, size: 1, min: 1, ..self }
    }

    /// A gang for whose `minMember` there has to be a PodGroup.
    fn with_own_group(self) -> Self {
        let maker = if self.maker == Maker::Owner && self.min > 1 { Maker::User } else { self.maker };
        Self { maker, ..self }
    }

    fn draw(chance: &mut impl Rng) -> Self {
        let size = chance.random_range(1..=3);
        let maker = match chance.random_range(0..8) {
            0 => Maker::Job(OnLoss::RestartJob),
            1 => Maker::Job(OnLoss::RestartTask),
            2 => Maker::Job(OnLoss::RestartPod),
            3 => Maker::Owner,
            _ => Maker::User,
        };
        Self {
            maker,
            arrives: chance.random_range(0..25 * SECOND),
            size,
            min: match maker {
                Maker::Owner => 1,
                Maker::User | Maker::Job(_) => chance.random_range(1..=size),
            },
            cores: chance.random_range(1..=4),
            runs: chance.random_range(2 * SECOND..30 * SECOND),
            high: chance.random_bool(0.25),
            limited: chance.random_bool(0.3),
        }
    }
}

impl Fault {
    fn draw(chance: &mut impl Rng, story: &Story) -> Self {
        let at = chance.random_range(0..40 * SECOND);
        let lasts = chance.random_range(SECOND / 10..(CALM_AFTER - at).min(20 * SECOND));
        let process = chance.random_range(0..story.processes());
        let kinds = Watched::of(story.role(process));
        let watched = kinds[chance.random_range(0..kinds.len())];
        let nodes = story.nodes.len();
        let kind = match chance.random_range(0..22) {
            0 | 1 => FaultKind::WatchBreaks(process, watched),
            2 => FaultKind::WatchExpires(process, watched),
            3 => FaultKind::ListExpires(process, watched),
            4 => FaultKind::WatchLags(process, watched),
            5 => FaultKind::WatchDoubles(process, watched),
            6..=9 => {
                let share = if chance.random_bool(0.75) { Share::Half } else { Share::All };
                FaultKind::Answers(ANSWERS[chance.random_range(0..ANSWERS.len())], share)
            }
            10 => FaultKind::NodeDies(chance.random_range(0..nodes)),
            11 => FaultKind::KubeletRejects(chance.random_range(0..nodes)),
            12 => {
                let gang = chance.random_range(0..story.first_spare());
                FaultKind::PodDeleted(gang, chance.random_range(0..story.gangs[gang].size))
            }
            13 => FaultKind::Crash(process, chance.random_range(0..4)),
            14 => FaultKind::Pause(process),
            15 => FaultKind::ClockSet(process, chance.random_range(-7200..7200)),
            16 => FaultKind::Reload(chance.random_range(0..2)),
            17 => FaultKind::NodeUnready(chance.random_range(0..nodes)),
            18 => FaultKind::QueueCloses(if chance.random_bool(0.5) { "limited" } else { "default" }),
            19 => FaultKind::NodeCordoned(chance.random_range(0..nodes)),
            20 => FaultKind::GangDeleted(chance.random_range(0..story.first_spare())),
            _ => FaultKind::NodeRemoved(chance.random_range(0..nodes)),
        };
        let at = match kind {
            FaultKind::PodDeleted(gang, _) | FaultKind::GangDeleted(gang) => {
                story.gangs[gang].arrives + chance.random_range(0..20 * SECOND)
            }
            _ => at,
        };
        Self { at, lasts, kind }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: processes {}, nodes with cores {:?}",
            self.seed,
            (0..self.processes()).map(|process| process_name(self, process)).collect::<Vec<_>>().join(", "),
            self.nodes
        )?;
        writeln!(f, "queue limited may use {} cores and deserves {}", self.limit, self.deserved)?;
        let RetryLimits { all_up_to, per_cycle, evicting_per_cycle, .. } = self.limits;
        writeln!(
            f,
            "in each cycle all waiting gangs are tried, if there are at most {all_up_to}; else {per_cycle}, and \
             {evicting_per_cycle} of those that may need evictions"
        )?;
        for (index, gang) in self.gangs.iter().enumerate().filter(|(_, gang)| gang.size > 0) {
            writeln!(
                f,
                "{} gang-{index} arrives{}: pods {}, cores of each {}, minMember {}, each runs {}{}{}",
                if index < self.first_spare() {
                    time(gang.arrives)
                } else {
                    "when little happens,".to_owned()
                },
                match gang.maker {
                    Maker::User => String::new(),
                    Maker::Owner => ", made by an owner without a PodGroup".to_owned(),
                    Maker::Job(on_loss) => format!(", made by a Job ({on_loss:?} when a pod is lost)"),
                },
                gang.size,
                gang.cores,
                gang.min,
                time(gang.runs).trim(),
                if gang.high { ", priority high" } else { "" },
                if gang.limited { ", queue limited" } else { "" },
            )?;
        }
        for Fault { at, lasts, kind } in &self.faults {
            let lasts = if kind.ends() { format!(" for {}", time(*lasts).trim()) } else { String::new() };
            writeln!(f, "{}{lasts}: {kind}", time(*at))?;
        }
        Ok(())
    }
}

impl FaultKind {
    /// Whether it goes on for a time; others happen at once, or for good.
    pub fn ends(&self) -> bool {
        use FaultKind::{ClockSet, GangDeleted, NodeRemoved, PodDeleted, Reload};
        !matches!(self, NodeRemoved(_) | PodDeleted(..) | GangDeleted(_) | ClockSet(..) | Reload(_))
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WatchBreaks(who, kind) => write!(f, "process {who} has no watch of {}", kind.plural()),
            Self::WatchExpires(who, kind) => {
                write!(f, "process {who} has no watch of {} and must list again", kind.plural())
            }
            Self::ListExpires(who, kind) => {
                write!(f, "process {who} must list {} again, and the second page is gone", kind.plural())
            }
            Self::WatchLags(who, kind) => write!(f, "changes of {} reach process {who} late", kind.plural()),
            Self::WatchDoubles(who, kind) => {
                write!(f, "changes of {} reach process {who} twice", kind.plural())
            }
            Self::Answers(answer, Share::Half) => {
                write!(f, "half of the requests are {answer}")
            }
            Self::Answers(answer, Share::All) => write!(f, "all requests are {answer}"),
            Self::NodeDies(node) => write!(f, "node-{node} is gone with its pods"),
            Self::NodeRemoved(node) => write!(f, "node-{node} is gone with its pods, for good"),
            Self::NodeCordoned(node) => write!(f, "node-{node} is cordoned"),
            Self::NodeUnready(node) => write!(f, "node-{node} is not ready, its kubelet does not answer"),
            Self::QueueCloses(queue) => write!(f, "queue {queue} is closed"),
            Self::KubeletRejects(node) => write!(f, "the kubelet of node-{node} rejects pods"),
            Self::GangDeleted(gang) => write!(f, "the user deletes gang-{gang}"),
            Self::PodDeleted(gang, pod) => write!(f, "pod {pod} of gang-{gang} is deleted"),
            Self::Crash(who, 0) => write!(f, "process {who} is killed"),
            Self::Crash(who, request) => {
                write!(f, "process {who} is killed when it sends request number {request} from then on")
            }
            Self::Pause(who) => write!(f, "process {who} is stopped"),
            Self::ClockSet(who, by) => write!(f, "the clock of process {who} is set by {by} s"),
            Self::Reload(conf) => write!(f, "scheduler.conf {conf} takes effect"),
        }
    }
}

/// A process in a story that is told.
pub fn process_name(story: &Story, process: usize) -> String {
    format!("{process} ({})", story.role(process).subcommand())
}

/// A time as seconds.
pub fn time(at: Micros) -> String {
    format!("{:>9.3} s", at as f64 / 1e6)
}
