//! `svc`: names by which the pods find each other, in a headless Service, a ConfigMap of hosts, and `VC_TASK_HOSTS`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapKeySelector, ConfigMapVolumeSource, EnvVar, EnvVarSource, Service, ServiceSpec,
    Volume,
};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use phalanx_api::batch::{Job, TaskSpec};

use super::arguments::{Argument, Arguments, switch};
use super::objects::{metadata, name, selector};
use super::pods::{add_env, containers, mount};
use super::{Made, Plugin, any_job};
use crate::change::Object;
use crate::job::{SshKey, hosts};
use crate::meta::text;

pub(super) const PLUGIN: Plugin =
    Plugin { name: "svc", arguments: ARGUMENTS, objects, change_pod, check: any_job };

const ARGUMENTS: &[Argument] = &[
    switch("publish-not-ready-addresses", "false"),
    switch("disable-network-policy", "false"),
    switch("inject-hosts-env", "true"),
];
const SUFFIX: &str = "-svc";
const MOUNT_PATH: &str = "/etc/volcano";

fn objects(job: &Job, arguments: &Arguments<'_>, _: Option<&SshKey>) -> Vec<Object> {
    let hosts = ConfigMap { metadata: metadata(job, SUFFIX), data: Some(data(job)), ..ConfigMap::default() };
    let mut objects = vec![
        Object::ConfigMap(Box::new(hosts)),
        Object::Service(Box::new(service(job, arguments.switch("publish-not-ready-addresses")))),
    ];
    if !arguments.switch("disable-network-policy") {
        objects.push(Object::NetworkPolicy(Box::new(policy(job))));
    }
    objects
}

fn service(job: &Job, not_ready: bool) -> Service {
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        selector: Some(selector(job)),
        publish_not_ready_addresses: Some(not_ready),
        ..ServiceSpec::default()
    };
    Service { metadata: metadata(job, ""), spec: Some(spec), status: None }
}

/// The pods of the job take connections of each other only.
fn policy(job: &Job) -> NetworkPolicy {
    let pods = || LabelSelector { match_labels: Some(selector(job)), match_expressions: None };
    let peer = NetworkPolicyPeer { pod_selector: Some(pods()), ..NetworkPolicyPeer::default() };
    let spec = NetworkPolicySpec {
        pod_selector: Some(pods()),
        ingress: Some(vec![NetworkPolicyIngressRule { from: Some(vec![peer]), ports: None }]),
        egress: None,
        policy_types: Some(vec!["Ingress".to_owned()]),
    };
    NetworkPolicy { metadata: metadata(job, ""), spec: Some(spec) }
}

/// The name of a task in names of variables and keys.
fn key(task: &TaskSpec) -> String {
    task.name.replace('-', "_")
}

fn variables(task: &TaskSpec) -> [String; 2] {
    let key = key(task).to_uppercase();
    [format!("VC_{key}_HOSTS"), format!("VC_{key}_NUM")]
}

fn data(job: &Job) -> BTreeMap<String, String> {
    let mut data = BTreeMap::new();
    for task in &job.spec.tasks {
        let hosts = hosts(job, task);
        let [list, count] = variables(task);
        data.insert(format!("{}.host", key(task)), hosts.join("\n"));
        data.insert(list, hosts.join(","));
        data.insert(count, hosts.len().to_string());
    }
    data
}

fn change_pod(made: &mut Made<'_>, arguments: &Arguments<'_>) {
    let map = name(made.job, SUFFIX);
    let (pod, domain) = (made.pod.metadata.name.clone(), text(made.job.metadata.name.as_ref()).to_owned());
    let env: Vec<EnvVar> =
        made.job.spec.tasks.iter().flat_map(variables).map(|key| from_map(&map, key)).collect();
    let spec = made.spec();
    let missing = |value: &Option<String>| value.as_ref().is_none_or(String::is_empty);
    if missing(&spec.hostname) {
        spec.hostname = pod;
    }
    if missing(&spec.subdomain) {
        spec.subdomain = Some(domain);
    }
    if arguments.switch("inject-hosts-env") {
        containers(spec).for_each(|container| add_env(container, &env));
    }
    let source = ConfigMapVolumeSource { name: map.clone(), ..ConfigMapVolumeSource::default() };
    let volume = Volume { name: map, config_map: Some(source), ..Volume::default() };
    mount(spec, volume, MOUNT_PATH, None);
}

fn from_map(map: &str, key: String) -> EnvVar {
    let selector = ConfigMapKeySelector { name: map.to_owned(), key: key.clone(), optional: None };
    let source = EnvVarSource { config_map_key_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: key, value: None, value_from: Some(source) }
}
