//! The journal of a running scheduler, sent as it is read: it may be larger than memory.
use std::io::{self, Read};
use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use futures::stream::unfold;
use http::StatusCode;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use tokio::sync::{mpsc, oneshot};

use super::Refused;
use crate::engine::Input;
use crate::journal::{NoCapture, Recording, Wanted};
use crate::server::Body;

/// Its path, which nonResourceURLs of a ClusterRole allow. Not below `/api/`: Kubernetes' own role `system:discovery`
/// allows that to everybody.
pub(super) const PATH: &str = "/debug/capture";

/// How long the lines so far may take to be written.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is read at once.
const CHUNK: usize = 64 << 10;

/// The lines of the journal since the scheduler began.
pub(super) async fn body(engine: &std_mpsc::Sender<Input>) -> Result<Body, Refused> {
    let recording = recording(engine, Wanted::Replay).await?;
    let lines = tokio::task::spawn_blocking(move || recording.since_start()).await;
    Ok(stream(lines.map_err(|_| busy())?.map_err(|why| refused(&why))?))
}

/// The files of the journal, with all that happened so far.
pub(super) async fn recording(
    engine: &std_mpsc::Sender<Input>,
    wanted: Wanted,
) -> Result<Recording, Refused> {
    let ends = || Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the scheduler ends");
    let (tell, told) = oneshot::channel();
    engine.send(Input::Journal(wanted, tell)).map_err(|_| ends())?;
    let told = tokio::time::timeout(PATIENCE, told).await.map_err(|_| busy())?;
    told.map_err(|_| ends())?.map_err(|why| refused(&why))
}

pub(super) fn busy() -> Refused {
    refused(&NoCapture::Busy)
}

fn refused(why: &NoCapture) -> Refused {
    let status = match why {
        NoCapture::NoJournal | NoCapture::NoInputs | NoCapture::NoStart | NoCapture::Dropped => {
            StatusCode::NOT_FOUND
        }
        NoCapture::Busy => StatusCode::SERVICE_UNAVAILABLE,
        NoCapture::Unreadable(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refused::new(status, why.to_string())
}

/// A few chunks wait for the client at most.
fn stream(mut lines: impl Read + Send + 'static) -> Body {
    let (send, chunks) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        loop {
            let chunk = read(&mut lines);
            let ends = chunk.as_ref().map_or(true, Bytes::is_empty);
            // Who asked may have gone.
            if chunk.as_ref().is_ok_and(Bytes::is_empty) || send.blocking_send(chunk).is_err() || ends {
                return;
            }
        }
    });
    let frames = unfold(chunks, async |mut chunks: mpsc::Receiver<io::Result<Bytes>>| {
        let chunk = chunks.recv().await?;
        Some((chunk.map(Frame::data), chunks))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// The next chunk; the end is empty.
fn read(lines: &mut impl Read) -> io::Result<Bytes> {
    let mut chunk = vec![0; CHUNK];
    let length = lines.read(&mut chunk)?;
    chunk.truncate(length);
    Ok(chunk.into())
}
