//! sla: nobody waits longer than was agreed.
//!
//! A job's waiting time is its annotation `volcano.sh/sla-waiting-time` (or `sla-waiting-time`), else the argument; what
//! is no duration above 0 counts as missing.
//! - Jobs by `creation + waiting time`, earliest first; jobs without a waiting time last.
//! - A job that has waited so long is admitted, and keeps the room it has found although its gang is not whole, unless
//!   another plugin of the same tier or of one before it refuses.
//!
//! Source: Volcano's sla plugin.
use std::cmp::Ordering;

use phalanx_cluster::annotation::{BARE_SLA_WAITING_TIME, SLA_WAITING_TIME};
use phalanx_cluster::duration::parse_duration;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Job, World};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};
use phalanx_framework::plugin::{EnqueueVote, ObjectField, Plugin, PluginContext, PluginDef, Vote};

const WAITING_TIME: &str = "sla-waiting-time";

const ARGS: &[ArgSpec] = &[ArgSpec {
    name: WAITING_TIME,
    kind: ArgKind::Duration(&[Rule::at_least(1)]),
    default: "",
    doc: "How long a job may wait that carries no waiting time of its own; for ever when missing.",
}];

const READS: &[ObjectField] = &[ObjectField::new(
    SLA_WAITING_TIME,
    "annotation of a PodGroup, or of a pod without one",
    "the argument",
    "How long it may wait, a duration above 0 such as `30m`; `sla-waiting-time` means the same.",
)];

pub(super) const DEF: PluginDef = PluginDef {
    name: "sla",
    summary: "Jobs go by the time until which they must have started; one that waited too long is let in.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(Sla::open(opening)),
};

struct Sla {
    now: Time,
    /// In milliseconds.
    waiting: Option<i64>,
}

impl Sla {
    fn open(opening: PluginContext<'_>) -> Self {
        Self { now: opening.now, waiting: opening.args.text(WAITING_TIME).and_then(waiting_time) }
    }

    /// When a job has waited long enough.
    fn due(&self, job: &Job) -> Option<Time> {
        let own = |key| job.annotations.get(key).and_then(waiting_time);
        let waiting = own(SLA_WAITING_TIME).or_else(|| own(BARE_SLA_WAITING_TIME)).or(self.waiting)?;
        Some(Time(job.created.0.saturating_add(waiting)))
    }

    fn is_due(&self, job: &Job) -> bool {
        self.due(job).is_some_and(|due| due <= self.now)
    }
}

fn waiting_time(text: &str) -> Option<i64> {
    parse_duration(text).filter(|waiting| *waiting > 0)
}

/// It is not admitted yet, or a task of it has no place.
fn waits(job: &Job) -> bool {
    job.exists && (job.phase == Phase::Pending || job.waiting() > 0)
}

impl Plugin for Sla {
    fn refusal_holds_until(&self, world: &World, job: JobId) -> Option<Time> {
        let due = self.due(&world.jobs[job]).unwrap_or(Time::NEVER);
        (due > self.now).then_some(due)
    }

    fn job_order(&self, world: &World, a: JobId, b: JobId) -> Ordering {
        let due = |job: JobId| self.due(&world.jobs[job]).unwrap_or(Time(i64::MAX));
        due(a).cmp(&due(b))
    }

    fn job_enqueueable(&self, world: &World, job: JobId) -> EnqueueVote {
        if self.is_due(&world.jobs[job]) { EnqueueVote::Permit } else { EnqueueVote::Abstain }
    }

    fn job_pipelined(&self, world: &World, job: JobId) -> Vote {
        if self.is_due(&world.jobs[job]) { Vote::Permit } else { Vote::Abstain }
    }

    /// Those that are parked are called when they are due, and those that are off have their time.
    fn wake(&self, world: &World) -> Option<Time> {
        let awake = world.pending_jobs().map(|(_, job)| job);
        let waiting = awake.filter(|job| waits(job));
        waiting.filter_map(|job| self.due(job)).filter(|due| *due > self.now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{GroupStatus, PodGroupInfo};
    use phalanx_framework::testing::{group, job_of, opened, world_of};

    fn waiting(name: &str, created: i64, annotations: &[(&str, &str)]) -> PodGroupInfo {
        let annotations = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        PodGroupInfo { created: Time(created), annotations, ..group(name, 1) }
    }

    #[test]
    fn a_job_is_due_by_its_own_waiting_time_or_by_the_argument() {
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>, Option<i64>);
        let cases: &[Case<'_>] = &[
            (&[], None, None),
            (&[], Some("1m"), Some(61_000)),
            (&[], Some("-1m"), None),
            (&[], Some("0"), None),
            (&[(SLA_WAITING_TIME, "2s")], Some("1m"), Some(3_000)),
            (&[(BARE_SLA_WAITING_TIME, "3s")], Some("1m"), Some(4_000)),
            (&[(SLA_WAITING_TIME, "2s"), (BARE_SLA_WAITING_TIME, "3s")], None, Some(3_000)),
            (&[(SLA_WAITING_TIME, "soon"), (BARE_SLA_WAITING_TIME, "3s")], None, Some(4_000)),
            (&[(SLA_WAITING_TIME, "soon")], Some("1m"), Some(61_000)),
            (&[(SLA_WAITING_TIME, "-5s")], None, None),
        ];
        for (annotations, argument, expected) in cases {
            let world = world_of([waiting("g", 1_000, annotations)]);
            let args: Vec<_> = argument.iter().map(|text| (WAITING_TIME, (*text).into())).collect();
            let plugin = opened(Sla::open, &world, Time(0), &args);
            let due = plugin.due(&world.jobs[job_of(&world, "g")]).map(|due| due.0);
            assert_eq!(due, *expected, "{annotations:?} {argument:?}");
        }
    }

    #[test]
    fn the_next_cycle_is_due_when_a_job_that_waits_is() {
        let jobs = [("a", 0, "9s"), ("b", 0, "5s"), ("never", 0, ""), ("past", 0, "1s")];
        let mut world =
            world_of(jobs.map(|(name, created, time)| waiting(name, created, &[(SLA_WAITING_TIME, time)])));
        let wake =
            |world: &World, now| opened(Sla::open, world, Time(now), &[]).wake(world).map(|time| time.0);
        assert_eq!(wake(&world, 2_000), Some(5_000));
        assert_eq!(wake(&world, 5_000), Some(9_000));
        assert_eq!(wake(&world, 9_000), None);
        let status = GroupStatus { phase: Phase::Running, ..GroupStatus::default() };
        world = world_of([PodGroupInfo { status, ..waiting("a", 0, &[(SLA_WAITING_TIME, "9s")]) }]);
        assert_eq!(wake(&world, 2_000), None, "nothing of it waits");
    }

    #[test]
    fn who_is_due_first_goes_first_and_who_is_never_due_last() {
        let jobs = [("late", 0, "9s"), ("early", 5_000, "1s"), ("never", 0, ""), ("same", 8_000, "1s")];
        let world =
            world_of(jobs.map(|(name, created, time)| waiting(name, created, &[(SLA_WAITING_TIME, time)])));
        let plugin = opened(Sla::open, &world, Time(0), &[]);
        for (a, b, expected) in [
            ("early", "late", Ordering::Less),
            ("late", "never", Ordering::Less),
            ("never", "early", Ordering::Greater),
            ("late", "same", Ordering::Equal),
            ("never", "never", Ordering::Equal),
        ] {
            let order = plugin.job_order(&world, job_of(&world, a), job_of(&world, b));
            assert_eq!(order, expected, "{a} and {b}");
        }
    }

    #[test]
    fn a_job_is_let_in_once_it_has_waited_long_enough() {
        let world = world_of([waiting("g", 1_000, &[(SLA_WAITING_TIME, "2s")])]);
        let job = job_of(&world, "g");
        for (now, permitted) in [(1_000, false), (2_999, false), (3_000, true), (9_000, true)] {
            let plugin = opened(Sla::open, &world, Time(now), &[]);
            let verdict = plugin.job_enqueueable(&world, job);
            assert_eq!(
                verdict,
                if permitted { EnqueueVote::Permit } else { EnqueueVote::Abstain },
                "at {now}"
            );
            let vote = plugin.job_pipelined(&world, job);
            assert_eq!(vote, if permitted { Vote::Permit } else { Vote::Abstain }, "at {now}");
        }
    }
}
