//! Pods that wait for another scheduler: most likely their schedulerName was forgotten.
use std::collections::BTreeMap;

/// A line for each of the other schedulers; `ours` is the name that would have them scheduled.
pub fn left_to_others(left: &BTreeMap<String, usize>, ours: &str) -> Vec<String> {
    let line = |(name, count): (&String, &usize)| {
        let pods = if *count == 1 { "1 pod is".to_owned() } else { format!("{count} pods are") };
        let them = if *count == 1 { "it" } else { "them" };
        let name = crate::printable::printable(name);
        format!("{pods} left to schedulerName {name}; set schedulerName: {ours} to have {them} scheduled")
    };
    left.iter().map(line).collect()
}
