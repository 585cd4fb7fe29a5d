//! OpenTelemetry traces of slow cycles, sent to a collector as OTLP over HTTP with JSON.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>. One trace a cycle: a span of the cycle,
//! and one of each stage below it. The crates of OpenTelemetry bring more code than the scheduler's shell has, for this
//! one message.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::RngExt as _;
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};
use tracing::{debug, warn};

use crate::extender::Clients;
use crate::telemetry::Step;

/// Slow cycles that wait to be sent; the trace of a further one is lost.
const WAITING_MAX: usize = 64;
/// How long a collector may take for one trace.
const TIMEOUT: Duration = Duration::from_secs(10);
/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;

/// A cycle of which a trace is sent.
#[derive(Debug)]
pub struct SlowCycle {
    /// Its number.
    pub cycle: u64,
    /// When it ended.
    pub ended: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// How many pods it decided to bind.
    pub pods: usize,
    /// Its stages, in order.
    pub(crate) steps: Vec<Step>,
}

/// Where traces go. Nobody waits for a collector.
#[derive(Clone, Debug)]
pub struct Spans(Sender<SlowCycle>);

impl Spans {
    /// Sends traces to the collector at `endpoint`, such as `http://127.0.0.1:4318`. Needs the async runtime.
    pub fn to(endpoint: &str, clients: Clients) -> Self {
        let (sender, cycles) = channel(WAITING_MAX);
        let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        tokio::spawn(export(url, clients, cycles));
        Self(sender)
    }

    pub(crate) fn send(&self, cycle: SlowCycle) {
        if let Err(TrySendError::Full(cycle)) = self.0.try_send(cycle) {
            debug!(cycle = cycle.cycle, "the collector is slow, so the trace of a slow cycle is lost");
        }
    }
}

/// Until nobody sends.
async fn export(url: String, clients: Clients, mut cycles: Receiver<SlowCycle>) {
    let mut random = rand::make_rng::<Pcg64>();
    while let Some(cycle) = cycles.recv().await {
        if let Err(error) = clients.post(&url, TIMEOUT, &request(&cycle, random.random())).await {
            warn!("the trace of slow cycle {} was not sent: {error}", cycle.cycle);
        }
    }
}

/// The message of one cycle, an `ExportTraceServiceRequest`.
fn request(slow: &SlowCycle, id: u128) -> Value {
    let trace = format!("{id:032x}");
    // The spans of one trace are numbered from a part of the trace's own id.
    let span = |number: usize| format!("{:016x}", (id as u64 | 1).wrapping_add(2 * number as u64));
    let mut start = nanos(slow.ended).saturating_sub(slow.took.as_nanos());
    let mut spans = vec![json!({
        "traceId": trace, "spanId": span(0), "name": "cycle", "kind": INTERNAL,
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": nanos(slow.ended).to_string(),
        "attributes": [number("phalanx.cycle", slow.cycle), number("phalanx.pods_bound", slow.pods as u64)],
    })];
    for (index, step) in slow.steps.iter().enumerate() {
        let end = start + step.took.as_nanos();
        let answers = step.answers.iter().map(|(plugin, took)| {
            number(&format!("phalanx.plugin.{plugin}.microseconds"), took.as_micros() as u64)
        });
        spans.push(json!({
            "traceId": trace, "spanId": span(index + 1), "parentSpanId": span(0), "name": step.name(), "kind": INTERNAL,
            "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.to_string(),
            "attributes": answers.collect::<Vec<_>>(),
        }));
        start = end;
    }
    let service = json!({"key": "service.name", "value": {"stringValue": "phalanx-scheduler"}});
    json!({"resourceSpans": [{
        "resource": {"attributes": [service]},
        "scopeSpans": [{"scope": {"name": "phalanx"}, "spans": spans}],
    }]})
}

/// An attribute; 64-bit integers are text in the JSON of protobuf.
fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// Since 1970.
fn nanos(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;

    use phalanx_framework::trace::Stage;

    use super::*;

    #[test]
    fn stages_are_spans_below_the_span_of_their_cycle_one_after_the_other() {
        let ms = Duration::from_millis;
        let step = |stage, took| Step::new(stage, ms(took));
        let answers = BTreeMap::from([("gang", ms(3))]);
        let steps = vec![step(Stage::Begun, 100), Step { answers, ..step(Stage::Action("allocate"), 1400) }];
        let ended = UNIX_EPOCH + ms(10_000);
        let sent = request(&SlowCycle { cycle: 7, ended, took: ms(1500), pods: 3, steps }, 0xab);
        let spans = sent["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        let field =
            |field: &str| spans.iter().map(|span| span[field].as_str().unwrap_or("")).collect::<Vec<_>>();
        assert_eq!(field("name"), ["cycle", "begin", "action allocate"]);
        assert_eq!(field("startTimeUnixNano"), ["8500000000", "8500000000", "8600000000"]);
        assert_eq!(field("endTimeUnixNano"), ["10000000000", "8600000000", "10000000000"]);
        let [cycle, ..] = &field("spanId")[..] else { panic!("no span") };
        assert_eq!(field("parentSpanId"), ["", cycle, cycle]);
        assert_eq!(spans[2]["attributes"], json!([number("phalanx.plugin.gang.microseconds", 3000)]));
        assert!(spans.iter().all(|span| span["traceId"] == "000000000000000000000000000000ab"));
    }

    /// Takes one request and answers it; its head and its body.
    fn collector() -> (String, std::thread::JoinHandle<(String, Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
            }
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            (head, serde_json::from_slice(&body).unwrap())
        });
        (endpoint, serving)
    }

    #[tokio::test]
    async fn a_slow_cycle_is_posted_to_the_collector() {
        let (endpoint, serving) = collector();
        let spans = Spans::to(&endpoint, Clients::default());
        let steps = vec![Step::new(Stage::Begun, Duration::from_secs(1))];
        let (ended, took) = (UNIX_EPOCH + Duration::from_secs(10), Duration::from_secs(1));
        spans.send(SlowCycle { cycle: 7, ended, took, pods: 3, steps });
        let (head, body) = tokio::task::spawn_blocking(|| serving.join().unwrap()).await.unwrap();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!((&spans[0]["name"], &spans[1]["name"]), (&json!("cycle"), &json!("begin")));
        assert_eq!(spans[0]["attributes"][1], number("phalanx.pods_bound", 3));
    }
}
