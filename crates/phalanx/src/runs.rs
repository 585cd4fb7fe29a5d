//! Runs of a simulation.
use std::time::Instant;

use anyhow::Result;
use phalanx_framework::conf::Conf;
use phalanx_sim::{Manifests, Options, Report, Simulation};

/// The report of a run: so many cycles with no kubelet acting, or until nothing changes.
pub(crate) fn report(
    conf: Conf,
    manifests: Manifests,
    options: &Options,
    cycles: Option<u32>,
) -> Result<Report> {
    let mut simulation = Simulation::new(manifests, conf, options);
    let start = Instant::now();
    let mut clock = || start.elapsed().as_secs_f64();
    match cycles {
        Some(cycles) => simulation.run_cycles(cycles, &mut clock),
        None => simulation.run_to_rest(&mut clock)?,
    }
    Ok(simulation.report())
}
