//! What the API server's answer means.
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::Deserialize;

/// The meaning of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is so now.
    Done,
    /// The object is gone, or is another one now: nothing to try again.
    Gone(String),
    /// A passing error; the duration is the wait that the server asks for.
    Passing {
        /// What it said.
        message: String,
        /// What is wrong.
        trouble: Trouble,
        /// `Retry-After`.
        after: Option<Duration>,
    },
    /// The object changed meanwhile; the newest content may be tried.
    Conflict(String),
    /// The server will not do it.
    Refused(String),
}

/// A passing fault, and whether the request may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The server is busy or out of reach: it has not carried out the request.
    NotTaken,
    /// The server is in trouble, or does not answer: it may have carried out the request.
    Unknown,
    /// The error concerns this object alone, for example a webhook that does not answer: the request was not carried
    /// out.
    Object,
}

impl Reply {
    /// Whether the request may have been carried out.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Reply::Passing { trouble: Trouble::Unknown, .. })
    }

    /// Whether the server is in trouble, or out of reach.
    pub(super) fn is_trouble(&self) -> bool {
        matches!(self, Reply::Passing { trouble: Trouble::NotTaken | Trouble::Unknown, .. })
    }

    /// To a request that came before another one: that one was not sent.
    pub(super) fn before_another(self) -> Self {
        match self {
            Reply::Passing { message, after, trouble: Trouble::Unknown } => {
                Reply::Passing { message, after, trouble: Trouble::NotTaken }
            }
            other => other,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct Failure {
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(default)]
    retry_after_seconds: Option<u32>,
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Debug, Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
}

impl Details {
    /// The eviction API says 429 also for a PodDisruptionBudget: the server is not busy, it will not do it.
    fn protected(&self) -> bool {
        self.causes.iter().any(|cause| cause.reason == "DisruptionBudget")
    }
}

/// An answer whose status says that something went wrong. 404, 409 and 422 are up to the caller, who knows the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// 404.
    NotFound(String),
    /// 409.
    Conflict(String),
    /// Passing, or refused.
    Other(Reply),
}

/// Reads an answer: `Ok` for 2xx.
pub fn read(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<(), Problem> {
    if status.is_success() {
        return Ok(());
    }
    let failure: Failure = serde_json::from_slice(body).unwrap_or_else(|_| Failure {
        message: String::from_utf8_lossy(body).trim().chars().take(300).collect(),
        details: None,
    });
    let message = match failure.message.as_str() {
        "" => format!("the API server answered {status}"),
        message => message.to_owned(),
    };
    let protected = failure.details.as_ref().is_some_and(Details::protected);
    Err(match status {
        _ if protected || denied(&message) || too_large(&message) => Problem::Other(Reply::Refused(message)),
        _ if webhook_fails(&message) => passing(message, Trouble::Object, headers, failure.details),
        StatusCode::NOT_FOUND => Problem::NotFound(message),
        StatusCode::CONFLICT => Problem::Conflict(message),
        // A token that is being rotated, or an API server that has not loaded its authorizer yet.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::UNAUTHORIZED => {
            passing(message, Trouble::NotTaken, headers, failure.details)
        }
        _ if status == StatusCode::REQUEST_TIMEOUT || status.is_server_error() => {
            passing(message, Trouble::Unknown, headers, failure.details)
        }
        _ => Problem::Other(Reply::Refused(message)),
    })
}

/// A webhook chooses the status with which it denies, 429 and 503 among others: that says nothing about the server.
fn denied(message: &str) -> bool {
    message.starts_with("admission webhook ") && message.contains(" denied the request")
}

/// Answered with status 500: the object would become larger than etcd takes.
fn too_large(message: &str) -> bool {
    message.contains("request is too large") || message.contains("message larger than max")
}

/// Answered with status 500 although the server works.
fn webhook_fails(message: &str) -> bool {
    message.contains("failed calling webhook ")
}

fn passing(message: String, trouble: Trouble, headers: &HeaderMap, details: Option<Details>) -> Problem {
    let header = headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let seconds: Option<u32> = header.or_else(|| details?.retry_after_seconds);
    // A server that says "in an hour" is asked again before that: it may have been restarted.
    let after = seconds.map(|seconds| Duration::from_secs(u64::from(seconds.min(10))));
    Problem::Other(Reply::Passing { message, trouble, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(status: u16, retry_after: Option<&str>, body: &str) -> Result<(), Problem> {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(http::header::RETRY_AFTER, value.parse().unwrap());
        }
        read(StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn each_answer_of_the_api_server_has_one_meaning() {
        let passing = |message: &str, trouble, seconds: Option<u64>| {
            let (message, after) = (message.to_owned(), seconds.map(Duration::from_secs));
            Err(Problem::Other(Reply::Passing { message, trouble, after }))
        };
        let (busy, unknown) = (Trouble::NotTaken, Trouble::Unknown);
        let status = r#"{"kind":"Status","message":"slow down","details":{"retryAfterSeconds":2}}"#;
        assert_eq!(meaning(201, None, "{}"), Ok(()));
        assert_eq!(meaning(429, None, status), passing("slow down", busy, Some(2)));
        assert_eq!(
            meaning(429, Some("1"), "Too many requests\n"),
            passing("Too many requests", busy, Some(1))
        );
        assert_eq!(meaning(503, Some("3600"), status), passing("slow down", unknown, Some(10)));
        assert_eq!(
            meaning(500, None, ""),
            passing("the API server answered 500 Internal Server Error", unknown, None)
        );
        let budget = r#"{"message":"budget","details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget"}]}}"#;
        assert_eq!(meaning(429, None, budget), Err(Problem::Other(Reply::Refused("budget".into()))));
        assert_eq!(
            meaning(403, None, r#"{"message":"no"}"#),
            Err(Problem::Other(Reply::Refused("no".into())))
        );
        let large = "etcdserver: request is too large";
        let told = meaning(500, None, &serde_json::json!({"message": large}).to_string());
        assert_eq!(told, Err(Problem::Other(Reply::Refused(large.into()))));
        assert_eq!(meaning(404, None, r#"{"message":"no pod"}"#), Err(Problem::NotFound("no pod".into())));
        assert_eq!(meaning(409, None, r#"{"message":"taken"}"#), Err(Problem::Conflict("taken".into())));
    }

    #[test]
    fn what_a_webhook_says_is_about_its_object() {
        let fails = "Internal error occurred: failed calling webhook \"pods.example.com\": failed to call webhook: \
            Post \\\"https://x.y.svc:443/pods?timeout=10s\\\": context deadline exceeded";
        let told = meaning(500, None, &serde_json::json!({"message": fails}).to_string());
        let Err(Problem::Other(Reply::Passing { trouble, .. })) = told else { panic!("{told:?}") };
        assert_eq!(trouble, Trouble::Object);
        let denies = "admission webhook \"pods.example.com\" denied the request: not today";
        for status in [403, 404, 409, 429, 500, 503] {
            let told = meaning(status, Some("1"), &serde_json::json!({"message": denies}).to_string());
            assert_eq!(told, Err(Problem::Other(Reply::Refused(denies.into()))), "{status}");
        }
    }
}
