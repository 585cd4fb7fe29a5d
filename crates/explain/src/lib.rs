//! Why a job waits or a pod is where it is: answers as data, made of a snapshot of the scheduler, and as text.
//!
//! The live scheduler answers `phalanx explain --scheduler` and `phalanx top` with it. `explain` on manifests has answers
//! of its own (`sim/src/explain.rs`), which try more changes and know no places in queues.
mod answer;
mod facts;
mod remedy;
mod text;
mod top;

pub use answer::{Question, Subject, is_of_job};
pub use facts::{
    Chosen, Constraint, Evicted, Explanation, Gate, HeldBy, Holders, JobFacts, Lack, Members, NodeScores,
    Place, PodFacts, PodState, QueueFacts, Reservation, Why,
};
pub use remedy::{Patience, Remedies, Remedy};
pub use text::{amounts, waited};
pub use top::{Alike, QueueRow, Top};
