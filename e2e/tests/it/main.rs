//! End-to-end tests on a real API server.

mod controllers;
mod harness;
mod scheduler;
