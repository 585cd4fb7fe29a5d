//! Assumed volumes: which volumes the claims of a task are bound to on the node where it is placed.
use std::sync::Arc;

use super::{AssumedVolume, Got, Volumes, Want, wants};
use crate::count::Count;
use crate::id::{NodeId, PvcId, TaskId};
use crate::prepare::{Prepare, VolumeBinding};
use crate::{Cluster, Hold};

/// The volumes assumed for the claims of a task, so that an undo can assume them again.
pub(crate) type Chosen = Option<Arc<[(PvcId, Got)]>>;

impl Volumes {
    /// Releases the volume assumed for a claim.
    pub(super) fn drop_choice(&mut self, id: PvcId) {
        let Some(choice) = self.pvcs[id].choice.take() else { return };
        self.note_changed(id);
        if let Some(piece) = &choice.got.piece {
            self.take_piece(piece, Count::Out);
        }
        if let Some(volume) = choice.got.volume.as_ref().and_then(|name| self.volumes.get_mut(name)) {
            volume.assumed = None;
            let class = volume.info.class.clone();
            self.pool_changed(&class);
        }
    }

    /// Takes a task out of an assumption, and releases the volume after the last task.
    fn release(&mut self, id: PvcId, task: TaskId) -> Option<(PvcId, Got)> {
        let choice = self.pvcs[id].choice.as_mut()?;
        let at = choice.holders.binary_search(&task).ok()?;
        choice.holders.remove(at);
        let got = choice.got.clone();
        if choice.holders.is_empty() {
            self.drop_choice(id);
        }
        Some((id, got))
    }

    /// Adds a task to the volume assumed for a claim on its node, or assumes it.
    fn assume(&mut self, id: PvcId, task: TaskId, node: NodeId, got: Got) {
        if let Some(choice) = &mut self.pvcs[id].choice {
            if choice.node == node
                && let Err(at) = choice.holders.binary_search(&task)
            {
                choice.holders.insert(at, task);
            }
            return;
        }
        if let Some(piece) = &got.piece {
            self.take_piece(piece, Count::In);
        }
        if let Some(volume) = got.volume.as_ref().and_then(|name| self.volumes.get_mut(name)) {
            volume.assumed = Some(id);
            let class = volume.info.class.clone();
            self.pool_changed(&class);
        }
        self.pvcs[id].choice = Some(AssumedVolume { node, got, holders: vec![task] });
        self.note_changed(id);
    }
}

impl Cluster {
    /// Releases the volumes assumed for the claims of a task. Returns them.
    pub fn release_volumes(&mut self, task: TaskId) -> Chosen {
        let Self { tasks, classes, volumes, .. } = self;
        let claims = &classes[tasks[task].class].pvcs;
        if claims.is_empty() {
            return None;
        }
        let released: Vec<_> = claims.iter().filter_map(|claim| volumes.release(*claim, task)).collect();
        if released.is_empty() { None } else { Some(released.into()) }
    }

    /// Assumes volumes for the unbound claims of a task: the given ones, or else ones that match on the node.
    pub fn assume_volumes(&mut self, task: TaskId, given: Option<&Chosen>) {
        let it = &self.tasks[task];
        let (Some(node), class) = (it.node, &self.classes[it.class]) else { return };
        if class.pvcs.is_empty() || it.status.hold() == Hold::Nothing {
            return;
        }
        let chosen: Vec<_> = match given {
            Some(given) => given.as_deref().unwrap_or_default().to_vec(),
            None if it.status.has_new_place() => self.choose(task, node),
            None => return,
        };
        for (claim, got) in chosen {
            self.volumes.assume(claim, task, node, got);
        }
    }

    fn choose(&self, task: TaskId, node: NodeId) -> Vec<(PvcId, Got)> {
        let claims = &self.class_of(task).pvcs;
        let unbound = |id: &&PvcId| self.volumes.waits(**id);
        let (joined, open): (Vec<PvcId>, Vec<PvcId>) =
            claims.iter().filter(unbound).partition(|id| self.volumes.pvcs[**id].choice.is_some());
        let wants: Vec<Want> = open.iter().filter_map(|id| self.volumes.want(*id)).collect();
        let solved = wants::solve(&wants, &self.nodes[node]).unwrap_or_default();
        let chosen = wants.iter().map(|want| want.claim).zip(solved);
        chosen.chain(joined.into_iter().map(|id| (id, Got::default()))).collect()
    }

    /// What has to be written for unbound claims before a task is bound.
    pub fn volume_bindings(&self, task: TaskId) -> Vec<Prepare> {
        let binding = |id: &PvcId| {
            let claim = &self.volumes.pvcs[*id];
            let choice = claim.choice.as_ref()?;
            let uid = claim.info.as_ref()?.uid.clone();
            let Got { volume, piece } = choice.got.clone();
            let made_of = piece.map(|piece| piece.of);
            let claim = claim.key.clone();
            Some(Prepare::Volume(Arc::new(VolumeBinding { claim, uid, volume, made_of })))
        };
        self.class_of(task).pvcs.iter().filter_map(binding).collect()
    }
}
