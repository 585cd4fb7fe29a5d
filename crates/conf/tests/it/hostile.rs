//! Hostile text is parsed in bounded time without a panic.
use phalanx_conf::{Severity, builtin_default};
use proptest::prelude::*;

use super::{lines, read};

/// Properties of parsing any text.
fn sane(text: &str) {
    let parsed = read(text);
    let errors = parsed.problems.iter().any(|problem| problem.severity == Severity::Error);
    assert_eq!(parsed.conf.is_none(), errors);
    assert!(parsed.problems.is_sorted_by_key(|problem| problem.at));
    let line_count = text.split(['\n', '\r']).count() as u32 + 1;
    for problem in &parsed.problems {
        assert!((1..=line_count).contains(&problem.at.line) && problem.at.column >= 1, "{problem}");
        assert_eq!(problem.to_string().lines().count(), 1, "{problem}");
    }
}

fn only_error(text: &str, line: &str) {
    let parsed = read(text);
    assert_eq!(lines(&parsed), [line]);
    assert!(parsed.conf.is_none());
}

/// A line for each level; the first stands for itself, others get the name of the level before.
fn levels(count: usize, first: &str, other: impl Fn(&str) -> String) -> String {
    let line = |level: usize| {
        let value = level.checked_sub(1).map_or(first.to_owned(), |before| other(&format!("*a{before}")));
        format!("a{level}: &a{level} {value}\n")
    };
    (0..count).map(line).collect()
}

#[test]
fn aliases_of_aliases_end_in_an_error() {
    let text =
        levels(30, "[x, x, x, x, x, x, x, x, x, x]", |before| format!("[{}]", [before; 10].join(", ")));
    only_error(
        &text,
        "error: line 4, column 55: too many values; expected at most 10000, aliases written out",
    );
}

#[test]
fn merges_of_merges_end_in_an_error() {
    let text = levels(100, "{k: v}", |before| format!("{{<<: [{before}, {before}], k: {before}}}"));
    let found = lines(&read(&text));
    assert!(found.len() == 1 && found[0].contains("too many values"), "{found:?}");
}

#[test]
fn an_alias_of_itself_is_an_error() {
    only_error(
        "actions: &a [*a]\n",
        "error: line 1, column 14: an alias inside what it stands for; expected an alias of something complete",
    );
}

#[test]
fn deep_nesting_ends_in_an_error() {
    for text in ["[".repeat(200_000), "{a: ".repeat(100_000), "- ".repeat(200_000), "? ".repeat(100_000)] {
        let found = lines(&read(&text));
        assert!(found.len() == 1 && found[0].starts_with("error: line 1, "), "{found:?}");
    }
    let text = levels(40, "x", |before| format!("[{before}]"));
    only_error(&text, "error: line 33, column 12: values nested too deeply; expected at most 32 levels");
}

#[test]
fn a_file_full_of_mistakes_ends_in_an_error() {
    let keys: Vec<_> = (0..50_000).map(|key| format!("enableJob{key}: 1\n")).collect();
    only_error(
        &keys.concat(),
        "error: line 5000, column 16: too many values; expected at most 10000, aliases written out",
    );
}

#[test]
fn a_huge_file_is_refused_and_a_large_one_is_read() {
    only_error(
        &"#".repeat((1 << 20) + 1),
        "error: line 1, column 1: the file has 1048577 bytes; expected at most 1048576, as in a ConfigMap",
    );
    for pattern in [
        "a", "#\n", "a: ", "a: 1\n", "- a\n", "\n", "\t", "\"", "'", "&a ", "*a ", "!", "|\n", "---\n",
        "? a\n",
    ] {
        sane(&pattern.repeat((1 << 16) / pattern.len()));
    }
}

fn mutated() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec(
        (any::<prop::sample::Index>(), 0..4usize, "[\\PC\t\r\n]|[-:?,\\[\\]{}#&*!|>'\"%@`~<]{1,3}"),
        1..8,
    );
    (prop::sample::select(vec![builtin_default(), RICH]), edits).prop_map(|(text, edits)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, removed, inserted) in edits {
            let at = at.index(chars.len() + 1);
            let end = chars.len().min(at + removed);
            chars.splice(at..end, inserted.chars());
        }
        chars.into_iter().collect()
    })
}

const RICH: &str = "actions: \"enqueue, allocate\"
tiers:
- plugins:
  - &b
    name: binpack
    arguments: {binpack.weight: 1, binpack.resources: [a, 'b'], binpack.resources.a: 0x2}
  - <<: *b
    name: usage
    enableJobOrder: no
    arguments:
      thresholds: !!map {cpu: 80}
      usage.title: |
        text
configurations:
- name: allocate
  arguments: ~
metrics: {type: prometheus, \"interval\": 30s}
";

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_without_a_panic(text in any::<String>()) {
        sane(&text);
    }

    #[test]
    fn text_of_yaml_signs_is_parsed_without_a_panic(text in "([-:?,\\[\\]{}#&*!|>'\"%@~< \n\r\t]|a|1|no|: |- |\n  |<<: |\\*a|&a ){0,60}") {
        sane(&text);
    }

    #[test]
    fn damaged_configurations_are_parsed_without_a_panic(text in mutated()) {
        sane(&text);
    }
}
