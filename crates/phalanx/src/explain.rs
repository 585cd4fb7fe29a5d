//! `phalanx explain`: why a PodGroup, a pod, or what owns such, waits.
use std::path::{Path, PathBuf};

use anyhow::Result;
use phalanx_explain::{Explanation, Question, Subject};
use phalanx_runtime::api::client::SchedulerClient;
use phalanx_runtime::journal::{NoPast, Past, Reader};
use phalanx_sim::{Detail, Options, Simulation, expected_starts, stopped_clock};

use crate::exit::{BadInput, counted, tell};
use crate::flag;
use crate::inputs::{self, ClusterArgs, ConfArgs};
use crate::remote::{self, output::Form};
use crate::scheduler_api::{SchedulerArgs, VIEWER, not_live};

/// The first cycle admits Jobs, whose pods are made then; the second places them, as far as they fit; the third gives the
/// reasons of what still waits.
const CYCLES: u32 = 3;

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
    /// Say instead what was decided about a pod, a PodGroup or a Job of Volcano, when and why, by the journal of the
    /// live scheduler, or by that in a file (the full files before it are read too); the scheduler writes one with
    /// --journal-path
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["files", "scheduler_conf"])]
    journal: Option<Journal>,
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

/// Where a journal is.
#[derive(Clone, Debug)]
enum Journal {
    OfScheduler,
    File(PathBuf),
}

impl From<&str> for Journal {
    fn from(text: &str) -> Self {
        if text.is_empty() { Self::OfScheduler } else { Self::File(text.into()) }
    }
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
    // A question that cannot be asked is told before a cluster is looked for.
    args.question(DEFAULT_NAMESPACE)?;
    let answer = live(args)?.map_or_else(|| simulated(args), Ok)?;
    args.output.print(&answer, |detail| match detail {
        Detail::Short => answer.to_string(),
        Detail::Wide => answer.wide(),
    })
}

/// What the live scheduler tells, where it answers.
fn live(args: &Args) -> Result<Option<Explanation>> {
    remote::run("explain", async {
        let explain = async |client: SchedulerClient| {
            client.explain(&args.question(&args.live_namespace().await)?).await
        };
        args.scheduler.ask((&args.cluster, &args.conf), explain).await
    })
}

fn simulated(args: &Args) -> Result<Explanation> {
    let source = args.cluster.source(&args.conf)?;
    let namespace = args.namespace.as_deref().or(source.namespace()).unwrap_or(DEFAULT_NAMESPACE);
    let question = args.question(namespace)?;
    let (conf, manifests) = source.read(args.conf.file())?;
    inputs::tell_not_simulated(&conf, &manifests);
    let default_queue = args.cluster.names.default_queue.as_str().into();
    let options = Options { default_queue, ..Options::default() };
    let expected =
        manifests.has_run_times().then(|| expected_starts(conf.clone(), manifests.clone(), &options));
    let mut simulation = Simulation::new(manifests, conf, &options);
    simulation.run_cycles(CYCLES, &mut stopped_clock());
    let mut answer = simulation.explain(&question).ok_or_else(|| missing(&simulation, &question))?;
    expected.unwrap_or_default().tell(&mut answer);
    Ok(answer)
}

/// What a journal tells, a line for each decision: that in a file, or that of the live scheduler.
fn past(args: &Args, journal: &Journal) -> Result<()> {
    let (past, source) = match journal {
        Journal::OfScheduler => (live_past(args)?, "the scheduler's journal".to_owned()),
        Journal::File(_) if args.scheduler.place().is_some() => {
            let fault = "found --journal FILE beside --live or --scheduler, expected one of them";
            return Err(BadInput(fault.to_owned()).into());
        }
        Journal::File(path) => {
            let question = args.question(args.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE))?;
            let past = Past::of(Reader::new(path), &question);
            (past.map_err(|why| no_past(path, &why))?, path.display().to_string())
        }
    };
    if past.left_out > 0 {
        tell(format_args!("note: {source}: {} before these left out", counted(past.left_out, "line")));
    } else if let (false, Some([first, _])) = (past.is_whole, &past.reach) {
        tell(format_args!(
            "note: {source}: it reaches back to {first} only; what was decided before is not told"
        ));
    }
    args.output.print(&past, |_| past.to_string())
}

fn no_past(journal: &Path, why: &NoPast) -> BadInput {
    match why {
        NoPast::Kind(_) | NoPast::Unreadable(_) => BadInput(why.to_string()),
        NoPast::Nothing { .. } => BadInput(format!("{}: {why}", journal.display())),
    }
}

fn live_past(args: &Args) -> Result<Past> {
    remote::run("explain", async {
        let question = args.question(&args.live_namespace().await)?;
        let place = args.scheduler.place_or_usual()?;
        let client = args.scheduler.open(&place, &args.cluster.connection, VIEWER).await?;
        client.past(&question).await
    })
}

fn missing(simulation: &Simulation, question: &Question) -> BadInput {
    let Question { subject, namespace, name } = question;
    let elsewhere: Vec<String> = simulation.namespaces_of(question).into_iter().collect();
    let other = simulation.other_kind(question);
    let hint = match (elsewhere.as_slice(), other) {
        (_, Some(other)) => format!("; there is {other} {namespace}/{name}"),
        ([], None) => String::new(),
        ([only], None) => format!("; there is one in namespace {only} (-n {only})"),
        (several, None) => format!("; there are some in namespaces {}", several.join(", ")),
    };
    let what = match subject {
        Subject::Owner(_) => "owns no PodGroup and no pod in the input",
        Subject::PodGroup | Subject::Pod => "is not in the input",
    };
    BadInput(format!("{subject} {namespace}/{name} {what}{hint}"))
}
