//! Objects as the API server has them, for commands that send a request or two and end.
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use http::Request;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request as Requests;
use kube::core::request::Error as InvalidRequest;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Resource};
use serde_json::Value;

use crate::client;
use crate::outbox::driver::chain;

/// Objects of a page of a list.
const PAGE: u32 = 500;

/// How often a request is sent again, as client-go has it.
const RETRIES: u32 = 10;

/// The objects of a cluster. Objects are JSON, so that fields which this version does not know are kept.
pub struct Objects {
    client: Client,
    server: String,
    namespace: String,
}

impl Objects {
    /// Reads where the API server is; the first request connects. See [`client::config`].
    pub async fn of(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<Self> {
        let config = client::config(kubeconfig, master).await?;
        let (server, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        Ok(Self { client: client::client(config)?, server, namespace })
    }

    /// The namespace of the kubeconfig's context or of the pod, or "default".
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// One object; `namespace` is `None` for kinds of the whole cluster.
    pub async fn get<K: Kind>(&self, namespace: Option<&str>, name: &str) -> Result<Value> {
        let path = object::<K>(namespace, name)?;
        let answer = self.answer(path.requests.get(&path.name, &GetParams::default())).await?;
        Ok(typed::<K>(answer))
    }

    /// Objects of a kind: of a namespace, or of all with `None`.
    pub async fn list<K: Kind>(&self, namespace: Option<&str>, wanted: Wanted<'_>) -> Result<Vec<Value>> {
        let requests = kind::<K>(namespace)?;
        let params = match wanted {
            Wanted::All => ListParams::default(),
            Wanted::Fields(selector) => ListParams::default().fields(selector),
            Wanted::Labels(selector) => ListParams::default().labels(selector),
        };
        let mut answer = self.answer(requests.list(&params)).await?;
        match answer["items"].take() {
            Value::Array(items) => Ok(items.into_iter().map(typed::<K>).collect()),
            // An empty list of Go.
            _ => Ok(Vec::new()),
        }
    }

    /// All objects of a kind that is named when the program runs, page by page. Where a page has expired meanwhile, as
    /// objects changed, all are listed anew without pages, as client-go's pager does. `read` is told after each page how
    /// many there are so far.
    pub async fn list_any(&self, version: &str, kind: &str, read: &mut dyn FnMut(usize)) -> Result<Listed> {
        let requests = Requests::new(DynamicObject::url_path(&resource(version, kind), None));
        let (mut items, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
        loop {
            let text = match self.try_send(&requests.list(&params)?).await {
                Ok(text) => text,
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Listed::Absent),
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    return Ok(Listed::Forbidden(status.message.clone()));
                }
                Err(kube::Error::Api(status)) if status.code == 410 && params.continue_token.is_some() => {
                    items.clear();
                    params = ListParams::default();
                    continue;
                }
                Err(error) => bail!(self.told(&error)),
            };
            let mut page: Value = serde_json::from_str(&text)?;
            if let Value::Array(found) = page["items"].take() {
                items.extend(found.into_iter().map(|item| with_type(item, version, kind)));
                read(items.len());
            }
            match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(token),
                None => return Ok(Listed::Items(items)),
            }
        }
    }

    /// Creates an object; returns it as it is stored.
    pub async fn create<K: Kind>(&self, namespace: Option<&str>, object: &Value) -> Result<Value> {
        let requests = kind::<K>(namespace)?;
        let body = serde_json::to_vec(object)?;
        let answer = self.answer(requests.create(&PostParams::default(), body)).await?;
        Ok(typed::<K>(answer))
    }

    /// Changes the fields that are in the patch.
    pub async fn merge<K: Kind>(&self, namespace: Option<&str>, name: &str, patch: &Value) -> Result<()> {
        let path = object::<K>(namespace, name)?;
        let request = path.requests.patch(&path.name, &PatchParams::default(), &Patch::Merge(patch));
        self.send(request).await.map(drop)
    }

    /// Asks for the deletion of an object.
    pub async fn delete<K: Kind>(&self, namespace: Option<&str>, name: &str) -> Result<()> {
        let path = object::<K>(namespace, name)?;
        self.send(path.requests.delete(&path.name, &DeleteParams::default())).await.map(drop)
    }

    async fn answer(&self, request: Result<Request<Vec<u8>>, InvalidRequest>) -> Result<Value> {
        let text = self.send(request).await?;
        serde_json::from_str(&text).map_err(|error| anyhow!("the API server's answer is no JSON: {error}"))
    }

    /// Sends a request, again where the API server asks for that, as client-go does.
    async fn send(&self, request: Result<Request<Vec<u8>>, InvalidRequest>) -> Result<String> {
        self.try_send(&request?).await.map_err(|error| anyhow!(self.told(&error)))
    }

    async fn try_send(&self, request: &Request<Vec<u8>>) -> kube::Result<String> {
        for _ in 0..RETRIES {
            let answer = self.client.request_text(request.clone()).await;
            match answer.as_ref().err().and_then(retry_after) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return answer,
            }
        }
        self.client.request_text(request.clone()).await
    }

    /// What the API server says, or why it says nothing.
    fn told(&self, error: &kube::Error) -> String {
        match error {
            kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
            kube::Error::Service(cause) => {
                let why = chain(&**cause);
                let why = why.split(" (os error").next().unwrap_or(&why);
                format!("the API server {} cannot be reached: {why}", self.server)
            }
            other => chain(other),
        }
    }
}

/// All objects of a kind, or why there are none.
#[derive(Clone, Debug, PartialEq)]
pub enum Listed {
    /// The objects, with apiVersion and kind.
    Items(Vec<Value>),
    /// The API server does not have the kind.
    Absent,
    /// The user may not list them; the API server's message.
    Forbidden(String),
}

/// Which objects of a kind are listed.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// All.
    All,
    /// Those that this field selector selects.
    Fields(&'a str),
    /// Those that this label selector selects.
    Labels(&'a str),
}

/// A kind that is known when this is compiled.
pub trait Kind: Resource<DynamicType = ()> {}

impl<K: Resource<DynamicType = ()>> Kind for K {}

/// The requests on one object.
struct ObjectPath {
    requests: Requests,
    name: String,
}

fn object<K: Kind>(namespace: Option<&str>, name: &str) -> Result<ObjectPath> {
    Ok(ObjectPath { requests: kind::<K>(namespace)?, name: segment("resource name", name)? })
}

fn kind<K: Kind>(namespace: Option<&str>) -> Result<Requests> {
    let namespace = namespace.map(|namespace| segment("namespace", namespace)).transpose()?;
    Ok(Requests::new(K::url_path(&(), namespace.as_deref())))
}

/// A name as a part of a path. What would lead to another path is refused in the words of client-go.
fn segment(what: &str, name: &str) -> Result<String> {
    ensure!(!name.is_empty(), "an empty {what} may not be set");
    ensure!(name != "." && name != "..", "invalid {what} {name:?}: [may not be '{name}']");
    for sign in ['/', '%'] {
        ensure!(!name.contains(sign), "invalid {what} {name:?}: [may not contain '{sign}']");
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let part = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    Ok(name.bytes().map(part).collect())
}

fn resource(version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    // Metrics of nodes are served as nodes of their group.
    if kind.kind == "NodeMetrics" {
        return ApiResource::from_gvk_with_plural(&kind, "nodes");
    }
    ApiResource::from_gvk(&kind)
}

/// With apiVersion and kind, which may be left out of items of a list.
fn typed<K: Kind>(object: Value) -> Value {
    with_type(object, &K::api_version(&()), &K::kind(&()))
}

fn with_type(mut object: Value, version: &str, kind: &str) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| version.into());
        fields.entry("kind").or_insert_with(|| kind.into());
    }
    object
}

/// How long the API server wants the client to wait before it tries again.
fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0 && matches!(status.code, 429 | 500..)).then(|| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::segment;

    #[test]
    fn a_name_stays_within_its_part_of_the_path() {
        let part = |name: &str| segment("resource name", name).map_err(|error| error.to_string());
        assert_eq!(part("train-0.a"), Ok("train-0.a".to_owned()));
        assert_eq!(part("a b?"), Ok("a%20b%3F".to_owned()));
        assert_eq!(part("a/b"), Err("invalid resource name \"a/b\": [may not contain '/']".to_owned()));
        assert_eq!(part(".."), Err("invalid resource name \"..\": [may not be '..']".to_owned()));
        assert_eq!(part(""), Err("an empty resource name may not be set".to_owned()));
    }
}
