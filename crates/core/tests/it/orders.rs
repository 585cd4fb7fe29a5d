//! The orders of jobs, queues and tasks are total, whatever plugins decide them.
use std::cmp::Ordering;

use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_core::SchedulerState;
use phalanx_core::session::Session;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_testkit::settings::setting;

/// The order of one plugin is a weak order: what it finds equal compares alike with any third.
fn weakly<T: Copy + std::fmt::Debug>(items: &[T], order: impl Fn(T, T) -> Ordering) -> TestCaseResult {
    for a in items {
        prop_assert_eq!(order(*a, *a), Ordering::Equal, "{:?} and itself", a);
        for b in items {
            prop_assert_eq!(order(*a, *b), order(*b, *a).reverse(), "{:?} and {:?}", a, b);
            for c in items {
                let chain = order(*a, *b).is_le() && order(*b, *c).is_le();
                prop_assert!(!chain || order(*a, *c).is_le(), "{:?}, {:?}, {:?}", a, b, c);
            }
        }
    }
    Ok(())
}

/// The orders of each plugin by itself, whatever its flags.
fn of_plugins(session: &Session<'_>) -> TestCaseResult {
    let cluster = &*session.cluster;
    let jobs: Vec<JobId> = cluster.jobs.ids().collect();
    let queues: Vec<QueueId> = cluster.queues.ids().collect();
    for plugin in session.tiers.every() {
        weakly(&jobs, |a, b| plugin.job_order(cluster, a, b))?;
        weakly(&queues, |a, b| plugin.queue_order(cluster, a, b))?;
        for by in &queues {
            weakly(&queues, |a, b| plugin.victim_queue_order(cluster, *by, a, b))?;
        }
        for (_, job) in cluster.jobs.iter() {
            weakly(&job.tasks, |a, b| plugin.task_order(cluster, a, b))?;
        }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(1500)))]

    #[test]
    fn the_orders_of_jobs_queues_and_tasks_are_total(setting in setting(), cycles in 0usize..2) {
        let mut test = setting.test();
        for _ in 0..cycles {
            test.run();
        }
        let mut state = SchedulerState::new(1);
        let session = Session::open(&mut test.cluster, &setting.conf.conf, &mut state, Time(1500));
        of_plugins(&session)?;
        let jobs: Vec<JobId> = session.cluster.jobs.ids().collect();
        let queues: Vec<QueueId> = session.cluster.queues.ids().collect();
        compare_all(&jobs, |a, b| session.job_order(a, b))?;
        compare_all(&queues, |a, b| session.queue_order(a, b))?;
        for by in &queues {
            compare_all(&queues, |a, b| session.victim_queue_order(*by, a, b))?;
        }
        for job in jobs {
            compare_all(&session.cluster.jobs[job].tasks, |a, b| session.task_order(a, b))?;
        }
    }
}
