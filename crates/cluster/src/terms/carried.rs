//! The affinity and spread terms of a class.
use crate::id::TermId;

/// A topology spread constraint of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadTerm {
    /// The term that counts the pods.
    pub term: TermId,
    /// `maxSkew`.
    pub max_skew: u32,
    /// `minDomains`.
    pub min_domains: u32,
    /// `DoNotSchedule`: filters; otherwise the constraint scores.
    pub required: bool,
}

/// The affinity and spread terms of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Required affinity, a term for each topology.
    pub affinity: Vec<TermId>,
    /// Required anti-affinity.
    pub anti_affinity: Vec<TermId>,
    /// Preferred affinity and anti-affinity, with weights.
    pub preferred: Vec<(TermId, i64)>,
    /// Score that it gives pods that its terms match, symmetrically.
    pub pulls: Vec<(TermId, i64)>,
    /// Topology spread.
    pub spread: Vec<SpreadTerm>,
}

impl Carried {
    /// Whether there are no terms.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Whether any term filters nodes.
    pub fn restricts(&self) -> bool {
        self.seeks() || !self.anti_affinity.is_empty()
    }

    /// Whether new pods elsewhere may make a node feasible.
    pub fn seeks(&self) -> bool {
        !self.affinity.is_empty() || self.spread.iter().any(|spread| spread.required)
    }

    /// All terms with their uses; a term with two uses comes twice.
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
    /// The number of pods matters, not only whether there are any.
    pub(super) exact: bool,
    /// The term affects the pods that it matches.
    pub(super) symmetric: bool,
}

impl TermUse {
    const PRESENCE: Self = Self { exact: false, symmetric: false };
    const COUNT: Self = Self { exact: true, symmetric: false };
    const KEEPS_AWAY: Self = Self { exact: false, symmetric: true };
    const DRAWS: Self = Self { exact: false, symmetric: true };
}
