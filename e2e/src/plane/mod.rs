//! The control plane: build it, start it, stop it.

mod account;
pub(crate) mod build;
mod daemon;
mod flags;
mod ports;

use std::{
    collections::BTreeSet,
    fs,
    future::Future,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

pub use account::Account;
pub use build::binary;
pub use daemon::Daemon;
use daemon::StartError;

/// When set, the data and logs of planes stay behind for a look.
const KEEP: &str = "PHALANX_E2E_KEEP";
/// How often another port is tried when someone was faster.
const ATTEMPTS: usize = 5;

/// What a plane consists of.
#[derive(Clone, Debug)]
pub struct PlaneOptions {
    /// Run kube-controller-manager, so that Deployments, Jobs and their like get pods.
    pub controllers: bool,
    /// Write etcd's data through to the disk; only tests of durability want that.
    pub fsync: bool,
    /// Serve the native gangs of Kubernetes (`scheduling.k8s.io/v1alpha2`), and let kube-scheduler
    /// schedule by them.
    pub native_gangs: bool,
    /// Write down each request that the API server answers, see [`Plane::audited`].
    pub audit: bool,
    /// How long each part may take to become ready.
    pub ready_within: Duration,
}

impl Default for PlaneOptions {
    fn default() -> Self {
        Self {
            controllers: false,
            fsync: false,
            native_gangs: false,
            audit: false,
            ready_within: Duration::from_mins(3),
        }
    }
}

/// A running control plane on loopback. Dropping it ends its processes and removes its data.
#[derive(Debug)]
pub struct Plane {
    site: Site,
    config: Config,
    port: u16,
    token: String,
    etcd_url: String,
    // Dropped in this order, and before the site's directory goes.
    controllers: Option<Daemon>,
    apiserver: Option<Daemon>,
    etcd: Daemon,
    _dir: TempDir,
}

/// What every part of one plane needs to start.
#[derive(Clone, Debug)]
struct Site {
    binary: PathBuf,
    dir: PathBuf,
    options: PlaneOptions,
}

impl Plane {
    /// Starts etcd and the API server, and the controllers when asked for; returns when all are ready.
    /// Builds the Go program first if need be, see [`binary`].
    pub async fn start(options: PlaneOptions) -> Result<Self> {
        let binary = tokio::task::spawn_blocking(binary).await??;
        let dir = tempfile::Builder::new()
            .prefix("phalanx-plane-")
            .disable_cleanup(std::env::var_os(KEEP).is_some())
            .tempdir()
            .context("creating a directory for the plane")?;
        let site = Site { binary, dir: dir.path().to_owned(), options };
        site.write_keys()?;
        let (etcd_url, etcd) = site.start_etcd().await?;
        let (port, config, apiserver) = on_free_port(|port| site.first_apiserver(&etcd_url, port)).await?;
        let token = fs::read_to_string(site.dir.join("token")).context("reading the token")?;
        let controllers = None;
        let mut plane = Self {
            site,
            config,
            port,
            token,
            etcd_url,
            controllers,
            apiserver: Some(apiserver),
            etcd,
            _dir: dir,
        };
        if plane.site.options.controllers {
            plane.controllers = Some(plane.start_controllers().await?);
        }
        Ok(plane)
    }

    /// A new client as administrator, without limits of its own on the client's side.
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone()).expect("the same configuration made a client at the start")
    }

    /// The configuration of [`Plane::client`], for clients with other settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A kubeconfig file for the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.site.kubeconfig()
    }

    /// Where the API server is, as `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// What the API server was asked by a user, as `VERB GROUP/RESOURCE` or `VERB GROUP/RESOURCE/SUBRESOURCE`; on a
    /// plane with `audit`.
    pub fn audited(&self, user: &str) -> Result<BTreeSet<String>> {
        let log = fs::read_to_string(flags::audit_log(&self.site.dir)).context("reading the audit log")?;
        // The last line may still be written.
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_user = events.filter(|event| event["user"]["username"] == user);
        Ok(of_user.filter_map(|event| asked(&event)).collect())
    }

    /// The administrator's bearer token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The directory of keys, data and logs (`NAME.log`). With `PHALANX_E2E_KEEP` in the environment it
    /// is not removed.
    pub fn dir(&self) -> &Path {
        &self.site.dir
    }

    /// The processes of this plane, without schedulers.
    pub fn pids(&self) -> Vec<u32> {
        self.daemons().map(Daemon::pid).collect()
    }

    /// Ends the API server; its data and port stay. Does nothing if it is stopped already.
    pub async fn stop_apiserver(&mut self) -> Result<()> {
        let apiserver = self.apiserver.take();
        tokio::task::spawn_blocking(|| drop(apiserver)).await.context("stopping the API server")
    }

    /// Starts the API server again on its data and port, and returns when it is ready.
    pub async fn start_apiserver(&mut self) -> Result<()> {
        ensure!(self.apiserver.is_none(), "the API server is running");
        self.apiserver = Some(self.site.start_apiserver(&self.etcd_url, self.port, &self.config).await?);
        Ok(())
    }

    /// Keeps etcd from running until [`Plane::resume_etcd`]: the API server answers, but cannot read or write.
    pub fn pause_etcd(&self) {
        self.etcd.signal(Signal::STOP);
    }

    /// Lets etcd go on after [`Plane::pause_etcd`].
    pub fn resume_etcd(&self) {
        self.etcd.signal(Signal::CONT);
    }

    /// Runs kube-scheduler, as `default-scheduler`, until the guard is dropped. Its watches are synced
    /// when this returns. With [`PlaneOptions::native_gangs`] it schedules gangs.
    pub async fn kube_scheduler(&self) -> Result<Daemon> {
        let config = self.site.dir.join("kube-scheduler.yaml");
        write_yaml(&config, &flags::scheduler_config(&self.kubeconfig()))?;
        let gangs = self.site.options.native_gangs;
        let arguments = |port| flags::scheduler(&self.site.dir, &self.kubeconfig(), &config, port, gangs);
        self.start_component("kube-scheduler", "/readyz", arguments).await
    }

    async fn start_controllers(&self) -> Result<Daemon> {
        let gangs = self.site.options.native_gangs;
        let arguments = |port| flags::controller_manager(&self.site.dir, &self.kubeconfig(), port, gangs);
        self.start_component("kube-controller-manager", "/healthz", arguments).await
    }

    async fn start_component(
        &self,
        name: &'static str,
        health: &'static str,
        arguments: impl Fn(u16) -> Vec<String>,
    ) -> Result<Daemon> {
        let start = async |port| {
            let mut config = self.config.clone();
            config.cluster_url = url(port).parse().context("the URL of a component")?;
            let client = Client::try_from(config)?;
            let mut daemon = self.site.spawn(name, &arguments(port))?;
            daemon.wait_ready(self.site.options.ready_within, || answers(&client, health)).await?;
            Ok(daemon)
        };
        on_free_port(start).await
    }

    fn daemons(&self) -> impl Iterator<Item = &Daemon> {
        [self.controllers.as_ref(), self.apiserver.as_ref(), Some(&self.etcd)].into_iter().flatten()
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        // All at once; then each is waited for as its guard is dropped.
        self.daemons().for_each(Daemon::terminate);
    }
}

impl Site {
    fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig.yaml")
    }

    fn spawn(&self, name: &'static str, arguments: &[String]) -> Result<Daemon> {
        Daemon::spawn(&self.binary, name, arguments, self.dir.join(format!("{name}.log")))
    }

    fn write_keys(&self) -> Result<()> {
        let output = Command::new(&self.binary).arg("keys").arg(&self.dir).output();
        let output = output.with_context(|| format!("running {}", self.binary.display()))?;
        ensure!(output.status.success(), "making keys: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    async fn start_etcd(&self) -> Result<(String, Daemon)> {
        let log = self.dir.join("etcd.log");
        on_free_port(async |port| {
            let url = format!("http://127.0.0.1:{port}");
            let arguments = flags::etcd(&self.dir.join("etcd"), &url, self.options.fsync);
            let mut daemon = self.spawn("etcd", &arguments)?;
            daemon.wait_ready(self.options.ready_within, async || says_ready(&log)).await?;
            Ok((url, daemon))
        })
        .await
    }

    /// The port is settled here, and with it the kubeconfig.
    async fn first_apiserver(&self, etcd: &str, port: u16) -> Result<(u16, Config, Daemon)> {
        let token = fs::read_to_string(self.dir.join("token")).context("reading the token")?;
        write_yaml(&self.kubeconfig(), &flags::kubeconfig(&self.dir, &url(port), &token))?;
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let daemon = self.start_apiserver(etcd, port, &config).await?;
        Ok((port, config, daemon))
    }

    async fn start_apiserver(&self, etcd: &str, port: u16, config: &Config) -> Result<Daemon> {
        let client = Client::try_from(config.clone())?;
        if self.options.audit {
            write_yaml(&flags::audit_policy_file(&self.dir), &flags::audit_policy())?;
        }
        let arguments = flags::apiserver(&self.dir, etcd, port, &self.options);
        let mut daemon = self.spawn("kube-apiserver", &arguments)?;
        daemon.wait_ready(self.options.ready_within, || serves_default_namespace(&client)).await?;
        Ok(daemon)
    }
}

/// Calls `start` with a free port, and again with another when that one was taken in between.
async fn on_free_port<T, Fut>(mut start: impl FnMut(u16) -> Fut) -> Result<T>
where
    Fut: Future<Output = Result<T>>,
{
    let mut attempt = 1;
    loop {
        match start(ports::free()?).await {
            Err(error) if attempt < ATTEMPTS && is_clash(&error) => attempt += 1,
            outcome => return outcome,
        }
    }
}

fn is_clash(error: &anyhow::Error) -> bool {
    error.downcast_ref::<StartError>().is_some_and(StartError::is_clash)
}

fn says_ready(log: &Path) -> Result<()> {
    let text = fs::read_to_string(log)?;
    ensure!(text.lines().any(|line| line == "etcd is ready"), "starting");
    Ok(())
}

async fn answers(client: &Client, path: &str) -> Result<()> {
    client.request_text(http::Request::get(path).body(Vec::new())?).await?;
    Ok(())
}

/// Ready is not enough: the first objects of a test go to the default namespace, made after that.
async fn serves_default_namespace(client: &Client) -> Result<()> {
    answers(client, "/readyz").await?;
    Api::<Namespace>::all(client.clone()).get("default").await?;
    Ok(())
}

/// `None` for a path that is no resource.
fn asked(event: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = event.get("objectRef")?;
    let (verb, group, resource) =
        (text(&event["verb"]), text(&object["apiGroup"]), text(&object["resource"]));
    let part = object["subresource"].as_str().map(|part| format!("/{part}")).unwrap_or_default();
    Some(format!("{verb} {group}/{resource}{part}"))
}

fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

fn write_yaml(path: &Path, value: &Value) -> Result<()> {
    let text = serde_yaml::to_string(value).context("writing YAML")?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, net::TcpListener};

    use super::*;

    #[tokio::test]
    async fn a_port_taken_meanwhile_is_replaced_by_another() {
        let taken = TcpListener::bind(("127.0.0.1", ports::free().unwrap())).unwrap();
        let taken = taken.local_addr().map(|address| (address.port(), taken)).unwrap();
        let binary = tokio::task::spawn_blocking(binary).await.unwrap().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("etcd.log");
        let first = Cell::new(true);
        let start = async |port| {
            let port = if first.replace(false) { taken.0 } else { port };
            let data = dir.path().join(port.to_string());
            let url = format!("http://127.0.0.1:{port}");
            let mut etcd = Daemon::spawn(&binary, "etcd", &flags::etcd(&data, &url, false), log.clone())?;
            etcd.wait_ready(Duration::from_mins(3), async || says_ready(&log)).await?;
            Ok((port, etcd))
        };
        let (port, _etcd) = on_free_port(start).await.unwrap();
        assert_ne!(port, taken.0);
        assert!(fs::read_to_string(&log).unwrap().contains("address already in use"));
    }

    #[tokio::test]
    async fn a_process_that_does_not_start_shows_its_log() {
        let binary = tokio::task::spawn_blocking(binary).await.unwrap().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("etcd.log");
        let mut etcd = Daemon::spawn(&binary, "etcd", &[], log).unwrap();
        let error = etcd.wait_ready(Duration::from_mins(3), std::future::pending).await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("etcd ended (exit status: 1); the end of "), "{text}");
        assert!(text.ends_with("plane etcd: --data-dir and --client-url are both needed"), "{text}");
    }
}
