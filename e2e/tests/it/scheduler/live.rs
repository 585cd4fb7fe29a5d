//! Commands with `--live` on a real API server: a kubelet forwards the port of the pod that leads.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use phalanx_e2e::{
    Phalanx, PlaneOptions,
    deploy::{NAMESPACE, apply, manifests_in},
    fake, phalanx, wait,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

use super::api::{account, allow};
use super::cluster::{Cluster, PodSpec, SOON};

/// How an error of the client begins.
const ASKED: &str = "cannot ask the scheduler at the pod that holds lease volcano-system/volcano: ";

/// The part of a kubelet that forwards ports of its pods, here to one server, until it is dropped.
struct Forwarding {
    port: u16,
    task: JoinHandle<()>,
}

impl Forwarding {
    /// With the certificate of a plane's API server, which does not verify it.
    async fn to(target: SocketAddr, keys: &Path) -> Result<Self> {
        let certificates: Vec<_> =
            CertificateDer::pem_file_iter(keys.join("apiserver.crt"))?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(keys.join("apiserver.key"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(certificates, key)?));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move { forward(acceptor, stream, target).await.unwrap_or_default() });
            }
        });
        Ok(Self { port, task })
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection: channel 0 carries the bytes, channel 1 would carry an error. Each begins with the port.
async fn forward(acceptor: TlsAcceptor, stream: TcpStream, target: SocketAddr) -> Result<()> {
    #[expect(clippy::result_large_err, reason = "the type of the callback is the library's")]
    let choose = |_: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        let protocol = "v4.channel.k8s.io".parse().expect("a header");
        response.headers_mut().insert("sec-websocket-protocol", protocol);
        Ok(response)
    };
    let mut socket = accept_hdr_async(acceptor.accept(stream).await?, choose).await?;
    let [low, high] = 8082_u16.to_le_bytes();
    for channel in [0, 1] {
        socket.send(Message::binary(vec![channel, low, high])).await?;
    }
    let (mut read, mut write) = TcpStream::connect(target).await?.into_split();
    let (mut to, mut from) = socket.split();
    let up = async {
        while let Some(message) = from.next().await {
            if let [0, bytes @ ..] = &*message?.into_data() {
                write.write_all(bytes).await?;
            }
        }
        anyhow::Ok(())
    };
    let down = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = read.read(&mut bytes[1..]).await?;
            if count == 0 {
                return anyhow::Ok(());
            }
            to.send(Message::binary(bytes[..=count].to_vec())).await?;
        }
    };
    tokio::select! { ended = up => ended, ended = down => ended }
}

/// A scheduler that leads, its pod as the lease names it, and the node of that pod.
async fn leading() -> Result<(Cluster, Forwarding)> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("4")).await?;
    let of_viewers = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        ["phalanx-live", "phalanx-viewer", "phalanx-capture"].contains(&name)
    };
    let viewers: Vec<Value> = manifests_in("optional")?.into_iter().filter(of_viewers).collect();
    let flags = ["--leader-elect=true", "--api-address=127.0.0.1:0"];
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &flags).await?);
    apply(&cluster.client, &viewers).await?;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let holder = wait::until(SOON, "the scheduler to lead", async || {
        leases.get("volcano").await?.spec.and_then(|spec| spec.holder_identity).context("a holder")
    })
    .await?;
    let forwarding =
        Forwarding::to(cluster.phalanx().api_address().context("an API")?, cluster.plane.dir()).await?;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": forwarding.port}},
    }});
    nodes.patch_status("node-0", &PatchParams::default(), &Patch::Merge(&status)).await?;
    let name = holder.rsplit_once('_').context("an identity")?.0;
    let mut pod = PodSpec { scheduler: "nobody", ..PodSpec::cpu(0) }.single(name);
    pod["spec"]["nodeName"] = json!("node-0");
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok((cluster, forwarding))
}

/// Lets somebody find the scheduler and forward its port.
async fn bind(cluster: &Cluster, name: &str, subject: Value) -> Result<()> {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "phalanx-live"});
    let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]});
    let bindings: Api<RoleBinding> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    Ok(())
}

/// A kubeconfig of a user.
fn kubeconfig(cluster: &Cluster, name: &str, user: &Value) -> Result<String> {
    let mut config: Value = serde_yaml::from_str(&fs::read_to_string(cluster.plane.kubeconfig())?)?;
    config["users"][0]["user"] = user.clone();
    let path = cluster.file(name);
    fs::write(&path, serde_yaml::to_string(&config)?)?;
    Ok(path.display().to_string())
}

/// What a command prints, on either stream.
async fn run(kubeconfig: &str, args: &[&str]) -> Result<String> {
    let program = tokio::task::spawn_blocking(phalanx::binary).await??;
    let mut command = tokio::process::Command::new(program);
    let output = command.args(args).args(["--kubeconfig", kubeconfig]).output().await?;
    Ok(String::from_utf8([output.stdout, output.stderr].concat())?)
}

/// Waits until a command says this: roles of a moment ago may not count yet.
async fn until_said(kubeconfig: &str, args: &[&str], expected: &str) -> Result<String> {
    wait::until(SOON, &format!("{args:?} to say {expected:?}"), async || {
        let said = run(kubeconfig, args).await?;
        ensure!(said.contains(expected), "{said}");
        Ok(said)
    })
    .await
}

#[tokio::test]
async fn a_user_with_a_token_asks_the_scheduler_that_leads_by_the_kubeconfig_alone() -> Result<()> {
    let (cluster, _forwarding) = leading().await?;
    cluster.gang("late", 2, &PodSpec::cpu(3)).await?;
    cluster.until_waits("late-0", "Insufficient cpu").await?;
    let stranger = kubeconfig(&cluster, "stranger", &json!({"token": account(&cluster, "stranger").await?}))?;
    let explain = ["explain", "podgroup", "late", "--live"];
    let refused = run(&stranger, &explain).await?;
    let why = "lease volcano-system/volcano: leases.coordination.k8s.io \"volcano\" is forbidden";
    ensure!(refused.contains(why), "{refused}");

    let ann = kubeconfig(&cluster, "ann", &json!({"token": account(&cluster, "ann").await?}))?;
    bind(&cluster, "ann", json!({"kind": "ServiceAccount", "name": "ann", "namespace": "default"})).await?;
    until_said(&ann, &explain, "system:serviceaccount:default:ann may not list podgroups").await?;
    allow(&cluster, "ann").await?;
    let told = until_said(&ann, &explain, "  stopped at: nodes\n").await?;
    ensure!(told.starts_with("PodGroup default/late: Inqueue\n"), "{told}");
    // The scheduler is asked without being told so; who cannot reach it is told that a copy is.
    let told = run(&ann, &["explain", "podgroup", "late"]).await?;
    ensure!(told.starts_with("PodGroup default/late: Inqueue\n") && !told.contains("note: "), "{told}");
    let copied = run(&stranger, &["explain", "podgroup", "late"]).await?;
    ensure!(
        copied.contains(&format!("note: a copy of the cluster is asked, not the scheduler: {ASKED}{why}")),
        "{copied}"
    );
    until_said(&ann, &["top", "-n", "default"], "default/late").await?;
    Ok(())
}

/// Nobody in particular shows no token, as a client certificate is none.
#[tokio::test]
async fn a_user_without_a_token_borrows_that_of_the_viewer() -> Result<()> {
    let (cluster, _forwarding) = leading().await?;
    cluster.gang("late", 2, &PodSpec::cpu(3)).await?;
    cluster.until_waits("late-0", "Insufficient cpu").await?;
    let nobody = kubeconfig(&cluster, "nobody", &json!({}))?;
    let whatif = ["whatif", "--add-nodes", "node-0=1", "--live"];
    until_said(&nobody, &whatif, "gets none of ServiceAccount volcano-system/phalanx-viewer").await?;
    let anonymous =
        json!({"kind": "User", "name": "system:anonymous", "apiGroup": "rbac.authorization.k8s.io"});
    bind(&cluster, "nobody", anonymous).await?;
    until_said(&nobody, &whatif, "default/late").await?;
    let capture = run(&nobody, &["capture", "--live"]).await?;
    ensure!(
        capture.contains("volcano-system/phalanx-capture"),
        "the Role lends no token for that: {capture}"
    );
    Ok(())
}
