//! Kubernetes objects to World events.
