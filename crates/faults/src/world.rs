//! A run: a story played in virtual time. Everything that happens comes from one queue, by time and then in the order
//! in which it was planned, so a seed has one outcome.
mod election;
mod faults;
mod nodes;
mod words;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Result;
use http::StatusCode;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use phalanx_runtime::lease::Record;

use crate::checks::{Checks, Violation};
use crate::clocks::Clocks;
use crate::gangs;
use crate::planted::Planted;
use crate::process::{Outgoing, Process, REQUEST_TIMEOUT, Returned, Start, identity, response};
use crate::server::{Effect, Server, failure};
use crate::story::{
    Answer, CALM_AFTER, FaultKind, KINDS, Micros, Role, SECOND, Share, Story, Watched, process_name, time,
};

/// A run ends when all pods have ended, and no pod and no Job has changed for so long.
const STILL: Micros = 60 * SECOND;
/// A run that goes on for so long does not end.
const ENDLESS: Micros = 900 * SECOND;
/// When a late request is carried out at the latest: its client waits for the answer still.
const LATEST: Micros = 14 * SECOND;
/// Until when garbage is collected: the controllers have seen each deletion by then.
const COLLECTED: Micros = CALM_AFTER + 40 * SECOND;
/// When the first spare gang may arrive, and the time from one to the next.
const SPARE_FROM: Micros = 25 * SECOND;
const BETWEEN_SPARE: Micros = 7 * SECOND;
/// In the calm, kubelets write the statuses of their nodes once no more events than this are missing.
const FROM_KUBELETS: u64 = 40;
/// The time from one status of a node to the next.
const BETWEEN_REPORTS: Micros = 2 * SECOND;

/// Something that happens at its time.
#[derive(Debug)]
enum Happening {
    /// The PodGroup or the Job of a gang is created.
    GangArrives(usize),
    /// The next spare gang arrives, or kubelets write, if little has happened.
    Spare(usize),
    /// The kubelet of a node writes its status.
    NodeReported(usize),
    /// A pod of a gang is created by the user, unless it is there or has done its work.
    PodArrives(usize, usize),
    /// A fault begins.
    Begins(usize),
    /// A fault ends.
    Ends(usize),
    /// The kubelet sees the pod with this name and UID.
    Starts(String, String),
    /// The pod with this name and UID has done its work.
    Finishes(String, String),
    /// The pod with this name and UID is gone.
    Removed(String, String),
    /// What is left of a deleted gang is collected.
    Collect(usize),
    /// A request of a process arrives at the API server.
    Request(usize, usize, Box<Outgoing>),
    /// A request that arrived seconds ago is carried out.
    LateRequest(usize, usize, Box<Outgoing>),
    /// An answer arrives at a process.
    Answer(usize, usize, Box<(Outgoing, Returned)>),
    /// Changes of a kind up to a version arrive at a process.
    Changes(usize, usize, Watched, u64),
    /// The first page of a list arrives.
    FirstPage(usize, usize, Watched),
    /// The second page of a list arrives, unless it is gone.
    SecondPage(usize, usize, Watched),
    /// A process has something to do because time has passed.
    Wake(usize, usize),
    /// A step of a campaign for the lease.
    Lease(usize, usize, election::Step),
    /// A process is started.
    Start(usize),
}

struct Due {
    at: Micros,
    number: u64,
    what: Happening,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What was wrong; nothing if all held.
    pub violation: Option<Violation>,
    /// What happened, campaigns for the lease apart.
    pub events: u64,
    /// Pods that were evicted.
    pub evictions: u64,
    /// Of the times and kinds of all changes; with [`Options::tell`] also of the objects.
    pub fingerprint: u64,
    /// One line for each thing that happened, if that was asked for.
    pub told: Vec<String>,
}

/// How a run is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A bug to plant.
    pub bug: Option<Planted>,
    /// Keep a line for each thing that happens.
    pub tell: bool,
}

/// Plays a story.
pub fn run(story: &Story, options: Options) -> Result<Outcome> {
    let mut world = World::new(story, options);
    let violation = world.play()?;
    let World { events, evictions, fingerprint, told, .. } = world;
    Ok(Outcome { violation, events, evictions, fingerprint: fingerprint.finish(), told })
}

struct World<'a> {
    story: &'a Story,
    options: Options,
    clocks: Clocks,
    chance: Pcg64,
    queue: BinaryHeap<Reverse<Due>>,
    planned: u64,
    server: Server,
    /// The processes; absent while one is down.
    processes: Vec<Option<Process>>,
    lives: Vec<usize>,
    /// When each process is woken next, so that one wake is planned once.
    wakes: Vec<Option<Micros>>,
    /// Faults that have begun and not ended.
    active: Vec<usize>,
    conf: usize,
    /// Pods that have done their work, by gang.
    finished: Vec<Vec<bool>>,
    checks: Checks,
    last_change: Micros,
    /// When the last pod that runs is to end.
    busy_until: Micros,
    /// The changes that watches were told of, by kind.
    told_of: [usize; KINDS],
    events: u64,
    evictions: u64,
    fingerprint: DefaultHasher,
    told: Vec<String>,
}

impl<'a> World<'a> {
    fn new(story: &'a Story, options: Options) -> Self {
        let mut world = Self {
            story,
            options,
            clocks: Clocks::new(),
            chance: Pcg64::seed_from_u64(story.seed),
            queue: BinaryHeap::new(),
            planned: 0,
            server: Server::default(),
            processes: Vec::new(),
            lives: vec![0; story.processes()],
            wakes: vec![None; story.processes()],
            active: Vec::new(),
            conf: 0,
            finished: story.gangs.iter().map(|gang| vec![false; gang.size]).collect(),
            checks: Checks::new(story),
            last_change: 0,
            busy_until: 0,
            told_of: [0; KINDS],
            events: 0,
            evictions: 0,
            fingerprint: DefaultHasher::new(),
            told: Vec::new(),
        };
        world.processes.resize_with(story.processes(), || None);
        world.set_up();
        world
    }

    fn set_up(&mut self) {
        gangs::queues(&mut self.server, self.story.limit, self.story.deserved);
        for (node, cores) in self.story.nodes.iter().enumerate() {
            gangs::node(&mut self.server, node, *cores, true, 0);
        }
        for who in 0..self.story.processes() {
            self.plan(who as Micros * SECOND, Happening::Start(who));
        }
        let first_spare = self.story.first_spare();
        for (index, gang) in self.story.gangs[..first_spare].iter().enumerate() {
            self.plan(gang.arrives, Happening::GangArrives(index));
        }
        self.plan(SPARE_FROM, Happening::Spare(first_spare));
        for (index, fault) in self.story.faults.iter().enumerate() {
            self.plan(fault.at, Happening::Begins(index));
            self.plan(fault.at + fault.lasts, Happening::Ends(index));
        }
    }

    fn now(&self) -> Micros {
        self.clocks.now()
    }

    fn plan(&mut self, at: Micros, what: Happening) {
        self.planned += 1;
        self.queue.push(Reverse(Due { at, number: self.planned, what }));
    }

    fn plan_in(&mut self, range: std::ops::Range<Micros>, what: Happening) {
        let at = self.now() + self.chance.random_range(range);
        self.plan(at, what);
    }

    fn tell(&mut self, text: impl FnOnce() -> String) {
        if self.options.tell {
            self.told.push(format!("{} {}", time(self.now()), text()));
        }
    }

    fn play(&mut self) -> Result<Option<Violation>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        // Requests have time limits on the clock of this runtime, which nobody drives: the simulation ends them itself.
        let _guard = runtime.enter();
        while let Some(Reverse(due)) = self.queue.pop() {
            self.clocks.set(due.at.max(self.now()));
            self.server.now = self.now();
            if self.now() > ENDLESS {
                return Ok(Some(Violation::new(self.now(), "pods change without an end")));
            }
            self.checks.when_still(&self.server, self.last_change, self.now());
            // Campaigns for the lease, more than half of all happenings, change no object that is watched or checked.
            let campaigns = matches!(due.what, Happening::Lease(..));
            self.happen(due.what)?;
            if campaigns && !self.is_over() {
                continue;
            }
            self.tell_watches();
            if let Some(violation) = self.checks.always(&self.server, self.now()) {
                return Ok(Some(violation));
            }
            if self.is_over() {
                return Ok(self.checks.at_the_end(&self.server, self.now(), self.processes.iter().flatten()));
            }
        }
        Ok(Some(Violation::new(self.now(), "nothing happens any more, not even a renewal of the lease")))
    }

    fn is_over(&self) -> bool {
        self.now() > self.last_change.max(self.busy_until).max(CALM_AFTER) + STILL
    }

    fn happen(&mut self, what: Happening) -> Result<()> {
        if self.is_outdated(&what) {
            return Ok(());
        }
        if let Some((who, life)) = what.addressee() {
            let Some(process) = self.processes[who].as_ref().filter(|it| it.life == life) else {
                return Ok(());
            };
            if process.paused_until > self.now() {
                self.plan(process.paused_until, what);
                return Ok(());
            }
        }
        if let Some(answers) = what.pod_of_kubelet().and_then(|pod| self.silent_until(pod)) {
            self.plan(answers, what);
            return Ok(());
        }
        if !matches!(what, Happening::Lease(..) | Happening::Spare(_) | Happening::Collect(_)) {
            self.events += 1;
        }
        match what {
            Happening::GangArrives(index) => self.gang_arrives(index),
            Happening::Spare(index) => self.spare(index),
            Happening::NodeReported(node) => self.node_reported(node),
            Happening::PodArrives(gang, number) => self.pod_arrives(gang, number),
            Happening::Begins(index) => self.begins(index)?,
            Happening::Ends(index) => self.ends(index)?,
            Happening::Starts(pod, uid) => self.starts(&pod, &uid),
            Happening::Finishes(pod, uid) => self.finishes(&pod, &uid),
            Happening::Removed(pod, uid) => self.removed(&pod, &uid),
            Happening::Collect(gang) => self.collect(gang),
            Happening::Request(who, life, outgoing) => self.request(who, life, *outgoing)?,
            Happening::LateRequest(who, life, outgoing) => self.late_request(who, life, *outgoing)?,
            Happening::Answer(who, _, answer) => {
                let (outgoing, answer) = *answer;
                // A process that gave up the request does not wait any more.
                let _ = outgoing.reply.send(answer);
                self.step(who);
            }
            Happening::Changes(who, _, kind, until) => self.changes(who, kind, until)?,
            Happening::FirstPage(who, _, kind) => self.first_page(who, kind)?,
            Happening::SecondPage(who, _, kind) => self.second_page(who, kind)?,
            Happening::Wake(who, _) => {
                self.wakes[who] = None;
                self.step(who);
            }
            Happening::Lease(who, _, step) => self.campaign(who, step),
            Happening::Start(who) => self.start(who)?,
        }
        Ok(())
    }

    /// A wake in whose place an earlier one was planned.
    fn is_outdated(&self, what: &Happening) -> bool {
        matches!(what, Happening::Wake(who, _) if self.wakes[*who].is_none_or(|at| at > self.now()))
    }

    fn start(&mut self, who: usize) -> Result<()> {
        if self.processes[who].is_some() {
            return Ok(());
        }
        self.lives[who] += 1;
        let life = self.lives[who];
        let role = self.story.role(who);
        let process = Process::start(&Start {
            index: who,
            role,
            life,
            seed: self.story.seed,
            nodes: self.story.nodes.len(),
            clocks: self.clocks.of_process(),
            conf: self.conf,
            limits: self.story.limits,
            bug: self.options.bug,
        })?;
        self.processes[who] = Some(process);
        self.wakes[who] = None;
        let name = process_name(self.story, who);
        self.tell(|| format!("process {name} starts"));
        // Controllers begin to read when they lead.
        if role == Role::Scheduler {
            self.read_all(who);
        }
        self.plan_in(10_000..500_000, Happening::Lease(who, life, election::Step::Begin));
        Ok(())
    }

    /// The watches of a process begin.
    fn read_all(&mut self, who: usize) {
        let Some(life) = self.processes[who].as_ref().map(|process| process.life) else { return };
        for kind in Watched::of(self.story.role(who)).iter().copied() {
            self.plan_in(10_000..200_000, Happening::FirstPage(who, life, kind));
        }
    }

    /// Lets a process do what it can do now.
    fn step(&mut self, who: usize) {
        let Some(process) = &mut self.processes[who] else { return };
        let (sent, life) = (process.step(), process.life);
        for decided in process.take_decided() {
            self.checks.decided(&decided, &self.server, self.clocks.now());
        }
        let wake = process.wake();
        for outgoing in sent {
            let leads = leads(&self.server, self.processes[who].as_ref());
            self.checks.sent(who, &outgoing.request, leads, self.clocks.now());
            self.plan_in(1_000..50_000, Happening::Request(who, life, Box::new(outgoing)));
            if self.dies(who) {
                return self.kill(who);
            }
        }
        if let Some(at) = wake {
            self.wake_at(who, at);
        }
    }

    /// Plans a wake of a process, unless an earlier one is planned.
    fn wake_at(&mut self, who: usize, at: Micros) {
        let Some(life) = self.processes[who].as_ref().map(|process| process.life) else { return };
        if self.wakes[who].is_none_or(|planned| at < planned) {
            // Something due now that could not be done waits for time to pass.
            let at = at.max(self.now() + 1);
            self.wakes[who] = Some(at);
            self.plan(at, Happening::Wake(who, life));
        }
    }

    /// Whether a process is killed with the request that it has just sent.
    fn dies(&mut self, who: usize) -> bool {
        let left = self.processes[who].as_mut().and_then(|process| process.dies_with.as_mut());
        left.is_some_and(|left| {
            *left -= 1;
            *left == 0
        })
    }

    /// A request arrives: it is carried out, or what the active fault makes of it. Of a process that was killed, half of
    /// the requests do not arrive.
    fn request(&mut self, who: usize, life: usize, outgoing: Outgoing) -> Result<()> {
        let lives = self.processes[who].as_ref().is_some_and(|process| process.life == life);
        if !lives && self.chance.random_bool(0.5) {
            return Ok(());
        }
        let answer = self.answer_of_fault();
        let request = &outgoing.request;
        let applies = !matches!(answer, Some(Answer::Conflict)) || request.uri().path().ends_with("/status");
        let answer = answer.filter(|_| applies);
        self.tell(|| {
            let what = answer.map_or(String::new(), |answer| format!(" [{answer}]"));
            format!("process {who} {}{what}", words::words(request))
        });
        if answer == Some(Answer::Late) {
            self.plan_in(SECOND..LATEST, Happening::LateRequest(who, life, Box::new(outgoing)));
            return Ok(());
        }
        self.answer(who, life, outgoing, answer)
    }

    /// A request is carried out seconds after it arrived.
    fn late_request(&mut self, who: usize, life: usize, outgoing: Outgoing) -> Result<()> {
        self.tell(|| format!("process {who} {} [late]", words::words(&outgoing.request)));
        self.answer(who, life, outgoing, None)
    }

    fn answer(&mut self, who: usize, life: usize, outgoing: Outgoing, answer: Option<Answer>) -> Result<()> {
        let carried_out = matches!(answer, None | Some(Answer::DoneTrouble | Answer::ReplyLost));
        let done = if carried_out { Some(self.server.handle(&outgoing.request)?) } else { None };
        let mut own = None;
        if let Some((status, body, effect)) = done {
            self.took_effect(who, life, effect);
            own = Some(response(status, body));
        }
        let back = match answer {
            None | Some(Answer::Late) => own,
            Some(answer) => refusal(answer),
        };
        if let Some(back) = back {
            self.plan_in(1_000..50_000, Happening::Answer(who, life, Box::new((outgoing, back))));
        } else {
            let at = self.now() + REQUEST_TIMEOUT;
            let silence = (outgoing, Err("no answer".into()));
            self.plan(at, Happening::Answer(who, life, Box::new(silence)));
        }
        Ok(())
    }

    /// Whether another process than the one that had this life holds the lease.
    fn another_leads(&self, who: usize, life: usize) -> bool {
        let (lease, _) = &self.server.leases[self.story.role(who) as usize];
        lease.as_ref().is_some_and(|lease| lease.holder != identity(who, life))
    }

    /// Half of the requests, or all, meet the fault that is active.
    fn answer_of_fault(&mut self) -> Option<Answer> {
        let mut answers = self.active.iter().filter_map(|index| match self.story.faults[*index].kind {
            FaultKind::Answers(answer, share) => Some((answer, share)),
            _ => None,
        });
        let (answer, share) = answers.next_back()?;
        (share == Share::All || self.chance.random_bool(0.5)).then_some(answer)
    }

    fn took_effect(&mut self, who: usize, life: usize, effect: Effect) {
        if matches!(effect, Effect::Bound(_) | Effect::BoundTwice(_)) && self.another_leads(who, life) {
            self.checks.bound_by_former_leader(self.clocks.now());
        }
        self.checks.effect(&effect, who, &self.server, self.clocks.now());
        self.evictions += u64::from(matches!(effect, Effect::Evicted(_)));
        match effect {
            Effect::Bound(pod) => self.bound(&pod),
            Effect::Evicted(pod) | Effect::Deleted(pod) => self.stops(&pod),
            Effect::Other | Effect::BoundTwice(_) | Effect::Admitted(_) | Effect::Queue(_) => {}
        }
    }

    /// Plans when processes hear of what has changed.
    fn tell_watches(&mut self) {
        for kind in Watched::ALL {
            let log = self.server.log(kind);
            if log.len() == self.told_of[kind as usize] {
                continue;
            }
            let news = &log[std::mem::replace(&mut self.told_of[kind as usize], log.len())..];
            if self.options.tell {
                for logged in news {
                    format!("{logged:?}").hash(&mut self.fingerprint);
                }
            }
            if matches!(kind, Watched::Pods | Watched::Jobs) {
                self.last_change = self.clocks.now();
            }
            self.fingerprint.write_u64(self.clocks.now());
            kind.hash(&mut self.fingerprint);
            for who in 0..self.processes.len() {
                if Watched::of(self.story.role(who)).contains(&kind) {
                    self.plan_changes(who, kind);
                }
            }
        }
    }

    fn plan_changes(&mut self, who: usize, kind: Watched) {
        let Some(life) = self.processes[who].as_ref().map(|process| process.life) else { return };
        let until = self.server.version();
        let late = self.is_active(&FaultKind::WatchLags(who, kind));
        let range = if late { SECOND..3 * SECOND } else { 1_000..30_000 };
        self.plan_in(range, Happening::Changes(who, life, kind, until));
    }

    fn is_active(&self, kind: &FaultKind) -> bool {
        self.active.iter().any(|index| self.story.faults[*index].kind == *kind)
    }

    fn changes(&mut self, who: usize, kind: Watched, until: u64) -> Result<()> {
        let times = if self.is_active(&FaultKind::WatchDoubles(who, kind)) { 2 } else { 1 };
        if let Some(process) = &mut self.processes[who] {
            process.watches.follow(kind, &self.server, until, times)?;
        }
        self.step(who);
        Ok(())
    }

    fn first_page(&mut self, who: usize, kind: Watched) -> Result<()> {
        if self.list_fails(who, kind) {
            return Ok(());
        }
        let Some(process) = &mut self.processes[who] else { return Ok(()) };
        process.watches.first_page(kind, &self.server)?;
        let life = process.life;
        self.plan_in(10_000..300_000, Happening::SecondPage(who, life, kind));
        self.step(who);
        Ok(())
    }

    fn second_page(&mut self, who: usize, kind: Watched) -> Result<()> {
        let expired = self.is_active(&FaultKind::ListExpires(who, kind)) && self.chance.random_bool(0.7);
        if expired {
            self.list_again(who, kind, 50_000..200_000);
            return Ok(());
        }
        if self.list_fails(who, kind) {
            return Ok(());
        }
        let Some(process) = &mut self.processes[who] else { return Ok(()) };
        process.watches.second_page(kind, &self.server)?;
        self.step(who);
        Ok(())
    }
}

/// What comes back in place of the API server's answer; nothing where that is lost.
fn refusal(answer: Answer) -> Option<Returned> {
    let (status, message) = match answer {
        Answer::Busy => (StatusCode::TOO_MANY_REQUESTS, "too many requests"),
        Answer::Trouble | Answer::DoneTrouble => (StatusCode::INTERNAL_SERVER_ERROR, "etcd"),
        Answer::Refused => (StatusCode::FORBIDDEN, "forbidden"),
        Answer::Conflict => (StatusCode::CONFLICT, "the object has been modified"),
        Answer::RequestLost | Answer::ReplyLost | Answer::Late => return None,
    };
    let (status, body, _) = failure(status, message);
    Some(response(status, body))
}

/// Whether the lease names this process and has not run out.
fn leads(server: &Server, process: Option<&Process>) -> bool {
    let Some(process) = process else { return false };
    let (lease, renewed) = &server.leases[process.role as usize];
    let lasts = |record: &Record| *renewed + SECOND * u64::from(record.duration_seconds.unsigned_abs());
    lease.as_ref().is_some_and(|it| it.holder == process.lease.identity && server.now < lasts(it))
}

impl Happening {
    /// The pod, if only its kubelet can do this.
    fn pod_of_kubelet(&self) -> Option<&str> {
        match self {
            Self::Starts(pod, _) | Self::Finishes(pod, _) | Self::Removed(pod, _) => Some(pod),
            _ => None,
        }
    }

    /// The process and its life that this is for.
    fn addressee(&self) -> Option<(usize, usize)> {
        match self {
            Self::Answer(who, life, _)
            | Self::Changes(who, life, ..)
            | Self::FirstPage(who, life, _)
            | Self::SecondPage(who, life, _)
            | Self::Wake(who, life)
            | Self::Lease(who, life, _) => Some((*who, *life)),
            _ => None,
        }
    }
}
