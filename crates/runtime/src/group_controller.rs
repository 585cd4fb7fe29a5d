//! Whether a PodGroup controller runs: Volcano's controllers and ours hold a lease of one name, so one that is held
//! tells it before the first PodGroup is made.
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tracing::{debug, info};

use crate::client::within;
use crate::controllers::NAME;
use crate::outbox::driver::chain;

/// How the first look is named among what the first cycle waits for.
pub(crate) const LEASE: &str = "lease vc-controller-manager";
/// How often the lease is read.
const EVERY: Duration = Duration::from_secs(30);
/// A look takes no longer.
const ANSWER: Duration = Duration::from_secs(10);
/// A lease that nobody has renewed for so long was left behind. Clocks of machines differ by less.
const LEFT_BEHIND: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);

/// Reads the lease until somebody holds it; tells after each look whether that is so.
pub(crate) async fn follow(client: Client, namespace: String, tell: impl Fn(bool)) {
    let leases = Api::<Lease>::namespaced(client, &namespace);
    loop {
        let answer = within(ANSWER, format!("no answer within {ANSWER:?}"), leases.get_opt(NAME)).await;
        let seen = match answer {
            Ok(lease) => lease.is_some_and(|lease| is_held(&lease, Timestamp::now())),
            Err(error) => {
                debug!(lease = NAME, "cannot be read: {}", chain(&error));
                false
            }
        };
        tell(seen);
        if seen {
            info!(%namespace, lease = NAME, "controllers run: pods without a PodGroup wait for theirs");
            return;
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let held = spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty());
    let renewed = spec.renew_time.as_ref().map_or(now, |time| time.0);
    held && now.duration_since(renewed) < LEFT_BEHIND
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_held_until_it_is_released_or_left_behind() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        let held = |spec: serde_json::Value| {
            let lease = serde_json::from_value(json!({"metadata": {}, "spec": spec})).expect("a lease");
            is_held(&lease, now)
        };
        assert!(held(json!({"holderIdentity": "a", "renewTime": "2026-01-01T11:59:58.000000Z"})));
        assert!(
            held(json!({"holderIdentity": "a", "renewTime": "2026-01-01T12:05:00.000000Z"})),
            "its clock is fast"
        );
        assert!(!held(json!({"holderIdentity": "", "renewTime": "2026-01-01T11:59:58.000000Z"})));
        assert!(!held(json!({"holderIdentity": "a", "renewTime": "2026-01-01T10:00:00.000000Z"})));
        assert!(!held(json!({})));
    }
}
