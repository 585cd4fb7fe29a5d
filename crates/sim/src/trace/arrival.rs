//! The file format of arrivals: an object a line, in any order.
use std::collections::{BTreeMap, BTreeSet};

use phalanx_cache::Names;
use phalanx_cluster::event::Time;
use serde::{Deserialize, Serialize};

use super::job::{Job, Maker};
use crate::bad_input::{BadInput, Refused, one_line};
use crate::reader::FAULTS_MAX;

/// A job and when it arrives: a line of a file of arrivals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Arrival {
    /// Seconds since the begin of the trace.
    pub arrival: f64,
    /// How many seconds its pods run; without it they run for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// The name of its PodGroup, or of its pod where it has one.
    pub name: String,
    /// The namespace, by default `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The queue; without it the default queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The value of its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How many pods it has, by default 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub size: u32,
    /// How many of them have to run at once, by default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_member: Option<u32>,
    /// What a pod requests. A part of a device is a fraction: `nvidia.com/gpu: 500m`.
    pub requests: BTreeMap<String, String>,
    /// Labels of the nodes that its pods may be on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, Labels>,
}

/// Values of a label: one, or any of several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Labels {
    /// This value.
    One(String),
    /// One of these values.
    Any(Vec<String>),
}

impl Labels {
    /// The values.
    pub fn values(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Any(values) => values,
        }
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(size: &u32) -> bool {
    *size == 1
}

impl Arrival {
    /// The line of a file.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// The jobs of a trace, by the time of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(super) jobs: Vec<Job>,
}

impl Trace {
    /// Reads a file of arrivals. Empty lines, and lines that begin with `#`, are left out.
    pub fn read(file: &str, text: &str, names: &Names) -> Result<Self, Refused> {
        let (mut jobs, mut faults, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut maker = Maker::new(names);
        let lines = text.lines().enumerate().filter(|(_, line)| !is_blank(line));
        for (at, line) in lines {
            match read_line(line, &mut maker, &mut seen) {
                Ok(job) => jobs.push(job),
                Err(fault) => faults.push(BadInput { file: file.to_owned(), line: at + 1, ..fault }),
            }
            if faults.len() >= FAULTS_MAX {
                break;
            }
        }
        if jobs.is_empty() && faults.is_empty() {
            let problem =
                "found no line, expected an object with arrival, name and requests on each".to_owned();
            faults.push(BadInput { file: file.to_owned(), line: 1, problem, ..BadInput::default() });
        }
        if !faults.is_empty() {
            return Err(Refused { faults, notes: Vec::new() });
        }
        jobs.sort_by_key(|job| job.arrival);
        Ok(Self { jobs })
    }

    /// When the last job arrives.
    pub(super) fn end(&self) -> Time {
        self.jobs.last().map_or(Time(0), |job| job.arrival)
    }

    /// The queues that jobs name.
    pub fn queues(&self) -> BTreeSet<&str> {
        self.jobs.iter().filter_map(|job| job.queue()).collect()
    }

    /// How many jobs there are.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn read_line(line: &str, maker: &mut Maker, seen: &mut BTreeSet<String>) -> Result<Job, BadInput> {
    let wrong = |error: &serde_json::Error| {
        let text = error.to_string();
        let problem = text.split(" at line ").next().unwrap_or(&text);
        BadInput { column: error.column(), problem: one_line(problem), ..BadInput::default() }
    };
    let arrival: Arrival = serde_json::from_str(line).map_err(|error| wrong(&error))?;
    let object = format!("{}/{}", arrival.namespace.as_deref().unwrap_or("default"), arrival.name);
    let fault = |field: &str, problem: String| BadInput {
        object: object.clone(),
        field: field.to_owned(),
        problem,
        ..BadInput::default()
    };
    if !seen.insert(object.clone()) {
        return Err(fault("name", "found it again, expected it once".to_owned()));
    }
    maker.job(&arrival).map_err(|invalid| fault(&invalid.field, invalid.problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let read = Trace::read("t", text, &Names::default());
        read.err().map(|refused| refused.faults.iter().map(ToString::to_string).collect()).unwrap_or_default()
    }

    #[test]
    fn a_broken_line_is_told_with_its_place_and_what_was_expected() {
        let good = r#"{"arrival": 1, "name": "a", "requests": {"cpu": "1"}}"#;
        for (line, expected) in [
            ("{", "t:2:1: EOF while parsing an object"),
            (
                r#"{"arrival": 1, "name": "b", "requests": {}, "gpus": 1}"#,
                "t:2:50: unknown field `gpus`, expected one of",
            ),
            (good, "t:2: default/a: name: found it again, expected it once"),
            (
                r#"{"arrival": -1, "name": "b", "requests": {}}"#,
                "t:2: default/b: arrival: found -1, expected",
            ),
            (
                r#"{"arrival": 1, "duration": 1e99, "name": "b", "requests": {}}"#,
                "t:2: default/b: duration: found",
            ),
            (r#"{"arrival": 1, "name": "B", "requests": {}}"#, "t:2: default/B: name: found \"B\", expected"),
            (
                r#"{"arrival": 1, "name": "b", "requests": {"cpu": "1x"}}"#,
                "t:2: default/b: requests.cpu: found",
            ),
            (
                r#"{"arrival": 1, "name": "b", "size": 0, "requests": {}}"#,
                "t:2: default/b: size: found 0, expected",
            ),
            (
                r#"{"arrival": 1, "name": "b", "size": 2, "minMember": 3, "requests": {}}"#,
                "t:2: default/b: minMember: found 3, expected at most its size, 2",
            ),
        ] {
            let told = faults(&format!("{good}\n{line}\n"));
            assert!(told.len() == 1 && told[0].starts_with(expected), "{line}: {told:?}");
        }
        assert_eq!(faults("# nothing\n\n").len(), 1);
        assert_eq!(faults(&format!("# one\n{good}\n")), [""; 0]);
    }

    #[test]
    fn jobs_are_read_in_any_order_and_written_as_they_were_read() {
        let lines = [
            r#"{"arrival":5.0,"duration":2.5,"name":"late","queue":"q","priority":3,"size":4,"minMember":2,"requests":{"cpu":"1","nvidia.com/gpu":"500m"},"nodeSelector":{"model":["A","B"],"zone":"z"}}"#,
            r#"{"arrival":1.0,"name":"early","requests":{}}"#,
        ];
        let trace = Trace::read("t", &lines.join("\n"), &Names::default()).unwrap();
        assert_eq!(trace.jobs.iter().map(|job| job.arrival.0).collect::<Vec<_>>(), [1_000, 5_000]);
        for line in lines {
            let arrival: Arrival = serde_json::from_str(line).unwrap();
            assert_eq!(arrival.line(), format!("{line}\n"));
        }
    }
}
