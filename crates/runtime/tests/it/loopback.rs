//! A small HTTP server on the loopback interface, for clients that are not the API server's.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// With the query.
    pub(crate) target: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

/// What to answer: a status and a body; nothing leaves the client waiting.
pub(crate) type Answer = Option<(u16, Value)>;

/// What a server does that does not answer.
#[derive(Clone, Copy, PartialEq)]
enum Silence {
    Waits,
    HangsUp,
}

/// Lives as long as it is held.
pub(crate) struct Loopback {
    pub(crate) url: String,
    log: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<Mutex<bool>>,
}

impl Loopback {
    /// Serves with a function.
    pub(crate) fn new(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::serving(answer, Silence::Waits)
    }

    /// One that closes the connection where nothing is answered.
    pub(crate) fn hanging_up(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::serving(answer, Silence::HangsUp)
    }

    fn serving(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static, silence: Silence) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (log, stop) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::new(Mutex::new(false)));
        let (seen, stopped, answer) = (Arc::clone(&log), Arc::clone(&stop), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if *stopped.lock().unwrap() {
                    return;
                }
                let (Ok(stream), seen, answer) = (stream, Arc::clone(&seen), Arc::clone(&answer)) else {
                    continue;
                };
                std::thread::spawn(move || serve(stream, &seen, &*answer, silence));
            }
        });
        Self { url, log, stop }
    }

    /// What was asked so far.
    pub(crate) fn log(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        *self.stop.lock().unwrap() = true;
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

/// Requests of one connection, until it is closed.
fn serve(stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Answer, silence: Silence) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(asked) = read(&mut reader) {
        log.lock().unwrap().push(asked.clone());
        let Some((status, body)) = answer(&asked) else {
            if silence == Silence::Waits {
                // Until the client gives up.
                let _ = reader.read(&mut [0]);
            }
            return;
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if writer.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(ToOwned::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, target, authorization, body: serde_json::from_slice(&body).unwrap_or_default() })
}
