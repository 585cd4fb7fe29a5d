//! The attribute sets of the nodes in each topology domain. Topology keys are among the attributes, so nodes with equal
//! sets are in the same domains.
use rustc_hash::FxHashMap;

use super::buckets::NodeBuckets;
use phalanx_cluster::Cluster;
use phalanx_cluster::id::TopologyId;

/// The attribute sets of the nodes in each domain, for each topology that was asked for.
#[derive(Debug, Default)]
pub(super) struct DomainIndex(FxHashMap<TopologyId, TopologyIndex>);

#[derive(Debug)]
struct TopologyIndex {
    /// The stamps of the attribute sets and of the topology when the index was made.
    stamps: [u64; 2],
    /// By domain, where its attribute sets begin in `attribute_sets`.
    begins: Vec<u32>,
    attribute_sets: Vec<u32>,
}

impl DomainIndex {
    /// Forgets topologies that no longer exist.
    pub(super) fn retain(&mut self, cluster: &Cluster) {
        self.0.retain(|id, _| cluster.terms.has_topology(*id));
    }

    /// The attribute sets of the nodes in a domain.
    pub(super) fn attribute_sets(
        &mut self,
        cluster: &Cluster,
        buckets: &NodeBuckets,
        id: TopologyId,
        domain: u32,
    ) -> &[u32] {
        let stamps = [buckets.attribute_sets().stamp(), cluster.terms.topology(id).version()];
        let index = self.0.entry(id).or_insert_with(|| TopologyIndex::new(cluster, buckets, id, stamps));
        if index.stamps != stamps {
            *index = TopologyIndex::new(cluster, buckets, id, stamps);
        }
        let [from, to] = [0, 1].map(|next| index.begins.get(domain as usize + next).copied());
        let end = index.attribute_sets.len() as u32;
        &index.attribute_sets[from.unwrap_or(end) as usize..to.unwrap_or(end) as usize]
    }
}

impl TopologyIndex {
    /// Counts the attribute sets of each domain, then sorts them by domain.
    fn new(cluster: &Cluster, buckets: &NodeBuckets, id: TopologyId, stamps: [u64; 2]) -> Self {
        let topology = cluster.terms.topology(id);
        let attribute_sets = 0..buckets.attribute_sets().bound() as u32;
        let of =
            |attribute_set: u32| Some((attribute_set, topology.domain_of(buckets.example(attribute_set)?)?));
        let domains: Vec<(u32, usize)> = attribute_sets.filter_map(of).collect();
        let mut begins = vec![0; topology.bound() + 1];
        for (_, domain) in &domains {
            begins[domain + 1] += 1;
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut attribute_sets = vec![0; domains.len()];
        for (attribute_set, domain) in domains {
            attribute_sets[next[domain] as usize] = attribute_set;
            next[domain] += 1;
        }
        Self { stamps, begins, attribute_sets }
    }
}
