//! The terms of a class.
use crate::id::TermId;

/// A topology spread constraint of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadTerm {
    /// The pods.
    pub term: TermId,
    /// How many pods more than in the emptiest domain there may be.
    pub max_skew: u32,
    /// With fewer domains than this, the emptiest counts as empty.
    pub min_domains: u32,
    /// Filters; otherwise it scores.
    pub required: bool,
}

/// The terms of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Required affinity: terms of the pods that all of its selectors mean, by topology.
    pub affinity: Vec<TermId>,
    /// Required anti-affinity.
    pub anti_affinity: Vec<TermId>,
    /// Preferred affinity and anti-affinity, with weights.
    pub preferred: Vec<(TermId, i64)>,
    /// How it draws those that its terms mean.
    pub pulls: Vec<(TermId, i64)>,
    /// Topology spread.
    pub spread: Vec<SpreadTerm>,
}

impl Carried {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Whether they keep its tasks from any node.
    pub fn restricts(&self) -> bool {
        self.seeks() || !self.anti_affinity.is_empty()
    }

    /// Whether others that come may make place for its tasks where there was none.
    pub fn seeks(&self) -> bool {
        !self.affinity.is_empty() || self.spread.iter().any(|spread| spread.required)
    }

    /// Whether one of them is this.
    pub(super) fn has(&self, term: TermId) -> bool {
        self.all().any(|(other, _)| other == term)
    }

    /// All, with what they are used for; one that is used for two things comes twice.
    pub(super) fn all(&self) -> impl Iterator<Item = (TermId, TermUse)> {
        let affinity = self.affinity.iter().map(|term| (*term, TermUse::PRESENCE));
        affinity
            .chain(self.anti_affinity.iter().map(|term| (*term, TermUse::KEEPS_AWAY)))
            .chain(self.preferred.iter().map(|(term, _)| (*term, TermUse::COUNT)))
            .chain(self.pulls.iter().map(|(term, _)| (*term, TermUse::DRAWS)))
            .chain(self.spread.iter().map(|spread| (spread.term, TermUse::COUNT)))
    }
}

/// What a class uses a term for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TermUse {
    /// It matters how many pods there are, not only whether there are any.
    pub(super) exact: bool,
    /// It makes a difference to the pods that the term means.
    pub(super) outward: bool,
}

impl TermUse {
    const PRESENCE: Self = Self { exact: false, outward: false };
    const COUNT: Self = Self { exact: true, outward: false };
    const KEEPS_AWAY: Self = Self { exact: false, outward: true };
    const DRAWS: Self = Self { exact: false, outward: true };
}
