//! A status is written only where the object does not show it already.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Event, Key, PodGroupInfo, QueueInfo, Resources};
use phalanx_core::decision::Decision;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::{group, queue};
use phalanx_testkit::TestCluster;
use phalanx_testkit::random::{Script, script};

/// The number of cycles until a cluster of this size is at rest.
const CYCLES: usize = 8;

/// The objects as an API server holds them.
struct Server {
    groups: BTreeMap<Key, PodGroupInfo>,
    queues: BTreeMap<Arc<str>, QueueInfo>,
}

impl Server {
    fn of(script: &Script) -> Self {
        let mut server = Self { groups: BTreeMap::new(), queues: BTreeMap::new() };
        for event in script.events().into_iter().chain([Event::from(queue("default", 1))]) {
            match event {
                Event::PodGroup(group) => drop(server.groups.insert(group.key.clone(), *group)),
                Event::Queue(queue) => drop(server.queues.insert(queue.name.clone(), *queue)),
                _ => {}
            }
        }
        server
    }

    /// Applies a decision, which must change the objects, and sends the event to the cluster.
    fn take(&mut self, decision: &Decision, test: &mut TestCluster) -> TestCaseResult {
        match decision {
            Decision::Bind { pods, .. } => {
                for binding in pods {
                    test.start(&binding.pod.name, &binding.node);
                }
            }
            Decision::PodGroupStatus { group, status, .. } => {
                let object = self.groups.get_mut(group).expect("a group of the script");
                prop_assert!(object.status != *status, "{} has {:?} already", group, status);
                object.status = status.clone();
                test.add(object.clone());
            }
            Decision::QueueStatus { queue, allocated } => {
                let object = self.queues.get_mut(queue).expect("a queue of the script");
                let parsed =
                    |(name, text): &(Arc<str>, String)| (name.clone(), text.parse().expect("a quantity"));
                let allocated: Resources = allocated.iter().map(parsed).collect();
                prop_assert!(object.allocated != allocated, "{} has {:?} already", queue, allocated);
                object.allocated = allocated;
                test.add(object.clone());
            }
            Decision::PodUnscheduled { pod, message, .. } => {
                let told = test.pod(&pod.name).life.unscheduled_message;
                prop_assert!(told.as_ref() != Some(message), "{} says {} already", pod, message);
                test.change(&pod.name, |pod| pod.life.unscheduled_message = Some(message.clone()));
            }
            Decision::Nominate { pod, node } => {
                prop_assert!(test.pod(&pod.name).life.nominated != *node, "{} has {:?} already", pod, node);
                test.change(&pod.name, |pod| pod.life.nominated.clone_from(node));
            }
            Decision::Evict { pod, .. } => drop(test.change(&pod.name, |pod| pod.life.deleting = true)),
            Decision::OpenGate { .. }
            | Decision::PodGroupUnschedulable { .. }
            | Decision::PodGroupInvalid { .. }
            | Decision::PodUngrouped { .. }
            | Decision::HyperNodeInvalid { .. }
            | Decision::QueueInvalid { .. } => {}
        }
        Ok(())
    }
}

/// Each pod of a gang gets the message.
#[test]
fn messages_are_short_whatever_names_users_choose() {
    let long: Arc<str> = "n".repeat(100_000).into();
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=1");
    test.gang(PodGroupInfo { invalid: Some(long.clone()), ..group("invalid", 2) }, 20, "cpu=1");
    test.gang(PodGroupInfo { min_task_member: vec![(long, 2)], ..group("roles", 2) }, 20, "cpu=1");
    let mut lengths: Vec<usize> = Vec::new();
    for decision in test.decisions() {
        match decision {
            Decision::PodGroupStatus { status, .. } => {
                lengths.extend(status.conditions.iter().map(|condition| condition.message.len()));
            }
            Decision::PodUnscheduled { message, .. } | Decision::PodGroupUnschedulable { message, .. } => {
                lengths.push(message.len());
            }
            _ => {}
        }
    }
    assert!(lengths.len() > 40 && lengths.iter().all(|length| *length <= 1_024), "{lengths:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(300)))]

    #[test]
    fn no_status_or_condition_is_written_twice(script in script()) {
        let (mut server, mut test) = (Server::of(&script), script.test());
        for _ in 0..CYCLES {
            for decision in test.decisions() {
                server.take(&decision, &mut test)?;
            }
        }
        prop_assert_eq!(test.decisions(), vec![]);
        // The next process, which knows the objects only, writes nothing either.
        let mut next = TestCluster::new();
        let others = script.events().into_iter().filter(|event| matches!(event, Event::Node(_)));
        let queues = server.queues.values().cloned().map(Event::from);
        let groups = server.groups.values().cloned().map(Event::from);
        let pods = test.pod_names().into_iter().map(|pod| Event::from(test.pod(&pod)));
        for event in others.chain(queues).chain(groups).chain(pods) {
            next.add(event);
        }
        for decision in next.decisions() {
            server.take(&decision, &mut next)?;
        }
    }
}
