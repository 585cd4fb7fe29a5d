//! Pods that are not to be evicted until some time after they were given their node, by that time.
use crate::annotation::COOLDOWN_TIME;
use crate::duration::parse_duration;
use crate::event::Time;
use crate::id::{Id, TaskId};
use crate::{Cluster, Task};

impl Task {
    /// Until when the pod asks not to be evicted: so long after it was given its node.
    pub fn cools_until(&self) -> Option<Time> {
        let label = self.labels.get(COOLDOWN_TIME).filter(|text| !text.is_empty());
        let text = label.or_else(|| self.annotations.get(COOLDOWN_TIME))?;
        let (cooldown, scheduled) = (parse_duration(text)?, self.scheduled?);
        Some(Time(scheduled.0.saturating_add(cooldown)))
    }
}

impl Cluster {
    /// Pods whose time is not over, the first to end first.
    pub fn cooling_after(&self, now: Time) -> impl Iterator<Item = TaskId> {
        let first = (Time(now.0.saturating_add(1)), TaskId::from_index(0));
        self.cooling.range(first..).map(|(_, task)| *task)
    }

    /// A pod is new, changed (`before` is its time as it was) or about to be removed.
    pub(super) fn note_cooling(&mut self, task: TaskId, before: Option<Time>, after: Option<Time>) {
        if before != after {
            if let Some(end) = before {
                self.cooling.remove(&(end, task));
            }
            self.cooling.extend(after.map(|end| (end, task)));
        }
    }

    pub(super) fn check_cooling(&self, note: &mut impl FnMut(bool, String)) {
        let of = |(id, task): (TaskId, &Task)| Some((task.cools_until().filter(|_| task.is_pod())?, id));
        let rebuilt: std::collections::BTreeSet<_> = self.tasks.iter().filter_map(of).collect();
        note(rebuilt == self.cooling, "pods that are protected for a while".to_owned());
    }
}
