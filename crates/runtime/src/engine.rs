//! The scheduling thread: the Cluster, the scheduler, and when a cycle runs.
mod requests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Event, Time};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_framework::conf::Conf;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tracing::{debug, info};

use crate::api::Notes;
use crate::clock::CycleClock;
use crate::journal::{Journal, NoCapture, Recording, Wanted};
use crate::outbox::driver;
use crate::server::Health;
use crate::telemetry::Telemetry;
pub use requests::{SnapshotRequests, Taken};

/// What the thread is told.
#[derive(Debug)]
pub enum Input {
    /// Changes, in order.
    Events(Vec<Event>),
    /// The first list of a kind is complete.
    Synced(&'static str),
    /// A new configuration, for the next cycle, and its text.
    Conf(Box<Conf>, Arc<str>),
    /// This process leads: cycles may run.
    Lead,
    /// Somebody asks why a job waits; to be told what there is, or `None` where this process does not decide.
    Snapshot(oneshot::Sender<Option<Taken>>),
    /// Somebody wants the journal so far; to be told where it is written.
    Journal(Wanted, oneshot::Sender<Result<Recording, NoCapture>>),
    /// Somebody reads the metrics; to be told once those of queues and jobs are fresh.
    Scraped(oneshot::Sender<()>),
    /// No more cycles.
    Stop,
}

/// What came of waiting.
enum Waited {
    Input(Input),
    /// A cycle is due.
    Due,
    /// All senders of inputs are gone.
    End,
}

/// The part of the window that a change waits if a whole window without changes came before.
const ALONE: u32 = 8;

/// The first change that no cycle has seen.
#[derive(Clone, Copy, Debug)]
struct Changed {
    at: Instant,
    window: Duration,
}

/// When the next cycle runs: a short while after the first change, so that changes that come together are decided
/// together and cycles do not take all processor time. A change after a lull hardly waits: most often no other follows,
/// and if it is the first of many, the others have the whole window.
#[derive(Clone, Debug)]
pub struct Pace {
    window: Duration,
    period: Duration,
    changed: Option<Changed>,
    last: Option<Instant>,
    rest: Option<Instant>,
    wake: Option<Instant>,
}

impl Pace {
    /// `window` is waited after the first change, an eighth of it after a window without changes; `period` is the
    /// longest wait.
    pub fn new(window: Duration, period: Duration) -> Self {
        Self { window: window.min(period), period, changed: None, last: None, rest: None, wake: None }
    }

    /// Something changed.
    pub fn changed(&mut self, now: Instant) {
        let lull = self.last.is_none_or(|last| now.saturating_duration_since(last) >= self.window);
        self.last = Some(now);
        let window = if lull { self.window / ALONE } else { self.window };
        self.changed.get_or_insert(Changed { at: now, window });
    }

    /// A cycle could decide something new at this time, also without a change.
    pub fn wake_at(&mut self, wake: Option<Instant>) {
        self.wake = wake;
    }

    /// When a cycle is due; `None` while nothing changed and time changes nothing.
    pub fn due(&self) -> Option<Instant> {
        let first = [self.changed.map(|changed| changed.at + changed.window), self.wake]
            .into_iter()
            .flatten()
            .min()?;
        let since = self.changed.map_or(first, |changed| changed.at);
        let rested = self.rest.map_or(first, |rest| rest.min(since + self.period));
        Some(first.max(rested))
    }

    /// How long inputs need not wake the thread: a cycle is due because of a change, and all inputs until then are
    /// folded in at once. Never longer than the window.
    pub fn nap(&self, now: Instant) -> Option<Duration> {
        self.changed?;
        let left = self.due()?.saturating_duration_since(now).min(self.window);
        (!left.is_zero()).then_some(left)
    }

    /// A cycle starts.
    pub fn started(&mut self) {
        self.changed = None;
        self.wake = None;
    }

    /// A cycle ended: the thread rests as long as it took, so cycles use half of a core at most.
    pub fn ended(&mut self, now: Instant, took: Duration) {
        self.rest = Some(now + took);
    }
}

/// Owns the Cluster. Runs on a thread of its own, never on a worker of the async runtime.
pub struct Engine {
    /// All that is known.
    pub cluster: Cluster,
    /// The rules.
    pub scheduler: Scheduler,
    /// When cycles run.
    pub pace: Pace,
    /// Kinds whose first list is not complete: the first cycle never sees half a cluster.
    pub waits_for: BTreeSet<&'static str>,
    /// What happens.
    pub inputs: Receiver<Input>,
    /// Where decisions go.
    pub outbox: UnboundedSender<driver::Input>,
    /// What is measured of this thread.
    pub telemetry: Telemetry,
    /// Readiness, and the pulse of this thread.
    pub health: Arc<Health>,
    /// This process leads.
    pub leads: bool,
    /// The time of cycles.
    pub clock: CycleClock,
    /// What is told of inputs and decisions.
    pub journal: Journal,
    /// Tells the API what was decided.
    pub notes: Notes,
    /// Who asked for a snapshot since the last one was made.
    pub asked: SnapshotRequests,
}

impl Engine {
    /// Runs until [`Input::Stop`] or until all senders of inputs are gone.
    pub fn run(mut self) {
        self.begin();
        loop {
            self.hand_out_snapshot();
            self.health.pulse.rest();
            let waited = self.wait();
            self.health.pulse.work();
            let goes_on = match waited {
                Waited::Input(input) => self.take_in(input),
                Waited::Due => self.drain(),
                Waited::End => false,
            };
            if !goes_on {
                break;
            }
            if !self.cycle_if_due() {
                break;
            }
        }
        debug!("scheduling thread ends");
    }

    /// What precedes the first input.
    fn begin(&mut self) {
        self.telemetry.metrics.leads(self.leads);
        self.scheduler.set_trace(self.telemetry.trace());
        self.cluster.stand_by(!self.leads);
        self.journal.standby(!self.leads);
    }

    /// For a simulation, which has no thread for this: an engine that has taken in nothing yet.
    pub fn begun(mut self) -> Self {
        self.begin();
        self
    }

    /// For a simulation: takes in all inputs that have arrived, and runs a cycle if one is due. False for the end.
    pub fn step(&mut self) -> bool {
        self.drain() && self.cycle_if_due()
    }

    /// When the next cycle is due; `None` while inputs have to come first.
    pub fn due(&self) -> Option<Instant> {
        self.pace.due().filter(|_| self.may_run())
    }

    /// False for the end.
    fn cycle_if_due(&mut self) -> bool {
        if self.due().is_none_or(|due| due > self.clock.instant()) {
            return true;
        }
        let goes_on = self.drain();
        if goes_on {
            self.cycle();
        }
        goes_on
    }

    fn may_run(&self) -> bool {
        self.leads && self.waits_for.is_empty()
    }

    fn wait(&self) -> Waited {
        let Some(due) = self.due() else { return self.inputs.recv().map_or(Waited::End, Waited::Input) };
        // Receiving would wake this thread for every change of a burst, which costs more than the changes.
        if let Some(nap) = self.pace.nap(self.clock.instant()) {
            std::thread::sleep(nap);
            return Waited::Due;
        }
        match self.inputs.recv_timeout(due.saturating_duration_since(self.clock.instant())) {
            Ok(input) => Waited::Input(input),
            Err(RecvTimeoutError::Timeout) => Waited::Due,
            Err(RecvTimeoutError::Disconnected) => Waited::End,
        }
    }

    /// False for the end.
    fn take_in(&mut self, input: Input) -> bool {
        self.health.pulse.work();
        match input {
            Input::Events(events) => self.apply(events),
            Input::Synced(kind) => self.synced(kind),
            Input::Conf(conf, text) => {
                self.journal.conf(&text);
                self.scheduler.set_conf(*conf);
                self.pace.changed(self.clock.instant());
            }
            Input::Lead => {
                self.leads = true;
                self.cluster.stand_by(false);
                self.journal.standby(false);
                self.telemetry.metrics.leads(true);
                self.pace.changed(self.clock.instant());
            }
            Input::Scraped(tell) => self.scraped(tell),
            Input::Snapshot(tell) => self.asked.add(tell, self.clock.instant()),
            Input::Journal(wanted, tell) => self.journal.hand_out(wanted, tell),
            Input::Stop => return false,
        }
        true
    }

    fn apply(&mut self, mut events: Vec<Event>) {
        let gone: Vec<Event> = events.iter().filter(|event| is_gone(event)).cloned().collect();
        if !gone.is_empty() {
            self.send(driver::Input::Gone(gone));
        }
        for event in &mut events {
            if let Event::NodeUsage(usage) = event {
                self.clock.take_in(usage);
            }
        }
        self.journal.events(&events);
        let mut changed = false;
        for event in events {
            changed |= self.cluster.apply(event);
        }
        if changed {
            self.pace.changed(self.clock.instant());
        }
    }

    /// Who does not lead has no figures: those of the leader count.
    fn scraped(&mut self, tell: oneshot::Sender<()>) {
        if self.leads {
            let now = self.clock.now();
            self.telemetry.scraped(&self.scheduler, &self.cluster, now);
        }
        // Who asked may have gone.
        let _ = tell.send(());
    }

    /// One copy for all who asked. Who does not lead knows no reasons.
    fn hand_out_snapshot(&mut self) {
        let due = self.due();
        let now = self.clock.instant();
        if !self.asked.are_due(due, now) {
            return;
        }
        let taken = self.may_run().then(|| {
            let mut snapshot = self.scheduler.snapshot(&self.cluster);
            // Cycles may be long ago, where nothing changes.
            snapshot.now = self.clock.now();
            Taken { snapshot: Arc::new(snapshot), took: now.elapsed() }
        });
        self.asked.answer(taken.as_ref());
    }

    fn synced(&mut self, kind: &'static str) {
        self.waits_for.remove(kind);
        self.health.wait_for(&self.waits_for);
        if self.waits_for.is_empty() {
            let (nodes, pods) = (self.cluster.nodes.len(), self.cluster.tasks.len());
            info!(nodes, pods, jobs = self.cluster.jobs.len(), queues = self.cluster.queues.len(), "in sync");
            self.pace.changed(self.clock.instant());
        }
    }

    /// Folds in all inputs that have arrived. Returns false for the end.
    fn drain(&mut self) -> bool {
        loop {
            match self.inputs.try_recv() {
                Ok(input) => {
                    if !self.take_in(input) {
                        return false;
                    }
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Decides.
    fn cycle(&mut self) {
        self.pace.started();
        self.health.pulse.cycle();
        let started = self.clock.instant();
        let now = self.clock.now();
        let Self { scheduler, cluster, outbox, telemetry, clock, journal, notes, .. } = self;
        telemetry.begin();
        let mut send = |mut decisions: Vec<Decision>| {
            // As the cycle decided it: what is handed out depends on the clock of this machine too.
            journal.decided(&decisions);
            clock.hand_out(now, &mut decisions);
            telemetry.decided(&decisions);
            notes.decided(&decisions, Timestamp::now());
            // The outbox is gone only when the process ends.
            let _ = outbox.send(driver::Input::Decisions(decisions));
        };
        let mut outcome = scheduler.run_handing_out(cluster, now, &mut send);
        let rest = std::mem::take(&mut outcome.decisions);
        if !rest.is_empty() {
            send(rest);
        }
        self.journal.cycle(outcome.cycle, now);
        let took = self.clock.instant().saturating_duration_since(started);
        self.telemetry.ended(&self.cluster, &outcome, now, took);
        self.telemetry.metrics.pending(self.scheduler.pending(&mut self.cluster));
        for (why, jobs) in self.scheduler.take_activations() {
            self.telemetry.metrics.activated(why, jobs);
        }
        self.pace.ended(self.clock.instant(), took);
        let wake = outcome
            .wake
            .into_iter()
            .chain(outcome.flush.into_iter().chain(outcome.repair).map(|time| time.max(in_a_while(now))))
            .min();
        self.pace.wake_at(wake.map(|wake| started + until(now, wake)));
    }

    /// The outbox is gone only when the process ends.
    fn send(&self, input: driver::Input) {
        let _ = self.outbox.send(input);
    }
}

/// Flushes of several jobs are gathered into one cycle.
fn in_a_while(now: Time) -> Time {
    Time(now.0.saturating_add(1000))
}

/// The duration from one time to another: zero when the second is past, a day when it is far away.
fn until(now: Time, then: Time) -> Duration {
    let wait = Duration::from_millis(u64::try_from(then.0.saturating_sub(now.0)).unwrap_or_default());
    wait.min(Duration::from_hours(24))
}

fn is_gone(event: &Event) -> bool {
    matches!(
        event,
        Event::NodeGone(_)
            | Event::PodGone(_)
            | Event::PodGroupGone(_)
            | Event::QueueGone { .. }
            | Event::PvcGone { .. }
            | Event::VolumeGone { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(10);
    const PERIOD: Duration = Duration::from_secs(1);

    #[test]
    fn changes_within_the_window_start_one_cycle() {
        let before = Instant::now();
        let start = before + WINDOW / 2;
        let mut pace = Pace::new(WINDOW, PERIOD);
        assert_eq!(pace.due(), None, "no change, no cycle");
        pace.changed(before);
        pace.started();
        pace.changed(start);
        pace.changed(start + WINDOW / 2);
        assert_eq!(pace.due(), Some(start + WINDOW));
        assert_eq!(pace.nap(start), Some(WINDOW), "and one by one they wake nobody");
        assert_eq!(pace.nap(start + WINDOW), None);
        pace.started();
        assert_eq!(pace.due(), None);
        assert_eq!(pace.nap(start), None);
    }

    #[test]
    fn a_change_after_a_pause_waits_an_eighth_of_the_window() {
        let start = Instant::now();
        let mut pace = Pace::new(WINDOW, PERIOD);
        pace.changed(start);
        assert_eq!(pace.due(), Some(start + WINDOW / 8));
        pace.started();
        let next = start + WINDOW / 2;
        pace.changed(next);
        assert_eq!(pace.due(), Some(next + WINDOW), "what follows is a burst");
        pace.started();
        pace.changed(next + WINDOW);
        assert_eq!(pace.due(), Some(next + WINDOW + WINDOW / 8));
    }

    #[test]
    fn a_cycle_is_due_at_the_time_that_the_scheduler_asked_for() {
        let start = Instant::now();
        let mut pace = Pace::new(WINDOW, PERIOD);
        pace.wake_at(Some(start + PERIOD * 5));
        assert_eq!(pace.due(), Some(start + PERIOD * 5));
        pace.changed(start);
        assert_eq!(pace.due(), Some(start + WINDOW / 8), "a change comes first");
        pace.wake_at(Some(start));
        assert_eq!(pace.due(), Some(start));
        pace.ended(start, WINDOW * 3);
        assert_eq!(pace.due(), Some(start + WINDOW * 3), "after the rest");
        pace.started();
        assert_eq!(pace.due(), None);
        assert_eq!(until(Time(5), Time(7)), Duration::from_millis(2));
        assert_eq!(until(Time(7), Time(5)), Duration::ZERO);
        assert_eq!(until(Time(0), Time(i64::MAX)), Duration::from_hours(24));
    }

    #[test]
    fn after_a_long_cycle_the_next_waits_as_long_but_no_longer_than_the_period() {
        let start = Instant::now();
        let mut pace = Pace::new(WINDOW, PERIOD);
        pace.ended(start, Duration::from_millis(200));
        pace.changed(start);
        assert_eq!(pace.due(), Some(start + Duration::from_millis(200)));
        pace.ended(start, Duration::from_secs(30));
        assert_eq!(pace.due(), Some(start + PERIOD));
        pace.changed(start + Duration::from_secs(40));
        pace.started();
        pace.changed(start + Duration::from_secs(80));
        assert_eq!(pace.due(), Some(start + Duration::from_secs(80) + WINDOW / 8));
    }
}
