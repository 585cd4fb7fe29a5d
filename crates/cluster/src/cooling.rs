//! Cooldowns: pods that may not be evicted for some time after they were bound, by the end of that time.
use crate::annotation::COOLDOWN_TIME;
use crate::duration::parse_duration;
use crate::event::Time;
use crate::id::{Id, TaskId};
use crate::{Cluster, Task};

impl Task {
    /// The end of the pod's cooldown, counted from its bind.
    pub fn cools_until(&self) -> Option<Time> {
        let label = self.details.labels.get(COOLDOWN_TIME).filter(|text| !text.is_empty());
        let text = label.or_else(|| self.details.annotations.get(COOLDOWN_TIME))?;
        let (cooldown, scheduled) = (parse_duration(text)?, self.details.scheduled?);
        Some(Time(scheduled.0.saturating_add(cooldown)))
    }
}

impl Cluster {
    /// Pods whose cooldown is not over, by its end.
    pub fn cooling_after(&self, now: Time) -> impl Iterator<Item = TaskId> {
        let first = (Time(now.0.saturating_add(1)), TaskId::from_index(0));
        self.indexes.cooling.range(first..).map(|(_, task)| *task)
    }

    /// Updates the index when the end of a pod's cooldown changes.
    pub(super) fn note_cooling(&mut self, task: TaskId, before: Option<Time>, after: Option<Time>) {
        if before != after {
            if let Some(end) = before {
                self.indexes.cooling.remove(&(end, task));
            }
            self.indexes.cooling.extend(after.map(|end| (end, task)));
        }
    }

    pub(super) fn check_cooling(&self, note: &mut crate::check::Note<'_>) {
        let of = |(id, task): (TaskId, &Task)| Some((task.cools_until().filter(|_| task.is_pod())?, id));
        let rebuilt: std::collections::BTreeSet<_> = self.tasks.iter().filter_map(of).collect();
        note(rebuilt == self.indexes.cooling, "pods by the end of their cooldown".to_owned());
    }
}
