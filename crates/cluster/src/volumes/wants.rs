//! What the claims of a pod require of its node, and which volumes unbound claims can get there. Source:
//! kube-scheduler's VolumeBinding plugin: a claim is bound to the smallest volume that matches, else one is
//! provisioned.
use std::sync::Arc;

use super::space::{AssumedBytes, Piece, Space};
use super::{Got, Volumes};
use crate::Node;
use crate::event::{NodeTerm, PodVolume, PvcInfo, StorageClassInfo, VolumeInfo};
use crate::id::{NodeId, PvcId};
use crate::matching::node_term_matches;

/// Why no node is feasible for a pod with a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The claim does not exist.
    Missing,
    /// The ephemeral claim does not exist yet: a controller makes it.
    NotMade,
    /// The ephemeral claim was made for another pod.
    NotOwner,
    /// The claim is being deleted.
    Deleting,
    /// The claim's volume is gone.
    Lost(Arc<str>),
    /// The claim is unbound, with binding mode `Immediate`.
    Immediate,
    /// The storage class does not exist.
    NoClass(Arc<str>),
}

/// What a claim requires of the node of its pod.
#[derive(Clone, Debug)]
pub enum ClaimDemand {
    /// A node that can reach the volume.
    Reach(Arc<VolumeInfo>),
    /// This node, which the volume is being provisioned for.
    At(Arc<str>),
    /// This node, since the volume is assumed for another pod of the claim there; no other node is known to reach it.
    On(NodeId, PvcId),
    /// A volume for the unbound claim.
    Volume(Want),
}

/// An unbound claim, and the volumes that it can get.
#[derive(Clone, Debug)]
pub struct Want {
    pub(crate) claim: PvcId,
    /// Volumes that match, smallest first.
    pub candidates: Vec<Arc<VolumeInfo>>,
    /// Node terms of which one has to match to provision a volume; empty for any node, `None` for no node.
    pub made: Option<Vec<NodeTerm>>,
    /// Storage capacities; `None` when the driver does not publish any.
    pub space: Option<Arc<Space>>,
    /// Assumed bytes of the capacities.
    taken: Arc<AssumedBytes>,
    /// The requested size, in bytes.
    pub size: i64,
    /// Storage class.
    class: Arc<str>,
}

/// No storage capacity is large enough.
struct TooLittle;

impl Want {
    /// Whether a volume can be provisioned for a node, if no other one is.
    pub fn can_be_made(&self, node: &Node) -> bool {
        self.may_be_made(node) && self.has_space(node)
    }

    fn may_be_made(&self, node: &Node) -> bool {
        self.made.as_ref().is_some_and(|terms| reaches(Some(terms).filter(|terms| !terms.is_empty()), node))
    }

    fn has_space(&self, node: &Node) -> bool {
        self.piece(node, &self.taken).is_ok()
    }

    /// The capacity that provisioning for a node takes; `None` where the driver publishes none.
    fn piece(&self, node: &Node, taken: &AssumedBytes) -> Result<Option<Piece>, TooLittle> {
        let Some(space) = &self.space else { return Ok(None) };
        let of = space.find(self.size, node, taken).ok_or(TooLittle)?.clone();
        Ok(Some(Piece { class: self.class.clone(), of, size: self.size }))
    }

    /// Whether only storage capacity is missing to provision for a node.
    pub fn lacks_space(&self, node: &Node) -> bool {
        self.may_be_made(node) && !self.has_space(node)
    }
}

/// Whether a volume with this node affinity can be used on a node.
pub fn reaches(terms: Option<&Vec<NodeTerm>>, node: &Node) -> bool {
    terms.is_none_or(|terms| terms.iter().any(|term| node_term_matches(term, node)))
}

/// A volume for each claim; `None` when a claim can get none on the node.
pub fn solve(wants: &[Want], node: &Node) -> Option<Vec<Got>> {
    let mut matching = Matching {
        lists: wants.iter().map(|want| usable(want, node)).collect(),
        given: vec![None; wants.len()],
    };
    // Claims that cannot be provisioned come first: they need an existing volume.
    let (made, must): (Vec<usize>, Vec<usize>) =
        (0..wants.len()).partition(|at| wants[*at].can_be_made(node));
    if !must.into_iter().all(|at| matching.serve(at, &mut Vec::new())) {
        return None;
    }
    for at in made {
        matching.serve(at, &mut Vec::new());
    }
    let volumes = matching.given.iter().map(|given| given.map(|volume| volume.name.clone()));
    let mut got: Vec<Got> = volumes.map(|volume| Got { volume, piece: None }).collect();
    make(wants, node, &mut got)?;
    Some(got)
}

/// Finds storage capacity for the volumes to be provisioned, largest first.
fn make(wants: &[Want], node: &Node, got: &mut [Got]) -> Option<()> {
    let mut open: Vec<usize> = (0..wants.len()).filter(|at| got[*at].volume.is_none()).collect();
    open.sort_by_key(|at| std::cmp::Reverse(wants[*at].size));
    let mut taken: Vec<(&Arc<str>, AssumedBytes)> = Vec::new();
    for at in open {
        let want = &wants[at];
        let known = taken.iter().position(|(class, _)| **class == want.class);
        let of_class = known.map_or(&*want.taken, |at| &taken[at].1);
        let Some(piece) = want.piece(node, of_class).ok()? else { continue };
        let known = known.unwrap_or_else(|| {
            taken.push((&want.class, AssumedBytes::clone(&want.taken)));
            taken.len() - 1
        });
        *taken[known].1.entry(piece.of.clone()).or_default() += piece.size;
        got[at].piece = Some(piece);
    }
    Some(())
}

fn usable<'w>(want: &'w Want, node: &Node) -> Vec<&'w Arc<VolumeInfo>> {
    want.candidates.iter().filter(|volume| reaches(volume.nodes.as_ref(), node)).collect()
}

/// Matches claims and volumes by augmenting paths: the number of matched claims is as large as possible.
struct Matching<'w> {
    lists: Vec<Vec<&'w Arc<VolumeInfo>>>,
    given: Vec<Option<&'w Arc<VolumeInfo>>>,
}

impl<'w> Matching<'w> {
    fn serve(&mut self, at: usize, tried: &mut Vec<&'w Arc<str>>) -> bool {
        for index in 0..self.lists[at].len() {
            let volume = self.lists[at][index];
            if tried.contains(&&volume.name) {
                continue;
            }
            tried.push(&volume.name);
            let holder =
                self.given.iter().position(|given| given.is_some_and(|given| given.name == volume.name));
            if holder.is_none_or(|holder| self.serve(holder, tried)) {
                self.given[at] = Some(volume);
                return true;
            }
        }
        false
    }
}

impl Volumes {
    /// Whether a claim has binding mode `WaitForFirstConsumer`.
    pub fn waits(&self, id: PvcId) -> bool {
        let Some(info) = &self.pvcs[id].info else { return false };
        info.volume.is_none() && self.classes.get(&info.class).is_some_and(|class| class.waits)
    }

    /// The volumes that a `WaitForFirstConsumer` claim can get.
    pub fn want(&self, id: PvcId) -> Option<Want> {
        let info = self.pvcs[id].info.as_ref()?;
        let class = self.classes.get(&info.class)?;
        let mut candidates: Vec<_> = self.prebound(info).collect();
        let mut made = class.provisioner.is_some().then(|| class.topologies.clone());
        if candidates.is_empty() {
            candidates = self.candidates(info).collect();
        } else {
            made = None;
        }
        let rank = |volume: &Arc<VolumeInfo>| {
            self.preferred.iter().position(|name| *name == volume.name).unwrap_or(usize::MAX)
        };
        if !self.preferred.is_empty() {
            candidates.sort_by_key(rank);
        }
        let provisioner = class.provisioner.as_ref().filter(|_| made.is_some() && info.size > 0);
        let space = provisioner.and_then(|provisioner| self.space(&class.name, provisioner));
        let (taken, class) = (self.taken(&class.name), class.name.clone());
        Some(Want { claim: id, candidates, made, space, taken, size: info.size, class })
    }

    /// The nodes that can use a volume, if not all can.
    pub fn nodes_of(&self, name: &Arc<str>) -> Option<&Vec<NodeTerm>> {
        self.volumes.get(name)?.info.nodes.as_ref()
    }

    /// Whether two volumes differ only in their names.
    pub fn are_alike(&self, one: &Arc<str>, other: &Arc<str>) -> bool {
        let unnamed = |name: &Arc<str>| {
            let info = &self.volumes.get(name)?.info;
            Some(VolumeInfo { name: Arc::default(), ..(**info).clone() })
        };
        unnamed(one) == unnamed(other)
    }

    fn candidates<'v>(&'v self, info: &'v PvcInfo) -> impl Iterator<Item = Arc<VolumeInfo>> + 'v {
        let pool = self.pools.get(&info.class).into_iter().flat_map(|pool| &pool.free);
        let volumes = pool.filter_map(|(_, name)| self.volumes.get(name));
        let free = volumes.filter(|volume| volume.assumed.is_none() && volume.info.claim.is_none());
        free.map(|volume| volume.info.clone()).filter(move |volume| suits(volume, info))
    }

    /// A volume whose `claimRef` names the claim.
    fn prebound<'v>(&'v self, info: &'v PvcInfo) -> impl Iterator<Item = Arc<VolumeInfo>> + 'v {
        let pool = self.pools.get(&info.class).into_iter().flat_map(|pool| &pool.free);
        let volumes = pool.filter_map(|(_, name)| self.volumes.get(name));
        let meant = move |volume: &&super::Volume| {
            let claim = volume.info.claim.as_ref();
            claim
                .is_some_and(|(key, uid)| *key == info.key && uid.as_ref().is_none_or(|uid| *uid == info.uid))
        };
        volumes.filter(meant).map(|volume| volume.info.clone())
    }

    /// What a claim requires of the node of its pod.
    pub fn need(&self, id: PvcId, named: &PodVolume) -> Result<ClaimDemand, Problem> {
        let claim = &self.pvcs[id];
        let Some(info) = &claim.info else {
            return Err(if named.owner.is_some() { Problem::NotMade } else { Problem::Missing });
        };
        if named.owner.is_some() && info.owner != named.owner {
            return Err(Problem::NotOwner);
        }
        let volume = |name: &Arc<str>| {
            let volume = self.volumes.get(name).map(|volume| volume.info.clone());
            volume.map(ClaimDemand::Reach).ok_or_else(|| Problem::Lost(name.clone()))
        };
        match (&info.volume, &claim.choice) {
            _ if info.lost => Err(Problem::Lost(info.volume.clone().unwrap_or_default())),
            _ if info.deleting => Err(Problem::Deleting),
            (Some(name), _) if info.bound => volume(name),
            (Some(_), _) => Err(Problem::Immediate),
            (None, Some(choice)) => {
                choice.got.volume.as_ref().map_or(Ok(ClaimDemand::On(choice.node, id)), volume)
            }
            (None, None) => self.unbound(id, info),
        }
    }

    fn unbound(&self, id: PvcId, info: &PvcInfo) -> Result<ClaimDemand, Problem> {
        let class: Option<&StorageClassInfo> = self.classes.get(&info.class);
        match class {
            None if info.class.is_empty() => Err(Problem::Immediate),
            None => Err(Problem::NoClass(info.class.clone())),
            Some(class) if !class.waits => Err(Problem::Immediate),
            Some(_) => match &info.selected_node {
                Some(node) => Ok(ClaimDemand::At(node.clone())),
                None => self.want(id).map(ClaimDemand::Volume).ok_or(Problem::Immediate),
            },
        }
    }
}

/// Whether a volume matches the spec of a claim, on whatever node.
fn suits(volume: &VolumeInfo, claim: &PvcInfo) -> bool {
    volume.size >= claim.size
        && volume.block == claim.block
        && volume.modes.cover(claim.modes)
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
}
