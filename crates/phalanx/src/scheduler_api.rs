//! How the API of a live scheduler is reached, and who is asked where no flag says it: that scheduler, or a copy.
use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use clap::Arg;
use phalanx_runtime::api::client::{Asker, LeaseRef, Place, SchedulerClient, Unreachable};

use crate::exit::{BadInput, plain, tell};
use crate::inputs::{ClusterArgs, ConfArgs};
use crate::remote::{Connection, bad_flag};

/// The service account that lends its token for what the API shows.
pub(crate) const VIEWER: &str = "phalanx-viewer";

/// A scheduler, and who asks.
#[derive(Debug, clap::Args)]
pub(crate) struct SchedulerArgs {
    /// Ask the live scheduler only: the pod that holds this lease (volcano-system/volcano unless it is given), by a
    /// port-forward through the API server
    #[arg(long, value_name = "NAMESPACE/LEASE", num_args = 0..=1, require_equals = true, default_missing_value = LeaseRef::USUAL)]
    live: Option<LeaseRef>,
    /// Ask the live scheduler here, such as http://127.0.0.1:8082 behind kubectl port-forward
    #[arg(id = "scheduler", long = "scheduler", value_name = "URL", conflicts_with = "live")]
    url: Option<String>,
    /// The bearer token to ask with; without it, that of the kubeconfig's user. Others on this machine can see it:
    /// --token-file is safer
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Flags that count for files and copies of a cluster only.
const OF_COPIES: [&str; 3] = ["files", "scheduler_conf", "scheduler_configmap"];

/// A flag of a command that asks a live scheduler, or simulates what files say.
pub(crate) fn not_live(flag: Arg) -> Arg {
    if OF_COPIES.contains(&flag.get_id().as_str()) {
        flag.conflicts_with_all(["scheduler", "live"])
    } else {
        flag
    }
}

impl SchedulerArgs {
    /// The scheduler that is meant, if one is.
    pub(crate) fn place(&self) -> Option<Place> {
        let url = self.url.clone().map(Place::Url);
        url.or_else(|| self.live.clone().map(Place::Leader))
    }

    /// The same for a command that asks a scheduler in any case.
    pub(crate) fn place_or_usual(&self) -> Result<Place> {
        match self.place() {
            Some(place) => Ok(place),
            None => Ok(Place::Leader(LeaseRef::USUAL.parse().map_err(anyhow::Error::msg)?)),
        }
    }

    /// Asks the scheduler that is named, or else the usual one unless flags are given that count for copies only.
    /// `None` where a copy is to tell: for such flags and, with a note, where the usual scheduler gives no answer.
    pub(crate) async fn ask<T>(
        &self,
        (cluster, conf): (&ClusterArgs, &ConfArgs),
        question: impl AsyncFnOnce(SchedulerClient) -> Result<T>,
    ) -> Result<Option<T>> {
        let named = self.place().is_some();
        if !named && (conf.is_given() || !cluster.is_plain()) {
            return Ok(None);
        }
        let place = self.place_or_usual()?;
        let refused = match self.open(&place, &cluster.connection, VIEWER).await {
            Ok(client) => match question(client).await {
                Err(error) if error.is::<Unreachable>() => error,
                answer => return answer.map(Some),
            },
            Err(error) if error.is::<BadInput>() => return Err(error),
            Err(error) => error,
        };
        if named {
            return Err(refused);
        }
        tell(format_args!("note: a copy of the cluster is asked, not the scheduler: {refused:#}"));
        Ok(None)
    }

    /// Its API. A user without a token borrows that of the service account.
    pub(crate) async fn open(
        &self,
        place: &Place,
        connection: &Connection,
        account: &str,
    ) -> Result<SchedulerClient> {
        let token = match &self.token_file {
            Some(path) => Some(fs::read_to_string(path).map_err(|error| {
                BadInput(format!("--token-file {}: cannot be read: {}", path.display(), plain(&error)))
            })?),
            None => self.token.clone(),
        };
        let (kubeconfig, master) = (connection.kubeconfig(), connection.master());
        let token = token.as_deref().map(str::trim);
        let asker = Asker { kubeconfig: kubeconfig.as_deref(), master, token, account };
        SchedulerClient::of(place, asker).await.map_err(bad_flag)
    }
}
