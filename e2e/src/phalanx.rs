//! The scheduler under test, as a process.

use std::{
    fs,
    net::SocketAddr,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{Account, Plane, wait};

/// A program to use instead of the one that cargo builds.
const BINARY: &str = "PHALANX_BIN";
/// Both are served on one free port, and the log names it.
const FOR_TESTS: [&str; 3] =
    ["--healthz-address=127.0.0.1:0", "--listen-address=127.0.0.1:0", "--log-format=json"];
const READY_WITHIN: Duration = Duration::from_mins(3);
/// Longer than the scheduler takes to send what is on its way and to release its lease.
const GRACE: Duration = Duration::from_mins(2);

/// The `phalanx` program: the one named by `PHALANX_BIN`, or the workspace's, built first if need be, with
/// optimisations when this program was built with them.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(path) = std::env::var_os(BINARY) {
        return Ok(path.into());
    }
    BUILT
        .get_or_init(|| build().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // The program that `cargo test --workspace` has built; of the package alone, crates would have other features.
    let optimised = ["build", "--release", "--package", "phalanx"];
    let of_tests = ["test", "--no-run", "--workspace"];
    command.args(if cfg!(debug_assertions) { &of_tests[..] } else { &optimised });
    command.args(["--quiet", "--message-format", "json-render-diagnostics"]);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(""));
    // What cargo tells a test of its package would have build scripts run anew here, and again in the next build.
    for (name, _) in std::env::vars_os() {
        let told =
            name.to_str().is_some_and(|it| it.starts_with("CARGO_PKG_") || it.starts_with("CARGO_MANIFEST_"));
        if told {
            command.env_remove(name);
        }
    }
    let output = command.stderr(Stdio::inherit()).output().context("running cargo")?;
    ensure!(output.status.success(), "building phalanx failed ({})", output.status);
    let messages = String::from_utf8_lossy(&output.stdout);
    messages.lines().find_map(program).context("cargo named no program")
}

/// The program, if a message of cargo says where it is.
fn program(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_program = message["target"]["name"] == "phalanx" && message["profile"]["test"] == false;
    is_program.then(|| message["executable"].as_str().map(PathBuf::from))?
}

/// The whole answer to a request with these headers.
async fn get(address: SocketAddr, path: &str, headers: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: phalanx\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// A running `phalanx scheduler`, or `phalanx controllers`, under the service account and with the rights of `deploy/`.
/// Dropping it kills the process.
#[derive(Debug)]
pub struct Phalanx {
    child: Child,
    log: PathBuf,
    health: SocketAddr,
}

impl Phalanx {
    /// Starts it on a plane, with more flags of the scheduler, and waits until its first lists are in. Health and
    /// metrics are served on one free port; there is no leader election unless `args` asks for it.
    pub async fn start(plane: &Plane, args: &[&str]) -> Result<Self> {
        Self::start_in_pod(plane, &[], args).await
    }

    /// The same with variables that the manifest of its pod would set.
    pub async fn start_in_pod(plane: &Plane, variables: &[(&str, &str)], args: &[&str]) -> Result<Self> {
        let mut command = Self::command(plane, "scheduler", args).await?;
        command.envs(variables.iter().copied());
        let phalanx = Self::spawn(plane, command).await?;
        phalanx.ready().await?;
        Ok(phalanx)
    }

    /// Starts `phalanx controllers` likewise.
    pub async fn start_controllers(plane: &Plane, args: &[&str]) -> Result<Self> {
        let phalanx = Self::spawn(plane, Self::command(plane, "controllers", args).await?).await?;
        phalanx.ready().await?;
        Ok(phalanx)
    }

    /// A scheduler without waiting for the lists.
    pub async fn launch(plane: &Plane, args: &[&str]) -> Result<Self> {
        Self::spawn(plane, Self::command(plane, "scheduler", args).await?).await
    }

    async fn command(plane: &Plane, command: &str, args: &[&str]) -> Result<Command> {
        let (program, name) = (tokio::task::spawn_blocking(binary).await??, command);
        let mut command = Command::new(program);
        command.arg(name);
        if !args.iter().any(|arg| arg.starts_with("--kubeconfig")) {
            let kubeconfig = plane.kubeconfig_of(account(name, args)).await?;
            command.arg(format!("--kubeconfig={}", kubeconfig.display()));
        }
        command.args(["--enable-healthz", "--enable-metrics"]);
        if !args.iter().any(|arg| arg.starts_with("--leader-elect")) {
            command.arg("--leader-elect=false");
        }
        if name == "scheduler" && !args.iter().any(|arg| arg.starts_with("--seed")) {
            command.arg("--seed=0");
        }
        command.args(FOR_TESTS).args(args);
        Ok(command)
    }

    /// Starts it linked as `vc-scheduler` and waits until its first lists are in. It gets these arguments, and behind
    /// them where to serve and how to log; which cluster it is for stands in its environment, as in a pod.
    pub async fn start_as_vc_scheduler(plane: &Plane, args: &[&str]) -> Result<Self> {
        let program = plane.dir().join("vc-scheduler");
        symlink(tokio::task::spawn_blocking(binary).await??, &program)?;
        let mut command = Command::new(program);
        let kubeconfig = plane.kubeconfig_of(account("scheduler", args)).await?;
        command.env("KUBECONFIG", kubeconfig).args(args).args(FOR_TESTS);
        let phalanx = Self::spawn(plane, command).await?;
        phalanx.ready().await?;
        Ok(phalanx)
    }

    async fn spawn(plane: &Plane, mut command: Command) -> Result<Self> {
        let log = tempfile::Builder::new().prefix("phalanx-").suffix(".log").tempfile_in(plane.dir())?;
        let (file, log) = log.keep().context("keeping the log")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).process_group(0);
        let child = command.spawn().with_context(|| format!("running {command:?}"))?;
        let mut phalanx = Self { child, log, health: SocketAddr::from(([127, 0, 0, 1], 0)) };
        phalanx.health = phalanx.address().await?;
        Ok(phalanx)
    }

    async fn address(&mut self) -> Result<SocketAddr> {
        let log = self.log.clone();
        let child = std::cell::RefCell::new(&mut self.child);
        wait::until(READY_WITHIN, "the scheduler's address", || {
            let ended = child.borrow_mut().try_wait();
            let text = fs::read_to_string(&log);
            async move {
                let text = text?;
                if let Some(status) = ended? {
                    return Ok(Err(anyhow!("the scheduler ended ({status}):\n{text}")));
                }
                Ok(Ok(served_address(&text).context("not served yet")?))
            }
        })
        .await?
    }

    /// Waits until the first lists are in.
    pub async fn ready(&self) -> Result<()> {
        wait::until(READY_WITHIN, "the scheduler to be ready", || async {
            let answer = self.get("/readyz").await?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            Ok(())
        })
        .await
        .with_context(|| self.log_text())
    }

    /// The value of a metric without labels, or with exactly these labels: `name{label="value"}`.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = self.metrics().await?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.with_context(|| format!("no metric {name}"))?.parse().context("a number")
    }

    /// The text of `/metrics`.
    pub async fn metrics(&self) -> Result<String> {
        self.get("/metrics").await
    }

    async fn get(&self, path: &str) -> Result<String> {
        Ok(String::from_utf8(get(self.health, path, "").await?)?)
    }

    /// The answer of its own API to somebody with a token, or to nobody: the first line and the body.
    pub async fn ask(&self, path: &str, token: Option<&str>) -> Result<(String, Vec<u8>)> {
        let address = self.api_address().context("an API")?;
        let header = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let answer = get(address, path, header.as_deref().unwrap_or_default()).await?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").context("no end of the headers")?;
        let first = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        Ok((String::from_utf8(first.to_vec())?, answer[end + 4..].to_vec()))
    }

    /// Where its own API is served, once it is.
    pub fn api_address(&self) -> Option<SocketAddr> {
        served(&self.log_text(), |line| line["api"] == true)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it logged so far.
    pub fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_else(|error| error.to_string())
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Keeps it from running until [`Phalanx::resume`].
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Phalanx::pause`].
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// An unreaped child keeps its id, so this cannot hit another process.
    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).context("a process has an id")?;
        kill_process(pid, signal).with_context(|| format!("sending {signal:?}"))
    }

    /// Ends it as Kubernetes does, and waits.
    pub async fn stop(mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let child = std::cell::RefCell::new(&mut self.child);
        wait::until(GRACE, "the scheduler to end", || {
            let status = child.borrow_mut().try_wait();
            async move { status?.context("it runs") }
        })
        .await
    }
}

impl Drop for Phalanx {
    fn drop(&mut self) {
        // An unreaped child keeps its id, so this cannot hit another process.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the scheduler's log:\n{}", self.log_text());
        }
    }
}

/// The service account of a command.
fn account(command: &str, args: &[&str]) -> Account {
    match command {
        "controllers" => Account::Controllers,
        _ if args.contains(&"--controllers") => Account::Both,
        _ => Account::Scheduler,
    }
}

/// Where health and metrics are served, by the log.
fn served_address(log: &str) -> Option<SocketAddr> {
    served(log, |line| line["api"] != true)
}

/// The address in the first line of the log about such a server.
fn served(log: &str, is: impl Fn(&serde_json::Value) -> bool) -> Option<SocketAddr> {
    let address = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let told = line["message"] == "serving" && is(&line);
        told.then(|| line["address"].as_str()?.parse().ok()).flatten()
    };
    log.lines().find_map(address)
}

/// Runs `phalanx ARGS` to its end; returns its exit code and what it wrote to standard error.
pub async fn run(args: &[&str]) -> Result<(i32, String)> {
    let program = tokio::task::spawn_blocking(binary).await??;
    let output = tokio::process::Command::new(program).args(args).stdin(Stdio::null()).output().await?;
    match output.status.code() {
        Some(code) => Ok((code, String::from_utf8_lossy(&output.stderr).into_owned())),
        None => bail!("phalanx was killed: {}", output.status),
    }
}
