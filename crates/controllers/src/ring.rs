//! Steps that wait for each other.

use std::collections::BTreeSet;

/// Steps that can never begin, since they wait for each other or for what is not there: what is left when steps that
/// wait only for steps that were taken away are taken away.
pub(crate) fn ring<'a, T>(
    steps: &'a [T],
    name: impl Fn(&'a T) -> &'a str,
    after: impl Fn(&'a T) -> &'a [String],
) -> Vec<&'a T> {
    let mut left: Vec<&T> = steps.iter().collect();
    let mut free: BTreeSet<&str> = BTreeSet::new();
    loop {
        let (ready, rest): (Vec<&T>, Vec<&T>) =
            left.iter().partition(|step| after(step).iter().all(|name| free.contains(name.as_str())));
        free.extend(ready.iter().map(|step| name(step)));
        left = rest;
        if ready.is_empty() {
            return left;
        }
    }
}
