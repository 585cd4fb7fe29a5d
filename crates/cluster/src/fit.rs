//! Whether terminating pods count as gone.

/// How the resources of a node fit a task. Source of the terms: Volcano's `NodeInfo.Idle` and `NodeInfo.FutureIdle()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The request fits the idle resources: the task can be bound at once.
    Idle,
    /// The request fits once terminating pods are gone: the task can be nominated (pipelined).
    FutureIdle,
}

impl Fit {
    /// Whether resources that are being released count as free.
    pub fn is_future_idle(self) -> bool {
        self == Self::FutureIdle
    }
}
