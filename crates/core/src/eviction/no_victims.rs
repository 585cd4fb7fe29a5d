//! For whom nobody is let go whatever they request: then the next one like them need not ask about all who run.
use super::feasibility::FeasibilityBounds;
use super::mode::EvictionMode;
use super::plan::asks_others;
use super::preemptor::Preemptor;
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
    /// Whom an preemptor stands for; `None` where it depends on more.
    pub(super) fn of(session: &Session<'_>, preemptor: &Preemptor, mode: EvictionMode) -> Option<Self> {
        let cluster = &*session.cluster;
        let (job, last) = (&cluster.jobs[preemptor.job], &cluster.tasks[preemptor.last()]);
        if mode == EvictionMode::WithinJob || job.has_places() || asks_others(session) {
            return None;
        }
        let minds = |plugin: &dyn Plugin| {
            plugin.depends_on_request() && mode.ask(plugin, cluster, preemptor.last(), &[]).is_some()
        };
        let minded = match mode.flag() {
            Some(flag) => session.tiers.with(flag).any(minds),
            None => session.tiers.every().any(minds),
        };
        let guarded = || session.tiers.every().any(|plugin| plugin.queue_guard().is_some() && minds(plugin));
        (!minded && !guarded()).then(|| Self {
            queue: job.queue,
            priority: job.priority,
            preemptable: job.preemptable,
            single: preemptor.single,
            last: (last.priority, cluster.classes[last.class].best_effort),
        })
    }
}

/// Whether an preemptor does not fit as long as nobody is let go.
pub(super) fn needs_eviction(
    session: &mut Session<'_>,
    preemptor: &Preemptor,
    (steps, bounds): (&mut Steps, &mut FeasibilityBounds),
) -> Result<bool, NoEviction> {
    steps.begin();
    bounds.with_today(session, preemptor, steps, |_, today, _| Ok(!today.may_do()))
}
