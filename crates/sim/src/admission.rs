//! Fields that an API server fills in from other objects on creation: the preemption policy of a pod's PriorityClass,
//! and the default StorageClass of claims that name none.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::PvcInfo;

use crate::api_server::SimulatedPod;
use crate::manifests::Object;

/// What these fields are filled in from.
#[derive(Default)]
pub(crate) struct Admission {
    policies: Policies,
    class: Option<Arc<str>>,
}

impl Admission {
    /// From the objects of a cluster, whose own fields are filled in too.
    pub(crate) fn admit_all(objects: &mut [Object]) -> Self {
        let admission = Self { policies: Policies::of(objects), class: default_class(objects) };
        for object in objects {
            admission.admit(object);
        }
        admission
    }

    /// An object that is created, with these fields.
    pub(crate) fn admitted(&self, object: Option<Object>) -> Option<Object> {
        let mut object = object?;
        self.admit(&mut object);
        Some(object)
    }

    /// Fills in the fields of an object that is created.
    fn admit(&self, object: &mut Object) {
        match object {
            Object::Pod(pod) => {
                self.policies.fill_in(pod);
                pod.pvcs.iter_mut().for_each(|claim| fill_in(claim, self.class.as_ref()));
            }
            Object::UnclassedPvc(claim) => fill_in(claim, self.class.as_ref()),
            _ => {}
        }
    }
}

/// Priority classes, and whether their pods never preempt.
#[derive(Default)]
struct Policies {
    never: BTreeMap<Arc<str>, bool>,
    default: bool,
}

impl Policies {
    fn of(objects: &[Object]) -> Self {
        let mut policies = Self::default();
        for object in objects {
            if let Object::PriorityClass { name, global_default, never_preempts, .. } = object {
                policies.never.insert(name.clone(), *never_preempts);
                policies.default |= *global_default && *never_preempts;
            }
        }
        policies
    }

    fn fill_in(&self, pod: &mut SimulatedPod) {
        let of_class = |name: &Arc<str>| self.never.get(name).copied().unwrap_or(false);
        let info = &mut pod.info;
        info.never_preempts |= info.priority_class.as_ref().map_or(self.default, of_class);
    }
}

fn default_class(objects: &[Object]) -> Option<Arc<str>> {
    let of = |object: &Object| match object {
        Object::DefaultStorageClass(class) => Some(class.name.clone()),
        _ => None,
    };
    objects.iter().filter_map(of).min()
}

fn fill_in(claim: &mut PvcInfo, class: Option<&Arc<str>>) {
    if let Some(class) = class.filter(|_| claim.class.is_empty() && claim.volume.is_none()) {
        claim.class = class.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{ReadOptions, read};

    fn admitted(yaml: &str) -> Vec<Object> {
        let mut objects = read(&[("f".into(), yaml.into())], &ReadOptions::default()).unwrap().objects;
        Admission::admit_all(&mut objects);
        objects
    }

    #[test]
    fn pods_have_the_preemption_policy_of_their_class() {
        let class = |name: &str, more: &str| {
            format!(
                "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: 1\n{more}\n"
            )
        };
        let pod = |spec: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}containers: [{{name: main}}]}}\n"
            )
        };
        let never = "preemptionPolicy: Never";
        for (spec, of_named, of_default, expected) in [
            ("priorityClassName: c, ", never, "", true),
            ("priorityClassName: c, ", "preemptionPolicy: PreemptLowerPriority", "", false),
            ("priorityClassName: c, ", "", never, false),
            ("", never, never, true),
            ("", never, "", false),
        ] {
            let default = format!("globalDefault: true\n{of_default}");
            let text = [pod(spec), class("c", of_named), class("d", &default)].join("---\n");
            let found = admitted(&text).into_iter().find_map(|object| match object {
                Object::Pod(pod) => Some(pod.info.never_preempts),
                _ => None,
            });
            assert_eq!(found, Some(expected), "{text}");
        }
    }

    #[test]
    fn claims_without_a_class_have_the_default_one() {
        let class = |name: &str, default: &str| {
            format!(
                "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: {name}, annotations: \
                 {{storageclass.kubernetes.io/is-default-class: \"{default}\"}}}}\nprovisioner: d\n"
            )
        };
        let claim = |spec: &str| {
            let asks = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}";
            format!(
                "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c}}\nspec: {{{asks}{spec}}}\n"
            )
        };
        for (spec, default, expected) in [
            ("", "true", "b"),
            ("", "false", ""),
            (", storageClassName: ''", "true", ""),
            (", storageClassName: a", "true", "a"),
            (", volumeName: v", "true", ""),
        ] {
            let text = [claim(spec), class("a", "false"), class("b", default)].join("---\n");
            let found = admitted(&text).into_iter().find_map(|object| match object {
                Object::Pvc(claim) | Object::UnclassedPvc(claim) => Some(claim.class.clone()),
                _ => None,
            });
            assert_eq!(found.as_deref(), Some(expected), "{text}");
        }
    }
}
