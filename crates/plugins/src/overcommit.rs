//! overcommit: admits no more jobs than the cluster can hope to hold.
//!
//! With `room = factor·total − used − inqueue`, where *total* is what all nodes can give, *used* what pods hold on them,
//! and *inqueue* the sum over admitted jobs (Inqueue, or Running with `minMember` pods allocated) of what they were
//! promised and do not have yet, `max(0, minResources − allocated − gated)`, with *gated* what pods behind scheduling gates
//! request: a job is admitted when what it needs more is in the
//! room, for each resource it names. Each admission takes from the room. Devices of a class, which minResources name as
//! `deviceclass/<class>`, count likewise; *used* is what the claims of pods with a place ask for. What pods claim and no
//! minResources name is not looked at before they are to be placed, unless a queue has a quota of it (plugin capacity).
//!
//! Source: Volcano's overcommit plugin. There the whole minResources of an Inqueue job counts, also the part that its
//! pods already use.
use phalanx_resource::{Amounts, DimId};

use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::JobId;
use phalanx_cluster::{DevicesOf, World};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};
use phalanx_framework::plugin::{Opening, Plugin, PluginDef, Verdict};

const NAME: &str = "overcommit";
const FACTOR: &str = "overcommit-factor";
const DEFAULT_FACTOR: f64 = 1.2;

const ARGS: &[ArgSpec] = &[ArgSpec {
    name: FACTOR,
    kind: ArgKind::Float(&[Rule::at_least(1)]),
    default: "1.2",
    doc: "How many times the cluster's resources admitted jobs may ask for.",
}];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Admits jobs while their minResources fit the cluster's resources times a factor.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Overcommit::open(opening)),
};

struct Overcommit {
    /// What further jobs may ask for.
    room: Amounts,
    /// The same of device classes.
    devices: Amounts,
}

impl Overcommit {
    fn open(opening: Opening<'_>) -> Self {
        let Opening { world, args, .. } = opening;
        let factor = Some(args.float(FACTOR, DEFAULT_FACTOR)).filter(|factor| *factor >= 1.0);
        let mut room = world.total.scaled(factor.unwrap_or(DEFAULT_FACTOR));
        room.sub(&world.used);
        if world.any_asks() {
            room.sub(&world.inqueue_requests());
        }
        let factor = factor.unwrap_or(DEFAULT_FACTOR);
        Self { room, devices: device_room(world, factor) }
    }

    /// What is short of what a job asks for.
    fn missing(&self, world: &World, id: JobId) -> Vec<(DimId, i64)> {
        let (job, devices) = (&world.jobs[id], world.devices_missing(id));
        job.missing().short(&self.room).chain(devices.short(&self.devices)).collect()
    }
}

/// What may be promised of the device classes that jobs which wait for admission ask for by their minResources.
fn device_room(world: &World, factor: f64) -> Amounts {
    let mut room = Amounts::new();
    if !world.counts_devices() {
        return room;
    }
    let of_phase = |phase| world.jobs_with_devices().filter(move |id| world.jobs[*id].phase == phase);
    for id in of_phase(Phase::Pending) {
        for (dim, _) in world.jobs[id].min_devices.iter() {
            room.set(dim, world.devices_there(dim));
        }
    }
    let classes: Vec<DimId> = room.iter().map(|(dim, _)| dim).collect();
    if classes.is_empty() {
        return room;
    }
    let mut room = room.scaled(factor);
    for dim in classes {
        room.set(dim, room.get(dim) - world.devices_held_by(DevicesOf::All, dim));
    }
    for id in of_phase(Phase::Inqueue) {
        room.sub(&world.devices_missing(id));
    }
    room
}

impl Plugin for Overcommit {
    fn stands_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn job_enqueueable(&self, world: &World, job: JobId) -> Verdict {
        let missing = self.missing(world, job);
        if missing.is_empty() {
            return Verdict::Permit;
        }
        Verdict::Reject(Refusal::Enqueue { plugin: NAME, text: "resource in cluster is overused", missing })
    }

    fn job_enqueued(&mut self, world: &World, job: JobId) {
        self.room.sub(&world.inqueue_request(job));
        self.devices.sub(&world.devices_missing(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{GroupStatus, Phase, PodGroupInfo, Time};
    use phalanx_framework::conf::{Arg, Args, Flags, Position, Value};
    use phalanx_framework::testing::{group, job_of, member, node, resources, running, world_of};

    fn open(world: &World, factor: Option<Value>) -> Overcommit {
        let mut args = Args::default();
        if let Some(value) = factor {
            args.0.insert(FACTOR.into(), Arg { value, at: Position::default() });
        }
        Overcommit::open(Opening {
            world,
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

    fn admits(plugin: &Overcommit, world: &World, name: &str) -> bool {
        plugin.job_enqueueable(world, job_of(world, name)) == Verdict::Permit
    }

    #[test]
    fn the_factor_says_how_much_may_be_promised() {
        for (factor, limit) in [
            (None, 12),
            (Some(Value::Int(1)), 10),
            (Some(Value::Float(1.5)), 15),
            (Some(Value::Float(0.5)), 12),
            (Some(Value::Int(-3)), 12),
        ] {
            for (cpus, admitted) in [(limit, true), (limit + 1, false)] {
                let mut world = world_of([node("n", "cpu=10")]);
                world.apply(asking("g", &format!("cpu={cpus}"), Phase::Pending).into());
                let plugin = open(&world, factor.clone());
                assert_eq!(admits(&plugin, &world, "g"), admitted, "{cpus} with factor {factor:?}");
            }
        }
    }

    #[test]
    fn what_is_used_and_what_was_promised_is_not_promised_again() {
        let mut world = world_of([node("n", "cpu=10 memory=10Gi")]);
        // 2 used by a gang that was promised 5; 1 used by a pod that was promised nothing.
        world.apply(asking("running", "cpu=5", Phase::Running).into());
        world.apply(running(member("running", 0, "cpu=2"), "n").into());
        world.apply(running(member("free", 0, "cpu=1"), "n").into());
        world.apply(asking("admitted", "cpu=3", Phase::Inqueue).into());
        for (name, request) in [("fits", "cpu=3"), ("more", "cpu=3100m"), ("other", "memory=12Gi")] {
            world.apply(asking(name, request, Phase::Pending).into());
        }
        let mut plugin = open(&world, None);
        assert!(admits(&plugin, &world, "fits") && admits(&plugin, &world, "other"));
        assert!(!admits(&plugin, &world, "more"));
        plugin.job_enqueued(&world, job_of(&world, "fits"));
        assert!(!admits(&plugin, &world, "fits") && admits(&plugin, &world, "other"));
    }

    #[test]
    fn a_refusal_says_what_is_missing() {
        let mut world = world_of([node("n", "cpu=10")]);
        world.apply(asking("g", "cpu=14 nvidia.com/gpu=2", Phase::Pending).into());
        let Verdict::Reject(refusal) = open(&world, None).job_enqueueable(&world, job_of(&world, "g")) else {
            panic!("admitted");
        };
        assert_eq!(
            refusal.text(&world.dims),
            "resource in cluster is overused: insufficient cpu (2 more), nvidia.com/gpu (2 more) (plugin overcommit)"
        );
    }
}
