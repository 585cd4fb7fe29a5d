//! The trace openb: nodes and tasks of a production GPU cluster, published by Alibaba as cluster-trace-gpu-v2023.
use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::arrival::{Arrival, Labels};
use crate::bad_input::{BadInput, one_line};

/// The label of a node with the model of its GPUs.
const MODEL: &str = "gpu-model";

/// How the files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenbOptions {
    /// The resource of GPUs.
    pub gpu: String,
    /// One task a second in an order drawn from this seed, and none ends.
    pub fill: Option<u64>,
}

/// The trace in our form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Openb {
    /// The tasks.
    pub arrivals: Vec<Arrival>,
    /// Nodes and queues as manifests.
    pub cluster: Vec<Value>,
}

#[derive(Deserialize)]
struct Node {
    sn: String,
    cpu_milli: u64,
    memory_mib: u64,
    gpu: u64,
    model: String,
}

#[derive(Deserialize)]
struct Task {
    name: String,
    cpu_milli: u64,
    memory_mib: u64,
    num_gpu: u64,
    gpu_milli: u64,
    gpu_spec: String,
    qos: String,
    creation_time: f64,
    deletion_time: f64,
    scheduled_time: Option<f64>,
}

/// Reads the lists of nodes and tasks, given as file name and text.
pub fn openb(nodes: (&str, &str), tasks: (&str, &str), options: &OpenbOptions) -> Result<Openb, BadInput> {
    let (nodes, mut tasks): (Vec<Node>, Vec<Task>) = (rows(nodes)?, rows(tasks)?);
    let queues: BTreeSet<String> = tasks.iter().map(queue).collect();
    if let Some(seed) = options.fill {
        tasks.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
    }
    let first = tasks.iter().map(|task| task.creation_time).fold(f64::INFINITY, f64::min);
    let arrivals = tasks.iter().enumerate().map(|(place, task)| {
        let (arrival, duration) = match options.fill {
            Some(_) => (place as f64, None),
            None => (task.creation_time - first, Some(task.run_seconds())),
        };
        Arrival { arrival, duration, ..task.arrival(&options.gpu) }
    });
    let queues = queues.iter().map(|name| {
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}})
    });
    Ok(Openb {
        arrivals: arrivals.collect(),
        cluster: queues.chain(nodes.iter().map(|node| node.manifest(&options.gpu))).collect(),
    })
}

/// The rows of a file with a header.
fn rows<T: DeserializeOwned>((file, text): (&str, &str)) -> Result<Vec<T>, BadInput> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let rows: Result<Vec<T>, csv::Error> = reader.deserialize().collect();
    let told = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line) as usize;
        let problem = match error.kind() {
            csv::ErrorKind::Deserialize { err, .. } => {
                let column = err.field().and_then(|field| header.get(field as usize)).unwrap_or("row");
                format!("{column}: {}", err.kind())
            }
            _ => error.to_string(),
        };
        BadInput { file: file.to_owned(), line, problem: one_line(&problem), ..BadInput::default() }
    };
    let rows = rows.map_err(told)?;
    if rows.is_empty() {
        let problem = "found no row, expected a list of the trace openb".to_owned();
        return Err(BadInput { file: file.to_owned(), line: 1, problem, ..BadInput::default() });
    }
    Ok(rows)
}

/// Queues are classes of quality of service.
fn queue(task: &Task) -> String {
    task.qos.to_lowercase()
}

impl Node {
    fn manifest(&self, gpu: &str) -> Value {
        let model = if self.model.is_empty() { "none" } else { &self.model };
        let mut has = json!({"cpu": format!("{}m", self.cpu_milli), "memory": format!("{}Mi", self.memory_mib), "pods": "256"});
        if self.gpu > 0 {
            has[gpu] = json!(self.gpu.to_string());
        }
        let metadata = json!({"name": self.sn, "labels": {MODEL: model}});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": has}})
    }
}

impl Task {
    /// From its begin to its end; a task that was never scheduled has no begin.
    fn run_seconds(&self) -> f64 {
        (self.deletion_time - self.scheduled_time.unwrap_or(self.creation_time)).max(0.0)
    }

    fn arrival(&self, gpu: &str) -> Arrival {
        let mut requests = BTreeMap::from([
            ("cpu".to_owned(), format!("{}m", self.cpu_milli)),
            ("memory".to_owned(), format!("{}Mi", self.memory_mib)),
        ]);
        match self.num_gpu {
            0 => {}
            1 => drop(requests.insert(gpu.to_owned(), format!("{}m", self.gpu_milli))),
            many => drop(requests.insert(gpu.to_owned(), many.to_string())),
        }
        let models: Vec<String> =
            self.gpu_spec.split('|').filter(|model| !model.is_empty()).map(ToOwned::to_owned).collect();
        let node_selector = match models.as_slice() {
            [] => BTreeMap::new(),
            [one] => BTreeMap::from([(MODEL.to_owned(), Labels::One(one.clone()))]),
            _ => BTreeMap::from([(MODEL.to_owned(), Labels::Any(models))]),
        };
        let queue = Some(queue(self));
        Arrival { name: self.name.clone(), queue, size: 1, requests, node_selector, ..Arrival::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn-1,64000,1024,2,T4\nn-2,32000,1024,0,\n";
    const TASKS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
        a,6000,12,1,460,,LS,Running,100,300,150\nb,1000,1,8,1000,T4|V100,BE,Pending,90,110,\n";

    fn read(fill: Option<u64>) -> Openb {
        let options = OpenbOptions { gpu: "nvidia.com/gpu".into(), fill };
        openb(("n", NODES), ("t", TASKS), &options).unwrap()
    }

    #[test]
    fn shares_of_gpus_models_and_run_times_are_read() {
        let lines: Vec<String> = read(None).arrivals.iter().map(Arrival::line).collect();
        assert_eq!(
            lines,
            [
                "{\"arrival\":10.0,\"duration\":150.0,\"name\":\"a\",\"queue\":\"ls\",\"requests\":{\"cpu\":\"6000m\",\"memory\":\"12Mi\",\"nvidia.com/gpu\":\"460m\"}}\n",
                "{\"arrival\":0.0,\"duration\":20.0,\"name\":\"b\",\"queue\":\"be\",\"requests\":{\"cpu\":\"1000m\",\"memory\":\"1Mi\",\"nvidia.com/gpu\":\"8\"},\"nodeSelector\":{\"gpu-model\":[\"T4\",\"V100\"]}}\n",
            ]
        );
        let cluster = read(None).cluster;
        assert_eq!(cluster.len(), 4);
        assert_eq!(cluster[2]["status"]["allocatable"]["nvidia.com/gpu"], "2");
    }

    #[test]
    fn to_fill_a_cluster_tasks_arrive_in_an_order_of_the_seed_and_never_end() {
        let orders: BTreeSet<Vec<String>> = (0..8)
            .map(|seed| {
                let arrivals = read(Some(seed)).arrivals;
                assert!(arrivals.iter().all(|arrival| arrival.duration.is_none()));
                assert_eq!(arrivals, read(Some(seed)).arrivals);
                arrivals.into_iter().map(|arrival| arrival.name).collect()
            })
            .collect();
        assert_eq!(orders.len(), 2);
    }

    #[test]
    fn a_broken_row_is_told_with_its_line() {
        let options = OpenbOptions { gpu: "g/g".into(), fill: None };
        let broken = NODES.replace("32000", "many");
        let told = openb(("n.csv", &broken), ("t", TASKS), &options).unwrap_err().to_string();
        assert!(told.starts_with("n.csv:3: ") && told.contains("cpu_milli"), "{told}");
    }
}
