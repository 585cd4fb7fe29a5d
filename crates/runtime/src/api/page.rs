//! The web page, and the view of the cluster that it shows.
use http::{HeaderValue, Response, header};
use phalanx_core::report::Snapshot;
use phalanx_view::{History, Seen, View, live_page, security_policy};

use crate::server::{Body, whole};

/// The static page at a path; it holds no data, so nobody is asked for a token.
pub(super) fn at(path: &str) -> Option<Response<Body>> {
    if path != "/" {
        return None;
    }
    let mut page = Response::new(whole(live_page()));
    let headers = page.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(policy) = HeaderValue::from_str(&security_policy()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Some(page)
}

/// The view of the whole cluster, as JSON.
pub(super) fn view(snapshot: &Snapshot, history: &History) -> Vec<u8> {
    let jobs = snapshot.open().jobs();
    let Snapshot { cluster, conf, now, .. } = snapshot;
    View::of(Seen { cluster, conf, groups: &jobs, history, now: *now }).to_json().into_bytes()
}
