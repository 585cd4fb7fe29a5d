//! What the Job controller sees.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_api::batch::Job;
use phalanx_api::bus::Command;
use phalanx_api::v1beta1::PodGroup;

use super::JobPod;
use crate::change::Object;

/// A Job and all that belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Job.
    pub job: &'a Job,
    /// Its pods: those whose controller it is.
    pub pods: &'a [JobPod],
    /// Its PodGroup, `NAME-UID` or, made by Volcano before 1.5, `NAME`.
    pub group: Option<&'a PodGroup>,
    /// Commands that name it, in the order of their creation.
    pub commands: &'a [Command],
    /// Services, Secrets, ConfigMaps and NetworkPolicies whose controller it is, or that do for it.
    pub made: &'a [Object],
    /// The PersistentVolumeClaims of its namespace.
    pub claims: &'a BTreeSet<String>,
    /// The values of PriorityClasses.
    pub priorities: &'a BTreeMap<String, i32>,
    /// A fresh key pair, if the last outcome wanted one.
    pub ssh_key: Option<&'a SshKey>,
    /// The scheduler of pods that name none, and whose Job names none.
    pub scheduler_name: &'a str,
    /// Whether the queue of the job forwards jobs to other clusters.
    pub forwards: bool,
    /// Writes for the Job that failed in a row.
    pub failures: u32,
}

/// A key pair for plugin ssh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshKey {
    /// The private key, PEM.
    pub private: String,
    /// The public key, as a line of authorized_keys.
    pub public: String,
}
