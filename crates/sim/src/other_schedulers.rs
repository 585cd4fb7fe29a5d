//! Notes on pods that wait for another scheduler, probably because they lack a schedulerName.
use std::collections::BTreeMap;

/// A line for each other scheduler; `ours` is the schedulerName of simulated pods.
pub fn left_to_others(left: &BTreeMap<String, usize>, ours: &str) -> Vec<String> {
    let line = |(name, count): (&String, &usize)| {
        let pods = if *count == 1 { "1 pod is".to_owned() } else { format!("{count} pods are") };
        let them = if *count == 1 { "it" } else { "them" };
        let name = crate::printable::printable(name);
        format!("{pods} left to schedulerName {name}; set schedulerName: {ours} to have {them} scheduled")
    };
    left.iter().map(line).collect()
}
