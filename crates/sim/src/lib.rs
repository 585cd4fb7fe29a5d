//! A cluster in virtual time: manifests in, a report of the scheduler's decisions out.
//!
//! Pure: texts and a clock are handed in, reports are handed out. Between cycles an API server answers the scheduler's
//! decisions as the real one would, and kubelets start, finish and remove pods.
mod admission;
mod agenda;
mod api_server;
mod bad_input;
mod budget;
mod changes;
mod claims;
mod defaults;
mod document;
mod explain;
mod gang;
mod json;
mod kind;
mod left;
mod locate;
mod manifests;
mod mend;
mod names_check;
mod notes;
mod nowhere;
mod object;
mod object_check;
mod outcome;
mod past;
mod place;
mod placing;
mod pod_check;
mod pod_whole_check;
mod printable;
mod quota;
mod reader;
mod remedy;
pub mod replacement;
mod report;
mod schema;
mod simulation;
mod storage;
mod unasked;
mod unread;
mod volcano;
mod workload;

pub use api_server::{START_DELAY_MS, SimulatedPod};
pub use bad_input::{BadInput, Refused};
pub use budget::Budget;
pub use changes::{AddedNodes, Changes, NoSuchNode};
pub use explain::Subject;
pub use kind::kinds_of_a_copy;
pub use left::left_to_others;
pub use manifests::{ControlledObject, Manifests, Object, ReadOptions, read, read_with};
pub use remedy::Remedy;
pub use report::{Comparison, GroupEnd, Report, Sides};
pub use simulation::{Options, PERIOD_MS, Restless, Simulation, counting_clock};
pub use unasked::unasked;
