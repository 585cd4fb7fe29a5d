//! Dense typed ids and the arena they index.
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// An index of one kind of object.
pub trait Id: Copy + Eq + std::hash::Hash {
    /// The id of a slot.
    fn from_index(index: usize) -> Self;
    /// The slot.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(u32);
        impl Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 objects of a kind"))
            }
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )* }
}

ids!(
    /// A pod.
    TaskId,
    /// A PodGroup, or a pod without one.
    JobId,
    /// A node.
    NodeId,
    /// A queue.
    QueueId,
    /// A ResourceClaim.
    ClaimId,
    /// Tasks with the same requests and constraints.
    ClassId,
    /// Pods that are counted by topology domain.
    TermId,
    /// A topology: nodes by the values of a label.
    TopologyId,
    /// Tasks of one namespace with the same labels, as far as terms read them.
    ProfileId,
    /// The name of a container image.
    ImageId,
    /// A PersistentVolumeClaim.
    PvcId,
);

/// An arena whose slots are used again after a removal.
#[derive(Clone, Debug)]
pub struct Slots<I, T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    _id: PhantomData<fn(I)>,
}

impl<I, T> Default for Slots<I, T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), _id: PhantomData }
    }
}

/// Two arenas are equal when they hold the same values under the same ids.
impl<I, T: PartialEq> PartialEq for Slots<I, T> {
    fn eq(&self, other: &Self) -> bool {
        let end = self.slots.len().max(other.slots.len());
        (0..end).all(|slot| self.slots.get(slot).unwrap_or(&None) == other.slots.get(slot).unwrap_or(&None))
    }
}

impl<I: Id, T> Slots<I, T> {
    /// Puts a value into a free slot.
    pub fn insert(&mut self, value: T) -> I {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(value);
            return I::from_index(slot as usize);
        }
        self.slots.push(Some(value));
        I::from_index(self.slots.len() - 1)
    }

    /// Takes a value out.
    pub fn remove(&mut self, id: I) -> Option<T> {
        let value = self.slots.get_mut(id.index())?.take();
        if value.is_some() {
            self.free.push(id.index() as u32);
        }
        value
    }

    /// The value, if the slot is taken.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.slots.get(id.index())?.as_ref()
    }

    /// The value, if the slot is taken.
    #[inline]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    /// All values in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> + '_ {
        self.slots.iter().enumerate().filter_map(|(slot, value)| Some((I::from_index(slot), value.as_ref()?)))
    }

    /// All values in the order of their ids, mutable.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        self.slots.iter_mut().flatten()
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = I> + '_ {
        self.iter().map(|(id, _)| id)
    }

    /// How many slots there are, taken or not: one more than the largest id.
    pub fn bound(&self) -> usize {
        self.slots.len()
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<I: Id, T> Index<I> for Slots<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        self.slots[id.index()].as_ref().expect("an id in use names a taken slot")
    }
}

/// A claim of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnyClaimId {
    /// A PersistentVolumeClaim.
    Volume(PvcId),
    /// A ResourceClaim.
    Device(ClaimId),
}

impl<I: Id, T> IndexMut<I> for Slots<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        self.slots[id.index()].as_mut().expect("an id in use names a taken slot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_slot_is_reused_and_equality_ignores_removed_slots() {
        let mut slots: Slots<NodeId, &str> = Slots::default();
        let first = slots.insert("a");
        slots.insert("b");
        assert_eq!(slots.remove(first), Some("a"));
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.len(), 1);
        assert_eq!(slots.insert("c"), first);
        let mut other: Slots<NodeId, &str> = Slots::default();
        other.insert("c");
        other.insert("b");
        let extra = other.insert("d");
        other.remove(extra);
        assert!(slots == other);
    }
}
