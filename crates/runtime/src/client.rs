//! The connection to the API server.
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use kube::{Client, Config};
use phalanx_conf::{Blame, blame};

use crate::outbox::driver::chain;

/// The value of a flag cannot be used: one line with the flag, the value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadFlag(pub String);

/// Reads the flags' meaning: a kubeconfig file, or what the environment offers (`KUBECONFIG`, the home directory, or
/// the service account of a pod); `master` replaces the address. What is wrong with a file is a [`BadFlag`].
pub async fn config(kubeconfig: Option<&Path>, master: Option<&str>) -> anyhow::Result<Config> {
    let address = |master: &str| {
        let bad = |error| {
            BadFlag(format!("--master {master:?}: {error}, expected a URL such as https://HOST:6443"))
        };
        master.parse::<http::Uri>().map_err(|error| bad(error.to_string())).and_then(|url| {
            if url.scheme().is_some() { Ok(url) } else { Err(bad("no https:// before it".to_owned())) }
        })
    };
    let master = master.map(address).transpose()?;
    let mut config = match kubeconfig {
        Some(path) => from_file(path).await.map_err(|fault| BadFlag(format!("--kubeconfig {fault}")))?,
        None => match (around().await?, &master) {
            (Some(config), _) => config,
            (None, Some(master)) => Config::new(master.clone()),
            (None, None) => {
                return Err(BadFlag(NOWHERE.to_owned()).into());
            }
        },
    };
    if let Some(master) = master {
        config.cluster_url = master;
    }
    // The outbox and the watches have retries of their own.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    Ok(config)
}

/// The error when no source has the API server's address.
const NOWHERE: &str = "no kubeconfig and no service account of a pod: expected --kubeconfig FILE, KUBECONFIG, \
    ~/.kube/config or --master URL";

/// The kubeconfig of the environment: the files of `KUBECONFIG`, else the file in the home directory if it exists, else
/// a pod's service account.
async fn around() -> Result<Option<Config>, BadFlag> {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> =
        std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if !named.is_empty() {
        let config = from_files(&named).await;
        return config.map(Some).map_err(|fault| BadFlag(format!("KUBECONFIG {fault}")));
    }
    let home = std::env::home_dir().map(|home| home.join(".kube/config")).filter(|path| path.exists());
    match home {
        Some(path) => from_file(&path).await.map(Some).map_err(BadFlag),
        None => Ok(Config::incluster().ok()),
    }
}

/// Several files are merged; of two entries of one name the first counts.
async fn from_files(paths: &[PathBuf]) -> Result<Config, String> {
    let mut all = Kubeconfig::default();
    for path in paths {
        let shown = path.display();
        all = all.merge(read(path)?).map_err(|error| format!("{shown}: {}", fault(&error)))?;
    }
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    of_kubeconfig(all).await.map_err(|fault| format!("{}: {fault}", shown.join(":")))
}

/// `FILE: what is wrong`, or `FILE:LINE:COLUMN: what is wrong` where the text itself cannot be read.
async fn from_file(path: &Path) -> Result<Config, String> {
    of_kubeconfig(read(path)?).await.map_err(|fault| format!("{}: {fault}", path.display()))
}

fn read(path: &Path) -> Result<Kubeconfig, String> {
    let shown = path.display();
    Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::Parse(error) => {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            let said = error.without_snippet().to_string();
            let said = said.split(" at line ").next().unwrap_or(&said);
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let Blame { line, column, found, expected } =
                blame(&text, (line as usize, column as usize), said);
            let expected = expected.unwrap_or_else(|| "a kubeconfig".to_owned());
            format!("{shown}:{line}:{column}: invalid YAML: {found}; expected {expected}")
        }
        other => format!("{shown}: {}", fault(&other)),
    })
}

async fn of_kubeconfig(file: Kubeconfig) -> Result<Config, String> {
    unknown_user(&file).map_or(Ok(()), Err)?;
    let config = Config::from_custom_kubeconfig(file.clone(), &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| format!("{}{}", fault(&error), known(&file, &error)))?;
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err("certificate-authority: found no certificate, expected PEM".to_owned());
    }
    // Keys and certificates are only read when a client is made of them; a plugin for credentials need not run twice.
    if config.auth_info.exec.is_none() {
        Client::try_from(config.clone()).map_err(|error| credentials(&error))?;
    }
    Ok(config)
}

/// kube would go on without credentials.
fn unknown_user(file: &Kubeconfig) -> Option<String> {
    let current = file.current_context.as_ref()?;
    let context = file.contexts.iter().find(|context| context.name == *current)?;
    let user = context.context.as_ref()?.user.as_ref().filter(|user| !user.is_empty())?;
    let known: Vec<&str> = file.auth_infos.iter().map(|info| info.name.as_str()).collect();
    (!known.contains(&user.as_str())).then(|| {
        format!("context {current:?} names user {user:?}, which is not in it; expected {}", one_of(&known))
    })
}

/// The innermost cause of an error.
fn fault(error: &KubeconfigError) -> String {
    let data = |what: &str, error: &LoadDataError| match error {
        LoadDataError::ReadFile(error, path) => {
            format!("{what}: {} cannot be read: {}", path.display(), plain(error))
        }
        LoadDataError::DecodeBase64(_) => format!("{what}-data: is no base64, expected PEM in base64"),
        LoadDataError::NoBase64DataOrFile => format!("{what}: neither data nor a file is given"),
    };
    match error {
        KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {}", plain(error)),
        KubeconfigError::CurrentContextNotSet => {
            "current-context: missing, expected the name of a context".into()
        }
        KubeconfigError::LoadContext(name) => format!("current-context {name:?} is not in it"),
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("cluster {name:?} of the context is not in it")
        }
        KubeconfigError::MissingClusterUrl => "server: missing, expected the URL of the API server".into(),
        KubeconfigError::ParseClusterUrl(error) => format!("server: {error}, expected a URL"),
        KubeconfigError::ParseProxyUrl(error) => format!("proxy-url: {error}, expected a URL"),
        KubeconfigError::LoadCertificateAuthority(error) => data("certificate-authority", error),
        KubeconfigError::LoadClientCertificate(error) => data("client-certificate", error),
        KubeconfigError::LoadClientKey(error) => data("client-key", error),
        KubeconfigError::ParseCertificates(error) => {
            format!("certificate-authority: {error}, expected certificates in PEM")
        }
        other => chain(other),
    }
}

/// What is wrong with a key or a certificate.
fn credentials(error: &kube::Error) -> String {
    let text = chain(error);
    let what = text.strip_prefix("rustls tls error: ");
    what.map_or_else(
        || text.clone(),
        |what| format!("client-certificate, client-key or certificate-authority: {what}"),
    )
}

/// The names that exist.
fn known(file: &Kubeconfig, error: &KubeconfigError) -> String {
    let names: Vec<&str> = match error {
        KubeconfigError::LoadContext(_) => {
            file.contexts.iter().map(|context| context.name.as_str()).collect()
        }
        KubeconfigError::LoadClusterOfContext(_) => {
            file.clusters.iter().map(|cluster| cluster.name.as_str()).collect()
        }
        _ => return String::new(),
    };
    format!("; expected {}", one_of(&names))
}

fn one_of(names: &[&str]) -> String {
    match names {
        [] => "one, but there is none".to_owned(),
        [only] => format!("{only:?}"),
        names => format!("one of {}", names.join(", ")),
    }
}

/// An error without the number of the operating system.
pub(crate) fn plain(error: &dyn Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The answer, or a timeout error when none has come within this time.
pub(crate) async fn within<T, E: Into<kube::Error>>(
    limit: Duration,
    silence: String,
    answer: impl Future<Output = Result<T, E>>,
) -> kube::Result<T> {
    let late = |_| kube::Error::Service(io::Error::new(io::ErrorKind::TimedOut, silence).into());
    tokio::time::timeout(limit, answer).await.map_err(late)?.map_err(Into::into)
}

/// A client for all requests of the process.
pub fn client(config: Config) -> anyhow::Result<Client> {
    Client::try_from(config).context("cannot make a client for the API server")
}
