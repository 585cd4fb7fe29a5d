//! Fake nodes.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Taint},
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, Time},
    },
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};

const IN_FLIGHT: usize = 32;

/// A number of equal nodes, ready from the first moment: `node-0`, `node-1`, ...
///
/// Each has 32 CPUs, 128Gi of memory and room for 110 pods unless told otherwise; all of it allocatable.
#[derive(Clone, Debug)]
pub struct Nodes {
    prefix: String,
    first: usize,
    count: usize,
    resources: BTreeMap<String, Quantity>,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

impl Nodes {
    /// `count` nodes with the defaults.
    pub fn new(count: usize) -> Self {
        let nodes = Self {
            prefix: "node".to_owned(),
            first: 0,
            count,
            resources: BTreeMap::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        };
        nodes.cpu("32").memory("128Gi").pods(110)
    }

    /// Names them `prefix-0`, `prefix-1`, ...
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Begins with this number instead of 0, to add nodes to those of an earlier call.
    pub fn starting_at(mut self, first: usize) -> Self {
        self.first = first;
        self
    }

    /// CPUs of each, as a quantity.
    pub fn cpu(self, quantity: &str) -> Self {
        self.extended("cpu", quantity)
    }

    /// Memory of each, as a quantity.
    pub fn memory(self, quantity: &str) -> Self {
        self.extended("memory", quantity)
    }

    /// How many pods each takes.
    pub fn pods(self, count: u32) -> Self {
        self.extended("pods", &count.to_string())
    }

    /// Any other resource of each, such as `nvidia.com/gpu`.
    pub fn extended(mut self, name: &str, quantity: &str) -> Self {
        self.resources.insert(name.to_owned(), Quantity(quantity.to_owned()));
        self
    }

    /// A label on each, beside `kubernetes.io/hostname`.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// A taint on each; `effect` as `NoSchedule`.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let (key, effect, value) = (key.to_owned(), effect.to_owned(), Some(value.to_owned()));
        self.taints.push(Taint { key, effect, value, time_added: None });
        self
    }

    /// Creates them, several at a time, and returns their names in order.
    pub async fn create(&self, client: &Client) -> Result<Vec<String>> {
        let api: Api<Node> = Api::all(client.clone());
        stream::iter((self.first..).take(self.count))
            .map(|number| self.create_one(&api, format!("{}-{number}", self.prefix)))
            .buffered(IN_FLIGHT)
            .try_collect()
            .await
    }

    async fn create_one(&self, api: &Api<Node>, name: String) -> Result<String> {
        let created = api.create(&PostParams::default(), &self.node(&name)).await;
        created.with_context(|| format!("creating node {name}"))?;
        Ok(name)
    }

    fn node(&self, name: &str) -> Node {
        let mut labels = self.labels.clone();
        labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
        Node {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints: (!self.taints.is_empty()).then(|| self.taints.clone()),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                capacity: Some(self.resources.clone()),
                allocatable: Some(self.resources.clone()),
                conditions: Some(vec![ready()]),
                ..NodeStatus::default()
            }),
        }
    }
}

fn ready() -> NodeCondition {
    let now = Time(Timestamp::now());
    NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: Some("KubeletReady".to_owned()),
        message: Some("the fake kubelet is ready".to_owned()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now),
    }
}
