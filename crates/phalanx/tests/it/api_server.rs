//! An API server that answers each request by a function, for commands that send a request or two.
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::run::Ran;

/// A request: `GET /apis/...`, and its body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) body: Value,
}

type Answers = dyn Fn(&str) -> (u16, Value) + Send + Sync;

/// Serves until the process ends; each connection has a thread.
pub(crate) struct ApiServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl ApiServer {
    /// Answers by method and path, without the query.
    pub(crate) fn start(answers: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Self {
        Self::by_line(move |line| answers(line.split('?').next().unwrap_or_default()))
    }

    /// Answers by method and path with the query, if there is one.
    pub(crate) fn by_line(answers: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, answers): (_, Arc<Answers>) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answers));
        let server = Self { address, seen: Arc::clone(&seen) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
                std::thread::spawn(move || serve(stream, &seen, &*answers));
            }
        });
        server
    }

    /// Answers all requests with the same object.
    pub(crate) fn always(object: &Value) -> Self {
        let object = object.clone();
        Self::start(move |_| (200, object.clone()))
    }

    /// Where it serves.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Runs `phalanx` on it.
    pub(crate) fn phalanx(&self, args: &[&str]) -> Ran {
        self.run(env!("CARGO_BIN_EXE_phalanx"), args)
    }

    /// Runs a program of this name on it, with an environment that names no other cluster.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Ran {
        let mut command = Command::new(program);
        command.args(args).arg("--master").arg(format!("http://{}", self.address));
        let output = command.env("KUBECONFIG", "").env("HOME", "/none").output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// The first lines of all requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|request| request.line).collect()
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Request>>, answers: &Answers) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((line, body)) = read(&mut reader) {
        let line = line.trim_end_matches('?').to_owned();
        seen.lock().unwrap().push(Request { line: line.clone(), body });
        let (code, answer) = answers(&line);
        let answer = answer.to_string();
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 {code} .\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        if stream.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

/// Method and path, and the body; `None` when the client has closed the connection.
fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let length = lines
        .iter()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let first = lines.first()?.rsplit_once(' ')?.0.to_owned();
    Some((first, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

/// A refusal as the API server gives it.
pub(crate) fn refusal(code: u16, message: &str) -> (u16, Value) {
    let kind = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"});
    let mut status = kind;
    status["message"] = json!(message);
    status["reason"] = json!("NotFound");
    status["code"] = json!(code);
    (code, status)
}
