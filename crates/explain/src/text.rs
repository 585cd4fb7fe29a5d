//! Answers as text: a fact a line.
use std::collections::BTreeSet;
use std::fmt;

use phalanx_resource::for_people;

use crate::change::Remedies;
use crate::facts::{
    Amounts, Chosen, Constraint, Domain, Evicted, Explanation, Fragments, Gate, HeldBy, Holders, JobFacts,
    NodeScores, OwnerFacts, Place, PlacedSubGroup, PodFacts, PodState, QueueFacts, RejectedDomain,
    Reservation, Why,
};

/// HyperNodes without room that are named.
const DOMAINS_MAX: usize = 5;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// `cpu 2, memory 4Gi`; `nothing` for an empty list.
pub fn amounts(of: &Amounts) -> String {
    let each: Vec<String> = of.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
    if each.is_empty() { "nothing".to_owned() } else { each.join(", ") }
}

/// The same with quantities for people.
pub fn rounded(of: &Amounts) -> String {
    amounts(&of.iter().map(|(name, amount)| (name.clone(), for_people(name, amount))).collect())
}

/// How long something took, in its two largest units: `45s`, `3m10s`, `5h7m`, `2d3h`.
pub fn waited(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let two = |large: i64, unit: &str, small: i64, part: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        ..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        HOUR..DAY => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        _ => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
    }
}

/// The nodes that are named for a reason, unless all are asked for.
const NAMES_MAX: usize = 5;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(NAMES_MAX))
    }
}

impl Explanation {
    /// As text with the names of all nodes.
    pub fn wide(&self) -> String {
        self.text(usize::MAX)
    }

    /// As text with so many names of nodes for each reason.
    fn text(&self, names: usize) -> String {
        let mut lines: Vec<String> = self.owner.iter().map(owner).collect();
        if let Some(pod) = &self.pod {
            lines.extend(pod_lines(pod));
        }
        for job in &self.jobs {
            if self.pod.is_none() {
                lines.push(head(job));
            }
            lines.extend(job_lines(job, names));
        }
        lines.extend(self.owner.as_ref().filter(|owner| owner.left_out > 0).map(left_out));
        if !self.evictions.is_empty() {
            lines.push("Evicted".to_owned());
            lines.extend(self.evictions.iter().map(eviction));
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

/// `Deployment shop/web: 5 pods, 3 placed, 2 waiting`.
fn owner(owner: &OwnerFacts) -> String {
    let OwnerFacts { kind, name, pods, placed, waiting, to_make, foreign, .. } = owner;
    let noun = if *pods == 1 { "pod" } else { "pods" };
    let foreign = if *foreign > 0 { format!(", {foreign} of other schedulers") } else { String::new() };
    let to_make = if *to_make > 0 { format!(", {to_make} not made yet") } else { String::new() };
    format!("{kind} {name}: {pods} {noun}, {placed} placed, {waiting} waiting{to_make}{foreign}")
}

fn left_out(owner: &OwnerFacts) -> String {
    let which = if owner.waiting > 0 { "that wait, are" } else { "are" };
    format!("{} more of its PodGroups, and pods without one, {which} not shown", owner.left_out)
}

fn head(job: &JobFacts) -> String {
    match (job.solo, job.members.waiting) {
        (false, _) => format!("PodGroup {}: {}", job.name, job.phase),
        (true, 0) => format!("Pod {}: does not wait", job.name),
        (true, _) => format!("Pod {}: waits", job.name),
    }
}

fn pod_lines(pod: &PodFacts) -> Vec<String> {
    let state = match &pod.state {
        PodState::OnNode(node) => format!("on node {node}"),
        PodState::Nominated(node) => format!("waits for room on node {node}"),
        PodState::Waits => "waits".to_owned(),
        PodState::Foreign => "left to another scheduler, by its spec.schedulerName".to_owned(),
        PodState::Gone => "does not exist any more".to_owned(),
    };
    let head = format!("Pod {}: {state}", pod.name);
    let group = pod.pod_group.as_ref().map(|group| format!("  member of PodGroup {group}"));
    let chosen = pod.chosen.iter().flat_map(chosen);
    let remedies = remedies("It would run", &pod.remedies);
    std::iter::once(head).chain(group).chain(chosen).chain(remedies).collect()
}

/// Why a pod is on its node.
fn chosen(chosen: &Chosen) -> Vec<String> {
    let noun = if chosen.compared == 1 { "node" } else { "nodes" };
    let place = match chosen.place {
        Some(place) => format!("its node is number {place}"),
        None => "its node is not feasible now".to_owned(),
    };
    let head = format!(
        "  nodes for it as they are now, not as they were when it was placed: {} feasible {noun}, by score; {place}",
        chosen.compared
    );
    std::iter::once(head).chain(chosen.nodes.iter().map(scores)).collect()
}

fn scores(node: &NodeScores) -> String {
    let each: Vec<String> = node.by_plugin.iter().map(|(name, score)| format!("{name} {score:.1}")).collect();
    let later = if node.later { ", once terminating pods are gone" } else { "" };
    format!("    {} {:.1} ({}){later}", node.node, node.total, each.join(", "))
}

fn job_lines(job: &JobFacts, names: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let members = &job.members;
    if !job.solo {
        let noun = if members.pods == 1 { "pod" } else { "pods" };
        let failed = if members.failed > 0 { format!(" {} failed,", members.failed) } else { String::new() };
        lines.push(format!(
            "  members: {} {noun}, {} placed,{failed} {} missing, {} waiting; minMember {}",
            members.pods, members.placed, members.missing, members.waiting, members.min_member
        ));
    }
    if members.to_make > 0 {
        lines.push(format!(
            "  {} of them do not exist yet: the controller of its Job makes them once the PodGroup is admitted",
            members.to_make
        ));
    }
    if members.nominated > 0 {
        lines.push(format!("  nominated: {} of them wait for room that is being freed", members.nominated));
    }
    lines.push(format!("  priority {}", job.priority));
    lines.push(queue(&job.queue));
    lines.extend(job.place.map(|place| standing(place, &job.queue)));
    lines.extend(job.domain.iter().map(|domain| format!("  in HyperNode {domain}")));
    lines.extend(job.lower_tier.iter().map(lower_tier));
    lines.extend(sub_groups(&job.sub_groups, names));
    lines.extend(job.reservation.iter().map(reservation));
    lines.extend(job.expected_start.iter().map(|start| format!("  {start}")));
    if job.will_run {
        lines.push("It will run once that room is free: no change is needed".to_owned());
    }
    let grows = members.grow();
    let who = if grows { format!("{} of its pods wait", members.waiting) } else { "It waits".to_owned() };
    lines.extend(why(&who, &job.why, names));
    if let Some(admission) = &job.admission {
        lines.extend(remedies("It would be admitted", admission));
        lines.push("Whether its pods would run then is not known: they do not exist yet".to_owned());
    }
    lines.extend(remedies(if grows { "More of these would run" } else { "It would run" }, &job.remedies));
    if members.pods == 0 && job.why.gate == Some(Gate::Gang) {
        let why = "Its pods do not exist, or name another scheduler: events of its owner say why they were not made";
        lines.push(why.to_owned());
    }
    lines
}

/// `  tier 1 does not fit: at most 6 of 8 pods in rack-3`.
fn lower_tier(of: &RejectedDomain) -> String {
    let RejectedDomain { domain, fits, wanted, .. } = of;
    format!("  tier {} does not fit: at most {fits} of {wanted} pods in {}", domain.tier, domain.hyper_node)
}

/// `  sub-groups 0, 2 of subGroupPolicy replica in HyperNode rack-1 (tier 1)`.
fn sub_groups(all: &[PlacedSubGroup], shown: usize) -> Vec<String> {
    let mut by_place: Vec<(&PlacedSubGroup, Vec<&str>)> = Vec::new();
    for one in all {
        let same = |(first, _): &&mut (&PlacedSubGroup, _)| {
            (&first.policy, &first.domain) == (&one.policy, &one.domain)
        };
        match by_place.iter_mut().find(same) {
            Some((_, names)) => names.push(&one.name),
            None => by_place.push((one, vec![&one.name])),
        }
    }
    let more = by_place.len().saturating_sub(shown);
    let line = |(one, names): (&PlacedSubGroup, Vec<&str>)| {
        let noun = if names.len() == 1 { "sub-group" } else { "sub-groups" };
        let names = names.join(", ");
        let space = if names.is_empty() { "" } else { " " };
        format!("  {noun}{space}{names} of subGroupPolicy {} in HyperNode {}", one.policy, one.domain)
    };
    let noun = if more == 1 { "HyperNode" } else { "HyperNodes" };
    let more = (more > 0).then(|| format!("  sub-groups in {more} more {noun}"));
    by_place.into_iter().take(shown).map(line).chain(more).collect()
}

/// Changes below what would come of them, such as `It would run`.
fn remedies(head: &str, of: &Remedies) -> Vec<String> {
    let mut lines = Vec::new();
    if !of.found.is_empty() {
        let alone = if of.alone { ", if no other job waited," } else { "" };
        lines.push(format!("{head}{alone}"));
        lines.extend(of.found.iter().map(|remedy| format!("  {remedy}")));
    }
    if of.unfinished {
        lines.push("Not all changes that might help were tried: the time for that was over".to_owned());
    } else if of.tried && of.found.is_empty() {
        lines.push(format!(
            "No change was found with which {}: no single one; of two or three together not all were tried",
            head.to_lowercase()
        ));
    }
    lines
}

fn queue(queue: &QueueFacts) -> String {
    if !queue.exists {
        return format!("  queue {}: does not exist", queue.name);
    }
    let facts =
        [("allocated", &queue.allocated), ("deserved", &queue.deserved), ("requested", &queue.requested)];
    let facts: Vec<String> = facts.iter().map(|(what, of)| format!("{what} {}", rounded(of))).collect();
    let parent = queue.parent.as_ref().map(|parent| format!("; below {parent}")).unwrap_or_default();
    format!("  queue {}: weight {}; {}{parent}", queue.name, queue.weight, facts.join("; "))
}

fn standing(place: Place, queue: &QueueFacts) -> String {
    let of_queue = queue.place.filter(|place| place.of > 1);
    let of_queue = of_queue.map(|place| format!("; its queue is number {} of {}", place.at, place.of));
    format!(
        "  number {} of {} waiting in queue {}{}",
        place.at,
        place.of,
        queue.name,
        of_queue.unwrap_or_default()
    )
}

fn reservation(kept: &Reservation) -> String {
    let what = if kept.repair { " for its repair" } else { "" };
    let (noun, nodes) = (if kept.nodes.len() == 1 { "node" } else { "nodes" }, kept.nodes.join(", "));
    format!("  reserved{what} until {}: {noun} {nodes}", kept.ends)
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "its object",
            Self::Queue => "its queue",
            Self::Gang => "the gang",
            Self::Enqueue => "enqueue",
            Self::Quota => "quota",
            Self::Nodes => "nodes",
            Self::Release => "terminating pods",
            Self::BackOff => "back-off",
            Self::Configuration => "the configuration",
        })
    }
}

fn why(who: &str, why: &Why, names: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if !why.reasons.is_empty() {
        lines.push(format!("{who} because:"));
        lines.extend(why.reasons.iter().map(|reason| format!("  {reason}")));
    }
    lines.extend(why.lack.iter().map(|lack| format!("  {}", lack.text)));
    lines.extend(why.gate.map(|gate| format!("  stopped at: {gate}")));
    lines.extend(why.back_off_until.map(|until| format!("  back-off until {until}")));
    if !why.constraints.is_empty() {
        let excluded: BTreeSet<&String> = why.constraints.iter().flat_map(|of| &of.names).collect();
        lines.push(format!("Nodes that it cannot use, {} of {}:", excluded.len(), why.nodes));
        lines.extend(why.constraints.iter().map(|of| constraint(of, names)));
    }
    if !why.topology_faults.is_empty() {
        lines.push("Faults of network topology and sub-groups:".to_owned());
        lines.extend(why.topology_faults.iter().map(|fault| format!("  {fault}")));
    }
    if !why.domains.is_empty() {
        lines.push("HyperNodes without room for it:".to_owned());
        let shown = DOMAINS_MAX.max(names);
        lines.extend(why.domains.iter().take(shown).map(rejected));
        let more = why.domains.len().saturating_sub(shown);
        lines.extend((more > 0).then(|| format!("  and {more} more")));
    }
    if !why.holders.is_empty() {
        lines.push("What it lacks is held by".to_owned());
        lines.extend(why.holders.iter().flat_map(holders));
    }
    lines
}

/// `rack-1 (tier 1)`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (tier {})", self.hyper_node, self.tier)
    }
}

/// `  rack-1 (tier 1): room for 3 of 4 pods, lacks cpu 2`.
fn rejected(of: &RejectedDomain) -> String {
    let RejectedDomain { domain, fits, wanted, missing } = of;
    let lacks = if missing.is_empty() {
        "node filters refuse the others".to_owned()
    } else {
        format!("lacks {}", rounded(missing))
    };
    let noun = if *wanted == 1 { "pod" } else { "pods" };
    format!("  {domain}: room for {fits} of {wanted} {noun}, {lacks}")
}

/// `  n1, n2 and 3 more: Insufficient nvidia.com/gpu (6 free on 3 nodes, at most 2 on one, n1; a pod needs 4)`.
fn constraint(of: &Constraint, names: usize) -> String {
    let shown = &of.names[..of.names.len().min(names)];
    let more = of.nodes - shown.len().min(of.nodes);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let fragments = of.fragments.as_ref().map(|of| format!(" ({of})")).unwrap_or_default();
    format!("  {}{more}: {}{fragments}", shown.join(", "), of.text)
}

/// `6 free in fragments on 3 nodes, at most 2 on one, n1; a pod needs 4`.
impl fmt::Display for Fragments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { free, nodes, largest, on, requested, .. } = self;
        if *nodes == 1 {
            return write!(f, "{free} free on {on}; a pod needs {requested}");
        }
        write!(
            f,
            "{free} free in fragments on {nodes} nodes, at most {largest} on one, {on}; a pod needs {requested}"
        )
    }
}

/// `  cpu: queue a 4, queue b 2`, and the jobs of these queues.
fn holders(of: &Holders) -> Vec<String> {
    let each = |what: &str, list: &[HeldBy]| {
        let one = |held: &HeldBy| format!("{what}{} {}", held.name, for_people(&of.resource, &held.amount));
        list.iter().map(one).collect::<Vec<_>>()
    };
    let foreign = of.foreign.as_ref();
    let foreign =
        foreign.map(|amount| format!("pods of other schedulers {}", for_people(&of.resource, amount)));
    let within = of.within_queue.as_ref().map(|queue| format!(" in queue {queue}")).unwrap_or_default();
    let how = if of.reserved { ", reserved for nominated pods" } else { "" };
    let queues: Vec<String> = each("queue ", &of.queues).into_iter().chain(foreign).collect();
    let more = (of.others > 0).then(|| format!("{} more", of.others));
    let jobs: Vec<String> = each("", &of.jobs).into_iter().chain(more).collect();
    let line = format!("  {}{within}{how}: {}", of.resource, queues.join(", "));
    let jobs = (!jobs.is_empty()).then(|| format!("    {}", jobs.join(", ")));
    std::iter::once(line).chain(jobs).collect()
}

fn eviction(evicted: &Evicted) -> String {
    format!("  {} {}: {} ({})", evicted.at, evicted.pod, evicted.reason, evicted.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_groups_are_told_by_hyper_node() {
        let placed = |(name, hyper_node): (&str, &str)| PlacedSubGroup {
            policy: "replica".to_owned(),
            name: name.to_owned(),
            domain: Domain { hyper_node: hyper_node.to_owned(), tier: 1 },
        };
        let all = [("0", "rack-1"), ("1", "rack-0"), ("2", "rack-1"), ("3", "rack-2")].map(placed);
        assert_eq!(
            sub_groups(&all, 2),
            [
                "  sub-groups 0, 2 of subGroupPolicy replica in HyperNode rack-1 (tier 1)",
                "  sub-group 1 of subGroupPolicy replica in HyperNode rack-0 (tier 1)",
                "  sub-groups in 1 more HyperNode",
            ]
        );
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, expected) in
            [(-1, "0s"), (45, "45s"), (60, "1m"), (190, "3m10s"), (18_420, "5h7m"), (183_600, "2d3h")]
        {
            assert_eq!(waited(seconds), expected);
        }
    }
}
