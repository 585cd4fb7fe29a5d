//! Lists and watches of one kind.
//!
//! kube's own read JSON only. The API server writes an event anew for each format and watcher, and protobuf costs it
//! and us a fraction of JSON, so kinds that have it are asked for in protobuf.
use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

use futures::FutureExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Bytes, Frame};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use phalanx_cache::{Change, Invalid, Page, protobuf};
use serde::de::Error as _;
use tracing::debug;

use super::Watched;
use crate::client::within;

/// Objects of a page of a list. Large pages cost memory for a moment, small ones a round trip each.
const PAGE: u32 = 2000;
/// The API server ends a watch after so many seconds.
const TIMEOUT: u32 = 290;
/// A watch on which nothing came for longer is dead: the API server sends a bookmark about every minute.
const IDLE: Duration = Duration::from_secs(150);
/// An answer has begun, and a page has come, within this time; the API server gives up a request after as long.
const ANSWER: Duration = Duration::from_mins(1);
/// Bytes of a page that are decoded at once; a larger one is decoded on another thread.
const SMALL: usize = 64 << 10;
/// Bytes that are taken from a connection together.
const TOGETHER: usize = 1 << 20;
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// How a kind is read from protobuf.
#[derive(Debug)]
pub struct Protobuf<K> {
    page: fn(&[u8]) -> Result<Page<K>, Invalid>,
    change: fn(&[u8]) -> Result<Change<K>, Invalid>,
}

impl<K: protobuf::Protobuf> Protobuf<K> {
    /// As [`protobuf`] reads it.
    pub const READ: Self = Self { page: protobuf::page, change: protobuf::change };
}

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request failed.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// The API server said so within a watch.
    #[error("the watch ended: {}", .0.message)]
    Event(Box<Status>),
    /// A list without a version to watch from.
    #[error("a list has no resourceVersion")]
    NoVersion,
}

impl Error {
    /// The HTTP status, if the API server has answered with one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Request(kube::Error::Api(status)) | Self::Event(status) => Some(status.code),
            Self::Request(_) | Self::NoVersion => None,
        }
    }

    /// The error of the request itself.
    pub(super) fn request(&self) -> Option<&kube::Error> {
        if let Self::Request(error) = self { Some(error) } else { None }
    }
}

/// What stands in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Protobuf,
}

impl Format {
    fn of<B>(response: &Response<B>) -> Self {
        let content = response.headers().get(CONTENT_TYPE).and_then(|content| content.to_str().ok());
        if content.is_some_and(|content| content.starts_with(PROTOBUF)) { Self::Protobuf } else { Self::Json }
    }
}

/// The API server, for objects of one kind.
pub(super) struct Source<K> {
    client: Client,
    kind: PhantomData<fn() -> K>,
}

impl<K: Watched> Source<K> {
    pub(super) fn new(client: Client) -> Self {
        Self { client, kind: PhantomData }
    }

    /// A page of the list: the first one, or the one after it.
    pub(super) async fn page(&self, more: &str) -> Result<Page<K>, Error> {
        let after = if more.is_empty() { String::new() } else { format!("&continue={more}") };
        let (format, body) = self.get(&format!("limit={PAGE}{after}")).await?;
        let body = answered(body.collect()).await?.to_bytes();
        if body.len() <= SMALL {
            return Ok(page(format, &body)?);
        }
        let decoded = tokio::task::spawn_blocking(move || page(format, &body)).await;
        Ok(decoded.map_err(|error| kube::Error::Service(error.into()))??)
    }

    /// All changes after this version, until the connection ends.
    pub(super) async fn changes(&self, version: &str) -> Result<Changes<K>, Error> {
        let options = format!("timeoutSeconds={TIMEOUT}&allowWatchBookmarks=true");
        let (format, body) = self.get(&format!("watch=true&{options}&resourceVersion={version}")).await?;
        Ok(Changes { format, body, buffer: Vec::new(), read: 0, ended: false, kind: PhantomData })
    }

    async fn get(&self, query: &str) -> Result<(Format, Body), Error> {
        let mut request = Request::get(format!("{}?{query}", K::url_path(&(), None)));
        if K::PROTOBUF.is_some() {
            request = request.header(ACCEPT, format!("{PROTOBUF}, application/json"));
        }
        let request = request.body(Body::empty()).map_err(kube::Error::HttpError)?;
        let response = answered(self.client.send(request)).await?;
        let (code, format, body) = (response.status(), Format::of(&response), response.into_body());
        if code.is_success() {
            return Ok((format, body));
        }
        let body = answered(body.collect()).await?.to_bytes();
        Err(Error::Request(kube::Error::Api(refusal(format, code.as_u16(), &body))))
    }
}

/// A request without an answer in time is repeated, as after any other fault of the connection. All kinds have the same
/// text, so that it is logged once.
async fn answered<T, E: Into<kube::Error>>(answer: impl Future<Output = Result<T, E>>) -> kube::Result<T> {
    within(ANSWER, format!("no answer within {ANSWER:?}"), answer).await
}

/// A watch that runs.
pub(super) struct Changes<K, B = Body> {
    format: Format,
    body: B,
    /// What has arrived; up to `read` it was given out.
    buffer: Vec<u8>,
    read: usize,
    ended: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K: Watched, B: HttpBody<Data = Bytes, Error: Display> + Unpin> Changes<K, B> {
    /// Waits until something arrives and takes in all that has; false when there is no more.
    pub(super) async fn arrive(&mut self) -> bool {
        if self.ended {
            return false;
        }
        self.buffer.drain(..std::mem::take(&mut self.read));
        let first = tokio::time::timeout(IDLE, self.body.frame()).await;
        self.take_in(first.ok().flatten());
        while !self.ended && self.buffer.len() < TOGETHER {
            let Some(frame) = self.body.frame().now_or_never() else { break };
            self.take_in(frame);
        }
        true
    }

    fn take_in(&mut self, frame: Option<Result<Frame<Bytes>, B::Error>>) {
        match frame {
            Some(Ok(frame)) => self.buffer.extend(frame.data_ref().into_iter().flatten()),
            // What is wrong, the next request tells.
            Some(Err(error)) => {
                debug!(kind = K::PLURAL, "a watch broke off: {error}");
                self.ended = true;
            }
            None => self.ended = true,
        }
    }

    /// The next change of those that have arrived.
    pub(super) fn next(&mut self) -> Option<Result<Change<K>, Error>> {
        let rest = &self.buffer[self.read..];
        let (length, frame) = match self.format {
            Format::Json => {
                let end = rest.iter().position(|byte| *byte == b'\n')?;
                (end + 1, &rest[..end])
            }
            Format::Protobuf => {
                let (length, rest) = rest.split_first_chunk()?;
                let length = u32::from_be_bytes(*length) as usize;
                (4 + length, rest.get(..length)?)
            }
        };
        self.read += length;
        Some(change(self.format, frame).map_err(Error::from))
    }
}

fn page<K: Watched>(format: Format, body: &[u8]) -> kube::Result<Page<K>> {
    match (format, K::PROTOBUF) {
        (Format::Protobuf, Some(protobuf)) => (protobuf.page)(body).map_err(unreadable),
        _ => Page::from_json(body).map_err(kube::Error::SerdeError),
    }
}

fn change<K: Watched>(format: Format, frame: &[u8]) -> kube::Result<Change<K>> {
    match (format, K::PROTOBUF) {
        (Format::Protobuf, Some(protobuf)) => (protobuf.change)(frame).map_err(unreadable),
        _ => Change::from_json(frame).map_err(kube::Error::SerdeError),
    }
}

fn unreadable(invalid: Invalid) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(invalid))
}

/// What the API server says of a request that failed; a proxy before it may say anything.
fn refusal(format: Format, code: u16, body: &[u8]) -> Box<Status> {
    let said = match format {
        Format::Json => serde_json::from_slice(body).ok(),
        Format::Protobuf => protobuf::status(body).ok(),
    };
    said.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        Box::new(Status::failure(text.trim(), "Failed to parse error data").with_code(code))
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use kube::Resource;
    use phalanx_cache::{Guarded, slim};

    use super::*;

    /// Written by Kubernetes' own types: two pods that come, one that goes, a bookmark, an error.
    const WATCH: &[u8] = include_bytes!("../../../cache/tests/it/protobuf/watch.pb");

    async fn told(format: Format, bytes: &'static [u8], together: usize) -> Vec<String> {
        let chunks = bytes.chunks(together).map(|chunk| Ok::<_, kube::Error>(Frame::data(chunk.into())));
        let body = StreamBody::new(futures::stream::iter(chunks.collect::<Vec<_>>()));
        let (buffer, kind) = (Vec::new(), PhantomData);
        let mut changes = Changes::<slim::Pod, _> { format, body, buffer, read: 0, ended: false, kind };
        let mut told = Vec::new();
        let name = |pod: &Guarded<slim::Pod>| pod.meta().name.clone().unwrap_or_default();
        while changes.arrive().await {
            while let Some(change) = changes.next() {
                told.push(match change {
                    Ok(Change::Applied(pod)) => format!("applied {}", name(&pod)),
                    Ok(Change::Deleted(pod)) => format!("deleted {}", name(&pod)),
                    Ok(Change::Bookmark(version)) => format!("up to {version}"),
                    Ok(Change::Error(status)) => format!("{} {}", status.code, status.message),
                    Err(error) => format!("unreadable: {error}"),
                });
            }
        }
        told
    }

    #[tokio::test]
    async fn events_are_whole_whatever_the_chunks_they_arrive_in() {
        let lines = br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}
{"type":"DELETED","object":{"metadata":{"name":"a"}}}
{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}
{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}
{"type":"ADDED","object":{"metadata":"#;
        for together in [1, 3, 50, 5000] {
            let all = ["applied bare", "applied full", "deleted bare", "up to 99", "410 too old"];
            assert_eq!(told(Format::Protobuf, WATCH, together).await, all, "{together} bytes at a time");
            let all = ["applied a", "deleted a", "up to 9", "410 too old"];
            assert_eq!(told(Format::Json, lines, together).await, all, "{together} bytes at a time");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_a_time_out() {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
        });
        let source = Source::<slim::Pod>::new(Client::new(silent, "default"));
        let page = source.page("").await.err().map(|error| error.to_string());
        assert!(page.is_some_and(|error| error.contains("no answer within 60s")));
        assert!(source.changes("1").await.is_err());
    }

    #[test]
    fn a_refusal_is_read_from_a_status_or_from_plain_text() {
        let status = refusal(Format::Json, 403, br#"{"kind":"Status","code":403,"message":"no"}"#);
        assert_eq!((status.code, status.message.as_str()), (403, "no"));
        for format in [Format::Json, Format::Protobuf] {
            let status = refusal(format, 502, b"<html>bad gateway</html>\n");
            assert_eq!((status.code, status.message.as_str()), (502, "<html>bad gateway</html>"));
        }
    }
}
