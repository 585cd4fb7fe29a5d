//! The shell against an API server that is a function.
mod driver;
mod fake;
mod lease;
mod outbox;
mod reload;
