//! Claims of those who mean harm, or know no better.
use std::time::{Duration, Instant};

use super::*;

/// Why a pod cannot be placed.
fn blocked(cluster: &Cluster, pod: &str) -> Option<String> {
    match cluster.claims_need(task_of(cluster, pod)) {
        DeviceNeed::Blocked(why) => Some(why.to_string()),
        DeviceNeed::Nothing | DeviceNeed::Wanted(_) => None,
    }
}

fn selecting(name: &str, selector: &str) -> ClaimInfo {
    let mut claim = claim(name, &[("any", 1)]);
    claim.requests[0].selectors = vec![selector.into()];
    claim
}

/// A regular expression that is another one for each evaluation.
#[test]
fn a_selector_that_takes_too_many_steps_is_told_and_holds_nobody_up() {
    let mut cluster = cluster();
    cluster.apply(slice("many", on("a"), &["new"; 128]).into());
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    let texts = "['0','1','2','3','4','5','6','7','8','9']";
    let costly =
        format!("{texts}.all(x,{texts}.all(y,!'a'.matches('(\\\\pL{{30}}){{2}}'+x+y)))&&{digits}[0]==0");
    cluster.apply(selecting("costly", &costly).into());
    cluster.apply(claiming("costly", &["costly"]).into());
    cluster.apply(selecting("plain", &of_model("new")).into());
    cluster.apply(claiming("plain", &["plain"]).into());
    let begun = Instant::now();
    cluster.refresh_devices();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let expected = "ResourceClaim ns/costly: request r0: its CEL expressions take too many steps, expected at most 1000 for a device";
    assert_eq!(blocked(&cluster, "costly").as_deref(), Some(expected));
    assert_eq!(blocked(&cluster, "plain"), None);
}
