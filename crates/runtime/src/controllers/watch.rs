//! Watches of the controllers: objects as facts, into one channel.
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Error, watcher};
use kube::{Api, Client, Resource};
use phalanx_api::batch::{CronJob, Job};
use phalanx_api::bus::Command;
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_api::names::{JOB_NAME, QUEUE_NAME_ANNOTATION};
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::{Guarded, Invalid};
use phalanx_controllers::hyper_node::{KEY, Settings};
use phalanx_controllers::podgroup::{Owner, OwnerTable, PlainPod};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::store::{Claim, ClassValue, Fact, NamespaceQueue, Seen, SeenOwner, SeenPod, Watched};
use super::table::Identity;
use crate::faults::Faults;
use crate::metrics::Metrics;
use crate::outbox::driver::chain;
use crate::recorder::Regarding;
use crate::watch::unavailable_for;

/// Volcano's name of the ConfigMap of the controllers.
const CONFIG_MAP: &str = "volcano-controller-configmap";

/// What a watch says.
#[derive(Debug)]
pub enum Input {
    /// An object was added or changed.
    Seen(Seen),
    /// An object was deleted.
    Deleted(Watched, Identity),
    /// An object cannot be decoded.
    Broken(Watched, Identity, Regarding, Invalid),
    /// A list is asked for.
    Listing(Watched),
    /// The list is complete.
    Listed(Watched),
    /// The API server has no such kind, or this process may not read it.
    Absent(Watched),
}

impl Input {
    /// The deletion of an object that was read like this.
    fn deleted(read: Self) -> Option<Self> {
        match read {
            Self::Seen(Seen { id, fact }) => Some(Self::Deleted(fact.watched(), id)),
            Self::Broken(kind, id, ..) => Some(Self::Deleted(kind, id)),
            Self::Deleted(..) | Self::Listing(_) | Self::Listed(_) | Self::Absent(_) => None,
        }
    }
}

/// What is kept of an object.
trait Kept: Resource<DynamicType = ()> {
    fn fact(self) -> Fact;
}

macro_rules! kept_whole {
    ($($kind:ident)+) => {
        $(impl Kept for $kind {
            fn fact(self) -> Fact {
                self.into()
            }
        })+
    };
}

kept_whole!(Job PodGroup Queue Command CronJob JobFlow JobTemplate HyperNode);

impl Kept for Pod {
    fn fact(self) -> Fact {
        SeenPod::from(&self).into()
    }
}

impl Kept for PartialObjectMeta<PersistentVolumeClaim> {
    fn fact(self) -> Fact {
        Claim.into()
    }
}

impl Kept for PriorityClass {
    fn fact(self) -> Fact {
        ClassValue(self.value.unwrap_or(0)).into()
    }
}

/// Where watches deliver, and what they tell.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    pub(super) inputs: UnboundedSender<Input>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) faults: Arc<Faults>,
}

/// Watches all kinds, for as long as the tasks are kept. PodGroups are made for pods of these schedulers.
pub(super) fn all(tasks: &mut JoinSet<()>, client: &Client, sink: &Sink, schedulers: &[String]) {
    let config = watcher::Config::default;
    one::<Job>(tasks, Watched::Job, client, config(), sink);
    one::<PodGroup>(tasks, Watched::PodGroup, client, config(), sink);
    one::<Queue>(tasks, Watched::Queue, client, config(), sink);
    one::<Command>(tasks, Watched::Command, client, config(), sink);
    one::<CronJob>(tasks, Watched::CronJob, client, config(), sink);
    one::<JobFlow>(tasks, Watched::JobFlow, client, config(), sink);
    one::<JobTemplate>(tasks, Watched::JobTemplate, client, config(), sink);
    one::<Pod>(tasks, Watched::Pod, client, config().labels(JOB_NAME), sink);
    one::<PriorityClass>(tasks, Watched::PriorityClass, client, config(), sink);
    let claims = Api::<PartialObjectMeta<PersistentVolumeClaim>>::all(client.clone());
    let read = |claim| Some(applied(Watched::Claim, Guarded::Read(claim), &(), Kept::fact));
    start(tasks, Watched::Claim, watcher(claims, config()), read, sink);
    let namespaces = Api::<PartialObjectMeta<Namespace>>::all(client.clone());
    start(tasks, Watched::Namespace, watcher(namespaces, config()), |found| Some(namespace(&found)), sink);
    plain(tasks, client, sink, schedulers);
}

/// Watches the pods of our schedulers that no Job of Volcano made. The API server picks one scheduler, no more.
fn plain(tasks: &mut JoinSet<()>, client: &Client, sink: &Sink, schedulers: &[String]) {
    let mut config = watcher::Config::default().labels(&format!("!{JOB_NAME}"));
    if let [name] = schedulers {
        config = config.fields(&format!("spec.schedulerName={name}"));
    }
    let names = schedulers.to_vec();
    let read = move |pod: Guarded<Pod>| {
        let ours = |name: &String| names.contains(name);
        if let Guarded::Read(pod) = &pod
            && !pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_ref()).is_some_and(ours)
        {
            return None;
        }
        Some(applied(Watched::PlainPod, pod, &(), |pod| PlainPod::from(&pod).into()))
    };
    let pods = Api::<Guarded<Pod>>::all(client.clone());
    start(tasks, Watched::PlainPod, watcher(pods, config), read, sink);
}

/// Watches HyperNodes and what they depend on: labels of nodes, and the ConfigMap that says what is to be discovered.
pub(super) fn hyper_nodes(tasks: &mut JoinSet<()>, client: &Client, sink: &Sink, namespace: &str) {
    one::<HyperNode>(tasks, Watched::HyperNode, client, watcher::Config::default(), sink);
    let nodes = Api::<PartialObjectMeta<Node>>::all(client.clone());
    let labels = |node: PartialObjectMeta<Node>| node.metadata.labels.unwrap_or_default().into();
    let read = move |node| Some(applied(Watched::Node, Guarded::Read(node), &(), labels));
    start(tasks, Watched::Node, watcher(nodes, watcher::Config::default()), read, sink);
    let config = watcher::Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
    let config_maps = Api::<Guarded<ConfigMap>>::namespaced(client.clone(), namespace);
    let read = |found| Some(applied(Watched::ConfigMap, found, &(), |found| settings(&found).into()));
    start(tasks, Watched::ConfigMap, watcher(config_maps, config), read, sink);
}

fn settings(found: &ConfigMap) -> Option<Settings> {
    let text = found.data.as_ref()?.get(KEY)?;
    let (settings, faults) = Settings::read(text);
    for fault in faults {
        warn!("ConfigMap {CONFIG_MAP}, {KEY}: {fault}");
    }
    settings
}

fn namespace(found: &PartialObjectMeta<Namespace>) -> Input {
    let annotations = found.metadata.annotations.as_ref();
    let queue = annotations.and_then(|all| all.get(QUEUE_NAME_ANNOTATION)).filter(|name| !name.is_empty());
    let fact = NamespaceQueue(queue.cloned()).into();
    Input::Seen(Seen { id: Identity::of(&found.metadata), fact })
}

/// Watches the kinds of the table of owners. One that cannot be read keeps its own pods waiting, and no others.
pub(super) fn owners(tasks: &mut JoinSet<()>, client: &Client, sink: &Sink, table: &OwnerTable) {
    for (at, row) in table.rows().iter().enumerate() {
        let kind = ApiResource {
            group: row.group().to_owned(),
            version: row.version().to_owned(),
            api_version: row.api_version.clone(),
            kind: row.kind.clone(),
            plural: row.plural(),
        };
        let api = Api::<Guarded<DynamicObject>>::all_with(client.clone(), &kind);
        let (watched, row) = (Watched::Owner(at), row.clone());
        let fact = move |object: DynamicObject| {
            SeenOwner { row: at, owner: Owner::of(&object.metadata, &object.data, &row) }.into()
        };
        let read = move |object| Some(applied(watched, object, &kind, &fact));
        start(tasks, watched, watcher(api, watcher::Config::default()), read, sink);
    }
}

fn one<K>(tasks: &mut JoinSet<()>, kind: Watched, client: &Client, config: watcher::Config, sink: &Sink)
where
    K: Kept + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let api = Api::<Guarded<K>>::all(client.clone());
    start(tasks, kind, watcher(api, config), move |object| Some(applied(kind, object, &(), K::fact)), sink);
}

fn start<T: Clone + Send + 'static>(
    tasks: &mut JoinSet<()>,
    kind: Watched,
    events: impl futures::Stream<Item = Result<watcher::Event<T>, Error>> + Send + 'static,
    read: impl Fn(T) -> Option<Input> + Send + 'static,
    sink: &Sink,
) {
    let sink = sink.clone();
    tasks.spawn(async move { follow(kind, events, read, sink).await });
}

/// Passes on what a watch says. `read` returns nothing for pods of other schedulers.
async fn follow<T: Clone>(
    kind: Watched,
    events: impl futures::Stream<Item = Result<watcher::Event<T>, Error>> + Send,
    read: impl Fn(T) -> Option<Input>,
    sink: Sink,
) {
    let mut events = pin!(events.default_backoff());
    let mut health = Health { kind, sink: sink.clone(), failing: false, listed: false };
    while let Some(event) = events.next().await {
        let input = match event {
            // It comes before the list is asked for, and so before that was answered.
            Ok(watcher::Event::Init) => Some(Input::Listing(kind)),
            Ok(event) => {
                health.answered(&event);
                match event {
                    watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                        health.seen();
                        read(object)
                    }
                    watcher::Event::Delete(object) => {
                        health.seen();
                        read(object).and_then(Input::deleted)
                    }
                    watcher::Event::Init | watcher::Event::InitDone => Some(Input::Listed(kind)),
                }
            }
            Err(error) => health.failed(&error),
        };
        let Some(input) = input else { continue };
        // The receiver is gone when the process ceases to lead.
        if sink.inputs.send(input).is_err() {
            return;
        }
    }
}

fn applied<K: Resource>(
    kind: Watched,
    object: Guarded<K>,
    of: &K::DynamicType,
    fact: impl Fn(K) -> Fact,
) -> Input {
    let id = Identity::of(object.meta());
    match object {
        Guarded::Read(object) => Input::Seen(Seen { id, fact: fact(object) }),
        Guarded::Unread(unread) => {
            let regarding = Regarding {
                api_version: K::api_version(of).into_owned().into(),
                kind: K::kind(of).into_owned().into(),
                key: id.key.clone(),
                uid: id.uid.as_str().into(),
            };
            Input::Broken(kind, id, regarding, unread.invalid)
        }
    }
}

/// Whether a watch works.
struct Health {
    kind: Watched,
    sink: Sink,
    failing: bool,
    listed: bool,
}

impl Health {
    /// Volcano's definitions of these may not be installed: then there are none. Namespaces that may not be read name
    /// no queues.
    fn is_optional(&self, code: u16) -> bool {
        match self.kind {
            Watched::CronJob | Watched::JobFlow | Watched::JobTemplate | Watched::Command => code == 404,
            Watched::Namespace => code == 403,
            _ => false,
        }
    }

    /// What depends on these is told when there are none.
    fn may_be_absent(&self) -> bool {
        matches!(self.kind, Watched::Owner(_) | Watched::HyperNode | Watched::Node | Watched::ConfigMap)
    }

    fn seen(&self) {
        self.sink.metrics.seen(self.kind.plural(), 1);
    }

    fn answered<T>(&mut self, event: &watcher::Event<T>) {
        if std::mem::take(&mut self.failing) {
            self.sink.faults.answered(self.kind.plural());
        }
        if matches!(event, watcher::Event::InitDone) && !std::mem::replace(&mut self.listed, true) {
            info!(kind = self.kind.plural(), "first list is in");
        }
    }

    /// Says it once. A kind that is not there counts as listed.
    fn failed(&mut self, error: &Error) -> Option<Input> {
        let kind = self.kind.plural();
        self.sink.metrics.watch_failed(kind);
        let first = !std::mem::replace(&mut self.failing, true);
        let code = match error {
            Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
                match error {
                    kube::Error::Api(status) => status.code,
                    _ => 0,
                }
            }
            Error::WatchError(status) => status.code,
            Error::NoResourceVersion => 0,
        };
        match error {
            _ if self.is_optional(code) => {
                if first {
                    info!("{kind} {}", unavailable_for(Some(code)));
                }
                return (!std::mem::replace(&mut self.listed, true)).then_some(Input::Listed(self.kind));
            }
            // Each kind by itself: neither holds up the others.
            _ if self.may_be_absent() && matches!(code, 403 | 404) => {
                if first && !matches!(self.kind, Watched::Owner(_)) {
                    info!("{kind} {}", unavailable_for(Some(code)));
                } else if first && code == 403 {
                    warn!(
                        "pods of owners that may not be read get PodGroups without these: {}",
                        chain(error)
                    );
                }
                return first.then_some(Input::Absent(self.kind));
            }
            Error::WatchError(_) if code == 410 => debug!(kind, "resource version expired; listing again"),
            Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
                self.sink.faults.failed(kind, error);
            }
            Error::WatchError(_) | Error::NoResourceVersion => {
                if first {
                    warn!(kind, "watch failed, trying again: {}", chain(error));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_decoded_keeps_its_name_and_says_why() {
        let list = json!([
            {"metadata": {"name": "good", "namespace": "ns", "uid": "1", "resourceVersion": "7"}},
            {
                "metadata": {"name": "bad", "namespace": "ns", "uid": "2", "resourceVersion": "8", "labels": 3},
                "spec": {"minAvailable": "many"},
            },
        ]);
        let objects: Vec<Guarded<Job>> = serde_json::from_str(&list.to_string()).expect("a list");
        let inputs: Vec<Input> =
            objects.into_iter().map(|object| applied(Watched::Job, object, &(), Job::fact)).collect();
        let [Input::Seen(good), Input::Broken(Watched::Job, bad, regarding, invalid)] = &inputs[..] else {
            panic!("{inputs:?}")
        };
        assert_eq!((&*good.id.key.name, good.id.version), ("good", 7));
        assert_eq!((&*bad.key.name, bad.version, &*regarding.kind), ("bad", 8, "Job"));
        assert!(!invalid.to_string().is_empty());
    }

    /// As kube's watcher reads lists and events.
    #[test]
    fn an_object_that_nests_too_deep_loses_no_other() {
        let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
        let good = r#"{"metadata": {"name": "good"}}"#;
        let bad = format!(r#"{{"spec": {{"x": {deep}}}, "metadata": {{"name": "bad", "uid": "2"}}}}"#);
        let list = format!(
            r#"{{"kind": "JobList", "apiVersion": "v1", "metadata": {{}}, "items": [{bad}, {good}]}}"#
        );
        let list: kube::core::ObjectList<Guarded<Job>> = serde_json::from_str(&list).expect("a list");
        let event = format!(r#"{{"type": "MODIFIED", "object": {bad}}}"#);
        let event: kube::core::WatchEvent<Guarded<Job>> = serde_json::from_str(&event).expect("an event");
        let kube::core::WatchEvent::Modified(changed) = event else { panic!("{event:?}") };
        let mut names = Vec::new();
        for object in list.items.into_iter().chain([changed]) {
            let broken = object.read().is_none();
            names.push((object.meta().name.clone().unwrap_or_default(), broken));
        }
        let expected = [("bad", true), ("good", false), ("bad", true)];
        assert_eq!(names, expected.map(|(name, broken)| (name.to_owned(), broken)));
        // Of an owner of pods the API server lists such levels in the metadata too.
        let fields = format!(r#""managedFields": [{{"fieldsV1": {deep}}}]"#);
        let bad = format!(r#"{{"metadata": {{"name": "bad", "uid": "2", {fields}}}}}"#);
        let list = format!(
            r#"{{"kind": "JobSetList", "apiVersion": "v1", "metadata": {{}}, "items": [{bad}, {good}]}}"#
        );
        let list: kube::core::ObjectList<Guarded<DynamicObject>> =
            serde_json::from_str(&list).expect("a list of owners");
        let names: Vec<_> = list.items.iter().map(|one| one.meta().name.as_deref()).collect();
        assert_eq!(names, [Some("bad"), Some("good")]);
    }
}
