//! Files and folders to texts and manifests.
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use phalanx_conf::{Known, Parsed, Severity};
use phalanx_framework::conf::Conf;
use phalanx_sim::Manifests;
use phalanx_sim::trace::Trace;

use crate::bar::Bar;
use crate::capture;
use crate::deployed;
use crate::exit::{BadInput, all_of, plain, tell};
use crate::flag;
use crate::remote::{self, Connection, Remote};

/// Endings of the files that are read from a folder.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The name of a copy of the live cluster in messages.
const LIVE: &str = "<cluster>";

/// Bytes of a file that are read at once.
const BUFFER: usize = 256 << 10;

/// Names that stand for standard input.
const STDIN: &str = "-";

/// What manifests are read with.
#[derive(Debug, clap::Args)]
pub(crate) struct Names {
    /// Pods with this spec.schedulerName are scheduled; others only use what they have
    #[arg(long = "scheduler-name", value_name = "NAME", default_value = "volcano", value_delimiter = ',', value_parser = flag::scheduler_name())]
    scheduler_names: Vec<String>,
    /// The queue of pods and PodGroups that name none
    #[arg(long, value_name = "QUEUE", default_value = "default", value_parser = flag::name())]
    pub(crate) default_queue: String,
}

impl Names {
    fn are_usual(&self) -> bool {
        self.scheduler_names == ["volcano"] && self.default_queue == "default"
    }

    /// The scheduler name that a pod gets.
    pub(crate) fn first(&self) -> &str {
        self.scheduler_names.first().map_or("volcano", String::as_str)
    }

    /// What the library reads manifests with.
    pub(crate) fn read_options(&self) -> phalanx_sim::ReadOptions {
        phalanx_sim::ReadOptions {
            schedulers: self.scheduler_names.clone(),
            default_queue: self.default_queue.clone(),
        }
    }
}

/// Manifests in files.
#[derive(Debug, clap::Args)]
pub(crate) struct ManifestArgs {
    /// Manifests: a file, a folder (its *.yaml, *.yml and *.json, folders in it too), or - for standard input; may be
    /// given several times. Objects without a creation time are created in the order of their documents; one bad object
    /// ends the run (exit code 2)
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) names: Names,
}

impl ManifestArgs {
    pub(crate) fn source(&self) -> Source<'_> {
        let (files, names) = (files(&self.files), &self.names);
        Source { files, instead: Files::default(), silent: false, names, deployed: None, namespace: None }
    }
}

/// Manifests in files, or the objects of a live cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Manifests: a file, a folder, or - for standard input, as for simulate; may be given several times. Without it,
    /// the live cluster
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) names: Names,
}

/// The scheduler.conf of a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfArgs {
    /// The configuration; without it, that of the live cluster's scheduler, and Volcano's built-in default for files.
    /// The scheduler of a live cluster is not asked then, but a copy of its objects
    #[arg(id = "scheduler_conf", long = "scheduler-conf", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The ConfigMap with the configuration for a copy of a live cluster; without it, those of Phalanx's and Volcano's
    /// manifests are looked for
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = flag::namespaced(), conflicts_with_all = ["scheduler_conf", "files"])]
    scheduler_configmap: Option<(String, String)>,
}

impl ConfArgs {
    /// Whether a file or a ConfigMap is named.
    pub(crate) fn is_given(&self) -> bool {
        self.file.is_some() || self.scheduler_configmap.is_some()
    }

    /// The file, if one is given.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

impl ClusterArgs {
    /// Whether files are given.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Whether a live cluster is meant and no flag says how a copy of it is to be read.
    pub(crate) fn is_plain(&self) -> bool {
        !self.has_files() && self.names.are_usual()
    }

    /// The objects, and of a live cluster its configuration unless a file has it.
    pub(crate) fn source(&self, conf: &ConfArgs) -> Result<Source<'_>> {
        if self.has_files() {
            return Ok(self.of_files(files(&self.files)));
        }
        remote::run("copy the cluster", async {
            let remote = self.connection.open().await?;
            let deployed = match conf.file {
                Some(_) => None,
                None => deployed::conf(&remote, conf.scheduler_configmap.as_ref()).await?,
            };
            let namespace = Some(remote.namespace(None).to_owned());
            Ok(Source { deployed, namespace, ..self.copied(&remote).await? })
        })
    }

    /// The objects alone.
    pub(crate) fn objects(&self) -> Result<Source<'_>> {
        if self.has_files() {
            return Ok(self.of_files(files(&self.files)));
        }
        remote::run("copy the cluster", async { self.copied(&self.connection.open().await?).await })
    }

    async fn copied(&self, remote: &Remote) -> Result<Source<'_>> {
        let mut text = String::new();
        let take = |objects: Vec<_>| {
            text.push_str(&capture::lines(&objects));
            Ok(())
        };
        capture::copy(remote, take).await?;
        let contents = Contents::Text(text.into());
        Ok(self.of_files(Files {
            files: vec![Manifest { name: LIVE.to_owned(), contents }],
            faults: Vec::new(),
        }))
    }

    fn of_files(&self, files: Files) -> Source<'_> {
        let (names, instead) = (&self.names, Files::default());
        Source { files, instead, silent: false, names, deployed: None, namespace: None }
    }
}

/// Manifests.
#[derive(Clone)]
pub(crate) struct Source<'a> {
    files: Files,
    /// Manifests whose objects replace others.
    instead: Files,
    /// Nothing is told of objects that are left out.
    silent: bool,
    names: &'a Names,
    /// The name and the text of the configuration, where no file has it.
    deployed: Option<(String, String)>,
    /// The namespace of the live cluster's context.
    namespace: Option<String>,
}

/// Files of manifests, and those that cannot be read.
#[derive(Clone, Default)]
pub(crate) struct Files {
    files: Vec<Manifest>,
    faults: Vec<BadInput>,
}

impl Files {
    /// Their texts, by name.
    pub(crate) fn texts(&self) -> Result<Vec<(String, String)>, BadInput> {
        if !self.faults.is_empty() {
            return Err(all_of(&self.faults));
        }
        let text = |Manifest { name, contents }: &Manifest| match contents {
            Contents::File(path) => Ok((name.clone(), text(path)?)),
            Contents::Text(text) => Ok((name.clone(), text.to_string())),
        };
        self.files.iter().map(text).collect()
    }

    fn sources(&self) -> Vec<&dyn phalanx_sim::Source> {
        self.files.iter().map(|file| file as &dyn phalanx_sim::Source).collect()
    }
}

/// A file of manifests.
#[derive(Clone)]
struct Manifest {
    name: String,
    contents: Contents,
}

/// Where manifests are read from.
#[derive(Clone)]
enum Contents {
    /// A file, which is read as a stream.
    File(PathBuf),
    /// What can be read only once: standard input, a pipe or a live cluster.
    Text(Arc<str>),
}

impl phalanx_sim::Source for Manifest {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(match &self.contents {
            Contents::File(path) => Box::new(BufReader::with_capacity(BUFFER, File::open(path)?)),
            Contents::Text(text) => Box::new(text.as_bytes()),
        })
    }
}

impl Source<'_> {
    /// With objects from these files, in place of those of the same kind and name.
    pub(crate) fn with(self, instead: Files) -> Self {
        Self { instead, ..self }
    }

    /// With this configuration, a name and a text, in place of that of the live scheduler.
    pub(crate) fn configured(self, conf: (String, String)) -> Self {
        Self { deployed: Some(conf), ..self }
    }

    /// For objects of which all was told already.
    pub(crate) fn silent(self) -> Self {
        Self { silent: true, ..self }
    }

    /// Reads the manifests and the configuration. Notes on objects that were left out go to stderr; the problems of
    /// both are reported together.
    pub(crate) fn read(self, conf: Option<&Path>) -> Result<(Conf, Manifests), BadInput> {
        match (self.conf(conf), self.manifests()) {
            (Ok(conf), Ok(manifests)) => Ok((conf, manifests)),
            (conf, manifests) => {
                Err(all_of(&conf.err().into_iter().chain(manifests.err()).collect::<Vec<_>>()))
            }
        }
    }

    /// The configuration in a file, or that of the live scheduler, or the built-in one. Warnings go to stderr.
    pub(crate) fn conf(&self, file: Option<&Path>) -> Result<Conf, BadInput> {
        match &self.deployed {
            Some((name, text)) if file.is_none() => parsed(name, text),
            _ => self::conf(file),
        }
    }

    /// The namespace of the live cluster's context.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Reads the manifests. Notes on objects that were left out go to stderr.
    pub(crate) fn manifests(self) -> Result<Manifests, BadInput> {
        let Self { files, instead, silent, names, .. } = self;
        let mut faults: Vec<BadInput> = files.faults.iter().chain(&instead.faults).cloned().collect();
        if files.files.is_empty() && !faults.is_empty() {
            return Err(all_of(&faults));
        }
        let options = names.read_options();
        let mut bar = Bar::new();
        let mut told = |read: usize| bar.show(|| format!("{read} objects read"));
        let read = phalanx_sim::read_with(&files.sources(), &instead.sources(), &options, &mut told);
        drop(bar);
        let (notes, read) = match read {
            Ok(mut manifests) => (std::mem::take(&mut manifests.notes), Some(manifests)),
            Err(refused) => {
                faults.extend(refused.faults.iter().map(|fault| BadInput(fault.to_string())));
                (refused.notes, None)
            }
        };
        if !silent {
            for note in &notes {
                tell(format_args!("note: {note}"));
            }
        }
        read.filter(|_| faults.is_empty()).ok_or_else(|| all_of(&faults))
    }
}

/// Prints notes on extenders, metrics and quotas that a simulation does not ask for.
pub(crate) fn tell_not_simulated(conf: &Conf, manifests: &Manifests) {
    for note in phalanx_sim::not_simulated(conf, manifests) {
        tell(format_args!("note: {note}"));
    }
}

/// The configuration in a file, or the built-in one. Warnings go to stderr.
pub(crate) fn conf(file: Option<&Path>) -> Result<Conf, BadInput> {
    let name = file.map_or_else(|| "the built-in scheduler.conf".into(), shown);
    let text = match file {
        Some(file) => text(file)?,
        None => phalanx_conf::builtin_default().to_owned(),
    };
    parsed(&name, &text)
}

fn parsed(name: &str, text: &str) -> Result<Conf, BadInput> {
    let Parsed { conf, problems } = phalanx_conf::parse(text, &Known::builtin());
    let (errors, others): (Vec<_>, Vec<_>) =
        problems.iter().partition(|problem| problem.severity == Severity::Error);
    let Some(conf) = conf else {
        return Err(all_of(&errors.into_iter().map(|error| error.in_file(name)).collect::<Vec<_>>()));
    };
    for other in others {
        tell(format_args!("{}: {}", other.severity, other.in_file(name)));
    }
    Ok(conf)
}

/// The trace in a file.
pub(crate) fn trace(file: &Path, names: &phalanx_sim::ReadOptions) -> Result<Trace, BadInput> {
    let read = Trace::read(&shown(file), &text(file)?, names);
    read.map_err(|refused| all_of(&refused.faults))
}

/// The text of a file.
pub(crate) fn text(file: &Path) -> Result<String, BadInput> {
    let bytes = if file.as_os_str() == STDIN { read_stdin() } else { fs::read(file) };
    let bytes = bytes.map_err(|error| unreadable(file, &error))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.split(|byte| *byte == b'\n').count();
        BadInput(format!("{}:{line}: found bytes that are not UTF-8, expected text", shown(file)))
    })
}

/// Files and folders. Standard input is read here: it has no second time.
pub(crate) fn files(paths: &[PathBuf]) -> Files {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            let before = (found.len(), faults.len());
            collect(path, &mut found, &mut faults);
            if (found.len(), faults.len()) == before {
                let expected = "expected *.yaml, *.yml or *.json in it";
                faults.push(BadInput(format!("{}: found no manifests, {expected}", path.display())));
            }
        } else {
            found.push(path.clone());
        }
    }
    let mut files = Vec::new();
    let (mut piped, mut again) = (false, false);
    for file in found {
        if file.as_os_str() == STDIN && std::mem::replace(&mut piped, true) {
            again = true;
            continue;
        }
        match contents(&file) {
            Ok(contents) => files.push(Manifest { name: shown(&file), contents }),
            Err(fault) => faults.push(fault),
        }
    }
    if again {
        faults.push(BadInput("--filename: found - again, expected standard input once".to_owned()));
    }
    Files { files, faults }
}

/// A file that can be opened again, or the text of another one.
fn contents(file: &Path) -> Result<Contents, BadInput> {
    if file.as_os_str() != STDIN && file.is_file() {
        File::open(file).map_err(|error| unreadable(file, &error))?;
        return Ok(Contents::File(file.to_owned()));
    }
    Ok(Contents::Text(text(file)?.into()))
}

/// The manifests of a folder and the folders in it, by name. Hidden ones are editors' and the kubelet's.
fn collect(folder: &Path, files: &mut Vec<PathBuf>, faults: &mut Vec<BadInput>) {
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) => return faults.push(unreadable(folder, &error)),
    };
    let mut entries: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let manifest = entry.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        if hidden {
        } else if entry.is_dir() {
            collect(&entry, files, faults);
        } else if manifest {
            files.push(entry);
        }
    }
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The file as messages name it.
pub(crate) fn shown(file: &Path) -> String {
    if file.as_os_str() == STDIN { "<stdin>".into() } else { file.display().to_string() }
}

fn unreadable(file: &Path, error: &io::Error) -> BadInput {
    BadInput(format!("{}: cannot be read: {}", shown(file), plain(error)))
}
