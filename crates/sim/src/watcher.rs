//! Who is told what happens in a run: nobody, whoever draws its progress, or a trace that is played.
use phalanx_cluster::event::{Event, Time};
use phalanx_core::decision::Decision;

use crate::api_server::ApiServer;
use crate::simulation::Simulation;

/// Is told what happens in a run.
pub(crate) trait Watcher {
    /// Whether the state in which the most was allocated is kept.
    fn wants_busiest(&self) -> bool {
        true
    }
    /// The API server sends an event. What the watcher deletes or creates is sent after it.
    fn sees(&mut self, event: &Event, api_server: &mut ApiServer, now: Time);
    /// The scheduler has decided; the cluster does not show it yet.
    fn decided(&mut self, simulation: &Simulation, decisions: &[Decision]);
    /// Nothing happens until `then`.
    fn passes(&mut self, simulation: &Simulation, then: Time);
}

/// Nobody is told.
pub(crate) struct Unwatched;

impl Watcher for Unwatched {
    fn sees(&mut self, _: &Event, _: &mut ApiServer, _: Time) {}
    fn decided(&mut self, _: &Simulation, _: &[Decision]) {}
    fn passes(&mut self, _: &Simulation, _: Time) {}
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoFar {
    /// Scheduling cycles.
    pub cycles: u32,
    /// Pods bound.
    pub bound: usize,
    /// Virtual seconds.
    pub seconds: f64,
}

impl std::fmt::Display for SoFar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cycles, bound, seconds } = self;
        write!(f, "cycle {cycles}, {bound} pods bound, {seconds:.0} s of virtual time")
    }
}

/// Tells how far a run has come.
pub(crate) struct Telling<'f>(pub(crate) &'f mut dyn FnMut(SoFar));

impl Watcher for Telling<'_> {
    fn sees(&mut self, _: &Event, _: &mut ApiServer, _: Time) {}
    fn decided(&mut self, _: &Simulation, _: &[Decision]) {}

    fn passes(&mut self, simulation: &Simulation, then: Time) {
        let (cycles, bound) = (simulation.cycles(), simulation.api_server().binds());
        (self.0)(SoFar { cycles, bound, seconds: simulation.seconds(then) });
    }
}
