//! Changes of pods that several plugins make.

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, PodSpec, Volume, VolumeMount};

pub(crate) fn variable(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None }
}

pub(crate) fn add_env(container: &mut Container, variables: &[EnvVar]) {
    container.env.get_or_insert_default().extend_from_slice(variables);
}

/// All containers, those for initialization too.
pub(crate) fn containers(pod: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    pod.init_containers.iter_mut().flatten().chain(&mut pod.containers)
}

/// Opens a port unless it is open.
pub(crate) fn open_port(container: &mut Container, name: &str, port: i32) {
    let ports = container.ports.get_or_insert_default();
    if !ports.iter().any(|one| one.container_port == port) {
        ports.push(ContainerPort {
            name: Some(name.to_owned()),
            container_port: port,
            ..ContainerPort::default()
        });
    }
}

/// Mounts a volume in all containers.
pub(crate) fn mount(pod: &mut PodSpec, volume: Volume, path: &str, sub_path: Option<&str>) {
    let mount = VolumeMount {
        name: volume.name.clone(),
        mount_path: path.to_owned(),
        sub_path: sub_path.map(str::to_owned),
        ..VolumeMount::default()
    };
    pod.volumes.get_or_insert_default().push(volume);
    for container in containers(pod) {
        container.volume_mounts.get_or_insert_default().push(mount.clone());
    }
}
