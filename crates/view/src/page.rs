//! The page: one file with style, script and, unless it is live, the data.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use crate::view::View;

/// Where a live page fetches its view, from the address of the page on.
pub const VIEW_PATH: &str = "api/v1/view";

const FRAME: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// One script: the files in this order.
const SCRIPT: &str = concat!(
    include_str!("page/texts.js"),
    include_str!("page/draw.js"),
    include_str!("page/cluster.js"),
    include_str!("page/gangs.js"),
    include_str!("page/page.js"),
);

/// The page of a view, which needs nothing else.
pub fn page(view: &View) -> String {
    fill(&in_script(&view.to_json()), &policy("'none'"))
}

/// The page of a live scheduler, which fetches [`VIEW_PATH`].
pub fn live_page() -> String {
    fill("null", &security_policy())
}

/// The Content-Security-Policy of the live page, also as a header.
pub fn security_policy() -> String {
    policy("'self'")
}

fn policy(connect: &str) -> String {
    format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; connect-src {connect}; script-src '{}'; style-src '{}'",
        hash(SCRIPT),
        hash(STYLE),
    )
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

fn fill(data: &str, policy: &str) -> String {
    // The data last: it may hold any text.
    let parts = [("{{policy}}", policy), ("{{style}}", STYLE), ("{{script}}", SCRIPT), ("{{data}}", data)];
    parts.into_iter().fold(FRAME.to_owned(), |page, (mark, text)| page.replacen(mark, text, 1))
}

/// JSON that cannot end the element that it stands in: `<` stands in texts only, where `\u003c` means the same.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}
