//! overcommit: admits jobs while their minResources fit the cluster's resources times a factor.
//!
//! A job is enqueueable when its minResources, less what its pods hold, fit `factor·total − used − inqueue` in each
//! resource that minResources name. *total* is the allocatable of all nodes, *used* what pods hold, and *inqueue* the
//! sum over admitted jobs (Inqueue, or Running with `minMember` allocated pods) of `max(0, minResources − allocated −
//! gated)`, where *gated* is what pods behind scheduling gates request. Each admission adds to *inqueue*.
//!
//! Devices of a class, which minResources name as `deviceclass/<class>`, count likewise; *used* is then what the claims
//! of pods with a node request. Devices that minResources do not name are first checked when the pods are placed,
//! unless a queue has a quota of them (plugin capacity).
//!
//! Source: Volcano's overcommit plugin. Difference: in Volcano the whole minResources of an Inqueue job count, also the
//! part that its pods already hold.
use phalanx_resource::{Amounts, DimId};

use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Cluster, DevicesOf};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};
use phalanx_framework::plugin::{EnqueueVote, Plugin, PluginContext, PluginDef};

const NAME: &str = "overcommit";
const FACTOR: &str = "overcommit-factor";
const DEFAULT_FACTOR: f64 = 1.2;

const ARGS: &[ArgSpec] = &[ArgSpec {
    name: FACTOR,
    kind: ArgKind::Float(&[Rule::at_least(1)]),
    default: "1.2",
    doc: "How many times the cluster's resources the minResources of admitted jobs may add up to.",
}];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Admits jobs while their minResources fit the cluster's resources times a factor.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Overcommit::open(opening)),
};

struct Overcommit {
    /// What further jobs may request.
    free: Amounts,
    /// How many devices of each class further jobs may request.
    free_devices: Amounts,
}

impl Overcommit {
    fn open(opening: PluginContext<'_>) -> Self {
        let PluginContext { cluster, args, .. } = opening;
        let factor = Some(args.float(FACTOR, DEFAULT_FACTOR)).filter(|factor| *factor >= 1.0);
        let factor = factor.unwrap_or(DEFAULT_FACTOR);
        let mut free = cluster.sums.allocatable.scaled(factor);
        free.sub(&cluster.sums.used);
        if cluster.any_asks() {
            free.sub(&cluster.inqueue_requests());
        }
        Self { free, free_devices: free_devices(cluster, factor) }
    }

    /// By how much the free amounts fall short of what a job needs.
    fn missing(&self, cluster: &Cluster, id: JobId) -> Vec<(DimId, i64)> {
        let (job, devices) = (&cluster.jobs[id], cluster.devices_missing(id));
        job.missing().short(&self.free).chain(devices.short(&self.free_devices)).collect()
    }
}

/// How many devices of each class jobs may still request, for the classes in minResources of pending jobs.
fn free_devices(cluster: &Cluster, factor: f64) -> Amounts {
    let mut free = Amounts::new();
    if !cluster.counts_devices() {
        return free;
    }
    let of_phase = |phase| cluster.jobs_with_devices().filter(move |id| cluster.jobs[*id].phase == phase);
    for id in of_phase(Phase::Pending) {
        for (dim, _) in cluster.jobs[id].minimum.devices.iter() {
            free.set(dim, cluster.devices_there(dim));
        }
    }
    let classes: Vec<DimId> = free.iter().map(|(dim, _)| dim).collect();
    if classes.is_empty() {
        return free;
    }
    let mut free = free.scaled(factor);
    for dim in classes {
        free.set(dim, free.get(dim) - cluster.devices_held_by(DevicesOf::All, dim));
    }
    for id in of_phase(Phase::Inqueue) {
        free.sub(&cluster.devices_missing(id));
    }
    free
}

impl Plugin for Overcommit {
    fn job_enqueueable(&self, cluster: &Cluster, job: JobId) -> EnqueueVote {
        let missing = self.missing(cluster, job);
        if missing.is_empty() {
            return EnqueueVote::Permit;
        }
        EnqueueVote::Reject(Refusal::Enqueue {
            plugin: NAME,
            text: "resource in cluster is overused",
            missing,
        })
    }

    fn job_enqueued(&mut self, cluster: &Cluster, job: JobId) {
        self.free.sub(&cluster.inqueue_request(job));
        self.free_devices.sub(&cluster.devices_missing(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{GroupStatus, Phase, PodGroupInfo, Time};
    use phalanx_framework::conf::{Arg, Args, Flags, Position, Value};
    use phalanx_framework::testing::{cluster_of, group, job_of, member, node, resources, running};

    fn open(cluster: &Cluster, factor: Option<Value>) -> Overcommit {
        let mut args = Args::default();
        if let Some(value) = factor {
            args.0.insert(FACTOR.into(), Arg { value, at: Position::default() });
        }
        Overcommit::open(PluginContext {
            cluster,
            args: &args,
            flags: Flags::default(),
            now: Time::default(),
            before: None,
            extender: None,
        })
    }

    fn asking(name: &str, min_resources: &str, phase: Phase) -> PodGroupInfo {
        let status = GroupStatus { phase, ..GroupStatus::default() };
        PodGroupInfo { min_resources: Some(resources(min_resources)), status, ..group(name, 1) }
    }

    fn admits(plugin: &Overcommit, cluster: &Cluster, name: &str) -> bool {
        plugin.job_enqueueable(cluster, job_of(cluster, name)) == EnqueueVote::Permit
    }

    #[test]
    fn jobs_are_admitted_up_to_the_factor() {
        for (factor, limit) in [
            (None, 12),
            (Some(Value::Int(1)), 10),
            (Some(Value::Float(1.5)), 15),
            (Some(Value::Float(0.5)), 12),
            (Some(Value::Int(-3)), 12),
        ] {
            for (cpus, admitted) in [(limit, true), (limit + 1, false)] {
                let mut cluster = cluster_of([node("n", "cpu=10")]);
                cluster.apply(asking("g", &format!("cpu={cpus}"), Phase::Pending).into());
                let plugin = open(&cluster, factor.clone());
                assert_eq!(admits(&plugin, &cluster, "g"), admitted, "{cpus} with factor {factor:?}");
            }
        }
    }

    #[test]
    fn used_and_inqueue_amounts_are_not_admitted_again() {
        let mut cluster = cluster_of([node("n", "cpu=10 memory=10Gi")]);
        // Gang running holds 2 cores and has minResources of 5; pod free-0 holds 1 core without minResources.
        cluster.apply(asking("running", "cpu=5", Phase::Running).into());
        cluster.apply(running(member("running", 0, "cpu=2"), "n").into());
        cluster.apply(running(member("free", 0, "cpu=1"), "n").into());
        cluster.apply(asking("admitted", "cpu=3", Phase::Inqueue).into());
        for (name, request) in [("fits", "cpu=3"), ("more", "cpu=3100m"), ("other", "memory=12Gi")] {
            cluster.apply(asking(name, request, Phase::Pending).into());
        }
        let mut plugin = open(&cluster, None);
        assert!(admits(&plugin, &cluster, "fits") && admits(&plugin, &cluster, "other"));
        assert!(!admits(&plugin, &cluster, "more"));
        plugin.job_enqueued(&cluster, job_of(&cluster, "fits"));
        assert!(!admits(&plugin, &cluster, "fits") && admits(&plugin, &cluster, "other"));
    }

    #[test]
    fn the_refusal_names_what_is_missing() {
        let mut cluster = cluster_of([node("n", "cpu=10")]);
        cluster.apply(asking("g", "cpu=14 nvidia.com/gpu=2", Phase::Pending).into());
        let EnqueueVote::Reject(refusal) =
            open(&cluster, None).job_enqueueable(&cluster, job_of(&cluster, "g"))
        else {
            panic!("admitted");
        };
        assert_eq!(
            refusal.text(&cluster.dims_told(job_of(&cluster, "g"))),
            "resource in cluster is overused: insufficient cpu (2 more), nvidia.com/gpu (2 more) (plugin overcommit)"
        );
    }
}
