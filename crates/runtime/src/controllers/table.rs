//! Objects of one kind, by name and by the object that controls them.
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use phalanx_cluster::event::Key;

/// UIDs of deleted objects that are kept: an answer of a write comes a moment after the deletion at most.
const GONE_MAX: usize = 4096;

/// Which object, in which version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// Namespace (empty for a cluster-wide kind) and name.
    pub key: Key,
    /// UID.
    pub uid: String,
    /// `resourceVersion`; 0 where it is no number, and then any other version counts as newer.
    pub version: u64,
    /// The object that controls it.
    pub controller: Option<OwnerReference>,
    /// Its deletion was asked for.
    pub terminates: bool,
}

impl Identity {
    /// Of an object with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let mut owners = metadata.owner_references.iter().flatten();
        Self {
            key: Key::new(&text(&metadata.namespace), &text(&metadata.name)),
            uid: text(&metadata.uid),
            version: text(&metadata.resource_version).parse().unwrap_or(0),
            controller: owners.find(|owner| owner.controller == Some(true)).cloned(),
            terminates: metadata.deletion_timestamp.is_some(),
        }
    }

    /// The UID of the object that controls it.
    pub(super) fn controller_uid(&self) -> Option<&str> {
        self.controller.as_ref().map(|owner| owner.uid.as_str())
    }

    /// Where objects of the same controller are listed.
    fn controlled_at(&self) -> Option<Key> {
        Some(Key::new(&self.key.namespace, self.controller_uid()?))
    }
}

/// UIDs of objects that were deleted lately.
#[derive(Debug, Default)]
pub(super) struct Gone {
    uids: BTreeSet<String>,
    order: std::collections::VecDeque<String>,
}

impl Gone {
    pub(super) fn add(&mut self, uid: &str) {
        if uid.is_empty() || !self.uids.insert(uid.to_owned()) {
            return;
        }
        self.order.push_back(uid.to_owned());
        if self.order.len() > GONE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

/// Objects of one kind.
#[derive(Debug)]
pub(super) struct Table<T> {
    objects: BTreeMap<Key, (Identity, T)>,
    /// Names by namespace and UID of the controller. Who may write in one namespace could name a controller of another.
    controlled: BTreeMap<Key, BTreeSet<Key>>,
    /// While a list is read: objects that were known before it was asked for, and that it has not brought yet.
    unlisted: Option<BTreeSet<Key>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), controlled: BTreeMap::new(), unlisted: None }
    }
}

impl<T> Table<T> {
    /// Takes an object in, unless a newer version is known or it was deleted. Returns whether something is new: that an
    /// object which was just made is gone already is.
    pub(super) fn take(&mut self, id: Identity, object: T, gone: &mut Gone) -> bool {
        if let Some(unlisted) = &mut self.unlisted {
            unlisted.remove(&id.key);
        }
        let known = self.objects.get(&id.key);
        // Versions of one kind grow across objects: a lower one is an earlier object of this name.
        let newer = known.is_none_or(|(known, _)| id.version == 0 || id.version > known.version);
        if !newer || gone.has(&id.uid) {
            return newer;
        }
        match self.objects.get_mut(&id.key) {
            Some(known) if known.0.controller_uid() == id.controller_uid() => {
                if known.0.uid != id.uid {
                    gone.add(&known.0.uid);
                }
                *known = (id, object);
            }
            _ => self.insert(id, object, gone),
        }
        true
    }

    /// Takes in an object that has another controller than the one of this name before it, or is the first.
    fn insert(&mut self, id: Identity, object: T, gone: &mut Gone) {
        if let Some((before, _)) = self.remove(&id.key, None)
            && before.uid != id.uid
        {
            gone.add(&before.uid);
        }
        if let Some(controller) = id.controlled_at() {
            self.controlled.entry(controller).or_default().insert(id.key.clone());
        }
        self.objects.insert(id.key.clone(), (id, object));
    }

    /// Removes an object: the one with this UID, if one is given.
    pub(super) fn remove(&mut self, key: &Key, uid: Option<&str>) -> Option<(Identity, T)> {
        if uid.is_some_and(|uid| self.uid(key) != Some(uid)) {
            return None;
        }
        let (id, object) = self.objects.remove(key)?;
        if let Some(controller) = id.controlled_at()
            && let Some(names) = self.controlled.get_mut(&controller)
        {
            names.remove(key);
            if names.is_empty() {
                self.controlled.remove(&controller);
            }
        }
        Some((id, object))
    }

    /// A list is asked for.
    pub(super) fn begin_list(&mut self) {
        self.unlisted = Some(self.objects.keys().cloned().collect());
    }

    /// The list is complete: the objects that it has not brought, which are gone.
    pub(super) fn end_list(&mut self) -> BTreeSet<Key> {
        self.unlisted.take().unwrap_or_default()
    }

    /// A list was asked for that is not complete yet.
    pub(super) fn is_listing(&self) -> bool {
        self.unlisted.is_some()
    }

    pub(super) fn get(&self, key: &Key) -> Option<&T> {
        self.objects.get(key).map(|(_, object)| object)
    }

    pub(super) fn uid(&self, key: &Key) -> Option<&str> {
        self.objects.get(key).map(|(id, _)| id.uid.as_str())
    }

    /// The object, if it is the one with this UID.
    pub(super) fn get_with(&self, key: &Key, uid: &str) -> Option<&T> {
        let (id, object) = self.objects.get(key)?;
        (id.uid == uid).then_some(object)
    }

    /// The object, if the one with this UID controls it.
    pub(super) fn get_of(&self, key: &Key, controller: &str) -> Option<&T> {
        let (id, object) = self.objects.get(key)?;
        (id.controller_uid() == Some(controller)).then_some(object)
    }

    /// The objects of a namespace that the one with this UID controls.
    pub(super) fn controlled_by(&self, namespace: &str, uid: &str) -> impl Iterator<Item = &T> {
        self.names_controlled_by(namespace, uid).filter_map(|(key, _)| self.get(key))
    }

    /// The names and UIDs of the objects of a namespace that the one with this UID controls.
    pub(super) fn names_controlled_by(
        &self,
        namespace: &str,
        uid: &str,
    ) -> impl Iterator<Item = (&Key, &str)> {
        let names = self.controlled.get(&Key::new(namespace, uid)).into_iter().flatten();
        names.filter_map(|key| Some((key, self.uid(key)?)))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.objects.iter().map(|(key, (_, object))| (key, object))
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Key, &T)> {
        let first = Key::new(namespace, "");
        self.objects
            .range(first.clone()..)
            .take_while(move |(key, _)| key.namespace == first.namespace)
            .map(|(key, (_, object))| (key, object))
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}
