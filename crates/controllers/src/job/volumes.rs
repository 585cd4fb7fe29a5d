//! The volumes of a Job.
//!
//! A claim that is made for a job has a name made of its UID. Volcano draws one and writes it into the spec, which is a
//! write more, and another claim after a crash in between.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, PodSpec, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::{API_VERSION, Job, JobStatus, VolumeSpec};

use super::JobView;
use crate::change::{Change, Object, Outcome};
use crate::meta::{controller, suffix, text};

fn claim_name(job: &Job, volume: &VolumeSpec) -> String {
    let made = || {
        format!(
            "{}-pvc-{}",
            text(job.metadata.name.as_ref()),
            suffix(&[text(job.metadata.uid.as_ref()), &volume.mount_path])
        )
    };
    volume.volume_claim_name.clone().unwrap_or_else(made)
}

/// Makes the claims that are missing. An error where one that has to be there is not.
pub(crate) fn ensure(view: &JobView<'_>, outcome: &mut Outcome) -> Result<(), String> {
    for volume in &view.job.spec.volumes {
        let name = claim_name(&view.job, volume);
        match &volume.volume_claim {
            _ if view.seen.claims.contains(&name) => {}
            Some(spec) => {
                outcome.changes.push(Change::Create(Object::Claim(Box::new(claim(view, name, spec)))));
            }
            None => {
                return Err(format!(
                    "pvc {name} is not found, the job will be in the Pending state until the PVC is created"
                ));
            }
        }
    }
    Ok(())
}

fn claim(view: &JobView<'_>, name: String, spec: &PersistentVolumeClaimSpec) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: view.job.metadata.namespace.clone(),
            owner_references: Some(vec![controller(API_VERSION, "Job", &view.job.metadata)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec.clone()),
        status: None,
    }
}

/// Records the claims among what belongs to the job.
pub(crate) fn record(job: &Job, status: &mut JobStatus) {
    for volume in &job.spec.volumes {
        let name = claim_name(job, volume);
        status.controlled_resources.insert(format!("volume-pvc-{name}"), name);
    }
}

/// Mounts the volumes in all containers.
pub(crate) fn mount(job: &Job, pod: &mut PodSpec) {
    for volume in &job.spec.volumes {
        let claim_name = claim_name(job, volume);
        let name = format!("volume-{}", suffix(&[&claim_name]));
        let volumes = pod.volumes.get_or_insert_default();
        if !volumes.iter().any(|volume| volume.name == name) {
            let source = PersistentVolumeClaimVolumeSource { claim_name, read_only: None };
            volumes.push(Volume {
                name: name.clone(),
                persistent_volume_claim: Some(source),
                ..Volume::default()
            });
        }
        for container in &mut pod.containers {
            let mount_path = volume.mount_path.clone();
            let mount = VolumeMount { mount_path, name: name.clone(), ..VolumeMount::default() };
            container.volume_mounts.get_or_insert_default().push(mount);
        }
    }
}
