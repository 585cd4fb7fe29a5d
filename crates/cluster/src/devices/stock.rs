//! Devices in one place, by what they are good for, and what is asked of them there.

use super::{ShapeId, Shapes};
use crate::Fit;
use crate::count::Count;

/// Devices and what is asked of them. Devices that are equally good are a number, which makes nodes alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stock {
    /// Devices by shapes, sorted: now, and later.
    devices: Vec<(Shapes, [u32; 2])>,
    /// What claims of pods with a place ask for that were given no devices yet, by shape, sorted: of pods that take it
    /// now, and of pods that are nominated.
    asked: Vec<(ShapeId, [u32; 2])>,
}

fn shift<K: Clone + Ord>(list: &mut Vec<(K, [u32; 2])>, key: &K, column: usize, number: u32, count: Count) {
    let at = list.binary_search_by(|(known, _)| known.cmp(key)).unwrap_or_else(|at| {
        list.insert(at, (key.clone(), [0; 2]));
        at
    });
    let value = &mut list[at].1[column];
    match count {
        Count::In => *value += number,
        Count::Out => *value -= number,
    }
    if list[at].1 == [0; 2] {
        list.remove(at);
    }
}

impl Stock {
    /// Counts a device.
    pub(super) fn device(&mut self, shapes: &Shapes, fit: Fit, count: Count) {
        if !shapes.is_empty() {
            shift(&mut self.devices, shapes, usize::from(fit.is_future_idle()), 1, count);
        }
    }

    /// A device that comes later does not.
    pub(super) fn keep(&mut self, shapes: &Shapes) {
        if self.devices.iter().any(|(known, [_, later])| known == shapes && *later > 0) {
            self.device(shapes, Fit::FutureIdle, Count::Out);
        }
    }

    /// Counts what is asked for.
    pub(super) fn ask(&mut self, shape: ShapeId, number: u32, fit: Fit, count: Count) {
        if number > 0 {
            shift(&mut self.asked, &shape, usize::from(fit.is_future_idle()), number, count);
        }
    }

    /// The same devices and those of another, with what is asked of this one.
    pub(super) fn with_devices(&mut self, other: &Stock) {
        for (shapes, [now, later]) in &other.devices {
            shift(&mut self.devices, shapes, 0, *now, Count::In);
            shift(&mut self.devices, shapes, 1, *later, Count::In);
        }
    }

    /// Whether all that is asked for, and `more`, can be allocated. Devices that are idle now are left to nominated
    /// pods where these need them later.
    pub fn serves(&self, more: &[(ShapeId, u32)], fit: Fit) -> bool {
        let later = || self.flows(more, Fit::FutureIdle);
        match fit {
            Fit::FutureIdle => later(),
            Fit::Idle => self.flows(more, fit) && (!self.is_nominated() || later()),
        }
    }

    /// Whether nominated pods ask for devices.
    fn is_nominated(&self) -> bool {
        self.asked.iter().any(|(_, [_, nominated])| *nominated > 0)
    }

    fn flows(&self, more: &[(ShapeId, u32)], fit: Fit) -> bool {
        let count =
            |counts: [u32; 2]| counts[0].saturating_add(if fit.is_future_idle() { counts[1] } else { 0 });
        let mut wanted: Vec<(ShapeId, u32)> = more.to_vec();
        for (shape, counts) in &self.asked {
            match wanted.iter_mut().find(|(other, _)| other == shape) {
                Some((_, sum)) => *sum = sum.saturating_add(count(*counts)),
                None => wanted.push((*shape, count(*counts))),
            }
        }
        let devices = self.devices.iter().map(|(shapes, counts)| (shapes, count(*counts))).collect();
        Flow::new(&wanted, devices).suffices(&wanted)
    }
}

/// Requests matched with devices: a flow, since one device may be good for several.
struct Flow<'a> {
    shapes: Vec<&'a Shapes>,
    /// Devices that are left, by kind.
    left: Vec<u32>,
    /// What each request got of each kind.
    given: Vec<Vec<u32>>,
    requests: Vec<ShapeId>,
}

impl<'a> Flow<'a> {
    fn new(wanted: &[(ShapeId, u32)], devices: Vec<(&'a Shapes, u32)>) -> Self {
        let (shapes, left): (Vec<_>, Vec<_>) = devices.into_iter().unzip();
        let requests = wanted.iter().map(|(shape, _)| *shape).collect();
        Self { given: vec![vec![0; left.len()]; wanted.len()], shapes, left, requests }
    }

    fn suffices(mut self, wanted: &[(ShapeId, u32)]) -> bool {
        (0..wanted.len()).all(|request| {
            let mut open = wanted[request].1;
            while open > 0 {
                let got = self.give(request, open, &mut vec![false; self.left.len()]);
                if got == 0 {
                    return false;
                }
                open -= got;
            }
            true
        })
    }

    /// Gives a request devices that are left, or another's that can have others instead; how many.
    fn give(&mut self, request: usize, most: u32, seen: &mut [bool]) -> u32 {
        for kind in 0..self.left.len() {
            if seen[kind] || !self.shapes[kind].has(self.requests[request]) {
                continue;
            }
            seen[kind] = true;
            let mut got = most.min(self.left[kind]);
            self.left[kind] -= got;
            for other in 0..self.given.len() {
                if got == 0 && self.given[other][kind] > 0 {
                    got = self.give(other, most.min(self.given[other][kind]), seen);
                    self.given[other][kind] -= got;
                }
            }
            self.given[request][kind] += got;
            if got > 0 {
                return got;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every way to give devices one by one.
    fn plain(wanted: &[ShapeId], devices: &[Shapes]) -> bool {
        let Some((first, rest)) = wanted.split_first() else { return true };
        (0..devices.len()).any(|at| {
            let mut others = devices.to_vec();
            let device = others.remove(at);
            device.has(*first) && plain(rest, &others)
        })
    }

    proptest! {
        #[test]
        fn a_stock_says_yes_where_brute_force_finds_an_allocation(
            asked in prop::collection::vec((0u16..3, any::<bool>()), 0..4),
            more in prop::collection::vec(0u16..3, 0..3),
            devices in prop::collection::vec((prop::collection::vec(0u16..3, 0..3).prop_map(Shapes::from_iter), any::<bool>()), 0..6),
        ) {
            let mut stock = Stock::default();
            let fit = |later: bool| if later { Fit::FutureIdle } else { Fit::Idle };
            for (shape, later) in &asked {
                stock.ask(*shape, 1, fit(*later), Count::In);
            }
            for (shapes, later) in &devices {
                stock.device(shapes, fit(*later), Count::In);
            }
            let pick = |later: bool| {
                let wanted = asked.iter().filter(|(_, nominated)| later || !nominated).map(|(shape, _)| *shape);
                let wanted: Vec<ShapeId> = wanted.chain(more.iter().copied()).collect();
                let devices = devices.iter().filter(|(_, leaving)| later || !leaving);
                plain(&wanted, &devices.map(|(shapes, _)| shapes.clone()).collect::<Vec<_>>())
            };
            let mut list: Vec<(ShapeId, u32)> = Vec::new();
            for shape in &more {
                match list.iter_mut().find(|(known, _)| known == shape) {
                    Some((_, count)) => *count += 1,
                    None => list.push((*shape, 1)),
                }
            }
            let nominated = asked.iter().any(|(_, nominated)| *nominated);
            prop_assert_eq!(stock.serves(&list, Fit::FutureIdle), pick(true));
            prop_assert_eq!(stock.serves(&list, Fit::Idle), pick(false) && (!nominated || pick(true)));
            for (shape, later) in &asked {
                stock.ask(*shape, 1, fit(*later), Count::Out);
            }
            for (shapes, later) in &devices {
                stock.device(shapes, fit(*later), Count::Out);
            }
            prop_assert_eq!(stock, Stock::default());
        }
    }
}
