//! What a run had allocated at its most, for a report on a run that ended with nothing allocated.
use phalanx_cluster::event::{Event, PodPhase, Time};
use phalanx_cluster::{Cluster, ROOT};
use phalanx_core::Scheduler;
use phalanx_core::report::QueueReport;
use phalanx_view::State;

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

/// Keeps what is allocated if events are about to release some of it, and never was more allocated before.
pub(crate) fn keep(
    busiest: &mut Option<Busiest>,
    events: &[Event],
    scheduler: &Scheduler,
    cluster: &Cluster,
    at: Time,
) {
    let share = allocated(cluster);
    let before = busiest.as_ref().map_or(0.0, |busiest| busiest.share);
    if share > before && events.iter().any(releases) {
        let state = State::of(cluster, scheduler.conf(), at);
        let queues = scheduler.report(cluster).queues;
        *busiest = Some(Busiest { share, at, state, queues });
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
