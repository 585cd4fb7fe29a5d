//! Leader election on a coordination.k8s.io Lease: a pure step, and a thin loop around it.
//!
//! A holder counts as gone when its record has not changed for as long as it promised, by *our* clock: clocks of other
//! machines are never compared with ours. A candidate watches the Lease and tries when the promise ends: a leader that
//! was killed is succeeded after `duration` at most, and `retry_period` later where the Lease may not be watched.
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use rand::Rng;
use rand_pcg::Pcg64;
use serde_json::json;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::faults::Faults;
use crate::fence::{BootTime, Gatekeeper};
use crate::pulse::Pulse;

/// How long a server that did not answer lately may take for the release.
const RELEASE_IN_SILENCE: Duration = Duration::from_millis(500);

/// How to elect.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; must differ between replicas.
    pub identity: String,
    /// How long others wait after our last renewal.
    pub duration: Duration,
    /// How long we try to renew before we give up; less than `duration`.
    pub renew_deadline: Duration,
    /// How often we try.
    pub retry_period: Duration,
}

/// A name for this process that no other has: on the network of the host, many containers have the same host name, and
/// the same process id.
pub fn identity(hostname: &str) -> String {
    format!("{hostname}_{:016x}", rand::make_rng::<Pcg64>().next_u64())
}

/// What stands in the Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The holder; empty when it was released.
    pub holder: String,
    /// How long it promised to hold, in seconds.
    pub duration_seconds: i32,
    /// How often it changed hands.
    pub transitions: i32,
    /// Changes with every write.
    pub version: String,
}

impl Record {
    fn promise(&self) -> Duration {
        Duration::from_secs(self.duration_seconds.max(0) as u64)
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// There is no Lease: create it.
    Create,
    /// Take it over, or renew it when we hold it; the number is `leaseTransitions`.
    Write(i32),
    /// Someone else holds it.
    Wait,
    /// We held it and must stop.
    Lost,
}

/// What we know of the Lease.
#[derive(Clone, Debug, Default)]
pub struct Elector {
    seen: Option<(Record, BootTime)>,
    renewed: Option<BootTime>,
}

impl Elector {
    /// Whether we hold the Lease, as of the last renewal.
    pub fn leads(&self) -> bool {
        self.renewed.is_some()
    }

    /// Our write went through. `started` is when it was sent: others count from then at the earliest.
    pub fn wrote(&mut self, started: BootTime) {
        self.renewed = Some(started);
    }

    /// When our time ends unless we renew: before others count us as gone, so that what we wrote has arrived by then.
    pub fn ends(&self, options: &LeaseOptions) -> Option<BootTime> {
        Some(self.renewed? + options.renew_deadline)
    }

    /// Whether the time to renew has run out.
    pub fn expired(&self, options: &LeaseOptions, now: BootTime) -> bool {
        self.ends(options).is_some_and(|end| now >= end)
    }

    /// How long until the next try: not longer than the deadline leaves, for then we stop, whether the API server
    /// answers or not; nor longer than the holder's promise lasts.
    pub fn pause(&self, options: &LeaseOptions, now: BootTime) -> Duration {
        let usual = options.retry_period.min(self.patience(options, now));
        let promise =
            self.awaited().map(|(record, since)| record.promise().saturating_sub(now.since(*since)));
        // One that is over and was not taken over: the try failed.
        promise.filter(|left| !left.is_zero()).map_or(usual, |left| left.min(usual))
    }

    /// What another process holds, and since when we know.
    fn awaited(&self) -> Option<&(Record, BootTime)> {
        self.seen.as_ref().filter(|_| !self.leads())
    }

    /// How long a try may take: as long as the deadline leaves.
    fn patience(&self, options: &LeaseOptions, now: BootTime) -> Duration {
        let since = self.renewed.map_or(Duration::ZERO, |renewed| now.since(renewed));
        options.renew_deadline.saturating_sub(since)
    }

    /// Decides on what was read: `None` when there is no Lease.
    pub fn step(&mut self, options: &LeaseOptions, read: Option<&Record>, now: BootTime) -> Action {
        if self.expired(options, now) {
            return Action::Lost;
        }
        let Some(record) = read else {
            return Action::Create;
        };
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != record) {
            self.seen = Some((record.clone(), now));
        }
        if record.holder == options.identity {
            return Action::Write(record.transitions);
        }
        match (self.leads(), record.holder.is_empty() || self.stale(record, now)) {
            (true, _) => Action::Lost,
            (false, true) => Action::Write(record.transitions + 1),
            (false, false) => Action::Wait,
        }
    }

    fn stale(&self, record: &Record, now: BootTime) -> bool {
        self.seen.as_ref().is_some_and(|(_, since)| now.since(*since) >= record.promise())
    }
}

/// Campaigns for the Lease and keeps it. Returns when it was lost (`Err`) or, after `stop`, released (`Ok`).
pub async fn hold(
    client: kube::Client,
    options: LeaseOptions,
    faults: &Faults,
    fence: Gatekeeper,
    pulse: &Pulse,
    leads: impl FnOnce(),
    mut stop: watch::Receiver<bool>,
) -> Result<(), LeaseLost> {
    let api = Api::namespaced(client, &options.namespace);
    let mut elector = Elector::default();
    let mut leads = Some(leads);
    let mut waits_for = String::new();
    let mut cut_short = false;
    loop {
        if let Some(why) = pulse.hangs() {
            return Err(LeaseLost::Hangs(why));
        }
        tokio::select! {
            done = turn(&api, &options, &mut elector, &mut waits_for, faults) => done?,
            _ = stop.wait_for(|stop| *stop) => {
                cut_short = true;
                break;
            }
        }
        if let Some(end) = elector.ends(&options) {
            fence.open_until(end);
        }
        if elector.leads()
            && let Some(tell) = leads.take()
        {
            info!(lease = %options.name, namespace = %options.namespace, identity = %options.identity, "leading");
            tell();
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            () = changed(&api, &options, &elector) => {}
            () = tokio::time::sleep(elector.pause(&options, BootTime::now())) => {}
        }
        if elector.expired(&options, BootTime::now()) {
            return Err(lost(&options));
        }
    }
    fence.close();
    // A try that was cut short may have taken the lease.
    if elector.leads() || (cut_short && !faults.is_silent()) {
        release(&api, &options, faults).await;
    }
    Ok(())
}

/// Waits until the Lease that another process holds is renewed, released or taken: so we know at once, and count from
/// then. For ever where nobody holds it, or where it may not be watched: then only the tries see it.
async fn changed(api: &Api<Lease>, options: &LeaseOptions, elector: &Elector) {
    if let Some((record, _)) = elector.awaited() {
        let params =
            WatchParams::default().fields(&format!("metadata.name={}", options.name)).disable_bookmarks();
        if let Ok(events) = api.watch(&params, &record.version).await
            && let Some(Ok(WatchEvent::Modified(_) | WatchEvent::Deleted(_))) = pin!(events).next().await
        {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// This process must not lead.
#[derive(Debug, thiserror::Error)]
pub enum LeaseLost {
    /// Another process leads, or the API server could not be reached for too long.
    #[error("lost the lease {namespace}/{name}: not renewed within {deadline:?}, or held by another process")]
    NotRenewed {
        /// Namespace of the Lease.
        namespace: String,
        /// Name of the Lease.
        name: String,
        /// How long we tried to renew it.
        deadline: Duration,
    },
    /// A duration that is too long would keep other replicas from scheduling.
    #[error("giving the lease up: {0}")]
    Hangs(String),
}

/// Reads, decides, writes. A failed request is only logged: the deadline decides.
async fn turn(
    api: &Api<Lease>,
    options: &LeaseOptions,
    elector: &mut Elector,
    waits_for: &mut String,
    faults: &Faults,
) -> Result<(), LeaseLost> {
    let started = BootTime::now();
    let attempt = tokio::time::timeout(elector.patience(options, started), async {
        let record = api.get_opt(&options.name).await?.map(|lease| record_of(&lease));
        let action = elector.step(options, record.as_ref(), BootTime::now());
        match (&action, record) {
            (Action::Create, _) => create(api, options).await?,
            (Action::Write(transitions), Some(record)) => write(api, options, &record, *transitions).await?,
            (Action::Wait, Some(record)) if *waits_for != record.holder => {
                info!(lease = %options.name, holder = %record.holder, "waiting for the lease");
                waits_for.clone_from(&record.holder);
            }
            _ => {}
        }
        Ok::<_, kube::Error>(action)
    });
    let what = format!("lease {}/{}", options.namespace, options.name);
    match attempt.await {
        Ok(Ok(action)) => {
            faults.answered(&what);
            match action {
                Action::Lost => return Err(lost(options)),
                Action::Create | Action::Write(_) => elector.wrote(started),
                Action::Wait => {}
            }
        }
        // Another process wrote first.
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => faults.refused(
            &what,
            404,
            &format!(
                "{}; nothing is scheduled without the lease: create the namespace {}, or run with \
                 --leader-elect-resource-namespace or --leader-elect=false",
                status.message, options.namespace
            ),
        ),
        Ok(Err(error)) => faults.failed(&what, &error),
        Err(_) => faults.silent(&format!("{what}: none in time")),
    }
    if elector.expired(options, BootTime::now()) { Err(lost(options)) } else { Ok(()) }
}

fn lost(options: &LeaseOptions) -> LeaseLost {
    LeaseLost::NotRenewed {
        namespace: options.namespace.clone(),
        name: options.name.clone(),
        deadline: options.renew_deadline,
    }
}

/// In the Lease a promise is in whole seconds: never shorter than we hold it.
pub fn promised(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn record_of(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

async fn create(api: &Api<Lease>, options: &LeaseOptions) -> kube::Result<()> {
    let now = MicroTime(jiff::Timestamp::now());
    let lease = Lease {
        metadata: ObjectMeta { name: Some(options.name.clone()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some(options.identity.clone()),
            lease_duration_seconds: Some(promised(options.duration)),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        }),
    };
    api.create(&PostParams::default(), &lease).await.map(|_| ())
}

/// The version read is the precondition: a conflict means that someone else was faster.
async fn write(
    api: &Api<Lease>,
    options: &LeaseOptions,
    read: &Record,
    transitions: i32,
) -> kube::Result<()> {
    let now = MicroTime(jiff::Timestamp::now());
    let mut spec = json!({
        "holderIdentity": options.identity,
        "leaseDurationSeconds": promised(options.duration),
        "renewTime": now,
        "leaseTransitions": transitions,
    });
    if read.holder != options.identity {
        spec["acquireTime"] = json!(now);
    }
    let patch = json!({"metadata": {"resourceVersion": read.version}, "spec": spec});
    api.patch(&options.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
}

/// Lets another process lead at once.
async fn release(api: &Api<Lease>, options: &LeaseOptions, faults: &Faults) {
    let patience = if faults.is_silent() { RELEASE_IN_SILENCE } else { options.retry_period };
    let done = tokio::time::timeout(patience, async {
        let Some(lease) = api.get_opt(&options.name).await? else { return Ok(()) };
        let record = record_of(&lease);
        if record.holder != options.identity {
            return Ok(());
        }
        let patch = json!({"metadata": {"resourceVersion": record.version}, "spec": {"holderIdentity": ""}});
        api.patch(&options.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
    });
    match done.await {
        Ok(Ok(())) => info!(lease = %options.name, "released the lease"),
        Ok(Err(error)) => warn!(lease = %options.name, %error, "could not release the lease"),
        Err(_) => warn!(lease = %options.name, "could not release the lease in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> LeaseOptions {
        LeaseOptions {
            namespace: "volcano-system".into(),
            name: "volcano".into(),
            identity: "me".into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn held_by(holder: &str, version: u32) -> Record {
        Record { holder: holder.into(), duration_seconds: 15, transitions: 3, version: version.to_string() }
    }

    /// One reading: seconds since the start, what stood in the Lease, what we must do. After a write that is expected
    /// to go through, `wrote` tells the elector so.
    struct Turn(u64, Option<Record>, Action, bool);

    fn play(name: &str, turns: Vec<Turn>) {
        let (start, options) = (BootTime::now(), options());
        let mut elector = Elector::default();
        for Turn(second, read, expected, wrote) in turns {
            let now = start + Duration::from_secs(second);
            assert_eq!(elector.step(&options, read.as_ref(), now), expected, "{name}, second {second}");
            if wrote {
                elector.wrote(now);
            }
        }
    }

    #[test]
    fn processes_on_one_host_have_different_identities() {
        let (one, other) = (identity("node"), identity("node"));
        assert!(one.starts_with("node_") && one != other, "{one} {other}");
    }

    #[test]
    fn the_duration_of_a_lease_is_rounded_up_to_seconds() {
        let cases = [(15_000, 15), (1500, 2), (500, 1)];
        assert!(cases.iter().all(|(ms, seconds)| promised(Duration::from_millis(*ms)) == *seconds));
    }

    #[test]
    fn a_candidate_tries_when_the_promise_of_the_holder_ends() {
        let (start, options) = (BootTime::now(), options());
        let mut elector = Elector::default();
        elector.step(&options, Some(&held_by("other", 1)), start);
        for (second, pause) in [(0, 2), (13, 2), (14, 1), (16, 2)] {
            let now = start + Duration::from_secs(second);
            assert_eq!(elector.pause(&options, now), Duration::from_secs(pause), "second {second}");
        }
    }

    #[test]
    fn a_lease_is_taken_renewed_and_lost_step_by_step() {
        play(
            "a free lease is created and renewed",
            vec![
                Turn(0, None, Action::Create, true),
                Turn(2, Some(held_by("me", 1)), Action::Write(3), true),
                Turn(4, Some(held_by("me", 2)), Action::Write(3), true),
            ],
        );
        play(
            "a living holder is waited for, whatever its clock says",
            vec![
                Turn(0, Some(held_by("other", 1)), Action::Wait, false),
                Turn(14, Some(held_by("other", 2)), Action::Wait, false),
                Turn(28, Some(held_by("other", 2)), Action::Wait, false),
                Turn(29, Some(held_by("other", 2)), Action::Write(4), true),
            ],
        );
        play(
            "a released lease is taken at once",
            vec![
                Turn(0, Some(held_by("other", 1)), Action::Wait, false),
                Turn(1, Some(held_by("", 2)), Action::Write(4), true),
            ],
        );
        play(
            "a write that lost the race is only a wait",
            vec![
                Turn(0, Some(held_by("", 1)), Action::Write(4), false),
                Turn(2, Some(held_by("other", 2)), Action::Wait, false),
            ],
        );
        play(
            "a leader that sees another holder stops",
            vec![
                Turn(0, None, Action::Create, true),
                Turn(2, Some(held_by("other", 2)), Action::Lost, false),
            ],
        );
        play(
            "a leader that cannot renew in time stops before others may start",
            vec![
                Turn(0, None, Action::Create, true),
                Turn(9, Some(held_by("me", 1)), Action::Write(3), false),
                Turn(10, Some(held_by("me", 1)), Action::Lost, false),
            ],
        );
        play(
            "our own record from before a restart is taken over",
            vec![Turn(0, Some(held_by("me", 7)), Action::Write(3), true)],
        );
        play(
            "a lease that was deleted under us is created again",
            vec![Turn(0, None, Action::Create, true), Turn(2, None, Action::Create, true)],
        );
    }
}
