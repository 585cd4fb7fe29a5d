//! What the journal of a running scheduler tells of one object, for who may list PodGroups in its namespace.
use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use super::auth::Right;
use super::{Api, Refused, body, capture, question};
use crate::journal::{NoPast, Past, Reader, Wanted};

/// Behind it stand a kind, a namespace and a name.
pub(super) const PREFIX: &str = "/api/v1/past/";

impl Api {
    /// The answer at such a path.
    pub(super) async fn past(self: &Arc<Self>, path: &str, headers: &HeaderMap) -> Result<Vec<u8>, Refused> {
        let parts: Vec<&str> = path.trim_start_matches(PREFIX).split('/').collect();
        let asked = <[&str; 3]>::try_from(parts).ok().and_then(question);
        let asked =
            asked.ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, format!("no such path: {path}")))?;
        let user = self.auth.user(headers).await?;
        self.auth.may(&user, Right::List(Some(asked.namespace.clone()))).await?;
        let turn = self.reading.get(user.name()).await?;
        let journal = capture::recording(&self.engine, Wanted::Decisions).await?;
        let past = tokio::task::spawn_blocking(move || {
            // The turn ends with the answer, also where who asked has hung up.
            let _turn = turn;
            Past::of(Reader::of_recording(journal), &asked)
        });
        body(&past.await.map_err(|_| capture::busy())?.map_err(|why| refused(&why))?)
    }
}

fn refused(why: &NoPast) -> Refused {
    let status = match why {
        NoPast::Kind(_) => StatusCode::BAD_REQUEST,
        NoPast::Nothing { .. } => StatusCode::NOT_FOUND,
        NoPast::Unreadable(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refused::new(status, why.to_string())
}
