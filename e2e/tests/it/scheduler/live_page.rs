//! The web page of a running scheduler: what it is made of, and how a browser shows it.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use phalanx_e2e::{PlaneOptions, fake, wait};
use phalanx_testkit::browser::Browser;
use serde_json::{Value, json};

use super::api::{account, allow_all};
use super::cluster::{Cluster, PodSpec, SOON};
use super::evictions::{full, urgent};

const API: &str = "--api-address=127.0.0.1:0";

/// Waits until the view is so, and returns it.
async fn until_seen(
    cluster: &Cluster,
    token: &str,
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> Result<Value> {
    wait::until(SOON, &format!("the view to show {what}"), async || {
        let (status, body) = cluster.phalanx().ask("/api/v1/view", Some(token)).await?;
        ensure!(status == "HTTP/1.1 200 OK", "{status}");
        let view: Value = serde_json::from_slice(&body)?;
        ensure!(is(&view), "{view}");
        Ok(view)
    })
    .await
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn named<'v>(values: &'v Value, name: &str) -> Option<&'v Value> {
    list(values).iter().find(|value| value["name"] == name)
}

fn happened(view: &Value, what: &str, object: &str) -> bool {
    list(&view["events"]).iter().any(|event| event["what"] == what && event["object"] == object)
}

#[tokio::test]
async fn the_view_shows_queues_nodes_waiting_gangs_and_what_happens() -> Result<()> {
    let cluster = full(PlaneOptions::default(), &[API]).await?;
    let token = account(&cluster, "viewer").await?;
    allow_all(&cluster, "viewer", &[]).await?;
    let (status, page) = cluster.phalanx().ask("/", None).await?;
    let page = String::from_utf8(page)?;
    ensure!(status == "HTTP/1.1 200 OK" && page.contains("<title>Phalanx</title>"), "{status}");
    ensure!(!page.contains("default/low"), "the page holds no data");
    let (status, _) = cluster.phalanx().ask("/api/v1/view", None).await?;
    assert_eq!(status, "HTTP/1.1 401 Unauthorized");

    cluster.pod_group("late", json!({"minMember": 2})).await?;
    cluster.members("late", 2, &PodSpec::cpu(3)).await?;
    let waits =
        |view: &Value| named(&view["gangs"]["list"], "default/late").is_some_and(|gang| gang["kind"] == 0);
    let view = until_seen(&cluster, &token, "why gang late waits", waits).await?;
    let late = named(&view["gangs"]["list"], "default/late").context("gang late")?;
    assert_eq!(
        (&late["state"], &late["waiting"], &late["queue"]),
        (&json!("waiting"), &json!(2), &json!("default"))
    );
    let reason = &view["reasons"]["texts"][late["reasons"][0].as_u64().context("a reason")? as usize];
    ensure!(reason.as_str().is_some_and(|text| text.contains("Insufficient cpu")), "{reason}");
    let cpu = list(&view["state"]["resources"]).iter().position(|one| one["name"] == "cpu").context("cpu")?;
    let queue = named(&view["state"]["queues"], "default").context("queue default")?;
    assert_eq!((&queue["allocated"][cpu], &queue["waiting"]["gangs"]), (&json!(4000), &json!(1)));
    let node = named(&view["state"]["nodes"]["list"], "node-0").context("node-0")?;
    assert_eq!(node["used"][cpu], 4000);

    urgent(&cluster, 2).await?;
    cluster.until_bound("urgent-", 2).await?;
    let evicted = |view: &Value| {
        happened(view, "Evicted", "podgroup=default/low")
            && happened(view, "Bound", "podgroup=default/urgent")
    };
    let view = until_seen(&cluster, &token, "the eviction", evicted).await?;
    assert_eq!(
        (&view["evicted"]["total"], &view["evicted"]["list"][0]["by"]),
        (&json!(2), &json!("default/urgent"))
    );

    fake::Nodes::new(2).starting_at(1).cpu("4").create(&cluster.client).await?;
    let bound = |view: &Value| {
        let node = named(&view["state"]["nodes"]["list"], "node-2");
        happened(view, "Bound", "podgroup=default/late") && node.is_some_and(|node| node["used"][cpu] == 3000)
    };
    until_seen(&cluster, &token, "gang late on the new nodes", bound).await.map(drop)
}

/// The browser is driven on this thread, while the kubelet goes on on another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_in_a_browser_follows_a_running_scheduler() -> Result<()> {
    let Some(mut browser) = Browser::start() else { return Ok(()) };
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("4"), &[API]).await?;
    let token = account(&cluster, "viewer").await?;
    allow_all(&cluster, "viewer", &[]).await?;
    browser.open(&format!("http://{}/", cluster.phalanx().api_address().context("an API")?));
    browser.wait("!document.getElementById('token').hidden");
    browser.eval(&format!("document.getElementById('token-text').value = {}", json!(token)));
    browser.eval("document.querySelector('#token button').click()");
    browser.wait("document.getElementById('status').textContent.startsWith('Live')");

    cluster.gang("late", 2, &PodSpec::cpu(3)).await?;
    browser.wait("document.getElementById('summary-title').textContent.startsWith('1 gang (2 pods) waits')");
    browser.wait("document.getElementById('why-list').textContent.includes('Insufficient cpu')");
    ensure!(browser.seen("gangs-table").contains("default/late"), "{}", browser.seen("gangs-table"));

    // Without a reload: one more node, and the gang runs.
    fake::Nodes::new(1).starting_at(1).cpu("4").create(&cluster.client).await?;
    cluster.until_bound("late-", 2).await?;
    browser.wait("document.getElementById('events-table').textContent.includes('2 pods to 2 nodes')");
    browser.wait("document.getElementById('why').hidden");
    cluster.create::<Pod>(PodSpec::cpu(9).single("big")).await?;
    browser.wait("document.getElementById('gangs-table').textContent.includes('default/big')");
    let refused = |error: &&String| !error.contains("401");
    ensure!(!browser.errors.iter().any(|error| refused(&error)), "{:?}", browser.errors);
    Ok(())
}
