//! Objects that are still to come, in virtual time.
use std::iter::Peekable;

use phalanx_cluster::event::{PodPhase, Time};

use crate::manifests::{self, ControlledObject, Manifests, Object};

type Batches = Box<dyn Iterator<Item = (Time, Vec<Object>)>>;

/// Objects by the time of their creation; those of one item appear together.
pub(crate) struct Arrivals(Peekable<Batches>);

impl Default for Arrivals {
    fn default() -> Self {
        Self::of(std::iter::empty())
    }
}

impl Arrivals {
    /// Objects in order of time.
    pub(crate) fn of(batches: impl Iterator<Item = (Time, Vec<Object>)> + 'static) -> Self {
        let batches: Batches = Box::new(batches);
        Self(batches.peekable())
    }

    /// When the next objects appear. Reading ahead needs `&mut`.
    pub(crate) fn next(&mut self) -> Option<Time> {
        self.0.peek().map(|(at, _)| *at)
    }

    /// The next objects, if their time has come.
    pub(crate) fn due(&mut self, now: Time) -> Option<Vec<Object>> {
        self.0.next_if(|(at, _)| *at <= now).map(|(_, objects)| objects)
    }
}

/// Takes the objects out of manifests that appear after the simulation has begun; returns when it begins: when the
/// first object that waits was created. Objects without a creation time are there from the begin.
pub(crate) fn split(manifests: &mut Manifests) -> (Time, Arrivals) {
    let dated = |object: &Object| manifests::created(object).filter(|at| *at <= manifests.dated_until);
    let waiting = manifests.objects.iter().filter(|object| waits(object));
    let Some(begin) = waiting.filter_map(dated).min() else { return (manifests.end, Arrivals::default()) };
    let begin = Time(begin.0.div_euclid(1_000) * 1_000);
    let (mut there, mut later) = (Vec::new(), Vec::new());
    let count = i64::try_from(manifests.objects.len()).unwrap_or(i64::MAX);
    for mut object in std::mem::take(&mut manifests.objects) {
        match (manifests::created(&object), dated(&object)) {
            (_, Some(at)) if at > begin => later.push((at, object)),
            // As old as can be, in their own order.
            (Some(at), None) => {
                let before = begin.0 - count + (at.0 - manifests.dated_until.0);
                manifests::set_created(&mut object, Time(before));
                there.push(object);
            }
            _ => there.push(object),
        }
    }
    manifests.objects = there;
    later.sort_by_key(|(at, _)| *at);
    (begin, Arrivals::of(together(later).into_iter()))
}

/// Objects of one time are created together, in the order of their documents.
fn together(objects: Vec<(Time, Object)>) -> Vec<(Time, Vec<Object>)> {
    let mut batches: Vec<(Time, Vec<Object>)> = Vec::new();
    for (at, object) in objects {
        match batches.last_mut() {
            Some((last, batch)) if *last == at => batch.push(object),
            _ => batches.push((at, vec![object])),
        }
    }
    batches
}

/// Whether the scheduler or a controller has yet to begin with the object.
fn waits(object: &Object) -> bool {
    match object {
        Object::Pod(pod) => pod.info.life.node.is_none() && pod.info.life.phase == PodPhase::Pending,
        Object::Controlled(object) => !matches!(object, ControlledObject::JobTemplate(_)),
        _ => false,
    }
}
