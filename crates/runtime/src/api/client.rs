//! Asks the API of a scheduler.
use std::io::Write;
use std::path::Path;
use std::pin::pin;

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::AsyncReadExt as _;
use http::{Request, Uri};
use kube::config::AuthInfo;
use kube::{Client, Config};
use phalanx_explain::{Explanation, Question, Top};
use phalanx_sim::{Comparison, WhatIf};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::whatif;
use crate::client::{self, BadFlag};
use crate::outbox::driver::chain;

/// The API of one scheduler.
pub struct SchedulerClient {
    client: Client,
    server: String,
}

impl SchedulerClient {
    /// Reads where the scheduler is and who asks; the first request connects. Without a token, that of the
    /// kubeconfig's user is sent.
    pub async fn of(scheduler: &str, kubeconfig: Option<&Path>, token: Option<&str>) -> Result<Self> {
        let url = address(scheduler)?;
        let user = match token {
            Some(token) => serde_json::from_value(json!({ "token": token }))?,
            None => user(kubeconfig).await?,
        };
        let mut config = Config::new(url);
        config.auth_info = user;
        config.default_retry = false;
        Ok(Self { client: client::client(config)?, server: scheduler.to_owned() })
    }

    /// Why an object waits or is where it is.
    pub async fn explain(&self, question: &Question) -> Result<Explanation> {
        let Question { subject, namespace, name } = question;
        self.get(&format!("/api/v1/explain/{subject}/{namespace}/{name}")).await
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
            error => anyhow!("cannot ask the scheduler at {}: {}", self.server, chain(&error)),
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

/// What a kubeconfig says of its user, as far as it is a token.
async fn user(kubeconfig: Option<&Path>) -> Result<AuthInfo> {
    let of = client::config(kubeconfig, None).await?.auth_info;
    let AuthInfo { token, token_file, exec, auth_provider, .. } = of;
    let user = AuthInfo { token, token_file, exec, auth_provider, ..AuthInfo::default() };
    let any = user.token.is_some() || user.token_file.is_some() || user.exec.is_some();
    ensure!(
        any || user.auth_provider.is_some(),
        BadFlag(
            "no token: the user of the kubeconfig has none, expected --token or --token-file (kubectl create token NAME makes one)"
                .to_owned()
        )
    );
    Ok(user)
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
