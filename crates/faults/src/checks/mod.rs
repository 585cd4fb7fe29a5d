//! What has to hold: after each thing that happens, and at the end of a run. The checkers look at the API server,
//! at what schedulers decide, and at the end at the Cluster of the scheduler that leads.
mod clusters;
mod evictions;
mod jobs;
mod preemptors;
mod records;
mod starts;
pub mod statuses;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use http::{Method, Request};
use hyper::body::Bytes;
use phalanx_cache::slim;

use self::jobs::JobsSeen;
use self::records::{GangRecord, PodRecord};
use crate::gangs::{gang_name, gang_of, is_open, node_name, takes_pods, uses_node};
use crate::process::Process;
use crate::scheduler::Decided;
use crate::server::{Effect, Server};
use crate::story::{CALM_AFTER, Fault, FaultKind, Gang, Maker, Micros, SECOND, Story, time};

/// How long a gang may be started below `minMember` once faults are over.
const BELOW_MIN: Micros = 55 * SECOND;
/// After this time every process has seen that a node was deleted, and its binds to the node have been answered.
const SEEN: Micros = 20 * SECOND;
/// How long an eviction is tried that is lost or refused.
const TRIED_AGAIN: Micros = 20 * SECOND;
/// Within this time a process without faults sees a change and acts on it.
const NOTICED: Micros = 3 * SECOND;

/// So long before the end of a run, which is a minute after the last change, all is written.
const WRITTEN: Micros = 30 * SECOND;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it was found.
    pub at: Micros,
    /// What is wrong.
    pub what: String,
}

impl Violation {
    /// Found at this time.
    pub fn new(at: Micros, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", time(self.at), self.what)
    }
}

/// The gangs of which something is there.
fn gangs_there(server: &Server) -> BTreeSet<usize> {
    let Server { jobs, groups, pods, .. } = server;
    jobs.keys().chain(groups.keys()).chain(pods.keys()).filter_map(|name| gang_of(name)).collect()
}

/// What was seen so far.
#[derive(Debug)]
pub struct Checks {
    story: Story,
    found: Option<Violation>,
    evictions: Vec<evictions::Eviction>,
    gang_records: Vec<GangRecord>,
    /// By the UID of the pod, also of pods that are gone.
    pod_records: BTreeMap<String, PodRecord>,
    /// Names of pods that succeeded: they may be deleted later.
    succeeded: BTreeSet<String>,
    /// When the API server last carried out a bind of a former leader.
    late_bind: Option<Micros>,
    /// Cores in use when gangs were looked at, and when they became less.
    in_use: u32,
    last_freed: Micros,
    /// When nodes and gangs were deleted.
    gone: BTreeMap<String, Micros>,
    /// When nodes became unready or were cordoned.
    node_closures: BTreeMap<String, Micros>,
    /// When queues were closed that are.
    closed: BTreeMap<String, Micros>,
    jobs_seen: JobsSeen,
    /// When a process sent its last write, and to which path.
    last_write: Option<(Micros, String)>,
    /// The length of the log of pods when gangs were looked at.
    looked: usize,
    /// The change after which gangs were looked at that wait while nothing happens.
    looked_when_still: Option<Micros>,
}

impl Checks {
    /// At the begin of a run.
    pub fn new(story: &Story) -> Self {
        Self {
            story: story.clone(),
            found: None,
            evictions: Vec::new(),
            gang_records: vec![GangRecord::default(); story.gangs.len()],
            pod_records: BTreeMap::new(),
            succeeded: BTreeSet::new(),
            late_bind: None,
            in_use: 0,
            last_freed: 0,
            gone: BTreeMap::new(),
            node_closures: BTreeMap::new(),
            closed: BTreeMap::new(),
            jobs_seen: JobsSeen::default(),
            last_write: None,
            looked: 0,
            looked_when_still: None,
        }
    }

    fn find(&mut self, at: Micros, what: String) {
        self.found.get_or_insert(Violation { at, what });
    }

    /// What was seen of a pod.
    fn record(&self, pod: &slim::Pod) -> Option<&PodRecord> {
        self.pod_records.get(pod.metadata.uid.as_deref()?)
    }

    fn record_mut(&mut self, uid: &str) -> &mut PodRecord {
        self.pod_records.entry(uid.to_owned()).or_default()
    }

    /// A scheduler has decided something.
    pub fn decided(&mut self, decided: &Decided, server: &Server, now: Micros) {
        match decided {
            Decided::Binds { gang, pods } => self.starts(*gang, pods, server, now),
            Decided::Evicts { pod, by } => self.evicts(pod, *by, server, now),
        }
    }

    /// A process sends a request.
    pub fn sent(&mut self, who: usize, request: &Request<Bytes>, leads: bool, now: Micros) {
        if request.method() != Method::GET && !leads {
            let path = request.uri().path();
            self.find(now, format!("process {who} writes {path} without the lease"));
        }
        if request.method() != Method::GET {
            self.last_write = Some((now, request.uri().path().to_owned()));
        }
        if request.uri().path().ends_with("/eviction") {
            let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap_or_default();
            if let Some(uid) = body["deleteOptions"]["preconditions"]["uid"].as_str() {
                self.record_mut(uid).eviction_sent = Some(now);
            }
        }
    }

    /// The next bind was sent in time by a process that does not lead any more: the leader cannot know of it.
    pub fn bound_by_former_leader(&mut self, now: Micros) {
        self.late_bind = Some(now);
    }

    /// Whether a bind that the leader could not know of may have led it to binds for which there is no room.
    fn has_late_bind(&self, now: Micros) -> bool {
        self.late_bind.is_some_and(|at| now - at <= SEEN)
    }

    /// A request of a process was carried out.
    pub fn effect(&mut self, effect: &Effect, who: usize, server: &Server, now: Micros) {
        match effect {
            Effect::Bound(pod) => self.bound(pod, server, now),
            Effect::BoundTwice(pod) if !self.has_late_bind(now) => {
                self.find(now, format!("process {who} binds pod {pod} to a second node"));
            }
            Effect::Evicted(pod) => self.evicted(pod, server, now),
            Effect::Deleted(pod) => {
                self.discards(pod, server, now);
                if let Some(uid) = server.pods.get(pod).and_then(|pod| pod.metadata.uid.as_deref()) {
                    let record = self.record_mut(uid);
                    record.discarded = true;
                    record.eviction_sent = Some(now);
                }
            }
            Effect::Admitted(group) => self.admitted(group, server, now),
            Effect::Queue(queue) if is_open(server, queue) => drop(self.closed.remove(queue)),
            Effect::Queue(queue) => drop(self.closed.entry(queue.clone()).or_insert(now)),
            Effect::BoundTwice(_) | Effect::Other => {}
        }
    }

    fn admitted(&mut self, group: &str, server: &Server, now: Micros) {
        let queue = server.groups.get(group).map(|group| &group.spec.queue);
        let closed = queue.and_then(|queue| self.closed.get(queue));
        if closed.is_some_and(|at| now - at > NOTICED && self.is_quiet(now)) {
            self.find(now, format!("PodGroup {group} is admitted to a queue that is closed"));
        }
    }

    /// Whether no fault has hidden for a while what happens from a process, or has held up its requests.
    fn is_quiet(&self, now: Micros) -> bool {
        let hides = |kind: &FaultKind| {
            use FaultKind::{NodeCordoned, NodeUnready, QueueCloses};
            !matches!(kind, NodeUnready(_) | NodeCordoned(_) | QueueCloses(_))
        };
        now - self.quiet_since(now, hides) > SEEN
    }

    /// Since when there has been no such fault.
    fn quiet_since(&self, now: Micros, counts: impl Fn(&FaultKind) -> bool) -> Micros {
        let faults = self.story.faults.iter().filter(|fault| fault.at <= now && counts(&fault.kind));
        let ends = |fault: &Fault| fault.at + if fault.kind.ends() { fault.lasts } else { 0 };
        faults.map(|fault| now.min(ends(fault))).max().unwrap_or(0)
    }

    fn bound(&mut self, pod: &str, server: &Server, now: Micros) {
        let Some(gang) = gang_of(pod) else { return };
        self.serve(gang, now);
        if self.has_late_bind(now) {
            return;
        }
        let node = server.pods.get(pod).and_then(|pod| pod.spec.node_name.clone()).unwrap_or_default();
        let number: usize = node.trim_start_matches("node-").parse().unwrap_or(usize::MAX);
        let has = self.story.nodes.get(number).copied().unwrap_or(0);
        let used = self.cores(server, |it| it.spec.node_name.as_deref() == Some(&node));
        if used > has {
            self.find(now, format!("pod {pod} is bound to {node}, which has {has} cores: {used} are in use"));
        }
        if self.node_closures.get(&node).is_some_and(|at| now - at > NOTICED)
            && !takes_pods(server, &node)
            && self.is_quiet(now)
        {
            self.find(now, format!("pod {pod} is bound to {node}, which takes no pods"));
        }
        if !server.nodes.contains_key(&node) && self.must_be_known(&node, now) {
            self.find(now, format!("pod {pod} is bound to {node}, which was deleted long ago"));
        }
        let used = self.used_of_limited(server, now);
        if self.story.gangs[gang].limited && used > self.story.limit {
            let limit = self.story.limit;
            self.find(
                now,
                format!("pod {pod} is bound: queue limited may use {limit} cores and uses {used}"),
            );
        }
    }

    /// A node is deleted. It may have been the room for which pods were evicted before, or for the rest of a gang.
    pub fn node_gone(&mut self, node: &str, now: Micros) {
        self.gone.insert(node.to_owned(), now);
        self.evictions.clear();
        self.gang_records.iter_mut().for_each(|gang| gang.below = None);
    }

    /// A node has become unready, where pods do not go on, or was cordoned. Pods may have been evicted for its room.
    pub fn node_closed(&mut self, node: &str, now: Micros) {
        self.node_closures.insert(node.to_owned(), now);
        self.evictions.clear();
    }

    /// Another scheduler.conf takes effect, by which the preemptors of pods may wait.
    pub fn conf_changed(&mut self) {
        self.evictions.clear();
    }

    /// The user deletes a gang: pods may have been evicted for it.
    pub fn gang_deleted(&mut self, gang: usize, now: Micros) {
        self.gone.insert(gang_name(gang), now);
        self.gang_records[gang].below = None;
        self.forget_evictions_for(gang);
    }

    fn must_be_known(&self, node: &str, now: Micros) -> bool {
        self.gone.get(node).is_some_and(|at| now.saturating_sub(CALM_AFTER.max(*at)) > SEEN)
    }

    /// Cores of the pods that use nodes and are meant.
    fn cores(&self, server: &Server, meant: impl Fn(&slim::Pod) -> bool) -> u32 {
        let using = server.pods.iter().filter(|(_, pod)| uses_node(pod) && meant(pod));
        using.filter_map(|(name, _)| Some(self.story.gangs[gang_of(name)?].cores)).sum()
    }

    /// As in Volcano, a pod that terminates, or is being evicted, holds its node and not its queue.
    fn used_of_limited(&self, server: &Server, now: Micros) -> u32 {
        let is_leaving = |pod: &slim::Pod| {
            let sent = self.record(pod).and_then(|record| record.eviction_sent);
            starts::is_terminating(pod) || sent.is_some_and(|at| now - at < TRIED_AGAIN)
        };
        self.cores(server, |pod| self.is_limited(pod) && !is_leaving(pod))
    }

    /// Whether a pod is in queue `limited`.
    fn is_limited(&self, pod: &slim::Pod) -> bool {
        let gang = pod.metadata.name.as_deref().and_then(gang_of);
        gang.is_some_and(|gang| self.story.gangs[gang].limited)
    }

    /// A pod was lost by a fault or an eviction: its gang may be below `minMember` for that.
    pub fn lost(&mut self, pod: &str, uid: &str, now: Micros) {
        let discarded = self.pod_records.get(uid).is_some_and(|record| record.discarded);
        if let Some(gang) = gang_of(pod) {
            let gang = &mut self.gang_records[gang];
            gang.last_loss = now;
            gang.started = true;
            gang.below = None;
            if !discarded {
                gang.losses.push(pod.to_owned());
            }
        }
    }

    /// What has to hold at any time.
    pub fn always(&mut self, server: &Server, now: Micros) -> Option<Violation> {
        if self.look_at_gangs(server, now)
            && let Some(problem) = self.pods_too_many(server)
        {
            self.find(now, problem);
        }
        let since = |at: Micros| now.saturating_sub(at.max(CALM_AFTER));
        let mut below =
            self.gang_records.iter().enumerate().filter_map(|(gang, record)| Some((gang, record.below?)));
        if let Some((gang, at)) = below.find(|(_, at)| since(*at) > BELOW_MIN) {
            let (gang, at) = (gang_name(gang), time(at));
            self.find(
                now,
                format!("{gang} has had fewer pods with nodes than minMember since {}", at.trim()),
            );
        }
        if let Some(problem) = self.restart_is_wrong(server).or_else(|| self.in_vain(now)) {
            self.find(now, problem);
        }
        self.found.clone()
    }

    /// Looks when pods have changed; says whether they had.
    fn look_at_gangs(&mut self, server: &Server, now: Micros) -> bool {
        let log = server.log(crate::story::Watched::Pods).len();
        if std::mem::replace(&mut self.looked, log) == log {
            return false;
        }
        let in_use = self.cores(server, |_| true);
        if in_use < std::mem::replace(&mut self.in_use, in_use) {
            self.last_freed = now;
        }
        let mut placed = vec![0; self.story.gangs.len()];
        for (name, pod) in &server.pods {
            if let Some(gang) = gang_of(name)
                && pod.spec.node_name.is_some()
            {
                placed[gang] += 1;
            }
            if pod.status.phase.as_deref() == Some("Succeeded") && !self.succeeded.contains(name) {
                self.succeeded.insert(name.clone());
            }
        }
        // Somebody may delete a pod that has done its work: it counts for the start of its gang all the same.
        for name in self.succeeded.iter().filter(|name| !server.pods.contains_key(*name)) {
            if let Some(gang) = gang_of(name).filter(|gang| self.is_of_user(*gang)) {
                placed[gang] += 1;
            }
        }
        for (index, placed) in placed.into_iter().enumerate() {
            let gang = &mut self.gang_records[index];
            // A gang whose last pod is gone starts anew, once schedulers have seen it.
            let goes_on = placed > 0 && (gang.placed > 0 || now - gang.last_loss <= NOTICED);
            gang.placed = placed;
            gang.started =
                placed >= self.story.gangs[index].min || (gang.started && (goes_on || placed == 0));
            let is_below = placed > 0 && !gang.started && !self.has_lost_room(index, server);
            let gang = &mut self.gang_records[index];
            gang.below = is_below.then(|| gang.below.unwrap_or(now));
        }
        true
    }

    /// Whether a node was deleted after it was decided, for the last time, to bind a pod of the gang that has a node.
    fn has_lost_room(&self, gang: usize, server: &Server) -> bool {
        let has_node =
            |name: &str, pod: &slim::Pod| gang_of(name) == Some(gang) && pod.spec.node_name.is_some();
        let bound = server.pods.iter().filter(|(name, pod)| has_node(name, pod));
        let decided = bound.filter_map(|(_, pod)| self.record(pod)?.bind_decided).min();
        let mut nodes = (0..self.story.nodes.len()).filter_map(|node| self.gone.get(&node_name(node)));
        decided.is_some_and(|decided| nodes.any(|at| *at >= decided))
    }

    fn is_of_user(&self, gang: usize) -> bool {
        self.story.gangs[gang].maker == Maker::User
    }

    /// What has to hold once nothing changes any more.
    pub fn at_the_end<'a>(
        &self,
        server: &Server,
        now: Micros,
        processes: impl Iterator<Item = &'a Process>,
    ) -> Option<Violation> {
        let gangs = gangs_there(server).into_iter().find_map(|gang| {
            self.waits_though_it_fits(gang, server, now)
                .or_else(|| self.job_is_wrong(gang, server))
                .or_else(|| self.is_there_again(gang, server))
        });
        let what = gangs.or_else(|| statuses::problems(server).next()).or_else(|| self.still_writes(now));
        let what = what.or_else(|| clusters::of_leader_differs(processes, server));
        what.map(|what| Violation::new(now, what))
    }

    /// A gang that the user deleted is gone.
    fn is_there_again(&self, index: usize, server: &Server) -> Option<String> {
        let mut left = server.pods.keys().chain(server.groups.keys());
        let left = left.find(|name| gang_of(name) == Some(index));
        let deleted = self.gone.contains_key(&gang_name(index));
        deleted.then_some(left?).map(|left| format!("{left} is there, and the user has deleted its gang"))
    }

    /// Nothing is written for ever.
    fn still_writes(&self, now: Micros) -> Option<String> {
        let (_, path) = self.last_write.as_ref().filter(|(at, _)| now - at < WRITTEN)?;
        Some(format!("{path} is written, though no pod and no Job has changed for long"))
    }

    /// All pods of a gang request the same, so what fits is a sum over nodes.
    fn waits_though_it_fits(&self, index: usize, server: &Server, now: Micros) -> Option<String> {
        let gang = &self.story.gangs[index];
        if jobs::has_ended(index, server) || self.awaits_admission(index, server) {
            return None;
        }
        let pods = || server.pods.iter().filter(|(name, _)| gang_of(name) == Some(index));
        let placed = pods().filter(|(_, pod)| pod.spec.node_name.is_some()).count();
        let waiting = match gang.maker {
            Maker::User | Maker::Owner => pods().count() - placed,
            Maker::Job(_) if !server.jobs.contains_key(&gang_name(index)) => 0,
            Maker::Job(_) => gang.size.saturating_sub(placed),
        };
        let needed = gang.min.saturating_sub(placed).max(1);
        // As in Volcano, a gang that asks for more than there is is not admitted, also when a part of it has ended.
        if self.all_cores(server) < gang.cores * gang.min as u32 {
            return None;
        }
        let used = self.used_of_limited(server, now);
        if waiting < needed || (gang.limited && used + gang.cores * needed as u32 > self.story.limit) {
            return None;
        }
        let (name, fit) = (gang_name(index), self.fit(gang, server, |_| true));
        (fit >= needed).then(|| {
            format!("{name} waits though it fits: {waiting} pods wait, {needed} are needed, {fit} fit")
        })
    }

    /// The cores of all nodes that are there.
    fn all_cores(&self, server: &Server) -> u32 {
        let nodes = self.story.nodes.iter().enumerate();
        nodes.filter(|(node, _)| server.nodes.contains_key(&node_name(*node))).map(|(_, cores)| cores).sum()
    }

    /// How many pods of a gang fit beside what uses the nodes, and stays.
    fn fit(&self, gang: &Gang, server: &Server, stays: impl Fn(&slim::Pod) -> bool) -> usize {
        let free = |(node, cores): (usize, &u32)| {
            let name = node_name(node);
            let has = if takes_pods(server, &name) { *cores } else { 0 };
            let used = self.cores(server, |pod| pod.spec.node_name.as_deref() == Some(&name) && stays(pod));
            (has.saturating_sub(used) / gang.cores) as usize
        };
        self.story.nodes.iter().enumerate().map(free).sum()
    }
}
