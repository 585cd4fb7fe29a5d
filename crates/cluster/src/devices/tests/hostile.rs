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
    // Its steps are more than those of a cycle.
    cluster.refresh_devices();
    cluster.refresh_devices();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let expected = "ResourceClaim ns/costly: request r0: its CEL expressions take too many steps, expected at most 1000 for a device";
    assert_eq!(blocked(&cluster, "costly").as_deref(), Some(expected));
    assert_eq!(blocked(&cluster, "plain"), None);
}

/// So many claims with pods, each with 32 costly regular expressions of its own, in a namespace.
fn flood_with_costly_texts(cluster: &mut Cluster, namespace: &str, count: usize) {
    for at in 0..count {
        let name = format!("costly{at}");
        let mut claim = selecting(&name, "true");
        let many = "'a'.matches('\\\\w{20}')||".repeat(100);
        let text = |of: usize| format!("{many}'{at}-{of}'==''||true").into();
        claim.requests[0].selectors = (0..32).map(text).collect();
        let (claim, pod) = in_namespace(namespace, claim, claiming(&name, &[&name]));
        cluster.apply(claim.into());
        cluster.apply(pod.into());
    }
}

#[test]
fn selectors_that_are_costly_to_read_are_paid_by_their_namespace() {
    let mut cluster = cluster();
    flood_with_costly_texts(&mut cluster, "bad", 64);
    cluster.apply(selecting("plain", &of_model("new")).into());
    cluster.apply(claiming("plain", &["plain"]).into());
    let begun = Instant::now();
    cluster.refresh_devices();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(blocked(&cluster, "plain"), None);
    let told = |cluster: &Cluster, end: &str| {
        let told = (0..64).filter_map(|at| blocked(cluster, &format!("bad/costly{at}")));
        told.filter(|told| told.ends_with(end)).count()
    };
    assert!(told(&cluster, "its CEL expressions are evaluated in a later cycle") > 32);
    for _ in 0..64 {
        cluster.refresh_devices();
    }
    assert_eq!(told(&cluster, "it takes too many steps"), 64);
}

#[test]
fn what_namespaces_ask_for_alike_is_paid_by_the_one_that_spent_less() {
    let mut cluster = cluster();
    flood_with_costly_texts(&mut cluster, "aaa", 8);
    for namespace in ["aaa", "zzz"] {
        let shared = selecting("shared", &of_model("new"));
        let (claim, pod) = in_namespace(namespace, shared, claiming("shared", &["shared"]));
        cluster.apply(claim.into());
        cluster.apply(pod.into());
    }
    cluster.refresh_devices();
    assert!(blocked(&cluster, "aaa/costly7").is_some_and(|told| told.ends_with("in a later cycle")));
    assert_eq!(blocked(&cluster, "zzz/shared"), None);
}

#[test]
fn thousands_of_claims_that_get_their_turn_at_once_hold_nobody_up() {
    let mut cluster = cluster();
    flood(&mut cluster, "ns", 128);
    for at in 0..10_000 {
        let name = format!("same{at}");
        let (claim, pod) = in_namespace("ns", selecting(&name, "true"), claiming(&name, &[&name]));
        cluster.apply(claim.into());
        cluster.apply(pod.into());
    }
    cluster.refresh_devices();
    assert!(blocked(&cluster, "ns/same9999").is_some());
    let begun = Instant::now();
    cluster.apply(Event::PodGone("ns/c0".into()));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    cluster.refresh_devices();
    assert_eq!(blocked(&cluster, "ns/same9999"), None);
}

fn in_namespace(namespace: &str, mut claim: ClaimInfo, mut pod: PodInfo) -> (ClaimInfo, PodInfo) {
    claim.key.namespace = namespace.into();
    claim.uid = format!("{namespace}/{}", claim.key.name).into();
    let name = Arc::make_mut(&mut pod.pod);
    name.namespace = namespace.into();
    name.uid = format!("{namespace}/{}", name.name).into();
    (claim, pod)
}

/// So many claims that are all different, in a namespace of their own; every second one with a pod.
fn flood(cluster: &mut Cluster, namespace: &str, count: usize) {
    for at in 0..count {
        let name = format!("c{at}");
        let claim = selecting(&name, &format!("device.driver != 'x{at}'"));
        let (claim, pod) = in_namespace(namespace, claim, claiming(&name, &[&name]));
        cluster.apply(claim.into());
        if at % 2 == 0 {
            cluster.apply(pod.into());
        }
    }
}

#[test]
fn a_namespace_has_so_many_shapes_and_takes_none_from_others() {
    let mut cluster = cluster();
    flood(&mut cluster, "bad", 10_000);
    flood(&mut cluster, "worse", 400);
    for name in ["any", "new"] {
        cluster.apply(claim(name, &[(name, 1)]).into());
        cluster.apply(claiming(name, &[name]).into());
    }
    for at in 0..60 {
        cluster.apply(selecting(&format!("own{at}"), &format!("device.driver != 'own{at}'")).into());
        cluster.apply(claiming(&format!("own{at}"), &[&format!("own{at}")]).into());
    }
    cluster.refresh_devices();
    assert_eq!(cluster.check(), Vec::<String>::new());
    let told = (0..60).filter_map(|at| blocked(&cluster, &format!("own{at}")));
    assert_eq!(told.collect::<Vec<_>>(), [""; 0]);
    assert_eq!((blocked(&cluster, "any"), blocked(&cluster, "new")), (None, None));
    assert_eq!(
        (bind(&mut cluster, "any", "b"), bind(&mut cluster, "new", "b")),
        (vec!["d0".into()], vec!["d1".into()])
    );
    let expected =
        "ResourceClaim bad/c9998: the claims of namespace bad have more than 64 different requests";
    assert_eq!(blocked(&cluster, "bad/c9998").as_deref(), Some(expected));
    // Both floods ask for the same.
    assert_eq!(cluster.devices.shapes.len(), 64 + 62);
}

#[test]
fn claims_get_their_turn_when_others_of_their_namespace_are_gone() {
    let mut cluster = cluster();
    flood(&mut cluster, "ns", 300);
    cluster.refresh_devices();
    let waiting = |cluster: &Cluster| {
        (0..300).step_by(2).filter(|at| blocked(cluster, &format!("ns/c{at}")).is_some()).count()
    };
    assert_eq!(waiting(&cluster), 150 - 64);
    for at in (0..100).step_by(2) {
        cluster.apply(Event::PodGone(format!("ns/c{at}").into()));
        cluster.apply(in_namespace("ns", selecting(&format!("c{at}"), "true"), pod("p", "cpu=1")).0.into());
    }
    cluster.refresh_devices();
    assert_eq!(cluster.check(), Vec::<String>::new());
    let left = (100..300).step_by(2).filter(|at| blocked(&cluster, &format!("ns/c{at}")).is_some());
    assert_eq!(left.count(), 100 - 64);
    for at in 0..300 {
        cluster.apply(Event::PodGone(format!("ns/c{at}").into()));
        cluster.apply(Event::ClaimGone(Key::new("ns", &format!("c{at}"))));
    }
    cluster.refresh_devices();
    assert_eq!(cluster.check(), Vec::<String>::new());
    let kept = cluster.devices.shapes.len();
    assert!(kept <= 128 && cluster.devices.shapes.iter().all(|shape| !shape.is_used()), "{kept}");
}

/// Two requests of one claim that are new at the same time.
#[test]
fn requests_of_a_claim_have_shapes_of_their_own() {
    let mut cluster = cluster();
    flood(&mut cluster, "bad", 200);
    for at in 0..200 {
        cluster.apply(Event::PodGone(format!("bad/c{at}").into()));
    }
    let mut both = claim("both", &[("any", 1), ("any", 1)]);
    both.requests[0].selectors = vec![of_model("old").into()];
    both.requests[1].selectors = vec![of_model("new").into()];
    cluster.apply(both.into());
    cluster.apply(claiming("both", &["both"]).into());
    cluster.refresh_devices();
    assert_eq!(bind(&mut cluster, "both", "b"), ["d0", "d1"]);
}

/// Costly selectors of one namespace are judged over several cycles, and those of others in the first.
#[test]
fn a_namespace_has_so_many_steps_before_a_cycle() {
    let mut cluster = cluster();
    for at in 0..40 {
        cluster.apply(slice(&format!("s{at}"), on("a"), &["new"; 100]).into());
    }
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    for at in 0..20 {
        let name = format!("c{at}");
        let costly = format!("{digits}.all(x,{digits}.exists(y,x+y+{at}>=0&&device.driver!='x'))");
        let (claim, pod) = in_namespace("bad", selecting(&name, &costly), claiming(&name, &[&name]));
        cluster.apply(claim.into());
        cluster.apply(pod.into());
    }
    cluster.apply(selecting("plain", &of_model("old")).into());
    cluster.apply(claiming("plain", &["plain"]).into());
    cluster.refresh_devices();
    let later = |cluster: &Cluster| {
        let told = (0..20).filter_map(|at| blocked(cluster, &format!("bad/c{at}")));
        told.filter(|told| told.ends_with("its CEL expressions are evaluated in a later cycle")).count()
    };
    assert_eq!(blocked(&cluster, "plain"), None);
    let first = later(&cluster);
    assert!(first > 0);
    for _ in 0..200 {
        cluster.refresh_devices();
    }
    assert_eq!(later(&cluster), 0);
    let judged = (0..20).filter(|at| {
        let (task, node) = (task_of(&cluster, &format!("bad/c{at}")), cluster.node_named("a").unwrap());
        let DeviceNeed::Wanted(wanted) = cluster.claims_need(task) else { return false };
        let serves = wanted.local.check(&cluster.nodes[node], Fit::Idle).is_ok();
        let devices = cluster.devices.table.values();
        let shape = cluster.devices.claims[cluster.claims_of(task)[0]].shapes.as_ref().unwrap()[0];
        serves && devices.filter(|device| device.shapes.has(shape)).count() == 4_005
    });
    assert_eq!(judged.count(), 20);
    assert_eq!(cluster.check(), Vec::<String>::new());
}
