//! Turns a watch into events: additions, changes and deletions, and nothing for objects that stayed equal.

use std::marker::PhantomData;
use std::sync::Arc;

use phalanx_cluster::Fingerprint;
use phalanx_cluster::event::{Event, Key};
use rustc_hash::FxHashMap;

use crate::{Identity, Interner, Invalid, Kind, Names};

/// What a watch says, in kube's terms. Between `Init` and `InitDone` comes the list of all objects.
#[derive(Clone, Debug)]
pub enum WatchEvent<K> {
    /// A list begins; an unfinished list before it is dropped.
    Init,
    /// An object of the list.
    InitApply(K),
    /// The list is complete: objects that were not in it are gone.
    InitDone,
    /// An object was added or changed.
    Apply(K),
    /// An object was deleted.
    Delete(K),
}

/// An object from which no event can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The object.
    pub identity: Identity,
    /// Why.
    pub invalid: Invalid,
}

/// What follows from one [`WatchEvent`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    /// For the Cluster, in this order.
    pub events: Vec<Event>,
    /// To be reported on the object. The Cluster keeps the last valid state.
    pub rejected: Option<Rejected>,
    /// Fields that count as something else than was probably meant; each is reported once until it changes.
    pub remarks: Vec<Rejected>,
}

/// The objects of one kind, by identity and fingerprint, as the Cluster was told of them.
///
/// Whatever the order of events, after `InitDone` the Cluster knows the objects of the list.
#[derive(Debug)]
pub struct Fold<K> {
    objects: FxHashMap<Key, Entry>,
    list: u64,
    kind: PhantomData<fn(K)>,
}

#[derive(Debug)]
struct Entry {
    uid: Arc<str>,
    /// Of the event, or of the reason of the rejection, that came last.
    fingerprint: Fingerprint,
    /// The list in which, or after which, the object was seen last.
    list: u64,
    /// The Cluster was given the object.
    told: bool,
    /// Of the remarks that were reported.
    remarked: Option<Fingerprint>,
}

impl<K> Default for Fold<K> {
    fn default() -> Self {
        Self { objects: FxHashMap::default(), list: 0, kind: PhantomData }
    }
}

impl<K: Kind> Fold<K> {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Objects that are held, rejected ones included.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// No object is held.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// What one event of the watch means for the Cluster.
    pub fn fold(&mut self, event: WatchEvent<K>, names: &Names, interner: &mut Interner) -> Folded {
        match event {
            WatchEvent::Init => {
                self.list += 1;
                Folded::default()
            }
            WatchEvent::InitApply(object) | WatchEvent::Apply(object) => self.seen(&object, names, interner),
            WatchEvent::InitDone => self.listed(),
            WatchEvent::Delete(object) => self.deleted(&K::identity(object.meta(), interner)),
        }
    }

    fn seen(&mut self, object: &K, names: &Names, interner: &mut Interner) -> Folded {
        let identity = K::identity(object.meta(), interner);
        let mut folded = Folded { events: self.replaced(&identity), ..Folded::default() };
        match object.event(&identity, names, interner) {
            Ok(Some(event)) => {
                let news = self.is_news(&identity, Fingerprint::of(&event), true);
                if news {
                    folded.events.push(event);
                }
                // Also without an event: a misspelt key does not change the event.
                if news || !K::COSTLY_REMARKS {
                    folded.remarks = self.remarks(object, &identity);
                }
            }
            Ok(None) => folded.events.extend(self.deleted(&identity).events),
            Err(invalid) => {
                if self.is_news(&identity, Fingerprint::of(&invalid), false) {
                    folded.rejected = Some(Rejected { identity, invalid });
                }
            }
        }
        folded
    }

    /// The remarks on an object that were not reported yet.
    fn remarks(&mut self, object: &K, identity: &Identity) -> Vec<Rejected> {
        let remarks = object.remarks();
        let Some(entry) = self.objects.get_mut(&identity.key) else { return Vec::new() };
        let now = (!remarks.is_empty()).then(|| Fingerprint::of(&remarks));
        if std::mem::replace(&mut entry.remarked, now) == now {
            return Vec::new();
        }
        remarks.into_iter().map(|invalid| Rejected { identity: identity.clone(), invalid }).collect()
    }

    /// The end of an object that had the name before.
    fn replaced(&mut self, identity: &Identity) -> Vec<Event> {
        let replaced = |entry: &Entry| K::BY_UID && entry.uid != identity.uid;
        if self.objects.get(&identity.key).is_some_and(replaced) {
            let old = self.objects.remove_entry(&identity.key);
            return old.into_iter().filter_map(end::<K>).collect();
        }
        Vec::new()
    }

    /// Notes that the object was seen. Returns whether anything about it changed.
    fn is_news(&mut self, identity: &Identity, fingerprint: Fingerprint, tell: bool) -> bool {
        let list = self.list;
        let Some(entry) = self.objects.get_mut(&identity.key) else {
            let entry =
                Entry { uid: Arc::clone(&identity.uid), fingerprint, list, told: tell, remarked: None };
            self.objects.insert(identity.key.clone(), entry);
            return true;
        };
        let news = entry.fingerprint != fingerprint;
        entry.uid = Arc::clone(&identity.uid);
        entry.fingerprint = fingerprint;
        entry.list = list;
        entry.told |= tell;
        news
    }

    /// The deletion of an object is no event if another object of this name is known already.
    fn deleted(&mut self, identity: &Identity) -> Folded {
        if self.objects.get(&identity.key).is_none_or(|entry| entry.uid != identity.uid) {
            return Folded::default();
        }
        let events = self.objects.remove_entry(&identity.key).into_iter().filter_map(end::<K>).collect();
        Folded { events, ..Folded::default() }
    }

    fn listed(&mut self) -> Folded {
        let list = self.list;
        let mut gone: Vec<_> = self.objects.extract_if(|_, entry| entry.list != list).collect();
        gone.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Folded { events: gone.into_iter().filter_map(end::<K>).collect(), ..Folded::default() }
    }
}

fn end<K: Kind>((key, entry): (Key, Entry)) -> Option<Event> {
    entry.told.then(|| K::gone(&Identity { key, uid: entry.uid }))
}
