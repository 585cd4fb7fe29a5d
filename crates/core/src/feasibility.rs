//! The feasibility bound: arithmetic that says no without a search.
//!
//! Per class of tasks it counts how many tasks the nodes could take that filters by attributes admit, each node by its
//! capacity alone; per resource it adds that capacity up. Ports, rules between pods, scores and quotas are left to the
//! dry run. So a *no* is certain and a *yes* is not.

use phalanx_resource::{Amounts, DimId};

use crate::session::{Session, is_within};
use crate::steps::Steps;
use phalanx_cluster::diagnosis::{NoEviction, Then};
use phalanx_cluster::id::{ClassId, Id, NodeId, TaskId};
use phalanx_cluster::{Cluster, Node};

/// Tasks of one class.
#[derive(Clone, Debug, PartialEq)]
struct Need {
    class: ClassId,
    request: Vec<(DimId, i64)>,
    /// How many of them there are.
    tasks: u64,
    /// How many a node could take; by node.
    fits: Vec<u32>,
    /// How many all nodes could take.
    total: u64,
    /// Nodes that filters by attributes admit; by node.
    admitted: Vec<bool>,
}

/// One resource, summed over all nodes that any class is admitted on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Total {
    dim: DimId,
    wanted: i128,
    room: i128,
}

/// The most nodes in all bounds that are kept, besides the bound that was used last.
const KEPT: usize = 1 << 17;

/// The most bounds that are kept.
const MOST: usize = 16;

/// Tasks to be placed, and how many of them are needed.
#[derive(Clone, Copy)]
pub(crate) struct TaskDemand<'t> {
    pub(crate) tasks: &'t [TaskId],
    pub(crate) wanted: usize,
}

/// What a bound is for: the tasks by class, and how many of them are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wants {
    /// With what tells the class from an earlier one that had the same id.
    classes: Vec<(ClassId, u64, u64)>,
    wanted: usize,
}

impl Wants {
    fn of(cluster: &Cluster, demand: TaskDemand<'_>) -> Self {
        let mut classes: Vec<(ClassId, u64, u64)> = Vec::new();
        for task in demand.tasks {
            let id = cluster.tasks[*task].class;
            match classes.iter_mut().find(|(known, ..)| *known == id) {
                Some((.., tasks)) => *tasks += 1,
                None => classes.push((id, cluster.classes[id].serial.0, 1)),
            }
        }
        classes.sort_unstable();
        Self { classes, wanted: demand.wanted }
    }
}

/// A bound with no pod evicted, as it was when the log of touched nodes was read up to the cursor.
#[derive(Clone, Debug)]
struct KeptBound {
    wants: Wants,
    bound: FeasibilityBound,
    cursor: u64,
}

/// The bounds of the last preemptors. For another that requests the same only touched nodes are counted anew, also in
/// another cycle.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeasibilityBounds {
    /// The one that was used last comes last.
    kept: Vec<KeptBound>,
    /// The stamp and number of nodes, and the number of resources, when the bounds were made.
    stamp: (u64, usize, usize),
}

impl FeasibilityBounds {
    /// Asks something of the bound with no pod evicted. Fails when the preemptor does not even fit empty nodes.
    pub(crate) fn with_bound<R>(
        &mut self,
        session: &mut Session<'_>,
        demand: TaskDemand<'_>,
        steps: &mut Steps,
        ask: impl FnOnce(&mut Session<'_>, &mut FeasibilityBound, &mut Steps) -> Result<R, NoEviction>,
    ) -> Result<R, NoEviction> {
        let wants = Wants::of(session.cluster, demand);
        let limited = session.chosen_domain.is_some();
        let known = if limited { None } else { self.take(session.cluster, &wants, steps)? };
        let mut bound = match known {
            Some(kept) => {
                debug_assert!(
                    kept.is_anew(session, demand, &wants),
                    "a kept bound differs from one made anew"
                );
                kept
            }
            None => new_bound(session, demand, &wants, steps)?,
        };
        let cursor = session.cluster.touched_end();
        let answer = ask(session, &mut bound, steps);
        if !limited {
            self.keep(session.cluster, KeptBound { wants, bound, cursor });
        }
        answer
    }

    /// The bound with no pod evicted, as the last search for a preemptor left it.
    pub(crate) fn known(&self, cluster: &Cluster, demand: TaskDemand<'_>) -> Option<&FeasibilityBound> {
        let wants = Wants::of(cluster, demand);
        self.kept.iter().rev().find(|kept| kept.wants == wants).map(|kept| &kept.bound)
    }

    fn take(
        &mut self,
        cluster: &Cluster,
        wants: &Wants,
        steps: &mut Steps,
    ) -> Result<Option<FeasibilityBound>, NoEviction> {
        let stamp = (cluster.nodes_stamp(), cluster.nodes.bound(), cluster.dims.len());
        if std::mem::replace(&mut self.stamp, stamp) != stamp {
            self.kept.clear();
        }
        let Some(at) = self.kept.iter().position(|kept| kept.wants == *wants) else { return Ok(None) };
        let KeptBound { mut bound, cursor, .. } = self.kept.remove(at);
        let touched = cluster.touched_since(cursor).filter(|touched| touched.len() <= cluster.nodes.len());
        let Some(touched) = touched else { return Ok(None) };
        steps.scan(touched.len())?;
        for node in touched {
            bound.set(*node, cluster.nodes.get(*node).map(Node::future_idle).unwrap_or_default());
        }
        Ok(Some(bound))
    }

    fn keep(&mut self, cluster: &Cluster, kept: KeptBound) {
        let most = (KEPT / cluster.nodes.bound().max(1)).clamp(1, MOST);
        if self.kept.len() >= most {
            self.kept.remove(0);
        }
        self.kept.push(kept);
    }
}

fn new_bound(
    session: &mut Session<'_>,
    demand: TaskDemand<'_>,
    wants: &Wants,
    steps: &mut Steps,
) -> Result<FeasibilityBound, NoEviction> {
    steps.scan(2 * session.cluster.nodes.len())?;
    let empty = FeasibilityBound::new(session, demand, wants);
    if empty.may_fit() { Ok(empty.with_none_evicted(session.cluster)) } else { Err(NoEviction::TooLarge) }
}

/// The capacity of nodes with some pods evicted, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FeasibilityBound {
    needs: Vec<Need>,
    totals: Vec<Total>,
    wanted: u64,
    /// What will be idle on each node.
    rooms: Vec<Amounts>,
}

impl FeasibilityBound {
    /// With every node empty.
    fn new(session: &mut Session<'_>, demand: TaskDemand<'_>, wants: &Wants) -> Self {
        let needs =
            wants.classes.iter().map(|(class, _, tasks)| Need::new(session, *class, *tasks)).collect();
        let totals = totals(session.cluster, demand);
        let feasibility = Self { needs, totals, wanted: demand.wanted as u64, rooms: Vec::new() };
        feasibility.with_rooms(rooms(session.cluster, |node| node.allocatable.clone()))
    }

    /// With no pod evicted.
    fn with_none_evicted(self, cluster: &Cluster) -> Self {
        self.with_rooms(rooms(cluster, Node::future_idle))
    }

    /// Whether it is what one made anew would be.
    fn is_anew(&self, session: &mut Session<'_>, demand: TaskDemand<'_>, wants: &Wants) -> bool {
        let anew = Self::new(session, demand, wants).with_none_evicted(session.cluster);
        *self == anew
    }

    /// With all of these gone.
    pub(crate) fn with_evicted<'w>(&self, victims: impl Iterator<Item = (NodeId, &'w Amounts)>) -> Self {
        let mut without = self.clone();
        let mut rooms = std::mem::take(&mut without.rooms);
        for (node, request) in victims {
            rooms[node.index()].add(request);
        }
        without.with_rooms(rooms)
    }

    fn with_rooms(mut self, rooms: Vec<Amounts>) -> Self {
        self.rooms = rooms;
        for total in &mut self.totals {
            total.room = 0;
        }
        for at in 0..self.rooms.len() {
            self.count(at);
            self.add_up(at, 1);
        }
        self
    }

    /// Whether any class is admitted on a node.
    pub(crate) fn admits(&self, node: NodeId) -> bool {
        self.needs.iter().any(|need| need.admits(node.index()))
    }

    /// Whether a node could take any of the tasks.
    pub(crate) fn takes(&self, node: NodeId) -> bool {
        self.needs.iter().any(|need| need.fits[node.index()] > 0)
    }

    /// How many tasks of each class a node could take with so much freed there.
    pub(crate) fn takes_with<'w>(&self, node: NodeId, freed: impl Iterator<Item = &'w Amounts>) -> Vec<u32> {
        let mut room = self.rooms[node.index()].clone();
        freed.for_each(|request| room.add(request));
        let takes = |need: &Need| {
            if need.admits(node.index()) { need.fitting(&room) } else { 0 }
        };
        self.needs.iter().map(takes).collect()
    }

    /// How many units of victims, the first ones first, must go at the least; `None` when all of them are not enough.
    pub(crate) fn least<'w, U: Iterator<Item = (NodeId, &'w Amounts)>>(
        &mut self,
        mut units: impl Iterator<Item = U>,
    ) -> Option<usize> {
        let mut before = Vec::new();
        let mut count = Some(0);
        while !self.may_fit() {
            let Some(unit) = units.next() else {
                count = None;
                break;
            };
            for (node, request) in unit {
                let mut room = self.rooms[node.index()].clone();
                room.add(request);
                before.push((node, self.set(node, room)));
            }
            count = count.map(|count| count + 1);
        }
        for (node, room) in before.into_iter().rev() {
            self.set(node, room);
        }
        count
    }

    fn set(&mut self, node: NodeId, room: Amounts) -> Amounts {
        self.add_up(node.index(), -1);
        let before = std::mem::replace(&mut self.rooms[node.index()], room);
        self.count(node.index());
        self.add_up(node.index(), 1);
        before
    }

    /// Whether there may be room for as many as it takes.
    pub(crate) fn may_fit(&self) -> bool {
        self.places() >= self.wanted && self.totals.iter().all(|total| total.room >= total.wanted)
    }

    fn places(&self) -> u64 {
        self.needs.iter().map(|need| need.total.min(need.tasks)).sum()
    }

    /// What is missing where there cannot be room. Of one pod it says more how much it lacks than that it has no place.
    pub(crate) fn shortfall(&self) -> Then {
        let amount = |amount: i128| i64::try_from(amount).unwrap_or(i64::MAX);
        let scarce = self.totals.iter().find(|total| total.room < total.wanted);
        let (room, wanted) = (self.places(), self.wanted);
        match scarce {
            Some(Total { dim, wanted: needed, room: free }) if wanted == 1 || room >= wanted => {
                Then::Free { dim: *dim, free: amount(*free), wanted: amount(*needed) }
            }
            _ if room < wanted => Then::Places { room, wanted },
            _ => Then::NoPlace,
        }
    }

    /// Counts anew how many a node takes.
    fn count(&mut self, at: usize) {
        let Self { needs, rooms, .. } = self;
        for need in needs.iter_mut().filter(|need| need.admits(at)) {
            let fits = need.fitting(&rooms[at]);
            let before = std::mem::replace(&mut need.fits[at], fits);
            need.total = need.total + u64::from(fits) - u64::from(before);
        }
    }

    /// Adds the room of a node to the totals, or takes it from them.
    fn add_up(&mut self, at: usize, sign: i64) {
        let Self { needs, totals, rooms, .. } = self;
        if needs.iter().any(|need| need.admits(at)) {
            for total in totals {
                total.room += i128::from(sign * rooms[at].get(total.dim).max(0));
            }
        }
    }
}

fn rooms(cluster: &Cluster, room: impl Fn(&Node) -> Amounts) -> Vec<Amounts> {
    let of = |at| cluster.nodes.get(NodeId::from_index(at)).map(&room).unwrap_or_default();
    (0..cluster.nodes.bound()).map(of).collect()
}

impl Need {
    fn new(session: &mut Session<'_>, class: ClassId, tasks: u64) -> Self {
        let Session { cluster, tiers, state, chosen_domain, .. } = session;
        let admits = state.placement.admits(cluster, tiers, class);
        let chosen = chosen_domain.as_ref().and_then(|chosen| chosen.domain.nodes.as_ref());
        let may_go = |node: NodeId| is_within(chosen, node);
        let nodes = (0..cluster.nodes.bound()).map(NodeId::from_index);
        let admitted = nodes.map(|node| may_go(node) && admits(node)).collect();
        let request: Vec<_> =
            cluster.classes[class].request.iter().filter(|(_, amount)| *amount > 0).collect();
        Self { class, request, tasks, fits: vec![0; cluster.nodes.bound()], total: 0, admitted }
    }

    fn admits(&self, node: usize) -> bool {
        self.admitted[node]
    }

    /// How many of its tasks a room takes.
    fn fitting(&self, room: &Amounts) -> u32 {
        let of = |(dim, amount): &(DimId, i64)| room.get(*dim).max(0) / amount;
        let most = self.request.iter().map(of).min().unwrap_or(i64::MAX);
        most.min(self.tasks as i64) as u32
    }
}

/// Per resource, the least that as many tasks as it takes can ask for.
fn totals(cluster: &Cluster, demand: TaskDemand<'_>) -> Vec<Total> {
    let mut dims: Vec<DimId> = Vec::new();
    for task in demand.tasks {
        dims.extend(
            cluster
                .request_of(*task)
                .iter()
                .map(|(dim, _)| dim)
                .filter(|dim| !dims.contains(dim))
                .collect::<Vec<_>>(),
        );
    }
    let least = |dim: &DimId| {
        let mut asked: Vec<i64> =
            demand.tasks.iter().map(|task: &TaskId| cluster.request_of(*task).get(*dim)).collect();
        asked.sort_unstable();
        let wanted = asked.iter().take(demand.wanted).map(|amount| i128::from(*amount)).sum();
        Total { dim: *dim, wanted, room: 0 }
    };
    dims.sort_unstable();
    dims.iter().map(least).collect()
}
