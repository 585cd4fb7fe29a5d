//! tdm (time division multiplexing): nodes that are lent for a part of the day.
//!
//! A node with the label `volcano.sh/revocable-zone` is lent while its zone's time of day lasts. Times are UTC, unless
//! `tdm.utc-offset` says otherwise; a zone whose end is not behind its beginning ends on the next day.
//! - On such a node, and only while its zone lasts, may be pods that are annotated `volcano.sh/revocable-zone: "*"` or
//!   `volcano.sh/preemptable: "true"`; they score 100 there.
//! - When a zone has ended its preemptable pods are evicted (action `shuffle`), once in `tdm.evict.period` so many of each
//!   job as its budget leaves: annotation `volcano.sh/jdb-max-unavailable` or `volcano.sh/jdb-min-available` of the
//!   PodGroup, a number or a percentage of its pods, rounded up; one without a budget.
//! - Jobs that are not preemptable go first, starve while a task of them is pending, and may evict running preemptable pods
//!   from other nodes, within the same budgets; preemptable tasks evict nobody.
//! - A job is let wait for room that is being released only when its gang is whole.
//!
//! Source: Volcano's tdm plugin, which counts the period from the last eviction and takes the time zone of its process.
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::annotation::{JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, REVOCABLE_ZONE};
use crate::conf::{ArgKind, ArgSpec};
use crate::diagnosis::Unfit;
use crate::event::Time;
use crate::id::{JobId, TaskId};
use crate::plugin::{Attribute, NodeFilter, NodeRules, NodeScorer, Opening, Plugin, PluginDef, Values, Vote};
use crate::world::{Job, Node, Status, Task, World};

const ZONE: &str = "tdm.revocable-zone.";
const PERIOD: &str = "tdm.evict.period";
const OFFSET: &str = "tdm.utc-offset";

const ARGS: &[ArgSpec] = &[
    ArgSpec {
        name: "tdm.revocable-zone.*",
        kind: ArgKind::Text,
        default: "",
        doc: "When the nodes of a zone are lent, such as `10:00-21:00`.",
    },
    ArgSpec {
        name: PERIOD,
        kind: ArgKind::Duration,
        default: "1m",
        doc: "How often pods are evicted from nodes whose zone has ended.",
    },
    ArgSpec {
        name: OFFSET,
        kind: ArgKind::Text,
        default: "+00:00",
        doc: "What the times of zones are ahead of UTC, such as `+08:00`.",
    },
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "tdm",
    summary: "Preemptable pods use nodes that are lent for a part of the day, and leave them when it ends.",
    args: ARGS,
    open: |opening| Box::new(Tdm::open(opening)),
};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// What a score reaches at most.
const MAX_SCORE: f64 = 100.0;

/// Milliseconds of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Zone {
    from: i64,
    to: i64,
}

struct Tdm {
    /// Zones by name, and whether they last now.
    zones: BTreeMap<Arc<str>, (Zone, bool)>,
    now: Time,
    /// Milliseconds since the day began.
    time_of_day: i64,
    period: i64,
    /// It is time to evict.
    evicts: bool,
    scope: u64,
}

impl Tdm {
    fn open(opening: Opening<'_>) -> Self {
        let args = opening.args;
        let offset = args.text(OFFSET).and_then(utc_offset).unwrap_or(0);
        let time_of_day = (opening.now.0 + offset).rem_euclid(DAY_MS);
        let zone = |(key, arg): (&String, &crate::conf::Arg)| {
            let name = key.strip_prefix(ZONE)?;
            let crate::conf::Value::Text(text) = &arg.value else { return None };
            let zone = Zone::parse(text)?;
            Some((Arc::from(name), (zone, zone.lasts(time_of_day))))
        };
        let zones: BTreeMap<Arc<str>, (Zone, bool)> = args.0.iter().filter_map(zone).collect();
        let mut hasher = DefaultHasher::new();
        zones.hash(&mut hasher);
        let period = Some(args.duration(PERIOD, MINUTE_MS)).filter(|period| *period > 0).unwrap_or(MINUTE_MS);
        let (evicts, scope) = (opening.begins(period), hasher.finish().max(1));
        Self { zones, now: opening.now, time_of_day, period, evicts, scope }
    }

    /// Running preemptable tasks on nodes of zones that have ended.
    fn overdue<'a>(&'a self, world: &'a World, of: &'a [TaskId]) -> impl Iterator<Item = TaskId> + 'a {
        of.iter().copied().filter(move |id| {
            let task = &world.tasks[*id];
            let zone = task.node.and_then(|node| world.nodes[node].label(REVOCABLE_ZONE));
            let ended = zone.and_then(|zone| self.zones.get(zone)).is_some_and(|(_, lasts)| !lasts);
            ended && task.status == Status::Running && is_preemptable(task)
        })
    }
}

/// Milliseconds ahead of UTC of `+08:00`.
fn utc_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    Some(sign * time_of_day(rest)?)
}

/// Milliseconds of the day of `21:30`.
fn time_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str, below: i64| -> Option<i64> {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number < below)
    };
    let minutes = Some(minutes).filter(|minutes| minutes.len() == 2)?;
    Some((number(hours, 24)? * 60 + number(minutes, 60)?) * MINUTE_MS)
}

impl Zone {
    fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.trim().split_once('-')?;
        Some(Self { from: time_of_day(from)?, to: time_of_day(to)? })
    }

    /// Its ends belong to it; over midnight it is the rest of the day and the beginning of the next.
    fn lasts(self, time: i64) -> bool {
        if self.from < self.to {
            (self.from..=self.to).contains(&time)
        } else {
            time >= self.from || time <= self.to
        }
    }
}

/// How many pods of a job may be evicted now.
fn budget(job: &Job) -> u32 {
    let (all, running) = (job.counts.total(), job.counts.of(Status::Running));
    let figure = |key| job.annotations.get(key).map(|text| int_or_percent(text, all));
    if let Some(most) =
        figure(JDB_MAX_UNAVAILABLE).filter(|_| job.annotations.get(JDB_MIN_AVAILABLE).is_none())
    {
        let ended = job.counts.of(Status::Succeeded) + job.counts.of(Status::Failed);
        return most.saturating_sub(all - ended - running);
    }
    match figure(JDB_MIN_AVAILABLE) {
        Some(least) => running.saturating_sub(least),
        None => 1,
    }
}

/// A number, or a percentage of `all`, rounded up; 0 for what is neither.
fn int_or_percent(text: &str, all: u32) -> u32 {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u64 = percent.parse().unwrap_or(0);
            u32::try_from((u64::from(all) * percent).div_ceil(100)).unwrap_or(u32::MAX)
        }
        None => text.parse().unwrap_or(0),
    }
}

/// A pod is preemptable unless it says no.
fn is_preemptable(task: &Task) -> bool {
    task.preemptable != Some(false)
}

/// A job is preemptable only when it says so.
fn job_is_preemptable(job: &Job) -> bool {
    job.preemptable == Some(true)
}

/// Tasks of a job that may be evicted, of those given, by its budget.
fn within_budget(world: &World, of: impl Iterator<Item = TaskId>) -> Vec<TaskId> {
    let mut left: BTreeMap<JobId, u32> = BTreeMap::new();
    let fits = |task: &TaskId| {
        let Some(job) = world.tasks[*task].job else { return false };
        let left = left.entry(job).or_insert_with(|| budget(&world.jobs[job]));
        *left > 0 && {
            *left -= 1;
            true
        }
    };
    of.filter(fits).collect()
}

impl Plugin for Tdm {
    fn job_order(&self, world: &World, a: JobId, b: JobId) -> Ordering {
        job_is_preemptable(&world.jobs[a]).cmp(&job_is_preemptable(&world.jobs[b]))
    }

    fn job_pipelined(&self, world: &World, job: JobId) -> Vote {
        let job = &world.jobs[job];
        let placed = |counts: &crate::world::Counts| counts.ready() + counts.of(Status::Pipelined);
        let whole = placed(&job.counts) >= job.min_member && job.roles_satisfied(placed).is_ok();
        if whole { Vote::Permit } else { Vote::Reject }
    }

    fn job_starving(&self, world: &World, job: JobId) -> Option<bool> {
        let job = &world.jobs[job];
        Some(!job_is_preemptable(job) && job.counts.of(Status::Pending) > 0)
    }

    fn preemptable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let revocable = world.class_of(by).constraints.revocable;
        if revocable || is_preemptable(&world.tasks[by]) {
            return Some(Vec::new());
        }
        let victim = |id: &TaskId| {
            let task = &world.tasks[*id];
            let lent = task.node.is_none_or(|node| zone_of(&world.nodes[node]).is_some());
            is_preemptable(task) && task.status == Status::Running && !lent
        };
        Some(within_budget(world, of.iter().copied().filter(victim)))
    }

    fn victim_tasks(&self, world: &World, of: &[TaskId]) -> Vec<TaskId> {
        if !self.evicts {
            return Vec::new();
        }
        within_budget(world, self.overdue(world, of))
    }

    fn wake(&self, world: &World) -> Option<Time> {
        let lent = |node: &Node| zone_of(node).is_some_and(|zone| self.zones.contains_key(zone));
        if !world.nodes.iter().any(|(_, node)| lent(node)) {
            return None;
        }
        let running: Vec<TaskId> = world.tasks.ids().collect();
        if self.overdue(world, &running).next().is_some() {
            return Some(Time((self.now.0.div_euclid(self.period) + 1) * self.period));
        }
        // A millisecond behind an end, which belongs to its zone.
        let ends = self.zones.values().flat_map(|(zone, _)| [zone.from, zone.to + 1]);
        let ahead = ends
            .map(|end| (end - self.time_of_day).rem_euclid(DAY_MS))
            .map(|ms| if ms == 0 { DAY_MS } else { ms });
        ahead.min().map(|ms| Time(self.now.0 + ms))
    }

    fn has_scope(&self) -> bool {
        true
    }

    fn scope(&self, _: &World, _: TaskId) -> u64 {
        self.scope
    }

    fn scoped_filters(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        rules.reads.push((Attribute::Label(REVOCABLE_ZONE.into()), Values::All));
        let zones = self.zones.iter().map(|(name, (_, lasts))| (name.clone(), *lasts)).collect();
        rules.filters.push(Box::new(Lent { zones, revocable: world.class_of(task).constraints.revocable }));
    }

    fn scoped_scorers(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        if world.class_of(task).constraints.revocable {
            rules.reads.push((Attribute::Label(REVOCABLE_ZONE.into()), Values::All));
            rules.scorers.push(Box::new(OnLent));
        }
    }
}

/// The zone of a node that is lent.
fn zone_of(node: &Node) -> Option<&str> {
    node.label(REVOCABLE_ZONE).filter(|zone| !zone.is_empty())
}

struct Lent {
    /// Zones, and whether they last.
    zones: BTreeMap<Arc<str>, bool>,
    /// The pod may use nodes that are lent.
    revocable: bool,
}

impl NodeFilter for Lent {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        let Some(zone) = zone_of(node) else { return Ok(()) };
        let refused = |text: String| Err(Unfit::Other(text.into()));
        match self.zones.get(zone) {
            None => refused(format!("node(s) were of revocable zone {zone}, which is not configured")),
            Some(false) => refused(format!("node(s) were of revocable zone {zone}, which is not lent now")),
            Some(true) if !self.revocable => {
                refused("node(s) were lent, and the pod may not use them".into())
            }
            Some(true) => Ok(()),
        }
    }
}

struct OnLent;

impl NodeScorer for OnLent {
    fn score(&self, node: &Node) -> f64 {
        if zone_of(node).is_some() { MAX_SCORE } else { 0.0 }
    }

    fn normalise(&self, _: &mut [f64]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::Value;
    use crate::event::{Constraints, Event, NodeInfo, PodGroupInfo, PodInfo};
    use crate::testing::{group, job_of, member, node, opened, pod, running, task_of, world_of};

    const HOUR: i64 = 60 * MINUTE_MS;

    fn zones() -> Vec<(&'static str, Value)> {
        vec![
            ("tdm.revocable-zone.day", "10:00-21:00".into()),
            ("tdm.revocable-zone.night", "22:00-6:00".into()),
        ]
    }

    fn open(world: &World, now: i64) -> Tdm {
        opened(Tdm::open, world, Time(now), &zones())
    }

    fn lent(name: &str, zone: &str) -> NodeInfo {
        let mut info = node(name, "cpu=10");
        info.labels.push((REVOCABLE_ZONE.into(), zone.into()));
        info
    }

    fn revocable(pod: PodInfo) -> PodInfo {
        PodInfo { constraints: Arc::new(Constraints { revocable: true, ..Constraints::default() }), ..pod }
    }

    fn names(world: &World, tasks: &[TaskId]) -> String {
        tasks.iter().map(|task| &*world.tasks[*task].pod.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn zones_and_offsets_are_times_of_day() {
        for (text, expected) in [
            ("10:00-21:30", Some((10 * 60, 21 * 60 + 30))),
            (" 0:00-23:59 ", Some((0, 23 * 60 + 59))),
            ("10:00", None),
            ("10:00-24:00", None),
            ("10:60-11:00", None),
            ("10:0-11:00", None),
            ("+9:00-11:00", None),
            ("", None),
        ] {
            let minutes = Zone::parse(text).map(|zone| (zone.from / MINUTE_MS, zone.to / MINUTE_MS));
            assert_eq!(minutes, expected, "{text:?}");
        }
        for (text, expected) in
            [("+08:00", Some(480)), ("-03:30", Some(-210)), ("0:00", Some(0)), ("CET", None)]
        {
            assert_eq!(utc_offset(text).map(|offset| offset / MINUTE_MS), expected, "{text}");
        }
    }

    #[test]
    fn nodes_are_lent_while_their_zone_lasts() {
        let mut world =
            world_of([lent("d", "day"), lent("n", "night"), lent("x", "other"), node("own", "cpu=10")]);
        world.apply(revocable(pod("guest", "cpu=1")).into());
        world.apply(pod("plain", "cpu=1").into());
        let usable = |pod: &str, now: i64| {
            let (plugin, mut rules) = (open(&world, now), NodeRules::default());
            plugin.scoped_filters(&world, task_of(&world, pod), &mut rules);
            plugin.scoped_scorers(&world, task_of(&world, pod), &mut rules);
            let fits = |node: &&Node| rules.filters.iter().all(|filter| filter.check(node).is_ok());
            let score = |node: &Node| rules.scorers.iter().fold(0.0, |sum, scorer| sum + scorer.score(node));
            let nodes = world.nodes.iter().map(|(_, node)| node).filter(fits);
            nodes.map(|node| format!("{}={}", node.name, score(node))).collect::<Vec<_>>().join(" ")
        };
        for (hour, guest) in
            [(12, "d=100 own=0"), (23, "n=100 own=0"), (3, "n=100 own=0"), (8, "own=0"), (21, "d=100 own=0")]
        {
            assert_eq!(usable("guest", 5 * DAY_MS + hour * HOUR), guest, "at {hour}");
            assert_eq!(usable("plain", hour * HOUR), "own=0", "at {hour}");
        }
        assert_eq!(open(&world, HOUR).scope, open(&world, 2 * HOUR).scope);
        assert_ne!(open(&world, HOUR).scope, open(&world, 12 * HOUR).scope);
    }

    #[test]
    fn the_offset_shifts_the_day() {
        let world = world_of::<Event>([]);
        let at = |offset: &str, hour: i64| {
            let mut list = zones();
            list.push((OFFSET, offset.into()));
            opened(Tdm::open, &world, Time(hour * HOUR), &list).zones["day"].1
        };
        assert_eq!(
            [at("+00:00", 3), at("+08:00", 3), at("-08:00", 7), at("-08:00", 20)],
            [false, true, false, true]
        );
    }

    #[test]
    fn pods_leave_a_zone_that_has_ended_within_their_budget() {
        let with = |annotations: &[(&str, &str)]| PodGroupInfo {
            annotations: annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            ..group("g", 1)
        };
        for (annotations, expected) in [
            (vec![], "g-0"),
            (vec![(JDB_MAX_UNAVAILABLE, "2")], "g-0 g-1"),
            (vec![(JDB_MAX_UNAVAILABLE, "30%")], "g-0 g-1"),
            (vec![(JDB_MAX_UNAVAILABLE, "0")], ""),
            (vec![(JDB_MIN_AVAILABLE, "3")], "g-0"),
            (vec![(JDB_MIN_AVAILABLE, "50%")], "g-0 g-1"),
            (vec![(JDB_MIN_AVAILABLE, "9")], ""),
            (vec![(JDB_MIN_AVAILABLE, "4"), (JDB_MAX_UNAVAILABLE, "4")], ""),
        ] {
            let mut world = world_of([lent("d", "day"), node("own", "cpu=10")]);
            world.apply(with(&annotations).into());
            for index in 0..4 {
                world.apply(running(member("g", index, "cpu=1"), "d").into());
            }
            let fixed = PodInfo { preemptable: Some(false), ..member("h", 0, "cpu=1") };
            world.apply(running(fixed, "d").into());
            world.apply(running(member("h", 1, "cpu=1"), "own").into());
            let all: Vec<TaskId> = world.tasks.ids().collect();
            let victims = |hour: i64| names(&world, &open(&world, hour * HOUR).victim_tasks(&world, &all));
            assert_eq!(victims(9), expected, "{annotations:?}");
            assert_eq!(victims(12), "", "while the zone lasts");
        }
    }

    #[test]
    fn pods_that_are_not_there_count_against_max_unavailable() {
        let mut world = world_of([PodGroupInfo {
            annotations: [(JDB_MAX_UNAVAILABLE.into(), "3".into())].into_iter().collect(),
            ..group("g", 1)
        }]);
        world.apply(running(member("g", 0, "cpu=1"), "n").into());
        world.apply(member("g", 1, "cpu=1").into());
        assert_eq!(budget(&world.jobs[job_of(&world, "g")]), 2);
    }

    #[test]
    fn evictions_wait_for_the_next_period() {
        let world = world_of::<Event>([]);
        let at = |before: Option<i64>, now: i64| {
            let args = crate::testing::args(&[(PERIOD, "10s".into())]);
            let (flags, before) = (crate::conf::Flags::default(), before.map(Time));
            Tdm::open(Opening { world: &world, args: &args, flags, now: Time(now), before, extender: None })
                .evicts
        };
        assert!(at(None, 5));
        assert!(!at(Some(11_000), 19_999));
        assert!(at(Some(19_999), 20_000) && at(Some(1), 99_000));
    }

    #[test]
    fn who_is_not_preemptable_goes_first_and_may_evict_from_own_nodes() {
        let mut world = world_of([lent("d", "day"), node("own", "cpu=10")]);
        world.apply(PodGroupInfo { preemptable: Some(true), ..group("low", 1) }.into());
        world.apply(PodGroupInfo { preemptable: Some(false), ..group("high", 1) }.into());
        for (index, on) in [(0, "own"), (1, "own"), (2, "d")] {
            world.apply(running(member("low", index, "cpu=1"), on).into());
        }
        let firm = |pod: PodInfo| PodInfo { preemptable: Some(false), ..pod };
        world.apply(firm(member("high", 0, "cpu=1")).into());
        let plugin = open(&world, 0);
        let (low, high) = (job_of(&world, "low"), job_of(&world, "high"));
        assert_eq!(plugin.job_order(&world, high, low), Ordering::Less);
        assert_eq!(
            (plugin.job_starving(&world, high), plugin.job_starving(&world, low)),
            (Some(true), Some(false))
        );
        let all: Vec<TaskId> = world.tasks.ids().collect();
        let victims =
            |by: &str| names(&world, &plugin.preemptable(&world, task_of(&world, by), &all).unwrap());
        assert_eq!(victims("high-0"), "low-0", "one without a budget, none from a lent node");
        assert_eq!(victims("low-0"), "");
        assert_eq!(plugin.job_pipelined(&world, high), Vote::Reject);
        assert_eq!(plugin.job_pipelined(&world, low), Vote::Permit);
    }

    #[test]
    fn the_next_cycle_is_due_when_a_zone_begins_or_ends() {
        let world = world_of([lent("d", "day")]);
        let wake = |world: &World, now: i64| open(world, now).wake(world).map(|time| time.0);
        assert_eq!(wake(&world, 9 * HOUR), Some(10 * HOUR));
        assert_eq!(wake(&world, 10 * HOUR), Some(21 * HOUR + 1));
        assert_eq!(wake(&world, 23 * HOUR), Some(DAY_MS + 6 * HOUR + 1));
        assert_eq!(wake(&world_of([node("own", "cpu=1")]), 9 * HOUR), None);
        let mut late = world.clone();
        late.apply(running(member("g", 0, "cpu=1"), "d").into());
        assert_eq!(wake(&late, 9 * HOUR + 5), Some(9 * HOUR + MINUTE_MS), "somebody has to leave");
    }
}
