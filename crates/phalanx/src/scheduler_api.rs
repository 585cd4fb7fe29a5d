//! How the API of a live scheduler is reached.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use phalanx_runtime::api::client::SchedulerClient;

use crate::exit::{BadInput, plain};
use crate::remote::bad_flag;

/// A scheduler, and who asks.
#[derive(Debug, clap::Args)]
pub(crate) struct SchedulerArgs {
    /// Ask the live scheduler here, such as http://127.0.0.1:8082 behind kubectl port-forward
    #[arg(id = "scheduler", long = "scheduler", value_name = "URL", conflicts_with_all = ["files", "scheduler_conf"])]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
}

/// Who asks.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// The bearer token to ask with; without it, that of the kubeconfig's user. Others on this machine can see it:
    /// --token-file is safer
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl SchedulerArgs {
    pub(crate) async fn open(&self, url: &str, kubeconfig: Option<&Path>) -> Result<SchedulerClient> {
        self.token.open(url, kubeconfig).await
    }
}

impl TokenArgs {
    pub(crate) async fn open(&self, url: &str, kubeconfig: Option<&Path>) -> Result<SchedulerClient> {
        let token = match &self.token_file {
            Some(path) => Some(fs::read_to_string(path).map_err(|error| {
                BadInput(format!("--token-file {}: cannot be read: {}", path.display(), plain(&error)))
            })?),
            None => self.token.clone(),
        };
        let client = SchedulerClient::of(url, kubeconfig, token.as_deref().map(str::trim)).await;
        client.map_err(bad_flag)
    }
}
