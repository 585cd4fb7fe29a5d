//! Charts: the key `chart` of a benchmark's JSON as an SVG of bars.
//!
//! Drawn by hand: bars need no library, and the same figures give the same file.
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

#[derive(Args)]
pub(crate) struct Options {
    /// What a benchmark printed last, or a list of such objects.
    json: PathBuf,
    /// Where the chart goes; the same name with .svg unless it is given.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What a benchmark wants drawn.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) panels: Vec<Panel>,
}

/// Bars on one scale.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// Whether the bar is that of Phalanx.
    #[serde(default)]
    pub(crate) ours: bool,
}

impl Bar {
    pub(crate) fn ours(label: impl Into<String>, value: f64) -> Self {
        Self { label: label.into(), value, ours: true }
    }

    pub(crate) fn other(label: impl Into<String>, value: f64) -> Self {
        Self { label: label.into(), value, ours: false }
    }
}

impl Panel {
    pub(crate) fn new(title: impl Into<String>, unit: &str, bars: Vec<Bar>) -> Self {
        Self { title: title.into(), unit: unit.to_owned(), bars }
    }
}

#[derive(Deserialize)]
struct Charted {
    chart: Chart,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Saved {
    One(Charted),
    Many(Vec<Charted>),
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let path = options.json.display();
    let text = std::fs::read_to_string(&options.json).with_context(|| format!("cannot read {path}"))?;
    let saved =
        serde_json::from_str(&text).with_context(|| format!("{path} holds no benchmark with a chart"))?;
    let chart = match saved {
        Saved::One(one) => one.chart,
        Saved::Many(many) => joined(many).with_context(|| format!("{path} is empty"))?,
    };
    ensure!(chart.panels.iter().any(|panel| !panel.bars.is_empty()), "{path} has nothing to draw");
    let out = options.out.clone().unwrap_or_else(|| options.json.with_extension("svg"));
    std::fs::write(&out, svg(&chart)).with_context(|| format!("cannot write {}", out.display()))?;
    say!("{}", out.display());
    Ok(())
}

/// Runs of different sizes under the first one's title.
fn joined(many: Vec<Charted>) -> Option<Chart> {
    let title = many.first()?.chart.title.clone();
    Some(Chart { title, panels: many.into_iter().flat_map(|one| one.chart.panels).collect() })
}

const WIDTH: f64 = 860.0;
const LABELS: f64 = 270.0;
const BARS: f64 = 470.0;
const ROW: f64 = 24.0;

/// The picture. Colours have enough contrast on white and on GitHub's dark page alike.
fn svg(chart: &Chart) -> String {
    let mut body = String::new();
    let mut y = 34.0;
    text(&mut body, 16.0, y, "title", &chart.title);
    for panel in &chart.panels {
        y += 34.0;
        text(&mut body, 16.0, y, "panel", &format!("{} ({})", panel.title, panel.unit));
        y += 10.0;
        let most = panel.bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        for bar in &panel.bars {
            draw(&mut body, y, bar, most);
            y += ROW;
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n\
         <style>text{{font:13px sans-serif;fill:#222}}.title{{font-size:17px;font-weight:bold}}.panel{{font-weight:bold}}\
         .label{{text-anchor:end}}.ours{{fill:#d9480f}}.other{{fill:#868e96}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n",
        height = y + 18.0,
    )
}

fn draw(body: &mut String, y: f64, bar: &Bar, most: f64) {
    let width = (bar.value / most * BARS).max(1.0);
    let class = if bar.ours { "ours" } else { "other" };
    text(body, LABELS - 10.0, y + 16.0, "label", &bar.label);
    // Writing to a string does not fail.
    let _ = writeln!(
        body,
        "<rect class=\"{class}\" x=\"{LABELS}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
        y + 3.0,
        ROW - 6.0
    );
    text(body, LABELS + width + 6.0, y + 16.0, "value", &figure(bar.value));
}

fn text(body: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
}

/// Three digits that count.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_drawn_to_scale_and_text_is_escaped() {
        let bars = vec![Bar::ours("a < b & c", 10.0), Bar::ours("we", 5.0)];
        let chart = Chart { title: "t".to_owned(), panels: vec![Panel::new("p", "s", bars)] };
        let drawn = svg(&chart);
        assert!(drawn.contains("a &lt; b &amp; c"), "{drawn}");
        assert!(drawn.contains("width=\"470.0\"") && drawn.contains("width=\"235.0\""), "{drawn}");
        assert_eq!(drawn, svg(&chart), "the same figures give the same file");
    }
}
