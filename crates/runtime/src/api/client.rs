//! Asks the API of a scheduler.
use std::io::Write;
use std::path::Path;
use std::pin::pin;

use anyhow::{Context as _, Result, anyhow};
use futures::AsyncReadExt as _;
use http::{HeaderName, HeaderValue, Request, Uri};
use kube::{Client, Config};
use phalanx_explain::{Explanation, Question, Top};
use phalanx_sim::{Comparison, WhatIf};
use serde::de::DeserializeOwned;

use super::auth::TOKEN_HEADER;
use super::leader::Forward;
pub use super::leader::LeaseRef;
use super::{token, whatif};
use crate::client::{self, BadFlag};
use crate::journal::Past;
use crate::outbox::driver::chain;

/// Which scheduler is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one at this URL.
    Url(String),
    /// The one that holds this lease.
    Leader(LeaseRef),
}

/// Who asks, and how the API server is reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asker<'a> {
    /// As for [`client::config`].
    pub kubeconfig: Option<&'a Path>,
    /// As for [`client::config`].
    pub master: Option<&'a str>,
    /// Without a token, that of the kubeconfig's user is sent.
    pub token: Option<&'a str>,
    /// The service account, in the namespace of the lease, that lends a token to a user who has none.
    pub account: &'a str,
}

/// No answer came from a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot ask the scheduler at {server}: {why}")]
pub struct Unreachable {
    server: String,
    why: String,
}

/// The API of one scheduler.
pub struct SchedulerClient {
    client: Client,
    server: String,
    forward: Option<Forward>,
}

impl SchedulerClient {
    /// Finds out what to send; the first request connects to the scheduler.
    pub async fn of(place: &Place, asker: Asker<'_>) -> Result<Self> {
        match place {
            Place::Url(url) => {
                let at = address(url)?;
                let token = match asker.token {
                    Some(token) => token.to_owned(),
                    None => token::of_user(&asker.config().await?).await?.ok_or_else(no_token)?,
                };
                Ok(Self { client: with_token(at, &token)?, server: url.clone(), forward: None })
            }
            Place::Leader(lease) => {
                let config = asker.config().await?;
                let of_user = match asker.token {
                    Some(token) => Some(token.to_owned()),
                    None => token::of_user(&config).await?,
                };
                let api_server = client::client(config)?;
                let token = match of_user {
                    Some(token) => token,
                    None => token::of_account(&api_server, &lease.namespace, asker.account).await?,
                };
                let forward = Forward::to(api_server, lease.clone()).await?;
                let at = format!("http://{}", forward.address).parse()?;
                let server = format!("the pod that holds lease {lease}");
                Ok(Self { client: with_token(at, &token)?, server, forward: Some(forward) })
            }
        }
    }

    /// Why an object waits or is where it is.
    pub async fn explain(&self, question: &Question) -> Result<Explanation> {
        let Question { subject, namespace, name } = question;
        self.get(&format!("/api/v1/explain/{subject}/{namespace}/{name}")).await
    }

    /// What its journal tells of an object.
    pub async fn past(&self, question: &Question) -> Result<Past> {
        let Question { subject, namespace, name } = question;
        self.get(&format!("/api/v1/past/{subject}/{namespace}/{name}")).await
    }

    /// Queues and waiting jobs: of all namespaces, or of one.
    pub async fn top(&self, namespace: Option<&str>) -> Result<Top> {
        let query = namespace.map(|name| format!("?namespace={name}")).unwrap_or_default();
        self.get(&format!("/api/v1/top{query}")).await
    }

    /// How the cluster would differ after a change.
    pub async fn what_if(&self, question: &WhatIf) -> Result<Comparison> {
        self.ask(Request::post(whatif::PATH).body(serde_json::to_vec(question)?)?).await
    }

    /// What the scheduler recorded since it began, as `phalanx replay` reads it.
    pub async fn capture(&self, to: &mut impl Write) -> Result<()> {
        let request = Request::get("/debug/capture").body(Vec::new())?;
        let mut lines = pin!(self.client.request_stream(request).await.map_err(|error| self.refused(error))?);
        let mut chunk = vec![0; 64 << 10];
        loop {
            let read = lines.read(&mut chunk).await;
            let read = read.map_err(|error| anyhow!("the answer of {} broke off: {error}", self.server))?;
            if read == 0 {
                return to.flush().context("writing to standard output");
            }
            to.write_all(&chunk[..read]).context("writing to standard output")?;
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Request::get(path).body(Vec::new())?).await
    }

    async fn ask<T: DeserializeOwned>(&self, request: Request<Vec<u8>>) -> Result<T> {
        let answer = self.client.request_text(request).await.map_err(|error| self.refused(error))?;
        serde_json::from_str(&answer).with_context(|| {
            format!("the answer of {} cannot be read: is it a scheduler of this version?", self.server)
        })
    }

    fn refused(&self, error: kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(status) => anyhow!("{}", status.message),
            error => {
                let why = self.forward.as_ref().and_then(Forward::failed).unwrap_or_else(|| chain(&error));
                Unreachable { server: self.server.clone(), why }.into()
            }
        }
    }
}

/// The address of a scheduler. A token goes over plain HTTP to this machine only.
fn address(text: &str) -> Result<Uri, BadFlag> {
    let bad = |why: &str| {
        BadFlag(format!("--scheduler {text:?}: {why}, expected a URL such as http://127.0.0.1:8082"))
    };
    let url: Uri = text.parse().map_err(|_| bad("no URL"))?;
    let local = matches!(url.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme_str() {
        Some("https") => Ok(url),
        Some("http") if local => Ok(url),
        Some("http") => Err(bad("a token would be sent in the clear to another machine")),
        _ => Err(bad("no http:// before it")),
    }
}

impl Asker<'_> {
    async fn config(&self) -> Result<Config> {
        client::config(self.kubeconfig, self.master).await
    }
}

fn no_token() -> BadFlag {
    let expected = "expected --token or --token-file (kubectl create token NAME makes one)";
    BadFlag(format!("no token: the user of the kubeconfig has none, {expected}"))
}

/// The token goes where the API server's proxy leaves it alone: `Authorization` is for the proxy.
fn with_token(at: Uri, token: &str) -> Result<Client> {
    let mut value = HeaderValue::from_str(token).map_err(|_| {
        BadFlag("--token: found signs that no token has, expected one line of text".to_owned())
    })?;
    value.set_sensitive(true);
    let mut config = Config::new(at);
    config.headers = vec![(HeaderName::from_static(TOKEN_HEADER), value)];
    config.default_retry = false;
    client::client(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_over_plain_http_to_this_machine_only() {
        for fine in
            ["http://127.0.0.1:8082", "http://localhost:1", "http://[::1]:1", "https://scheduler.example"]
        {
            assert!(address(fine).is_ok(), "{fine}");
        }
        for wrong in ["http://10.0.0.1:8082", "127.0.0.1:8082", "ftp://127.0.0.1", ""] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
