//! Line plots as SVG.
use std::fmt::Write;

use phalanx_view::escape;

/// The size of a plot, in its own unit.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
/// What is left of the lines, for the figures of the axis, and below them.
const LEFT: f64 = 62.0;
const BELOW: f64 = 24.0;
const ABOVE: f64 = 8.0;

/// How many colours the page has for lines.
pub(super) const COLOURS: usize = 6;

/// A line of a plot.
pub(super) struct Line {
    /// The colour, from 0.
    pub(super) colour: usize,
    pub(super) dashed: bool,
    /// What it shows.
    pub(super) name: String,
    /// In order of the first figures, which are seconds.
    pub(super) points: Vec<(f64, f64)>,
}

/// A plot with its legend. `figure` gives the texts of the axis.
pub(super) fn plot(
    title: &str,
    lines: &[Line],
    figure: &dyn Fn(f64) -> String,
    time: &dyn Fn(f64) -> String,
) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let last = points().map(|(at, _)| *at).fold(1.0, f64::max);
    let top = round_up(points().map(|(_, value)| *value).fold(0.0, f64::max));
    let x = |at: f64| LEFT + at / last * (WIDTH - LEFT - 8.0);
    let y = |value: f64| ABOVE + (1.0 - value / top) * (HEIGHT - ABOVE - BELOW);
    let mut svg = String::new();
    for part in 0..=4 {
        let part = f64::from(part) / 4.0;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>\
             <text x=\"{4:.1}\" y=\"{5}\" text-anchor=\"{6}\">{7}</text>",
            y(top * part),
            LEFT - 6.0,
            y(top * part) + 4.0,
            figure(top * part),
            x(last * part),
            HEIGHT - 6.0,
            if part > 0.9 { "end" } else { "middle" },
            time(last * part),
        );
    }
    for line in lines {
        let dashed = if line.dashed { " dashed" } else { "" };
        let _ = write!(
            svg,
            "<path class=\"line c{}{dashed}\" d=\"{}\"><title>{}</title></path>",
            line.colour % COLOURS,
            steps(&line.points, x, y),
            escape(&line.name)
        );
    }
    format!(
        "<figure><figcaption>{0}</figcaption>{1}\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">{svg}</svg></figure>\n",
        escape(title),
        legend(lines)
    )
}

/// A value stands until the next one. Points that change nothing are left out.
fn steps(points: &[(f64, f64)], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut before: Option<f64> = None;
    for (place, (at, value)) in points.iter().enumerate() {
        let height = y(*value);
        match before {
            None => drop(write!(path, "M{:.1} {height:.1}", x(*at))),
            Some(before) if (before - height).abs() < 0.05 && place + 1 < points.len() => continue,
            Some(_) => drop(write!(path, "H{:.1}V{height:.1}", x(*at))),
        }
        before = Some(height);
    }
    path
}

fn legend(lines: &[Line]) -> String {
    let mut html = String::from("<p class=\"legend\">");
    for line in lines {
        let dashed = if line.dashed { " dashed" } else { "" };
        let _ = write!(
            html,
            "<span><svg viewBox=\"0 0 24 8\"><path class=\"line c{}{dashed}\" d=\"M0 4H24\"/></svg>{}</span> ",
            line.colour % COLOURS,
            escape(&line.name)
        );
    }
    html + "</p>"
}

/// The next of 1, 2, 2.5 and 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let found = [1.0, 2.0, 2.5, 5.0].into_iter().find(|step| value <= step * power * (1.0 + 1e-9));
    found.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_ends_at_a_round_figure() {
        for (value, expected) in
            [(0.0, 1.0), (0.93, 1.0), (1.0, 1.0), (6_212.0, 10_000.0), (24.0, 25.0), (3.0, 5.0)]
        {
            assert_eq!(round_up(value), expected, "{value}");
        }
    }

    #[test]
    fn a_value_stands_until_the_next_one() {
        let points = [(0.0, 1.0), (1.0, 1.0), (2.0, 3.0), (3.0, 3.0)];
        assert_eq!(steps(&points, |x| x, |y| y), "M0.0 1.0H2.0V3.0H3.0V3.0");
    }
}
