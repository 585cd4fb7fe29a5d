//! The service accounts of `deploy/`: the programs under test have no rights but those that the manifests grant.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    authorization::v1::SubjectAccessReview,
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::{Plane, flags, write_yaml};
use crate::{deploy, wait};

const SCHEDULER: &str = "phalanx-scheduler";
const CONTROLLERS: &str = "phalanx-controllers";
/// The kinds of objects that make an account and grant it rights.
const RBAC_KINDS: [&str; 5] = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
/// The service account that a program runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// The scheduler, by `deploy/10-rbac.yaml`.
    Scheduler,
    /// The controllers, by `deploy/optional/controllers.yaml`.
    Controllers,
    /// The scheduler with the rights of the controllers beside its own, for `phalanx scheduler --controllers`.
    Both,
}

impl Account {
    /// The name of the service account.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduler | Self::Both => SCHEDULER,
            Self::Controllers => CONTROLLERS,
        }
    }

    /// The namespace, the account, and what it may do.
    fn manifests(self) -> Result<Vec<Value>> {
        let files: &[&str] = match self {
            Self::Scheduler => &["10-rbac.yaml"],
            Self::Controllers => &["optional/controllers.yaml"],
            Self::Both => &["10-rbac.yaml", "optional/controllers.yaml"],
        };
        let mut objects = deploy::manifests_of(&deploy::dir().join("00-namespace.yaml"))?;
        for file in files {
            let of_file = deploy::manifests_of(&deploy::dir().join(file))?.into_iter();
            objects.extend(of_file.filter(|object| RBAC_KINDS.iter().any(|kind| object["kind"] == *kind)));
        }
        for subject in objects.iter_mut().filter_map(|object| object.get_mut("subjects")?.get_mut(0)) {
            subject["name"] = json!(self.name());
        }
        Ok(objects)
    }
}

impl Plane {
    /// A kubeconfig file of an account with just the rights of its manifests, which are applied first.
    pub async fn kubeconfig_of(&self, account: Account) -> Result<PathBuf> {
        deploy::apply(&self.client(), &account.manifests()?).await?;
        self.log_in(account.name()).await
    }

    /// A client that works as an account.
    pub async fn client_of(&self, account: Account) -> Result<Client> {
        client(&self.kubeconfig_of(account).await?).await
    }

    /// A kubeconfig file of a service account of [`deploy::NAMESPACE`] that exists, once its roles take effect.
    pub async fn log_in(&self, account: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), deploy::NAMESPACE);
        let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let token = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        let token = token.status.and_then(|status| status.token).context("a token")?;
        let path = self.dir().join(format!("{account}.kubeconfig.yaml"));
        write_yaml(&path, &flags::kubeconfig(self.dir(), &self.url(), &token))?;
        self.until_roles_take_effect(account).await?;
        Ok(path)
    }

    /// An API server reads roles from a watch, so new ones take effect after a moment. Looks at one right of the account's
    /// ClusterRole and at one of its Role.
    async fn until_roles_take_effect(&self, account: &str) -> Result<()> {
        let user = format!("system:serviceaccount:{}:{account}", deploy::NAMESPACE);
        let reviews: Api<SubjectAccessReview> = Api::all(self.client());
        let (group, namespace) = ("coordination.k8s.io", deploy::NAMESPACE);
        for right in [
            json!({"verb": "list", "resource": "pods"}),
            json!({"verb": "create", "group": group, "resource": "leases", "namespace": namespace}),
        ] {
            let review = json!({"spec": {"user": user, "resourceAttributes": right}});
            let review = serde_json::from_value(review)?;
            wait::until(self.site.options.ready_within, &format!("{user} to have its rights"), async || {
                let status =
                    reviews.create(&PostParams::default(), &review).await?.status.context("an answer")?;
                ensure!(status.allowed, "{right}: {status:?}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
