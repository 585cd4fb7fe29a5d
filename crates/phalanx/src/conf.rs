//! `phalanx conf`: checks, compares and prints scheduler.conf files.
use std::path::{Path, PathBuf};

use anyhow::Result;
use phalanx_conf::{Known, Parsed, Problem, Severity};
use phalanx_framework::conf::{Conf, Position};
use phalanx_sim::{Comparison, Detail, Options};
use serde::Serialize;

use crate::exit::{BadInput, Differ, counted, print};
use crate::inputs::{self, ClusterArgs};
use crate::remote::output::Form;
use crate::runs;

/// Commands of `conf`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print every problem of a file, one a line; exit with 2 when it would not take effect
    Check {
        /// The file, or - for standard input
        file: PathBuf,
        /// Warnings count as errors, and so does what is not supported
        #[arg(long)]
        strict: bool,
        /// How to show the problems
        #[arg(short, long, value_enum, default_value_t = Form::Text)]
        output: Form,
    },
    /// Print what differs in meaning between two files, one difference a line; with -f or --live, also what they do.
    /// Exits with 0 whether they differ or not, unless --exit-code is given
    Diff(Box<Diff>),
    /// Print what a file means, without what is a default anyway; without a file, the built-in default
    Show {
        /// The file, or - for standard input
        file: Option<PathBuf>,
        /// Fill in every default: all flags that have an effect, and as comments the arguments that are not set
        #[arg(long)]
        all: bool,
    },
    /// Print the reference page of all actions, plugins, arguments and flags
    Reference,
}

/// Flags of `diff`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("files", |flag| flag.help("Say what both files do with this cluster: manifests in a file, a folder, or - for standard input; may be given several times")))]
pub(crate) struct Diff {
    /// The first file
    old: PathBuf,
    /// The second file
    new: PathBuf,
    /// Say what both files do with a copy of the live cluster
    #[arg(long, conflicts_with = "files")]
    live: bool,
    /// Exit with 1 when they differ in meaning; with -f or --live, when they do something else with the cluster
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How to show what differs
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

/// What differs, as `-o json` prints it.
#[derive(Debug, Serialize)]
struct Differences {
    /// In meaning, one a line.
    conf: Vec<String>,
    /// In what they do with the cluster, where one is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Comparison>,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Check { file, strict, output } => check(file, *strict, *output),
        Command::Diff(args) => diff(args),
        Command::Show { file, all } => {
            let conf = inputs::conf(file.as_deref())?;
            print(&if *all {
                phalanx_conf::render_with_defaults(&conf, &Known::builtin())
            } else {
                phalanx_conf::render(&conf)
            })
        }
        Command::Reference => print(&phalanx_conf::reference()),
    }
}

fn diff(args: &Diff) -> Result<()> {
    let (old, new) = (inputs::conf(Some(&args.old))?, inputs::conf(Some(&args.new))?);
    let conf = phalanx_conf::diff(&old, &new, &Known::builtin());
    let cluster = if args.live || args.cluster.has_files() { Some(run_both(args, old, new)?) } else { None };
    let differ = cluster.as_ref().map_or(!conf.is_empty(), |compared| !compared.is_empty());
    let differences = Differences { conf, cluster };
    args.output.print(&differences, |detail| differences.text(args, detail))?;
    if differ && args.exit_code { Err(Differ.into()) } else { Ok(()) }
}

fn run_both(args: &Diff, old: Conf, new: Conf) -> Result<Comparison> {
    let manifests = args.cluster.objects()?.manifests()?;
    let default_queue = args.cluster.names.default_queue.as_str().into();
    let options = Options { default_queue, ..Options::default() };
    runs::compare([(old, manifests.clone()), (new, manifests)], &options, None)
}

impl Differences {
    fn text(&self, args: &Diff, detail: Detail) -> String {
        let mut lines = self.conf.clone();
        if lines.is_empty() {
            lines.push("No difference in meaning".to_owned());
        }
        let cluster = self.cluster.as_ref().map(|cluster| {
            let [old, new] = [&args.old, &args.new].map(|file| inputs::shown(file));
            format!("\n{}", cluster.to_table([&old, &new], detail))
        });
        format!("{}\n{}", lines.join("\n"), cluster.unwrap_or_default())
    }
}

/// What `conf check -o json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    /// Whether the file would take effect.
    takes_effect: bool,
    /// Its problems, by position.
    findings: Vec<Finding>,
}

/// A problem of a file.
#[derive(Debug, Serialize)]
struct Finding {
    file: String,
    line: u32,
    column: u32,
    severity: &'static str,
    message: String,
}

impl Finding {
    fn of(file: &str, problem: &Problem) -> Self {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Unsupported => "unsupported",
        };
        let Position { line, column } = problem.at;
        Self { file: file.to_owned(), line, column, severity, message: problem.message() }
    }
}

fn check(file: &Path, strict: bool, output: Form) -> Result<()> {
    let name = inputs::shown(file);
    let parsed = phalanx_conf::parse(&inputs::text(file)?, &Known::builtin());
    let Parsed { conf, problems } = if strict { parsed.strict() } else { parsed };
    let findings = problems.iter().map(|problem| Finding::of(&name, problem)).collect();
    output.print(&Checked { takes_effect: conf.is_some(), findings }, |_| {
        let line = |problem: &Problem| format!("{}: {}\n", problem.severity, problem.in_file(&name));
        let summary = conf.as_ref().map(|conf| format!("{name}: {}\n", summary(conf, &problems)));
        problems.iter().map(line).chain(summary).collect()
    })?;
    if conf.is_some() {
        return Ok(());
    }
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    let found = [counted(errors, "error")].into_iter().chain(harmless(&problems));
    Err(BadInput(format!("{name}: {}", found.collect::<Vec<_>>().join(", "))).into())
}

fn summary(conf: &Conf, problems: &[Problem]) -> String {
    let plugins = conf.tiers.iter().map(|tier| tier.plugins.len()).sum();
    let counts = [(conf.actions.len(), "action"), (conf.tiers.len(), "tier"), (plugins, "plugin")];
    let mut parts: Vec<String> = counts.map(|(count, what)| counted(count, what)).into();
    parts.extend((!conf.profiles.is_empty()).then(|| counted(conf.profiles.len(), "profile")));
    parts.extend(harmless(problems));
    if problems.is_empty() {
        parts.push("no problems".to_owned());
    }
    parts.join(", ")
}

/// The numbers of warnings and of settings that are not supported.
fn harmless(problems: &[Problem]) -> impl Iterator<Item = String> {
    let of = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let warnings = Some(of(Severity::Warning)).filter(|count| *count > 0);
    let unsupported = Some(of(Severity::Unsupported)).filter(|count| *count > 0);
    let warnings = warnings.map(|count| counted(count, "warning"));
    warnings.into_iter().chain(unsupported.map(|count| format!("{count} not supported")))
}
