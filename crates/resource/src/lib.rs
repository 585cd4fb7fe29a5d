//! Kubernetes quantities as exact integers; amounts and ceilings.
