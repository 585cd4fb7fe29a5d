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
    include_str!("page/topology.js"),
    include_str!("page/explain.js"),
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

/// A page of finished sections in the look of the others, without a script. `style` is added to the common one.
pub fn plain_page(title: &str, style: &str, sections: &[Section]) -> String {
    let style = format!("{STYLE}{PLAIN_STYLE}{style}");
    let links = sections.iter().map(|of| format!("<a href=\"#{}\">{}</a>\n", of.id, escape(&of.title)));
    let bodies = sections.iter().map(|Section { id, title, body }| {
        let title = escape(title);
        format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\" tabindex=\"-1\">\n<h2 id=\"{id}-title\">{title}</h2>\n\
             {body}</section>\n"
        )
    });
    let first = sections.first().map_or("main", |section| section.id);
    let policy =
        format!("default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{}'", hash(&style));
    let (title, links, bodies) = (escape(title), links.collect::<String>(), bodies.collect::<String>());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>{style}</style>\n</head>\n\
         <body>\n<a class=\"skip\" href=\"#{first}\">Skip to the contents</a>\n<header>\n<h1>{title}</h1>\n\
         <nav id=\"nav\" aria-label=\"Sections\">\n{links}</nav>\n</header>\n<main id=\"main\">\n{bodies}</main>\n</body>\n\
         </html>\n"
    )
}

/// Heads of wide tables take several lines.
const PLAIN_STYLE: &str = "th { white-space: normal; vertical-align: bottom; }\n";

/// A part of a [`plain_page`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Its anchor.
    pub id: &'static str,
    /// Its heading.
    pub title: String,
    /// Its HTML.
    pub body: String,
}

/// A table of a [`plain_page`]; on a narrow screen each row is a list.
pub fn plain_table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head = heads.iter().map(|text| format!("<th scope=\"col\">{}</th>", escape(text)));
    let head: String = head.collect();
    let cell = |(at, text): (usize, &String)| {
        let class = if at == 0 { " class=\"name\"" } else { "" };
        format!("<td{class} data-head=\"{}\">{}</td>", escape(heads.get(at).unwrap_or(&"")), escape(text))
    };
    let row =
        |cells: Vec<String>| format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>());
    let body: String = rows.map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table class=\"flat\">\n\
         <thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )
}

/// Text in HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
