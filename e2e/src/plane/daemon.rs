//! One running part of the plane.

use std::{
    fs::{self, File},
    future::Future,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// The API server may ignore TERM while watches are open.
const GRACE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);
/// How long one look at a starting daemon may hang before its process is looked at again.
const LOOK: Duration = Duration::from_secs(10);
const TAIL_LINES: usize = 20;

/// A process of the control plane. Dropping it ends the process: TERM, and KILL after a second.
#[derive(Debug)]
pub struct Daemon {
    name: &'static str,
    log: PathBuf,
    /// Its standard input is a pipe whose other end is held here: when this process dies, in whatever
    /// way, the pipe closes and the daemon leaves.
    child: Child,
}

/// A daemon that did not become ready.
#[derive(Debug, thiserror::Error)]
#[error("{name} {problem}; the end of {}:\n{tail}", log.display())]
pub(super) struct StartError {
    name: &'static str,
    problem: String,
    log: PathBuf,
    tail: String,
}

impl StartError {
    /// Whether another process took the port.
    pub(super) fn is_clash(&self) -> bool {
        self.tail.contains("address already in use")
    }
}

impl Daemon {
    /// Runs `binary name args` with its output in `log`.
    pub(super) fn spawn(binary: &Path, name: &'static str, args: &[String], log: PathBuf) -> Result<Self> {
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("opening {}", log.display()))?;
        let child = Command::new(binary)
            .args(["--tethered", name])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().context("sharing the log")?)
            .stderr(out)
            // A ctrl-c is for us; the daemons are stopped in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("running {} {name}", binary.display()))?;
        Ok(Self { name, log, child })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until `ready` returns `Ok`, and no longer than the process lives.
    pub(super) async fn wait_ready<F, Fut>(&mut self, deadline: Duration, mut ready: F) -> Result<()>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<()>>,
    {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("asking after a child")? {
                return Err(self.failure(format!("ended ({status})")).into());
            }
            let problem = match tokio::time::timeout(LOOK, ready()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "no answer".to_owned(),
            };
            if start.elapsed() > deadline {
                return Err(self.failure(format!("is not ready after {deadline:?}: {problem}")).into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn failure(&self, problem: String) -> StartError {
        let tail = fs::read_to_string(&self.log).map_or_else(|error| error.to_string(), |text| tail(&text));
        StartError { name: self.name, problem, log: self.log.clone(), tail }
    }

    /// Asks the process to end, without waiting.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) fn signal(&self, signal: Signal) {
        // An unreaped child keeps its id, so this cannot hit another process.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, signal);
        }
    }

    fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.ended() {
            return;
        }
        self.terminate();
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if self.ended() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
