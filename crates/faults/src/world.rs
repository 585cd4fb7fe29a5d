//! A run: a story played in virtual time. Everything that happens comes from one queue, by time and then in the order
//! in which it was planned, so a seed has one outcome.
mod election;
mod faults;
mod nodes;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Result;
use http::StatusCode;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::checks::{Checks, Violation};
use crate::clocks::Clocks;
use crate::gangs;
use crate::planted::Planted;
use crate::process::{Outgoing, Process, REQUEST_TIMEOUT, Start, response};
use crate::server::{Effect, Server, failure};
use crate::story::{Answer, CALM_AFTER, FaultKind, Micros, SECOND, Story, Watched, time};

/// A run ends when no pod has changed for so long.
const STILL: Micros = 60 * SECOND;
/// A run that goes on for so long does not end.
const ENDLESS: Micros = 3600 * SECOND;

/// Something that happens at its time.
#[derive(Debug)]
enum Happening {
    /// The PodGroup of a gang is created.
    GangArrives(usize),
    /// A pod of a gang is created, unless it is there or has done its work.
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
    /// A request of a scheduler arrives at the API server.
    Request(usize, usize, Box<Outgoing>),
    /// An answer arrives at a scheduler.
    Answer(usize, usize, Box<(Outgoing, crate::process::Returned)>),
    /// Changes of a kind up to a version arrive at a scheduler.
    Changes(usize, usize, Watched, u64),
    /// The first page of a list arrives.
    FirstPage(usize, usize, Watched),
    /// The second page of a list arrives, unless it is gone.
    SecondPage(usize, usize, Watched),
    /// A scheduler has something to do because time has passed.
    Wake(usize, usize),
    /// A step of a campaign for the lease.
    Lease(usize, usize, election::Step),
    /// A scheduler is started.
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
    /// Differs for runs in which something else happened.
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
    let World { events, fingerprint, told, .. } = world;
    Ok(Outcome { violation, events, fingerprint: fingerprint.finish(), told })
}

struct World<'a> {
    story: &'a Story,
    options: Options,
    clocks: Clocks,
    chance: Pcg64,
    queue: BinaryHeap<Reverse<Due>>,
    planned: u64,
    server: Server,
    /// The schedulers; absent while one is down.
    processes: Vec<Option<Process>>,
    lives: Vec<usize>,
    /// When each scheduler is woken next, so that one wake is planned once.
    wakes: Vec<Option<Micros>>,
    /// Faults that have begun and not ended.
    active: Vec<usize>,
    conf: usize,
    /// Pods that have done their work, by gang.
    finished: Vec<Vec<bool>>,
    checks: Checks,
    last_change: Micros,
    /// The changes that watches were told of, by kind.
    told_of: [usize; 4],
    events: u64,
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
            lives: vec![0; story.schedulers],
            wakes: vec![None; story.schedulers],
            active: Vec::new(),
            conf: 0,
            finished: story.gangs.iter().map(|gang| vec![false; gang.size]).collect(),
            checks: Checks::new(story),
            last_change: 0,
            told_of: [0; 4],
            events: 0,
            fingerprint: DefaultHasher::new(),
            told: Vec::new(),
        };
        world.processes.resize_with(story.schedulers, || None);
        world.set_up();
        world
    }

    fn set_up(&mut self) {
        gangs::queues(&mut self.server, self.story.limit);
        for (node, cores) in self.story.nodes.iter().enumerate() {
            gangs::node(&mut self.server, node, *cores, 0);
        }
        for scheduler in 0..self.story.schedulers {
            self.plan(scheduler as Micros * SECOND, Happening::Start(scheduler));
        }
        for (index, gang) in self.story.gangs.iter().enumerate() {
            self.plan(gang.arrives, Happening::GangArrives(index));
        }
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
            if self.now() > ENDLESS {
                return Ok(Some(Violation::new(self.now(), "pods change without an end")));
            }
            self.happen(due.what)?;
            self.tell_watches();
            if let Some(violation) = self.checks.always(&self.server, self.now()) {
                return Ok(Some(violation));
            }
            if self.now() > self.last_change.max(CALM_AFTER) + STILL {
                return Ok(self.checks.at_the_end(&self.server, self.now(), self.processes.iter().flatten()));
            }
        }
        Ok(Some(Violation::new(self.now(), "nothing happens any more, not even a renewal of the lease")))
    }

    fn happen(&mut self, what: Happening) -> Result<()> {
        if self.is_outdated(&what) {
            return Ok(());
        }
        if let Some((scheduler, life)) = what.addressee() {
            let Some(process) = self.processes[scheduler].as_ref().filter(|it| it.life == life) else {
                return Ok(());
            };
            if process.paused_until > self.now() {
                self.plan(process.paused_until, what);
                return Ok(());
            }
        }
        if !matches!(what, Happening::Lease(..)) {
            self.events += 1;
        }
        match what {
            Happening::GangArrives(index) => self.gang_arrives(index),
            Happening::PodArrives(gang, number) => self.pod_arrives(gang, number),
            Happening::Begins(index) => self.begins(index)?,
            Happening::Ends(index) => self.ends(index)?,
            Happening::Starts(pod, uid) => self.starts(&pod, &uid),
            Happening::Finishes(pod, uid) => self.finishes(&pod, &uid),
            Happening::Removed(pod, uid) => self.removed(&pod, &uid),
            Happening::Request(scheduler, life, outgoing) => self.request(scheduler, life, *outgoing)?,
            Happening::Answer(scheduler, _, answer) => {
                let (outgoing, answer) = *answer;
                // A process that gave up the request does not wait any more.
                let _ = outgoing.reply.send(answer);
                self.step(scheduler);
            }
            Happening::Changes(scheduler, _, kind, until) => self.changes(scheduler, kind, until)?,
            Happening::FirstPage(scheduler, _, kind) => self.first_page(scheduler, kind)?,
            Happening::SecondPage(scheduler, _, kind) => self.second_page(scheduler, kind)?,
            Happening::Wake(scheduler, _) => {
                self.wakes[scheduler] = None;
                self.step(scheduler);
            }
            Happening::Lease(scheduler, _, step) => self.campaign(scheduler, step),
            Happening::Start(scheduler) => self.start(scheduler)?,
        }
        Ok(())
    }

    /// A wake in whose place an earlier one was planned.
    fn is_outdated(&self, what: &Happening) -> bool {
        matches!(what, Happening::Wake(scheduler, _) if self.wakes[*scheduler].is_none_or(|at| at > self.now()))
    }

    fn start(&mut self, scheduler: usize) -> Result<()> {
        if self.processes[scheduler].is_some() {
            return Ok(());
        }
        self.lives[scheduler] += 1;
        let life = self.lives[scheduler];
        let process = Process::start(&Start {
            index: scheduler,
            life,
            seed: self.story.seed,
            nodes: self.story.nodes.len(),
            clocks: self.clocks.of_process(),
            conf: self.conf,
            bug: self.options.bug,
        })?;
        self.processes[scheduler] = Some(process);
        self.wakes[scheduler] = None;
        self.tell(|| format!("scheduler {scheduler} starts"));
        for kind in Watched::ALL {
            self.plan_in(10_000..200_000, Happening::FirstPage(scheduler, life, kind));
        }
        self.plan_in(10_000..500_000, Happening::Lease(scheduler, life, election::Step::Begin));
        Ok(())
    }

    /// Lets a scheduler do what it can do now.
    fn step(&mut self, scheduler: usize) {
        let Some(process) = &mut self.processes[scheduler] else { return };
        let (sent, life) = (process.step(), process.life);
        let wake = process.wake();
        for outgoing in sent {
            let leads = leads(&self.server, self.processes[scheduler].as_ref());
            self.checks.sent(scheduler, &outgoing.request, leads, self.clocks.now());
            self.plan_in(1_000..50_000, Happening::Request(scheduler, life, Box::new(outgoing)));
        }
        if let Some(at) = wake
            && self.wakes[scheduler].is_none_or(|planned| at < planned)
        {
            // Something due now that could not be done waits for time to pass.
            let at = at.max(self.now() + 1);
            self.wakes[scheduler] = Some(at);
            self.plan(at, Happening::Wake(scheduler, life));
        }
    }

    /// A request arrives: it is carried out, or what the fault of the hour makes of it.
    fn request(&mut self, scheduler: usize, life: usize, outgoing: Outgoing) -> Result<()> {
        let answer = self.answer_of_fault();
        let request = &outgoing.request;
        let applies = !matches!(answer, Some(Answer::Conflict)) || request.uri().path().ends_with("/status");
        let answer = answer.filter(|_| applies);
        self.tell(|| {
            let what = answer.map_or(String::new(), |answer| format!(" ({answer:?})"));
            let body = String::from_utf8_lossy(request.body()).into_owned();
            format!("scheduler {scheduler}: {} {}{what} {body}", request.method(), request.uri().path())
        });
        let carried_out = matches!(answer, None | Some(Answer::DoneTrouble | Answer::ReplyLost));
        let (status, body, effect) =
            if carried_out { self.server.handle(request)? } else { failure(StatusCode::OK, "") };
        self.took_effect(scheduler, effect);
        let refused = |status, message: &str| {
            Some(failure(status, message)).map(|(status, body, _)| response(status, &body))
        };
        let back = match answer {
            None => Some(response(status, &body)),
            Some(Answer::Busy) => refused(StatusCode::TOO_MANY_REQUESTS, "too many requests"),
            Some(Answer::Trouble | Answer::DoneTrouble) => refused(StatusCode::INTERNAL_SERVER_ERROR, "etcd"),
            Some(Answer::Refused) => refused(StatusCode::FORBIDDEN, "forbidden"),
            Some(Answer::Conflict) => refused(StatusCode::CONFLICT, "the object has been modified"),
            Some(Answer::RequestLost | Answer::ReplyLost) => None,
        };
        if let Some(back) = back {
            self.plan_in(1_000..50_000, Happening::Answer(scheduler, life, Box::new((outgoing, back))));
        } else {
            let at = self.now() + REQUEST_TIMEOUT;
            let silence = (outgoing, Err("no answer".into()));
            self.plan(at, Happening::Answer(scheduler, life, Box::new(silence)));
        }
        Ok(())
    }

    /// Half of the requests meet the fault of the hour.
    fn answer_of_fault(&mut self) -> Option<Answer> {
        let mut answers = self.active.iter().filter_map(|index| match self.story.faults[*index].kind {
            FaultKind::Answers(answer) => Some(answer),
            _ => None,
        });
        let answer = answers.next_back()?;
        self.chance.random_bool(0.5).then_some(answer)
    }

    fn took_effect(&mut self, scheduler: usize, effect: Effect) {
        self.checks.effect(&effect, scheduler, &self.server, self.clocks.now());
        match effect {
            Effect::Bound(pod) => self.bound(&pod),
            Effect::Evicted(pod) => self.evicted(&pod),
            Effect::Other | Effect::BoundTwice(_) => {}
        }
    }

    /// Plans when schedulers hear of what has changed.
    fn tell_watches(&mut self) {
        for kind in Watched::ALL {
            let log = self.server.log(kind);
            if log.len() == self.told_of[kind as usize] {
                continue;
            }
            self.told_of[kind as usize] = log.len();
            if kind == Watched::Pods {
                self.last_change = self.clocks.now();
            }
            self.fingerprint.write_u64(self.clocks.now());
            kind.hash(&mut self.fingerprint);
            for scheduler in 0..self.processes.len() {
                self.plan_changes(scheduler, kind);
            }
        }
    }

    fn plan_changes(&mut self, scheduler: usize, kind: Watched) {
        let Some(life) = self.processes[scheduler].as_ref().map(|process| process.life) else { return };
        let until = self.server.version();
        let late = self.is_active(&FaultKind::WatchLags(scheduler, kind));
        let range = if late { SECOND..3 * SECOND } else { 1_000..30_000 };
        self.plan_in(range, Happening::Changes(scheduler, life, kind, until));
    }

    fn is_active(&self, kind: &FaultKind) -> bool {
        self.active.iter().any(|index| self.story.faults[*index].kind == *kind)
    }

    fn changes(&mut self, scheduler: usize, kind: Watched, until: u64) -> Result<()> {
        let times = if self.is_active(&FaultKind::WatchDoubles(scheduler, kind)) { 2 } else { 1 };
        if let Some(process) = &mut self.processes[scheduler] {
            process.watches.follow(kind, &self.server, until, times)?;
        }
        self.step(scheduler);
        Ok(())
    }

    fn first_page(&mut self, scheduler: usize, kind: Watched) -> Result<()> {
        let Some(process) = &mut self.processes[scheduler] else { return Ok(()) };
        process.watches.first_page(kind, &self.server)?;
        let life = process.life;
        self.plan_in(10_000..300_000, Happening::SecondPage(scheduler, life, kind));
        self.step(scheduler);
        Ok(())
    }

    fn second_page(&mut self, scheduler: usize, kind: Watched) -> Result<()> {
        let expired =
            self.is_active(&FaultKind::ListExpires(scheduler, kind)) && self.chance.random_bool(0.7);
        let Some(process) = &mut self.processes[scheduler] else { return Ok(()) };
        if expired {
            let life = process.life;
            self.plan_in(50_000..200_000, Happening::FirstPage(scheduler, life, kind));
            return Ok(());
        }
        process.watches.second_page(kind, &self.server)?;
        self.step(scheduler);
        Ok(())
    }
}

/// Whether the lease names this process.
fn leads(server: &Server, process: Option<&Process>) -> bool {
    let identity = process.map(|process| process.lease.identity.as_str());
    server.lease.as_ref().is_some_and(|record| Some(record.holder.as_str()) == identity)
}

impl Happening {
    /// The scheduler and its life that this is for.
    fn addressee(&self) -> Option<(usize, usize)> {
        match self {
            Self::Answer(scheduler, life, _)
            | Self::Changes(scheduler, life, ..)
            | Self::FirstPage(scheduler, life, _)
            | Self::SecondPage(scheduler, life, _)
            | Self::Wake(scheduler, life)
            | Self::Lease(scheduler, life, _) => Some((*scheduler, *life)),
            _ => None,
        }
    }
}
