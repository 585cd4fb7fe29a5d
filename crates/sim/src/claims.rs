//! ResourceClaims: created from templates, allocated when their pods are bound, deallocated when the pods end.
//!
//! Source: the resource claim controller of Kubernetes.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cache::Invalid;
use phalanx_cluster::event::{ClaimInfo, Event, Key, PodClaim, PodPhase};
use phalanx_core::decision::{ClaimWrite, Prepare};

use crate::api_server::SimulatedPod;
use crate::manifests::Object;
use crate::placing;

/// A claim, and the pod that owns it.
#[derive(Debug)]
struct Claim {
    info: ClaimInfo,
    owner: Option<Arc<str>>,
}

/// The claims of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<Key, Claim>);

impl Claims {
    /// The claims in manifests, and those from templates of pods.
    pub(crate) fn of(objects: &mut [Object]) -> Self {
        let mut claims = Self::default();
        let mut templates: BTreeMap<Key, ClaimInfo> = BTreeMap::new();
        for object in &*objects {
            match object {
                Object::Claim(info) => {
                    claims.0.insert(info.key.clone(), Claim { info: (**info).clone(), owner: None });
                }
                Object::ClaimTemplate(info) => {
                    templates.insert(info.key.clone(), (**info).clone());
                }
                _ => {}
            }
        }
        for object in objects {
            if let Object::Pod(pod) = object {
                claims.make(pod, &templates);
            }
        }
        claims
    }

    /// Creates the claims of a pod from its templates.
    fn make(&mut self, pod: &mut SimulatedPod, templates: &BTreeMap<Key, ClaimInfo>) {
        let ended = matches!(pod.info.life.phase, PodPhase::Succeeded | PodPhase::Failed);
        let Some(named) = pod.info.claims.as_ref().filter(|_| !ended) else { return };
        let (namespace, owner) = (&pod.info.pod.namespace, &pod.info.pod.uid);
        let one = |claim: &PodClaim| {
            let template = pod.templates.iter().find(|(name, _)| *name == claim.name);
            let template = template.filter(|_| claim.claim.is_none()).map(|(_, template)| template);
            let key = |name: &Arc<str>| Key { namespace: namespace.clone(), name: name.clone() };
            let Some(spec) = template.and_then(|template| templates.get(&key(template))) else {
                return claim.clone();
            };
            let name: Arc<str> = format!("{}-{}", pod.info.pod.name, claim.name).into();
            let key = key(&name);
            let info = ClaimInfo { uid: key.to_string().into(), key: key.clone(), ..spec.clone() };
            self.0.entry(key).or_insert(Claim { info, owner: Some(owner.clone()) });
            PodClaim { claim: Some(name), ..claim.clone() }
        };
        let claims: Arc<[PodClaim]> = named.iter().map(one).collect();
        let left = claims.iter().enumerate().find(|(_, claim)| claim.claim.is_none());
        let missing = left.and_then(|(at, claim)| {
            let (_, template) = pod.templates.iter().find(|(name, _)| *name == claim.name)?;
            let problem = format!("ResourceClaimTemplate {namespace}/{template} is not in the input");
            Some(Invalid { field: format!("spec.resourceClaims[{at}].resourceClaimTemplateName"), problem })
        });
        pod.info.claims = Some(claims);
        if let Some(missing) = missing {
            placing::hinder(&mut pod.info, &missing);
        }
    }

    /// All claims, for watches.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.0.values().map(|claim| claim.info.clone().into())
    }

    /// Writes allocations and reservations before a bind.
    pub(crate) fn prepare(&mut self, list: &[Prepare]) -> Vec<Event> {
        let writes = list.iter().filter_map(|step| match step {
            Prepare::Claim(write) => Some(write),
            Prepare::Volume(_) => None,
        });
        writes.filter_map(|write| self.write(write)).collect()
    }

    fn write(&mut self, write: &ClaimWrite) -> Option<Event> {
        let claim = self.0.get_mut(&write.key).filter(|claim| claim.info.uid == write.uid)?;
        if claim.info.allocation.is_none() {
            claim.info.allocation = write.allocation.as_deref().cloned();
        }
        if !claim.info.reserved.contains(&write.pod.uid) {
            claim.info.reserved.push(write.pod.uid.clone());
        }
        Some(claim.info.clone().into())
    }

    /// Ends the reservations of a pod that ended, and deletes the claims that it owns.
    pub(crate) fn release(&mut self, pod: &Arc<str>) -> Vec<Event> {
        let mut events = Vec::new();
        for claim in self.0.values_mut().filter(|claim| claim.info.reserved.contains(pod)) {
            claim.info.reserved.retain(|uid| uid != pod);
            if claim.info.reserved.is_empty() {
                claim.info.allocation = None;
            }
            events.push(claim.info.clone().into());
        }
        let made = self.0.extract_if(.., |_, claim| claim.owner.as_ref() == Some(pod));
        events.extend(made.map(|(key, _)| Event::ClaimGone(key)));
        events
    }
}
