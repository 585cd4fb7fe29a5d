//! Flags of Volcano that have no effect here: accepted, so that a Deployment made for Volcano starts, with a warning
//! that says why.
use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};

/// A flag and why it has no effect. The flags of klog say nothing: logging has flags of its own.
pub(crate) type Flag = (&'static str, &'static str);

const LOGGING: &str = "logs go to stderr, see --log-level and --log-format";
const TLS: &str = "metrics and health checks are plain HTTP";

/// The flags of a command that have no effect.
pub(crate) trait Table {
    /// Beside those of all commands.
    const FLAGS: &'static [Flag];
}

/// Flags of vc-scheduler.
#[derive(Debug)]
pub(crate) enum OfScheduler {}

impl Table for OfScheduler {
    const FLAGS: &'static [Flag] = &[
        ("resync-period", "watches need no resync"),
        ("resource-sync-timeout", "the first cycle waits for complete lists, however long they take"),
        ("disable-default-scheduler-config", "a scheduler.conf with errors always ends the process"),
        ("node-worker-threads", "node events need no workers"),
        ("gate-removal-worker-num", "gates are removed by the outbox, see --binds-in-flight"),
        ("plugins-dir", "Go plugins cannot be loaded"),
        ("csi-storage", "volumes are looked at in any case"),
        ("ignored-provisioners", "where a volume can be made is up to its StorageClass"),
        ("cache-dumper", "use phalanx explain"),
        ("cache-dump-dir", "use phalanx explain"),
        ("scheduler-sharding-mode", "sharding is not supported"),
        ("scheduler-sharding-name", "sharding is not supported"),
    ];
}

/// Flags of vc-controller-manager.
#[derive(Debug)]
pub(crate) enum OfControllers {}

impl Table for OfControllers {
    const FLAGS: &'static [Flag] = &[
        ("worker-threads", WORKERS),
        ("worker-threads-for-cronjob", WORKERS),
        ("worker-threads-for-podgroup", WORKERS),
        ("worker-threads-for-gc", WORKERS),
        ("worker-threads-for-queue", WORKERS),
        ("controllers", "all controllers run"),
    ];
}

const WORKERS: &str = "reconciliations need no workers";

/// Of all commands.
const COMMON: &[Flag] = &[
    ("leader-elect-resource-lock", "the lock is always a Lease"),
    ("feature-gates", "there are no feature gates"),
    ("ca-cert-file", TLS),
    ("tls-cert-file", TLS),
    ("tls-private-key-file", TLS),
    ("log-flush-frequency", LOGGING),
    ("logtostderr", LOGGING),
    ("alsologtostderr", LOGGING),
    ("stderrthreshold", LOGGING),
    ("vmodule", LOGGING),
    ("log-dir", LOGGING),
    ("log-file", LOGGING),
    ("log-file-max-size", LOGGING),
    ("log-backtrace-at", LOGGING),
    ("add-dir-header", LOGGING),
    ("skip-headers", LOGGING),
    ("skip-log-headers", LOGGING),
    ("one-output", LOGGING),
];

fn flags<T: Table>() -> impl Iterator<Item = &'static Flag> {
    T::FLAGS.iter().chain(COMMON)
}

/// The flags of the table that were given.
#[derive(Debug)]
pub(crate) struct Ignored<T>(Vec<Flag>, PhantomData<T>);

impl<T> Ignored<T> {
    /// A line for each.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        let given = self.0.iter().filter(|(_, why)| *why != LOGGING);
        given.map(|(name, why)| format!("--{name} has no effect: {why}"))
    }
}

impl<T: Table> clap::Args for Ignored<T> {
    fn augment_args(command: Command) -> Command {
        let arg = |(name, why): &Flag| {
            Arg::new(*name)
                .long(*name)
                .alias(name.replace('-', "_"))
                .num_args(0..=1)
                .default_missing_value("true")
                .action(ArgAction::Append)
                .help(format!("No effect: {why}"))
                .help_heading("Accepted for Volcano")
                .hide_short_help(true)
        };
        flags::<T>().map(arg).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Table> FromArgMatches for Ignored<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = flags::<T>().filter(|(name, _)| matches.contains_id(name)).copied().collect();
        Ok(Self(given, PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
