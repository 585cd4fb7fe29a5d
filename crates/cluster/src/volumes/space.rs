//! How large a volume drivers can provision on which nodes (CSIStorageCapacity).
//!
//! Source: kube-scheduler's VolumeBinding plugin (`hasEnoughCapacity`): it concerns drivers whose CSIDriver says
//! `storageCapacity: true`. Any one capacity of the storage class that selects the node and is large enough will do.
//! Unlike there, bytes assumed for unbound claims are subtracted, so that members of a gang do not share capacity. Once
//! a claim is bound, the driver is expected to publish less capacity.
use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Volumes;
use crate::Node;
use crate::count::Count;
use crate::event::{Key, StorageCapacityInfo};
use crate::label::Selector;
use crate::multi_map::SelectorIndex;

/// The storage capacities of a storage class. Drivers publish them by node or zone, so they are found by the label of
/// these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    parts: FxHashMap<Key, CapacityPart>,
    by_label: SelectorIndex<Key>,
}

#[derive(Clone, Debug, PartialEq)]
struct CapacityPart {
    nodes: Selector,
    size: i64,
    whole: Option<i64>,
}

/// Bytes assumed for unbound claims, by capacity.
pub(crate) type AssumedBytes = FxHashMap<Key, i64>;

/// A part of a capacity that is assumed for a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Piece {
    pub(super) class: Arc<str>,
    pub(super) of: Key,
    pub(super) size: i64,
}

impl Space {
    /// The capacity that a volume of this size can be provisioned from for a node: the one with the fewest bytes left.
    pub(super) fn find(&self, size: i64, node: &Node, taken: &AssumedBytes) -> Option<&Key> {
        let left = |key: &Key| {
            let taken = taken.get(key).copied().unwrap_or_default();
            self.parts[key].whole.map_or(i64::MAX, |whole| whole.saturating_sub(taken))
        };
        let fits = |key: &&Key| {
            let part = &self.parts[*key];
            part.size >= size && left(key) >= size && part.selects(node)
        };
        self.by_label.may_select(node.labels.iter()).filter(fits).min_by_key(|key| (left(key), *key))
    }

    /// The keys of the labels that [`Space::find`] reads.
    pub fn keys(&self) -> BTreeSet<&Arc<str>> {
        self.parts.values().flat_map(|part| &part.nodes.0).map(|requirement| &requirement.key).collect()
    }

    fn add(&mut self, key: &Key, part: &CapacityPart) {
        self.by_label.insert(part.nodes.0.iter(), key.clone());
        self.parts.insert(key.clone(), part.clone());
    }

    fn remove(&mut self, key: &Key, part: &CapacityPart) {
        self.by_label.remove(part.nodes.0.iter(), key);
        self.parts.remove(key);
    }
}

impl CapacityPart {
    /// A capacity by its object; `None` without nodes or size.
    fn of(info: &StorageCapacityInfo) -> Option<Self> {
        let (nodes, size) = (info.nodes.clone()?, info.size?);
        Some(Self { nodes, size, whole: info.whole })
    }

    fn selects(&self, node: &Node) -> bool {
        self.nodes.0.iter().all(|requirement| requirement.holds(node.label(&requirement.key)))
    }
}

impl Volumes {
    /// The capacities of a storage class; `None` when its driver does not publish capacities.
    pub(super) fn space(&self, class: &str, provisioner: &str) -> Option<Arc<Space>> {
        let space = || self.spaces.get(class).cloned().unwrap_or_default();
        self.tellers.contains(provisioner).then(space)
    }

    /// Bytes assumed of the capacities of a storage class.
    pub(super) fn taken(&self, class: &str) -> Arc<AssumedBytes> {
        self.taken.get(class).cloned().unwrap_or_default()
    }

    /// Counts an assumed part in or out.
    pub(super) fn take_piece(&mut self, piece: &Piece, count: Count) {
        let of_class = Arc::make_mut(self.taken.entry(piece.class.clone()).or_default());
        let sum = of_class.entry(piece.of.clone()).or_default();
        *sum += i64::from(count.sign()) * piece.size;
        if *sum == 0 {
            of_class.remove(&piece.of);
        }
        if of_class.is_empty() {
            self.taken.remove(&piece.class);
        }
        self.pool_changed(&piece.class);
    }

    /// Assumed bytes, rebuilt.
    pub(super) fn rebuilt_taken(&self) -> FxHashMap<Arc<str>, Arc<AssumedBytes>> {
        let mut taken: FxHashMap<Arc<str>, AssumedBytes> = FxHashMap::default();
        let choices = self.pvcs.iter().filter_map(|(_, claim)| claim.choice.as_ref());
        for piece in choices.filter_map(|choice| choice.got.piece.as_ref()) {
            *taken.entry(piece.class.clone()).or_default().entry(piece.of.clone()).or_default() += piece.size;
        }
        taken.into_iter().map(|(class, taken)| (class, Arc::new(taken))).collect()
    }

    /// Sets whether a driver publishes capacities. True when that changed.
    pub fn set_teller(&mut self, driver: &Arc<str>, tells: bool) -> bool {
        let news = if tells { self.tellers.insert(driver.clone()) } else { self.tellers.remove(driver) };
        let classes =
            self.classes.values().filter(|class| news && class.provisioner.as_ref() == Some(driver));
        for class in classes.map(|class| class.name.clone()).collect::<Vec<_>>() {
            self.pool_changed(&class);
        }
        news
    }

    /// Sets or removes a capacity. True when it changed.
    pub fn set_capacity(&mut self, key: &Key, info: Option<StorageCapacityInfo>) -> bool {
        if self.capacities.get(key) == info.as_ref() {
            return false;
        }
        if let Some(before) = self.capacities.remove(key) {
            self.change_space(&before, Space::remove);
        }
        if let Some(info) = info {
            self.change_space(&info, Space::add);
            self.capacities.insert(key.clone(), info);
        }
        true
    }

    fn change_space(&mut self, info: &StorageCapacityInfo, how: fn(&mut Space, &Key, &CapacityPart)) {
        if let Some(part) = CapacityPart::of(info) {
            how(Arc::make_mut(self.spaces.entry(info.class.clone()).or_default()), &info.key, &part);
        }
        self.spaces.retain(|_, space| !space.parts.is_empty());
        self.pool_changed(&info.class);
    }

    /// The capacities by storage class, rebuilt.
    pub(super) fn rebuilt_spaces(&self) -> FxHashMap<Arc<str>, Arc<Space>> {
        let mut spaces: FxHashMap<Arc<str>, Space> = FxHashMap::default();
        for info in self.capacities.values() {
            if let Some(part) = CapacityPart::of(info) {
                spaces.entry(info.class.clone()).or_default().add(&info.key, &part);
            }
        }
        spaces.into_iter().map(|(class, space)| (class, Arc::new(space))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Operator, Requirement};

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| Arc::from(*value)).collect();
        Requirement { key: key.into(), operator, values }
    }

    fn told(name: &str, nodes: Option<Vec<Requirement>>, size: Option<i64>) -> StorageCapacityInfo {
        let nodes = nodes.map(Selector);
        StorageCapacityInfo { key: Key::new("driver", name), class: "fast".into(), nodes, size, whole: size }
    }

    fn node(labels: &[(&str, &str)]) -> Node {
        let labels = labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
        Node { labels, ..Node::default() }
    }

    /// Whether 10 bytes can be had on a node in zone a, rack 1, once this is told.
    fn has(told: StorageCapacityInfo) -> bool {
        let mut volumes = Volumes::default();
        volumes.set_teller(&"csi".into(), true);
        assert!(volumes.set_capacity(&told.key.clone(), Some(told)));
        let space = volumes.space("fast", "csi").unwrap();
        space.find(10, &node(&[("rack", "1"), ("zone", "a")]), &AssumedBytes::default()).is_some()
    }

    #[test]
    fn a_capacity_must_select_the_node_and_be_large_enough() {
        use Operator::{Exists, In, NotIn};
        let zone = |zone| requirement("zone", In, &[zone]);
        for (nodes, size, expected) in [
            (Some(vec![zone("a")]), Some(10), true),
            (Some(vec![zone("a")]), Some(9), false),
            (Some(vec![zone("a")]), None, false),
            (Some(vec![zone("b")]), Some(10), false),
            (Some(vec![requirement("zone", In, &["a", "b"])]), Some(10), true),
            (Some(vec![requirement("zone", In, &["b", "c"])]), Some(10), false),
            (Some(vec![requirement("rack", Exists, &[]), zone("a")]), Some(10), true),
            (Some(vec![requirement("disk", Exists, &[]), zone("a")]), Some(10), false),
            (Some(vec![requirement("zone", NotIn, &["b"])]), Some(10), true),
            // Every node, and none.
            (Some(vec![]), Some(10), true),
            (None, Some(10), false),
        ] {
            assert_eq!(has(told("c", nodes.clone(), size)), expected, "{nodes:?} {size:?}");
        }
    }

    #[test]
    fn a_driver_that_publishes_no_capacity_is_unlimited_and_undone_claims_count_no_more() {
        let mut volumes = Volumes::default();
        assert!(volumes.space("fast", "csi").is_none());
        assert!(volumes.set_teller(&"csi".into(), true) && !volumes.set_teller(&"csi".into(), true));
        let here = node(&[("zone", "a")]);
        let has = |volumes: &Volumes| {
            volumes.space("fast", "csi").unwrap().find(1, &here, &AssumedBytes::default()).is_some()
        };
        assert!(!has(&volumes), "it has told of no room yet");
        let nodes = vec![requirement("zone", Operator::In, &["a"])];
        let keys = ["x", "y"].map(|name| Key::new("driver", name));
        for key in &keys {
            assert!(volumes.set_capacity(key, Some(told(&key.name, Some(nodes.clone()), Some(1)))));
        }
        assert!(!volumes.set_capacity(&keys[0], Some(told("x", Some(nodes.clone()), Some(1)))), "no news");
        assert!(volumes.set_capacity(&keys[0], None) && has(&volumes));
        assert_eq!(volumes.spaces, volumes.rebuilt_spaces());
        assert!(volumes.set_capacity(&keys[1], Some(told("y", Some(nodes), Some(0)))) && !has(&volumes));
        assert!(volumes.set_capacity(&keys[1], None) && volumes.spaces.is_empty());
        assert!(volumes.set_teller(&"csi".into(), false) && volumes.space("fast", "csi").is_none());
    }

    #[test]
    fn an_assumed_volume_uses_the_smallest_capacity_that_suffices() {
        let mut volumes = Volumes::default();
        volumes.set_teller(&"csi".into(), true);
        for (name, size, whole) in [("large", 100, Some(100)), ("small", 20, Some(20)), ("any", 15, None)] {
            let told = StorageCapacityInfo { whole, ..told(name, Some(vec![]), Some(size)) };
            volumes.set_capacity(&told.key.clone(), Some(told));
        }
        let found = |volumes: &Volumes, size: i64| {
            let (space, taken) = (volumes.space("fast", "csi").unwrap(), volumes.taken("fast"));
            space.find(size, &node(&[]), &taken).map(|key| key.name.to_string())
        };
        let piece =
            |name: &str, size: i64| Piece { class: "fast".into(), of: Key::new("driver", name), size };
        assert_eq!(found(&volumes, 10).as_deref(), Some("small"));
        volumes.take_piece(&piece("small", 15), Count::In);
        assert_eq!(found(&volumes, 5).as_deref(), Some("small"));
        assert_eq!(found(&volumes, 10).as_deref(), Some("large"));
        volumes.take_piece(&piece("large", 95), Count::In);
        assert_eq!(found(&volumes, 10).as_deref(), Some("any"), "nothing is known of its sum");
        assert_eq!(found(&volumes, 16), None);
        volumes.take_piece(&piece("large", 95), Count::Out);
        volumes.take_piece(&piece("small", 15), Count::Out);
        assert!(volumes.taken.is_empty());
    }
}
