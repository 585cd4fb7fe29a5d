//! Rebuilds the counts of claims and volumes, and compares.
use rustc_hash::FxHashMap;

use super::{ClaimUse, Pvc};
use crate::id::{NodeId, PvcId};
use crate::{Cluster, Hold};

impl Cluster {
    pub(crate) fn check_volumes(&self, note: &mut crate::check::Note<'_>) {
        for (id, claim) in self.volumes.pvcs.iter() {
            let what = |what: &str| format!("{what} of claim {}", claim.key);
            let on = self.rebuilt_use(id);
            let mut sum = ClaimUse::default();
            for one in on.values() {
                sum.held += one.held;
                sum.releasing += one.releasing;
            }
            sum.attached = 0;
            note(on == claim.on && sum == claim.used, what("use"));
            note(self.volumes.driver(id) == claim.driver, what("driver"));
            let asked = self.classes.iter().filter(|(_, class)| class.pvcs.contains(&id)).count();
            note(asked == claim.asked as usize, what("classes"));
            note(claim.info.is_some() || asked > 0, what("nothing keeps the record"));
            self.check_choice(id, claim, note);
        }
        for (name, volume) in &self.volumes.volumes {
            let choice = volume.assumed.and_then(|claim| self.volumes.pvcs.get(claim)?.choice.as_ref());
            let named = choice.and_then(|choice| choice.got.volume.as_ref()) == Some(name);
            note(volume.assumed.is_none() || named, format!("assumed claim of volume {name}"));
        }
        note(self.volumes.spaces == self.volumes.rebuilt_spaces(), "what drivers tell of their room".into());
        note(self.volumes.taken == self.volumes.rebuilt_taken(), "assumed bytes of drivers".into());
        self.check_attachments(note);
        self.check_counted(note);
    }

    fn check_choice(&self, id: PvcId, claim: &Pvc, note: &mut crate::check::Note<'_>) {
        let Some(choice) = &claim.choice else { return };
        let there = choice.holders.iter().all(|task| {
            self.tasks
                .get(*task)
                .is_some_and(|it| it.node == Some(choice.node) && self.classes[it.class].pvcs.contains(&id))
        });
        note(there && !choice.holders.is_empty(), format!("holders of claim {}", claim.key));
        let volume = choice.got.volume.as_ref().map(|name| self.volumes.volumes.get(name));
        let kept = volume.is_none_or(|volume| volume.is_some_and(|volume| volume.assumed == Some(id)));
        note(kept, format!("volume chosen for claim {}", claim.key));
    }

    fn check_attachments(&self, note: &mut crate::check::Note<'_>) {
        for (id, node) in self.nodes.iter() {
            let mut rebuilt: FxHashMap<&str, ClaimUse> = FxHashMap::default();
            for (_, claim) in self.volumes.pvcs.iter() {
                let (Some(driver), Some(on)) = (&claim.driver, claim.on.get(&id)) else { continue };
                let sum = rebuilt.entry(driver).or_default();
                sum.held += on.once().held;
                sum.releasing += on.once().releasing;
            }
            for driver in self.volumes.attached_alone(id) {
                rebuilt.entry(driver).or_default().releasing += 1;
            }
            let kept: FxHashMap<&str, ClaimUse> =
                node.volumes.attached.iter().map(|(name, on)| (&**name, *on)).collect();
            note(kept == rebuilt, format!("attachments of node {}", node.name));
            note(
                node.volumes.limits == self.volumes.limits_of(&node.name),
                format!("limits of node {}", node.name),
            );
        }
    }

    fn rebuilt_use(&self, claim: PvcId) -> FxHashMap<NodeId, ClaimUse> {
        let mut on: FxHashMap<NodeId, ClaimUse> = FxHashMap::default();
        for (_, task) in self.tasks.iter() {
            let (Some(node), hold) = (task.node, task.status.hold()) else { continue };
            if hold != Hold::Nothing && self.classes[task.class].pvcs.contains(&claim) {
                *on.entry(node).or_default().counter(hold) += 1;
            }
        }
        for node in self.volumes.attached_of(claim) {
            on.entry(node).or_default().attached += 1;
        }
        on
    }
}
