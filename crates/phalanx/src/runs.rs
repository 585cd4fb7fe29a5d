//! Runs of a simulation.
use std::time::Instant;

use anyhow::Result;
use phalanx_framework::conf::Conf;
use phalanx_sim::{Comparison, Manifests, Options, Report, Simulation, at_once};

use crate::bar::Bar;
use crate::flag;

/// How a simulation runs.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Run this many cycles with no kubelet acting, instead of running until nothing changes
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = flag::whole::<u32>(1..=100_000))]
    pub(crate) cycles: Option<u32>,
    /// Decides among nodes of equal score; the same seed gives the same result
    #[arg(long, value_name = "S", default_value_t = 0, allow_negative_numbers = true, value_parser = flag::whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: u64,
}

/// How two runs differ, each of so many cycles with no kubelet acting, or until nothing changes.
pub(crate) fn compare(
    [before, after]: [(Conf, Manifests); 2],
    options: &Options,
    cycles: Option<u32>,
) -> Result<Comparison> {
    let side = |(conf, manifests)| Ok(run(conf, manifests, options, cycles)?.report());
    let (before, after): (Result<Report>, Result<Report>) = at_once(|| side(before), || side(after));
    Ok(Comparison::of(&before?, &after?))
}

/// A run: so many cycles with no kubelet acting, or until nothing changes.
pub(crate) fn run(
    conf: Conf,
    manifests: Manifests,
    options: &Options,
    cycles: Option<u32>,
) -> Result<Simulation> {
    let mut simulation = Simulation::new(manifests, conf, options);
    let start = Instant::now();
    let mut clock = || start.elapsed().as_secs_f64();
    if let Some(cycles) = cycles {
        simulation.run_cycles(cycles, &mut clock);
    } else {
        let mut bar = Bar::new();
        simulation.run_to_rest_telling(&mut clock, &mut |so_far| bar.show(|| so_far.to_string()))?;
    }
    Ok(simulation)
}
