//! The report as a JSON object for programs. Its keys are stable.
use super::Report;

impl Report {
    /// The report as one JSON object, keys sorted, with a newline at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("maps with text as keys are JSON");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Eviction, GroupOutcome, PodOutcome, QueueOutcome, Stats};

    #[test]
    fn the_json_report_has_the_documented_keys() {
        let mut report = Report::default();
        report.bindings.insert("a/p".into(), "n1".into());
        report.evictions.push("a/q".into());
        let (by, reason) = (Some("a/g".into()), "preempted by a/g".into());
        report.eviction_causes.push(Eviction { pod: "a/q".into(), action: "preempt", by, reason });
        report.nominations.insert("a/r".into(), "n2".into());
        let phase = "Inqueue".into();
        report
            .pod_groups
            .insert("a/g".into(), GroupOutcome { phase, reasons: vec!["why".into()], ..Default::default() });
        report.pods.insert("a/s".into(), PodOutcome { reasons: vec![], ..PodOutcome::default() });
        let amounts = |text: &str| [("cpu".to_owned(), text.to_owned())].into();
        let queue = QueueOutcome { allocated: amounts("4"), deserved: amounts("8"), ..Default::default() };
        report.queues.insert("default".into(), queue);
        report.stats = Stats { cycles: 1, session_seconds: 0.012, ..Stats::default() };
        let compact: String = report.to_json().split_whitespace().collect();
        let expected = concat!(
            r#"{"bindings":{"a/p":"n1"},"evictions":["a/q"],"evictionCauses":[{"pod":"a/q","action":"preempt","by":"a/g","reason":"preemptedbya/g"}],"nominations":{"a/r":"n2"},"#,
            r#""podGroups":{"a/g":{"phase":"Inqueue","reasons":["why"]}},"pods":{"a/s":{"reasons":[]}},"#,
            r#""queues":{"default":{"allocated":{"cpu":"4"},"deserved":{"cpu":"8"}}},"#,
            r#""stats":{"bound":0,"cycles":1,"nodes":0,"pending":0,"pods":0,"sessionSeconds":0.012,"virtualSeconds":0.0}}"#,
        );
        assert_eq!(compact, expected);
    }
}
