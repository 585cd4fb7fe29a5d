//! One table for each rule by which the answers of plugins are combined.
use super::*;
use crate::conf::Flags;
use crate::plugin::{EvictionKind, QueueGuard};
use phalanx_cluster::ClusterOptions;
use phalanx_cluster::id::{Id, JobId, QueueId};

/// A plugin with the opinions of a row.
struct FakePlugin {
    order: Ordering,
    vote: Vote,
    victims: Option<Vec<usize>>,
    guards_queues: bool,
    starving: Option<bool>,
    overused: bool,
}

impl Default for FakePlugin {
    fn default() -> Self {
        Self {
            order: Ordering::Equal,
            vote: Vote::Abstain,
            victims: None,
            guards_queues: false,
            starving: None,
            overused: false,
        }
    }
}

impl QueueGuard for FakePlugin {}

impl Plugin for FakePlugin {
    fn job_order(&self, _: &Cluster, _: JobId, _: JobId) -> Ordering {
        self.order
    }
    fn job_pipelined(&self, _: &Cluster, _: JobId) -> Vote {
        self.vote
    }
    fn job_starving(&self, _: &Cluster, _: JobId) -> Option<bool> {
        self.starving
    }
    fn overused(&self, _: &Cluster, queue: QueueId) -> Option<Refusal> {
        self.overused.then(|| Refusal::Invalid(format!("queue {}", queue.index()).into()))
    }
    fn queue_guard(&self) -> Option<&dyn QueueGuard> {
        self.guards_queues.then_some(self as &dyn QueueGuard)
    }
    fn evictable(&self, _: &Cluster, _: Eviction, _: &[TaskId]) -> Option<Vec<TaskId>> {
        self.victims.as_ref().map(|list| list.iter().copied().map(TaskId::from_index).collect())
    }
}

/// Opens tiers of plugins, one plugin for each row.
fn tiers<T>(plan: &[Vec<T>], says: impl Fn(&T) -> FakePlugin) -> Tiers {
    let mut tiers = Tiers::default();
    for tier in plan {
        for row in tier {
            tiers.push(TierPlugin {
                name: "fake",
                flags: Flags::default(),
                plugin: Box::new(says(row)),
                profile: None,
            });
        }
        tiers.ends.push(tiers.plugins.len());
    }
    tiers
}

fn cluster() -> Cluster {
    Cluster::new(ClusterOptions::default())
}

fn eviction(kind: EvictionKind, whole_gangs: bool) -> Eviction {
    Eviction { kind, by: TaskId::from_index(0), whole_gangs }
}

fn indexes(tasks: Vec<TaskId>) -> Vec<usize> {
    tasks.into_iter().map(Id::index).collect()
}

#[test]
fn the_first_plugin_whose_answer_is_not_equal_decides() {
    use Ordering::{Equal, Greater, Less};
    let job = JobId::from_index(0);
    for (plan, expected) in [
        (vec![vec![Equal, Less], vec![Greater]], Less),
        (vec![vec![], vec![Greater]], Greater),
        (vec![vec![Equal]], Equal),
    ] {
        let tiers = tiers(&plan, |order| FakePlugin { order: *order, ..FakePlugin::default() });
        assert_eq!(tiers.first(Flag::JobOrder, |p| p.job_order(&cluster(), job, job)), expected, "{plan:?}");
    }
}

#[test]
fn a_reject_or_a_tier_with_a_permit_ends_a_vote() {
    use Vote::{Abstain, Permit, Reject};
    let job = JobId::from_index(0);
    for (plan, expected) in [
        (vec![vec![]], true),
        (vec![vec![Abstain], vec![Abstain]], true),
        (vec![vec![Permit, Reject]], false),
        (vec![vec![Abstain, Permit], vec![Reject]], true),
        (vec![vec![Abstain], vec![Reject]], false),
    ] {
        let tiers = tiers(&plan, |vote| FakePlugin { vote: *vote, ..FakePlugin::default() });
        assert_eq!(
            tiers.vote(Flag::JobPipelined, |p| p.job_pipelined(&cluster(), job)),
            expected,
            "{plan:?}"
        );
    }
}

#[test]
fn the_first_tier_whose_intersection_has_a_victim_decides() {
    type Row = Option<Vec<usize>>;
    type Expected = Option<(usize, Vec<usize>)>;
    let rows: Vec<(Vec<Vec<Row>>, Option<usize>, Expected)> = vec![
        (vec![vec![Some(vec![1, 2, 3]), None, Some(vec![3, 2])]], None, Some((0, vec![2, 3]))),
        (
            vec![vec![Some(vec![1]), Some(vec![2]), Some(vec![3])], vec![Some(vec![4])]],
            None,
            Some((1, vec![4])),
        ),
        (vec![vec![Some(vec![])], vec![Some(vec![4])]], None, Some((1, vec![4]))),
        (vec![vec![None], vec![Some(vec![5, 9])]], None, Some((1, vec![5]))),
        (vec![vec![Some(vec![1])], vec![Some(vec![2])]], Some(1), Some((1, vec![2]))),
        (vec![vec![Some(vec![1])], vec![None]], Some(1), None),
        (vec![vec![None]], None, None),
    ];
    let of: Vec<TaskId> = (0..6).map(TaskId::from_index).collect();
    for (plan, only, expected) in rows {
        let tiers = tiers(&plan, |victims| FakePlugin { victims: victims.clone(), ..FakePlugin::default() });
        let preempt = eviction(EvictionKind::Preempt, false);
        let found = tiers.intersect(&cluster(), preempt, only, &of);
        assert!(found.is_none() || tiers.any_victims(&cluster(), preempt, &of), "{plan:?}");
        let found = found.map(|found| (found.tier, indexes(found.victims)));
        assert_eq!(found, expected, "{plan:?}");
    }
}

#[test]
fn a_queue_guard_of_any_tier_is_asked_about_victims_of_other_queues() {
    for (first, guard, expected) in [
        (&[1, 2][..], &[2, 3][..], Some((0, vec![2]))),
        (&[1], &[2, 3], Some((1, vec![2, 3]))),
        (&[1], &[], None),
    ] {
        let plan = [vec![(first, false)], vec![(guard, true)]];
        let tiers = tiers(&plan, |(victims, guards_queues)| FakePlugin {
            victims: Some(victims.to_vec()),
            guards_queues: *guards_queues,
            ..FakePlugin::default()
        });
        let of: Vec<TaskId> = (0..6).map(TaskId::from_index).collect();
        let unguarded = Some((0, first.to_vec()));
        for (eviction, expected) in [
            (eviction(EvictionKind::Preempt, true), &expected),
            (eviction(EvictionKind::Reclaim, false), &expected),
            (eviction(EvictionKind::Preempt, false), &unguarded),
        ] {
            let found = tiers.intersect(&cluster(), eviction, None, &of);
            let found = found.map(|found| (found.tier, indexes(found.victims)));
            assert_eq!(&found, expected, "{plan:?}, {eviction:?}");
            let any = tiers.any_victims(&cluster(), eviction, &of);
            assert_eq!(any, expected.is_some(), "{plan:?}, {eviction:?}");
        }
    }
}

#[test]
fn any_and_all_stop_at_the_first_plugin_with_a_reason() {
    let queue = QueueId::from_index(7);
    for (plan, expected) in [
        (vec![vec![false, false]], None),
        (vec![vec![false], vec![true, true]], Some(Refusal::Invalid("queue 7".into()))),
    ] {
        let tiers = tiers(&plan, |overused| FakePlugin { overused: *overused, ..FakePlugin::default() });
        let overused = |plugin: &dyn Plugin| plugin.overused(&cluster(), queue);
        assert_eq!(tiers.any(Flag::Overused, overused), expected, "{plan:?}");
        let all = tiers.all(Flag::Overused, |plugin| overused(plugin).map_or(Ok(()), Err));
        assert_eq!(all.err(), expected, "{plan:?}");
    }
}

#[test]
fn the_first_tier_with_an_opinion_decides_by_all_its_opinions() {
    let job = JobId::from_index(0);
    for (plan, expected) in [
        (vec![vec![None], vec![None]], false),
        (vec![vec![Some(true), Some(false)], vec![Some(true)]], false),
        (vec![vec![None], vec![Some(true)]], true),
    ] {
        let tiers = tiers(&plan, |starving| FakePlugin { starving: *starving, ..FakePlugin::default() });
        let starving = tiers.all_of_first_tier(Flag::JobStarving, |p| p.job_starving(&cluster(), job));
        assert_eq!(starving, expected, "{plan:?}");
    }
}

#[test]
fn the_first_tier_that_names_a_task_names_all_its_tasks_once() {
    for (plan, expected) in [
        (vec![vec![None], vec![Some(vec![2, 1]), Some(vec![1, 3])], vec![Some(vec![4])]], vec![2, 1, 3]),
        (vec![vec![Some(vec![])], vec![Some(vec![4])]], vec![4]),
        (vec![vec![None]], vec![]),
    ] {
        let tiers = tiers(&plan, |victims| FakePlugin { victims: victims.clone(), ..FakePlugin::default() });
        let named = tiers.sum_of_first_tier(Flag::Victim, |plugin| {
            plugin.evictable(&cluster(), eviction(EvictionKind::Preempt, false), &[]).unwrap_or_default()
        });
        assert_eq!(indexes(named), expected, "{plan:?}");
    }
}

#[test]
fn a_hook_whose_flag_is_off_is_not_asked() {
    let mut flags = Flags::default();
    flags.set(Flag::JobPipelined, false);
    let mut tiers = Tiers::default();
    let plugin = Box::new(FakePlugin { vote: Vote::Reject, order: Ordering::Less, ..FakePlugin::default() });
    tiers.push(TierPlugin { name: "fake", flags, plugin, profile: None });
    tiers.ends.push(1);
    let job = JobId::from_index(0);
    assert!(tiers.vote(Flag::JobPipelined, |p| p.job_pipelined(&cluster(), job)));
    assert_eq!(tiers.first(Flag::JobOrder, |p| p.job_order(&cluster(), job, job)), Ordering::Less);
}
