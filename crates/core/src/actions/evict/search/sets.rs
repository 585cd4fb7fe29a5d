//! Sets of victims, where what may go is limited and no order of offering it leads to a place: which ones are offered
//! together decides.
use super::{Ledger, NoEviction, Search, TaskId, Unit, Untried, Victim};
use crate::session::Session;

/// So many units are few enough to try every set of them, the smallest first.
const EVERY_SET: usize = 8;
/// So many are few enough to look for a set in all that could do.
const BRANCHES: usize = 32;
/// Victims that may be asked about in that: it is the last resort.
const MOST_ASKED: usize = 40_000;
/// Places that trying every set, one by one, may ask for.
const EVERY_STEP: usize = 10_000;

/// The sets of units as a tree: each unit goes or stays.
struct Tree {
    /// Those of one node together, and alike ones.
    units: Vec<(usize, Unit)>,
    /// Those that go, by their place in `units`.
    taken: Vec<usize>,
    /// Rooms with all gone that were not left out.
    most: Ledger,
    /// Victims that may still be asked about.
    left: usize,
}

impl Tree {
    /// Those that go, in the order of importance.
    fn way(&self) -> Vec<Victim> {
        let mut taken: Vec<&(usize, Unit)> = self.taken.iter().map(|at| &self.units[*at]).collect();
        taken.sort_unstable_by_key(|(rank, _)| *rank);
        taken.into_iter().flat_map(|(_, unit)| unit.iter().copied()).collect()
    }
}

impl Search<'_, '_> {
    /// Every set of victims of which one may help. `NotFound` where there are too many sets, or each one is a question to
    /// another process.
    pub(super) fn every_set(&mut self, offered: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        if super::asks_others(self.session) {
            return Err(NoEviction::NotFound(Untried::Asked));
        }
        let all = self.units(offered);
        if all.len() > EVERY_SET || self.aim.tasks.len() << all.len() > EVERY_STEP {
            return self.any_set(all, tier);
        }
        let mut sets: Vec<u32> = (1..1 << all.len()).collect();
        sets.sort_by_key(|set| (set.count_ones(), *set));
        for set in sets {
            let list = |order: &mut dyn Iterator<Item = usize>| -> Vec<Victim> {
                order.filter(|at| set & (1 << at) != 0).flat_map(|at| all[at].iter().copied()).collect()
            };
            let ways = [list(&mut (0..all.len())), list(&mut (0..all.len()).rev())];
            self.steps.spend(2 * ways[0].len())?;
            for way in ways {
                if self.may_go(&way, tier) && self.try_list(&way)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn may_go(&mut self, way: &[Victim], tier: usize) -> bool {
        self.allowed(way, Some(tier)).is_some_and(|(_, allowed)| allowed.len() == way.len())
    }

    /// The sets as a tree that is left where what is taken may not go together, and where there would not be room even
    /// with all gone that were not left out.
    fn any_set(&mut self, units: Vec<Unit>, tier: usize) -> Result<bool, NoEviction> {
        if units.len() > BRANCHES {
            return Err(NoEviction::NotFound(Untried::Sets));
        }
        let world = &*self.session.world;
        let freed = |victim: &Victim| (victim.node, world.request_of(victim.task));
        let most = self.today.without(units.iter().flatten().map(freed));
        let mut units: Vec<(usize, Unit)> = units.into_iter().enumerate().collect();
        units.sort_by(|(_, a), (_, b)| by_node(self.session, a[0].task, b[0].task));
        self.branch(&mut Tree { units, taken: Vec::new(), most, left: MOST_ASKED }, 0, tier)
    }

    /// Decides about the units from one on.
    fn branch(&mut self, tree: &mut Tree, at: usize, tier: usize) -> Result<bool, NoEviction> {
        if at == tree.units.len() || !tree.most.may_do() {
            return Ok(false);
        }
        tree.taken.push(at);
        let way = tree.way();
        tree.left = tree.left.checked_sub(way.len()).ok_or(NoEviction::NotFound(Untried::Sets))?;
        self.steps.scan(4 * way.len())?;
        let found = self.may_go(&way, tier) && (self.try_list(&way)? || self.branch(tree, at + 1, tier)?);
        tree.taken.pop();
        if found {
            return Ok(true);
        }
        // Where one stays, those like it stay too: which of them go makes no difference.
        let alike = |(_, other): &&(usize, Unit)| is_alike(self.session, &tree.units[at].1, other);
        let next = at + tree.units[at..].iter().take_while(alike).count().max(1);
        let stay: Vec<Victim> =
            tree.units[at..next].iter().flat_map(|(_, unit)| unit.iter().copied()).collect();
        for victim in &stay {
            tree.most.shrink(victim.node, self.session.world.request_of(victim.task));
        }
        let found = self.branch(tree, next, tier)?;
        for victim in &stay {
            tree.most.grow(victim.node, self.session.world.request_of(victim.task));
        }
        Ok(found)
    }
}

/// Stable, so that of those on a node alike ones follow one another.
fn by_node(session: &Session<'_>, a: TaskId, b: TaskId) -> std::cmp::Ordering {
    let world = &*session.world;
    let (a, b) = (&world.tasks[a], &world.tasks[b]);
    let name = |task: &crate::world::Task| task.node.map(|node| &world.nodes[node].name);
    let key = |task: &crate::world::Task| (task.job, task.class, task.role, task.priority);
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
