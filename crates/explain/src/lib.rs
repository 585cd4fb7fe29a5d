//! Why a job waits or a pod is where it is: answers as data, made of a snapshot of the scheduler, and as text.
//!
//! The live scheduler, `phalanx explain` on manifests and `phalanx top` share it, so they say the same.
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
