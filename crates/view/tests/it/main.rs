//! Views of random clusters, and the page in a browser.
mod browser;
mod history;
mod live;
mod page;
mod samples;
mod view;
