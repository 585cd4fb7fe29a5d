//! The events of a Job, as vcctl prints them.
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use crate::remote::times::{Millis, since};

/// The events in their order, below vcctl's titles.
pub(super) fn shown(events: &[Event], now: Millis) -> String {
    if events.is_empty() {
        return "Events: \t<none>\n".to_owned();
    }
    let titles = line(["Type", "Reason", "Age", "Form", "Message"]);
    let dashes = line(["-------"; 5]);
    let lines = events.iter().map(|event| row(event, now));
    ["Events:\n".to_owned(), titles, dashes].into_iter().chain(lines).collect()
}

fn line([kind, reason, age, from, message]: [&str; 5]) -> String {
    format!("{kind:<15}\t{reason:<40}\t{age:<30}\t{from:<40}\t{message}\n")
}

fn row(event: &Event, now: Millis) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let message = text(&event.message);
    line([&text(&event.type_), &text(&event.reason), &age(event, now), &source(event), message.trim()])
}

/// When it was first seen; of one that was seen several times also when last, and how often. Recorders of newer events
/// leave the old fields out.
fn age(event: &Event, now: Millis) -> String {
    let series = event.series.as_ref();
    let count = event.count.or(series.and_then(|series| series.count)).unwrap_or_default();
    let seen = |old: &Option<Time>, new: Option<&MicroTime>| {
        since(old.clone().or_else(|| new.map(|time| Time(time.0))).as_ref(), now)
    };
    let first = seen(&event.first_timestamp, event.event_time.as_ref());
    if count <= 1 {
        return first;
    }
    let last = seen(&event.last_timestamp, series.and_then(|series| series.last_observed_time.as_ref()));
    format!("{last} (x{count} over {first})")
}

/// The component that tells, and its host.
fn source(event: &Event) -> String {
    let source = event.source.clone().unwrap_or_default();
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    let component = some(source.component).or_else(|| event.reporting_component.clone());
    [component.or(Some(String::new())), some(source.host)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rows(events: &Value) -> Vec<Vec<String>> {
        let events: Vec<Event> = serde_json::from_value(events.clone()).unwrap();
        let now: Time = serde_json::from_str("\"2026-01-31T08:01:00Z\"").unwrap();
        let page = shown(&events, Millis(now.0.as_millisecond()));
        page.lines()
            .skip(3)
            .map(|line| line.split('\t').map(|cell| cell.trim().to_owned()).collect())
            .collect()
    }

    fn event(change: &Value) -> Value {
        let mut event = json!({
            "metadata": {}, "involvedObject": {}, "type": "Normal", "reason": "CommandIssued",
            "message": " Start to execute command. ", "source": {"component": "vc-controller-manager"},
        });
        for (key, value) in change.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    }

    #[test]
    fn events_stand_below_vcctls_titles() {
        let of_none = shown(&[], Millis(0));
        assert_eq!(of_none, "Events: \t<none>\n");
        let events: Vec<Event> = serde_json::from_value(json!([event(&json!({}))])).unwrap();
        let page = shown(&events, Millis(0));
        let title =
            format!("Events:\n{:<15}\t{:<40}\t{:<30}\t{:<40}\tMessage\n", "Type", "Reason", "Age", "Form");
        assert!(page.starts_with(&title), "{page}");
        assert_eq!(
            rows(&json!([event(&json!({}))]))[0],
            ["Normal", "CommandIssued", "<unknown>", "vc-controller-manager", "Start to execute command."]
        );
    }

    #[test]
    fn the_age_counts_from_the_first_time_an_event_was_seen() {
        let (first, last) = ("2026-01-31T08:00:00Z", "2026-01-31T08:00:50Z");
        let ages = rows(&json!([
            event(&json!({"firstTimestamp": first, "count": 1})),
            event(&json!({"firstTimestamp": first, "lastTimestamp": last, "count": 3})),
            event(
                &json!({"eventTime": "2026-01-31T08:00:30.000000Z", "source": {}, "reportingComponent": "volcano"})
            ),
        ]));
        let expected = [
            ["60s", "vc-controller-manager"],
            ["10s (x3 over 60s)", "vc-controller-manager"],
            ["30s", "volcano"],
        ];
        let found: Vec<[&str; 2]> = ages.iter().map(|row| [row[2].as_str(), row[3].as_str()]).collect();
        assert_eq!(found, expected);
    }
}
