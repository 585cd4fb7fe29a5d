//! The journal: what was decided, in the log, and with `--journal-path` in a file.
//!
//! The log has a line for each gang that is bound and for each pod that is evicted. The file has all decisions of each
//! cycle, and on request all inputs of cycles, from which the cycles can be run again (`replay`). The scheduling
//! thread only hands lines to a thread that writes them: where the disk is slower than decisions come, lines are
//! dropped, and no cycle waits.
mod capture;
mod file;
mod history;
mod line;
mod past;
mod read;
mod replay;
mod stopwatch;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use jiff::Timestamp;
use phalanx_cluster::event::{Event, Time};
use phalanx_core::Scheduler;
use phalanx_core::decision::{Binding, Decision};
use phalanx_framework::extender::{Extender, ExtenderRecorder};
use tokio::sync::oneshot;
use tracing::{info, warn};

pub use capture::{NoCapture, Recording, Wanted};
pub use file::{JournalOptions, files};
pub use history::{Happened, Subject, history, words};
pub use line::{Cycle, Line, Start};
pub use past::{NoPast, Past};
pub use read::{ReadError, Reader};
pub use replay::{Difference, Replay, ReplayError, Replayed};
pub use stopwatch::{Clock, Reading, ReplayClock};

use crate::metrics::Metrics;
use file::Rotating;

/// Nodes named in a line of the log.
const NODES_MAX: usize = 8;

/// Lines that wait to be written.
const QUEUED_LINES: usize = 4096;

/// Events and pods of decisions in lines that wait to be written: some two hundred megabytes at most.
const QUEUED_ITEMS: usize = 200_000;

/// How much waits to be written.
#[derive(Debug, Default)]
struct Queued(AtomicUsize);

impl Queued {
    fn items(line: &Line<Decision>) -> usize {
        let pods = |decision: &Decision| match decision {
            Decision::Bind { pods, .. } => pods.len(),
            _ => 1,
        };
        match line {
            Line::Events(events) => events.len(),
            Line::Cycle(cycle) => cycle.decisions.iter().map(pods).sum(),
            _ => 1,
        }
    }

    /// False when too much waits.
    fn enter(&self, line: &Line<Decision>) -> bool {
        let items = Self::items(line);
        let before = self.0.fetch_add(items, Ordering::Relaxed);
        // A line that is larger than all that may wait is taken when nothing waits.
        if before > 0 && before + items > QUEUED_ITEMS {
            self.0.fetch_sub(items, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn leave(&self, line: &Line<Decision>) {
        self.0.fetch_sub(Self::items(line), Ordering::Relaxed);
    }
}

/// What the thread that writes is told.
enum Order {
    /// Write a line.
    Write(Line<Decision>),
    /// Hand out the files as they are now.
    HandOut(Wanted, oneshot::Sender<Result<Recording, NoCapture>>),
}

/// The thread that writes.
#[derive(Debug)]
struct Writer {
    /// There until the writer is dropped.
    orders: Option<SyncSender<Order>>,
    queued: Arc<Queued>,
    thread: Option<JoinHandle<()>>,
    metrics: Arc<Metrics>,
}

impl Writer {
    fn open(options: JournalOptions, metrics: Arc<Metrics>) -> io::Result<Self> {
        let file = Rotating::open(options)?;
        let (orders, received) = sync_channel(QUEUED_LINES);
        let queued = Arc::<Queued>::default();
        let counter = Arc::clone(&queued);
        let counters = Arc::clone(&metrics);
        let body = move || file::write_all(file, &received, &counter, &counters);
        let thread = std::thread::Builder::new().name("phalanx-journal".to_owned()).spawn(body)?;
        Ok(Self { orders: Some(orders), queued, thread: Some(thread), metrics })
    }

    /// False when too much waits, or nobody writes any more.
    fn send(&self, line: Line<Decision>) -> bool {
        if !self.queued.enter(&line) {
            return false;
        }
        match self.order(Order::Write(line)) {
            None => return true,
            Some(Order::Write(line)) => self.queued.leave(&line),
            Some(Order::HandOut(..)) => {}
        }
        false
    }

    /// Returns an order that is not taken.
    fn order(&self, order: Order) -> Option<Order> {
        match self.orders.as_ref()?.try_send(order) {
            Ok(()) => None,
            Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) => Some(order),
        }
    }
}

/// Lines on their way are written. Who must not wait for a disk that hangs limits the time of the thread that drops it.
impl Drop for Writer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there is no reason for one here.
            let _ = thread.join();
        }
    }
}

/// What the scheduling thread tells.
#[derive(Debug)]
pub struct Journal {
    writer: Option<Writer>,
    clock: Arc<Clock>,
    extender: Option<Arc<ExtenderRecorder>>,
    inputs: bool,
    /// What the cycle has decided so far.
    decisions: Vec<Decision>,
    /// Lines dropped since the last one that was taken.
    dropped: u64,
}

/// Tells the log only.
impl Default for Journal {
    fn default() -> Self {
        Self {
            writer: None,
            clock: Arc::new(Clock::new(false)),
            extender: None,
            inputs: false,
            decisions: Vec::new(),
            dropped: 0,
        }
    }
}

impl Journal {
    /// A journal in a file too.
    pub fn open(options: JournalOptions, metrics: Arc<Metrics>) -> io::Result<Self> {
        let inputs = options.inputs;
        let writer = Some(Writer::open(options, metrics)?);
        Ok(Self { writer, clock: Arc::new(Clock::new(inputs)), inputs, ..Self::default() })
    }

    /// Has a scheduler use a stopwatch and an extender whose answers are inputs.
    pub fn equip(&mut self, scheduler: &mut Scheduler, extender: Arc<dyn Extender>) {
        scheduler.set_stopwatch(self.clock.clone());
        let recorder = self.inputs.then(|| Arc::new(ExtenderRecorder::new(Arc::clone(&extender))));
        scheduler.set_extender(match &recorder {
            Some(recorder) => Arc::clone(recorder) as Arc<dyn Extender>,
            None => extender,
        });
        self.extender = recorder;
    }

    /// A scheduler begins.
    pub fn start(&mut self, start: Start) {
        let conf = start.conf.filter(|_| self.inputs);
        self.tell(Line::Start(Box::new(Start { inputs: self.inputs, conf, ..start })));
    }

    /// Another process leads, or this one.
    pub fn standby(&mut self, standby: bool) {
        if self.inputs {
            self.tell(Line::Standby(standby));
        }
    }

    /// The configuration changed.
    pub fn conf(&mut self, text: &Arc<str>) {
        if self.inputs {
            self.tell(Line::Conf(Arc::clone(text)));
        }
    }

    /// Changes that the Cluster is about to take in.
    pub fn events(&mut self, events: &[Event]) {
        if self.inputs {
            self.tell(Line::Events(events.to_vec()));
        }
    }

    /// The cycle decided this. The log tells which pods were started on which nodes, and which pods were evicted for
    /// which preemptor.
    pub fn decided(&mut self, decisions: &[Decision]) {
        decisions.iter().for_each(log);
        if self.writer.is_some() {
            self.decisions.extend_from_slice(decisions);
        }
    }

    /// The cycle ended.
    pub fn cycle(&mut self, number: u64, now: Time) {
        let (decisions, stopwatch) = (std::mem::take(&mut self.decisions), self.clock.take());
        let extenders = self.extender.as_ref().map(|recorder| recorder.take()).unwrap_or_default();
        if self.inputs || !decisions.is_empty() {
            let time = Timestamp::from_millisecond(now.0).map(|time| time.to_string()).unwrap_or_default();
            self.tell(Line::Cycle(Cycle { number, time, now, decisions, stopwatch, extenders }));
        }
    }

    /// Has the files handed out once all that happened so far is written, where they hold what is wanted.
    pub fn hand_out(&self, wanted: Wanted, tell: oneshot::Sender<Result<Recording, NoCapture>>) {
        // Who asked may have gone.
        let refuse = |tell: oneshot::Sender<_>, why| drop(tell.send(Err(why)));
        match (wanted, &self.writer) {
            (Wanted::Decisions, None) => refuse(tell, NoCapture::NoJournal),
            (Wanted::Replay, None) => refuse(tell, NoCapture::NoInputs),
            (Wanted::Replay, Some(_)) if !self.inputs => refuse(tell, NoCapture::NoInputs),
            (Wanted::Replay, Some(_)) if self.dropped > 0 => refuse(tell, NoCapture::Dropped),
            (_, Some(writer)) => {
                if let Some(Order::HandOut(_, tell)) = writer.order(Order::HandOut(wanted, tell)) {
                    refuse(tell, NoCapture::Busy);
                }
            }
        }
    }

    /// Hands a line over, or drops it.
    fn tell(&mut self, line: Line<Decision>) {
        let Some(writer) = &self.writer else { return };
        if (self.dropped == 0 || writer.send(Line::Dropped(self.dropped))) && writer.send(line) {
            self.dropped = 0;
            return;
        }
        if self.dropped == 0 {
            warn!("the journal is written too slowly: lines are dropped");
        }
        self.dropped += 1;
        writer.metrics.journal_dropped(1);
    }
}

fn log(decision: &Decision) {
    match decision {
        Decision::Bind { job, pods } => info!(%job, pods = pods.len(), nodes = nodes(pods), "binding"),
        Decision::Evict { pod, cause, .. } => {
            info!(%pod, action = cause.action, reason = &*cause.reason, "evicting");
        }
        _ => {}
    }
}

/// Their names, or as many of them as a line can hold.
fn nodes(pods: &[Binding]) -> String {
    let names: BTreeSet<&str> = pods.iter().map(|binding| &*binding.node).collect();
    let named = names.iter().take(NODES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NODES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
