//! Which pods belong to which PodGroup: pods without a Job of Volcano, and their owners.
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use phalanx_cluster::event::Key;
use phalanx_controllers::Kind;
use phalanx_controllers::podgroup::{Gang, Link, OwnerTable, PlainPod, gang};

use super::queue::Subject;
use super::store::{Fact, Seen, SeenOwner, Store, Watched};
use super::table::Table;

/// The owners that are known, by row of their table.
#[derive(Debug, Default)]
pub(super) struct Owners {
    table: OwnerTable,
    known: BTreeMap<usize, Table<SeenOwner>>,
    /// Whether the API server has the kind of a row. Absent until it has said so.
    served: BTreeMap<usize, bool>,
}

impl Owners {
    pub(super) fn new(table: OwnerTable) -> Self {
        Self { table, ..Self::default() }
    }

    pub(super) fn of(&mut self, row: usize) -> &mut Table<SeenOwner> {
        self.known.entry(row).or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.known.values().map(Table::len).sum()
    }

    fn find(&self, namespace: &str, reference: &OwnerReference) -> Link<'_> {
        let Some(row) = self.table.row_of(reference) else { return Link::Unlisted };
        let key = Key::new(namespace, &reference.name);
        let known = self.known.get(&row).and_then(|table| table.get_with(&key, &reference.uid));
        match (known, self.served.get(&row)) {
            (Some(seen), _) => Link::Owner(&seen.owner, &self.table.rows()[row]),
            (None, Some(false)) => Link::Unlisted,
            (None, _) => Link::Awaited,
        }
    }
}

/// The members of PodGroups: pods that name one, and pods without a name that belong to one.
#[derive(Debug, Default)]
pub(super) struct Members {
    groups: BTreeMap<Key, Key>,
    pods: BTreeMap<Key, BTreeSet<Key>>,
}

impl Members {
    /// The pods of a PodGroup.
    pub(super) fn of(&self, group: &Key) -> impl Iterator<Item = &Key> {
        self.pods.get(group).into_iter().flatten()
    }

    /// Moves a pod to a PodGroup, or to none; returns where it was, and where it is.
    fn assign(&mut self, pod: &Key, group: Option<Key>) -> impl Iterator<Item = Key> + use<> {
        let before = self.groups.remove(pod);
        if let Some(before) = &before
            && let Some(pods) = self.pods.get_mut(before)
        {
            pods.remove(pod);
            if pods.is_empty() {
                self.pods.remove(before);
            }
        }
        if let Some(group) = &group {
            self.groups.insert(pod.clone(), group.clone());
            self.pods.entry(group.clone()).or_default().insert(pod.clone());
        }
        before.into_iter().chain(group)
    }
}

impl Store {
    /// Where a pod belongs by its owners; nothing while one of them is not known.
    pub(super) fn gang(&self, namespace: &str, pod: &PlainPod) -> Option<Gang> {
        gang(pod, |reference| {
            if reference.kind == "Pod" && reference.api_version == "v1" {
                let key = Key::new(namespace, &reference.name);
                return self.plain.get_with(&key, &reference.uid).map_or(Link::Unlisted, Link::Pod);
            }
            self.owners.find(namespace, reference)
        })
    }

    /// A pod that is to join a PodGroup, and its UID.
    pub(super) fn waits_for(&self, subject: &Subject) -> Option<(&Key, &str)> {
        let mut members = self.members.of(&subject.key).filter(|_| subject.kind == Kind::PodGroup);
        members.find_map(|key| Some((key, self.plain.uid(key)?)))
    }

    /// Whether an object says something that was not known. An owner changes with each of its pods.
    pub(super) fn is_news(&self, seen: &Seen) -> bool {
        let Fact::Owner(owner) = &seen.fact else { return true };
        let table = self.owners.known.get(&owner.row);
        table.and_then(|table| table.get_with(&seen.id.key, &seen.id.uid)) != Some(owner)
    }

    /// A pod or an owner has come, changed or gone: the PodGroups that this concerns.
    pub(super) fn regroup(&mut self, kind: Watched, key: &Key, uid: &str) -> Vec<Subject> {
        match kind {
            Watched::PlainPod => {
                let below = self.below(&key.namespace, uid);
                self.assign([key.clone()].into_iter().chain(below))
            }
            Watched::Owner(_) => {
                let below = self.below(&key.namespace, uid);
                self.assign(below)
            }
            _ => Vec::new(),
        }
    }

    /// The API server has a kind of owners, or has it not: pods that no PodGroup has yet are looked at again.
    pub(super) fn serves_owner(&mut self, row: usize, serves: bool) -> Vec<Subject> {
        if self.owners.served.insert(row, serves) == Some(serves) {
            return Vec::new();
        }
        let nameless = self.plain.iter().filter(|(_, pod)| pod.group.is_none());
        let nameless: Vec<Key> = nameless.map(|(key, _)| key.clone()).collect();
        self.assign(nameless)
    }

    fn assign(&mut self, pods: impl IntoIterator<Item = Key>) -> Vec<Subject> {
        let mut concerned = BTreeSet::new();
        for key in pods {
            let group = self.plain.get(&key).and_then(|pod| {
                let named = pod.group.clone();
                named.or_else(|| self.gang(&key.namespace, pod).map(|gang| gang.name))
            });
            let group = group.map(|name| Key::new(&key.namespace, &name));
            concerned.extend(self.members.assign(&key, group));
        }
        concerned.into_iter().map(|key| Subject { kind: Kind::PodGroup, key }).collect()
    }

    /// The pods of a namespace in whose chain of controllers an object is.
    fn below(&self, namespace: &str, uid: &str) -> Vec<Key> {
        let (mut pods, mut seen) = (Vec::new(), BTreeSet::new());
        let mut rest = vec![uid.to_owned()];
        while let Some(uid) = rest.pop() {
            if !seen.insert(uid.clone()) {
                continue;
            }
            for (key, uid) in self.plain.names_controlled_by(namespace, &uid) {
                pods.push(key.clone());
                rest.push(uid.to_owned());
            }
            let owners =
                self.owners.known.values().flat_map(|table| table.names_controlled_by(namespace, &uid));
            rest.extend(owners.map(|(_, uid)| uid.to_owned()));
        }
        pods
    }
}
