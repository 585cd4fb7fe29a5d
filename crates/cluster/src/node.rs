//! Nodes and their resources.
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId};

use super::class::Class;
use super::count::Count;
use super::devices::Stock;
use super::task::Hold;
use super::usage::Usage;
use super::volumes::{AttachmentShift, ClaimUse};
use crate::Fit;
use crate::annotation::REVOCABLE_ZONE;
use crate::event::{Constraints, Disk, DiskKind, HostPort, Taint};
use crate::id::{ImageId, TaskId};

/// The value of a clock that counts changes, by which caches tell what changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u64);

/// Number of tasks on a node that use a host port or disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taken<T> {
    pub(crate) what: T,
    pub(crate) held: u32,
    pub(crate) releasing: u32,
}

impl<T: Clone + Ord> Taken<T> {
    fn count(list: &mut Vec<Self>, wanted: &[T], hold: Hold, count: Count) {
        for what in wanted {
            let at = list.binary_search_by(|taken| taken.what.cmp(what)).unwrap_or_else(|at| {
                list.insert(at, Taken { what: what.clone(), held: 0, releasing: 0 });
                at
            });
            count.step(list[at].counter(hold));
            if list[at].held + list[at].releasing == 0 {
                list.remove(at);
            }
        }
    }

    fn counter(&mut self, hold: Hold) -> &mut u32 {
        if hold == Hold::Releasing { &mut self.releasing } else { &mut self.held }
    }

    /// Whether any task uses it; with [`Fit::FutureIdle`], any task that is not terminating.
    fn is_used(&self, fit: Fit) -> bool {
        self.held + if fit.is_future_idle() { 0 } else { self.releasing } > 0
    }
}

/// The volumes that are attached to a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeVolumes {
    /// Maximum number of attached volumes by driver, where there is one; sorted by driver.
    pub limits: Vec<(Arc<str>, u32)>,
    /// Attached volumes by driver, sorted by driver.
    pub attached: Vec<(Arc<str>, ClaimUse)>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
// Fields that `place` reads and writes come first, close together in memory.
#[repr(C)]
pub struct Node {
    /// Set from the clock when resources or attributes change.
    pub version: Stamp,
    /// Set from the clock when attributes change.
    pub static_version: Stamp,
    /// Tasks with this node, nominated ones included.
    pub tasks: Vec<TaskId>,
    /// The Node object exists; otherwise only pods on it were seen.
    pub exists: bool,
    /// The Ready condition is True.
    pub ready: bool,
    /// Cordoned.
    pub unschedulable: bool,
    /// cpu (milli) and memory (bytes) in use, where pods without a request count as kube-scheduler counts them.
    pub nonzero_used: [i64; 2],
    /// Resources that no pod uses; negative where pods use more than there is.
    pub idle: Amounts,
    /// Allocatable resources.
    pub allocatable: Amounts,
    /// Sum of requests of nominated pods.
    pub pipelined: Amounts,
    /// Sum of requests of terminating pods.
    pub releasing: Amounts,
    /// Host ports in use.
    pub ports: Vec<Taken<HostPort>>,
    /// Disks in use that exclude each other.
    pub disks: Vec<Taken<Disk>>,
    /// Devices that can be allocated.
    pub devices: Stock,
    /// Attached volumes.
    pub volumes: NodeVolumes,
    /// Measured usage, if it is recent.
    pub usage: Option<Usage>,
    /// Name.
    pub name: Arc<str>,
    /// Labels, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Images and their sizes in bytes, sorted by id.
    pub images: Vec<(ImageId, i64)>,
}

impl Node {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.label_value(key).map(|value| &**value)
    }

    /// The revocable zone of the node.
    pub fn zone(&self) -> Option<&str> {
        self.label(REVOCABLE_ZONE).filter(|zone| !zone.is_empty())
    }

    /// The value of a label, shared.
    pub fn label_value(&self, key: &str) -> Option<&Arc<str>> {
        let at = self.labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// The size of an image on the node, in bytes.
    pub fn image_size(&self, image: ImageId) -> Option<i64> {
        let at = self.images.binary_search_by(|(id, _)| id.cmp(&image)).ok()?;
        Some(self.images[at].1)
    }

    /// Idle resources once terminating pods are gone and nominated pods are bound (Volcano's `FutureIdle`).
    pub fn future_idle(&self) -> Amounts {
        let mut room = self.idle.clone();
        room.add(&self.releasing);
        room.sub(&self.pipelined);
        room
    }

    /// Whether a request fits the idle resources, and leaves nominated tasks theirs.
    #[inline]
    pub fn fits_now(&self, request: &Amounts) -> bool {
        request.fits(&self.idle) && (self.pipelined.is_zero() || request.fits(&self.future_idle()))
    }

    /// Whether a request fits the future idle resources.
    #[inline]
    pub fn fits_later(&self, request: &Amounts) -> bool {
        if self.releasing.is_zero() && self.pipelined.is_zero() {
            return request.fits(&self.idle);
        }
        request.fits(&self.future_idle())
    }

    /// The amount of a resource that pods use or are nominated for.
    #[inline]
    pub fn used(&self, dim: DimId) -> i64 {
        self.allocatable.get(dim) - self.idle.get(dim) + self.pipelined.get(dim)
    }

    /// Whether a host port is in use; with [`Fit::FutureIdle`], by a task that is not terminating.
    pub fn port_taken(&self, wanted: &HostPort, fit: Fit) -> bool {
        self.ports.iter().any(|taken| taken.is_used(fit) && collide(&taken.what, wanted))
    }

    /// Whether a disk is in use in a way that excludes another pod; with [`Fit::FutureIdle`], by a task that is not
    /// terminating.
    pub fn disk_taken(&self, wanted: &Disk, fit: Fit) -> bool {
        self.disks.iter().any(|taken| taken.is_used(fit) && excludes(&taken.what, wanted))
    }

    /// The maximum number of volumes that a driver can attach.
    pub fn attach_limit(&self, driver: &str) -> Option<u32> {
        let limit = self.volumes.limits.iter().find(|(name, _)| **name == *driver);
        limit.map(|(_, limit)| *limit)
    }

    /// The number of volumes that a driver has attached; with [`Fit::FutureIdle`], without those of terminating tasks.
    pub fn attached(&self, driver: &str, fit: Fit) -> u32 {
        let attached = self.volumes.attached.iter().find(|(name, _)| **name == *driver);
        attached.map_or(0, |(_, on)| if fit.is_future_idle() { on.held } else { on.held + on.releasing })
    }

    /// Changes what a driver has attached.
    pub(super) fn attach(&mut self, shift: &AttachmentShift) {
        let list = &mut self.volumes.attached;
        let at = list.binary_search_by(|(name, _)| name.cmp(&shift.driver)).unwrap_or_else(|at| {
            list.insert(at, (shift.driver.clone(), ClaimUse::default()));
            at
        });
        list[at].1.change(shift);
        if list[at].1 == ClaimUse::default() {
            list.remove(at);
        }
    }

    /// Reads what a move to this node is about to read.
    #[inline]
    pub fn prefetch(&self) {
        let room =
            self.idle.get(DimId::CPU) ^ self.pipelined.get(DimId::CPU) ^ self.releasing.get(DimId::CPU);
        std::hint::black_box((self.version.0, room, self.volumes.limits.len(), self.name.len()));
    }

    /// Whether no rule about resources tells two nodes apart.
    pub fn same_resources(&self, other: &Node) -> bool {
        self.resource_state() == other.resource_state()
    }

    /// Hashes what rules about resources read.
    pub fn hash_resources(&self, state: &mut impl Hasher) {
        self.resource_state().hash(state);
    }

    /// All that rules about resources read. Other fields are attributes, or read by no rule.
    fn resource_state(&self) -> impl PartialEq + Hash + '_ {
        // Without `..`, so that a new field has to be sorted in here.
        let Self {
            name: _,
            exists: _,
            labels: _,
            taints: _,
            unschedulable: _,
            ready: _,
            allocatable,
            idle,
            releasing,
            pipelined,
            nonzero_used,
            usage,
            tasks: _,
            ports,
            disks,
            images: _,
            devices,
            volumes: NodeVolumes { limits, attached },
            version: _,
            static_version: _,
        } = self;
        let amounts = (idle, nonzero_used, allocatable, releasing, pipelined);
        // Attachments count only against limits.
        let attached = (!limits.is_empty()).then_some((limits, attached));
        (amounts, ports, disks, devices, usage.as_ref().map(Usage::state), attached)
    }

    /// Copies all that rules about resources read from another node.
    pub fn assume_room(&mut self, of: &Node) {
        self.allocatable.clone_from(&of.allocatable);
        self.idle.clone_from(&of.idle);
        self.releasing.clone_from(&of.releasing);
        self.pipelined.clone_from(&of.pipelined);
        self.nonzero_used = of.nonzero_used;
        self.usage.clone_from(&of.usage);
        self.ports.clone_from(&of.ports);
        self.disks.clone_from(&of.disks);
        self.devices.clone_from(&of.devices);
        self.volumes.clone_from(&of.volumes);
    }

    /// Counts the request of a task.
    pub(crate) fn count_request(&mut self, class: &Class, hold: Hold, count: Count) {
        match hold {
            Hold::Nothing => return,
            Hold::Used => count.take(&mut self.idle, &class.request),
            Hold::Pipelined => count.add(&mut self.pipelined, &class.request),
            Hold::Releasing => {
                count.take(&mut self.idle, &class.request);
                count.add(&mut self.releasing, &class.request);
            }
        }
        for (sum, amount) in self.nonzero_used.iter_mut().zip(class.nonzero) {
            *sum += i64::from(count.sign()) * amount;
        }
    }

    /// Counts the host ports and disks of a task.
    pub fn count_ports_and_disks(&mut self, constraints: &Constraints, hold: Hold, count: Count) {
        if hold != Hold::Nothing {
            Taken::count(&mut self.ports, &constraints.host_ports, hold, count);
            Taken::count(&mut self.disks, &constraints.disks, hold, count);
        }
    }
}

/// Two host ports collide when protocol and port are equal and one address covers the other.
fn collide(a: &HostPort, b: &HostPort) -> bool {
    let any = |port: &HostPort| &*port.ip == "0.0.0.0";
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || any(a) || any(b))
}

/// Whether two pods cannot use two disks on one node. Source: kube-scheduler's VolumeRestrictions
/// (`isVolumeConflict`).
fn excludes(a: &Disk, b: &Disk) -> bool {
    let both_read = a.read_only && b.read_only && a.of != DiskKind::Aws;
    let is_one = a.of == b.of && a.name == b.name;
    let near = a.of != DiskKind::Rbd || a.monitors.iter().any(|monitor| b.monitors.contains(monitor));
    is_one && near && !both_read
}
