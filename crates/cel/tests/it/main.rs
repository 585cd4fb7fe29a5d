#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]
//! What tenants may write, however hostile.
mod device;
mod hostile;
