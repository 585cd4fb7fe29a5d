//! What the claims of a pod ask of its node, and which volumes a node has for those that have none.
//!
//! Source: kube-scheduler's VolumeBinding plugin and its documentation: a claim takes the smallest volume that will do,
//! else it has one made.
use std::sync::Arc;

use super::space::{Piece, PromisedBytes, Space};
use super::{Got, Volumes};
use crate::Node;
use crate::event::{NodeTerm, PodVolume, PvcInfo, StorageClassInfo, VolumeInfo};
use crate::id::{NodeId, PvcId};
use crate::matching::node_term_matches;

/// Why no node will do for a pod with a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is no such claim.
    Missing,
    /// There is none yet: a controller makes it.
    NotMade,
    /// It was made for somebody else.
    NotOwner,
    /// It is being deleted.
    Deleting,
    /// Its volume is gone.
    Lost(Arc<str>),
    /// It has no volume, and gets one without regard to pods.
    Immediate,
    /// There is no such storage class.
    NoClass(Arc<str>),
}

/// What a claim asks of the node.
#[derive(Clone, Debug)]
pub enum ClaimDemand {
    /// That its volume can be reached from there.
    Reach(Arc<VolumeInfo>),
    /// That it is this node: the volume is being made for it.
    At(Arc<str>),
    /// The same: it is to be made with another pod of the claim. Until then nothing says what other nodes reach it.
    On(NodeId, PvcId),
    /// A volume.
    Volume(Want),
}

/// A claim without a volume.
#[derive(Clone, Debug)]
pub struct Want {
    pub(crate) claim: PvcId,
    /// Volumes that would do on some node, the smallest first.
    pub candidates: Vec<Arc<VolumeInfo>>,
    /// Where else it can be made: in any of these places, or anywhere when there are none; `None` when nowhere.
    pub made: Option<Vec<NodeTerm>>,
    /// Where there is room to make it; `None` when that is not told.
    pub space: Option<Arc<Space>>,
    /// What of it is promised.
    taken: Arc<PromisedBytes>,
    /// How large it has to be, in bytes.
    pub size: i64,
    /// Its storage class.
    class: Arc<str>,
}

/// There is no room to make it.
struct TooLittle;

impl Want {
    /// Whether it can be made for a node, if no other is.
    pub fn can_be_made(&self, node: &Node) -> bool {
        self.may_be_made(node) && self.has_space(node)
    }

    fn may_be_made(&self, node: &Node) -> bool {
        self.made.as_ref().is_some_and(|terms| reaches(Some(terms).filter(|terms| !terms.is_empty()), node))
    }

    fn has_space(&self, node: &Node) -> bool {
        self.piece(node, &self.taken).is_ok()
    }

    /// The room that it would take for a node, nothing where that is not told.
    fn piece(&self, node: &Node, taken: &PromisedBytes) -> Result<Option<Piece>, TooLittle> {
        let Some(space) = &self.space else { return Ok(None) };
        let of = space.find(self.size, node, taken).ok_or(TooLittle)?.clone();
        Ok(Some(Piece { class: self.class.clone(), of, size: self.size }))
    }

    /// Nothing but room is missing to make it for a node.
    pub fn lacks_space(&self, node: &Node) -> bool {
        self.may_be_made(node) && !self.has_space(node)
    }
}

/// Whether a volume with this node affinity can be used on a node.
pub fn reaches(terms: Option<&Vec<NodeTerm>>, node: &Node) -> bool {
    terms.is_none_or(|terms| terms.iter().any(|term| node_term_matches(term, node)))
}

/// A volume for each claim, where one is to be had; `None` when a claim cannot be served on the node.
pub fn solve(wants: &[Want], node: &Node) -> Option<Vec<Got>> {
    let mut matching = Matching {
        lists: wants.iter().map(|want| usable(want, node)).collect(),
        given: vec![None; wants.len()],
    };
    // Those that cannot be made first: they must have one.
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

/// Finds room for those that have to be made, the largest first.
fn make(wants: &[Want], node: &Node, got: &mut [Got]) -> Option<()> {
    let mut open: Vec<usize> = (0..wants.len()).filter(|at| got[*at].volume.is_none()).collect();
    open.sort_by_key(|at| std::cmp::Reverse(wants[*at].size));
    let mut taken: Vec<(&Arc<str>, PromisedBytes)> = Vec::new();
    for at in open {
        let want = &wants[at];
        let known = taken.iter().position(|(class, _)| **class == want.class);
        let of_class = known.map_or(&*want.taken, |at| &taken[at].1);
        let Some(piece) = want.piece(node, of_class).ok()? else { continue };
        let known = known.unwrap_or_else(|| {
            taken.push((&want.class, PromisedBytes::clone(&want.taken)));
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

/// Claims and volumes, by augmenting paths: no claim goes without because another took what only this one can use.
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
    /// Whether a claim gets its volume with its first pod.
    pub fn waits(&self, id: PvcId) -> bool {
        let Some(info) = &self.pvcs[id].info else { return false };
        info.volume.is_none() && self.classes.get(&info.class).is_some_and(|class| class.waits)
    }

    /// What a claim that waits for its first pod could get.
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

    /// Whether volumes differ in their names only.
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
        let free = volumes.filter(|volume| volume.promised.is_none() && volume.info.claim.is_none());
        free.map(|volume| volume.info.clone()).filter(move |volume| suits(volume, info))
    }

    /// A volume that somebody set aside for the claim.
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

    /// What a claim of a pod asks of the node.
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

/// Whether a volume is what a claim asks for, wherever it is.
fn suits(volume: &VolumeInfo, claim: &PvcInfo) -> bool {
    volume.size >= claim.size
        && volume.block == claim.block
        && volume.modes.cover(claim.modes)
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
}
