//! sla: a job waits no longer than its agreed waiting time.
//!
//! The waiting time of a job is its annotation `volcano.sh/sla-waiting-time` (or `sla-waiting-time`), else the
//! argument; a value that is no duration above 0 counts as missing. The deadline is `creation + waiting time`.
//! - Job order: the earliest deadline first; jobs without a waiting time last.
//! - After its deadline a job is enqueueable, and pipelined (it keeps the nodes found so far) though its gang is not
//!   whole, unless another plugin of the same tier or of an earlier tier rejects it.
//!
//! Source: Volcano's sla plugin.
use std::cmp::Ordering;

use phalanx_cluster::annotation::{BARE_SLA_WAITING_TIME, SLA_WAITING_TIME};
use phalanx_cluster::duration::parse_duration;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Cluster, Job};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};
use phalanx_framework::plugin::{EnqueueVote, ObjectField, Plugin, PluginContext, PluginDef, Vote};

const WAITING_TIME: &str = "sla-waiting-time";

const ARGS: &[ArgSpec] = &[ArgSpec {
    name: WAITING_TIME,
    kind: ArgKind::Duration(&[Rule::at_least(1)]),
    default: "",
    doc: "How long a job without an annotation may wait; without limit when missing.",
}];

const READS: &[ObjectField] = &[ObjectField::new(
    SLA_WAITING_TIME,
    "annotation of a PodGroup, or of a pod without one",
    "the argument",
    "How long the job may wait, a duration above 0 such as `30m`; `sla-waiting-time` means the same.",
)];

pub(super) const DEF: PluginDef = PluginDef {
    name: "sla",
    summary: "Jobs are ordered by the deadline of their waiting time; a job past its deadline is admitted.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(Sla::open(opening)),
};

struct Sla {
    now: Time,
    /// The argument.
    waiting_ms: Option<i64>,
}

impl Sla {
    fn open(opening: PluginContext<'_>) -> Self {
        Self { now: opening.now, waiting_ms: opening.args.text(WAITING_TIME).and_then(waiting_ms) }
    }

    fn deadline(&self, job: &Job) -> Option<Time> {
        let own = |key| job.annotations.get(key).and_then(waiting_ms);
        let waiting_ms = own(SLA_WAITING_TIME).or_else(|| own(BARE_SLA_WAITING_TIME)).or(self.waiting_ms)?;
        Some(Time(job.created.0.saturating_add(waiting_ms)))
    }

    fn is_overdue(&self, job: &Job) -> bool {
        self.deadline(job).is_some_and(|due| due <= self.now)
    }
}

fn waiting_ms(text: &str) -> Option<i64> {
    parse_duration(text).filter(|ms| *ms > 0)
}

/// Whether a job is not admitted yet, or has a task without a node.
fn waits(job: &Job) -> bool {
    job.object.exists && (job.phase == Phase::Pending || job.waiting() > 0)
}

impl Plugin for Sla {
    fn refusal_holds_until(&self, cluster: &Cluster, job: JobId) -> Option<Time> {
        let due = self.deadline(&cluster.jobs[job]).unwrap_or(Time::NEVER);
        (due > self.now).then_some(due)
    }

    fn job_order(&self, cluster: &Cluster, a: JobId, b: JobId) -> Ordering {
        let due = |job: JobId| self.deadline(&cluster.jobs[job]).unwrap_or(Time(i64::MAX));
        due(a).cmp(&due(b))
    }

    fn job_enqueueable(&self, cluster: &Cluster, job: JobId) -> EnqueueVote {
        if self.is_overdue(&cluster.jobs[job]) { EnqueueVote::Permit } else { EnqueueVote::Abstain }
    }

    fn job_pipelined(&self, cluster: &Cluster, job: JobId) -> Vote {
        if self.is_overdue(&cluster.jobs[job]) { Vote::Permit } else { Vote::Abstain }
    }

    /// The next deadline of a job that the next cycle looks at. The backlog looks at other jobs at their deadlines
    /// anyway.
    fn wake(&self, cluster: &Cluster) -> Option<Time> {
        let awake = cluster.pending_jobs().map(|(_, job)| job);
        let waiting = awake.filter(|job| waits(job));
        waiting.filter_map(|job| self.deadline(job)).filter(|due| *due > self.now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{GroupStatus, PodGroupInfo};
    use phalanx_framework::testing::{cluster_of, group, job_of, opened};

    fn waiting(name: &str, created: i64, annotations: &[(&str, &str)]) -> PodGroupInfo {
        let annotations = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        PodGroupInfo { created: Time(created), annotations, ..group(name, 1) }
    }

    #[test]
    fn the_deadline_follows_the_annotation_or_the_argument() {
        type DueCase<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>, Option<i64>);
        let cases: &[DueCase<'_>] = &[
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
            let cluster = cluster_of([waiting("g", 1_000, annotations)]);
            let args: Vec<_> = argument.iter().map(|text| (WAITING_TIME, (*text).into())).collect();
            let plugin = opened(Sla::open, &cluster, Time(0), &args);
            let due = plugin.deadline(&cluster.jobs[job_of(&cluster, "g")]).map(|due| due.0);
            assert_eq!(due, *expected, "{annotations:?} {argument:?}");
        }
    }

    #[test]
    fn the_next_cycle_comes_at_the_next_deadline_of_a_waiting_job() {
        let jobs = [("a", 0, "9s"), ("b", 0, "5s"), ("never", 0, ""), ("past", 0, "1s")];
        let mut cluster =
            cluster_of(jobs.map(|(name, created, time)| waiting(name, created, &[(SLA_WAITING_TIME, time)])));
        let wake = |cluster: &Cluster, now| {
            opened(Sla::open, cluster, Time(now), &[]).wake(cluster).map(|time| time.0)
        };
        assert_eq!(wake(&cluster, 2_000), Some(5_000));
        assert_eq!(wake(&cluster, 5_000), Some(9_000));
        assert_eq!(wake(&cluster, 9_000), None);
        let status = GroupStatus { phase: Phase::Running, ..GroupStatus::default() };
        cluster = cluster_of([PodGroupInfo { status, ..waiting("a", 0, &[(SLA_WAITING_TIME, "9s")]) }]);
        assert_eq!(wake(&cluster, 2_000), None, "no task of the job waits");
    }

    #[test]
    fn jobs_are_ordered_by_deadline_and_without_one_last() {
        let jobs = [("late", 0, "9s"), ("early", 5_000, "1s"), ("never", 0, ""), ("same", 8_000, "1s")];
        let cluster =
            cluster_of(jobs.map(|(name, created, time)| waiting(name, created, &[(SLA_WAITING_TIME, time)])));
        let plugin = opened(Sla::open, &cluster, Time(0), &[]);
        for (a, b, expected) in [
            ("early", "late", Ordering::Less),
            ("late", "never", Ordering::Less),
            ("never", "early", Ordering::Greater),
            ("late", "same", Ordering::Equal),
            ("never", "never", Ordering::Equal),
        ] {
            let order = plugin.job_order(&cluster, job_of(&cluster, a), job_of(&cluster, b));
            assert_eq!(order, expected, "{a} and {b}");
        }
    }

    #[test]
    fn an_overdue_job_is_enqueueable_and_pipelined() {
        let cluster = cluster_of([waiting("g", 1_000, &[(SLA_WAITING_TIME, "2s")])]);
        let job = job_of(&cluster, "g");
        for (now, permitted) in [(1_000, false), (2_999, false), (3_000, true), (9_000, true)] {
            let plugin = opened(Sla::open, &cluster, Time(now), &[]);
            let verdict = plugin.job_enqueueable(&cluster, job);
            assert_eq!(
                verdict,
                if permitted { EnqueueVote::Permit } else { EnqueueVote::Abstain },
                "at {now}"
            );
            let vote = plugin.job_pipelined(&cluster, job);
            assert_eq!(vote, if permitted { Vote::Permit } else { Vote::Abstain }, "at {now}");
        }
    }
}
