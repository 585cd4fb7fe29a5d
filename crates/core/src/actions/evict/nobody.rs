//! For whom nobody is let go whatever they request: then the next one like them need not ask about all who run.
use super::aim::Aim;
use super::ledger::Ledgers;
use super::purpose::Purpose;
use super::search::asks_others;
use super::steps::Steps;
use crate::session::Session;
use phalanx_cluster::diagnosis::NoEviction;
use phalanx_cluster::id::QueueId;
use phalanx_framework::plugin::Plugin;

/// All that it depends on who is let go for a job that holds nothing, where plugins do not mind what it requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    queue: QueueId,
    priority: i32,
    preemptable: Option<bool>,
    single: bool,
    /// Of the task that plugins are asked about: its priority, and whether it requests nothing.
    last: (i32, bool),
}

impl Asker {
    /// Whom an aim stands for; `None` where it depends on more.
    pub(super) fn of(session: &Session<'_>, aim: &Aim, purpose: Purpose) -> Option<Self> {
        let world = &*session.world;
        let (job, last) = (&world.jobs[aim.job], &world.tasks[aim.last()]);
        if purpose == Purpose::WithinJob || job.has_places() || asks_others(session) {
            return None;
        }
        let minds = |plugin: &dyn Plugin| {
            plugin.depends_on_request() && purpose.ask(plugin, world, aim.last(), &[]).is_some()
        };
        let minded = match purpose.flag() {
            Some(flag) => session.tiers.with(flag).any(minds),
            None => session.tiers.every().any(minds),
        };
        let guarded = || session.tiers.every().any(|plugin| plugin.queue_guard().is_some() && minds(plugin));
        (!minded && !guarded()).then(|| Self {
            queue: job.queue,
            priority: job.priority,
            preemptable: job.preemptable,
            single: aim.single,
            last: (last.priority, world.classes[last.class].best_effort),
        })
    }
}

/// Whether an aim does not fit as long as nobody is let go.
pub(super) fn needs_somebody(
    session: &mut Session<'_>,
    aim: &Aim,
    (steps, ledgers): (&mut Steps, &mut Ledgers),
) -> Result<bool, NoEviction> {
    steps.begin();
    ledgers.with_today(session, aim, steps, |_, today, _| Ok(!today.may_do()))
}
