//! Volumes and devices against brute force, in allocate and in preempt: volumes that are bound, that claims of a gang
//! compete for or have made, that nodes attach so many of, that one pod at a time uses; devices of nodes and of several
//! nodes.
mod case;

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::decision::{Decision, Prepare};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use case::{Case, Device, Has, Mix, Reach, SHARED, case};
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::{Cycle, cases};

/// For each member its node, if it has one.
type Places = Vec<Option<usize>>;
/// The volumes of claims: existing or provisioned ones.
type Chosen = BTreeMap<usize, Option<usize>>;
/// The devices of claims.
type Given = BTreeMap<usize, Vec<Device>>;

fn placed(places: &[Option<usize>]) -> impl Iterator<Item = (usize, usize)> + '_ {
    places.iter().enumerate().filter_map(|(member, node)| Some((member, (*node)?)))
}

/// The volumes of claims once the pods are bound.
fn written(cycle: &Cycle) -> (Chosen, Given) {
    let number = |name: &str| name[1..].parse::<usize>().expect("a number");
    let (mut chosen, mut given) = (Chosen::new(), Given::new());
    let binds = cycle.decisions.iter().filter_map(|decision| match decision {
        Decision::Bind { pods, .. } => Some(pods),
        _ => None,
    });
    for step in binds.flatten().flat_map(|binding| &binding.prepare) {
        match step {
            Prepare::Volume(it) => {
                chosen.insert(number(&it.claim.name), it.volume.as_deref().map(number));
            }
            Prepare::Claim(it) => {
                let devices = it.allocation.iter().flat_map(|all| &all.devices);
                let devices: Vec<Device> = devices.map(|one| Device::named(&one.device)).collect();
                if !devices.is_empty() {
                    given.insert(number(&it.key.name), devices);
                }
            }
        }
    }
    (chosen, given)
}

impl Case {
    fn stays(&self, gone: u32) -> impl Iterator<Item = usize> + '_ {
        (0..self.pods.len()).filter(move |at| gone & (1 << at) == 0)
    }

    /// Whether the places of the members are valid once these pods are gone, by resources and by claims in use.
    fn holds(&self, gone: u32, places: &Places) -> bool {
        let room = |node: usize| {
            let others = self.stays(gone).map(|at| &self.pods[at]).filter(|pod| pod.node == node);
            let own = placed(places).filter(|(_, at)| *at == node);
            others.map(|pod| pod.wish.cores).sum::<i64>()
                + own.map(|(member, _)| self.members[member].wish.cores).sum::<i64>()
                <= self.hosts[node].cores
        };
        placed(places).all(|(member, node)| self.members[member].only.is_none_or(|only| only == node))
            && (0..self.hosts.len()).all(room)
            && (0..self.claims.len()).all(|claim| self.may_use(gone, places, claim))
            && (0..self.hosts.len()).all(|node| self.attaches(gone, places, node))
    }

    /// Nodes of the members that use a claim.
    fn users(&self, places: &Places, uses: impl Fn(&case::Wish) -> bool) -> Vec<usize> {
        placed(places).filter(|(at, _)| uses(&self.members[*at].wish)).map(|(_, node)| node).collect()
    }

    fn may_use(&self, gone: u32, places: &Places, claim: usize) -> bool {
        let it = &self.claims[claim];
        let users = self.users(places, |wish| wish.volumes.contains(&claim));
        let others = self.stays(gone).filter(|at| self.pods[*at].wish.volumes.contains(&claim)).count();
        let alone = !it.once || users.is_empty() || users.len() + others == 1;
        let reached = match it.has {
            Has::Bound { reach, by_label, .. } => {
                users.iter().all(|node| self.bound_reaches(reach, by_label, *node))
            }
            _ => true,
        };
        alone && reached
    }

    fn attaches(&self, gone: u32, places: &Places, node: usize) -> bool {
        let Some(most) = self.hosts[node].attach else { return true };
        let left: Vec<usize> = (0..self.pods.len()).filter(|at| gone & (1 << at) != 0).collect();
        let mut claims: BTreeSet<usize> = self.attached(node, &left).into_iter().collect();
        let own = placed(places).filter(|(_, at)| *at == node);
        let own = own.flat_map(|(member, _)| &self.members[member].wish.volumes);
        claims.extend(own.copied().filter(|claim| self.is_attached(*claim)));
        claims.len() <= most
    }

    /// Claims without a volume that members with a place use.
    fn open(&self, places: &Places) -> Vec<usize> {
        let open = |claim: &usize| !matches!(self.claims[*claim].has, Has::Bound { .. });
        let used = |claim: &usize| !self.users(places, |wish| wish.volumes.contains(claim)).is_empty();
        (0..self.claims.len()).filter(open).filter(used).collect()
    }

    /// Whether a claim can have this volume.
    fn may_get(&self, places: &Places, claim: usize, got: Option<usize>) -> bool {
        let users = self.users(places, |wish| wish.volumes.contains(&claim));
        let meant = |at: usize| self.volumes[at].meant == Some(claim) && self.is_of_class(at, claim);
        let is_meant = (0..self.volumes.len()).any(meant);
        let size = match self.claims[claim].has {
            Has::Bound { .. } => return false,
            Has::Local(size) | Has::Made(size, _) => size,
        };
        match (got, &self.claims[claim].has) {
            (Some(at), _) => {
                let it = &self.volumes[at];
                let suits = it.size >= size && (it.once || !self.claims[claim].once) && it.meant.is_none();
                self.is_of_class(at, claim)
                    && users.iter().all(|node| self.reaches(it.reach, *node))
                    && if is_meant { meant(at) } else { suits }
            }
            (None, Has::Made(_, zone)) => {
                let here = |node: &usize| zone.is_none_or(|zone| self.hosts[*node].zone == zone);
                !is_meant && users.iter().all(|node| here(node) && *node == users[0])
            }
            (None, _) => false,
        }
    }

    fn is_of_class(&self, volume: usize, claim: usize) -> bool {
        match self.claims[claim].has {
            Has::Bound { .. } => false,
            Has::Local(_) => self.volumes[volume].local,
            Has::Made(_, zone) => !self.volumes[volume].local && zone.is_none(),
        }
    }

    /// A volume for each claim.
    fn volumes_for(&self, places: &Places, claims: &[usize], taken: &mut Vec<usize>) -> bool {
        let Some((first, rest)) = claims.split_first() else { return true };
        for at in (0..self.volumes.len()).filter(|at| !taken.contains(at)).collect::<Vec<_>>() {
            if self.may_get(places, *first, Some(at)) {
                taken.push(at);
                if self.volumes_for(places, rest, taken) {
                    return true;
                }
                taken.pop();
            }
        }
        self.may_get(places, *first, None) && self.volumes_for(places, rest, taken)
    }

    /// Devices of allocated claims, and claims to allocate with the nodes that have to reach the devices.
    #[expect(clippy::type_complexity, reason = "two lists of plain figures")]
    fn asked(
        &self,
        gone: u32,
        places: &Places,
        pinned: bool,
    ) -> Option<(Vec<Device>, Vec<(usize, Vec<usize>)>)> {
        let (mut taken, mut asked) = (Vec::new(), Vec::new());
        for claim in 0..self.requests.len() {
            let users = self.users(places, |wish| wish.devices.contains(&claim));
            let kept = self.stays(gone).any(|at| self.pods[at].wish.devices.contains(&claim));
            // Pods of the claim stay on one node until its devices are known, where devices are not on every node.
            let everywhere = self.shared.iter().all(|reach| *reach == Reach::All)
                && self.requests[claim].iter().all(|(class, _)| *class == SHARED + 1);
            let apart = pinned && !everywhere && users.iter().any(|node| *node != users[0]);
            // A claim whose last pod is gone is allocated anew.
            let leaves = !kept && self.pods.iter().any(|pod| pod.wish.devices.contains(&claim));
            if let Some(given) = &self.given[claim] {
                if !users.iter().all(|node| given.iter().all(|device| self.device_reaches(*device, *node))) {
                    return None;
                }
                if leaves && apart {
                    return None;
                }
                if kept || !users.is_empty() {
                    taken.extend(given);
                }
            } else if !users.is_empty() {
                if apart {
                    return None;
                }
                let each = self.requests[claim].iter();
                let each = each.flat_map(|(class, count)| std::iter::repeat_n(*class, *count));
                asked.extend(each.map(|class| (class, users.clone())));
            }
        }
        Some((taken, asked))
    }

    fn devices_for(&self, taken: &mut Vec<Device>, asked: &[(usize, Vec<usize>)]) -> bool {
        let Some(((class, nodes), rest)) = asked.split_first() else { return true };
        let here: Vec<Device> = self.devices(nodes[0]).collect();
        for device in here {
            let all = nodes.iter().all(|node| self.device_reaches(device, *node));
            if all && !taken.contains(&device) && self.is_of(device, *class) {
                taken.push(device);
                if self.devices_for(taken, rest) {
                    return true;
                }
                taken.pop();
            }
        }
        false
    }

    /// Whether the places of the members are valid. `pinned`: no member is bound before the others.
    fn may_be(&self, gone: u32, places: &Places, pinned: bool) -> bool {
        self.holds(gone, places)
            && self.volumes_for(places, &self.open(places), &mut Vec::new())
            && self
                .asked(gone, places, pinned)
                .is_some_and(|(mut taken, asked)| self.devices_for(&mut taken, &asked))
    }

    /// Places for as many members as the gang needs.
    fn way(&self, gone: u32) -> Option<Places> {
        let choices = self.hosts.len() + 1;
        (0..choices.pow(self.members.len() as u32)).find_map(|code| {
            let node = |at: usize| (code / choices.pow(at as u32) % choices).checked_sub(1);
            let places: Places = (0..self.members.len()).map(node).collect();
            let whole = places.iter().flatten().count() >= self.min;
            (whole && self.may_be(gone, &places, true)).then_some(places)
        })
    }

    fn may_go(&self, gone: u32) -> bool {
        let goes = |at: &usize| gone & (1 << at) != 0;
        let alone = (0..self.pods.len()).filter(goes).all(|at| self.pods[at].preemptable);
        let keeps = |(at, (priority, min)): (usize, &(i32, u32))| {
            let of = |at: &usize, gang| self.pods[*at].gang == gang;
            let had = (0..self.pods.len()).filter(|pod| of(pod, at)).count();
            let lost = (0..self.pods.len()).filter(|pod| of(pod, at) && goes(pod)).count();
            let whole = lost <= had.saturating_sub(*min as usize);
            lost == 0 || *priority < 5 && (!self.keeps_gangs || whole)
        };
        (gone == 0 || self.preempts) && alone && self.gangs.iter().enumerate().all(keeps)
    }

    /// Whether the claims can have these volumes and no other claim has them.
    fn is_right(&self, places: &Places, (chosen, given): &(Chosen, Given)) -> bool {
        let volumes: Vec<usize> = chosen.values().flatten().copied().collect();
        let had = self.given.iter().enumerate().filter(|(at, _)| !given.contains_key(at));
        let had = had.filter(|(at, _)| self.pods.iter().any(|pod| pod.wish.devices.contains(at)));
        let devices: Vec<Device> =
            given.values().chain(had.filter_map(|(_, given)| given.as_ref())).flatten().copied().collect();
        let twice = |at: usize| devices[..at].contains(&devices[at]);
        let reached = |(claim, devices): (&usize, &Vec<Device>)| {
            let users = self.users(places, |wish| wish.devices.contains(claim));
            let classes = self.requests[*claim].iter();
            let classes = classes.flat_map(|(class, count)| std::iter::repeat_n(*class, *count));
            devices.iter().zip(classes).all(|(device, class)| {
                self.is_of(*device, class) && users.iter().all(|node| self.device_reaches(*device, *node))
            })
        };
        chosen.iter().all(|(claim, got)| self.may_get(places, *claim, *got))
            && (0..volumes.len()).all(|at| !volumes[..at].contains(&volumes[at]))
            && !(0..devices.len()).any(twice)
            && given.iter().all(reached)
    }
}

fn places(case: &Case, cycle: &Cycle, nominated: bool) -> Places {
    let node = |at: usize| {
        let name = format!("asks-{at}");
        let later = cycle.nominated.get(&name).filter(|_| nominated);
        cycle.bound.get(&name).or_else(|| later?.as_ref())
    };
    (0..case.members.len()).map(|at| node(at)?.trim_start_matches('n').parse().ok()).collect()
}

fn check(case: &Case, rate: &Rate) -> TestCaseResult {
    let mut test = case.test();
    let cycle = test.cycle();
    let at = |name: &String| case.pods.iter().position(|pod| pod.name == *name).expect("one that runs");
    let evicted = cycle.evicted.iter().fold(0, |set, name| set | 1 << at(name));
    let got = places(case, &cycle, true);
    if got.iter().all(Option::is_none) {
        prop_assert_eq!(evicted, 0, "for nothing");
        let way = (0..1 << case.pods.len())
            .find_map(|gone| case.may_go(gone).then(|| Some((gone, case.way(gone)?))).flatten());
        if way.is_some() {
            rate.missed(&test.reasons("asks"))?;
        }
        return Ok(());
    }
    if evicted != 0 {
        rate.served();
    }
    prop_assert!(case.may_go(evicted), "{:?}", cycle.evicted);
    prop_assert!(case.may_be(evicted, &got, false), "{got:?} without {:?}", cycle.evicted);
    prop_assert!(got.iter().flatten().count() >= case.min, "{got:?}");
    let now = places(case, &cycle, false);
    prop_assert!(case.is_right(&now, &written(&cycle)), "{now:?} {:?}", written(&cycle));
    for at in (0..case.pods.len()).filter(|at| evicted & (1 << at) != 0) {
        prop_assert!(case.way(evicted & !(1 << at)).is_none(), "{} need not go", case.pods[at].name);
    }
    // Once the victims are gone and unused devices are deallocated, the gang starts without further evictions.
    for pod in &cycle.evicted {
        test.gone(pod);
    }
    for claim in 0..case.requests.len() {
        let used = case.stays(evicted).any(|at| case.pods[at].wish.devices.contains(&claim));
        if case.given[claim].is_some() && !used {
            test.add(case.claim_to_devices(claim, false));
        }
    }
    let next = test.cycle();
    prop_assert!(cycle.bound_of("asks") + next.bound_of("asks") >= case.min, "{next:?}");
    prop_assert_eq!(next.evicted, Vec::<String>::new());
    Ok(())
}

#[test]
fn gangs_that_compete_for_volumes_are_served_soundly_and_nearly_always() {
    holds("volumes", cases(2000), case(Mix { open: 3, volumes: 2, devices: 0, running: 3 }), check);
}

#[test]
fn gangs_with_attach_limits_and_single_pod_volumes_are_served_soundly_and_nearly_always() {
    holds("attach limits", cases(2000), case(Mix { open: 1, volumes: 2, devices: 0, running: 6 }), check);
}

#[test]
fn gangs_that_claim_devices_are_served_soundly_and_nearly_always() {
    holds("devices", cases(2000), case(Mix { open: 1, volumes: 0, devices: 2, running: 5 }), check);
}
