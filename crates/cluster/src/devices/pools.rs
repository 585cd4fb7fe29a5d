//! Single pools of devices that changed, each on a node of its own: what there is elsewhere is not looked at.
use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::refresh::whereabouts;
use super::{Device, DeviceLocation, Devices, PoolName, ShapeId, Slice, Stock};
use crate::Cluster;
use crate::count::Count;
use crate::event::{DeviceName, SliceInfo, SliceNodes};
use crate::id::NodeId;

impl Slice {
    fn pool(&self) -> PoolName {
        (self.info.driver.clone(), self.info.pool.clone())
    }

    fn names(&self) -> impl Iterator<Item = DeviceName> + '_ {
        self.info.devices.iter().map(|device| self.name_of(device))
    }
}

impl Devices {
    /// Whether stocks are what slices, classes and nodes make them.
    pub(super) fn is_fresh(&self) -> bool {
        !self.dirty && self.changed.is_empty() && self.came.is_empty() && self.unjudged.is_empty()
    }

    /// A slice is another one now, or is no more.
    pub(super) fn note_pool(&mut self, info: &SliceInfo, gone: bool) {
        if !matches!(info.nodes, SliceNodes::Node(_)) {
            self.dirty = true;
        }
        if self.dirty {
            return;
        }
        let SliceInfo { driver, pool, devices, .. } = info;
        let had = self.changed.entry((driver.clone(), pool.clone())).or_default();
        if gone {
            had.extend(devices.iter().map(|device| DeviceName {
                driver: driver.clone(),
                pool: pool.clone(),
                device: device.name.clone(),
            }));
        }
    }

    /// The pools that changed, with all devices that they may have had. `None` when they are not on single nodes.
    fn take_changed(&mut self) -> Option<BTreeSet<PoolName>> {
        let came = std::mem::take(&mut self.came);
        let mut pools: BTreeSet<PoolName> = self.changed.keys().cloned().collect();
        let on_came =
            |slice: &&Slice| matches!(&slice.info.nodes, SliceNodes::Node(name) if came.contains(name));
        pools.extend(self.slices.values().filter(on_came).map(Slice::pool));
        let mut newest: FxHashMap<PoolName, i64> = FxHashMap::default();
        for slice in self.slices.values().filter(|slice| pools.contains(&slice.pool())) {
            if !matches!(slice.info.nodes, SliceNodes::Node(_)) {
                return None;
            }
            let generation = newest.entry(slice.pool()).or_insert(slice.info.generation);
            *generation = slice.info.generation.max(*generation);
        }
        for slice in self.slices.values_mut() {
            if let Some(newest) = newest.get(&slice.pool()) {
                slice.current = slice.info.generation == *newest;
            }
        }
        Some(pools)
    }

    /// Whether shapes are where they were.
    fn are_shapes_where_they_were(&self) -> bool {
        let [on_nodes, elsewhere] = whereabouts(self.slices.values());
        self.shapes.iter().enumerate().all(|(at, shape)| {
            let at = at as ShapeId;
            shape.local == on_nodes.has(at) && shape.everywhere != elsewhere.has(at)
        })
    }
}

impl Cluster {
    /// A node came: its devices do too.
    pub fn devices_come(&mut self, node: &Arc<str>) {
        if !self.devices.slices.is_empty() && !self.devices.dirty {
            self.devices.came.insert(node.clone());
        }
    }

    /// A node goes: its devices do too, if it has any.
    pub fn devices_go(&mut self, node: NodeId) {
        let any = self.devices.local.contains_key(&node) || self.nodes[node].devices != Stock::default();
        self.devices.dirty |= any && !self.devices.slices.is_empty();
    }

    /// Lays the pools out anew that changed. `false` when all is to be made anew.
    pub(super) fn refresh_pools(&mut self) -> bool {
        let Some(pools) = self.devices.take_changed() else { return false };
        if !self.devices.are_shapes_where_they_were() {
            return false;
        }
        let of_pools = |slice: &&Slice| pools.contains(&slice.pool());
        let slices: Vec<Slice> = self.devices.slices.values().filter(of_pools).cloned().collect();
        let changed = std::mem::take(&mut self.devices.changed);
        let had = changed.into_values().flatten().chain(slices.iter().flat_map(Slice::names));
        let before = self.take_devices(had.collect());
        let mut came: FxHashSet<DeviceName> = FxHashSet::default();
        for slice in slices.iter().filter(|slice| slice.current) {
            let SliceNodes::Node(node) = &slice.info.nodes else { continue };
            let Some(node) = self.ids.nodes.get(node).copied() else { continue };
            let local = self.devices.local.entry(node).or_default();
            for (name, good) in slice.names().zip(&slice.shapes) {
                // Of slices that name the same device the first one counts.
                if !came.insert(name.clone()) {
                    continue;
                }
                let (takers, leavers) = before.get(&name).copied().unwrap_or_default();
                let device =
                    Device { place: DeviceLocation::Node(node), shapes: good.clone(), takers, leavers };
                self.devices.table.insert(name.clone(), device);
                local.push(name);
            }
            local.sort();
            if local.is_empty() {
                self.devices.local.remove(&node);
            }
        }
        let new: FxHashSet<DeviceName> =
            came.iter().filter(|name| !before.contains_key(*name)).cloned().collect();
        self.note_takers(&new);
        for name in came {
            let device = self.devices.table[&name].clone();
            self.stock_device(&device, Count::In);
        }
        self.devices.count();
        self.devices.tell_left_out();
        true
    }

    /// Takes devices out of where they are; returns who took each.
    fn take_devices(&mut self, names: FxHashSet<DeviceName>) -> FxHashMap<DeviceName, (u32, u32)> {
        let mut before = FxHashMap::default();
        let mut left: FxHashSet<NodeId> = FxHashSet::default();
        for name in names {
            let Some(device) = self.devices.table.remove(&name) else { continue };
            self.stock_device(&device, Count::Out);
            if let DeviceLocation::Node(node) = device.place {
                left.insert(node);
            }
            before.insert(name, (device.takers, device.leavers));
        }
        for node in left {
            let Some(local) = self.devices.local.get_mut(&node) else { continue };
            local.retain(|name| !before.contains_key(name));
            if local.is_empty() {
                self.devices.local.remove(&node);
            }
        }
        before
    }

    /// Counts who has devices that were not known.
    fn note_takers(&mut self, names: &FxHashSet<DeviceName>) {
        if names.is_empty() {
            return;
        }
        let Devices { claims, table, .. } = &mut self.devices;
        for (_, claim) in claims.iter() {
            let given = claim.allocation.iter().flat_map(|it| &it.devices);
            for given in given.filter(|given| names.contains(&given.device)) {
                if let Some(device) = table.get_mut(&given.device) {
                    device.takers += 1;
                    device.leavers += u32::from(claim.is_left());
                }
            }
        }
    }
}
