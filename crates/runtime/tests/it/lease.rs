//! Two candidates and one Lease on an API server that keeps versions.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use kube::Client;
use phalanx_runtime::faults::Faults;
use phalanx_runtime::fence::{Fence, Gatekeeper};
use phalanx_runtime::lease::{LeaseOptions, hold};
use phalanx_runtime::pulse::Pulse;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use crate::fake::{Answer, Seen, api, fails, ok};

#[derive(Default)]
struct Store {
    lease: Option<Value>,
    version: u64,
    down: bool,
}

impl Store {
    fn answer(&mut self, seen: &Seen) -> Answer {
        if self.down {
            return fails(500, "etcd is down");
        }
        match seen.method {
            Method::GET => self.lease.clone().map_or_else(|| fails(404, "no lease"), ok),
            Method::POST if self.lease.is_some() => fails(409, "exists"),
            Method::POST => self.put(seen.body.clone()),
            _ => self.patch(&seen.body),
        }
    }

    fn patch(&mut self, body: &Value) -> Answer {
        let Some(mut lease) = self.lease.clone() else { return fails(404, "no lease") };
        if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] {
            return fails(409, "another version");
        }
        for (key, value) in body["spec"].as_object().unwrap() {
            lease["spec"][key] = value.clone();
        }
        self.put(lease)
    }

    fn put(&mut self, mut lease: Value) -> Answer {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        ok(lease)
    }
}

fn server() -> (Client, Arc<Mutex<Store>>) {
    let store = Arc::new(Mutex::new(Store::default()));
    let shared = Arc::clone(&store);
    let (client, _) = api(move |seen| shared.lock().unwrap().answer(seen));
    (client, store)
}

fn options(identity: &str) -> LeaseOptions {
    LeaseOptions {
        namespace: "volcano-system".into(),
        name: "volcano".into(),
        identity: identity.into(),
        duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(600),
        retry_period: Duration::from_millis(50),
    }
}

struct Candidate {
    leads: oneshot::Receiver<()>,
    stop: watch::Sender<bool>,
    fence: Fence,
    running: tokio::task::JoinHandle<bool>,
}

fn candidate(client: &Client, identity: &str) -> Candidate {
    campaign(client, options(identity))
}

fn campaign(client: &Client, options: LeaseOptions) -> Candidate {
    campaign_with(client, options, Arc::default())
}

fn campaign_with(client: &Client, options: LeaseOptions, pulse: Arc<Pulse>) -> Candidate {
    let (tell, leads) = oneshot::channel();
    let (stop, stopped) = watch::channel(false);
    let client = client.clone();
    let (keeper, fence) = Gatekeeper::new();
    let running = tokio::spawn(async move {
        let faults = Faults::new("http://fake");
        let leads = move || tell.send(()).unwrap();
        hold(client, options, &faults, keeper, &pulse, leads, stopped).await.is_ok()
    });
    Candidate { leads, stop, fence, running }
}

#[tokio::test]
async fn one_process_leads_and_the_other_takes_a_released_lease_at_once() {
    let (client, store) = server();
    let first = candidate(&client, "a");
    first.leads.await.unwrap();
    let mut second = candidate(&client, "b");
    assert!(first.fence.is_open() && !second.fence.is_open(), "the leader alone writes");
    let early = tokio::time::timeout(Duration::from_millis(1500), &mut second.leads).await;
    assert!(early.is_err(), "the first one renews");
    first.stop.send(true).unwrap();
    assert!(first.running.await.unwrap(), "released");
    assert!(!first.fence.is_open());
    tokio::time::timeout(Duration::from_millis(500), second.leads).await.expect("no need to wait").unwrap();
    assert_eq!(store.lock().unwrap().lease.as_ref().unwrap()["spec"]["leaseTransitions"], 1);
    second.stop.send(true).unwrap();
    assert!(second.running.await.unwrap());
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops() {
    let (client, store) = server();
    let only = candidate(&client, "a");
    only.leads.await.unwrap();
    store.lock().unwrap().down = true;
    // Though the task of the lease has not had its turn yet.
    std::thread::sleep(options("a").renew_deadline);
    assert!(!only.fence.is_open());
    let lost = tokio::time::timeout(Duration::from_secs(3), only.running).await.expect("it must stop");
    assert!(!lost.unwrap(), "the lease was lost");
}

/// The next try would come after the deadline: it does not wait for that.
#[tokio::test]
async fn a_leader_that_cannot_renew_stops_at_the_deadline() {
    let (client, store) = server();
    let (deadline, retry) = (Duration::from_millis(1500), Duration::from_millis(1200));
    let options = LeaseOptions {
        duration: Duration::from_secs(2),
        renew_deadline: deadline,
        retry_period: retry,
        ..options("a")
    };
    let only = campaign(&client, options);
    only.leads.await.unwrap();
    let started = Instant::now();
    store.lock().unwrap().down = true;
    assert!(!only.running.await.unwrap(), "the lease was lost");
    assert!(started.elapsed() < retry * 2, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_process_whose_scheduling_thread_hangs_lets_another_one_lead() {
    let (client, store) = server();
    let pulse = Arc::new(Pulse::new(Duration::from_millis(200)));
    let hanging = campaign_with(&client, options("a"), Arc::clone(&pulse));
    hanging.leads.await.unwrap();
    pulse.cycle();
    let lost = tokio::time::timeout(Duration::from_secs(3), hanging.running).await.expect("it must stop");
    assert!(!lost.unwrap() && !hanging.fence.is_open());
    let next = candidate(&client, "b");
    tokio::time::timeout(Duration::from_secs(3), next.leads).await.expect("nobody renews").unwrap();
    assert_eq!(store.lock().unwrap().lease.as_ref().unwrap()["spec"]["holderIdentity"], "b");
    next.stop.send(true).unwrap();
}
