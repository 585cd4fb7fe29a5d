//! What a whole pod requests, by the rules of kube-scheduler (`resourcehelper.PodRequests`).

use crate::{Amounts, DimId};

/// The requests of a pod's parts, each in the units of the dimensions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PodResources {
    /// `spec.containers`, which run at the same time.
    pub containers: Vec<Amounts>,
    /// `spec.initContainers`, in the order they are started.
    pub init: Vec<InitContainer>,
    /// `spec.overhead`, what the pod's runtime needs beside the containers.
    pub overhead: Amounts,
    /// `spec.resources.requests`: replaces what the containers sum to, in each dimension that is
    /// not 0 here. To hold only dimensions for which
    /// [`Dims::is_pod_level`](crate::Dims::is_pod_level) is true; Kubernetes ignores others.
    pub pod_level: Option<Amounts>,
}

/// One of `spec.initContainers`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InitContainer {
    /// What it requests.
    pub request: Amounts,
    /// `restartPolicy: Always`: once started it stays beside everything that follows.
    pub sidecar: bool,
}

impl PodResources {
    /// What a node must have free to take the pod, with [`DimId::PODS`] = 1.
    ///
    /// The containers and sidecars together or the most demanding init step, whichever is more in
    /// each dimension; then what is set for the pod as a whole; then the overhead.
    pub fn total(&self) -> Amounts {
        let mut total = self.running();
        total.max_with(&self.starting());
        for (dim, value) in self.pod_level.iter().flat_map(Amounts::iter) {
            total.set(dim, value);
        }
        total.add(&self.overhead);
        total.set(DimId::PODS, 1);
        total
    }

    /// Containers and sidecars at the same time.
    fn running(&self) -> Amounts {
        let sidecars = self.init.iter().filter(|init| init.sidecar).map(|init| &init.request);
        let mut sum = Amounts::new();
        self.containers.iter().chain(sidecars).for_each(|request| sum.add(request));
        sum
    }

    /// The most of each dimension over the init steps, each beside the sidecars before it.
    fn starting(&self) -> Amounts {
        let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
        for init in &self.init {
            let mut step = sidecars.clone();
            step.add(&init.request);
            most.max_with(&step);
            if init.sidecar {
                sidecars = step;
            }
        }
        most
    }
}
