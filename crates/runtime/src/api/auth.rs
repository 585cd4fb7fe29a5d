//! Who asks, and whether they may see what they ask for: the API server is asked, and its answers are kept for some seconds.
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest;
use tokio::sync::Semaphore;
use tracing::warn;

use super::Refused;
use crate::client::within;

/// How long an answer of the API server counts.
const KEPT: Duration = Duration::from_secs(10);
/// Answers that are kept at most.
const KEPT_MAX: usize = 1_024;
/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions to the API server at one time, whoever asks.
const QUESTIONS: usize = 4;
/// Where the token may stand too: the API server takes `Authorization` off what it proxies.
pub(super) const TOKEN_HEADER: &str = "x-phalanx-token";
/// Longer tokens are refused unseen.
const TOKEN_MAX: usize = 8 << 10;

/// The digest of a token: tokens themselves are not kept.
type Digest = [u8; digest::SHA256_OUTPUT_LEN];

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct User {
    digest: Digest,
    info: UserInfo,
}

impl User {
    /// The name that the API server knows.
    pub(super) fn name(&self) -> &str {
        self.info.username.as_deref().unwrap_or_default()
    }
}

/// What somebody may do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Right {
    /// List PodGroups: in a namespace, or with `None` in all.
    List(Option<String>),
    /// Get a path that is no resource, as in `nonResourceURLs` of a ClusterRole.
    Get(&'static str),
}

impl Right {
    /// What somebody lacks who does not have it.
    fn lacking(&self) -> String {
        let list = "list podgroups.scheduling.volcano.sh in";
        match self {
            Self::List(Some(namespace)) => format!("{list} namespace {namespace}"),
            Self::List(None) => format!("{list} all namespaces"),
            Self::Get(path) => format!("get the path {path}, which nonResourceURLs of a ClusterRole allow"),
        }
    }

    fn asked_of(&self, user: &UserInfo) -> SubjectAccessReviewSpec {
        let text = |text: &str| Some(text.to_owned());
        let resource = |namespace: &Option<String>| ResourceAttributes {
            namespace: namespace.clone(),
            verb: text("list"),
            group: text("scheduling.volcano.sh"),
            resource: text("podgroups"),
            ..ResourceAttributes::default()
        };
        let (resource, path) = match self {
            Self::List(namespace) => (Some(resource(namespace)), None),
            Self::Get(path) => (None, Some(NonResourceAttributes { path: text(path), verb: text("get") })),
        };
        SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            resource_attributes: resource,
            non_resource_attributes: path,
        }
    }
}

/// Asks the API server.
pub(super) struct Auth {
    client: Client,
    users: Answers<Digest, Option<UserInfo>>,
    rights: Answers<(Digest, Right), bool>,
    questions: Semaphore,
}

/// Answers of the API server by what was asked.
struct Answers<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K: Eq + Hash, V: Clone> Answers<K, V> {
    fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    fn get(&self, of: &K) -> Option<V> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(of).filter(|(at, _)| at.elapsed() < KEPT).map(|(_, answer)| answer.clone())
    }

    fn keep(&self, of: K, answer: V) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= KEPT_MAX {
            answers.retain(|_, (at, _)| at.elapsed() < KEPT);
        }
        if answers.len() >= KEPT_MAX {
            answers.clear();
        }
        answers.insert(of, (Instant::now(), answer));
    }
}

impl Auth {
    pub(super) fn new(client: Client) -> Self {
        let (users, rights) = (Answers::new(), Answers::new());
        Self { client, users, rights, questions: Semaphore::new(QUESTIONS) }
    }

    /// Who holds the token of a request.
    pub(super) async fn user(&self, headers: &HeaderMap) -> Result<User, Refused> {
        let nobody = |why: &str| Refused::new(StatusCode::UNAUTHORIZED, why);
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = || text(header::AUTHORIZATION.as_str())?.strip_prefix("Bearer ");
        let token = text(TOKEN_HEADER).or_else(bearer).map(str::trim);
        let token = token.filter(|token| !token.is_empty() && token.len() <= TOKEN_MAX);
        let token = token.ok_or_else(|| nobody("a bearer token is needed"))?;
        let digest = digest_of(token);
        let info = if let Some(known) = self.users.get(&digest) {
            known
        } else {
            let info = self.review(token).await?;
            self.users.keep(digest, info.clone());
            info
        };
        let info = info.ok_or_else(|| nobody("the API server does not know this token"))?;
        Ok(User { digest, info })
    }

    /// Refuses who lacks a right.
    pub(super) async fn may(&self, user: &User, right: Right) -> Result<(), Refused> {
        let key = (user.digest, right);
        let allowed = if let Some(known) = self.rights.get(&key) {
            known
        } else {
            let allowed = self.access(&user.info, &key.1).await?;
            self.rights.keep(key.clone(), allowed);
            allowed
        };
        let why = || format!("{} may not {}", user.name(), key.1.lacking());
        if allowed { Ok(()) } else { Err(Refused::new(StatusCode::FORBIDDEN, why())) }
    }

    async fn review(&self, token: &str) -> Result<Option<UserInfo>, Refused> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = self.ask(&review).await?.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn access(&self, user: &UserInfo, right: &Right) -> Result<bool, Refused> {
        let review = SubjectAccessReview { spec: right.asked_of(user), ..SubjectAccessReview::default() };
        Ok(self.ask(&review).await?.status.is_some_and(|status| status.allowed))
    }

    /// The same object with its status.
    async fn ask<K>(&self, review: &K) -> Result<K, Refused>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug,
        K: serde::Serialize + serde::de::DeserializeOwned,
    {
        let cannot = |why: String| {
            warn!("the API cannot ask the API server who may see what: {why}");
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the API server does not say who may see what")
        };
        let _place = self.questions.acquire().await.map_err(|error| cannot(error.to_string()))?;
        let (api, params) = (Api::<K>::all(self.client.clone()), PostParams::default());
        let answer =
            within(PATIENCE, format!("no answer in {PATIENCE:?}"), api.create(&params, review)).await;
        answer.map_err(|error| cannot(error.to_string()))
    }
}

fn digest_of(token: &str) -> Digest {
    let mut bytes = Digest::default();
    bytes.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    bytes
}
