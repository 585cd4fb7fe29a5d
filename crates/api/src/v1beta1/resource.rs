//! What makes the two kinds Kubernetes objects for kube.
//!
//! By hand rather than with kube-derive, which cannot say two things that Volcano's API says: a
//! PodGroup has a status but no status subresource, and an object without `spec` is valid.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::crd::v1::CustomResourceExt;
use kube_core::{ApiResource, ClusterResourceScope, NamespaceResourceScope, Resource};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{
    API_VERSION, GROUP, PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus, VERSION,
};
use crate::crd;

macro_rules! custom_resource {
    ($kind:ident, $spec:ident, $status:ident, $scope:ident, $definition:path) => {
        impl $kind {
            /// An object with this name and spec, and no status yet.
            pub fn new(name: &str, spec: $spec) -> Self {
                let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
                Self { metadata, spec, status: None }
            }
        }

        impl Resource for $kind {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                VERSION.into()
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

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut object = to.serialize_struct(stringify!($kind), 5)?;
                object.serialize_field("apiVersion", API_VERSION)?;
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
