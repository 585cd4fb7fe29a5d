//! The known name that was probably meant by a misspelt one.

/// The name with the fewest typing errors between it and `written`; `None` if there are more than one for every four
/// letters.
pub fn nearest<'a>(names: &[&'a str], written: &str) -> Option<&'a str> {
    let written: String = written.to_lowercase().chars().take(MAX_CHARS + 1).collect();
    let length = written.chars().count();
    if length == 0 || length > MAX_CHARS {
        return None;
    }
    let distance_to = |name: &str| {
        let name = name.to_lowercase();
        // Counts insertions, deletions, replacements and swaps of neighbours.
        let distance = strsim::osa_distance(&name, &written);
        (distance <= 1.max(name.chars().count() / 4)).then_some(distance)
    };
    let near = names.iter().filter_map(|name| Some((distance_to(name)?, *name)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// The longest text that is compared, in characters: the comparison is quadratic, and known names are shorter.
const MAX_CHARS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_with_few_typing_errors_is_suggested() {
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
