//! scheduler.conf as plain data. Text is read by the crate `conf`; here is what it means.
use std::collections::BTreeMap;

use phalanx_resource::Quantity;

mod spec;

use phalanx_cluster::duration::parse_duration;

pub use spec::{Allowed, ArgKind, ArgSpec, Otherwise, Rule, is_resource_name, is_url};

/// Where something stands in the file it came from; both count from 1, 0 when it came from no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// A value of a plugin's or action's argument, as YAML types it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number that is no integer.
    Float(f64),
    /// Text.
    Text(String),
    /// A sequence.
    List(Vec<Value>),
    /// A mapping.
    Map(BTreeMap<String, Value>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Float(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}

/// A mapping.
impl<const N: usize> From<[(&str, Value); N]> for Value {
    fn from(entries: [(&str, Value); N]) -> Self {
        Value::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

/// One argument and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// What was written.
    pub value: Value,
    /// Where the value stands.
    pub at: Position,
}

impl Arg {
    /// The arguments in it, when it is a mapping.
    pub fn section(&self) -> Args {
        let Value::Map(entries) = &self.value else { return Args::default() };
        let arg = |(key, value): (&String, &Value)| (key.clone(), Arg { value: value.clone(), at: self.at });
        Args(entries.iter().map(arg).collect())
    }
}

/// The arguments of a plugin or an action, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args(pub BTreeMap<String, Arg>);

/// Weights beyond this count as this.
const WEIGHT_MAX: i64 = 1_000_000;

impl Args {
    /// The value of a key, if it was written.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).map(|arg| &arg.value)
    }

    /// A number, or `default` when the key is missing or of another type (which the conf check reports).
    pub fn float(&self, key: &str, default: f64) -> f64 {
        match self.get(key) {
            Some(Value::Int(number)) => *number as f64,
            Some(Value::Float(number)) => *number,
            _ => default,
        }
    }

    /// An integer, or `default`.
    pub fn int(&self, key: &str, default: i64) -> i64 {
        match self.get(key) {
            Some(Value::Int(number)) => *number,
            _ => default,
        }
    }

    /// The weight of a score: an integer, of at most a million either way, so that sums of scores cannot overflow.
    pub fn weight(&self, key: &str, default: i64) -> i64 {
        self.int(key, default).clamp(-WEIGHT_MAX, WEIGHT_MAX)
    }

    /// A boolean (also as text, as Volcano reads it), or `default`.
    pub fn bool(&self, key: &str, default: bool) -> bool {
        match self.get(key) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::Text(text)) => parse_bool(text).unwrap_or(default),
            _ => default,
        }
    }

    /// Text, if it was written.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A duration in milliseconds, or `default`.
    pub fn duration(&self, key: &str, default: i64) -> i64 {
        self.text(key).and_then(parse_duration).unwrap_or(default)
    }

    /// The arguments in a mapping; empty when it is missing.
    pub fn section(&self, key: &str) -> Args {
        self.0.get(key).map(Arg::section).unwrap_or_default()
    }

    /// The arguments in each mapping of a list; none when it is missing.
    pub fn sections(&self, key: &str) -> Vec<Args> {
        let Some(Arg { value: Value::List(items), at }) = self.0.get(key) else { return Vec::new() };
        items.iter().map(|value| Arg { value: value.clone(), at: *at }.section()).collect()
    }

    /// Names: a list of text, or text with commas between; empty when missing.
    pub fn names(&self, key: &str) -> Vec<String> {
        let trimmed = |text: &str| Some(text.trim().to_owned()).filter(|name| !name.is_empty());
        match self.get(key) {
            Some(Value::Text(text)) => text.split(',').filter_map(trimmed).collect(),
            Some(Value::List(list)) => list
                .iter()
                .filter_map(|value| match value {
                    Value::Text(text) => trimmed(text),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// The largest quantity: 8Pi. More than any node has.
const QUANTITY_MAX: i64 = 1 << 53;

/// A quantity from 0 to 8Pi, as text or as a number.
pub fn quantity(value: &Value) -> Option<Quantity> {
    let quantity: Quantity = match value {
        Value::Text(text) => text.parse().ok()?,
        Value::Int(number) => number.to_string().parse().ok()?,
        Value::Float(number) => number.to_string().parse().ok()?,
        _ => return None,
    };
    Some(quantity).filter(|quantity| !quantity.is_negative() && quantity.units() <= QUANTITY_MAX)
}

/// What Go's `strconv.ParseBool` accepts.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The switches a plugin instance has: one per hook (or pair of hooks) that it may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is named after its hook; `key` gives the spelling in the file")]
pub enum Flag {
    JobOrder,
    Hierarchy,
    JobReady,
    JobPipelined,
    TaskOrder,
    Preemptable,
    Reclaimable,
    Preemptive,
    QueueOrder,
    Predicate,
    BestNode,
    NodeOrder,
    TargetJob,
    ReservedNodes,
    JobEnqueued,
    JobStarving,
    ClusterOrder,
    Victim,
    Overused,
    Allocatable,
    HyperNodeOrder,
    SubJobReady,
    SubJobPipelined,
    SubJobOrder,
    HyperNodeGradient,
}

impl Flag {
    /// Every flag with its spelling in scheduler.conf; Volcano's mix of `enable` and `enabled` is kept.
    pub const ALL: [(Flag, &'static str); 25] = [
        (Flag::JobOrder, "enableJobOrder"),
        (Flag::Hierarchy, "enableHierarchy"),
        (Flag::JobReady, "enableJobReady"),
        (Flag::JobPipelined, "enableJobPipelined"),
        (Flag::TaskOrder, "enableTaskOrder"),
        (Flag::Preemptable, "enablePreemptable"),
        (Flag::Reclaimable, "enableReclaimable"),
        (Flag::Preemptive, "enablePreemptive"),
        (Flag::QueueOrder, "enableQueueOrder"),
        (Flag::Predicate, "enablePredicate"),
        (Flag::BestNode, "enableBestNode"),
        (Flag::NodeOrder, "enableNodeOrder"),
        (Flag::TargetJob, "enableTargetJob"),
        (Flag::ReservedNodes, "enableReservedNodes"),
        (Flag::JobEnqueued, "enableJobEnqueued"),
        (Flag::JobStarving, "enableJobStarving"),
        (Flag::ClusterOrder, "enabledClusterOrder"),
        (Flag::Victim, "enabledVictim"),
        (Flag::Overused, "enabledOverused"),
        (Flag::Allocatable, "enabledAllocatable"),
        (Flag::HyperNodeOrder, "enabledHyperNodeOrder"),
        (Flag::SubJobReady, "enabledSubJobReady"),
        (Flag::SubJobPipelined, "enabledSubJobPipelined"),
        (Flag::SubJobOrder, "enabledSubJobOrder"),
        (Flag::HyperNodeGradient, "enabledHyperNodeGradient"),
    ];

    /// Whether anything asks for it. The others are about what is not in this version (node shards, network topology,
    /// subgroups), or what Volcano has a flag for and no use.
    pub fn has_effect(self) -> bool {
        !matches!(
            self,
            Flag::BestNode
                | Flag::TargetJob
                | Flag::ReservedNodes
                | Flag::ClusterOrder
                | Flag::HyperNodeOrder
                | Flag::SubJobReady
                | Flag::SubJobPipelined
                | Flag::SubJobOrder
                | Flag::HyperNodeGradient
        )
    }

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// Which hooks of a plugin instance are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Default for Flags {
    /// All on, but for `enableHierarchy` and `enabledClusterOrder`, as in Volcano.
    fn default() -> Self {
        Self(!(Flag::Hierarchy.bit() | Flag::ClusterOrder.bit()))
    }
}

impl Flags {
    /// Whether the flag is on.
    pub fn on(self, flag: Flag) -> bool {
        self.0 & flag.bit() != 0
    }

    /// Sets a flag.
    pub fn set(&mut self, flag: Flag, on: bool) {
        self.0 = if on { self.0 | flag.bit() } else { self.0 & !flag.bit() };
    }
}

/// A plugin of a tier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginConf {
    /// Its name in the table of plugins.
    pub name: String,
    /// Its switches.
    pub flags: Flags,
    /// Its arguments.
    pub args: Args,
    /// Where its name stands.
    pub at: Position,
}

/// Plugins of one tier, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tier {
    /// The plugins.
    pub plugins: Vec<PluginConf>,
}

/// Arguments of an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActionConf {
    /// The action.
    pub name: String,
    /// Its arguments.
    pub args: Args,
    /// Where its name stands.
    pub at: Position,
}

/// A whole configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conf {
    /// The actions of a cycle, in order.
    pub actions: Vec<String>,
    /// The plugins, by tier.
    pub tiers: Vec<Tier>,
    /// Arguments of actions.
    pub configurations: Vec<ActionConf>,
    /// Where usage metrics come from.
    pub metrics: BTreeMap<String, String>,
}

impl Conf {
    /// The arguments of an action; empty when none were given.
    pub fn action_args(&self, name: &str) -> Args {
        self.configurations
            .iter()
            .find(|conf| conf.name == name)
            .map(|conf| conf.args.clone())
            .unwrap_or_default()
    }

    /// Whether an action is configured.
    pub fn has_action(&self, name: &str) -> bool {
        self.actions.iter().any(|action| action == name)
    }
}
