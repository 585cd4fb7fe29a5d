//! The state that crosses cycles, besides the Cluster and the configuration.
use crate::backlog::Backlog;
use crate::eviction::EvictionState;
use phalanx_cluster::event::Time;
use phalanx_framework::placement::NodeRanking;

/// The state from cycle to cycle. Equal clusters, states, configurations and times give equal outcomes.
pub struct SchedulerState {
    /// Waiting jobs, and why they wait.
    pub(crate) backlog: Backlog,
    /// Eviction history, and failed searches for victims.
    pub(crate) past: EvictionState,
    /// Rankings of nodes, and the seed of the tie-break.
    pub(crate) placement: NodeRanking,
    /// The number of the last cycle, from 1.
    pub(crate) cycle: u64,
    /// When the last cycle began.
    pub(crate) began: Option<Time>,
    /// The configuration is new in the next cycle.
    pub(crate) conf_is_new: bool,
}

impl SchedulerState {
    /// The state before the first cycle; the seed is for the tie-break among nodes of equal score.
    pub fn new(seed: u64) -> Self {
        Self {
            backlog: Backlog::default(),
            past: EvictionState::default(),
            placement: NodeRanking::new(seed),
            cycle: 0,
            began: None,
            conf_is_new: true,
        }
    }

    /// Drops all that depends on the configuration, for a new one.
    pub(crate) fn forget(&mut self) {
        self.placement.reset();
        self.past = EvictionState::default();
        self.backlog.reset();
        self.conf_is_new = true;
    }
}
