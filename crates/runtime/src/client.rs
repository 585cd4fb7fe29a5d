//! The connection to the API server.
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// Reads the flags' meaning: a kubeconfig file, or what the environment offers (`KUBECONFIG`, the home directory, or
/// the service account of a pod); `master` replaces the address.
pub async fn config(kubeconfig: Option<&Path>, master: Option<&str>) -> anyhow::Result<Config> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unreadable(path, error))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("--kubeconfig {}", path.display()))?
        }
        None => match (Config::infer().await, master) {
            (Ok(config), _) => config,
            (Err(_), Some(master)) => Config::new(master.parse().context("--master: expected a URL")?),
            (Err(error), None) => {
                return Err(error).context("no kubeconfig and no service account; give --kubeconfig");
            }
        },
    };
    if let Some(master) = master {
        config.cluster_url =
            master.parse().with_context(|| format!("--master {master:?}: expected a URL"))?;
    }
    // The outbox and the watches have their own ideas of when to try again.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    Ok(config)
}

/// kube's message repeats that of the error beneath it, so the path stands before the cause alone.
fn unreadable(path: &Path, error: KubeconfigError) -> anyhow::Error {
    let cause = match error {
        KubeconfigError::ReadConfig(error, _) => anyhow::Error::new(error),
        other => anyhow::Error::new(other),
    };
    cause.context(format!("--kubeconfig {}", path.display()))
}

/// A client for all requests of the process.
pub fn client(config: Config) -> anyhow::Result<Client> {
    Client::try_from(config).context("cannot make a client for the API server")
}
