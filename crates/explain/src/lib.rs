//! Why a job waits or a pod is where it is: answers as data, made of a snapshot of the scheduler, and as text.
//!
//! The live scheduler answers `phalanx explain --scheduler` and `phalanx top` with it, the simulator `phalanx explain` on
//! manifests.
mod answer;
mod change;
mod facts;
mod text;
mod top;

pub use answer::{Question, Subject, of_other_scheduler};
pub use change::{Patience, Remedies, Remedy};
pub use facts::{
    Chosen, Constraint, Domain, Evicted, Explanation, Fragments, Gate, HeldBy, Holders, JobFacts, Lack,
    Members, NodeScores, Place, PodFacts, PodState, QueueFacts, RejectedDomain, Reservation, Why,
};
pub use text::{amounts, rounded, waited};
pub use top::{Alike, QueueRow, Top};
