//! The states of Queues by Commands. Without one, queues are as in the manifests.
use std::collections::BTreeMap;

use phalanx_api::v1beta1::{PodGroupPhase, Queue, QueueSpec, QueueState, QueueStatus};
use phalanx_cluster::event::{self, QueueInfo};
use phalanx_controllers::queue::{Observed, reconcile};
use phalanx_controllers::{Change, Kind, Object};

use super::RECONCILIATIONS_MAX;
use super::command::Commands;
use crate::api_server::ApiServer;

/// Queues as their controller sees them, from the first Command for one on.
#[derive(Default)]
pub(crate) struct Queues(BTreeMap<String, Queue>);

impl Queues {
    /// Reconciles all queues until no state changes; returns whether one did.
    pub(crate) fn run(&mut self, commands: &mut Commands, api_server: &mut ApiServer) -> bool {
        if self.0.is_empty() {
            if !commands.any_for_queues() {
                return false;
            }
            self.0 = api_server.queues().map(|info| (info.name.to_string(), object(info))).collect();
        }
        let names: Vec<String> = self.0.keys().cloned().collect();
        let mut worked = false;
        for name in names {
            for _ in 0..RECONCILIATIONS_MAX {
                if !self.reconcile(&name, commands, api_server) {
                    break;
                }
                worked = true;
            }
        }
        worked
    }

    /// Returns whether the queue or its state has changed. Counts alone matter to nobody here.
    fn reconcile(&mut self, name: &str, commands: &mut Commands, api_server: &mut ApiServer) -> bool {
        let Some(queue) = self.0.get(name) else { return false };
        let of_queue = api_server.groups().filter(|group| *group.queue == *name);
        let groups: Vec<PodGroupPhase> =
            of_queue.map(|group| PodGroupPhase::from(group.status.phase.as_str().to_owned())).collect();
        let outcome = reconcile(&Observed {
            queue,
            parent: queue.spec.parent.as_ref().and_then(|parent| self.0.get(parent)),
            groups: &groups,
            commands: &commands.for_queue(name),
        });
        let before = state(queue);
        let mut changed = false;
        for change in outcome.changes {
            match change {
                Change::Replace(Object::Queue(queue)) => {
                    changed = true;
                    self.0.insert(name.to_owned(), *queue);
                }
                Change::Status { object: Object::Queue(queue), .. } => {
                    let now = state(&queue);
                    if now != before {
                        changed = true;
                        api_server.set_queue_state(name, info_state(now.as_ref()));
                    }
                    self.0.insert(name.to_owned(), *queue);
                }
                Change::Delete(target) if target.kind == Kind::Command => commands.delete(&target.uid),
                _ => {}
            }
        }
        changed
    }
}

fn state(queue: &Queue) -> Option<QueueState> {
    queue.status.as_ref()?.state.clone()
}

/// The object of a queue, as far as its controller reads it.
fn object(info: &QueueInfo) -> Queue {
    let parent = if info.parent.is_empty() { "root".to_owned() } else { info.parent.to_string() };
    let mut queue = Queue {
        spec: QueueSpec { parent: Some(parent), ..QueueSpec::default() },
        status: Some(QueueStatus {
            state: Some(QueueState::from(info.state.name().to_owned())),
            ..QueueStatus::default()
        }),
        ..Queue::default()
    };
    queue.metadata.name = Some(info.name.to_string());
    queue
}

fn info_state(state: Option<&QueueState>) -> event::QueueState {
    match state {
        None | Some(QueueState::Open) => event::QueueState::Open,
        Some(QueueState::Closed) => event::QueueState::Closed,
        Some(QueueState::Closing) => event::QueueState::Closing,
        Some(QueueState::Unknown | QueueState::Other(_)) => event::QueueState::Unknown,
    }
}
