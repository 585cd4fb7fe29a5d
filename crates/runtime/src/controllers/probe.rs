//! Probes of JobFlows: requests to pods.
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::join_all;
use http::{Request, header};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use phalanx_controllers::flow::ProbeRequest;
use tokio::net::TcpStream;

/// A pod that has not answered by then does not count as ready.
const ANSWER: Duration = Duration::from_secs(3);
/// Nor do pods that have not all answered by then.
const ANSWERS: Duration = Duration::from_secs(30);
/// Pods of a probe that are asked together: each takes a connection.
const PODS_AT_ONCE: usize = 16;

/// Whether all pods answer as wanted. After some that do not, no more are asked.
pub(super) async fn ask(probe: &ProbeRequest, pods: &[IpAddr]) -> bool {
    let all = async {
        for some in pods.chunks(PODS_AT_ONCE) {
            if !all_answer(probe, some).await {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(ANSWERS, all).await.unwrap_or(false)
}

async fn all_answer(probe: &ProbeRequest, pods: &[IpAddr]) -> bool {
    let answers = join_all(pods.iter().map(|pod| async {
        let answered = tokio::time::timeout(ANSWER, one(probe, *pod)).await;
        matches!(answered, Ok(Some(())))
    }));
    answers.await.into_iter().all(|answered| answered)
}

/// What a JobFlow asks for comes from its author: only pods are asked, no service of the node or of the cloud.
fn is_of_a_pod(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(link_local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

async fn one(probe: &ProbeRequest, pod: IpAddr) -> Option<()> {
    let port = u16::try_from(probe.port).ok().filter(|port| *port > 0 && is_of_a_pod(pod))?;
    let address = SocketAddr::from((pod, port));
    let stream = TcpStream::connect(address).await.ok()?;
    let Some((path, header)) = &probe.http else { return Some(()) };
    http_get(stream, &address.to_string(), path, header.as_ref()).await
}

/// A redirection is an answer, and is not followed.
async fn http_get(
    stream: TcpStream,
    host: &str,
    path: &str,
    header: Option<&(String, String)>,
) -> Option<()> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut request = Request::get(path).header(header::HOST, host);
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let request = request.body(Empty::<Bytes>::new()).ok()?;
    // The connection may end with the answer; the request tells which of them it was.
    let drive = async {
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    let status = tokio::select! {
        answer = sender.send_request(request) => answer.ok()?.status(),
        () = drive => return None,
    };
    (200..400).contains(&status.as_u16()).then_some(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn only_addresses_of_pods_are_asked() {
        let probe = ProbeRequest { job: String::new(), task: String::new(), port: 80, http: None };
        for address in [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "0.0.0.0",
            "224.0.0.1",
        ] {
            assert!(!ask(&probe, &[address.parse().expect("an address")]).await, "{address}");
        }
    }

    /// A server that answers one request with this status, and returns its head.
    async fn served(status: &'static str) -> (TcpStream, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.expect("a request");
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.expect("an answer");
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        (TcpStream::connect(address).await.expect("a connection"), server)
    }

    #[tokio::test]
    async fn an_http_probe_passes_with_a_status_from_200_to_399() {
        for (status, passes) in [("200 OK", true), ("302 Found", true), ("404 No", false), ("500 No", false)]
        {
            let (stream, server) = served(status).await;
            let header = ("X-Probe".to_owned(), "yes".to_owned());
            let passed = http_get(stream, "10.0.0.1:80", "ready", Some(&header)).await.is_some();
            assert_eq!(passed, passes, "{status}");
            let head = server.await.expect("a request");
            assert!(head.starts_with("GET /ready HTTP/1.1\r\nhost: 10.0.0.1:80\r\nx-probe: yes"), "{head}");
        }
    }
}
