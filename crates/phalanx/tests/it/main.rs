//! The binary, run as its users run it.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

mod api_server;
mod arrows;
mod bad_input;
mod capture;
mod closed_pipe;
mod command_line_page;
mod conf;
mod crds;
mod events_page;
mod examples;
mod explain;
mod flags;
mod flags_page;
mod inputs;
mod live_flows;
mod live_jobs;
mod live_queues;
mod mistakes;
mod monitoring;
mod names;
mod page;
mod pages;
mod plugins;
mod replay;
mod run;
mod scenario_index;
mod scenarios;
mod simulate;
mod stop;
mod tell_all;
mod traces;
mod volcano_jobs;
mod waiting;
mod whatif;
