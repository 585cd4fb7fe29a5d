//! Flags for comparing some of the nodes only, as Volcano has them.
use phalanx_framework::placement::Sampling;

use crate::flag;

/// Node sampling. Off unless a percentage is given: comparing all nodes costs no more here.
#[derive(Debug, clap::Args)]
pub(crate) struct Sampled {
    /// Compare only this part of the nodes that have room, in percent; 0 for 50 less one for each 125 nodes. All nodes
    /// are compared unless it is given
    #[arg(long, value_name = "PERCENT", alias = "percentage_nodes_to_find", allow_negative_numbers = true, value_parser = flag::whole::<u32>(0..=100))]
    percentage_nodes_to_find: Option<u32>,
    /// The least that --percentage-nodes-to-find=0 comes to
    #[arg(long, value_name = "PERCENT", alias = "minimum_percentage_nodes_to_find", allow_negative_numbers = true, value_parser = flag::whole::<u32>(0..=100))]
    minimum_percentage_nodes_to_find: Option<u32>,
    /// With --percentage-nodes-to-find: compare at least this many nodes
    #[arg(long, value_name = "N", alias = "minimum_feasible_nodes", allow_negative_numbers = true, value_parser = flag::whole::<u32>(0..=u32::MAX))]
    minimum_feasible_nodes: Option<u32>,
}

impl Sampled {
    /// The sampling that the flags ask for; `None` to compare all nodes.
    pub(crate) fn sampling(&self) -> Option<Sampling> {
        let percentage = self.percentage_nodes_to_find.filter(|percentage| *percentage < 100)?;
        Some(Sampling {
            percentage,
            minimum_percentage: self.minimum_percentage_nodes_to_find.unwrap_or(5),
            minimum_nodes: self.minimum_feasible_nodes.unwrap_or(100),
        })
    }

    /// What is told of flags that have no effect alone.
    pub(crate) fn warning(&self) -> Option<String> {
        let minimum = self.minimum_feasible_nodes.or(self.minimum_percentage_nodes_to_find);
        let alone = self.percentage_nodes_to_find.is_none() && minimum.is_some();
        alone.then(|| {
            "--minimum-feasible-nodes and --minimum-percentage-nodes-to-find have no effect without --percentage-nodes-to-find: all nodes are compared".to_owned()
        })
    }
}
