//! shuffle: evicts running pods that plugins want moved, for nobody.
//!
//! The plugins of a tier name victims together; the first tier that names any decides. PodDisruptionBudgets and pods that
//! must not be evicted are respected whoever names them. Source: Volcano's shuffle action.
use std::sync::Arc;

use super::ActionDef;
use crate::conf::Flag;
use crate::id::TaskId;
use crate::session::Session;
use crate::world::{Budgets, Status};

pub(super) const DEF: ActionDef =
    ActionDef { name: "shuffle", summary: "Evicts running pods that plugins want moved.", args: &[], run };

fn run(session: &mut Session<'_>) {
    let world = &*session.world;
    let running = |id: &TaskId| {
        let task = &world.tasks[*id];
        task.status == Status::Running && task.job.is_some()
    };
    let running: Vec<TaskId> = world.tasks.ids().filter(running).collect();
    let mut victims = session.tiers.union(Flag::Victim, |plugin| plugin.victim_tasks(world, &running));
    let protected = |task: &TaskId| session.tiers.every().any(|plugin| plugin.protects(world, *task));
    let mut budgets = Budgets::new(world);
    victims.retain(|task| running_still(world, *task) && !protected(task) && budgets.take(*task));
    if victims.is_empty() {
        return;
    }
    let mut statement = session.statement();
    for task in victims {
        statement.evict(task);
    }
    statement.commit(&Arc::from("shuffle: evicted to be placed anew"));
}

fn running_still(world: &crate::world::World, task: TaskId) -> bool {
    world.tasks[task].status == Status::Running && world.tasks[task].preemptable != Some(false)
}
