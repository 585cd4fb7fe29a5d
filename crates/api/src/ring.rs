//! The CEL rule that steps do not wait for each other in a ring.
//!
//! CEL has no recursion. Steps that wait for something are kept, then of these the ones that wait for one of these, and
//! so on for [`ROUNDS`] rounds. If the last round left out none, what is left is a ring and what waits for it. In a
//! longer chain the controller finds the ring.

/// Rounds after which a rule gives up.
const ROUNDS: usize = 8;

/// A list of steps in a schema.
pub(crate) struct Steps {
    /// The list, such as `self.tasks`.
    pub(crate) list: &'static str,
    /// Whether step `s` has a name, and waits for any.
    pub(crate) is_named: &'static str,
    pub(crate) waits: &'static str,
    /// What step `s` waits for, if it does.
    pub(crate) after: &'static str,
}

impl Steps {
    /// Each step waits for steps of the list.
    pub(crate) fn are_known(&self) -> String {
        let Self { list, waits, after, .. } = self;
        let test = format!("{list}.all(s, !({waits}) || {after}.all(n, n in left0))");
        format!("!has({list}) || {}", Self::bind(0, &self.all(), &test))
    }

    /// No steps wait for each other, as far as [`ROUNDS`] tell.
    pub(crate) fn have_no_ring(&self) -> String {
        let mut rule = format!("left{ROUNDS}.size() == 0 || left{ROUNDS}.size() < left{}.size()", ROUNDS - 1);
        for round in (1..=ROUNDS).rev() {
            rule = Self::bind(round, &self.waiting_for(round - 1), &rule);
        }
        format!("!has({}) || {}", self.list, Self::bind(0, &self.all(), &rule))
    }

    /// The names of all steps.
    fn all(&self) -> String {
        format!("{}.filter(s, {}).map(s, s.name)", self.list, self.is_named)
    }

    /// The names of steps that wait for one of those that an earlier round left.
    fn waiting_for(&self, round: usize) -> String {
        let Self { list, is_named, waits, after } = self;
        format!(
            "{list}.filter(s, {is_named} && {waits} && {after}.exists(n, n in left{round})).map(s, s.name)"
        )
    }

    /// Gives a value a name in a test, which CEL has no word for: as the only item of a list.
    fn bind(round: usize, value: &str, test: &str) -> String {
        format!("[{value}].all(left{round}, {test})")
    }
}
