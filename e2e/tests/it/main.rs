//! End-to-end tests on a real API server.

mod harness;
mod scheduler;
