//! Jobs that a live scheduler saw: from the changes of objects in its journal.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_cluster::event::{Event, Key, PodGroupInfo, PodInfo, PodPhase, PodRequests, Resources, Time};
use phalanx_resource::format_milli;

use super::arrival::Arrival;

/// Amounts by resource, in thousandths.
type Milli = BTreeMap<Arc<str>, i64>;

/// Jobs of a journal, as its lines are read.
#[derive(Debug, Default)]
pub struct RecordedJobs {
    jobs: Vec<Job>,
    /// Jobs whose PodGroup exists, or that wait for it; places in `jobs`.
    open: BTreeMap<Key, usize>,
    /// Pods that exist and have not ended, by UID.
    pods: BTreeMap<Arc<str>, Pod>,
    /// Values of PriorityClasses.
    classes: BTreeMap<Arc<str>, i32>,
    /// Pods that ended since the last cycle: only cycles tell the time.
    ended: Vec<Arc<str>>,
    /// Pods that were there before the scheduler began anew, and have not been seen since.
    unseen: BTreeSet<Arc<str>>,
    now: Time,
}

#[derive(Debug)]
struct Pod {
    job: usize,
    scheduled: Option<Time>,
}

#[derive(Debug, Default)]
struct Job {
    namespace: Arc<str>,
    name: Arc<str>,
    created: Option<Time>,
    queue: Option<Arc<str>>,
    priority: Option<i32>,
    class: Option<Arc<str>>,
    min_member: Option<u32>,
    /// Pods that exist now, and the most that did.
    live: u32,
    size: u32,
    /// All pods so far, those that replaced others included, and what they request.
    pods: u32,
    requests: Milli,
    /// How long the longest pod ran.
    run_ms: Option<i64>,
}

/// What a journal gives.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Jobs, in the order of their creation.
    pub arrivals: Vec<Arrival>,
    /// Jobs that were deleted before they ran, and are left out.
    pub never_ran: usize,
    /// Jobs that had not ended at the end of the journal, and run for ever.
    pub still_there: usize,
}

impl RecordedJobs {
    /// A scheduler begins, and sees all objects anew.
    pub fn begin(&mut self) {
        self.unseen = self.pods.keys().cloned().collect();
    }

    /// A change, in the order of the journal.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Pod(pod) if pod.ours => self.pod(pod),
            Event::PodGone(uid) => self.ended.push(uid.clone()),
            Event::PodGroup(group) => self.group(group),
            Event::PodGroupGone(key) => drop(self.open.remove(key)),
            Event::PriorityClass { name, value, .. } => drop(self.classes.insert(name.clone(), *value)),
            _ => {}
        }
    }

    /// A cycle at this time, after the changes before it.
    pub fn cycle(&mut self, now: Time) {
        self.now = now;
        self.ended.extend(std::mem::take(&mut self.unseen));
        self.end_pods();
    }

    /// The jobs.
    pub fn arrivals(mut self) -> Recorded {
        self.end_pods();
        let mut recorded = Recorded::default();
        let mut jobs: Vec<&Job> = self.jobs.iter().filter(|job| job.pods > 0).collect();
        jobs.sort_by_key(|job| job.created);
        jobs.retain(|job| {
            job.live > 0 || job.run_ms.is_some() || {
                recorded.never_ran += 1;
                false
            }
        });
        recorded.still_there = jobs.iter().filter(|job| job.live > 0).count();
        let begin = jobs.first().and_then(|job| job.created).unwrap_or_default();
        let mut names: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for job in jobs {
            let times = names.entry((&job.namespace, &job.name)).or_default();
            *times += 1;
            let name = if *times == 1 { job.name.to_string() } else { format!("{}-{times}", job.name) };
            recorded.arrivals.push(Arrival { name, ..job.arrival(begin, &self.classes) });
        }
        recorded
    }

    fn pod(&mut self, pod: &PodInfo) {
        let uid = &pod.pod.uid;
        self.unseen.remove(uid);
        let ended = matches!(pod.life.phase, PodPhase::Succeeded | PodPhase::Failed);
        if !ended && !self.pods.contains_key(uid) {
            self.add(pod);
        }
        let Some(known) = self.pods.get_mut(uid) else { return };
        known.scheduled = known.scheduled.or(pod.life.scheduled);
        if ended {
            self.ended.push(uid.clone());
        }
    }

    fn add(&mut self, pod: &PodInfo) {
        let (namespace, name) = (&pod.pod.namespace, &pod.pod.name);
        let place = if let Some(group) = &pod.group {
            self.open_job(Key::new(namespace, group))
        } else {
            let (namespace, name) = (namespace.clone(), name.clone());
            self.jobs.push(Job { namespace, name, queue: pod.queue.clone(), ..Job::default() });
            self.jobs.len() - 1
        };
        let job = &mut self.jobs[place];
        job.created = Some(job.created.map_or(pod.created, |created| created.min(pod.created)));
        job.priority = job.priority.or(pod.priority);
        job.class = job.class.take().or_else(|| pod.priority_class.clone());
        job.live += 1;
        job.size = job.size.max(job.live);
        job.pods += 1;
        for (name, milli) in total(&pod.requests) {
            *job.requests.entry(name).or_default() += milli;
        }
        self.pods.insert(pod.pod.uid.clone(), Pod { job: place, scheduled: None });
    }

    fn group(&mut self, group: &PodGroupInfo) {
        let place = self.open_job(group.key.clone());
        let job = &mut self.jobs[place];
        job.queue = Some(group.queue.clone()).filter(|queue| !queue.is_empty());
        job.min_member = Some(group.min_member);
        job.class = group.priority_class.clone().or_else(|| job.class.take());
    }

    fn open_job(&mut self, key: Key) -> usize {
        let jobs = &mut self.jobs;
        *self.open.entry(key).or_insert_with_key(|key| {
            let (namespace, name) = (key.namespace.clone(), key.name.clone());
            jobs.push(Job { namespace, name, ..Job::default() });
            jobs.len() - 1
        })
    }

    fn end_pods(&mut self) {
        for uid in std::mem::take(&mut self.ended) {
            let Some(pod) = self.pods.remove(&uid) else { continue };
            let job = &mut self.jobs[pod.job];
            job.live -= 1;
            let ran = pod.scheduled.map(|at| (self.now.0 - at.0).max(0));
            job.run_ms = job.run_ms.max(ran);
        }
    }
}

impl Job {
    fn arrival(&self, begin: Time, classes: &BTreeMap<Arc<str>, i32>) -> Arrival {
        // Members of a job are alike in a trace: each requests the mean, so that their sum is right.
        let mean = |(name, milli): (&Arc<str>, &i64)| {
            let mean = (milli + i64::from(self.pods) - 1) / i64::from(self.pods);
            (name.to_string(), format_milli(mean))
        };
        let created = self.created.unwrap_or(begin);
        let of_class = self.class.as_ref().and_then(|class| classes.get(class).copied());
        Arrival {
            arrival: (created.0 - begin.0) as f64 / 1_000.0,
            duration: self.run_ms.filter(|_| self.live == 0).map(|ms| ms as f64 / 1_000.0),
            namespace: Some(self.namespace.to_string()).filter(|namespace| namespace != "default"),
            queue: self.queue.as_ref().map(ToString::to_string),
            priority: of_class.or(self.priority),
            size: self.size,
            min_member: self
                .min_member
                .map(|least| least.clamp(1, self.size))
                .filter(|least| *least < self.size),
            requests: self.requests.iter().map(mean).collect(),
            ..Arrival::default()
        }
    }
}

/// What a pod requests: its containers and sidecars together, or what one of its init containers needs beyond that.
fn total(requests: &PodRequests) -> Milli {
    let mut total = Milli::new();
    let add = |total: &mut Milli, of: &Resources| {
        for (name, amount) in of {
            *total.entry(name.clone()).or_default() += amount.milli();
        }
    };
    let sidecars = requests.init.iter().filter(|(_, sidecar)| *sidecar).map(|(of, _)| of);
    requests.containers.iter().chain(sidecars).for_each(|of| add(&mut total, of));
    for (name, amount) in requests.init.iter().flat_map(|(of, _)| of) {
        let most = total.entry(name.clone()).or_default();
        *most = amount.milli().max(*most);
    }
    for (name, amount) in requests.pod_level.iter().flatten() {
        total.insert(name.clone(), amount.milli());
    }
    add(&mut total, &requests.overhead);
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{Object, ReadOptions, read};

    /// The objects of manifests as events.
    fn events(text: &str) -> Vec<Event> {
        let sources = [("m".to_owned(), text.to_owned())];
        let manifests = read(&sources, &ReadOptions::default()).unwrap();
        let event = |object| match object {
            Object::Pod(pod) => Some(Event::Pod(Box::new(pod.info))),
            Object::PodGroup(group) => Some(Event::PodGroup(group)),
            _ => None,
        };
        manifests.objects.into_iter().filter_map(event).collect()
    }

    fn see(jobs: &mut RecordedJobs, text: &str) {
        for event in events(text) {
            jobs.event(&event);
        }
    }

    fn pod(name: &str, created: u32, rest: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {name}, creationTimestamp: \"2026-01-01T00:00:{created:02}Z\"{rest}\n---\n"
        )
    }

    const SPEC: &str = "spec: {schedulerName: volcano, containers: [{name: m, resources: {requests: {cpu: 1500m, nvidia.com/gpu: 2}}}]";
    const MEMBER: &str = ", annotations: {scheduling.k8s.io/group-name: llm}}\n";

    fn lines(recorded: &Recorded) -> String {
        recorded.arrivals.iter().map(Arrival::line).collect()
    }

    #[test]
    fn a_gang_and_a_pod_become_jobs_with_their_times_and_requests() {
        let group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: llm}\nspec: {minMember: 2, queue: ml}\n---\n";
        let waiting = format!(
            "{group}{}{}{}",
            pod("a", 10, &format!("{MEMBER}{SPEC}}}")),
            pod("b", 11, &format!("{MEMBER}{SPEC}}}")),
            pod("late", 20, &format!("}}\n{SPEC}}}")),
        );
        let bound = "status: {phase: Running, conditions: [{type: PodScheduled, status: \"True\", lastTransitionTime: \"2026-01-01T00:01:00Z\"}]}";
        let running = pod("a", 10, &format!("{MEMBER}{SPEC}, nodeName: node-1}}\n{bound}"));
        let mut jobs = RecordedJobs::default();
        jobs.begin();
        see(&mut jobs, &waiting);
        jobs.cycle(Time(0));
        see(&mut jobs, &running);
        for uid in ["a", "b"] {
            jobs.event(&Event::PodGone(uid.into()));
        }
        // 2026-01-01T00:02:30Z
        jobs.cycle(Time(1_767_225_750_000));
        let recorded = jobs.arrivals();
        assert_eq!(
            lines(&recorded),
            "{\"arrival\":0.0,\"duration\":90.0,\"name\":\"llm\",\"queue\":\"ml\",\"size\":2,\"requests\":{\"cpu\":\"1500m\",\"nvidia.com/gpu\":\"2\"}}\n\
             {\"arrival\":10.0,\"name\":\"late\",\"requests\":{\"cpu\":\"1500m\",\"nvidia.com/gpu\":\"2\"}}\n"
        );
        assert_eq!((recorded.never_ran, recorded.still_there), (0, 1));
    }

    #[test]
    fn pods_that_are_gone_after_a_restart_have_ended_and_jobs_that_never_ran_are_left_out() {
        let mut jobs = RecordedJobs::default();
        let text = pod("a", 10, &format!("}}\n{SPEC}}}")) + &pod("b", 10, &format!("}}\n{SPEC}}}"));
        see(&mut jobs, &text);
        jobs.cycle(Time(0));
        jobs.begin();
        see(&mut jobs, &pod("b", 10, &format!("}}\n{SPEC}}}")));
        jobs.cycle(Time(1));
        let recorded = jobs.arrivals();
        assert_eq!((recorded.arrivals.len(), recorded.never_ran, recorded.still_there), (1, 1, 1));
    }
}
