//! Extenders and measured usage from other servers.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use super::cluster::{Cluster, PodSpec, SOON};
use super::conf::until_reloads;
use super::server::Server;

/// A configuration with these plugins after the usual ones, and further text.
fn conf(plugins: &str, rest: &str) -> String {
    format!(
        "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  \
         - name: predicates\n{plugins}{rest}"
    )
}

fn extender(url: &str, ignorable: bool) -> String {
    format!(
        "  - name: extender\n    arguments:\n      extender.urlPrefix: {url}\n      extender.httpTimeout: 5s\n      \
         extender.ignorable: {ignorable}\n      extender.kube.filterVerb: filter\n      \
         extender.kube.prioritizeVerb: prioritize\n      extender.kube.nodeCacheCapable: true\n"
    )
}

/// A bound port without a listener.
fn nobody() -> Result<(TcpSocket, String)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let address = socket.local_addr()?;
    Ok((socket, format!("http://{address}")))
}

/// An extender with the verbs of kube-scheduler: it refuses `node-0` and scores other nodes by their number.
fn judge(path: &str, body: &Value) -> Value {
    let names = body["NodeNames"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    if path == "/prioritize" {
        let score = |name: &&str| name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
        return names.iter().map(|name| json!({"Host": name, "Score": score(name)})).collect();
    }
    let kept: Vec<&&str> = names.iter().filter(|name| **name != "node-0").collect();
    json!({"NodeNames": kept, "FailedNodes": {"node-0": "the licence server says no"}})
}

#[tokio::test]
async fn extender_and_measured_usage_restrict_nodes() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(4).cpu("4")).await?;
    let path = cluster.file("scheduler.conf");
    let flag = format!("--scheduler-conf={}", path.display());
    let one = Server::start(judge).await?;
    let (_taken, down) = nobody()?;

    // One extender chooses the node; another one, which is ignorable, is down.
    fs::write(&path, conf(&(extender(&one.url(), false) + &extender(&down, true)), ""))?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&flag]).await?);
    cluster.gang("told", 2, &PodSpec::cpu(2)).await?;
    cluster.until_bound("told-", 2).await?;
    assert!(cluster.bound().await?.values().all(|node| node == "node-3"), "{:?}", cluster.bound().await?);
    let mut first = PodSpec::cpu(1).single("only-the-first");
    first["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node-0"});
    cluster.create::<Pod>(first).await?;
    cluster.until_waits("only-the-first", "1 the licence server says no").await?;

    // An extender that is down and not ignorable makes all pods wait, and the reason names it.
    fs::write(&path, conf(&extender(&down, false), ""))?;
    until_reloads(&cluster, "success", 1).await?;
    cluster.create::<Pod>(PodSpec::cpu(1).single("unanswered")).await?;
    let why = cluster.until_waits("unanswered", &down).await?;
    assert_eq!(cluster.bound().await?.len(), 2, "{why}");

    // Without extenders both pods are placed; then the measured usage rules nodes out.
    fs::write(&path, conf("", ""))?;
    cluster.until_bound("only-the-first", 1).await?;
    cluster.until_bound("unanswered", 1).await?;
    let busy = Arc::new(AtomicU32::new(95));
    let figure = Arc::clone(&busy);
    let queries = Arc::new(AtomicU32::new(0));
    let query = Arc::clone(&queries);
    let prometheus = Server::start(move |_, _| {
        query.fetch_add(1, Ordering::Relaxed);
        let sample = |(node, percent): (&str, u32)| {
            json!({"metric": {"instance": node}, "value": [0, percent.to_string()]})
        };
        let first = figure.load(Ordering::Relaxed);
        let nodes = [("node-0", first), ("node-1", 95), ("node-2", 20), ("node-3", 95)];
        let samples: Vec<Value> = nodes.into_iter().map(sample).collect();
        json!({"status": "success", "data": {"resultType": "vector", "result": samples}})
    })
    .await?;
    let metrics =
        format!("metrics: {{type: prometheus, address: '{}', interval: 100ms}}\n", prometheus.url());
    fs::write(&path, conf("  - name: usage\n", &metrics))?;
    until_reloads(&cluster, "success", 3).await?;
    // A node without figures passes the filter, so the pod is created once the scheduler has the first figures: after
    // the two queries for cpu and memory, the third query comes only when their answers were taken in.
    wait::until(SOON, "a second round of queries", async || {
        let queries = queries.load(Ordering::Relaxed);
        ensure!(queries > 2, "{queries} queries");
        Ok(())
    })
    .await?;
    let mut hot = PodSpec::cpu(1).single("hot");
    hot["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node-0"});
    cluster.create::<Pod>(hot).await?;
    cluster.until_waits("hot", "cpu load").await?;
    cluster.gang("cool", 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("cool-", 2).await?;
    let bound = cluster.bound().await?;
    assert!(["cool-0", "cool-1"].iter().all(|pod| bound[*pod] == "node-2"), "{bound:?}");
    // The pod is bound when the node is idle again.
    busy.store(10, Ordering::Relaxed);
    cluster.until_bound("hot", 1).await
}
