//! What if: a change is tried on two simulations of what the scheduler knows.
use std::error::Error;
use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use phalanx_sim::WhatIf;

use super::auth::Right;
use super::{Api, JSON, Refused, body, response, told};
use crate::server::{self, whole};

/// Where it is asked, by a POST.
pub(crate) const PATH: &str = "/api/v1/whatif";
/// The largest question, in bytes.
const QUESTION_MAX: usize = 1 << 20;

/// A body with a question.
pub trait Question: Body<Error: Into<Box<dyn Error + Send + Sync>>> {}

impl<B: Body<Error: Into<Box<dyn Error + Send + Sync>>>> Question for B {}

impl Api {
    /// The answer to a question, which shows PodGroups of all namespaces.
    pub async fn what_if<B: Question>(
        self: &Arc<Self>,
        headers: &HeaderMap,
        question: B,
    ) -> Response<server::Body> {
        let answer = self.compared(headers, question).await;
        told(PATH, answer.map(|answer| response(StatusCode::OK, JSON, whole(answer))))
    }

    async fn compared<B: Question>(
        self: &Arc<Self>,
        headers: &HeaderMap,
        question: B,
    ) -> Result<Vec<u8>, Refused> {
        let bad = |why: String| Refused::new(StatusCode::BAD_REQUEST, why);
        let user = self.auth.user(headers).await?;
        self.auth.may(&user, Right::List(None)).await?;
        let question = Limited::new(question, QUESTION_MAX).collect().await;
        let question = question.map_err(|_| {
            let why = format!("the question is cut short, or larger than {QUESTION_MAX} bytes");
            Refused::new(StatusCode::PAYLOAD_TOO_LARGE, why)
        })?;
        let asked: WhatIf = serde_json::from_slice(&question.to_bytes())
            .map_err(|error| bad(format!("the question cannot be read: {error}")))?;
        let names = self.names.clone();
        let turn = self.turns.get(user.name()).await?;
        self.made(turn, move |snapshot| body(&asked.answer(snapshot, &names).map_err(bad)?)).await
    }
}
