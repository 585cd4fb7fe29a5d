//! What this scheduler goes by.

/// The scheduler's own names, from its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Values of a pod's `spec.schedulerName` that make the pod ours.
    pub schedulers: Vec<String>,
    /// The queue of groups and pods that name none.
    pub default_queue: String,
}

impl Default for Names {
    fn default() -> Self {
        Self { schedulers: vec!["volcano".to_owned()], default_queue: "default".to_owned() }
    }
}

impl Names {
    /// What the API server fills in for a pod that names no scheduler.
    const KUBE_SCHEDULER: &str = "default-scheduler";

    /// Whether a pod with this `spec.schedulerName` is ours.
    pub fn is_ours(&self, scheduler: Option<&str>) -> bool {
        let name = scheduler.filter(|name| !name.is_empty()).unwrap_or(Self::KUBE_SCHEDULER);
        self.schedulers.iter().any(|ours| ours == name)
    }
}
