//! The page of events, conditions and annotations has all of them.
use std::fs;

use phalanx_api::names;

use crate::run::repository;

fn page(name: &str) -> String {
    fs::read_to_string(repository().join("docs/reference").join(name)).unwrap()
}

#[test]
fn each_key_of_annotations_and_labels_is_on_a_page() {
    let pages = page("events.md") + &page("jobs.md");
    let missing: Vec<_> = names::ALL.iter().filter(|key| !pages.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "not in docs/reference/events.md: {missing:?}");
}

/// Words in quotes of the recorder that are no kinds, actions or types are reasons.
#[test]
fn each_reason_of_the_schedulers_events_is_on_the_page() {
    const OTHERS: [&str; 12] = [
        "Pod",
        "PodGroup",
        "Queue",
        "HyperNode",
        "Binding",
        "Scheduling",
        "Evicting",
        "Reading",
        "Reloading",
        "Event",
        "Warning",
        "Normal",
    ];
    let code = fs::read_to_string(repository().join("crates/runtime/src/recorder.rs")).unwrap();
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let is_word = |text: &&str| text.starts_with(char::is_uppercase) && text.chars().all(char::is_alphabetic);
    let reasons: Vec<&str> = code.split('"').skip(1).step_by(2).filter(is_word).collect();
    assert!(reasons.len() > 8, "{reasons:?}");
    let page = page("events.md");
    for reason in reasons.into_iter().filter(|reason| !OTHERS.contains(reason)) {
        assert!(page.contains(&format!("| `{reason}` |")), "{reason} is not in docs/reference/events.md");
    }
}
