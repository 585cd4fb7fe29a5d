//! Sets of victims, where what may go is limited and no order of offering it leads to a place: which ones are offered
//! together decides.
use std::collections::BTreeSet;

use super::prospect::Prospect;
use super::{JobId, LAST_STEPS, NoEviction, Search, TaskId, Unit, Untried, Victim, proof};
use crate::session::Session;
use phalanx_cluster::{Budgets, Status, World};
use phalanx_framework::plugin::EvictionKind;

/// So many units are few enough to try every set of them, the smallest first.
const EVERY_SET: usize = 8;
/// So many are few enough to look for a set in all that could do.
const BRANCHES: usize = 32;
/// Places that trying every set, one by one, may ask for.
const EVERY_STEP: usize = 10_000;

/// The sets of units as a tree: each unit goes or stays.
struct Tree {
    /// Those of one node together, and alike ones.
    units: Vec<(usize, Unit)>,
    /// Each unit is one victim, also of a gang that may go as a whole.
    ones: bool,
    /// Those that go, by their place in `units`.
    taken: Vec<usize>,
    prospect: Prospect,
    /// It is given up when no more than so many steps are left.
    end: u64,
}

impl Tree {
    /// Those that go, in the order of importance.
    fn way(&self) -> Vec<Victim> {
        let mut taken: Vec<&(usize, Unit)> = self.taken.iter().map(|at| &self.units[*at]).collect();
        taken.sort_unstable_by_key(|(rank, _)| *rank);
        taken.into_iter().flat_map(|(_, unit)| unit.iter().copied()).collect()
    }

    /// A unit goes.
    fn take(&mut self, world: &World, at: usize) {
        self.taken.push(at);
        for victim in &self.units[at].1 {
            self.prospect.take(world, victim);
        }
    }

    /// The last one that was taken stays.
    fn put_back(&mut self, world: &World) {
        let Some(at) = self.taken.pop() else { return };
        for victim in &self.units[at].1 {
            self.prospect.put_back(world, victim);
        }
    }
}

impl Search<'_, '_> {
    /// Every set of victims of which one may help. `NotFound` where there are too many sets, or each one is a question to
    /// another process.
    pub(super) fn every_set(&mut self, offered: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        if super::asks_others(self.session) {
            return Err(NoEviction::NotFound(Untried::Asked));
        }
        if offered.len() <= EVERY_SET && self.aim.tasks.len() << offered.len() <= EVERY_STEP {
            return self.each_set(offered, tier);
        }
        if self.by_choice(offered, tier)? {
            return Ok(true);
        }
        let ones: Vec<Unit> = offered.iter().map(|victim| Unit::from_slice(&[*victim])).collect();
        if !self.of_gangs() || ones.len() <= BRANCHES {
            return self.any_set(ones, tier);
        }
        // Gangs as a whole, but not every choice of whom they can do without.
        let units = self.units(offered);
        if self.any_set(units, tier)? { Ok(true) } else { Err(NoEviction::NotFound(Untried::Sets)) }
    }

    /// Every set, the smallest first.
    fn each_set(&mut self, offered: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let mut sets: Vec<usize> = (1..1 << offered.len()).collect();
        sets.sort_by_key(|set| (set.count_ones(), *set));
        // In which order those of a set may go, if they may.
        let mut orders: Vec<Option<Vec<Victim>>> = vec![None; 1 << offered.len()];
        orders[0] = Some(Vec::new());
        for set in sets {
            orders[set] = self.order_on_top(offered, set, &orders, tier)?;
            if let Some(way) = &orders[set]
                && self.try_set(way)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An order in which a set may go, when that is known of the smaller ones.
    fn order_on_top(
        &mut self,
        offered: &[Victim],
        set: usize,
        orders: &[Option<Vec<Victim>>],
        tier: usize,
    ) -> Result<Option<Vec<Victim>>, NoEviction> {
        let members = || (0..offered.len()).filter(|at| set & (1 << at) != 0);
        let way: Vec<Victim> = members().map(|at| offered[at]).collect();
        self.steps.spend(way.len())?;
        if self.may_go(&way, tier) {
            return Ok(Some(way));
        }
        if !self.order_matters() || !self.budgets_allow(&way) {
            return Ok(None);
        }
        for at in members() {
            let Some(before) = &orders[set & !(1 << at)] else { continue };
            if self.may_follow(before, offered[at], tier)? {
                return Ok(Some(before.iter().copied().chain([offered[at]]).collect()));
            }
        }
        Ok(None)
    }

    /// An order in which these may go, if there is any. Who may go last may also go before others, so whoever may is as good
    /// as any.
    pub(super) fn order_of(
        &mut self,
        way: &[Victim],
        tier: usize,
    ) -> Result<Option<Vec<Victim>>, NoEviction> {
        if self.may_go(way, tier) {
            return Ok(Some(way.to_vec()));
        }
        if !self.order_matters() || !self.budgets_allow(way) {
            return Ok(None);
        }
        let (mut rest, mut order) = (way.to_vec(), Vec::new());
        while !rest.is_empty() {
            let before = order.len();
            for at in 0..rest.len() {
                let last = rest.remove(at);
                if self.may_follow(&rest, last, tier)? {
                    order.push(last);
                    break;
                }
                rest.insert(at, last);
            }
            if order.len() == before {
                return Ok(None);
            }
        }
        order.reverse();
        Ok(Some(order))
    }

    /// Whether plugins count down what queues hold, so that it may matter who is offered first.
    fn order_matters(&self) -> bool {
        self.purpose.kind() == EvictionKind::Reclaim && self.session.tiers.guard_queues()
    }

    /// Whether one more may go when these are gone.
    fn may_follow(&mut self, gone: &[Victim], last: Victim, tier: usize) -> Result<bool, NoEviction> {
        self.steps.spend(gone.len() + 1)?;
        let leave = |victim: &Victim| {
            (victim.task, self.session.suppose(victim.task, Status::Releasing, Some(victim.node)))
        };
        let before: Vec<_> = gone.iter().map(leave).collect();
        let may = self.may_go(&[last], tier);
        for (task, before) in before.into_iter().rev() {
            self.session.put_back(task, &before);
        }
        Ok(may)
    }

    pub(super) fn may_go(&mut self, way: &[Victim], tier: usize) -> bool {
        self.allowed(way, Some(tier)).is_some_and(|(_, allowed)| allowed.len() == way.len())
    }

    fn budgets_allow(&self, way: &[Victim]) -> bool {
        let mut budgets = Budgets::new(self.session.world);
        way.iter().all(|victim| budgets.take(victim.task))
    }

    /// Evicts of a set, if that helps and it takes of no gang more than may be taken.
    pub(super) fn try_set(&mut self, way: &[Victim]) -> Result<bool, NoEviction> {
        let units = if self.of_gangs() { self.bundles(way) } else { Some(self.units(way)) };
        units.map_or(Ok(false), |units| self.prove(&units))
    }

    /// Those that their gangs can do without, and gangs as a whole; `None` where it is neither.
    fn bundles(&self, way: &[Victim]) -> Option<Vec<Unit>> {
        let world = &*self.session.world;
        let whole = self.may_break();
        let mut units: Vec<Unit> = Vec::new();
        let jobs: BTreeSet<JobId> = way.iter().map(|victim| victim.job).collect();
        for job in jobs {
            let lost: Unit = way.iter().filter(|victim| victim.job == job).copied().collect();
            if proof::can_spare(world, job, &lost) {
                units.extend(lost.iter().map(|victim| Unit::from_slice(&[*victim])));
            } else if whole && proof::is_all(world, job, lost.len()) {
                units.push(lost);
            } else {
                return None;
            }
        }
        Some(units)
    }

    /// The sets as a tree that is left where what is taken may not go together, and where there would not be room even
    /// with all gone that were not left out.
    fn any_set(&mut self, units: Vec<Unit>, tier: usize) -> Result<bool, NoEviction> {
        if units.len() > BRANCHES {
            return Err(NoEviction::NotFound(Untried::Sets));
        }
        let prospect = Prospect::of(self, &units);
        let mut units: Vec<(usize, Unit)> = units.into_iter().enumerate().collect();
        units.sort_by(|(_, a), (_, b)| by_node(self.session, a[0].task, b[0].task));
        let ones = units.iter().all(|(_, unit)| unit.len() == 1);
        let (taken, end) = (Vec::new(), self.steps.left().saturating_sub(LAST_STEPS));
        self.branch(&mut Tree { units, ones, taken, prospect, end }, 0, tier)
    }

    /// Decides about the units from one on.
    fn branch(&mut self, tree: &mut Tree, at: usize, tier: usize) -> Result<bool, NoEviction> {
        self.steps.scan(self.session.world.nodes.len())?;
        if at == tree.units.len() || !tree.prospect.may_do() {
            return Ok(false);
        }
        tree.take(self.session.world, at);
        let way = tree.way();
        self.steps.scan(4 * way.len())?;
        if self.steps.left() < tree.end {
            return Err(NoEviction::NotFound(Untried::Sets));
        }
        let order = self.order_of(&way, tier)?;
        let tried = match &order {
            Some(order) if tree.ones => self.try_set(order)?,
            Some(order) => self.try_list(order)?,
            None => false,
        };
        let found = tried || (order.is_some() && self.branch(tree, at + 1, tier)?);
        tree.put_back(self.session.world);
        if found {
            return Ok(true);
        }
        // Where one stays, those like it stay too: which of them go makes no difference.
        let alike = |(_, other): &&(usize, Unit)| is_alike(self.session, &tree.units[at].1, other);
        let next = at + tree.units[at..].iter().take_while(alike).count().max(1);
        let stay: Vec<Victim> =
            tree.units[at..next].iter().flat_map(|(_, unit)| unit.iter().copied()).collect();
        for victim in &stay {
            tree.prospect.leave_out(self.session.world, victim);
        }
        let found = self.branch(tree, next, tier)?;
        for victim in &stay {
            tree.prospect.bring_in(self.session.world, victim);
        }
        Ok(found)
    }
}

/// Stable, so that of those on a node alike ones follow one another.
fn by_node(session: &Session<'_>, a: TaskId, b: TaskId) -> std::cmp::Ordering {
    let world = &*session.world;
    let (a, b) = (&world.tasks[a], &world.tasks[b]);
    let name = |task: &phalanx_cluster::Task| task.node.map(|node| &world.nodes[node].name);
    let key = |task: &phalanx_cluster::Task| (task.job, task.class, task.role, task.priority);
    name(a).cmp(&name(b)).then_with(|| key(a).cmp(&key(b))).then_with(|| a.labels.cmp(&b.labels))
}

/// Whether it makes no difference which of two units goes.
fn is_alike(session: &Session<'_>, unit: &Unit, other: &Unit) -> bool {
    let ([one], [other]) = (&unit[..], &other[..]) else { return false };
    let world = &*session.world;
    let (a, b) = (&world.tasks[one.task], &world.tasks[other.task]);
    (one.node, one.status, one.loss) == (other.node, other.status, other.loss)
        && (a.job, a.class, a.role, a.priority, a.preemptable)
            == (b.job, b.class, b.role, b.priority, b.preemptable)
        && a.labels == b.labels
        && a.annotations == b.annotations
}
