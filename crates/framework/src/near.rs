//! Near misses: which known name was probably meant.

/// The name with the fewest typing errors between it and `written`, if they are few.
pub fn nearest<'a>(names: &[&'a str], written: &str) -> Option<&'a str> {
    let written: String = written.to_lowercase().chars().take(LENGTH_MAX + 1).collect();
    let length = written.chars().count();
    if length == 0 || length > LENGTH_MAX {
        return None;
    }
    let distance_to = |name: &str| {
        let name = name.to_lowercase();
        // Insertions, deletions, replacements and swaps of neighbours.
        let distance = strsim::osa_distance(&name, &written);
        (distance <= 1.max(name.chars().count() / 4)).then_some(distance)
    };
    let near = names.iter().filter_map(|name| Some((distance_to(name)?, *name)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// No known name comes near this length, and the comparison is quadratic.
const LENGTH_MAX: usize = 64;

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
