//! A link to the API server that is cut and held up.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// A TCP link to the API server that can be cut and held up.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    held: bool,
    cuts: u32,
}

impl Link {
    /// To the server at this URL.
    pub async fn to(url: &str) -> Result<Self> {
        let target: SocketAddr = url.trim_start_matches("https://").parse()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (state, seen) = watch::channel(State::default());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = seen.clone();
                tokio::spawn(async move { connect(stream, target, state).await.unwrap_or_default() });
            }
        });
        Ok(Self { address, state, task })
    }

    /// The flag by which a scheduler goes through it.
    pub fn flag(&self) -> String {
        format!("--master=https://{}", self.address)
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Nothing arrives any more, in either direction, and no connection ends.
    pub fn hold(&self) {
        self.state.send_modify(|state| state.held = true);
    }

    /// Everything arrives, late.
    pub fn let_go(&self) {
        self.state.send_modify(|state| state.held = false);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connect(from: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) -> Result<()> {
    let cuts = state.borrow().cuts;
    let (from_read, from_write) = from.into_split();
    let (to_read, to_write) = TcpStream::connect(target).await?.into_split();
    tokio::select! {
        ended = pump(from_read, to_write, state.clone()) => ended,
        ended = pump(to_read, from_write, state.clone()) => ended,
        _ = state.wait_for(|state| state.cuts != cuts) => Ok(()),
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
) -> Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        state.wait_for(|state| !state.held).await?;
        to.write_all(&bytes[..count]).await?;
    }
}
