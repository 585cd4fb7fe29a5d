//! Watches: objects of one kind as events for the Cluster.
//!
//! Each kind has a task of its own. It resumes where a connection broke and lists again when the server no longer knows
//! the place; [`Fold`] turns either into the changes that matter, so a relist of an unchanged cluster says
//! nothing to the Cluster. Whole pods are never kept: the slim types decode only what scheduling needs.
mod source;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::scheduling::v1alpha2::PodGroup as KubernetesPodGroup;
use kube::{Client, Resource};
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue, is_made_for_pods};
use phalanx_cache::{
    Change, Fold, Guarded, Identity, Interner, Invalid, Kind, Names, Page, Rejected, WatchEvent, check_key,
    check_value, slim,
};
use phalanx_cluster::event::{Event, Key};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::client::BadFlag;
use crate::engine;
use crate::faults::Faults;
use crate::metrics::Metrics;
use crate::outbox::driver::{self, chain};
use crate::outbox::{PvcSeen, QueueSeen, SELECTED_NODE, VolumeSeen};
use crate::owners;
use crate::recorder::{Note, Regarding};

use source::Source;
pub use source::{Error, Protobuf};

/// Waits between attempts to watch.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// A watch that lived this long was healthy: the next failure starts with a short wait again.
const HEALTHY: Duration = Duration::from_secs(10);

/// Which nodes are scheduled to: `--node-selector`.
#[derive(Clone, Debug, Default)]
pub struct NodeSelector(Vec<(String, String)>);

impl NodeSelector {
    /// Labels as `key:value`; a node needs one of them.
    pub fn parse(labels: &[String]) -> Result<Self, BadFlag> {
        let pair = |label: &String| {
            let bad = |what: &str| BadFlag(format!("--node-selector {label:?}: {what}expected key:value"));
            let (key, value) = label.split_once(':').ok_or_else(|| bad(""))?;
            if check_key(key).is_err() {
                return Err(bad(&format!("{key:?} is no key of a label, ")));
            }
            if check_value(value).is_err() {
                return Err(bad(&format!("{value:?} is no value of a label, ")));
            }
            Ok((key.to_owned(), value.to_owned()))
        };
        labels.iter().map(pair).collect::<Result<_, _>>().map(Self)
    }

    fn matches(&self, node: &slim::Node) -> bool {
        let has = |(key, value): &(String, String)| {
            node.metadata.labels.as_ref().is_some_and(|labels| labels.get(key) == Some(value))
        };
        self.0.is_empty() || self.0.iter().any(has)
    }
}

/// A kind that the scheduler watches.
pub trait Watched: Kind + Clone + Debug + DeserializeOwned + Send + 'static {
    /// Its name in paths, logs and metrics.
    const PLURAL: &'static str;
    /// The CustomResourceDefinition it needs.
    const CRD: Option<&'static str> = None;
    /// Where it is not served, or may not be read, the scheduler does without.
    const OPTIONAL: bool = false;
    /// How it is read from protobuf, where the API server has it in protobuf.
    const PROTOBUF: Option<Protobuf<Self>> = None;

    /// What the outbox must know of the object.
    fn seen(&self) -> Option<driver::Input> {
        None
    }

    /// What it says of a PodGroup controller, or of an owner of pods that asks for one.
    fn grouping(&self, _names: &Names) -> Option<owners::Seen> {
        None
    }

    /// For a pod that waits for a node: when it was created.
    fn waits_since(&self) -> Option<Timestamp> {
        None
    }

    /// Whether the object exists for this scheduler.
    fn wanted(&self, _nodes: &NodeSelector) -> bool {
        true
    }
}

impl Watched for slim::Pod {
    const PLURAL: &'static str = "pods";
    const PROTOBUF: Option<Protobuf<Self>> = Some(Protobuf::READ);

    fn grouping(&self, names: &Names) -> Option<owners::Seen> {
        owners::owner(self, names)
    }

    fn waits_since(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().filter(|_| self.spec.node_name.is_none()).map(|it| it.0)
    }
}

impl Watched for slim::Node {
    const PLURAL: &'static str = "nodes";
    const PROTOBUF: Option<Protobuf<Self>> = Some(Protobuf::READ);

    fn wanted(&self, nodes: &NodeSelector) -> bool {
        nodes.matches(self)
    }
}

impl Watched for slim::Namespace {
    const PLURAL: &'static str = "namespaces";
}

impl Watched for slim::PodDisruptionBudget {
    const PLURAL: &'static str = "poddisruptionbudgets";
}

impl Watched for slim::ResourceQuota {
    const PLURAL: &'static str = "resourcequotas";
}

impl Watched for slim::PersistentVolumeClaim {
    const PLURAL: &'static str = "persistentvolumeclaims";

    fn seen(&self) -> Option<driver::Input> {
        let metadata = &self.metadata;
        let key = Key::new(metadata.namespace.as_deref()?, metadata.name.as_deref()?);
        let bound = self.spec.volume_name.is_some() && self.status.phase.as_deref() == Some("Bound");
        let selected = metadata.annotations.as_ref().is_some_and(|all| all.contains_key(SELECTED_NODE));
        let uid = metadata.uid.as_deref()?.into();
        Some(driver::Input::Pvc(key, PvcSeen { uid, bound, selected }))
    }
}

impl Watched for slim::PersistentVolume {
    const PLURAL: &'static str = "persistentvolumes";

    fn seen(&self) -> Option<driver::Input> {
        let name = self.metadata.name.as_deref()?.into();
        let uid = self.metadata.uid.as_deref()?.into();
        let version = self.metadata.resource_version.as_deref()?.into();
        Some(driver::Input::Volume(name, VolumeSeen { uid, version }))
    }
}

impl Watched for slim::StorageClass {
    const PLURAL: &'static str = "storageclasses";
}

impl Watched for slim::CSINode {
    const PLURAL: &'static str = "csinodes";
}

impl Watched for slim::VolumeAttachment {
    const PLURAL: &'static str = "volumeattachments";
}

impl Watched for slim::CSIDriver {
    const PLURAL: &'static str = "csidrivers";
}

impl Watched for slim::CSIStorageCapacity {
    const PLURAL: &'static str = "csistoragecapacities";
}

impl Watched for slim::PriorityClass {
    const PLURAL: &'static str = "priorityclasses";
}

impl Watched for DeviceClass {
    const PLURAL: &'static str = "deviceclasses";
    const OPTIONAL: bool = true;
}

impl Watched for ResourceSlice {
    const PLURAL: &'static str = "resourceslices";
    const OPTIONAL: bool = true;
}

impl Watched for ResourceClaim {
    const PLURAL: &'static str = "resourceclaims";
    const OPTIONAL: bool = true;
}

impl Watched for PodGroup {
    const PLURAL: &'static str = "podgroups";
    const CRD: Option<&'static str> = Some("podgroups.scheduling.volcano.sh");

    fn grouping(&self, _: &Names) -> Option<owners::Seen> {
        let namespace = || self.metadata.namespace.as_deref().unwrap_or_default().into();
        is_made_for_pods(&self.metadata).then(|| owners::Seen::MadeGroup(namespace()))
    }
}

impl Watched for KubernetesPodGroup {
    const PLURAL: &'static str = "podgroups.scheduling.k8s.io";
    const OPTIONAL: bool = true;
}

impl Watched for HyperNode {
    const PLURAL: &'static str = "hypernodes";
    const OPTIONAL: bool = true;
}

impl Watched for Queue {
    const PLURAL: &'static str = "queues";
    const CRD: Option<&'static str> = Some("queues.scheduling.volcano.sh");

    fn seen(&self) -> Option<driver::Input> {
        let status = self.status.clone().unwrap_or_default();
        let names = status.allocated.keys().map(|name| Arc::from(name.as_str())).collect();
        let name = self.metadata.name.as_deref()?.into();
        let uid = self.metadata.uid.as_deref()?.into();
        let version = self.metadata.resource_version.as_deref().unwrap_or_default();
        let stateless = status.state.is_none().then(|| version.into());
        Some(driver::Input::Queue(name, QueueSeen { uid, names, stateless }))
    }
}

/// Where a watch delivers.
#[derive(Clone, Debug)]
pub struct Sink {
    /// The scheduling thread.
    pub engine: std::sync::mpsc::Sender<engine::Input>,
    /// The outbox.
    pub outbox: mpsc::UnboundedSender<driver::Input>,
    /// Who reads owners of pods.
    pub owners: mpsc::UnboundedSender<owners::Seen>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What is ours.
    pub names: Arc<Names>,
    /// Which nodes are ours.
    pub nodes: Arc<NodeSelector>,
    /// Tells what is wrong, once.
    pub faults: Arc<Faults>,
}

/// Watches a kind for as long as the process lives.
pub async fn run<K: Watched>(client: Client, sink: Sink) {
    let source = Source::<K>::new(client);
    let (mut watch, mut retry) = (Watch::<K>::new(sink), Retry::new());
    // Up to which version all is known; empty before the first list.
    let mut version = String::new();
    loop {
        let ended = if version.is_empty() {
            watch.list(&source).await.map(|listed| version = listed)
        } else {
            watch.follow(&source, &mut version).await
        };
        if let Err(error) = ended {
            watch.failed(&error);
            if matches!((error.code(), error), (Some(410), _) | (_, Error::NoVersion)) {
                version.clear();
            }
            tokio::time::sleep(retry.wait()).await;
        }
    }
}

/// How far a list has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The next page is asked for with this token.
    Until(String),
    /// All of it is in; changes after this version follow.
    All(String),
}

/// What is known of a kind. Told of pages and changes, tells the sink what is new.
#[derive(Debug)]
pub struct Watch<K> {
    fold: Fold<Guarded<K>>,
    interner: Interner,
    sink: Sink,
    /// Of a list of which pages are missing. No cycle is to see objects that were made anew beside those that are gone.
    held: Vec<Event>,
    synced: bool,
    failing: bool,
}

impl<K: Watched> Watch<K> {
    /// Of a kind of which nothing is known.
    pub fn new(sink: Sink) -> Self {
        Self {
            fold: Fold::new(),
            interner: Interner::default(),
            sink,
            held: Vec::new(),
            synced: false,
            failing: false,
        }
    }

    /// Reads all objects; gives the version to watch from.
    async fn list(&mut self, source: &Source<K>) -> Result<String, Error> {
        self.begin_list();
        let mut more = String::new();
        loop {
            let page = source.page(&more).await?;
            self.answered();
            match self.page(page)? {
                Listed::Until(next) => more = next,
                Listed::All(version) => return Ok(version),
            }
        }
    }

    /// A list follows, page by page.
    pub fn begin_list(&mut self) {
        self.fold(WatchEvent::Init, &mut Vec::new());
    }

    /// The next page of a list. The first list is handed on page by page, for no cycle runs before it is whole; a later
    /// one as a whole.
    pub fn page(&mut self, page: Page<K>) -> Result<Listed, Error> {
        let mut events = std::mem::take(&mut self.held);
        events.reserve(page.items.len());
        for object in page.items {
            self.fold(WatchEvent::InitApply(object), &mut events);
        }
        if !page.more.is_empty() {
            if self.synced {
                self.held = events;
            } else {
                self.deliver(events);
            }
            return Ok(Listed::Until(page.more));
        }
        if page.resource_version.is_empty() {
            self.held = events;
            return Err(Error::NoVersion);
        }
        self.fold(WatchEvent::InitDone, &mut events);
        self.deliver(events);
        self.listed();
        Ok(Listed::All(page.resource_version))
    }

    fn listed(&mut self) {
        if !self.synced {
            info!(kind = K::PLURAL, objects = self.fold.len(), "first list is in");
            self.sync();
        }
    }

    /// Hands on what changes, until the connection ends.
    async fn follow(&mut self, source: &Source<K>, version: &mut String) -> Result<(), Error> {
        let started = Instant::now();
        let mut changes = source.changes(version).await?;
        self.answered();
        while changes.arrive().await {
            let (mut events, mut ended) = (Vec::new(), Ok(()));
            while let Some(change) = changes.next() {
                ended = self.change(change, version, &mut events);
                if ended.is_err() {
                    break;
                }
            }
            self.deliver(events);
            ended?;
        }
        // Who ends each watch as it begins is not asked again without a pause.
        tokio::time::sleep(RETRY.0.saturating_sub(started.elapsed())).await;
        Ok(())
    }

    /// A change that the API server told; its event is added to the others, which [`Watch::deliver`] hands on.
    pub fn change(
        &mut self,
        change: Result<Change<K>, Error>,
        version: &mut String,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        let event = match change? {
            Change::Applied(object) => WatchEvent::Apply(object),
            Change::Deleted(object) => WatchEvent::Delete(object),
            Change::Bookmark(reached) => {
                *version = reached;
                return Ok(());
            }
            Change::Error(status) => return Err(Error::Event(status)),
        };
        if let WatchEvent::Apply(object) | WatchEvent::Delete(object) = &event {
            *version = object.meta().resource_version.clone().ok_or(Error::NoVersion)?;
        }
        let (known, told) = (self.fold.len(), events.len());
        let since = match &event {
            WatchEvent::Apply(object) => object.read().and_then(K::waits_since),
            _ => None,
        };
        self.fold(event, events);
        if let Some(since) = since.filter(|_| self.fold.len() > known && events.len() > told) {
            self.sink.metrics.pod_seen(since, Timestamp::now());
        }
        Ok(())
    }

    /// The first list is in, or will not come.
    fn sync(&mut self) {
        self.synced = true;
        // The scheduling thread is gone only when the process ends.
        let _ = self.sink.engine.send(engine::Input::Synced(K::PLURAL));
    }

    /// Hands on what is new.
    pub fn deliver(&self, events: Vec<Event>) {
        self.sink.metrics.known(K::PLURAL, self.fold.len());
        self.sink.metrics.heard(K::PLURAL, Timestamp::now());
        if !events.is_empty() {
            self.sink.metrics.seen(K::PLURAL, events.len());
            let _ = self.sink.engine.send(engine::Input::Events(events));
        }
    }

    fn fold(&mut self, event: WatchEvent<Guarded<K>>, events: &mut Vec<Event>) {
        let event = self.translate(event);
        if let WatchEvent::InitApply(Guarded::Read(object)) | WatchEvent::Apply(Guarded::Read(object)) =
            &event
        {
            self.note(object);
        }
        let folded = self.fold.fold(event, &self.sink.names, &mut self.interner);
        events.extend(folded.events);
        for Rejected { identity, invalid } in folded.remarks {
            warn!(kind = K::PLURAL, object = %identity.key, "{invalid}");
            self.tell(identity, &invalid);
        }
        if let Some(rejected) = folded.rejected {
            self.reject(rejected);
        }
    }

    /// Informs the parts that do not wait for the Cluster.
    fn note(&self, object: &K) {
        if let Some(input) = object.seen() {
            let _ = self.sink.outbox.send(input);
        }
        // The receiver is gone once a PodGroup controller is known to run.
        if let Some(seen) = object.grouping(&self.sink.names) {
            let _ = self.sink.owners.send(seen);
        }
    }

    /// An object that is not for us counts as deleted, or, in a list, as not there.
    fn translate(&self, event: WatchEvent<Guarded<K>>) -> WatchEvent<Guarded<K>> {
        let unwanted = |object: &Guarded<K>| object.read().is_some_and(|one| !one.wanted(&self.sink.nodes));
        match event {
            WatchEvent::InitApply(object) | WatchEvent::Apply(object) if unwanted(&object) => {
                WatchEvent::Delete(object)
            }
            event => event,
        }
    }

    fn reject(&self, rejected: Rejected) {
        let Rejected { identity, invalid } = rejected;
        warn!(kind = K::PLURAL, object = %identity.key, "invalid: {invalid}");
        self.sink.metrics.invalid_object(K::PLURAL);
        self.tell(identity, &invalid);
    }

    /// As an event on the object.
    fn tell(&self, identity: Identity, invalid: &Invalid) {
        let name = identity.key.name.strip_prefix(K::PREFIX).map(Arc::from);
        let key = Key { name: name.unwrap_or(identity.key.name), ..identity.key };
        let static_name = |name: Cow<'static, str>| name;
        let regarding = Regarding {
            api_version: static_name(K::api_version(&())),
            kind: static_name(K::kind(&())),
            key,
            uid: identity.uid,
        };
        let note = Note::invalid(regarding, &invalid.to_string(), Instant::now());
        let _ = self.sink.outbox.send(driver::Input::Note(note));
    }

    fn answered(&mut self) {
        if std::mem::take(&mut self.failing) {
            self.sink.faults.answered(K::PLURAL);
        }
    }

    /// Says it once.
    fn failed(&mut self, error: &Error) {
        self.sink.metrics.watch_failed(K::PLURAL);
        let first = !std::mem::replace(&mut self.failing, true);
        let unavailable = K::OPTIONAL && matches!(error.code(), Some(403 | 404));
        if unavailable && !self.synced {
            self.sync();
        }
        match (error.code(), K::CRD, error.request()) {
            _ if unavailable => {
                if first {
                    info!("{} {}", K::PLURAL, unavailable_for(error.code()));
                }
            }
            (Some(404), Some(crd), _) if first => {
                warn!(
                    "CustomResourceDefinition {crd} is not installed; waiting for it (kubectl apply -f crds/)"
                );
            }
            (Some(404), Some(_), _) => {}
            (Some(410), ..) => debug!(kind = K::PLURAL, "resource version expired; listing again"),
            (_, _, Some(error)) => self.sink.faults.failed(K::PLURAL, error),
            (.., None) if first => warn!(kind = K::PLURAL, "watch failed, trying again: {}", chain(error)),
            (.., None) => {}
        }
    }
}

/// Why an optional kind is not watched, by the code of the answer.
pub(crate) fn unavailable_for(code: Option<u16>) -> &'static str {
    match code {
        Some(403) => "may not be read: going on without",
        _ => "is not served: going on without",
    }
}

/// Waits that start over once a watch was healthy for a while.
struct Retry {
    backoff: Backoff,
    last: Option<Instant>,
}

impl Retry {
    fn new() -> Self {
        Self { backoff: Backoff::new(RETRY.0, RETRY.1), last: None }
    }

    fn wait(&mut self) -> Duration {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= HEALTHY) {
            self.backoff.reset();
        }
        self.last = Some(now);
        self.backoff.next_wait()
    }
}
