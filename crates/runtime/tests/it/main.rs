//! The shell against an API server that is a function.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

mod claims;
mod driver;
mod extender;
mod fake;
mod lease;
mod loopback;
mod outbox;
mod outbox_refused;
mod outbox_wakes;
mod reload;
mod usage;
mod volumes;
mod watch;
