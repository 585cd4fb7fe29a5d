//! The scheduler: World, Session, Statement, actions, plugins.
pub mod conf;
