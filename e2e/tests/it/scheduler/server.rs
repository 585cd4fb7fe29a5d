//! A server that a test answers for.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Answers HTTP on loopback until it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// `answer` gets the path with its query and the body, null where there is none.
    pub(super) async fn start(
        answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                // Whoever asks sees a connection that breaks off.
                tokio::spawn(async move { serve(stream, &*answer).await.unwrap_or_default() });
            }
        });
        Ok(Self { address, task })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One request: the connection is closed after it.
async fn serve(stream: TcpStream, answer: &(impl Fn(&str, &Value) -> Value + Sync)) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    let path = first.split(' ').nth(1).context("a path")?;
    let answer = answer(path, &body).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    stream.write_all((head + &answer).as_bytes()).await?;
    Ok(stream.shutdown().await?)
}
