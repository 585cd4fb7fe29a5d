//! End-to-end tests on a real API server.

mod chart;
mod controllers;
mod harness;
mod scheduler;
