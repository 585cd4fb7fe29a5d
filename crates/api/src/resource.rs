//! What makes the kinds Kubernetes objects for kube.
//!
//! By hand rather than with kube-derive, which cannot say two things that Volcano's API says: a
//! PodGroup has a status but no status subresource, and an object without `spec` is valid.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::crd::v1::CustomResourceExt;
use kube_core::{ApiResource, ClusterResourceScope, NamespaceResourceScope, Resource};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::batch::{CronJob, CronJobSpec, CronJobStatus, Job, JobSpec, JobStatus};
use crate::bus::Command;
use crate::crd;
use crate::flow::{JobFlow, JobFlowSpec, JobFlowStatus, JobTemplate, JobTemplateStatus};
use crate::topology::{HyperNode, HyperNodeSpec, HyperNodeStatus};
use crate::v1beta1::{PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus};

/// The kind as a resource: its names, its scope, its metadata.
macro_rules! resource {
    ($kind:ident, $scope:ident, $definition:path) => {
        impl Resource for $kind {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $definition.group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $definition.version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $definition.plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl CustomResourceExt for $kind {
            fn crd() -> CustomResourceDefinition {
                $definition.typed()
            }

            fn crd_name() -> &'static str {
                $definition.name
            }

            fn api_resource() -> ApiResource {
                ApiResource::erase::<Self>(&())
            }

            fn shortnames() -> &'static [&'static str] {
                $definition.short_names
            }
        }
    };
}

/// A resource with spec and status.
macro_rules! custom_resource {
    ($kind:ident, $spec:ident, $status:ident, $scope:ident, $definition:path) => {
        resource!($kind, $scope, $definition);

        impl $kind {
            /// An object with this name and spec, and no status yet.
            pub fn new(name: &str, spec: $spec) -> Self {
                let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
                Self { metadata, spec, status: None }
            }
        }

        impl kube_core::object::HasSpec for $kind {
            type Spec = $spec;

            fn spec(&self) -> &$spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut $spec {
                &mut self.spec
            }
        }

        impl kube_core::object::HasStatus for $kind {
            type Status = $status;

            fn status(&self) -> Option<&$status> {
                self.status.as_ref()
            }

            fn status_mut(&mut self) -> &mut Option<$status> {
                &mut self.status
            }
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut object = to.serialize_struct(stringify!($kind), 5)?;
                object.serialize_field("apiVersion", &$definition.api_version())?;
                object.serialize_field("kind", stringify!($kind))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                match &self.status {
                    Some(status) => object.serialize_field("status", status)?,
                    None => object.skip_field("status")?,
                }
                object.end()
            }
        }
    };
}

custom_resource!(PodGroup, PodGroupSpec, PodGroupStatus, NamespaceResourceScope, crd::POD_GROUP);
custom_resource!(Queue, QueueSpec, QueueStatus, ClusterResourceScope, crd::QUEUE);
custom_resource!(Job, JobSpec, JobStatus, NamespaceResourceScope, crd::JOB);
custom_resource!(CronJob, CronJobSpec, CronJobStatus, NamespaceResourceScope, crd::CRON_JOB);
custom_resource!(JobFlow, JobFlowSpec, JobFlowStatus, NamespaceResourceScope, crd::JOB_FLOW);
custom_resource!(JobTemplate, JobSpec, JobTemplateStatus, NamespaceResourceScope, crd::JOB_TEMPLATE);
custom_resource!(HyperNode, HyperNodeSpec, HyperNodeStatus, ClusterResourceScope, crd::HYPER_NODE);
resource!(Command, NamespaceResourceScope, crd::COMMAND);

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_struct("Command", 7)?;
        object.serialize_field("apiVersion", &crd::COMMAND.api_version())?;
        object.serialize_field("kind", "Command")?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("action", &self.action)?;
        object.serialize_field("target", &self.target)?;
        object.serialize_field("reason", &self.reason)?;
        object.serialize_field("message", &self.message)?;
        object.end()
    }
}
