//! Views of random clusters, and the page in a browser.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]
mod history;
mod hyper_nodes;
mod live;
mod page;
mod pictures;
mod samples;
mod view;
