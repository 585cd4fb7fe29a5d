//! `phalanx explain`: why a PodGroup, a pod, or what owns such, waits.
use std::path::{Path, PathBuf};

use anyhow::Result;
use phalanx_cluster::event::Key;
use phalanx_explain::{Explanation, Question, Subject};
use phalanx_runtime::api::client::Place;
use phalanx_runtime::journal::{self, Happened, Line, Reader, history};
use phalanx_sim::{Detail, Options, Simulation, counting_clock, expected_starts};

use crate::exit::{BadInput, counted, print, tell};
use crate::flag;
use crate::inputs::{self, ClusterArgs, ConfArgs};
use crate::remote::{self, output::Form};
use crate::scheduler_api::{SchedulerArgs, VIEWER, not_live};

/// The first cycle places all that fits; the second gives the reasons of what still waits.
const CYCLES: u32 = 2;

/// The namespace where nothing names another one.
const DEFAULT_NAMESPACE: &str = "default";

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
#[command(mut_args(not_live))]
pub(crate) struct Args {
    /// The kind of the object: podgroup, pod, job, or that of any object that owns PodGroups or pods, such as
    /// deployment or pytorchjob; or KIND/NAME
    #[arg(value_parser = kind)]
    kind: String,
    /// Its name
    #[arg(value_parser = flag::name())]
    name: Option<String>,
    /// Its namespace; without it, that of the context for a live cluster, and default for files
    #[arg(short, long, value_parser = flag::namespace())]
    namespace: Option<String>,
    /// Say instead what was decided about a pod, a PodGroup or a Job of Volcano, when and why, by the journal of a
    /// scheduler (--journal-path); the full files before it are read too
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "scheduler_conf", "scheduler", "live"])]
    journal: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    conf: ConfArgs,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// How to show the answer
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

/// A kind, or a kind and a name.
fn kind(text: &str) -> Result<String, String> {
    let (kind, name) = text.split_once('/').map_or((text, None), |(kind, name)| (kind, Some(name)));
    let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
    let good = !kind.is_empty() && kind.chars().all(letters) && name.is_none_or(phalanx_cache::is_name);
    good.then(|| text.to_owned()).ok_or_else(|| "expected a kind such as podgroup, or KIND/NAME".to_owned())
}

impl Args {
    fn question(&self, namespace: &str) -> Result<Question, BadInput> {
        let (kind, name) = match (self.kind.split_once('/'), &self.name) {
            (None, Some(name)) => (self.kind.as_str(), name.as_str()),
            (Some((kind, name)), None) => (kind, name),
            (None, None) => {
                return Err(BadInput(format!("found kind {} without a name, expected KIND NAME", self.kind)));
            }
            (Some(_), Some(name)) => {
                return Err(BadInput(format!("found {} and {name}, expected one object", self.kind)));
            }
        };
        let subject = Subject::named(kind);
        Ok(Question { subject, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The namespace that is given, or else that of the kubeconfig's context.
    async fn live_namespace(&self) -> String {
        if let Some(given) = &self.namespace {
            return given.clone();
        }
        let remote = self.cluster.connection.open().await;
        remote.map_or_else(|_| DEFAULT_NAMESPACE.to_owned(), |remote| remote.namespace(None).to_owned())
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(journal) = &args.journal {
        return past(args, journal);
    }
    let answer = match args.scheduler.place() {
        Some(place) => live(args, &place)?,
        None => simulated(args)?,
    };
    args.output.print(&answer, |detail| match detail {
        Detail::Short => answer.to_string(),
        Detail::Wide => answer.wide(),
    })
}

/// What the live scheduler tells.
fn live(args: &Args, place: &Place) -> Result<Explanation> {
    remote::run("explain", async {
        let question = args.question(&args.live_namespace().await)?;
        let client = args.scheduler.open(place, &args.cluster.connection, VIEWER).await?;
        client.explain(&question).await
    })
}

fn simulated(args: &Args) -> Result<Explanation> {
    // A question that cannot be asked is told before a cluster is looked for.
    args.question(DEFAULT_NAMESPACE)?;
    let source = args.cluster.source(&args.conf)?;
    let namespace = args.namespace.as_deref().or(source.namespace()).unwrap_or(DEFAULT_NAMESPACE);
    let question = args.question(namespace)?;
    let (conf, manifests) = source.read(args.conf.file())?;
    inputs::tell_unasked(&conf, &manifests);
    let default_queue = args.cluster.names.default_queue.as_str().into();
    let options = Options { default_queue, ..Options::default() };
    let expected =
        manifests.has_run_times().then(|| expected_starts(conf.clone(), manifests.clone(), &options));
    let mut simulation = Simulation::new(manifests, conf, &options);
    simulation.run_cycles(CYCLES, &mut counting_clock());
    let is_copy = !args.cluster.has_files();
    let mut answer = simulation.explain(&question).ok_or_else(|| missing(&simulation, &question, is_copy))?;
    expected.unwrap_or_default().tell(&mut answer);
    Ok(answer)
}

/// What a journal tells, a line for each decision.
fn past(args: &Args, journal: &Path) -> Result<()> {
    let question = args.question(args.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE))?;
    let Question { subject, namespace, name } = &question;
    let key = Key::new(namespace, name);
    let (kind, subject) = match subject {
        Subject::Pod => ("pod", journal::Subject::Pod(key.clone())),
        Subject::PodGroup => ("PodGroup", journal::Subject::PodGroup(key.clone())),
        Subject::Owner(kind) if kind == "Job" => ("Job", journal::Subject::Job(key.clone())),
        Subject::Owner(kind) => {
            let fault =
                "--journal tells of pods, PodGroups and Jobs of Volcano, expected pod, podgroup or job";
            return Err(BadInput(format!("{fault} in place of {kind}")).into());
        }
    };
    let (mut told, mut times, mut found) = (Vec::new(), Vec::new(), false);
    let mut begins_with_start = None;
    for line in Reader::new(journal) {
        let line = line.map_err(|error| BadInput(error.to_string()))?;
        begins_with_start.get_or_insert(matches!(line, Line::Start(_)));
        if let Line::Cycle(cycle) = &line {
            times.truncate(1);
            times.push(cycle.time.clone());
        }
        if let Line::Dropped(lines) = &line {
            told.push(format!("{} missing here\n", counted(*lines as usize, "journal line")));
        }
        for Happened { time, cycle, what } in history(&line, &subject) {
            told.push(format!("{time}  {what} (cycle {cycle})\n"));
            found = true;
        }
    }
    if !found {
        let when = match times.as_slice() {
            [] => "it has no cycle".to_owned(),
            [only] => format!("it has one cycle, of {only}"),
            [first, last, ..] => format!("it reaches from {first} to {last}"),
        };
        let path = journal.display();
        return Err(BadInput(format!("{path}: nothing was decided about {kind} {key}; {when}")).into());
    }
    if let (Some(false), Some(first)) = (begins_with_start, times.first()) {
        let path = journal.display();
        tell(format_args!(
            "note: {path}: it reaches back to {first} only; what was decided before is not told"
        ));
    }
    print(&told.concat())
}

fn missing(simulation: &Simulation, question: &Question, is_copy: bool) -> BadInput {
    let Question { subject, namespace, name } = question;
    let elsewhere: Vec<String> = simulation.namespaces_of(question).into_iter().collect();
    let hint = match elsewhere.as_slice() {
        [] => String::new(),
        [only] => format!("; there is one in namespace {only} (-n {only})"),
        several => format!("; there are some in namespaces {}", several.join(", ")),
    };
    let what = match subject {
        Subject::Owner(_) => "owns no PodGroup and no pod in the input",
        Subject::PodGroup | Subject::Pod => "is not in the input",
    };
    let live = if is_copy { "; --live, or --scheduler URL, asks the scheduler itself" } else { "" };
    BadInput(format!("{subject} {namespace}/{name} {what}{hint}{live}"))
}
