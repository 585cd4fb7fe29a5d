//! A cluster in virtual time: manifests, kubelets, reports.
