//! Logs: to stderr, as text or as JSON.
use anyhow::Result;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::exit::{self, BadInput};
use crate::flag;

/// The flags.
#[derive(Debug, clap::Args)]
pub(crate) struct Logging {
    /// error, warn, info, debug, trace, or a filter such as info,phalanx_runtime=debug
    #[arg(long, env = "RUST_LOG", value_name = "LEVEL")]
    log_level: Option<String>,
    /// text or json
    #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = ["text", "json"])]
    log_format: String,
    /// Verbosity as klog counts it: 0 to 3 is info, 4 and 5 debug, 6 and more trace
    #[arg(short = 'v', long = "v", default_value_t = 0, value_name = "N", allow_negative_numbers = true, value_parser = flag::whole::<u8>(0..=u8::MAX))]
    verbosity: u8,
}

/// A misspelt level, which the filter would take for the name of a module.
fn no_level(level: &str) -> Option<&str> {
    let known = |word: &&str| word.contains('=') || word.parse::<LevelFilter>().is_ok();
    level.split(',').map(str::trim).find(|word| !known(word))
}

impl Logging {
    /// Starts logging. Messages of the client library about repeated requests are left out: `runtime` logs faults
    /// itself.
    pub(crate) fn init(&self) -> Result<()> {
        let level = match (&self.log_level, self.verbosity) {
            (Some(level), _) => level.as_str(),
            (None, 0..=3) => "info",
            (None, 4..=5) => "info,phalanx=debug,phalanx_runtime=debug",
            (None, _) => "info,phalanx=trace,phalanx_runtime=trace",
        };
        if let Some(word) = no_level(level) {
            let what = "error, warn, info, debug, trace, off or MODULE=LEVEL";
            return Err(
                BadInput(format!("--log-level {level:?}: {word:?} is no level; expected {what}")).into()
            );
        }
        let bad = |error| BadInput(format!("--log-level {level:?}: {error}"));
        let quiet = format!("kube_client=off,kube_runtime=off,tower=off,{level}");
        let filter = EnvFilter::builder().parse(quiet).map_err(bad)?;
        let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        if self.log_format == "json" {
            logs.json().flatten_event(true).init();
        } else {
            logs.with_ansi(exit::is_coloured(&std::io::stderr())).init();
        }
        Ok(())
    }
}
