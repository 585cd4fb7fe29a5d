//! Commands: given at their time, and deleted by the controller that carries them out.
use phalanx_api::bus::Command;
use phalanx_api::names::AFTER_SECONDS;
use phalanx_cache::Invalid;
use phalanx_cluster::event::Time;
use phalanx_controllers::Kind;
use phalanx_controllers::command::target;

use super::meta_time;
use crate::object;

/// Commands by the time at which they are given. UIDs of the simulation are its own, so the name of an object counts.
pub(crate) struct Commands {
    begin: Time,
    waiting: Vec<(Time, Command)>,
    given: Vec<Command>,
    /// The number of all so far, for their UIDs.
    count: usize,
}

/// The time from the begin of the simulation until a Command is given, in milliseconds.
pub(super) fn delay_ms(command: &Command) -> Result<i64, Invalid> {
    let text = command.metadata.annotations.as_ref().and_then(|all| all.get(AFTER_SECONDS));
    Ok(text.map(|text| object::millis(AFTER_SECONDS, text)).transpose()?.unwrap_or(0))
}

impl Commands {
    pub(crate) fn new(begin: Time) -> Self {
        Self { begin, waiting: Vec::new(), given: Vec::new(), count: 0 }
    }

    pub(crate) fn add(&mut self, mut command: Command) {
        self.count += 1;
        command.metadata.uid = Some(format!("command-{}", self.count));
        let at = Time(self.begin.0.saturating_add(delay_ms(&command).unwrap_or(0)));
        self.waiting.push((at, command));
    }

    /// When the next one is given.
    pub(crate) fn next(&self) -> Option<Time> {
        self.waiting.iter().map(|(at, _)| *at).min()
    }

    /// Gives what is due.
    pub(crate) fn give(&mut self, now: Time) {
        let (mut due, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now);
        due.sort_by_key(|(at, _)| *at);
        self.waiting = waiting;
        self.given.extend(due.into_iter().map(|(at, mut command)| {
            command.metadata.creation_timestamp = Some(meta_time(at));
            command
        }));
    }

    /// Those for a Job, in the order in which they were given.
    pub(crate) fn for_job(&self, namespace: &str, name: &str) -> Vec<Command> {
        let here = |command: &&Command| command.metadata.namespace.as_deref() == Some(namespace);
        self.given
            .iter()
            .filter(here)
            .filter(|command| target(command) == Some((Kind::Job, name)))
            .cloned()
            .collect()
    }

    /// Those for a Queue, of any namespace.
    pub(crate) fn for_queue(&self, name: &str) -> Vec<Command> {
        self.given.iter().filter(|command| target(command) == Some((Kind::Queue, name))).cloned().collect()
    }

    /// Whether a Command for a Queue was given that is not carried out yet.
    pub(crate) fn any_for_queues(&self) -> bool {
        self.given.iter().any(|command| target(command).is_some_and(|(kind, _)| kind == Kind::Queue))
    }

    pub(crate) fn delete(&mut self, uid: &str) {
        self.given.retain(|command| command.metadata.uid.as_deref() != Some(uid));
    }
}
