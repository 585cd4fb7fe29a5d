//! Traces: jobs with the times of their arrival, read from a file, made from public traces, or drawn from a seed.
mod arrival;
mod cards;
mod fragments;
mod generate;
mod job;
mod journal;
mod openb;
mod play;
mod plays;
mod plot;
mod report;
mod samples;

mod table;
mod webpage;

pub use arrival::{Arrival, Labels, Trace};
pub use cards::OnCards;
pub use generate::{Generator, Spread, Weighted};
pub use journal::{Recorded, RecordedJobs};
pub use openb::{Openb, OpenbOptions, openb};
pub use play::{Progress, play};
pub use plays::MinMedianMax;
pub use report::{NeverStarted, Run, TraceReport};
