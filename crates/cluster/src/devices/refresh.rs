//! Slices and classes, and the stocks that follow from them.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cel::Budget;
use rustc_hash::FxHashMap;

use super::quota::resource_of;
use super::shape::STEPS_PER_DEVICE;
use super::{Device, DeviceDomain, DeviceLocation, Devices, Shape, ShapeId, Shapes, Slice, Stock};
use crate::count::Count;
use crate::event::{DeviceClassInfo, DeviceInfo, DeviceName, LeftOut, NodeTerm, SliceInfo, SliceNodes};
use crate::id::{ClaimId, JobId, NodeId};
use crate::{Cluster, Hold};

/// Steps that the shapes of a namespace may take before a cycle: about a hundredth of a second.
const SESSION_STEPS: u64 = 400_000;

impl Slice {
    pub(super) fn name_of(&self, device: &DeviceInfo) -> DeviceName {
        let SliceInfo { driver, pool, .. } = &self.info;
        DeviceName { driver: driver.clone(), pool: pool.clone(), device: device.name.clone() }
    }

    /// Says of each of its devices whether it is good for a shape; in how many steps.
    fn judge(&mut self, at: ShapeId, shape: &mut Shape, budget: &mut Budget) -> u64 {
        let before = budget.left();
        let Self { info, shapes, known, left_out, .. } = self;
        known.add(at);
        for (device, good) in info.devices.iter().zip(shapes) {
            if let Some(why) = device.left_out {
                if shape.selects(&info.driver, device, budget) == Ok(true) {
                    *left_out.entry((at, why)).or_default() += 1;
                }
            } else if shape.takes(&info.driver, device, budget) {
                good.add(at);
            }
        }
        let added = info.devices.len() as u64 * STEPS_PER_DEVICE;
        (before + added).saturating_sub(budget.left())
    }

    /// Shapes that are others now.
    pub(super) fn forget(&mut self, shapes: &Shapes) {
        self.known.subtract(shapes);
        self.shapes.iter_mut().for_each(|good| good.subtract(shapes));
        self.left_out.retain(|(at, _), _| !shapes.has(*at));
    }
}

impl Cluster {
    pub(crate) fn apply_class(&mut self, info: DeviceClassInfo) -> bool {
        self.devices.class_changed(&info.name);
        if !self.devices.has_class(&info.name) {
            self.changes.resources.push(resource_of(&info.name).into());
        }
        self.devices.classes.insert(info.name.clone(), info.clone()) != Some(info)
    }

    pub(crate) fn remove_class(&mut self, name: &Arc<str>) -> bool {
        self.devices.class_changed(name);
        self.devices.classes.remove(name).is_some()
    }

    pub(crate) fn apply_slice(&mut self, info: SliceInfo) -> bool {
        let (name, shapes) = (info.name.clone(), vec![Shapes::default(); info.devices.len()]);
        if self.devices.slices.get(&name).is_some_and(|slice| slice.info == info) {
            return false;
        }
        self.devices.note_pool(&info, false);
        let (left_out, counts) = (BTreeMap::new(), BTreeMap::new());
        let slice = Slice { info, shapes, known: Shapes::default(), left_out, current: false, counts };
        if let Some(before) = self.devices.slices.insert(name, slice) {
            self.devices.note_pool(&before.info, true);
        }
        true
    }

    pub(crate) fn remove_slice(&mut self, name: &str) -> bool {
        let slice = self.devices.slices.remove(name);
        if let Some(slice) = &slice {
            self.devices.note_pool(&slice.info, true);
        }
        slice.is_some()
    }

    /// Rebuilds stocks whose slices, classes or nodes changed.
    pub fn refresh_devices(&mut self) {
        self.refresh_held_devices();
        if self.devices.is_fresh() {
            return;
        }
        self.devices.judge();
        if !self.devices.dirty && self.refresh_pools() {
            return;
        }
        self.devices.changed.clear();
        self.devices.came.clear();
        let mut before: Vec<(NodeId, Stock)> = Vec::new();
        for id in self.nodes.ids().collect::<Vec<NodeId>>() {
            before.push((id, std::mem::take(&mut self.nodes[id].devices)));
        }
        self.devices.lay_out(&self.ids.nodes);
        self.devices.count();
        self.devices.tell_left_out();
        self.devices.dirty = false;
        for device in self.devices.table.values().cloned().collect::<Vec<_>>() {
            self.stock_device(&device, Count::In);
        }
        for claim in self.devices.claims.ids().collect::<Vec<ClaimId>>() {
            self.count_claim(claim, Count::In);
        }
        for (id, stock) in before {
            if self.nodes[id].devices != stock {
                self.touch_node(id);
            }
        }
    }

    /// What is wrong with the stocks.
    pub(crate) fn check_devices(&self, note: &mut crate::check::Note<'_>) {
        let mut holders: BTreeMap<ClaimId, [u32; 4]> = BTreeMap::new();
        for (_, task) in self.tasks.iter() {
            for claim in task.claims.iter().flat_map(|linked| &linked.ids) {
                let counts = holders.entry(*claim).or_default();
                counts[0] += 1;
                for (at, hold) in [Hold::Used, Hold::Pipelined, Hold::Releasing].into_iter().enumerate() {
                    counts[at + 1] += u32::from(task.node.is_some() && task.status.hold() == hold);
                }
            }
        }
        let claimants = self.tasks.iter().filter(|(_, task)| task.claims.is_some()).map(|(id, _)| id);
        note(self.devices.claimants.tasks == claimants.collect(), "tasks with claims".into());
        let mut claiming: FxHashMap<JobId, u32> = FxHashMap::default();
        for job in self.claimants().filter_map(|task| self.tasks[task].job) {
            *claiming.entry(job).or_default() += 1;
        }
        note(self.devices.claimants.by_job == claiming, "jobs with claims".into());
        let asking = self.jobs.iter().filter(|(_, job)| !job.minimum.devices.is_zero()).map(|(id, _)| id);
        note(
            self.devices.claimants.by_min_resources == asking.collect(),
            "jobs whose minResources name devices".into(),
        );
        for (id, claim) in self.devices.claims.iter() {
            let found = holders.get(&id).copied().unwrap_or_default();
            let right = claim.holders() == found && (claim.exists || found[0] > 0);
            note(right, format!("holders of claim {}", claim.info.key));
        }
        if !self.devices.is_fresh() || self.devices.slices.is_empty() {
            return;
        }
        // What queues hold may be stale between cycles.
        let mut known = self.clone();
        known.devices.forget_history();
        known.refresh_held_devices();
        let mut again = known.clone();
        again.devices.dirty = true;
        again.refresh_devices();
        again.refresh_held_devices();
        again.devices.forget_history();
        note(again.devices == known.devices, "devices".to_owned());
        for (id, node) in self.nodes.iter() {
            note(again.nodes[id].devices == node.devices, format!("devices of node {}", node.name));
        }
    }
}

impl Devices {
    fn class_changed(&mut self, name: &str) {
        let mut changed = Shapes::default();
        for (at, shape) in self.shapes.iter_mut().enumerate().filter(|(_, shape)| *shape.class == *name) {
            shape.forget();
            changed.add(at as ShapeId);
        }
        for slice in self.slices.values_mut() {
            slice.forget(&changed);
            slice.counts.remove(name);
        }
        self.dirty |= !changed.is_empty() || self.counts.contains_key(name);
    }

    /// Says of each device what it is good for, where that is not known. A namespace whose shapes take too many steps
    /// goes on the next time.
    fn judge(&mut self) {
        // What is found out now concerns pools that did not change.
        self.dirty |= !self.unjudged.is_empty();
        let Self { shapes, slices, classes, unjudged, .. } = self;
        let all: Shapes =
            (0..shapes.len() as ShapeId).filter(|at| shapes[usize::from(*at)].is_used()).collect();
        let mut open = Shapes::default();
        for slice in slices.values() {
            let mut missing = all.clone();
            missing.subtract(&slice.known);
            open.unite(&missing);
        }
        *unjudged = Shapes::default();
        let mut spent: FxHashMap<Arc<str>, u64> = FxHashMap::default();
        for at in open.ids() {
            let shape = &mut shapes[usize::from(at)];
            let spent = spent.entry(shape.payer(&spent).unwrap_or_default()).or_default();
            if *spent < SESSION_STEPS {
                *spent += shape.read(classes.get(&shape.class));
            }
            shape.within_steps(|shape, budget| {
                for slice in slices.values_mut().filter(|slice| !slice.known.has(at)) {
                    if *spent >= SESSION_STEPS {
                        unjudged.add(at);
                        break;
                    }
                    *spent += slice.judge(at, shape, budget);
                }
            });
        }
    }

    /// Says of each shape which devices would be good for it and are given to nobody.
    pub(super) fn tell_left_out(&mut self) {
        let mut sums: BTreeMap<ShapeId, BTreeMap<LeftOut, u32>> = BTreeMap::new();
        for slice in self.slices.values().filter(|slice| slice.current) {
            for ((shape, why), count) in &slice.left_out {
                *sums.entry(*shape).or_default().entry(*why).or_default() += count;
            }
        }
        let told = |sum: &BTreeMap<LeftOut, u32>| {
            let each = sum.iter().map(|(why, count)| format!("{count} with {}", why.field()));
            format!("devices left out, as not supported: {}", each.collect::<Vec<_>>().join(", ")).into()
        };
        for (at, shape) in self.shapes.iter_mut().enumerate() {
            shape.left_out = sums.get(&(at as ShapeId)).map(told);
        }
    }

    /// Puts the devices of the newest generation of each pool where they are.
    fn lay_out(&mut self, nodes: &rustc_hash::FxHashMap<Arc<str>, NodeId>) {
        let Self { slices, table, local, domains, shared, shapes, .. } = self;
        (*table, *local, *domains, *shared) = Default::default();
        let mut newest: BTreeMap<(&Arc<str>, &Arc<str>), i64> = BTreeMap::new();
        for Slice { info, .. } in slices.values() {
            let generation = newest.entry((&info.driver, &info.pool)).or_insert(info.generation);
            *generation = info.generation.max(*generation);
        }
        let newest: Vec<bool> = slices
            .values()
            .map(|Slice { info, .. }| newest.get(&(&info.driver, &info.pool)) == Some(&info.generation))
            .collect();
        for (slice, current) in slices.values_mut().zip(newest) {
            slice.current = current;
        }
        for slice in slices.values().filter(|slice| slice.current) {
            let info = &slice.info;
            let place = match &info.nodes {
                SliceNodes::Node(name) => nodes.get(name).copied().map(DeviceLocation::Node),
                SliceNodes::Matching(terms) => Some(domain(domains, Some(terms))),
                SliceNodes::All => Some(domain(domains, None)),
            };
            let Some(place) = place else { continue };
            for (device, good) in info.devices.iter().zip(&slice.shapes) {
                let name = slice.name_of(device);
                // Of slices that name the same device the first one counts.
                if table.contains_key(&name) {
                    continue;
                }
                match place {
                    DeviceLocation::Node(node) => local.entry(node).or_default().push(name.clone()),
                    DeviceLocation::Domain(at) => domains[at].devices.push(name.clone()),
                }
                table.insert(name, Device { place, shapes: good.clone(), takers: 0, leavers: 0 });
            }
        }
        for list in local.values_mut() {
            list.sort();
        }
        let [on_nodes, elsewhere] = whereabouts(slices.values());
        for (at, shape) in shapes.iter_mut().enumerate() {
            shape.local = on_nodes.has(at as ShapeId);
            shape.everywhere = !elsewhere.has(at as ShapeId);
        }
        // What is on single nodes too is not shared: see `Shape::local`.
        for device in table.values_mut().filter(|device| matches!(device.place, DeviceLocation::Domain(_))) {
            device.shapes.subtract(&on_nodes);
        }
    }
}

/// What any device of a single node is good for, and any that is not everywhere.
pub(super) fn whereabouts<'a>(slices: impl Iterator<Item = &'a Slice>) -> [Shapes; 2] {
    let (mut on_nodes, mut elsewhere) = (Shapes::default(), Shapes::default());
    for slice in slices.filter(|slice| slice.current) {
        for good in &slice.shapes {
            if matches!(slice.info.nodes, SliceNodes::Node(_)) {
                on_nodes.unite(good);
            }
            if slice.info.nodes != SliceNodes::All {
                elsewhere.unite(good);
            }
        }
    }
    [on_nodes, elsewhere]
}

fn domain(domains: &mut Vec<DeviceDomain>, terms: Option<&Vec<NodeTerm>>) -> DeviceLocation {
    let known = domains.iter().position(|domain| domain.terms.as_ref() == terms);
    DeviceLocation::Domain(known.unwrap_or_else(|| {
        domains.push(DeviceDomain { terms: terms.cloned(), stock: Stock::default(), devices: Vec::new() });
        domains.len() - 1
    }))
}
