//! What holds in every cluster.
use std::cmp::Ordering;
use std::collections::BTreeMap;

use phalanx_core::event::Time;
use phalanx_core::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_core::placement::Placement;
use phalanx_core::session::Session;
use phalanx_core::statement::Statement;
use phalanx_core::world::{Counts, Status, World};
use phalanx_resource::{Amounts, DimId};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::cluster::{Cluster, Cycle, helm};
use crate::random::{Script, script};

/// Runs a script, with a check after each cycle that may compare with the World before it.
fn play(script: &Script, check: impl Fn(&World, &Cluster, &Cycle) -> TestCaseResult) -> TestCaseResult {
    let mut cluster = script.cluster();
    for (happenings, fails) in &script.future {
        let before = cluster.world.clone();
        let cycle = cluster.cycle();
        check(&before, &cluster, &cycle)?;
        script.go_on(&mut cluster, &cycle, happenings, *fails);
        prop_assert_eq!(cluster.world.check(), Vec::<String>::new());
    }
    Ok(())
}

/// No dimension is below 0, unless it was and is no lower now.
fn no_worse(after: &Amounts, before: &Amounts) -> bool {
    after.iter().all(|(dim, amount)| amount >= before.get(dim).min(0))
}

pub(crate) fn no_node_is_overfull(before: &World, after: &World) -> TestCaseResult {
    for (id, node) in after.nodes.iter() {
        let was = &before.nodes[id];
        prop_assert!(no_worse(&node.idle, &was.idle), "idle of {}: {:?}", node.name, node.idle);
        let (now, was) = (node.future_idle(), was.future_idle());
        prop_assert!(no_worse(&now, &was), "future room of {}: {now:?}", node.name);
    }
    Ok(())
}

/// Whoever got a node in this cycle has its gang with it; whoever was nominated has it nominated or ready.
pub(crate) fn gangs_are_whole(after: &World, cycle: &Cycle) -> TestCaseResult {
    let promised = |counts: &Counts| counts.ready() + counts.of(Status::Pipelined);
    for (_, job) in after.jobs.iter() {
        let bound = job.tasks.iter().any(|task| cycle.bound.contains_key(&*after.tasks[*task].pod.name));
        let ready = job.counts.ready() >= job.min_member && job.roles_satisfied(Counts::ready).is_ok();
        // One that became whole may have to give again to a queue that is due.
        let gave = job
            .tasks
            .iter()
            .any(|task| cycle.evicted.iter().any(|pod| **pod == *after.tasks[*task].pod.name));
        prop_assert!(!bound || ready || gave, "{} is bound in part", job.key);
        let whole = promised(&job.counts) >= job.min_member && job.roles_satisfied(promised).is_ok();
        prop_assert!(job.counts.of(Status::Pipelined) == 0 || whole, "{} holds room for a part", job.key);
        prop_assert_eq!(job.counts.of(Status::Allocated), 0, "left undecided");
    }
    Ok(())
}

pub(crate) fn no_queue_grows_over_its_capability(before: &World, after: &World) -> TestCaseResult {
    for (id, queue) in after.queues.iter() {
        for (dim, limit) in queue.capability.iter().filter(|(dim, _)| *dim != DimId::PODS) {
            let (now, was) = (queue.held().get(dim), before.queues[id].held().get(dim));
            prop_assert!(now <= limit.max(was), "{} holds {now} of {limit}", queue.name);
        }
    }
    Ok(())
}

/// Pods that wait carry the nomination that the World has for them.
fn nominations_are_told(told: &BTreeMap<String, Option<String>>, world: &World) -> TestCaseResult {
    let waits = |status| matches!(status, Status::Pending | Status::Pipelined);
    for (_, task) in world.tasks.iter().filter(|(_, task)| waits(task.status)) {
        let told = told.get(&*task.pod.name).cloned().flatten();
        let held = task.node.map(|node| world.nodes[node].name.to_string());
        prop_assert_eq!(&told, &held, "{}", task.pod);
    }
    Ok(())
}

fn compare_all<T: Copy + std::fmt::Debug>(items: &[T], order: impl Fn(T, T) -> Ordering) -> TestCaseResult {
    for (at, a) in items.iter().enumerate() {
        for (other, b) in items.iter().enumerate() {
            prop_assert_eq!(order(*a, *b), order(*b, *a).reverse(), "{:?} and {:?}", a, b);
            prop_assert_eq!(order(*a, *b).is_eq(), at == other, "{:?} and {:?}", a, b);
            for c in items {
                let chain = order(*a, *b).is_lt() && order(*b, *c).is_lt();
                prop_assert!(!chain || order(*a, *c).is_lt(), "{:?}, {:?}, {:?}", a, b, c);
            }
        }
    }
    Ok(())
}

/// A change that a statement may make, to the task and node that the numbers pick.
#[derive(Clone, Copy, Debug)]
enum Change {
    Allocate(usize, usize),
    Pipeline(usize, usize),
    Unplace(usize),
    Evict(usize),
    /// So many of the next changes in a nested statement, kept or dropped.
    Nest(usize, bool),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let one = prop_oneof![
        4 => (0usize..40, 0usize..5).prop_map(|(task, node)| Change::Allocate(task, node)),
        4 => (0usize..40, 0usize..5).prop_map(|(task, node)| Change::Pipeline(task, node)),
        2 => (0usize..40).prop_map(Change::Unplace),
        3 => (0usize..40).prop_map(Change::Evict),
        1 => (0usize..4, any::<bool>()).prop_map(|(count, keep)| Change::Nest(count, keep)),
    ];
    prop::collection::vec(one, 0..20)
}

/// Makes the changes that are allowed in the states in which they find the tasks.
fn make(statement: &mut Statement<'_, '_>, tasks: &[TaskId], nodes: &[NodeId], mut changes: &[Change]) {
    while let Some((change, rest)) = changes.split_first() {
        changes = rest;
        if let Change::Nest(count, keep) = change {
            let (inner, outer) = rest.split_at((*count).min(rest.len()));
            let mut nested = statement.nested();
            make(&mut nested, tasks, nodes, inner);
            if *keep {
                nested.keep();
            }
            changes = outer;
        } else {
            make_one(statement, tasks, nodes, *change);
        }
    }
}

fn make_one(statement: &mut Statement<'_, '_>, tasks: &[TaskId], nodes: &[NodeId], change: Change) {
    use Status::{Allocated, Bound, Pending, Pipelined, Running};
    let pick = |statement: &mut Statement<'_, '_>, at: usize, allowed: &[Status]| {
        let task = *tasks.get(at % tasks.len().max(1))?;
        allowed.contains(&statement.session().world.tasks[task].status).then_some(task)
    };
    let node = |at: usize| nodes.get(at % nodes.len().max(1)).copied();
    match change {
        Change::Allocate(task, at) => {
            if let (Some(task), Some(node)) = (pick(statement, task, &[Pending]), node(at)) {
                statement.allocate(task, node);
            }
        }
        Change::Pipeline(task, at) => {
            if let (Some(task), Some(node)) = (pick(statement, task, &[Pending, Allocated]), node(at)) {
                statement.pipeline(task, node);
            }
        }
        Change::Unplace(task) => {
            if let Some(task) = pick(statement, task, &[Allocated, Pipelined]) {
                statement.unplace(task);
            }
        }
        Change::Evict(task) => {
            if let Some(task) = pick(statement, task, &[Running, Bound]) {
                statement.evict(task);
            }
        }
        Change::Nest(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn cycles_keep_their_promises(script in script()) {
        play(&script, |before, cluster, cycle| {
            no_node_is_overfull(before, &cluster.world)?;
            gangs_are_whole(&cluster.world, cycle)?;
            no_queue_grows_over_its_capability(before, &cluster.world)
        })?;
    }

    #[test]
    fn the_same_input_gives_the_same_decisions(script in script()) {
        let run = || {
            let cycles = std::cell::RefCell::new(Vec::new());
            play(&script, |_, _, cycle| {
                cycles.borrow_mut().push(cycle.clone());
                Ok(())
            })?;
            Ok::<_, TestCaseError>(cycles.into_inner())
        };
        prop_assert_eq!(run()?, run()?);
    }

    #[test]
    fn what_is_settled_need_not_be_looked_at(script in script()) {
        let (mut cluster, mut thorough) = (script.cluster(), script.cluster());
        for (happenings, fails) in &script.future {
            thorough.forget();
            let (cycle, all) = (cluster.cycle(), thorough.cycle());
            prop_assert_eq!(&cycle.decisions, &all.decisions);
            script.go_on(&mut cluster, &cycle, happenings, *fails);
            script.go_on(&mut thorough, &all, happenings, *fails);
        }
    }

    #[test]
    fn the_order_of_events_does_not_matter(script in script(), turn in 0usize..50) {
        let mut events = script.events();
        let end = events.len();
        events.rotate_left(turn % end.max(1));
        events.reverse();
        let mut turned = Cluster::new();
        for event in events {
            turned.add(event);
        }
        let (straight, turned) = (script.cluster().cycle(), turned.cycle());
        prop_assert_eq!(straight.bound, turned.bound);
        prop_assert_eq!(straight.nominated, turned.nominated);
    }

    #[test]
    fn a_cluster_that_nothing_happens_to_comes_to_rest(script in script()) {
        let mut cluster = script.cluster();
        for _ in 0..4 {
            cluster.run();
        }
        prop_assert_eq!(cluster.cycle().decisions, vec![]);
    }

    #[test]
    fn nominations_outside_are_those_inside(script in script()) {
        let told = std::cell::RefCell::new(BTreeMap::new());
        play(&script, |_, cluster, cycle| {
            told.borrow_mut().extend(cycle.nominated.clone());
            nominations_are_told(&told.borrow(), &cluster.world)
        })?;
    }

    #[test]
    fn a_dropped_statement_leaves_no_trace(script in script(), first in changes(), second in changes()) {
        let mut cluster = script.cluster();
        let conf = helm();
        let mut placement = Placement::new(1);
        let tasks: Vec<TaskId> =
            cluster.world.tasks.iter().filter(|(_, task)| task.job.is_some()).map(|(id, _)| id).collect();
        let nodes: Vec<NodeId> = cluster.world.nodes.ids().collect();
        let mut session = Session::open(&mut cluster.world, &conf, &mut placement, Time(0));
        for changes in [first, second] {
            let before = session.world.clone();
            let mut statement = session.statement();
            make(&mut statement, &tasks, &nodes, &changes);
            prop_assert_eq!(statement.session().world.check(), Vec::<String>::new());
            drop(statement);
            prop_assert!(*session.world == before);
        }
    }

    #[test]
    fn the_orders_are_total(script in script()) {
        let mut cluster = script.cluster();
        cluster.run();
        let (conf, mut placement) = (helm(), Placement::new(1));
        let session = Session::open(&mut cluster.world, &conf, &mut placement, Time(0));
        let jobs: Vec<JobId> = session.world.jobs.ids().collect();
        let queues: Vec<QueueId> = session.world.queues.ids().collect();
        compare_all(&jobs, |a, b| session.job_order(a, b))?;
        compare_all(&queues, |a, b| session.queue_order(a, b))?;
        for job in jobs {
            compare_all(&session.world.jobs[job].tasks, |a, b| session.task_order(a, b))?;
        }
    }
}
