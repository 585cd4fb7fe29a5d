//! What happens in a run, as data drawn from a seed: nodes, gangs, schedulers and faults.
use std::fmt;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Microseconds since the begin of a run.
pub type Micros = u64;

/// A second.
pub const SECOND: Micros = 1_000_000;

/// Faults begin and end before this time.
pub const CALM_AFTER: Micros = 60 * SECOND;

/// All that is given in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Of delays and of the scheduler.
    pub seed: u64,
    /// Processor cores of each node.
    pub nodes: Vec<u32>,
    /// The most cores that queue `limited` may use.
    pub limit: u32,
    /// The gangs, by the time of their arrival.
    pub gangs: Vec<Gang>,
    /// How many schedulers run, one of which leads.
    pub schedulers: usize,
    /// The faults, by the time at which they begin.
    pub faults: Vec<Fault>,
}

/// A PodGroup and its pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Gang {
    /// When the PodGroup is created; the pods follow one by one.
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
}

impl Watched {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pods, Self::Nodes, Self::PodGroups, Self::Queues];

    /// As in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::PodGroups => "podgroups",
            Self::Queues => "queues",
        }
    }
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A watch of a scheduler breaks off; it resumes at its last version when the fault is over.
    WatchBreaks(usize, Watched),
    /// The same, and the version is too old by then: the scheduler has to list again, in two pages.
    WatchExpires(usize, Watched),
    /// As above, and the second page is refused with 410 once.
    ListExpires(usize, Watched),
    /// Changes of a kind reach a scheduler late, after those of other kinds.
    WatchLags(usize, Watched),
    /// Changes of a kind reach a scheduler twice.
    WatchDoubles(usize, Watched),
    /// Some requests of schedulers get this answer.
    Answers(Answer),
    /// A node is deleted with its pods, and comes back as another object of the same name.
    NodeDies(usize),
    /// The kubelet of a node rejects the pods that are bound to the node.
    KubeletRejects(usize),
    /// A pod of a gang is deleted.
    PodDeleted(usize, usize),
    /// A scheduler is killed, and started again.
    Crash(usize),
    /// A scheduler is stopped, and goes on.
    Pause(usize),
    /// The wall clock of a scheduler is set by so many seconds.
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
}

const ANSWERS: [Answer; 7] = [
    Answer::Busy,
    Answer::Trouble,
    Answer::DoneTrouble,
    Answer::Refused,
    Answer::Conflict,
    Answer::RequestLost,
    Answer::ReplyLost,
];

impl Story {
    /// The story of a seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Pcg64::seed_from_u64(seed);
        let nodes: Vec<u32> = (0..chance.random_range(3..=6)).map(|_| chance.random_range(4..=8)).collect();
        let schedulers = if chance.random_bool(0.5) { 2 } else { 1 };
        let mut gangs: Vec<Gang> =
            (0..chance.random_range(8..=14)).map(|_| Gang::draw(&mut chance)).collect();
        gangs.sort_by_key(|gang| gang.arrives);
        let mut faults: Vec<Fault> = (0..chance.random_range(2..=10))
            .map(|_| Fault::draw(&mut chance, nodes.len(), &gangs, schedulers))
            .collect();
        faults.sort_by_key(|fault| fault.at);
        let limit = chance.random_range(3..=12);
        Self { seed, nodes, limit, gangs, schedulers, faults }
    }
}

impl Gang {
    fn draw(chance: &mut impl Rng) -> Self {
        let size = chance.random_range(2..=6);
        Self {
            arrives: chance.random_range(0..45 * SECOND),
            size,
            min: chance.random_range(1..=size),
            cores: chance.random_range(1..=5),
            runs: chance.random_range(2 * SECOND..30 * SECOND),
            high: chance.random_bool(0.25),
            limited: chance.random_bool(0.3),
        }
    }
}

impl Fault {
    fn draw(chance: &mut impl Rng, nodes: usize, gangs: &[Gang], schedulers: usize) -> Self {
        let at = chance.random_range(0..50 * SECOND);
        let lasts = chance.random_range(SECOND / 10..(CALM_AFTER - at).min(20 * SECOND));
        let scheduler = chance.random_range(0..schedulers);
        let watched = Watched::ALL[chance.random_range(0..Watched::ALL.len())];
        let kind = match chance.random_range(0..17) {
            0 | 1 => FaultKind::WatchBreaks(scheduler, watched),
            2 => FaultKind::WatchExpires(scheduler, watched),
            3 => FaultKind::ListExpires(scheduler, watched),
            4 => FaultKind::WatchLags(scheduler, watched),
            5 => FaultKind::WatchDoubles(scheduler, watched),
            6..=9 => FaultKind::Answers(ANSWERS[chance.random_range(0..ANSWERS.len())]),
            10 => FaultKind::NodeDies(chance.random_range(0..nodes)),
            11 => FaultKind::KubeletRejects(chance.random_range(0..nodes)),
            12 => {
                let gang = chance.random_range(0..gangs.len());
                FaultKind::PodDeleted(gang, chance.random_range(0..gangs[gang].size))
            }
            13 => FaultKind::Crash(scheduler),
            14 => FaultKind::Pause(scheduler),
            15 => FaultKind::ClockSet(scheduler, chance.random_range(-7200..7200)),
            _ => FaultKind::Reload(chance.random_range(0..2)),
        };
        Self { at, lasts, kind }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} schedulers, nodes with cores {:?}", self.seed, self.schedulers, self.nodes)?;
        writeln!(f, "queue limited may use {} cores", self.limit)?;
        for (index, gang) in self.gangs.iter().enumerate().filter(|(_, gang)| gang.size > 0) {
            writeln!(
                f,
                "{} gang-{index} arrives: {} pods of {} cores, minMember {}, each runs {}{}{}",
                time(gang.arrives),
                gang.size,
                gang.cores,
                gang.min,
                time(gang.runs).trim(),
                if gang.high { ", priority high" } else { "" },
                if gang.limited { ", queue limited" } else { "" },
            )?;
        }
        for Fault { at, lasts, kind } in &self.faults {
            writeln!(f, "{} for {}: {kind}", time(*at), time(*lasts).trim())?;
        }
        Ok(())
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WatchBreaks(who, kind) => write!(f, "scheduler {who} has no watch of {}", kind.plural()),
            Self::WatchExpires(who, kind) => {
                write!(f, "scheduler {who} has no watch of {} and must list again", kind.plural())
            }
            Self::ListExpires(who, kind) => {
                write!(f, "scheduler {who} must list {} again, and the second page is gone", kind.plural())
            }
            Self::WatchLags(who, kind) => {
                write!(f, "changes of {} reach scheduler {who} late", kind.plural())
            }
            Self::WatchDoubles(who, kind) => {
                write!(f, "changes of {} reach scheduler {who} twice", kind.plural())
            }
            Self::Answers(answer) => write!(f, "some requests are answered by {answer:?}"),
            Self::NodeDies(node) => write!(f, "node-{node} is gone with its pods"),
            Self::KubeletRejects(node) => write!(f, "the kubelet of node-{node} rejects pods"),
            Self::PodDeleted(gang, pod) => write!(f, "pod gang-{gang}-{pod} is deleted"),
            Self::Crash(who) => write!(f, "scheduler {who} is killed"),
            Self::Pause(who) => write!(f, "scheduler {who} is stopped"),
            Self::ClockSet(who, by) => write!(f, "the clock of scheduler {who} is set by {by} s"),
            Self::Reload(conf) => write!(f, "scheduler.conf {conf} takes effect"),
        }
    }
}

/// A time as seconds.
pub fn time(at: Micros) -> String {
    format!("{:>9.3} s", at as f64 / 1e6)
}
