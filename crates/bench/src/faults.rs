//! Schedulers in a simulated world that fails: `phalanx-bench faults --runs N --seed S`.
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use phalanx_faults::planted::Planted;
use phalanx_faults::shrink::shrink;
use phalanx_faults::story::Story;
use phalanx_faults::world;
use serde::Serialize;
use serde_json::Value;

/// So many runs are given to a thread at once.
const TOGETHER: u64 = 64;

/// Violations that are printed at most.
const PRINTED: usize = 20;

#[derive(Args)]
pub(crate) struct Options {
    /// Runs, each from a seed of its own; 1000, and 10000 at most for each bug with --planted.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plant each bug in turn, and look for the first run that finds it.
    #[arg(long, conflicts_with_all = ["tell", "shrink"])]
    planted: bool,
    /// Plant this bug only, such as BindLost.
    #[arg(long, value_parser = bugs())]
    bug: Option<Planted>,
    /// Print the story of the first violation, line by line; that of a single run also without a violation.
    #[arg(long)]
    tell: bool,
    /// Make that story as short as it gets first.
    #[arg(long)]
    shrink: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    name: &'static str,
    runs: u64,
    events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    fewest_events: Option<u64>,
    /// Those in which pods were evicted.
    runs_with_evictions: u64,
    /// Those that no planted bug explains.
    violations: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    planted: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<usize>,
    runs_per_second: f64,
    seconds: f64,
}

/// What came of many runs.
#[derive(Default)]
struct Sum {
    runs: u64,
    events: u64,
    fewest: Option<u64>,
    evicting: u64,
    violations: Vec<(u64, String)>,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.events += other.events;
        self.evicting += other.evicting;
        self.fewest = self.fewest.into_iter().chain(other.fewest).min();
        self.violations.extend(other.violations);
        self.violations.sort();
    }
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let started = Instant::now();
    let runs = options.runs.unwrap_or(if options.planted { 10_000 } else { 1_000 });
    let seeds = options.seed..options.seed.saturating_add(runs);
    if options.planted {
        return plant(options, &seeds, started);
    }
    let bug = options.bug;
    let sum = play(&seeds, bug, false)?;
    for (seed, violation) in sum.violations.iter().take(PRINTED) {
        say!("seed {seed}: {violation}");
    }
    if sum.violations.len() > PRINTED {
        say!("and {} more", sum.violations.len() - PRINTED);
    }
    let found = sum.violations.first().map(|(seed, _)| *seed);
    let told = found.or_else(|| (runs == 1 && !options.shrink).then_some(options.seed));
    if let Some(seed) = told.filter(|_| options.tell || options.shrink) {
        tell(seed, bug, options.shrink)?;
    }
    figures(&sum, None, started)
}

/// Plays all seeds on all processors; until the first violation on request.
fn play(seeds: &Range<u64>, bug: Option<Planted>, until_found: bool) -> Result<Sum> {
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Result<Sum> {
        let mut sum = Sum::default();
        loop {
            let first = next.fetch_add(TOGETHER, Ordering::Relaxed);
            for seed in (first..first.saturating_add(TOGETHER)).take_while(|seed| *seed < seeds.end) {
                one(seed, bug, &mut sum)?;
                if until_found && !sum.violations.is_empty() {
                    break;
                }
            }
            if first >= seeds.end || (until_found && !sum.violations.is_empty()) {
                next.store(seeds.end, Ordering::Relaxed);
                return Ok(sum);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = Sum::default();
        for thread in threads {
            all.add(thread.join().map_err(|_| anyhow::anyhow!("a run panicked"))??);
        }
        Ok(all)
    })
}

/// A run that panics breaks a promise too.
fn one(seed: u64, bug: Option<Planted>, sum: &mut Sum) -> Result<()> {
    sum.runs += 1;
    let run = || world::run(&Story::new(seed), world::Options { bug, tell: false });
    let Ok(outcome) = std::panic::catch_unwind(run) else {
        sum.violations.push((seed, "the run panicked, see above".to_owned()));
        return Ok(());
    };
    let outcome = outcome.with_context(|| format!("seed {seed}"))?;
    sum.events += outcome.events;
    sum.evicting += u64::from(outcome.evictions > 0);
    sum.fewest = sum.fewest.into_iter().chain([outcome.events]).min();
    sum.violations.extend(outcome.violation.map(|violation| (seed, violation.to_string())));
    Ok(())
}

/// Plants each bug, and counts how many are found.
fn plant(options: &Options, seeds: &Range<u64>, started: Instant) -> Result<Value> {
    let (mut all, mut found) = (Sum::default(), 0);
    let chosen: Vec<Planted> =
        Planted::ALL.iter().copied().filter(|bug| options.bug.is_none_or(|wanted| wanted == *bug)).collect();
    for bug in chosen.iter().copied() {
        let sum = play(seeds, Some(bug), true)?;
        match sum.violations.first() {
            Some((seed, violation)) => {
                found += 1;
                say!("{}: seed {seed}: {violation}", bug.name());
            }
            None => say!("{}: not found in {} runs", bug.name(), sum.runs),
        }
        all.add(Sum { violations: Vec::new(), ..sum });
    }
    figures(&all, Some((chosen.len(), found)), started)
}

fn tell(seed: u64, bug: Option<Planted>, shorter: bool) -> Result<()> {
    let options = world::Options { bug, tell: true };
    let story = Story::new(seed);
    let story = if shorter { shrink(story, options)? } else { story };
    let outcome = world::run(&story, options)?;
    if let Some(bug) = bug {
        say!("planted bug {}: {}", bug.name(), bug.about());
    }
    say!("{story}");
    for line in &outcome.told {
        say!("{line}");
    }
    if let Some(violation) = outcome.violation {
        say!("VIOLATION: {violation}");
    }
    Ok(())
}

/// Fails where a promise was broken, or a planted bug was not found.
pub(crate) fn check(options: &Options, figures: &Value) -> Result<()> {
    if options.planted {
        ensure!(figures["found"] == figures["planted"], "not all planted bugs were found, see above");
    } else if let Some(bug) = options.bug {
        ensure!(figures["violations"] != 0, "the planted bug {} was not found", bug.name());
    } else {
        ensure!(figures["violations"] == 0, "violations: {}, see above", figures["violations"]);
    }
    Ok(())
}

fn bugs() -> impl TypedValueParser<Value = Planted> {
    let value = |bug: &Planted| PossibleValue::new(bug.name()).help(bug.about());
    let find = |name: String| Planted::ALL.iter().copied().find(|bug| bug.name() == name);
    PossibleValuesParser::new(Planted::ALL.iter().map(value)).try_map(move |name| find(name).ok_or("unknown"))
}

/// Of planted bugs: how many, and how many were found.
fn figures(sum: &Sum, planted: Option<(usize, usize)>, started: Instant) -> Result<Value> {
    let seconds = started.elapsed().as_secs_f64();
    let figures = Figures {
        name: "faults",
        runs: sum.runs,
        events: sum.events,
        fewest_events: sum.fewest,
        runs_with_evictions: sum.evicting,
        violations: sum.violations.len() as u64,
        planted: planted.map(|(all, _)| all),
        found: planted.map(|(_, found)| found),
        runs_per_second: sum.runs as f64 / seconds,
        seconds,
    };
    Ok(serde_json::to_value(figures)?)
}
