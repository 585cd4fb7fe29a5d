//! The Queue controller on a tree of queues.

use std::collections::BTreeMap;

use phalanx_api::bus::Command;
use phalanx_api::v1beta1::{PodGroupPhase, Queue, QueueState};
use phalanx_controllers::queue::{Observed, reconcile};
use phalanx_controllers::{Change, Kind, Object};

/// Queues, the PodGroups in them, and Commands for them.
#[derive(Default)]
struct Tree {
    queues: BTreeMap<String, Queue>,
    groups: BTreeMap<String, Vec<PodGroupPhase>>,
    commands: Vec<(String, Command)>,
    notes: Vec<String>,
}

impl Tree {
    /// Name and parent, in pairs, and root.
    fn new(queues: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (name, parent) in queues.iter().chain(&[("root", "")]) {
            let text = format!("metadata: {{name: {name}, uid: {name}}}\nspec: {{parent: '{parent}'}}");
            tree.queues.insert((*name).to_owned(), serde_yaml::from_str(&text).unwrap());
        }
        tree.settle();
        tree
    }

    fn command(&mut self, queue: &str, action: &str) {
        let text = format!("metadata: {{name: {queue}-{action}, uid: c}}\naction: {action}");
        self.commands.push((queue.to_owned(), serde_yaml::from_str(&text).unwrap()));
        self.settle();
    }

    /// Looks at every queue, one write each time, until nothing changes.
    fn settle(&mut self) {
        for _ in 0..100 {
            let names: Vec<String> = self.queues.keys().cloned().collect();
            if !names.iter().any(|name| self.reconcile(name)) {
                return;
            }
        }
        panic!("the queues do not settle");
    }

    fn reconcile(&mut self, name: &str) -> bool {
        let queue = &self.queues[name];
        let commands: Vec<Command> =
            self.commands.iter().filter(|(of, _)| of == name).map(|(_, command)| command.clone()).collect();
        let seen = Observed {
            queue,
            parent: queue.spec.parent.as_ref().and_then(|parent| self.queues.get(parent)),
            groups: self.groups.get(name).map_or(&[], Vec::as_slice),
            commands: &commands,
        };
        let changes = reconcile(&seen).changes;
        let changed = !changes.is_empty();
        for change in changes {
            match change {
                Change::Replace(Object::Queue(queue))
                | Change::Status { object: Object::Queue(queue), .. } => {
                    if self.queues.insert(name.to_owned(), (*queue).clone()).as_ref() != Some(&*queue) {
                        return true; // The controller is killed after any write that changes something.
                    }
                }
                Change::Delete(target) => {
                    assert_eq!(target.kind, Kind::Command);
                    self.commands.retain(|(_, command)| command.metadata.name.as_ref() != Some(&target.name));
                }
                Change::Note(note) => self.notes.push(note.message),
                change => panic!("{change:?}"),
            }
        }
        changed
    }

    fn state(&self, name: &str) -> QueueState {
        self.queues[name].status.clone().unwrap().state.unwrap()
    }
}

#[test]
fn a_new_queue_is_open_and_a_child_of_root() {
    let tree = Tree::new(&[("a", "")]);
    assert_eq!(tree.state("a"), QueueState::Open);
    assert_eq!(tree.queues["a"].spec.parent.as_deref(), Some("root"));
    assert_eq!(tree.queues["root"].spec.parent, None);
}

#[test]
fn a_queue_closes_when_its_last_group_is_gone() {
    let mut tree = Tree::new(&[("a", "root")]);
    tree.groups.insert("a".to_owned(), vec![PodGroupPhase::Running]);
    tree.command("a", "CloseQueue");
    assert_eq!(tree.state("a"), QueueState::Closing);
    tree.groups.clear();
    tree.settle();
    assert_eq!(tree.state("a"), QueueState::Closed);
    tree.command("a", "OpenQueue");
    assert_eq!(tree.state("a"), QueueState::Open);
    assert!(tree.commands.is_empty() && tree.notes.is_empty(), "{:?}", tree.notes);
}

/// The state that the controller knows may be older than a write whose answer was lost.
#[test]
fn a_commanded_state_is_written_also_where_the_queue_seems_to_have_it() {
    let mut tree = Tree::new(&[("a", "root")]);
    for (action, state) in [("OpenQueue", QueueState::Open), ("CloseQueue", QueueState::Closed)] {
        tree.command("a", action);
        let command = format!("metadata: {{name: again, uid: c}}\naction: {action}");
        let commands: [Command; 1] = [serde_yaml::from_str(&command).unwrap()];
        let (queue, parent) = (&tree.queues["a"], tree.queues.get("root"));
        let changes = reconcile(&Observed { queue, parent, groups: &[], commands: &commands }).changes;
        let [Change::Status { object: Object::Queue(written), urgent: true }, Change::Delete(_)] =
            changes.as_slice()
        else {
            panic!("{action}: {changes:?}")
        };
        assert_eq!(written.status.as_ref().unwrap().state, Some(state));
    }
}

/// Queue b is a child of a, and c of b; d is another child of a that was closed before.
#[test]
fn a_tree_closes_and_opens_from_above() {
    let mut tree = Tree::new(&[("a", "root"), ("b", "a"), ("c", "b"), ("d", "a")]);
    tree.command("d", "CloseQueue");
    tree.groups.insert("c".to_owned(), vec![PodGroupPhase::Running]);
    tree.command("a", "CloseQueue");
    let states = |tree: &Tree| ["a", "b", "c", "d"].map(|name| tree.state(name).to_string());
    assert_eq!(states(&tree), ["Closed", "Closed", "Closing", "Closed"]);
    tree.command("b", "OpenQueue");
    assert_eq!(tree.state("b"), QueueState::Closed, "its parent is closed");
    assert!(tree.notes[0].contains("its parent a is closed"), "{:?}", tree.notes);
    tree.command("a", "OpenQueue");
    assert_eq!(states(&tree), ["Open", "Open", "Open", "Closed"], "d was closed by itself");
    let mark = &tree.queues["b"].metadata.annotations.as_ref().unwrap()["volcano.sh/closed-by-parent"];
    assert_eq!(mark, "false");
}

#[test]
fn a_queue_that_comes_into_a_closed_tree_closes() {
    let mut tree = Tree::new(&[("a", "root"), ("b", "root")]);
    tree.command("a", "CloseQueue");
    tree.queues.get_mut("b").unwrap().spec.parent = Some("a".to_owned());
    tree.settle();
    assert_eq!(tree.state("b"), QueueState::Closed);
}

#[test]
fn root_is_not_closed_and_other_commands_mean_nothing() {
    let mut tree = Tree::new(&[("a", "root")]);
    tree.command("root", "CloseQueue");
    tree.command("a", "AbortJob");
    assert_eq!((tree.state("root"), tree.state("a")), (QueueState::Open, QueueState::Open));
    assert_eq!(tree.notes, ["not closed: root cannot be closed", "AbortJob has no effect on a queue"]);
}

#[test]
fn groups_are_counted_by_phase_and_what_the_scheduler_wrote_stays() {
    let mut tree = Tree::new(&[("a", "root")]);
    let allocated = serde_yaml::from_str("{cpu: '4'}").unwrap();
    tree.queues.get_mut("a").unwrap().status.as_mut().unwrap().allocated = allocated;
    let phases = ["Pending", "Pending", "Inqueue", "Running", "Unknown", "Completed", "Completed"];
    tree.groups.insert("a".to_owned(), phases.map(|phase| PodGroupPhase::from(phase.to_owned())).into());
    tree.settle();
    let status = tree.queues["a"].status.clone().unwrap();
    assert_eq!(
        [status.pending, status.inqueue, status.running, status.unknown, status.completed],
        [2, 1, 1, 1, 2]
    );
    assert_eq!(status.allocated["cpu"].0, "4");
}
