#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]
//! Clusters in virtual time.
mod hostile;
mod plain_pages;
