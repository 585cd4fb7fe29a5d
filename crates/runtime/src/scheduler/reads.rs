//! What the scheduler reads of the cluster: a watch for each kind, owners of pods, and whether a PodGroup controller runs.
use std::collections::BTreeSet;

use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::scheduling::v1alpha2::PodGroup as KubernetesPodGroup;
use kube::Client;
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::slim;
use phalanx_cluster::GroupWait;
use phalanx_cluster::event::Event;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Grouped;
use crate::engine::Input;
use crate::outbox::driver;
use crate::watch::{self, Sink, Watched};
use crate::{group_controller, owners};

/// Watches all kinds, priority classes on request, and returns their names.
pub(super) fn watch_all(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    client: &Client,
    sink: &Sink,
    priority_class: bool,
) -> BTreeSet<&'static str> {
    let mut kinds = BTreeSet::new();
    let mut all = |kind| kinds.insert(kind);
    all(watch_one::<slim::Pod>(tasks, client, sink));
    all(watch_one::<slim::Node>(tasks, client, sink));
    all(watch_one::<PodGroup>(tasks, client, sink));
    all(watch_one::<KubernetesPodGroup>(tasks, client, sink));
    all(watch_one::<Queue>(tasks, client, sink));
    all(watch_one::<HyperNode>(tasks, client, sink));
    all(watch_one::<slim::Namespace>(tasks, client, sink));
    all(watch_one::<slim::PodDisruptionBudget>(tasks, client, sink));
    all(watch_one::<slim::ResourceQuota>(tasks, client, sink));
    all(watch_one::<DeviceClass>(tasks, client, sink));
    all(watch_one::<ResourceSlice>(tasks, client, sink));
    all(watch_one::<ResourceClaim>(tasks, client, sink));
    all(watch_one::<slim::PersistentVolumeClaim>(tasks, client, sink));
    all(watch_one::<slim::PersistentVolume>(tasks, client, sink));
    all(watch_one::<slim::StorageClass>(tasks, client, sink));
    all(watch_one::<slim::CSINode>(tasks, client, sink));
    all(watch_one::<slim::VolumeAttachment>(tasks, client, sink));
    all(watch_one::<slim::CSIDriver>(tasks, client, sink));
    all(watch_one::<slim::CSIStorageCapacity>(tasks, client, sink));
    if priority_class {
        all(watch_one::<slim::PriorityClass>(tasks, client, sink));
    }
    kinds
}

fn watch_one<K>(tasks: &mut JoinSet<anyhow::Result<()>>, client: &Client, sink: &Sink) -> &'static str
where
    K: Watched,
{
    let (client, sink) = (client.clone(), sink.clone());
    tasks.spawn(async move {
        watch::run::<K>(client, sink).await;
        Ok(())
    });
    K::PLURAL
}

/// Tells owners of pods that their annotations make no PodGroup, for as long as no PodGroup controller is seen.
pub(super) fn read_owners(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    client: &Client,
    seen: mpsc::UnboundedReceiver<owners::Seen>,
    outbox: mpsc::UnboundedSender<driver::Input>,
) {
    let client = client.clone();
    tasks.spawn(async move {
        let tell = |note| {
            let _ = outbox.send(driver::Input::Note(note));
        };
        owners::follow(client, seen, tell).await;
        // A task that ends would end the process.
        std::future::pending().await
    });
}

/// Looks whether a PodGroup controller runs, for the first time before the first cycle, until one is seen.
pub(super) fn look_for_controllers(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    client: &Client,
    sink: &Sink,
    grouping: &Grouped,
    mut waits_for: BTreeSet<&'static str>,
) -> BTreeSet<&'static str> {
    if matches!(grouping.wait, GroupWait::IfSeen(_)) {
        waits_for.insert(group_controller::LEASE);
        let (client, namespace) = (client.clone(), grouping.lease_namespace.clone());
        let (engine, owners) = (sink.engine.clone(), sink.owners.clone());
        tasks.spawn(async move {
            let first = std::sync::Once::new();
            let tell = |seen: bool| {
                if seen {
                    let _ = owners.send(owners::Seen::Controller);
                    let _ = engine.send(Input::Events(vec![Event::GroupController]));
                }
                // The first cycle waits for the first look.
                first.call_once(|| {
                    let _ = engine.send(Input::Synced(group_controller::LEASE));
                });
            };
            group_controller::follow(client, namespace, tell).await;
            // A task that ends would end the process.
            std::future::pending().await
        });
    }
    waits_for
}
