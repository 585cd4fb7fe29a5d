//! Protobuf and JSON decode alike. The files beside this one were written by the Go types of Kubernetes 1.36 from the
//! same
//! objects, with every field set that the slim types read: a field that is new in them has to be set there too.
use std::fmt::Debug;

use kube_core::Resource;
use phalanx_cache::protobuf::{Protobuf, change, page, status};
use phalanx_cache::{Change, Guarded, Kind, Page, slim};
use proptest::prelude::*;

const PODS: &[u8] = include_bytes!("pods.pb");
const PODS_JSON: &[u8] = include_bytes!("pods.json");
const NODES: &[u8] = include_bytes!("nodes.pb");
const NODES_JSON: &[u8] = include_bytes!("nodes.json");
const WATCH: &[u8] = include_bytes!("watch.pb");

fn same<K: Protobuf + Kind + Debug>(protobuf: &[u8], json: &[u8]) -> Page<K> {
    let (one, other) = (page::<K>(protobuf).expect("protobuf"), Page::<K>::from_json(json).expect("JSON"));
    assert_eq!(format!("{one:#?}"), format!("{other:#?}"));
    one
}

#[test]
fn pods_decode_alike_from_protobuf_and_json() {
    let pods = same::<slim::Pod>(PODS, PODS_JSON);
    assert_eq!((pods.resource_version.as_str(), pods.more.as_str()), ("77", "next"));
    let pod = pods.items[0].read().unwrap();
    assert_eq!(pod.spec.priority, Some(-7));
    assert_eq!(pod.spec.containers[0].ports[0].host_port, 80);
    assert_eq!(
        pod.spec
            .affinity
            .pod_affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
            .unwrap()
            .len(),
        1
    );
    assert!(pod.status.container_statuses[0].state.terminated.as_ref().unwrap().finished_at.is_some());
    let bare = pods.items[1].read().unwrap();
    assert_eq!(bare.spec.priority, Some(0), "0 is not the same as nothing");
    assert!(bare.metadata.creation_timestamp.is_none() && bare.spec.node_name.is_none());
}

#[test]
fn nodes_decode_alike_from_protobuf_and_json() {
    let nodes = same::<slim::Node>(NODES, NODES_JSON);
    assert_eq!(nodes.items[0].read().unwrap().status.images.len(), 2);
    assert!(nodes.more.is_empty());
}

fn frames(mut bytes: &[u8]) -> Vec<Result<Change<slim::Pod>, String>> {
    let mut changes = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        changes.push(change(frame).map_err(|invalid| invalid.to_string()));
        bytes = rest;
    }
    changes
}

#[test]
fn events_of_a_watch_decode_from_protobuf() {
    let name = |pod: &Guarded<slim::Pod>| pod.meta().name.clone().unwrap_or_default();
    let told: Vec<String> = frames(WATCH)
        .into_iter()
        .map(|change| match change.unwrap() {
            Change::Applied(pod) => format!("applied {}", name(&pod)),
            Change::Deleted(pod) => format!("deleted {}", name(&pod)),
            Change::Bookmark(version) => format!("up to {version}"),
            Change::Error(status) => format!("{} {} {}", status.code, status.reason, status.message),
        })
        .collect();
    assert_eq!(told, ["applied bare", "applied full", "deleted bare", "up to 99", "410 Expired too old"]);
}

/// A field of protobuf.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("short enough for a length of one byte");
    [&[number << 3 | 2, length], bytes].concat()
}

fn enveloped(object: &[u8]) -> Vec<u8> {
    [b"k8s\0", &field(2, object)[..]].concat()
}

/// A pod whose spec ends within a field, in a list and in an event.
#[test]
fn a_pod_that_cannot_be_read_is_known_by_its_metadata_and_harms_no_other() {
    let metadata = [field(1, b"odd"), field(3, b"ns"), field(5, b"uid-odd"), field(6, b"41")].concat();
    let odd = [field(1, &metadata), field(2, &[0x12, 100])].concat();
    let good = field(1, &field(1, b"good"));
    let list = enveloped(&[field(2, &odd), field(2, &good)].concat());
    let items = page::<slim::Pod>(&list).expect("a list").items;
    let event = [field(1, b"MODIFIED"), field(2, &field(1, &enveloped(&odd)))].concat();
    let Ok(Change::<slim::Pod>::Applied(changed)) = change(&event) else { panic!("expected a change") };
    for item in [&items[0], &changed] {
        let Guarded::Unread(unread) = item else { panic!("expected metadata only: {item:?}") };
        let meta = &unread.metadata;
        let known = [&meta.name, &meta.namespace, &meta.uid, &meta.resource_version].map(Option::as_deref);
        assert_eq!(known, [Some("odd"), Some("ns"), Some("uid-odd"), Some("41")]);
        assert!(unread.invalid.to_string().contains("the end of the text"), "{}", unread.invalid);
    }
    assert_eq!(items[1].meta().name.as_deref(), Some("good"));
}

#[test]
fn a_text_that_is_no_protobuf_is_an_error() {
    for bytes in [&b"{}"[..], b"", b"k8s", b"k8s\0\x12\xff"] {
        assert!(page::<slim::Pod>(bytes).is_err(), "{bytes:?}");
        assert!(status(bytes).is_err(), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn a_damaged_text_is_an_error_or_another_list_but_never_a_panic(
        cut in 0..PODS.len(), at in 0..PODS.len(), byte: u8,
    ) {
        let mut bytes = PODS.to_vec();
        bytes[at] = byte;
        let _ = page::<slim::Pod>(&bytes);
        let _ = page::<slim::Pod>(&bytes[..cut]);
    }
}
