//! Resource names as small dense ids, each with the unit its amounts are counted in.

use rustc_hash::FxHashMap;

use crate::people::{describe_bytes, describe_cpu, describe_things};
use crate::{Quantity, format_bytes, format_milli, format_things, format_units};

/// A resource dimension: an index into [`Amounts`](crate::Amounts), given out by [`Dims`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DimId(pub u16);

impl DimId {
    /// `cpu`, in thousandths of a core.
    pub const CPU: Self = Self(0);
    /// `memory`, in bytes.
    pub const MEMORY: Self = Self(1);
    /// `pods`, a count.
    pub const PODS: Self = Self(2);
    /// `ephemeral-storage`, in bytes.
    pub const EPHEMERAL: Self = Self(3);

    /// The position in dense vectors.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The id at a position that is known to hold one.
    #[inline]
    pub(crate) const fn at(index: usize) -> Self {
        Self(index as u16)
    }
}

/// The largest amount: 8 PiB, or 9·10¹² cores. Beyond any node, while sums stay within i64.
const MOST: i64 = 1 << 53;

/// The unit of an amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    /// Thousandths: cpu.
    Milli,
    /// Thousandths of whole things: extended resources, of which a share may be a fraction.
    Thing,
    /// Bytes: memory, ephemeral storage, huge pages.
    Byte,
    /// Whole things: pods, attachable volumes.
    Count,
}

impl Unit {
    /// A limit on the sum of limits (`limits.memory` of a ResourceQuota) has the unit of the limited resource.
    fn of(name: &str) -> Self {
        match name.strip_prefix("limits.").unwrap_or(name) {
            "cpu" => Self::Milli,
            "memory" | "ephemeral-storage" => Self::Byte,
            "pods" => Self::Count,
            name if name.starts_with("hugepages-") => Self::Byte,
            name if name.starts_with("attachable-volumes-") => Self::Count,
            _ => Self::Thing,
        }
    }
}

/// The most resource names with an id of their own: all amounts are vectors with an entry for each id.
const NAMES_MAX: usize = 1024;

/// The name of the dimension of all other names.
const UNKNOWN: &str = "resources that no node has";

/// The resource names in use. Ids are given in the order in which names appear, and never change.
///
/// Only names of nodes, queues and quotas are interned. A name that only pods use counts in one dimension,
/// [`Dims::unknown`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dims {
    dims: Vec<(Box<str>, Unit)>,
    ids: FxHashMap<Box<str>, DimId>,
}

impl Default for Dims {
    fn default() -> Self {
        Self::new()
    }
}

impl Dims {
    /// A registry of the four names that every cluster has.
    pub fn new() -> Self {
        let mut dims = Self { dims: Vec::new(), ids: FxHashMap::default() };
        for name in ["cpu", "memory", "pods", "ephemeral-storage"] {
            dims.intern(name);
        }
        dims
    }

    /// The id of `name`, a new one at first sight.
    ///
    /// Beyond 1,024 names it is that of [`Dims::unknown`].
    pub fn intern(&mut self, name: &str) -> DimId {
        match self.get(name) {
            Some(id) => id,
            None if self.dims.len() < NAMES_MAX => self.add(name),
            None => self.unknown(),
        }
    }

    /// The dimension of all names that are not interned. No node has any of it.
    pub fn unknown(&mut self) -> DimId {
        self.get(UNKNOWN).unwrap_or_else(|| self.add(UNKNOWN))
    }

    /// The same, once anything was counted in it.
    pub fn unknown_if_any(&self) -> Option<DimId> {
        self.get(UNKNOWN)
    }

    /// Whether a dimension is that of names that are not interned.
    pub fn is_unknown(&self, dim: DimId) -> bool {
        self.name(dim) == UNKNOWN
    }

    /// These names, with another name for a dimension that stands for several.
    pub fn renaming(&self, dim: DimId, name: &str) -> Self {
        let mut dims = self.clone();
        dims.dims[dim.index()].0 = name.into();
        dims
    }

    /// These names, with another name for the dimension of names that are not interned: the text that one pod or job
    /// requests of it.
    pub fn naming_unknown(&self, name: &str) -> Self {
        let mut dims = self.clone();
        if let Some(id) = self.get(UNKNOWN) {
            dims.dims[id.index()].0 = name.into();
        }
        dims
    }

    fn add(&mut self, name: &str) -> DimId {
        let id = DimId::at(self.dims.len());
        self.dims.push((name.into(), Unit::of(name)));
        self.ids.insert(name.into(), id);
        id
    }

    /// The id of `name`, if it was interned.
    pub fn get(&self, name: &str) -> Option<DimId> {
        self.ids.get(name).copied()
    }

    /// The name of an id of this registry.
    pub fn name(&self, dim: DimId) -> &str {
        &self.dims[dim.index()].0
    }

    /// How many names there are, at least four.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.dims.len()
    }

    /// All ids with their names, in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (DimId, &str)> {
        self.dims.iter().enumerate().map(|(i, (name, _))| (DimId::at(i), &**name))
    }

    /// The quantity in the dimension's unit, rounded up.
    ///
    /// cpu and extended resources count in thousandths; memory, ephemeral-storage and hugepages-*
    /// in bytes; pods and attachable-volumes-* in whole things. Limited to ±2⁵³, so that adding up
    /// absurd requests does not overflow.
    pub fn amount(&self, dim: DimId, quantity: Quantity) -> i64 {
        let exact = match self.unit(dim) {
            Unit::Milli | Unit::Thing => quantity.milli(),
            Unit::Byte | Unit::Count => quantity.units(),
        };
        exact.clamp(-MOST, MOST)
    }

    /// As [`Dims::amount`], of what a node has: less than 2⁵³, so that a request that was cut down to it fits nowhere.
    pub fn room(&self, dim: DimId, quantity: Quantity) -> i64 {
        self.amount(dim, quantity).min(MOST - 1)
    }

    /// As [`Dims::amount`] but rounded down, for a limit must not grow, and over all of i64.
    pub fn ceiling(&self, dim: DimId, quantity: Quantity) -> i64 {
        match self.unit(dim) {
            Unit::Milli | Unit::Thing => quantity.milli_floor(),
            Unit::Byte | Unit::Count => quantity.units_floor(),
        }
    }

    /// An amount in the dimension's unit as quantity text: canonical, but for a fraction of an extended resource, which
    /// is a decimal number (`66.667`, not `66667m`).
    pub fn format(&self, dim: DimId, amount: i64) -> String {
        match self.unit(dim) {
            Unit::Milli => format_milli(amount),
            Unit::Thing => format_things(amount),
            Unit::Byte => format_bytes(amount),
            Unit::Count => format_units(amount),
        }
    }

    /// An amount as text for people, which may be rounded: see [`for_people`](crate::for_people).
    pub fn describe(&self, dim: DimId, amount: i64) -> String {
        match self.unit(dim) {
            Unit::Milli => describe_cpu(amount),
            Unit::Thing => describe_things(amount),
            Unit::Byte => describe_bytes(amount),
            Unit::Count => describe_things(amount.saturating_mul(1000)),
        }
    }

    /// Whether Kubernetes honours this dimension in a pod's own `spec.resources` (KEP-2837).
    pub fn is_pod_level(&self, dim: DimId) -> bool {
        matches!(dim, DimId::CPU | DimId::MEMORY) || self.name(dim).starts_with("hugepages-")
    }

    fn unit(&self, dim: DimId) -> Unit {
        self.dims[dim.index()].1
    }
}
