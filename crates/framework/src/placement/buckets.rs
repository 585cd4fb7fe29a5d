//! Node buckets: nodes with equal attributes and equal resources. To every rule they are one node, but for the
//! tie-break; so a class looks at one node of a bucket only, the top, which has the largest tie-break.
use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::amounts::BucketAmounts;
use super::attribute_sets::AttributeSets;
use super::heap::{Link, Links, NIL};
use super::tie_break;
use crate::plugin::{Attribute, Values};
use phalanx_cluster::id::{Id, NodeId};
use phalanx_cluster::{Cluster, Node};

/// A set of nodes that no rule can tell apart now.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeBucket {
    /// The attribute set of the nodes.
    pub(super) attribute_set: u32,
    /// The number of nodes; an empty bucket waits to be used again.
    pub(super) nodes: u32,
    /// A number that tells the bucket from an earlier one in its slot.
    pub(super) serial: u64,
    /// The tie-break of the top.
    pub(super) tie_break: u64,
    top: u32,
    /// The position of the top in `NodeBuckets::nodes`.
    position: u32,
    hash: u64,
    /// The index of the bucket in `NodeBuckets::of_attribute_set`.
    place: u32,
}

impl NodeBucket {
    /// The bucket as if it had so many nodes.
    pub(super) fn of_nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// The node with the largest tie-break.
    pub(super) fn top(&self) -> NodeId {
        NodeId::from_index(self.top as usize)
    }
}

/// What is known of a node: its bucket, and the versions of the node that were seen.
#[derive(Clone, Copy, Debug)]
struct NodeRecord {
    /// The version of the node when the node was put into its bucket.
    version: u64,
    /// The version of the node's attributes when its attribute set and tie-break were found.
    static_version: u64,
    attribute_set: u32,
    bucket: u32,
}

impl NodeRecord {
    const NOTHING: NodeRecord = NodeRecord { version: 0, static_version: 0, attribute_set: NIL, bucket: NIL };
}

/// The nodes of the Cluster in buckets.
#[derive(Debug, Default)]
pub(super) struct NodeBuckets {
    seed: u64,
    attribute_sets: AttributeSets,
    /// By node, its position in `nodes`, `records` and `links`. Nodes that came together stand in the order of their
    /// tie-breaks, for equal nodes are taken in that order.
    positions: Vec<u32>,
    /// The nodes by position.
    nodes: Vec<NodeId>,
    records: Vec<NodeRecord>,
    /// By tie-break, in the heap of the bucket.
    links: Links<u64>,
    buckets: Vec<NodeBucket>,
    /// The resources of the buckets by slot: they lie closer together in memory than the tops do.
    amounts: BucketAmounts,
    free: Vec<u32>,
    by_state: HashTable<u32>,
    /// The slots of buckets by attribute set.
    of_attribute_set: Vec<Vec<u32>>,
    serial: u64,
    /// The position in the Cluster's log of changed nodes up to which the log was read.
    cursor: u64,
    changed: BucketLog,
}

/// A log of buckets that came, went or got another top.
#[derive(Debug, Default)]
struct BucketLog {
    buckets: Vec<u32>,
    /// The number of entries that were dropped.
    dropped: u64,
}

impl BucketLog {
    /// Adds a bucket. The log is dropped when it is longer than twice the number of buckets: a reader so far behind
    /// rates all buckets in any case.
    fn note(&mut self, bucket: u32, buckets: usize) {
        if self.buckets.len() > 2 * buckets + 1024 {
            self.dropped += self.buckets.len() as u64;
            self.buckets.clear();
        }
        self.buckets.push(bucket);
    }
}

impl NodeBuckets {
    /// Knows no nodes yet; the seed is for tie-breaks.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// All buckets by slot, the empty ones too.
    pub(super) fn slots(&self) -> &[NodeBucket] {
        &self.buckets
    }

    /// The serial of the newest bucket.
    pub(super) fn newest(&self) -> u64 {
        self.serial
    }

    /// The resources of the buckets by slot.
    pub(super) fn amounts(&self) -> &BucketAmounts {
        &self.amounts
    }

    /// All buckets that have nodes.
    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeBucket> {
        self.buckets.iter().filter(|bucket| bucket.nodes > 0)
    }

    /// The attribute sets of all nodes.
    pub(super) fn attribute_sets(&self) -> &AttributeSets {
        &self.attribute_sets
    }

    /// The slots of the buckets with an attribute set.
    pub(super) fn of_attribute_set(&self, attribute_set: u32) -> &[u32] {
        self.of_attribute_set.get(attribute_set as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// A node with an attribute set.
    pub(super) fn example(&self, attribute_set: u32) -> Option<NodeId> {
        self.of_attribute_set(attribute_set).first().map(|slot| self.buckets[*slot as usize].top())
    }

    /// The tie-break of a node; the node must be in a bucket.
    pub(super) fn tie_break_of(&self, node: NodeId) -> u64 {
        self.links.0[self.position(node)].key
    }

    fn position(&self, node: NodeId) -> usize {
        self.positions[node.index()] as usize
    }

    /// The nodes that are likely to be the next tops of a bucket once its top has left.
    pub(super) fn next_tops(&self, slot: usize) -> impl Iterator<Item = NodeId> {
        let position = self.buckets[slot].position as usize;
        let alike = move |record: &NodeRecord| record.bucket as usize == slot;
        let next = self.records[position..]
            .iter()
            .zip(&self.nodes[position..])
            .take_while(move |(record, _)| alike(record));
        next.map(|(_, node)| *node)
    }

    /// The slot of a node's bucket; a node without an object has none.
    pub(super) fn of(&self, node: NodeId) -> Option<usize> {
        let record = &self.records[*self.positions.get(node.index())? as usize];
        (record.bucket != NIL).then_some(record.bucket as usize)
    }

    /// The slots of buckets that changed since a cursor, some more than once; `None` when the log does not reach back
    /// to the cursor.
    pub(super) fn changed_since(&self, cursor: u64) -> Option<&[u32]> {
        self.changed.buckets.get(cursor.checked_sub(self.changed.dropped)? as usize..)
    }

    /// The cursor of the end of the log.
    pub(super) fn changed_end(&self) -> u64 {
        self.changed.dropped + self.changed.buckets.len() as u64
    }

    /// The number of attributes that rules read.
    pub(super) fn attributes(&self) -> usize {
        self.attribute_sets.attributes()
    }

    /// Adds what rules read. Where that tells nodes apart which were equal, all attribute sets and buckets are made
    /// anew.
    pub(super) fn learn<'a>(
        &mut self,
        cluster: &Cluster,
        reads: impl Iterator<Item = &'a (Attribute, Values)>,
    ) {
        let more = reads.fold(false, |more, (attribute, values)| {
            self.attribute_sets.learn(&cluster.nodes, attribute, values) || more
        });
        if more {
            self.clear();
        }
    }

    fn clear(&mut self) {
        // Rankings are rebuilt when the stamp of the attribute sets changes, so the log of buckets need not tell them.
        self.attribute_sets.clear();
        self.positions.clear();
        self.nodes.clear();
        self.records.clear();
        self.links.0.clear();
        self.buckets.clear();
        self.amounts.clear();
        self.free.clear();
        self.by_state.clear();
        self.of_attribute_set.clear();
        self.cursor = u64::MAX;
    }

    /// Catches up with the Cluster's log of changed nodes.
    pub(super) fn sync(&mut self, cluster: &Cluster) {
        match cluster.touched_since(self.cursor) {
            Some([]) => return,
            Some(touched) => self.move_nodes(cluster, touched.iter().copied()),
            None => self.move_nodes(cluster, (0..cluster.nodes.bound()).map(NodeId::from_index)),
        }
        self.cursor = cluster.touched_end();
    }

    /// Moves nodes to the buckets where they belong. All nodes leave before any joins, so that a bucket whose nodes all
    /// change alike is used again.
    fn move_nodes(&mut self, cluster: &Cluster, nodes: impl Iterator<Item = NodeId> + Clone) {
        self.add_positions(cluster);
        let version = |id: NodeId| cluster.nodes.get(id).map_or(0, |node| node.version.0);
        for id in nodes.clone() {
            let record = self.records[self.position(id)];
            if record.bucket != NIL && record.version != version(id) {
                self.leave(id);
            }
        }
        for id in nodes {
            let position = self.position(id);
            let record = self.records[position];
            if record.version == version(id) {
                continue;
            }
            match cluster.nodes.get(id).filter(|node| node.exists) {
                Some(_) => self.join(cluster, id),
                None => self.forget(id),
            }
            self.records[position].version = version(id);
        }
    }

    /// Gives positions to nodes that have none.
    fn add_positions(&mut self, cluster: &Cluster) {
        let known = self.positions.len();
        let tie_break = |id: NodeId| cluster.nodes.get(id).map(|node| tie_break(self.seed, &node.name));
        let mut new: Vec<_> =
            (known..cluster.nodes.bound()).map(NodeId::from_index).map(|id| (tie_break(id), id)).collect();
        new.sort_unstable_by(|a, b| b.cmp(a));
        self.positions.resize(known + new.len(), 0);
        for (_, id) in new {
            self.positions[id.index()] = self.nodes.len() as u32;
            self.nodes.push(id);
        }
        self.records.resize(self.nodes.len(), NodeRecord::NOTHING);
        self.links.0.resize(self.nodes.len(), Link::of(0));
    }

    fn forget(&mut self, id: NodeId) {
        let position = self.position(id);
        let record = std::mem::replace(&mut self.records[position], NodeRecord::NOTHING);
        if record.attribute_set != NIL {
            self.attribute_sets.leave(record.attribute_set);
        }
    }

    fn leave(&mut self, id: NodeId) {
        let position = self.position(id);
        let slot = std::mem::replace(&mut self.records[position].bucket, NIL);
        let bucket = &mut self.buckets[slot as usize];
        let was_top = bucket.position as usize == position;
        bucket.nodes -= 1;
        bucket.position = self.links.remove(bucket.position, position as u32);
        if was_top {
            bucket.tie_break = self.links.key(bucket.position).unwrap_or(0);
            bucket.top = self.nodes.get(bucket.position as usize).map_or(NIL, |node| node.index() as u32);
        }
        if bucket.nodes == 0 {
            let hash = bucket.hash;
            if let Ok(entry) = self.by_state.find_entry(hash, |other| *other == slot) {
                entry.remove();
            }
            self.drop_bucket(slot);
        }
        if was_top {
            self.changed.note(slot, self.buckets.len());
        }
    }

    fn drop_bucket(&mut self, slot: u32) {
        let NodeBucket { attribute_set, place, .. } = self.buckets[slot as usize];
        let list = &mut self.of_attribute_set[attribute_set as usize];
        list.swap_remove(place as usize);
        if let Some(moved) = list.get(place as usize) {
            self.buckets[*moved as usize].place = place;
        }
        self.free.push(slot);
    }

    fn join(&mut self, cluster: &Cluster, id: NodeId) {
        let node = &cluster.nodes[id];
        let position = self.position(id);
        if self.records[position].static_version != node.static_version.0 {
            self.set_attributes(position, cluster, id);
        }
        let attribute_set = self.records[position].attribute_set;
        let hash = hash_of(attribute_set, node);
        let Self { buckets, amounts, by_state, .. } = self;
        let same = |slot: &u32| {
            let bucket = &buckets[*slot as usize];
            bucket.hash == hash
                && bucket.attribute_set == attribute_set
                && amounts.node(*slot).same_resources(node)
        };
        let slot = match by_state.find(hash, same) {
            Some(slot) => *slot,
            None => self.new_bucket(attribute_set, hash, node),
        };
        let bucket = &mut self.buckets[slot as usize];
        bucket.nodes += 1;
        bucket.position = self.links.meld(bucket.position, position as u32);
        self.records[position].bucket = slot;
        if bucket.position as usize == position {
            bucket.tie_break = self.links.key(bucket.position).unwrap_or(0);
            bucket.top = id.index() as u32;
            self.changed.note(slot, self.buckets.len());
        }
    }

    /// Finds the attribute set and the tie-break of a node that is new or whose attributes changed.
    fn set_attributes(&mut self, position: usize, cluster: &Cluster, id: NodeId) {
        let (node, attribute_set) = (&cluster.nodes[id], self.attribute_sets.join(cluster, id));
        let record = &mut self.records[position];
        let before = std::mem::replace(&mut record.attribute_set, attribute_set);
        record.static_version = node.static_version.0;
        self.links.0[position].key = tie_break(self.seed, &node.name);
        if before != NIL {
            self.attribute_sets.leave(before);
        }
    }

    fn new_bucket(&mut self, attribute_set: u32, hash: u64, node: &Node) -> u32 {
        self.serial += 1;
        if self.of_attribute_set.len() <= attribute_set as usize {
            self.of_attribute_set.resize_with(attribute_set as usize + 1, Vec::new);
        }
        let place = self.of_attribute_set[attribute_set as usize].len() as u32;
        let bucket = NodeBucket {
            attribute_set,
            nodes: 0,
            serial: self.serial,
            tie_break: 0,
            top: NIL,
            position: NIL,
            hash,
            place,
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.buckets[slot as usize] = bucket;
            slot
        } else {
            self.buckets.push(bucket);
            self.buckets.len() as u32 - 1
        };
        self.amounts.assume(slot, node);
        self.of_attribute_set[attribute_set as usize].push(slot);
        let buckets = &self.buckets;
        self.by_state.insert_unique(hash, slot, |slot| buckets[*slot as usize].hash);
        slot
    }
}

fn hash_of(attribute_set: u32, node: &Node) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u32(attribute_set);
    node.hash_resources(&mut hasher);
    hasher.finish()
}
