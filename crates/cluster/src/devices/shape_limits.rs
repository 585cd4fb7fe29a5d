//! The shapes of claims, shared fairly between namespaces: only claims that pods name have shapes, and the claims of
//! one namespace have at most [`SHAPES_OF_NAMESPACE_MAX`] different ones. Claims without pods cost nothing, and no
//! namespace takes shapes, or the steps for judging devices, from another.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Devices, Shape, ShapeId};
use crate::Cluster;
use crate::count::Count;
use crate::event::ClaimRequest;
use crate::id::{ClaimId, JobId, TaskId};

/// The number of shapes that the claims of a namespace may have.
pub(super) const SHAPES_OF_NAMESPACE_MAX: usize = 64;

/// The number of shapes without a claim that are kept, since such a claim may come again.
const UNUSED_MAX: usize = 64;

/// What makes a shape: a class, and selectors besides.
type ShapeKey = (Arc<str>, Vec<Arc<str>>);

/// Who has which shapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ShapeLimits {
    ids: FxHashMap<ShapeKey, ShapeId>,
    /// Shapes that no claim has.
    unused: BTreeSet<ShapeId>,
    /// How many shapes the claims of each namespace have.
    counts: FxHashMap<Arc<str>, u32>,
    /// Claims without shapes, since those of their namespace have too many.
    waiting: BTreeMap<Arc<str>, BTreeSet<ClaimId>>,
}

impl Cluster {
    /// Finds the shapes of a claim's requests anew: its requests are others now, or pods came to name it, or none does.
    pub(super) fn shape_claim(&mut self, id: ClaimId) {
        let namespace = self.devices.claims[id].info.key.namespace.clone();
        let released = self.devices.release_shapes(id, &namespace);
        self.devices.find_shapes(id, &namespace);
        if released {
            self.shape_waiting(&namespace);
        }
    }

    /// Claims of a namespace that had too many shapes get theirs.
    fn shape_waiting(&mut self, namespace: &Arc<str>) {
        let mut served = BTreeSet::new();
        while let Some(id) = self.devices.first_waiting(namespace) {
            self.count_claim(id, Count::Out);
            self.devices.find_shapes(id, namespace);
            self.count_claim(id, Count::In);
            if self.devices.claims[id].shapes.is_none() {
                break;
            }
            served.insert(id);
        }
        if served.is_empty() {
            return;
        }
        // All at once: thousands of claims of one shape may be served.
        let named = |task: &TaskId| self.claims_of(*task).iter().any(|claim| served.contains(claim));
        let tasks = self.claimants().filter(named);
        let jobs: BTreeSet<JobId> = tasks.filter_map(|task| self.tasks[task].job).collect();
        for job in jobs {
            self.job_changed(job);
        }
    }
}

impl Devices {
    /// True when the namespace has fewer shapes now.
    fn release_shapes(&mut self, id: ClaimId, namespace: &Arc<str>) -> bool {
        self.leave_waiting(id, namespace);
        let Self { shape_limits, claims, shapes, .. } = self;
        let mut fewer = false;
        for at in claims[id].shapes.take().unwrap_or_default() {
            let users = &mut shapes[usize::from(at)].users;
            let Some(refs) = users.get_mut(namespace) else { continue };
            *refs -= 1;
            if *refs == 0 {
                users.remove(namespace);
                Count::Out.entry(&mut shape_limits.counts, namespace.clone());
                fewer = true;
            }
            if users.is_empty() {
                shape_limits.unused.insert(at);
            }
        }
        fewer
    }

    fn first_waiting(&self, namespace: &str) -> Option<ClaimId> {
        self.shape_limits.waiting.get(namespace)?.first().copied()
    }

    fn find_shapes(&mut self, id: ClaimId, namespace: &Arc<str>) {
        let claim = &self.claims[id];
        if !claim.has_users() {
            return;
        }
        let requests = claim.info.requests.clone();
        let new = self.count_new(&requests, namespace);
        if self.shape_limits.counts.get(namespace).map_or(0, |count| *count as usize) + new
            <= SHAPES_OF_NAMESPACE_MAX
        {
            let mut shapes = Vec::new();
            while let Some(request) = requests.get(shapes.len()) {
                let Some(at) = self.use_shape(request, namespace) else { break };
                shapes.push(at);
            }
            let complete = shapes.len() == requests.len();
            self.claims[id].shapes = Some(shapes);
            if complete {
                self.leave_waiting(id, namespace);
                return;
            }
            self.release_shapes(id, namespace);
        }
        self.shape_limits.waiting.entry(namespace.clone()).or_default().insert(id);
    }

    fn leave_waiting(&mut self, id: ClaimId, namespace: &Arc<str>) {
        if let Some(waiting) = self.shape_limits.waiting.get_mut(namespace) {
            waiting.remove(&id);
            if waiting.is_empty() {
                self.shape_limits.waiting.remove(namespace);
            }
        }
    }

    /// How many shapes of requests the claims of a namespace have not yet.
    fn count_new(&self, requests: &[ClaimRequest], namespace: &Arc<str>) -> usize {
        let keys: BTreeSet<ShapeKey> = requests.iter().map(key).collect();
        let has = |key: &&ShapeKey| {
            let at = self.shape_limits.ids.get(*key);
            at.is_some_and(|at| self.shape(*at).users.contains_key(namespace))
        };
        keys.len() - keys.iter().filter(has).count()
    }

    /// The shape of a request, which a claim of a namespace has from now on. `None` when there are no more numbers.
    fn use_shape(&mut self, request: &ClaimRequest, namespace: &Arc<str>) -> Option<ShapeId> {
        let at = self.shape_of(request)?;
        let Self { shape_limits, shapes, slices, .. } = self;
        shape_limits.unused.remove(&at);
        let refs = shapes[usize::from(at)].users.entry(namespace.clone()).or_insert(0);
        *refs += 1;
        if *refs == 1 {
            Count::In.entry(&mut shape_limits.counts, namespace.clone());
        }
        self.dirty |= slices.values().any(|slice| !slice.known.has(at));
        Some(at)
    }

    fn shape_of(&mut self, request: &ClaimRequest) -> Option<ShapeId> {
        let key = key(request);
        if let Some(at) = self.shape_limits.ids.get(&key) {
            return Some(*at);
        }
        let next = ShapeId::try_from(self.shapes.len()).ok();
        let many = self.shape_limits.unused.len() >= UNUSED_MAX || next.is_none();
        let at = self.shape_limits.unused.first().copied().filter(|_| many).or(next)?;
        self.serial += 1;
        let shape = Shape::new(&key.0, &key.1, self.serial);
        match self.shapes.get_mut(usize::from(at)) {
            Some(place) => {
                let before = std::mem::replace(place, shape);
                self.shape_limits.ids.remove(&(before.class, before.selectors));
            }
            None => self.shapes.push(shape),
        }
        self.shape_limits.ids.insert(key, at);
        let forgotten = [at].into_iter().collect();
        self.slices.values_mut().for_each(|slice| slice.forget(&forgotten));
        self.dirty = true;
        Some(at)
    }
}

fn key(request: &ClaimRequest) -> ShapeKey {
    (request.class.clone(), request.selectors.clone())
}
