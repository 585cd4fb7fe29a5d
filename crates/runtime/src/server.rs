//! `/metrics` and the health checks, over plain HTTP.
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tracing::{debug, info};

use crate::client::BadFlag;
use crate::metrics::Metrics;
use crate::pulse::Pulse;

/// What the servers show.
#[derive(Debug, Default)]
pub struct Health {
    /// The first lists are in: cycles can run.
    ready: AtomicBool,
    /// Of the scheduling thread.
    pub pulse: Pulse,
}

impl Health {
    /// With a pulse of one's own.
    pub fn new(pulse: Pulse) -> Self {
        Self { pulse, ..Self::default() }
    }

    /// The first lists are in.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

/// What a server answers to.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// `/metrics`.
    pub metrics: Option<Arc<Metrics>>,
    /// `/healthz`, `/livez` and `/readyz`.
    pub health: Option<Arc<Health>>,
}

/// A listen address as Go writes it: `:8080` is every address.
fn parse_address(flag: &str, text: &str) -> Result<SocketAddr, BadFlag> {
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse().map_err(|_| BadFlag(format!("{flag} {text:?}: expected ADDRESS:PORT or :PORT")))
}

/// Binds the address of a flag and serves in the background; returns the address that was bound.
pub async fn serve(flag: &str, address: &str, pages: Pages) -> anyhow::Result<SocketAddr> {
    let address = parse_address(flag, address)?;
    let cannot = || format!("{flag}: cannot listen on {address}");
    let listener = TcpListener::bind(address).await.with_context(cannot)?;
    let address = listener.local_addr()?;
    info!(%address, metrics = pages.metrics.is_some(), health = pages.health.is_some(), "serving");
    tokio::spawn(accept(listener, pages));
    Ok(address)
}

async fn accept(listener: TcpListener, pages: Pages) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Out of file descriptors, most likely: those in use will end.
            Err(error) => {
                debug!(%error, "accept failed");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.uri().path(), &pages);
                async move { Ok::<_, Infallible>(answer) }
            });
            if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
                debug!(%error, "a connection ended early");
            }
        });
    }
}

fn answer(path: &str, pages: &Pages) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match (path, &pages.metrics, &pages.health) {
        ("/metrics", Some(metrics), _) => page(StatusCode::OK, METRICS, metrics.render()),
        ("/healthz" | "/livez", _, Some(health)) => match health.pulse.hangs() {
            None => page(StatusCode::OK, TEXT, "ok".to_owned()),
            Some(why) => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, why),
        },
        ("/readyz", _, Some(health)) if health.is_ready() => page(StatusCode::OK, TEXT, "ok".to_owned()),
        ("/readyz", _, Some(_)) => {
            page(StatusCode::SERVICE_UNAVAILABLE, TEXT, "waiting for the first lists".to_owned())
        }
        _ => page(StatusCode::NOT_FOUND, TEXT, "not found".to_owned()),
    }
}

fn page(status: StatusCode, content: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn pages_are_served_and_readiness_changes() {
        let health = Arc::new(Health::default());
        let pages = Pages { metrics: Some(Arc::default()), health: Some(Arc::clone(&health)) };
        let address = serve("--listen-address", "127.0.0.1:0", pages).await.unwrap();
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        health.set_ready();
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/metrics").await.contains("phalanx_cycles_total 0"));
        assert!(get(address, "/secrets").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn a_scheduling_thread_that_hangs_is_no_longer_live() {
        let health = Arc::new(Health::new(Pulse::new(std::time::Duration::ZERO)));
        let pages = Pages { health: Some(Arc::clone(&health)), metrics: None };
        let address = serve("--healthz-address", "127.0.0.1:0", pages).await.unwrap();
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"), "it waits for something to do");
        health.pulse.cycle();
        for path in ["/healthz", "/livez"] {
            assert!(get(address, path).await.starts_with("HTTP/1.1 503"), "{path}");
        }
        health.pulse.rest();
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn addresses_are_read_as_go_does() {
        let parse = |text| parse_address("--listen-address", text);
        assert_eq!(parse(":8080").unwrap().to_string(), "0.0.0.0:8080");
        assert_eq!(parse("127.0.0.1:0").unwrap().to_string(), "127.0.0.1:0");
        let expected = "--listen-address \"8080\": expected ADDRESS:PORT or :PORT";
        assert_eq!(parse("8080").unwrap_err().0, expected);
    }

    #[tokio::test]
    async fn an_address_in_use_names_its_flag() {
        let first = serve("--listen-address", "127.0.0.1:0", Pages::default()).await.unwrap();
        let again = serve("--healthz-address", &first.to_string(), Pages::default()).await.unwrap_err();
        assert!(
            format!("{again:#}").starts_with(&format!("--healthz-address: cannot listen on {first}: ")),
            "{again:#}"
        );
    }
}
