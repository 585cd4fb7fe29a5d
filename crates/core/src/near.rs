//! Near misses: which known name was probably meant.

/// The name with the fewest typing errors between it and `written`, if they are few.
pub fn nearest<'a>(names: &[&'a str], written: &str) -> Option<&'a str> {
    let written: Vec<char> = written.to_lowercase().chars().take(LENGTH_MAX + 1).collect();
    if written.is_empty() || written.len() > LENGTH_MAX {
        return None;
    }
    let distance_to = |name: &str| {
        let name: Vec<char> = name.to_lowercase().chars().collect();
        let limit = 1.max(name.len() / 4);
        Some(name)
            .filter(|name| name.len().abs_diff(written.len()) <= limit)
            .map(|name| distance(&name, &written))
            .filter(|distance| *distance <= limit)
    };
    let near = names.iter().filter_map(|name| Some((distance_to(name)?, *name)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// No known name comes near this length, and the comparison is quadratic.
const LENGTH_MAX: usize = 64;

/// Insertions, deletions, replacements and swaps of neighbours from one text to the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_the_closest_name_and_only_when_it_is_close() {
        let names =
            ["enablePreemptable", "enablePreemptive", "enableJobOrder", "binpack.weight", "gang", "drf"];
        for (written, near) in [
            ("enablePreemtable", Some("enablePreemptable")),
            ("enabledPreemptable", Some("enablePreemptable")),
            ("enablepreemptive", Some("enablePreemptive")),
            ("binpack.wieght", Some("binpack.weight")),
            ("gnag", Some("gang")),
            ("fdr", None),
            ("df", Some("drf")),
            ("capacity", None),
            ("", None),
        ] {
            assert_eq!(nearest(&names, written), near, "{written}");
        }
        assert_eq!(nearest(&names, &"g".repeat(1_000_000)), None);
    }
}
