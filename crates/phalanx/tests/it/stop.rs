//! The scheduler ends on SIGTERM, whatever the API server does.
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::folder;

/// Longer than a stop takes, and shorter than each time-out that it must not wait for.
const SOON: Duration = Duration::from_secs(4);

/// The number of failed requests before the log is read; the failure is logged once.
const TRIES: usize = 4;

struct Scheduler {
    child: Child,
    log: BufReader<ChildStderr>,
    lines: Vec<String>,
}

impl Scheduler {
    fn start(folder: &Path, url: &str) -> Self {
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c}}}}]\n"
        );
        std::fs::write(folder.join("kubeconfig"), kubeconfig).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_phalanx"))
            .args([
                "scheduler",
                "--kubeconfig",
                "kubeconfig",
                "--leader-elect-retry-period",
                "100ms",
                "--api-address=",
            ])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, lines: Vec::new() }
    }

    /// Reads the log until a line has this text.
    fn wait_for(&mut self, text: &str) {
        while !self.lines.last().is_some_and(|line| line.contains(text)) {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "ended before {text:?}: {:?}", self.lines);
            self.lines.push(line);
        }
    }

    /// Sends SIGTERM; returns the log once the process has ended with exit code 0.
    fn stop(mut self, signal: Signal) -> Vec<String> {
        let start = Instant::now();
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        // The log ends with the process.
        self.lines.extend(self.log.by_ref().lines().map(Result::unwrap));
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {:?}", self.lines);
        assert!(start.elapsed() < SOON, "{:?}: {:?}", start.elapsed(), self.lines);
        std::mem::take(&mut self.lines)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Ends the process of a failed test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(log: &[String], text: &str) -> usize {
    log.iter().filter(|line| line.contains(text)).count()
}

#[test]
fn sigterm_ends_the_process_while_the_api_server_is_down() {
    // Counts every connection and closes it.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    let (came, comes) = mpsc::channel();
    // The thread ends with the test.
    std::thread::spawn(move || {
        closed.incoming().flatten().try_for_each(|stream| {
            let head = head(&mut BufReader::new(&stream)).unwrap_or_default();
            drop(stream);
            came.send(head)
        })
    });
    for signal in [Signal::TERM, Signal::INT] {
        let folder = folder(&[]);
        let mut scheduler = Scheduler::start(folder.path(), &url);
        scheduler.wait_for("no answer from the API server");
        comes.try_iter().for_each(drop);
        comes.iter().take(TRIES).for_each(drop);
        let log = scheduler.stop(signal);
        assert_eq!(count(&log, &url), 1, "{log:?}");
        assert!(count(&log, "stopping") == 1 && count(&log, "seed") == 1 && log.len() == 3, "{log:?}");
    }
}

#[test]
fn sigterm_ends_the_process_while_the_api_server_does_not_answer() {
    // The kernel accepts connections, and no thread reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = folder(&[]);
    let mut scheduler = Scheduler::start(folder.path(), &format!("http://{}", silent.local_addr().unwrap()));
    // The first request is on its way.
    let _first = silent.accept().unwrap();
    let log = std::mem::take(&mut scheduler.lines);
    assert!(log.is_empty());
    scheduler.stop(Signal::TERM);
}

#[test]
fn sigterm_ends_the_process_while_the_crds_are_missing() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let (asked, asks) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in server.incoming().flatten() {
            let asked = asked.clone();
            std::thread::spawn(move || without_definitions(&stream, &asked));
        }
    });
    let folder = folder(&[]);
    let mut scheduler = Scheduler::start(folder.path(), &url);
    scheduler.wait_for(".scheduling.volcano.sh is not installed");
    scheduler.wait_for(".scheduling.volcano.sh is not installed");
    // Both kinds have been requested several times.
    let mut left = BTreeMap::from([("/podgroups", TRIES), ("/queues", TRIES)]);
    while left.values().any(|left| *left > 0) {
        let request = asks.recv_timeout(SOON * 5).unwrap();
        for (_, left) in left.iter_mut().filter(|(plural, _)| request.contains(**plural)) {
            *left = left.saturating_sub(1);
        }
    }
    let log = scheduler.stop(Signal::TERM);
    for definition in ["podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"] {
        assert_eq!(count(&log, &format!("{definition} is not installed")), 1, "{log:?}");
    }
    assert_eq!(count(&log, "WARN"), 2, "{log:?}");
}

/// The lines of a request before its body; `None` when there is no other request.
fn head(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut head = Vec::new();
    while head.last().is_none_or(|line: &String| !line.trim().is_empty()) {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        head.push(line);
    }
    Some(head)
}

/// An API server with Kubernetes' own kinds, without objects, that accepts any Lease. An unknown path
/// is reported with the first line of the request.
fn without_definitions(stream: &TcpStream, unknown: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(stream);
    while let Some(head) = head(&mut reader) {
        let length = head
            .iter()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        if head[0].contains("watch=") {
            continue;
        }
        let (status, answer) = if head[0].contains("volcano.sh") {
            // The receiver is gone once the test is over.
            let _ = unknown.send(head[0].clone());
            (
                404,
                "{\"kind\": \"Status\", \"status\": \"Failure\", \"code\": 404, \"message\": \"not found\"}"
                    .to_owned(),
            )
        } else if head[0].contains("/leases") && length.is_some() {
            (200, String::from_utf8(body).unwrap())
        } else if head[0].contains("/leases") {
            (404, "{\"kind\": \"Status\", \"status\": \"Failure\", \"code\": 404, \"reason\": \"NotFound\", \"message\": \"no\"}".to_owned())
        } else {
            (200, "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"metadata\": {\"resourceVersion\": \"1\"}, \"items\": []}".to_owned())
        };
        let head = format!(
            "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if (&*stream).write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}
