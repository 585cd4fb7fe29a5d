//! ResourceQuotas.

use phalanx_cluster::event::QuotaInfo;

use crate::invalid::{At, Invalid};
use crate::{Identity, Interner, Kind, requests, slim};

/// A ResourceQuota as the Cluster sees it; `None` for one with scopes, which are not honoured, as in Volcano: the API
/// server applies it when pods are created.
///
/// # Errors
/// A quantity that cannot be honoured.
pub fn quota(quota: &slim::ResourceQuota, interner: &mut Interner) -> Result<Option<QuotaInfo>, Invalid> {
    let identity = slim::ResourceQuota::identity(&quota.metadata, interner);
    reduce(quota, &identity, interner)
}

/// The same with an identity that is known already.
pub(crate) fn reduce(
    quota: &slim::ResourceQuota,
    identity: &Identity,
    interner: &mut Interner,
) -> Result<Option<QuotaInfo>, Invalid> {
    let slim::ResourceQuota { spec, status, .. } = quota;
    if !spec.scopes.is_empty() || spec.scope_selector.is_some() {
        return Ok(None);
    }
    let (hard, field) =
        if status.hard.is_empty() { (&spec.hard, "spec.hard") } else { (&status.hard, "status.hard") };
    Ok(Some(QuotaInfo {
        key: identity.key.clone(),
        hard: requests::resources(hard, interner).at(field)?,
        used: requests::resources(&status.used, interner).at("status.used")?,
    }))
}
