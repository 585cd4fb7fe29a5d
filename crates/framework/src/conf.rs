//! scheduler.conf as plain data. The crate `conf` reads the text; this module says what it means.
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use phalanx_resource::Quantity;

mod spec;

use phalanx_cluster::duration::parse_duration;

pub use spec::{Allowed, ArgKind, ArgSpec, Otherwise, Rule, is_resource_name, is_url};

/// A position in scheduler.conf. Line and column count from 1; both are 0 for what came from no file.
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

/// An argument of a plugin or an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// What was written.
    pub value: Value,
    /// Where the value stands in scheduler.conf.
    pub at: Position,
}

impl Arg {
    /// The arguments in the value, if the value is a mapping; else none.
    pub fn section(&self) -> Args {
        let Value::Map(entries) = &self.value else { return Args::default() };
        let arg = |(key, value): (&String, &Value)| (key.clone(), Arg { value: value.clone(), at: self.at });
        Args(entries.iter().map(arg).collect())
    }
}

/// The arguments of a plugin or an action, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args(pub BTreeMap<String, Arg>);

/// The largest weight of a score, negative or positive.
const WEIGHT_MAX: i64 = 1_000_000;

impl Args {
    /// The value of a key, if it was written.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).map(|arg| &arg.value)
    }

    /// A number, or `default` if the key is missing or has another type (which the conf check reports).
    pub fn float(&self, key: &str, default: f64) -> f64 {
        match self.get(key) {
            Some(Value::Int(number)) => *number as f64,
            Some(Value::Float(number)) => *number,
            _ => default,
        }
    }

    /// An integer, or `default` if the key is missing or has another type.
    pub fn int(&self, key: &str, default: i64) -> i64 {
        match self.get(key) {
            Some(Value::Int(number)) => *number,
            _ => default,
        }
    }

    /// The weight of a score: an integer from -1,000,000 to 1,000,000, so that sums of scores cannot overflow;
    /// `default` if the key is missing or has another type.
    pub fn weight(&self, key: &str, default: i64) -> i64 {
        self.int(key, default).clamp(-WEIGHT_MAX, WEIGHT_MAX)
    }

    /// A boolean (also as text, as Volcano reads it), or `default` if the key is missing or has another value.
    pub fn bool(&self, key: &str, default: bool) -> bool {
        match self.get(key) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::Text(text)) => parse_bool(text).unwrap_or(default),
            _ => default,
        }
    }

    /// Text, if the key was written and has text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A duration in milliseconds, or `default_ms` if the key is missing or no duration.
    pub fn duration_ms(&self, key: &str, default_ms: i64) -> i64 {
        self.text(key).and_then(parse_duration).unwrap_or(default_ms)
    }

    /// The arguments in a mapping; none if the key is missing.
    pub fn section(&self, key: &str) -> Args {
        self.0.get(key).map(Arg::section).unwrap_or_default()
    }

    /// The arguments in each mapping of a list; none if the key is missing.
    pub fn sections(&self, key: &str) -> Vec<Args> {
        let Some(Arg { value: Value::List(items), at }) = self.0.get(key) else { return Vec::new() };
        items.iter().map(|value| Arg { value: value.clone(), at: *at }.section()).collect()
    }

    /// Names: a list of text, or text with commas between the names; empty if the key is missing.
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

/// The largest quantity, 8Pi: more than any node has.
const QUANTITY_MAX: i64 = 1 << 53;

/// A quantity from 0 to 8Pi, written as text or as a number; `None` for any other value.
pub fn quantity(value: &Value) -> Option<Quantity> {
    let quantity: Quantity = match value {
        Value::Text(text) => text.parse().ok()?,
        Value::Int(number) => number.to_string().parse().ok()?,
        Value::Float(number) => number.to_string().parse().ok()?,
        _ => return None,
    };
    Some(quantity).filter(|quantity| !quantity.is_negative() && quantity.units() <= QUANTITY_MAX)
}

/// A boolean in the spellings that Go's `strconv.ParseBool` accepts.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

macro_rules! flags {
    ($($flag:ident $key:literal $has_effect:literal,)*) => {
        /// The flags of a plugin: each switches one hook, or a pair of hooks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "each is named after its hook; `ALL` gives the spelling in the file")]
        pub enum Flag { $($flag,)* }

        impl Flag {
            /// Every flag with its key in scheduler.conf, in Volcano's spelling, which mixes `enable` and `enabled`.
            pub const ALL: [(Flag, &'static str); [$($key),*].len()] = [$((Flag::$flag, $key)),*];

            /// Whether the flag switches a hook. The other flags belong to what Phalanx does not have yet (node shards,
            /// network topology, subgroups), or have no use in Volcano either.
            pub fn has_effect(self) -> bool {
                match self { $(Flag::$flag => $has_effect,)* }
            }
        }
    };
}

// Each flag with its key and whether it has an effect.
flags! {
    JobOrder "enableJobOrder" true,
    Hierarchy "enableHierarchy" true,
    JobReady "enableJobReady" true,
    JobPipelined "enableJobPipelined" true,
    TaskOrder "enableTaskOrder" true,
    Preemptable "enablePreemptable" true,
    Reclaimable "enableReclaimable" true,
    Preemptive "enablePreemptive" true,
    QueueOrder "enableQueueOrder" true,
    Predicate "enablePredicate" true,
    BestNode "enableBestNode" false,
    NodeOrder "enableNodeOrder" true,
    TargetJob "enableTargetJob" false,
    ReservedNodes "enableReservedNodes" false,
    JobEnqueued "enableJobEnqueued" true,
    JobStarving "enableJobStarving" true,
    ClusterOrder "enabledClusterOrder" false,
    Victim "enabledVictim" true,
    Overused "enabledOverused" true,
    Allocatable "enabledAllocatable" true,
    HyperNodeOrder "enabledHyperNodeOrder" true,
    SubJobReady "enabledSubJobReady" false,
    SubJobPipelined "enabledSubJobPipelined" false,
    SubJobOrder "enabledSubJobOrder" false,
    HyperNodeGradient "enabledHyperNodeGradient" true,
}

impl Flag {
    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// Which flags of a plugin are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Default for Flags {
    /// All flags on except `enableHierarchy` and `enabledClusterOrder`, as in Volcano.
    fn default() -> Self {
        Self(!(Flag::Hierarchy.bit() | Flag::ClusterOrder.bit()))
    }
}

impl Flags {
    /// Whether the flag is on.
    pub fn on(self, flag: Flag) -> bool {
        self.0 & flag.bit() != 0
    }

    /// These flags as they are, and all others off.
    pub(crate) fn only(self, flags: &[Flag]) -> Self {
        let kept = flags.iter().fold(0, |kept, flag| kept | flag.bit());
        Self(self.0 & kept)
    }

    /// Switches a flag on or off.
    pub fn set(&mut self, flag: Flag, on: bool) {
        self.0 = if on { self.0 | flag.bit() } else { self.0 & !flag.bit() };
    }
}

/// A plugin of a tier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginConf {
    /// The name in the table of plugins.
    pub name: String,
    /// The flags.
    pub flags: Flags,
    /// The arguments.
    pub args: Args,
    /// Where the name stands in scheduler.conf.
    pub at: Position,
}

/// Plugins of one tier, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tier {
    /// The plugins.
    pub plugins: Vec<PluginConf>,
}

/// Plugins that filter and score nodes for pods of one scheduler name, in place of those of the same names in tiers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// `schedulerName` of the pods.
    pub scheduler_name: String,
    /// The plugins. Of their flags those of filters and scores count.
    pub plugins: Vec<PluginConf>,
    /// Where the name stands in scheduler.conf.
    pub at: Position,
}

/// Arguments of an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActionConf {
    /// The name of the action.
    pub name: String,
    /// The arguments.
    pub args: Args,
    /// Where the name stands in scheduler.conf.
    pub at: Position,
}

/// A scheduler.conf.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conf {
    /// The actions of a cycle, in order.
    pub actions: Vec<String>,
    /// The plugins, by tier.
    pub tiers: Vec<Tier>,
    /// The profiles of scheduler names.
    pub profiles: Vec<Profile>,
    /// Arguments of actions.
    pub configurations: Vec<ActionConf>,
    /// Where usage metrics come from.
    pub metrics: MetricsConf,
}

/// The keys of `metrics` as written. One of them is a password, so that values are not shown by `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MetricsConf(pub BTreeMap<String, String>);

impl Deref for MetricsConf {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for MetricsConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Conf {
    /// The plugins of all tiers and profiles.
    pub fn plugins(&self) -> impl Iterator<Item = &PluginConf> {
        let of_profiles = self.profiles.iter().flat_map(|profile| &profile.plugins);
        self.tiers.iter().flat_map(|tier| &tier.plugins).chain(of_profiles)
    }

    /// The arguments of an action; empty when none were given.
    pub fn action_args(&self, name: &str) -> Args {
        self.configurations
            .iter()
            .find(|conf| conf.name == name)
            .map(|conf| conf.args.clone())
            .unwrap_or_default()
    }

    /// Whether a tier has a plugin.
    pub fn has_plugin(&self, name: &str) -> bool {
        self.tiers.iter().flat_map(|tier| &tier.plugins).any(|plugin| plugin.name == name)
    }

    /// Whether an action is configured.
    #[inline]
    pub fn has_action(&self, name: &str) -> bool {
        self.actions.iter().any(|action| action == name)
    }
}
