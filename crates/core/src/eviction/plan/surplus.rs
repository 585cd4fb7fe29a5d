//! What gangs can do without, alone: before a gang is broken, all that others have to spare is offered, whichever members of
//! them that may be. As many may go of each gang as it can do without, so that is a search like any other.
use super::{Cluster, EvictionMode, FeasibilityBound, Loss, NoEviction, Search, Unit, Victim, dry_run};

/// Steps that such a search may make: a gang may be broken before they cost too much.
const MOST_STEPS: u64 = 10_000;

/// What is done with victims that help.
#[derive(Debug)]
pub(super) enum Pass {
    /// They go, unless they break a gang.
    Gentle,
    /// A gang would be broken by one of these, which are kept in mind.
    Breaks(Vec<Unit>, Option<Limits>),
    /// They go, if their gangs can do without them, and they are within bounds.
    Spare(Option<Limits>),
    /// They go.
    Last,
}

/// What those who go instead of others may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pods: usize,
    priority: i32,
}

impl Limits {
    fn of<'a>(cluster: &Cluster, victims: impl Iterator<Item = &'a Victim>) -> Self {
        victims.fold(Self { pods: 0, priority: i32::MIN }, |of, victim| Self {
            pods: of.pods + 1,
            priority: of.priority.max(cluster.jobs[victim.job].priority),
        })
    }

    fn is_within(self, most: Self) -> bool {
        self.pods <= most.pods && self.priority <= most.priority
    }
}

impl Pass {
    pub(super) fn takes_spare_only(&self) -> bool {
        matches!(self, Pass::Spare(_))
    }

    /// Whether victims that help are to be looked for no more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Pass::Breaks(..))
    }

    /// Whether those of the units that are evicted may go.
    pub(super) fn accepts(&mut self, cluster: &Cluster, mode: EvictionMode, units: &[Unit]) -> bool {
        let gone = || units.iter().flatten().filter(|victim| dry_run::is_gone(cluster, victim));
        match self {
            Pass::Gentle if gone().any(|victim| is_broken(cluster, mode, victim)) => {
                let bounds = (!mode.of_gangs()).then(|| Limits::of(cluster, gone()));
                *self = Pass::Breaks(units.to_vec(), bounds);
                false
            }
            Pass::Spare(Some(most)) => Limits::of(cluster, gone()).is_within(*most),
            _ => true,
        }
    }
}

/// Whether a gang is whole no more because of a victim. One that goes as a whole leaves nobody behind: between queues it goes
/// when it is the queue's turn, as a single pod does.
fn is_broken(cluster: &Cluster, mode: EvictionMode, victim: &Victim) -> bool {
    let job = &cluster.jobs[victim.job];
    let is_gone = job.counts.ready() == 0 && mode != EvictionMode::Reclaim;
    victim.loss == Loss::Whole && (is_gone || job.is_broken())
}

impl Search<'_, '_> {
    /// Members of gangs that have some to spare, with the rooms there would be without them all; `None` where that is not
    /// enough.
    pub(super) fn surplus_of(
        &mut self,
        offered: &[Victim],
    ) -> Result<Option<(Vec<Victim>, FeasibilityBound)>, NoEviction> {
        if self.mode == EvictionMode::WithinJob || super::asks_others(self.session) {
            return Ok(None);
        }
        let cluster = &*self.session.cluster;
        let has_spare = |victim: &&Victim| {
            let job = &cluster.jobs[victim.job];
            job.counts.ready() > job.min_member && dry_run::can_spare(cluster, victim.job, &[**victim])
        };
        let as_spare = |victim: &Victim| Victim { loss: Loss::Surplus, ..*victim };
        let spare: Vec<Victim> = offered.iter().filter(has_spare).map(as_spare).collect();
        if spare.is_empty() {
            return Ok(None);
        }
        self.steps.scan(offered.len() + 2 * cluster.nodes.len())?;
        let empty =
            self.today.without(spare.iter().map(|victim| (victim.node, cluster.request_of(victim.task))));
        Ok(empty.may_do().then_some((spare, empty)))
    }

    /// Evicts of what is offered, but if that breaks a gang, of what gangs have to spare, if that helps.
    pub(super) fn surplus_first(
        &mut self,
        (offered, empty): (&[Victim], &FeasibilityBound),
        (spare, emptier): (&[Victim], &FeasibilityBound),
        (tier, all): (usize, Vec<Victim>),
    ) -> Result<(), NoEviction> {
        let before = self.steps.left();
        self.pass = Pass::Gentle;
        self.find(offered, empty, (tier, all.clone()))?;
        let Pass::Breaks(units, bounds) = std::mem::replace(&mut self.pass, Pass::Spare(None)) else {
            return Ok(());
        };
        // What was found takes as much again.
        let found = before - self.steps.left();
        self.pass = Pass::Spare(bounds);
        let aside = self.steps.set_aside(MOST_STEPS.min(self.steps.left().saturating_sub(found)));
        let (_, allowed) = self.allowed(spare, Some(tier)).unwrap_or_default();
        let served = self.find(spare, emptier, (tier, allowed));
        self.steps.take_back(aside);
        if served.is_ok() {
            return Ok(());
        }
        self.pass = Pass::Last;
        if self.dry_run(&units)? { Ok(()) } else { self.find(offered, empty, (tier, all)) }
    }
}
