//! The state that crosses cycles, besides the Cluster and the configuration.
use crate::backlog::Backlog;
use crate::eviction_history::EvictionHistory;
use crate::failed_searches::FailedSearches;
use crate::feasibility::FeasibilityBounds;
use crate::reservation::Reservations;
use phalanx_cluster::event::Time;
use phalanx_framework::placement::NodeRanking;

/// The state from cycle to cycle. Equal clusters, states, configurations and times give equal outcomes.
#[derive(Default)]
pub struct SchedulerState {
    /// Waiting jobs, and why they wait.
    pub(crate) backlog: Backlog,
    /// Nodes that are kept across cycles.
    pub(crate) reservations: Reservations,
    /// Which jobs evicted which.
    pub(crate) history: EvictionHistory,
    /// Feasibility bounds of the last preemptors.
    pub(crate) bounds: FeasibilityBounds,
    /// Searches that failed.
    pub(crate) failed_searches: FailedSearches,
    /// Rankings of nodes, and the seed of the tie-break.
    pub(crate) placement: NodeRanking,
    /// The number of the last cycle, from 1.
    pub(crate) cycle: u64,
    /// When the last cycle began.
    pub(crate) began: Option<Time>,
    /// A cycle has run with the configuration.
    pub(crate) conf_is_known: bool,
}

impl SchedulerState {
    /// The state before the first cycle; the seed is for the tie-break among nodes of equal score.
    pub fn new(seed: u64) -> Self {
        Self { placement: NodeRanking::new(seed), ..Self::default() }
    }

    /// Drops all that depends on the configuration, for a new one.
    pub(crate) fn forget(&mut self) {
        self.placement.reset();
        self.history = EvictionHistory::default();
        self.bounds = FeasibilityBounds::default();
        self.failed_searches = FailedSearches::default();
        self.backlog.reset();
        self.conf_is_known = false;
    }
}
