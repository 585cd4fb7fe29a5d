//! What stands between a program and the API server: a proxy that decides on each request.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use anyhow::{Context as _, Result};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out and answered.
    Passes,
    /// It never arrives, and nobody answers.
    IsLost,
    /// It is carried out, and nobody answers.
    IsCarriedOut,
    /// It does not arrive, and this is the answer.
    IsAnswered(u16),
    /// It is carried out, and this is the answer.
    IsCarriedOutAndAnswered(u16),
}

/// A request that reads nothing, by method and path.
pub(crate) type Write = (Method, String);

/// A proxy on loopback, until it is dropped. Reads always pass.
pub(crate) struct Proxy {
    address: SocketAddr,
    writes: Arc<Mutex<Vec<Write>>>,
    /// Writes with [`Fate::IsCarriedOut`] that were carried out.
    carried_out: watch::Sender<usize>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// `fate` is asked about each write.
    pub(crate) async fn start(
        client: Client,
        fate: impl Fn(&Write) -> Fate + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (writes, fate) = (Arc::<Mutex<Vec<Write>>>::default(), Arc::new(fate));
        let seen = Arc::clone(&writes);
        let (carried_out, _) = watch::channel(0);
        let carried = carried_out.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, seen, fate) = (client.clone(), Arc::clone(&seen), Arc::clone(&fate));
                let carried = carried.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let write = (request.method().clone(), request.uri().path().to_owned());
                    let fate = if write.0 == Method::GET { Fate::Passes } else { fate(&write) };
                    if write.0 != Method::GET {
                        seen.lock().expect("no test panics here").push(write);
                    }
                    carry(client.clone(), request, fate, carried.clone())
                });
                // A connection that breaks off is the program's business.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { address, writes, carried_out, task })
    }

    /// The flag by which a scheduler or controllers go through it.
    pub(crate) fn flag(&self) -> String {
        format!("--master=http://{}", self.address)
    }

    /// Waits until a write with [`Fate::IsCarriedOut`] was carried out.
    pub(crate) async fn until_carried_out(&self) -> Result<()> {
        self.carried_out.subscribe().wait_for(|count| *count > 0).await?;
        Ok(())
    }

    /// What was to be written so far.
    pub(super) fn writes(&self) -> Vec<Write> {
        self.writes.lock().expect("no test panics here").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(
    client: Client,
    request: Request<Incoming>,
    fate: Fate,
    carried_out: watch::Sender<usize>,
) -> Result<Response<Body>> {
    match fate {
        Fate::Passes => forward(client, request).await,
        Fate::IsAnswered(status) => answer(status),
        Fate::IsCarriedOutAndAnswered(status) => {
            forward(client, request).await?;
            answer(status)
        }
        Fate::IsCarriedOut => {
            forward(client, request).await?;
            carried_out.send_modify(|count| *count += 1);
            std::future::pending().await
        }
        Fate::IsLost => std::future::pending().await,
    }
}

/// The client has its own connection and token.
async fn forward(client: Client, request: Request<Incoming>) -> Result<Response<Body>> {
    let (mut parts, body) = request.into_parts();
    for name in [header::HOST, header::CONNECTION, header::AUTHORIZATION] {
        parts.headers.remove(name);
    }
    let body = body.collect().await?.to_bytes();
    let mut response = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await?;
    response.headers_mut().remove(header::TRANSFER_ENCODING);
    *response.version_mut() = http::Version::HTTP_11;
    Ok(response)
}

fn answer(status: u16) -> Result<Response<Body>> {
    let status = StatusCode::from_u16(status)?;
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status.as_u16(),
        "message": "answered by the test",
    });
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    response.body(Body::from(body.to_string().into_bytes())).context("an answer")
}
