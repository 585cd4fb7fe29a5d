//! The scheduler's own API: read-only answers on why jobs wait, for who may list PodGroups; for who may get their
//! paths, a capture of the scheduler, and profiles.
//!
//! An answer costs the scheduling thread a copy of what it knows, at most one a second and while no cycle is due. All
//! else happens on another thread, one answer at a time, in turn for those who ask.
mod auth;
mod capture;
pub mod client;
mod evictions;
mod leader;
mod page;
mod past;
mod profile;
mod snapshots;
mod token;
mod turns;
pub(crate) mod whatif;

use std::fmt;
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use kube::Client;
use phalanx_cache::Names;
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_core::report::Snapshot;
use phalanx_explain::{Patience, Question, Subject, Top};
use serde::Serialize;
use serde_json::json;
use tracing::{debug, warn};

use crate::engine::Input;
use crate::server::{Body, whole};
use auth::{Auth, Right};
pub use evictions::{Evictions, Notes};
use profile::Profiler;
use snapshots::Snapshots;
use turns::{Turn, Turns};

/// How long changes that would let a job run are looked for.
const REMEDIES: Duration = Duration::from_millis(600);
/// How long a request waits for its turn, and for a snapshot.
const TURN: Duration = Duration::from_secs(10);

const JSON: &str = "application/json";

/// A question, as a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    /// `/api/v1/explain/KIND/NAMESPACE/NAME`.
    Explain(Question),
    /// `/api/v1/top`, and `?namespace=NAMESPACE` for the jobs of one.
    Top(Option<String>),
    /// `/api/v1/view`: the cluster as the web page shows it.
    View,
}

/// The time since an answer was begun.
#[derive(Debug)]
struct Watch(Instant);

impl Stopwatch for Watch {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Why a request gets no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    status: StatusCode,
    why: String,
}

impl Refused {
    fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }
}

/// Answers requests.
pub struct Api {
    auth: Auth,
    engine: std_mpsc::Sender<Input>,
    snapshots: Snapshots,
    evictions: Arc<Evictions>,
    /// What manifests are read with.
    names: Names,
    /// There with `--profiling`.
    profiler: Option<Profiler>,
    /// Of answers.
    turns: Turns,
    /// Of answers for which the journal is read: this may take seconds, and others do not wait for it.
    reading: Turns,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// An API that asks the API server who may see what, and the scheduling thread for what there is.
    pub fn new(client: Client, engine: std_mpsc::Sender<Input>, evictions: Arc<Evictions>) -> Self {
        Self {
            auth: Auth::new(client),
            snapshots: Snapshots::new(engine.clone()),
            engine,
            evictions,
            names: Names::default(),
            profiler: None,
            turns: Turns::new(TURN),
            reading: Turns::new(TURN),
        }
    }

    /// The same, for a scheduler of these names.
    pub fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// The same, which makes profiles too.
    pub fn with_profiles(self) -> Self {
        Self { profiler: Some(Profiler::new()), ..self }
    }

    /// The answer to a request.
    pub async fn respond(
        self: &Arc<Self>,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Response<Body> {
        if let Some(page) = page::at(uri.path()) {
            return page;
        }
        told(uri.path(), self.answer(method, uri, headers).await)
    }

    async fn answer(
        self: &Arc<Self>,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Refused> {
        if method != Method::GET {
            return Err(Refused::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET is answered, and POST at /api/v1/whatif",
            ));
        }
        match (uri.path(), &self.profiler) {
            (capture::PATH, _) => {
                self.auth.may(&self.auth.user(headers).await?, Right::Get(capture::PATH)).await?;
                Ok(response(StatusCode::OK, "application/x-ndjson", capture::body(&self.engine).await?))
            }
            (profile::PATH, Some(profiler)) => {
                self.auth.may(&self.auth.user(headers).await?, Right::Get(profile::PATH)).await?;
                let profile = profiler.profile(uri.query()).await?;
                Ok(response(StatusCode::OK, "application/octet-stream", whole(profile)))
            }
            (profile::PATH, None) => Err(Refused::new(
                StatusCode::NOT_FOUND,
                "no profiles are made: start the scheduler with --profiling",
            )),
            (path, _) if path.starts_with(past::PREFIX) => {
                Ok(response(StatusCode::OK, JSON, whole(self.past(path, headers).await?)))
            }
            _ => Ok(response(StatusCode::OK, JSON, whole(self.data(uri, headers).await?))),
        }
    }

    async fn data(self: &Arc<Self>, uri: &Uri, headers: &HeaderMap) -> Result<Vec<u8>, Refused> {
        let asked = Asked::at(uri)
            .ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, format!("no such path: {}", uri.path())))?;
        let user = self.auth.user(headers).await?;
        self.auth.may(&user, Right::List(asked.namespace().map(str::to_owned))).await?;
        let sees_all = asked.namespace().is_none() || self.auth.may(&user, Right::List(None)).await.is_ok();
        let evictions = Arc::clone(&self.evictions);
        let turn = self.turns.get(user.name()).await?;
        self.made(turn, move |snapshot| asked.answer(snapshot, &evictions, sees_all)).await
    }

    /// Makes an answer on another thread, when it is its turn.
    async fn made(
        &self,
        turn: Turn,
        make: impl FnOnce(&Snapshot) -> Result<Vec<u8>, Refused> + Send + 'static,
    ) -> Result<Vec<u8>, Refused> {
        let snapshot = self.snapshots.get(TURN).await?;
        let made = tokio::task::spawn_blocking(move || {
            // The turn ends with the answer, also where who asked has hung up.
            let _turn = turn;
            make(&snapshot)
        });
        let made = made.await;
        made.unwrap_or_else(|error| {
            warn!(%error, "an answer of the API failed");
            Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made"))
        })
    }
}

/// A kind, a namespace and a name.
fn question([kind, namespace, name]: [&str; 3]) -> Option<Question> {
    let question =
        || Question { subject: Subject::named(kind), namespace: namespace.to_owned(), name: name.to_owned() };
    (!namespace.is_empty() && !name.is_empty()).then(question)
}

/// An answer, or why there is none.
fn told(path: &str, answer: Result<Response<Body>, Refused>) -> Response<Body> {
    let Refused { status, why } = match answer {
        Ok(answer) => return answer,
        Err(refused) => refused,
    };
    debug!(%status, why, path, "refused");
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": why,
        "reason": status.canonical_reason().unwrap_or_default().replace(' ', ""),
        "code": status.as_u16(),
    });
    response(status, JSON, whole(body.to_string()))
}

impl Asked {
    fn at(uri: &Uri) -> Option<Self> {
        let path = uri.path().strip_prefix("/api/v1/")?;
        let parts: Vec<&str> = path.split('/').collect();
        match parts[..] {
            ["explain", kind, namespace, name] => question([kind, namespace, name]).map(Self::Explain),
            ["top"] => Some(Self::Top(match uri.query() {
                None | Some("") => None,
                Some(query) => Some(query.strip_prefix("namespace=")?.to_owned()),
            })),
            ["view"] => Some(Self::View),
            _ => None,
        }
    }

    /// The namespace that the answer is about; `None` for all.
    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Explain(question) => Some(&question.namespace),
            Self::Top(namespace) => namespace.as_deref(),
            Self::View => None,
        }
    }

    fn answer(&self, snapshot: &Snapshot, evictions: &Evictions, sees_all: bool) -> Result<Vec<u8>, Refused> {
        match self {
            Self::Explain(question) => {
                let clock = Watch(Instant::now());
                let patience = Patience { limit: Some((&clock as &dyn Stopwatch, REMEDIES)) };
                let answer = question.answer(snapshot, &evictions.all(), &patience);
                let Question { subject, namespace, name } = question;
                let what = match subject {
                    Subject::Owner(_) => "owns no PodGroup and no pod that the scheduler knows",
                    Subject::PodGroup | Subject::Pod => "is not known to the scheduler",
                };
                let unknown = || {
                    let other = question.other_kind(&snapshot.cluster);
                    let other = other.map(|other| format!("; there is {other} {namespace}/{name}"));
                    format!("{subject} {namespace}/{name} {what}{}", other.unwrap_or_default())
                };
                let mut answer = answer.ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, unknown()))?;
                if !sees_all {
                    answer.for_namespace(namespace);
                }
                body(&answer)
            }
            Self::Top(namespace) => body(&Top::of(snapshot, namespace.as_deref())),
            Self::View => Ok(page::view(snapshot, &evictions.history())),
        }
    }
}

/// An answer as JSON.
fn body(answer: &impl Serialize) -> Result<Vec<u8>, Refused> {
    serde_json::to_vec(answer)
        .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, format!("no JSON: {error}")))
}

fn response(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_questions() {
        let asked = |path: &str| Asked::at(&path.parse().unwrap());
        let question = |subject| Question { subject, namespace: "a".into(), name: "b".into() };
        assert_eq!(
            asked("/api/v1/explain/job/a/b"),
            Some(Asked::Explain(question(Subject::Owner("Job".to_owned()))))
        );
        assert_eq!(asked("/api/v1/explain/pod/a/b"), Some(Asked::Explain(question(Subject::Pod))));
        assert_eq!(asked("/api/v1/top"), Some(Asked::Top(None)));
        assert_eq!(asked("/api/v1/top?namespace=a"), Some(Asked::Top(Some("a".to_owned()))));
        for unknown in
            ["/api", "/api/v1/explain/pod/a/b/c", "/api/v1/explain/pod/a", "/api/v1/top?ns=a", "/metrics"]
        {
            assert_eq!(asked(unknown), None, "{unknown}");
        }
    }
}
