//! `/metrics` and the health checks, over plain HTTP.
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as std_mpsc};
use std::time::Duration;

use anyhow::Context as _;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tracing::{debug, info, warn};

use crate::api::{Api, whatif};
use crate::client::BadFlag;
use crate::engine::Input;
use crate::metrics::Metrics;
use crate::pulse::Pulse;

/// A client sends a request's headers within this time, or the connection is closed.
const HEADERS: Duration = Duration::from_secs(10);
/// Bytes of a request's headers; hyper takes no smaller limit.
const HEADERS_MAX: usize = 8 << 10;
/// How long a connection lives: a client that never reads an answer does not keep it for ever.
const LIFE: Duration = Duration::from_mins(5);
/// How long a request may take to end after that.
const LINGER: Duration = Duration::from_secs(10);
/// How long a scrape waits for figures of queues and jobs.
const FIGURES: Duration = Duration::from_secs(1);
/// Connections of a server; others wait until one ends.
const CONNECTIONS_MAX: usize = 64;

/// The body of an answer: whole, or in parts as they are read.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A body that is there as a whole.
pub(crate) fn whole(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

/// What the servers show.
#[derive(Debug, Default)]
pub struct Health {
    /// Kinds whose first list is not in; `None` before anybody says so.
    waits_for: Mutex<Option<BTreeSet<&'static str>>>,
    /// Of the scheduling thread.
    pub pulse: Pulse,
}

impl Health {
    /// Health with a pulse of its own.
    pub fn new(pulse: Pulse) -> Self {
        Self { pulse, ..Self::default() }
    }

    /// Kinds whose first list is not in: cycles run once there is none.
    pub fn wait_for(&self, kinds: &BTreeSet<&'static str>) {
        *self.waits_for() = Some(kinds.clone());
    }

    /// The kinds whose first list is missing, as text; `None` for none.
    pub fn missing(&self) -> Option<String> {
        match &*self.waits_for() {
            Some(kinds) if kinds.is_empty() => None,
            Some(kinds) => {
                let kinds: Vec<_> = kinds.iter().copied().collect();
                Some(format!("waiting for the first lists of {}", kinds.join(", ")))
            }
            None => Some("waiting for the first lists".to_owned()),
        }
    }

    /// The set is consistent also after a panic.
    fn waits_for(&self) -> MutexGuard<'_, Option<BTreeSet<&'static str>>> {
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a server answers to.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// `/metrics`.
    pub metrics: Option<Arc<Metrics>>,
    /// `/healthz`, `/livez` and `/readyz`.
    pub health: Option<Arc<Health>>,
    /// The scheduling thread, which computes what `/metrics` shows of queues and jobs.
    pub engine: Option<std_mpsc::Sender<Input>>,
    /// `/api/v1/`, and the web page.
    pub api: Option<Arc<Api>>,
}

/// Where pages are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// `--listen-address`, when metrics are on.
    pub metrics: Option<String>,
    /// `--healthz-address`, when health checks are on.
    pub healthz: Option<String>,
    /// `--api-address`, unless it is empty.
    pub api: Option<ApiAddress>,
}

/// Where the API is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAddress {
    /// Here.
    Given(String),
    /// Here, if the port is free: nobody asked for it.
    Usual(&'static str),
}

/// Serves metrics and health checks; one server does both when both have the same address.
pub async fn serve_pages(
    addresses: &Addresses,
    metrics: &Arc<Metrics>,
    health: &Arc<Health>,
    engine: Option<std_mpsc::Sender<Input>>,
) -> anyhow::Result<()> {
    let with_metrics = Pages { metrics: Some(Arc::clone(metrics)), engine, ..Pages::default() };
    let with_health = Pages { health: Some(Arc::clone(health)), ..Pages::default() };
    match (&addresses.metrics, &addresses.healthz) {
        (Some(one), Some(other)) if one == other => {
            let pages = Pages { health: with_health.health, ..with_metrics };
            serve("--listen-address and --healthz-address", one, pages).await?;
        }
        (one, other) => {
            let flags = [("--listen-address", one, with_metrics), ("--healthz-address", other, with_health)];
            for (flag, address, pages) in flags {
                if let Some(address) = address {
                    serve(flag, address, pages).await?;
                }
            }
        }
    }
    Ok(())
}

/// Serves the API.
pub async fn serve_api(address: &ApiAddress, api: Arc<Api>) -> anyhow::Result<()> {
    let pages = Pages { api: Some(api), ..Pages::default() };
    match address {
        ApiAddress::Given(address) => serve("--api-address", address, pages).await.map(drop),
        ApiAddress::Usual(address) => {
            if let Err(error) = serve("--api-address", address, pages).await {
                warn!("{error:#}: `phalanx explain` and `phalanx top` cannot ask this scheduler");
            }
            Ok(())
        }
    }
}

/// A listen address as Go writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Address {
    /// `:8080`: every address of this machine, of IPv6 and of IPv4.
    Every(u16),
    /// `127.0.0.1:8080` or `[::1]:8080`.
    One(SocketAddr),
}

impl Address {
    fn parse(flag: &str, text: &str) -> Result<Self, BadFlag> {
        let every = text.strip_prefix(':').and_then(|port| port.parse().ok()).map(Self::Every);
        every
            .or_else(|| text.parse().ok().map(Self::One))
            .ok_or_else(|| BadFlag(format!("{flag} {text:?}: expected ADDRESS:PORT or :PORT")))
    }

    async fn listen(self) -> io::Result<TcpListener> {
        match self {
            Self::One(address) => TcpListener::bind(address).await,
            Self::Every(port) => match every_address(port) {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    debug!(%error, "no IPv6 on this machine");
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
                }
                bound => bound,
            },
        }
    }
}

/// A socket of IPv6 that takes connections of IPv4 too, whatever the machine's default is.
fn every_address(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.set_only_v6(false)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

/// Binds the address of a flag and serves in the background; returns the address that was bound.
pub async fn serve(flag: &str, address: &str, pages: Pages) -> anyhow::Result<SocketAddr> {
    let cannot = || format!("{flag}: cannot listen on {address}");
    let listener = Address::parse(flag, address)?.listen().await.with_context(cannot)?;
    let address = listener.local_addr()?;
    let (metrics, health, api) = (pages.metrics.is_some(), pages.health.is_some(), pages.api.is_some());
    info!(%address, metrics, health, api, "serving");
    tokio::spawn(accept(listener, pages, CONNECTIONS_MAX));
    Ok(address)
}

async fn accept(listener: TcpListener, pages: Pages, places: usize) {
    let places = Arc::new(Semaphore::new(places));
    loop {
        // Nobody closes it.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Out of file descriptors, most likely: those in use will end.
            Err(error) => {
                debug!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            if let Err(error) = converse(stream, pages).await {
                debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
}

async fn converse(stream: TcpStream, pages: Pages) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let pages = pages.clone();
        async move {
            if let Some(api) = &pages.api {
                if request.method() == Method::POST && request.uri().path() == whatif::PATH {
                    let (head, question) = request.into_parts();
                    return Ok(api.what_if(&head.headers, question).await);
                }
                return Ok(api.respond(request.method(), request.uri(), request.headers()).await);
            }
            let path = request.uri().path();
            if path == "/metrics" {
                refresh(&pages).await;
            }
            Ok::<_, Infallible>(answer(path, &pages))
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .max_buf_size(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    if let Ok(ended) = tokio::time::timeout(LIFE, connection.as_mut()).await {
        return ended;
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(LINGER, connection).await.unwrap_or(Ok(()))
}

/// Waits for fresh figures of queues and jobs, but not for a cycle that takes long: then those before are shown.
async fn refresh(pages: &Pages) {
    let Some(engine) = &pages.engine else { return };
    let (tell, told) = oneshot::channel();
    if engine.send(Input::Scraped(tell)).is_ok() {
        let _ = tokio::time::timeout(FIGURES, told).await;
    }
}

fn answer(path: &str, pages: &Pages) -> Response<Body> {
    const TEXT: &str = "text/plain; charset=utf-8";
    const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match (path, &pages.metrics, &pages.health) {
        ("/metrics", Some(metrics), _) => page(StatusCode::OK, METRICS, metrics.render()),
        ("/healthz" | "/livez", _, Some(health)) => match health.pulse.hangs() {
            None => page(StatusCode::OK, TEXT, "ok".to_owned()),
            Some(why) => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, why),
        },
        ("/readyz", _, Some(health)) => match health.missing() {
            None => page(StatusCode::OK, TEXT, "ok".to_owned()),
            Some(missing) => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, missing),
        },
        _ => page(StatusCode::NOT_FOUND, TEXT, "not found".to_owned()),
    }
}

fn page(status: StatusCode, content: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
        let pages =
            Pages { metrics: Some(Arc::default()), health: Some(Arc::clone(&health)), ..Pages::default() };
        let address = serve("--listen-address", "127.0.0.1:0", pages).await.unwrap();
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        health.wait_for(&["pods", "queues"].into());
        let waits = get(address, "/readyz").await;
        assert!(waits.ends_with("waiting for the first lists of pods, queues"), "{waits}");
        health.wait_for(&BTreeSet::new());
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/metrics").await.contains("phalanx_cycles_total 0"));
        assert!(get(address, "/secrets").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn a_scheduling_thread_that_hangs_is_no_longer_live() {
        let health = Arc::new(Health::new(Pulse::new(std::time::Duration::ZERO)));
        let pages = Pages { health: Some(Arc::clone(&health)), ..Pages::default() };
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
        let parse = |text| Address::parse("--listen-address", text);
        assert_eq!(parse(":8080").unwrap(), Address::Every(8080));
        for one in ["127.0.0.1:0", "[::1]:8080", "0.0.0.0:80"] {
            assert_eq!(parse(one).unwrap(), Address::One(one.parse().unwrap()));
        }
        for wrong in ["8080", ":", ":http", "::1:8080:"] {
            let expected = format!("--listen-address {wrong:?}: expected ADDRESS:PORT or :PORT");
            assert_eq!(parse(wrong).unwrap_err().0, expected);
        }
    }

    #[tokio::test]
    async fn a_port_alone_is_served_on_ipv6_and_on_ipv4() {
        let pages = || Pages { health: Some(Arc::default()), ..Pages::default() };
        let port = serve("--healthz-address", ":0", pages()).await.unwrap().port();
        assert!(get((Ipv4Addr::LOCALHOST, port).into(), "/healthz").await.starts_with("HTTP/1.1 200"));
        if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            return; // A machine without IPv6.
        }
        assert!(get((Ipv6Addr::LOCALHOST, port).into(), "/healthz").await.starts_with("HTTP/1.1 200"));
        let one = serve("--healthz-address", "[::1]:0", pages()).await.unwrap();
        assert!(get(one, "/healthz").await.starts_with("HTTP/1.1 200"));
    }

    async fn local(places: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pages = Pages { health: Some(Arc::default()), ..Pages::default() };
        tokio::spawn(accept(listener, pages, places));
        address
    }

    #[tokio::test(start_paused = true)]
    async fn headers_that_do_not_come_end_the_connection() {
        let address = local(1).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nho").await.unwrap();
        let end = tokio::time::timeout(HEADERS * 2, stream.read_to_end(&mut Vec::new())).await;
        assert!(end.is_ok(), "the connection is closed in time");
    }

    #[tokio::test]
    async fn headers_that_are_too_large_are_refused() {
        let mut stream = TcpStream::connect(local(1).await).await.unwrap();
        let large = "x".repeat(2 * HEADERS_MAX);
        let request = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nlarge: {large}\r\n\r\n");
        // The server may close the connection before it has read all.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(str::from_utf8(&status), Ok("HTTP/1.1 431"));
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_until_one_ends() {
        let address = local(2).await;
        let one = TcpStream::connect(address).await.unwrap();
        let _other = TcpStream::connect(address).await.unwrap();
        let third = tokio::spawn(get(address, "/healthz"));
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(!third.is_finished(), "two connections are open");
        drop(one);
        assert!(third.await.unwrap().starts_with("HTTP/1.1 200"));
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
