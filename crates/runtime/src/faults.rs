//! Faults of requests, each logged once: all watches, the lease and the outbox meet a server that is down at the same
//! time, and each of them retries.
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};

use crate::outbox::driver::chain;

/// Why requests to the API server fail now. All clients share it.
#[derive(Debug)]
pub struct Faults {
    server: String,
    standing: Mutex<BTreeSet<Fault>>,
}

/// The identity of a fault: equal faults are logged once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// No request gets an answer; the text tells a closed port from a wrong certificate.
    Silence(String),
    /// A refusal of one request, by its status.
    Refusal(String, u16),
    /// An answer that broke off or makes no sense.
    Other(String),
}

impl Faults {
    /// For the server at this address.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), standing: Mutex::default() }
    }

    /// A request for `what` failed.
    pub fn failed(&self, what: &str, error: &kube::Error) {
        match error {
            kube::Error::Service(cause) => self.silent(&chain(&**cause)),
            kube::Error::Api(status) => self.refused(what, status.code, &status.message),
            other => self.warn(Fault::Other(what.to_owned()), |server| {
                format!("{what}: request to {server} failed, trying again: {}", chain(other))
            }),
        }
    }

    /// There was no answer at all.
    pub fn silent(&self, why: &str) {
        self.warn(Fault::Silence(why.to_owned()), |server| {
            format!("no answer from the API server {server}, trying again: {why}")
        });
    }

    /// The server refused a request for `what`.
    pub fn refused(&self, what: &str, code: u16, message: &str) {
        self.warn(Fault::Refusal(what.to_owned(), code), |server| {
            format!("{what}: refused by {server} with {code}, trying again: {}", message.trim())
        });
    }

    /// A request for `what` was answered, so the faults are over.
    pub fn answered(&self, what: &str) {
        let mut standing = self.standing();
        let before = standing.len();
        standing.retain(|fault| !matches!(fault, Fault::Silence(_)));
        let silence_ended = standing.len() < before;
        let before = standing.len();
        standing.retain(|fault| fault.subject() != Some(what));
        let fault_ended = standing.len() < before;
        drop(standing);
        if silence_ended {
            info!("the API server {} answers again", self.server);
        }
        if fault_ended {
            info!("{what}: requests go through again");
        }
    }

    /// Whether the server was last seen not to answer.
    pub fn is_silent(&self) -> bool {
        self.standing().iter().any(|fault| matches!(fault, Fault::Silence(_)))
    }

    fn warn(&self, fault: Fault, text: impl FnOnce(&str) -> String) {
        if self.standing().insert(fault) {
            warn!("{}", text(&self.server));
        }
    }

    /// The set is consistent also after a panic.
    fn standing(&self) -> MutexGuard<'_, BTreeSet<Fault>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fault {
    fn subject(&self) -> Option<&str> {
        match self {
            Fault::Silence(_) => None,
            Fault::Refusal(what, _) | Fault::Other(what) => Some(what),
        }
    }
}
