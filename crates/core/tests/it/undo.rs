//! Undo is exact, for the Cluster and for the sums that plugins keep.
use std::cmp::Ordering;

use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Status};
use phalanx_core::SchedulerState;
use phalanx_core::session::Session;
use phalanx_core::statement::Statement;
use phalanx_framework::conf::Conf;
use phalanx_framework::placement::BestNode;
use phalanx_framework::plugin::{EvictionKind, Plugin};
use phalanx_framework::testing::eviction;
use phalanx_framework::tiers::TierVictims;
use phalanx_resource::Amounts;
use proptest::prelude::*;

use phalanx_testkit::settings::setting;

const NOW: Time = Time(1500);

/// Answers of a session on queues, and the nodes that it chooses for tasks.
#[derive(Debug, PartialEq)]
struct Accounts {
    queue_order: Vec<Ordering>,
    victim_queue_order: Vec<Ordering>,
    overused: Vec<Option<Refusal>>,
    deserved: Vec<Vec<Option<Amounts>>>,
    allocatable: Vec<Result<(), Refusal>>,
    preemptive: Vec<Result<(), Refusal>>,
    spots: Vec<Option<BestNode>>,
}

/// Answers of a session on jobs.
#[derive(Debug, PartialEq)]
struct Plans {
    job_order: Vec<Ordering>,
    task_order: Vec<Ordering>,
    ready: Vec<(bool, bool, bool)>,
    enqueueable: Vec<Result<(), Refusal>>,
    preemptable: Vec<Victims>,
    reclaimable: Vec<Victims>,
}

/// A tier and the victims that it allows.
type Victims = Option<TierVictims>;

fn pairs<T: Copy>(items: &[T], order: impl Fn(T, T) -> Ordering) -> Vec<Ordering> {
    items.iter().flat_map(|a| items.iter().map(|b| order(*a, *b)).collect::<Vec<_>>()).collect()
}

fn tasks(cluster: &Cluster) -> Vec<(TaskId, JobId, QueueId)> {
    let of =
        |(id, task): (TaskId, &phalanx_cluster::Task)| Some((id, task.job?, cluster.jobs[task.job?].queue));
    cluster.tasks.iter().filter_map(of).collect()
}

/// Tasks of a status.
fn of_status(cluster: &Cluster, status: Status) -> Vec<TaskId> {
    let all = tasks(cluster).into_iter().map(|(task, ..)| task);
    all.filter(|task| cluster.tasks[*task].status == status).collect()
}

fn accounts(session: &mut Session<'_>) -> Accounts {
    let waiting = of_status(session.cluster, Status::Pending);
    let spots = waiting.iter().map(|task| session.best_node(*task)).collect();
    let (session, cluster) = (&*session, &*session.cluster);
    let queues: Vec<QueueId> = cluster.queues.ids().collect();
    let tasks = tasks(cluster);
    let by = queues.first().copied();
    Accounts {
        queue_order: pairs(&queues, |a, b| session.queue_order(a, b)),
        victim_queue_order: pairs(&queues, |a, b| session.victim_queue_order(by.unwrap_or(a), a, b)),
        overused: queues.iter().map(|queue| session.overused(*queue)).collect(),
        deserved: queues
            .iter()
            .map(|queue| {
                let guards = session.tiers.every().map(Plugin::queue_guard);
                guards.map(|guard| Some(guard?.attributes(cluster, *queue)?.deserved)).collect()
            })
            .collect(),
        allocatable: tasks.iter().map(|(task, ..)| session.allocatable(*task)).collect(),
        preemptive: tasks.iter().map(|(task, ..)| session.preemptive(*task)).collect(),
        spots,
    }
}

fn plans(session: &Session<'_>) -> Plans {
    let cluster = &*session.cluster;
    let jobs: Vec<JobId> = cluster.jobs.ids().collect();
    let (waiting, running) = (of_status(cluster, Status::Pending), of_status(cluster, Status::Running));
    let victims = |by: &TaskId, kind| {
        let eviction = eviction(kind, *by);
        session.tiers.intersect(cluster, eviction, None, &running)
    };
    Plans {
        job_order: pairs(&jobs, |a, b| session.job_order(a, b)),
        task_order: jobs
            .iter()
            .flat_map(|job| pairs(&cluster.jobs[*job].tasks, |a, b| session.task_order(a, b)))
            .collect(),
        ready: jobs
            .iter()
            .map(|job| (session.job_ready(*job), session.job_pipelined(*job), session.job_starving(*job)))
            .collect(),
        enqueueable: jobs.iter().map(|job| session.job_enqueueable(*job)).collect(),
        preemptable: waiting.iter().map(|by| victims(by, EvictionKind::Preempt)).collect(),
        reclaimable: waiting.iter().map(|by| victims(by, EvictionKind::Reclaim)).collect(),
    }
}

/// No plugin decides for the whole session at its start.
fn keeps_along(conf: &Conf) -> bool {
    let plans = |name: &str| ["proportion", "task-topology"].contains(&name);
    !conf.tiers.iter().flat_map(|tier| &tier.plugins).any(|plugin| plans(&plugin.name))
}

/// Answers of a new session on the Cluster as it is.
fn afresh(cluster: &Cluster, conf: &Conf) -> (Accounts, Plans) {
    let (mut cluster, mut state) = (cluster.clone(), SchedulerState::new(1));
    let mut session = Session::open(&mut cluster, conf, &mut state, NOW);
    (accounts(&mut session), plans(&session))
}

/// A change of a statement to the task and the node that the numbers pick.
#[derive(Clone, Copy, Debug)]
enum Change {
    Allocate(usize, usize),
    Pipeline(usize, usize),
    Unplace(usize),
    Evict(usize),
    /// This many of the next changes are in a nested statement, which is committed or discarded.
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

/// Makes the changes that the statuses of the tasks allow.
fn make(statement: &mut Statement<'_, '_>, tasks: &[TaskId], nodes: &[NodeId], mut changes: &[Change]) {
    while let Some((change, rest)) = changes.split_first() {
        changes = rest;
        if let Change::Nest(count, keep) = change {
            let (inner, outer) = rest.split_at((*count).min(rest.len()));
            statement.nested(|nested| {
                make(nested, tasks, nodes, inner);
                *keep
            });
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
        allowed.contains(&statement.session().cluster.tasks[task].status).then_some(task)
    };
    // Any node, with room or without; but volumes are assumed only where the rules allow them.
    let node = |statement: &mut Statement<'_, '_>, task: Option<TaskId>, at: usize| {
        let session = statement.session();
        if session.cluster.class_of(task?).constraints.volumes.is_empty() {
            return nodes.get(at % nodes.len().max(1)).copied();
        }
        Some(session.best_node(task?)?.node)
    };
    match change {
        Change::Allocate(task, at) => {
            let task = pick(statement, task, &[Pending]);
            if let (Some(task), Some(node)) = (task, node(statement, task, at)) {
                statement.allocate(task, node);
            }
        }
        Change::Pipeline(task, at) => {
            let task = pick(statement, task, &[Pending, Allocated]);
            if let (Some(task), Some(node)) = (task, node(statement, task, at)) {
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
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(1500)))]

    #[test]
    fn a_discarded_statement_leaves_the_cluster_unchanged(
        setting in setting(), cycles in 0usize..2, first in changes(), second in changes(),
    ) {
        let mut test = setting.test();
        for _ in 0..cycles {
            test.run();
        }
        let (conf, mut state) = (&setting.conf.conf, SchedulerState::new(1));
        let tasks: Vec<TaskId> =
            test.cluster.tasks.iter().filter(|(_, task)| task.job.is_some()).map(|(id, _)| id).collect();
        let nodes: Vec<NodeId> = test.cluster.nodes.ids().collect();
        let mut session = Session::open(&mut test.cluster, conf, &mut state, NOW);
        for changes in [first, second] {
            let before = session.cluster.clone();
            let mut statement = session.statement();
            make(&mut statement, &tasks, &nodes, &changes);
            prop_assert_eq!(statement.session().cluster.check(), Vec::<String>::new());
            // Plugins with lazy caches have filled them in the middle.
            let (changed, _) = (accounts(statement.session()), plans(statement.session()));
            if keeps_along(conf) {
                prop_assert_eq!(changed, afresh(statement.session().cluster, conf).0);
            }
            drop(statement);
            prop_assert!(session.cluster.contents() == before.contents());
            let (fresh_accounts, fresh_plans) = afresh(&before, conf);
            prop_assert_eq!(accounts(&mut session), fresh_accounts);
            prop_assert_eq!(plans(&session), fresh_plans);
        }
    }
}
