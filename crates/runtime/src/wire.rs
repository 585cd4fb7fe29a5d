//! Requests of the outbox, without what kube's client does for everybody.
//!
//! That client hands each request through a queue to a task of its own and traces it. For tens of thousands of small
//! requests that is a good part of the work, so the outbox has a stack of its own on the same configuration. The stack
//! uses a pool of HTTP/1.1 connections: on a busy API server the requests of one HTTP/2 connection wait for each other
//! (`phalanx-bench floor`, docs/benchmarks.md).
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes};
use hyper_rustls::builderstates::WantsProtocols1;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Builder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt;
use kube::{Client, Config};
use tower::util::{BoxCloneSyncService, service_fn};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use crate::fence::{Fence, Fenced};

/// Whatever carries requests to the API server, and brings back the whole answer.
#[derive(Clone, Debug)]
pub struct Wire {
    service: BoxCloneSyncService<Request<Bytes>, Answer, BoxError>,
    fence: Fence,
}

/// The whole answer: a body that is not read to its end would cost the connection.
pub type Answer = (StatusCode, HeaderMap, Bytes);

impl Wire {
    /// Connections of its own: one for all requests where the server speaks HTTP/2 and `http2` allows it, else a pool.
    pub fn new(config: &Config, http2: bool) -> anyhow::Result<Self> {
        let tls = tls(config)?;
        let connector = if http2 {
            tls.enable_all_versions().wrap_connector(tcp(config))
        } else {
            tls.enable_http1().wrap_connector(tcp(config))
        };
        let stack = ServiceBuilder::new()
            .map_request(|request: Request<Bytes>| request.map(Full::new))
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(pool().build(connector));
        Ok(Self::of(stack))
    }

    /// Anything that answers requests.
    pub fn of<S, B>(service: S) -> Self
    where
        S: Service<Request<Bytes>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let whole = service.map_err(Into::into).and_then(|response: Response<B>| async {
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            Ok((parts.status, parts.headers, body))
        });
        Self { service: BoxCloneSyncService::new(whole), fence: Fence::none() }
    }

    /// The same with a fence before its writes.
    pub fn behind(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// What its writes have to pass.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Sends a request; reads pass the fence.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Answer, BoxError> {
        let reads = request.method() == Method::GET;
        if !reads && !self.fence.is_open() {
            return Err(Fenced.into());
        }
        let mut sending = pin!(self.service.clone().oneshot(request));
        // A request that waits for a connection has not been sent yet.
        poll_fn(|context| {
            if reads || self.fence.is_open() {
                sending.as_mut().poll(context)
            } else {
                Poll::Ready(Err("this process ceased to lead before there was an answer".into()))
            }
        })
        .await
    }
}

/// The connections of kube's client.
impl From<Client> for Wire {
    fn from(client: Client) -> Self {
        Self::of(service_fn(move |request: Request<Bytes>| {
            let client = client.clone();
            async move { client.send(request.map(kube::client::Body::from)).await }
        }))
    }
}

/// A connection that died without a word is found by a ping; client-go waits as long.
fn pool() -> Builder {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(15))
        .http2_keep_alive_while_idle(true);
    builder
}

fn tcp(config: &Config) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    connector
}

fn tls(config: &Config) -> anyhow::Result<HttpsConnectorBuilder<WantsProtocols1>> {
    let tls = config.rustls_client_config().context("cannot set up TLS")?;
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let Some(name) = config.tls_server_name.clone() else { return Ok(builder) };
    let name = name.try_into().context("tls-server-name is no name of a server")?;
    Ok(builder.with_server_name_resolver(FixedServerNameResolver::new(name)))
}
