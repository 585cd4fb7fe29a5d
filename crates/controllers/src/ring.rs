//! Steps that wait for each other.

use std::collections::{BTreeMap, BTreeSet};

/// Steps that can never begin, since they wait for each other or for what is not there: what is left when steps that
/// wait only for steps that were taken away are taken away.
pub(crate) fn ring<'a, T>(
    steps: &'a [T],
    name: impl Fn(&'a T) -> &'a str,
    after: impl Fn(&'a T) -> &'a [String],
) -> Vec<&'a T> {
    let mut missing: Vec<usize> = steps.iter().map(|step| after(step).len()).collect();
    let mut waiting: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        for name in after(step) {
            waiting.entry(name).or_default().push(at);
        }
    }
    let mut ready: Vec<usize> = (0..steps.len()).filter(|at| missing[*at] == 0).collect();
    let mut free: BTreeSet<&str> = BTreeSet::new();
    while let Some(at) = ready.pop() {
        let name = name(&steps[at]);
        // Another step may have the same name.
        if free.insert(name) {
            for waits in waiting.remove(name).unwrap_or_default() {
                missing[waits] -= 1;
                ready.extend((missing[waits] == 0).then_some(waits));
            }
        }
    }
    steps.iter().zip(missing).filter(|(_, missing)| *missing > 0).map(|(step, _)| step).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn left(steps: &[(String, Vec<String>)]) -> Vec<&str> {
        ring(steps, |step| &step.0, |step| &step.1).into_iter().map(|step| step.0.as_str()).collect()
    }

    fn step(name: &str, after: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), after.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn rings_what_waits_for_one_and_what_waits_for_nothing_known_are_left() {
        let ring = [step("a", &["b"]), step("b", &["a"]), step("c", &["b", "d", "d"]), step("d", &[])];
        assert_eq!(left(&ring), ["a", "b", "c"]);
        assert_eq!(left(&[step("a", &["x"]), step("b", &[])]), ["a"]);
        assert_eq!(left(&[step("a", &[]), step("a", &["a"]), step("b", &["a", "a"])]), [""; 0]);
    }

    #[test]
    fn a_long_chain_is_read_soon() {
        let name = |at: usize| format!("s{at}");
        let chain: Vec<_> = (0..20_000).map(|at| (name(at), vec![name(at + 1)])).collect();
        let begun = Instant::now();
        assert_eq!(left(&chain).len(), 20_000, "the last one waits for what is not there");
        assert_eq!(left(&[chain, vec![step("s20000", &[])]].concat()), [""; 0]);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
