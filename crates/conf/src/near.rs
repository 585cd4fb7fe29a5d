//! Near misses: which known name was probably meant.
use crate::problem::quoted;

/// Lists longer than this are cut short where a near miss says enough.
const LISTED_MAX: usize = 12;

/// "one of a, b, c", with the near miss of `written` if there is one.
pub(crate) fn one_of(names: &[&str], written: &str) -> String {
    let list = |names: &[&str]| names.join(", ");
    match (names, nearest(names, written)) {
        ([], _) => "none".to_owned(),
        ([only], _) => quoted(only),
        (_, None) => format!("one of {}", list(names)),
        (_, Some(near)) if names.len() <= LISTED_MAX => {
            format!("one of {} (did you mean {}?)", list(names), quoted(near))
        }
        (_, Some(near)) => format!("one of {}, ... (did you mean {}?)", list(&names[..3]), quoted(near)),
    }
}

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

    #[test]
    fn long_lists_are_cut_only_beside_a_hint() {
        let names = ["a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8", "i9", "j10", "k11", "l12", "m13"];
        assert_eq!(one_of(&names, "m133"), r#"one of a1, b2, c3, ... (did you mean "m13"?)"#);
        assert!(one_of(&names, "nothing like it").ends_with("l12, m13"));
        assert_eq!(one_of(&names[..2], "b"), r#"one of a1, b2 (did you mean "b2"?)"#);
        assert_eq!(one_of(&[], "b"), "none");
    }
}
