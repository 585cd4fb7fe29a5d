//! Why a job waits or a pod is where it is: answers as data, made of a snapshot of the scheduler, and as text.
//!
//! The live scheduler answers `phalanx explain --scheduler` and `phalanx top` with it, the simulator `phalanx explain`
//! on manifests.
mod answer;
mod change;
mod facts;
mod owners;
mod question;
mod text;
mod top;
mod topology_faults;

pub use answer::of_other_scheduler;
pub use change::{Change, ConfAddition, Patience, Remedies, Remedy};
pub use facts::{
    Chosen, Constraint, Domain, Evicted, Explanation, Fragments, Gate, HeldBy, Holders, JobFacts, Lack,
    Members, NodeScores, OwnerFacts, Place, PlacedSubGroup, PodFacts, PodState, QueueFacts, RejectedDomain,
    Reservation, Why,
};
pub use question::{Question, Subject};
pub use text::{amounts, rounded, waited};
pub use top::{Alike, QueueRow, Top};
