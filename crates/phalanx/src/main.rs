//! The one binary: flags and wiring.

fn main() {}
