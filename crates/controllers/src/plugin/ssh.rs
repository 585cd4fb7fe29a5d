//! `ssh`: a key pair by which the pods reach each other without a password, in a Secret.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{KeyToPath, Secret, SecretVolumeSource, Volume};
use phalanx_api::batch::Job;

use super::arguments::{Argument, Arguments, number, text};
use super::objects::{metadata, name};
use super::pods::mount;
use super::{Made, Plugin, any_job};
use crate::change::Object;
use crate::job::{SshKey, hosts};

pub(super) const PLUGIN: Plugin =
    Plugin { name: "ssh", arguments: ARGUMENTS, objects, change_pod, check: any_job };

const ARGUMENTS: &[Argument] = &[
    text("ssh-key-file-path", ROOTS_PATH),
    text("ssh-private-key", ""),
    text("ssh-public-key", ""),
    number("ssh-port", "22"),
];
const SUFFIX: &str = "-ssh";
const ROOTS_PATH: &str = "/root/.ssh";
const FILES: [&str; 4] = ["id_rsa", "id_rsa.pub", "authorized_keys", "config"];

/// The Secret of a job is missing, and its arguments bring no key for it.
pub(super) fn lacks_key(job: &Job, made: &[Object]) -> bool {
    let needs = |given: &Vec<String>| Arguments::read(given, ARGUMENTS).text("ssh-private-key").is_empty();
    let name = name(job, SUFFIX);
    let there = made.iter().any(|one| matches!(one, Object::Secret(_)) && one.name() == name);
    !there && job.spec.plugins.get("ssh").is_some_and(needs)
}

fn objects(job: &Job, arguments: &Arguments<'_>, key: Option<&SshKey>) -> Vec<Object> {
    let given = arguments.text("ssh-private-key");
    let (private, public) = match key {
        _ if !given.is_empty() => (given, arguments.text("ssh-public-key")),
        Some(key) => (key.private.as_str(), key.public.as_str()),
        None => return Vec::new(),
    };
    let config = config(job, arguments.number("ssh-port"));
    let contents = [private, public, public, &config].map(|text| ByteString(text.as_bytes().to_vec()));
    let data: BTreeMap<String, ByteString> = FILES.map(str::to_owned).into_iter().zip(contents).collect();
    let secret = Secret { metadata: metadata(job, SUFFIX), data: Some(data), ..Secret::default() };
    vec![Object::Secret(Box::new(secret))]
}

fn config(job: &Job, port: i32) -> String {
    let port = if (1..=65535).contains(&port) { port } else { 22 };
    let mut text = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n".to_owned();
    for host in job.spec.tasks.iter().flat_map(|task| hosts(job, task)) {
        let short = host.split('.').next().unwrap_or(&host);
        let _ = write!(text, "Host {short}\n  HostName {host}\n  Port {port}\n");
    }
    text
}

/// The key may be read by others where it is not root's, or the user could not read it.
fn change_pod(made: &mut Made<'_>, arguments: &Arguments<'_>) {
    let path = arguments.text("ssh-key-file-path");
    let secret_name = name(made.job, SUFFIX);
    let items =
        FILES.map(|file| KeyToPath { key: file.to_owned(), path: format!(".ssh/{file}"), mode: None });
    let source = SecretVolumeSource {
        secret_name: Some(secret_name.clone()),
        items: Some(items.into()),
        default_mode: Some(if path == ROOTS_PATH { 0o600 } else { 0o644 }),
        optional: None,
    };
    let volume = Volume { name: secret_name, secret: Some(source), ..Volume::default() };
    mount(made.spec(), volume, path, Some(".ssh"));
}
