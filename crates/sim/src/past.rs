//! What a run remembers for its report: decisions, and what it had allocated at its most.
use phalanx_cluster::event::{Event, PodPhase, Time};
use phalanx_cluster::{Cluster, ROOT};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_core::report::QueueReport;
use phalanx_view::{History, State};

/// The time of a run at which the most was allocated.
#[derive(Debug)]
pub(crate) struct Busiest {
    /// The largest allocated part of a resource of the cluster.
    share: f64,
    /// The time.
    pub(crate) at: Time,
    /// Resources, queues and nodes then.
    pub(crate) state: State,
    /// The queues then.
    pub(crate) queues: Vec<QueueReport>,
}

/// What a run remembers for its report.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// What was decided.
    pub(crate) history: History,
    /// The time at which the most was allocated, once less is.
    pub(crate) busiest: Option<Busiest>,
    /// When the last cycle ran.
    cycled: Time,
}

impl Past {
    /// Takes in the decisions of a cycle.
    pub(crate) fn note(&mut self, decisions: &[Decision], now: Time) {
        self.history.note(decisions, now);
        self.cycled = now;
    }

    /// Keeps what is allocated if an event is about to release some of it, and never was more allocated before.
    pub(crate) fn before(&mut self, event: &Event, scheduler: &Scheduler, cluster: &Cluster) {
        if !releases(event) {
            return;
        }
        let share = allocated(cluster);
        let before = self.busiest.as_ref().map_or(0.0, |busiest| busiest.share);
        if share > before {
            let state = State::of(cluster, scheduler.conf(), self.cycled);
            let queues = scheduler.report(cluster).queues;
            self.busiest = Some(Busiest { share, at: self.cycled, state, queues });
        }
    }
}

fn releases(event: &Event) -> bool {
    match event {
        Event::PodGone(_) => true,
        Event::Pod(pod) => {
            pod.life.deleting || matches!(pod.life.phase, PodPhase::Succeeded | PodPhase::Failed)
        }
        _ => false,
    }
}

/// The largest part of a resource of all nodes that pods in queues have.
fn allocated(cluster: &Cluster) -> f64 {
    let Some(root) = cluster.queue_named(ROOT) else { return 0.0 };
    let allocated = &cluster.queues[root].subtree.allocated;
    let all = cluster.sums.allocatable.iter().filter(|(_, all)| *all > 0);
    all.map(|(dim, all)| allocated.get(dim) as f64 / all as f64).fold(0.0, f64::max)
}
