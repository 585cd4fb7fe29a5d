//! The shell against an API server that is a function.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

mod api;
mod bootstrap;
mod claims;
mod controllers;
mod controllers_turns;
mod driver;
mod engine;
mod extender;
mod fake;
mod fence;
mod hyper_nodes;
mod journal;
mod lease;
mod loopback;
mod others;
mod outbox;
mod outbox_events;
mod outbox_gone;
mod outbox_refused;
mod outbox_unknown;
mod outbox_wakes;
mod owners;
mod podgroups;
mod pools;
mod reload;
mod usage;
mod volumes;
mod watch;
mod writes;
