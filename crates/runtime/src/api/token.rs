//! The token by which the scheduler knows who asks.
use anyhow::{Result, anyhow};
use http::{HeaderValue, Request, Response, header};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::client::{Body, ConfigExt as _};
use kube::{Api, Client, Config};
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

use crate::outbox::driver::chain;

/// How long the token of a service account is good, in seconds.
const SECONDS: i64 = 3_600;

/// What the user of a kubeconfig shows the API server, if it is a token and no certificate.
pub(super) async fn of_user(config: &Config) -> Result<Option<String>> {
    let Some(layer) = config.auth_layer()? else { return Ok(None) };
    // Answers with the header that the request came with.
    let echo = service_fn(async |request: Request<Body>| {
        Ok::<_, BoxError>(Response::new(request.headers().get(header::AUTHORIZATION).cloned()))
    });
    let shown = layer.layer(echo).oneshot(Request::new(Body::empty())).await;
    let shown =
        shown.map_err(|error| anyhow!("the user of the kubeconfig gets no token: {}", chain(&*error)))?;
    let shown = shown.into_body();
    let token = |shown: &HeaderValue| Some(shown.to_str().ok()?.strip_prefix("Bearer ")?.to_owned());
    Ok(shown.as_ref().and_then(token))
}

/// A new token of a service account, for who may make one: the API server decides that by what the user shows it.
pub(super) async fn of_account(client: &Client, namespace: &str, account: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let spec = TokenRequestSpec { expiration_seconds: Some(SECONDS), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
    let token = answer.map(|answer| answer.status.and_then(|status| status.token).unwrap_or_default());
    token.map_err(|error| {
        let why = match error {
            kube::Error::Api(status) => status.message.clone(),
            error => chain(&error),
        };
        anyhow!(
            "the user of the kubeconfig has no token, and gets none of ServiceAccount {namespace}/{account}: {why}; \
             apply deploy/optional/viewer.yaml, or use --token or --token-file"
        )
    })
}
