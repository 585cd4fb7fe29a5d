//! Durations as Go writes them, in annotations and arguments.

/// What one unit is in nanoseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// The longest duration that Go has, in whole hours: 292 years.
pub const LONGEST: &str = "2562047h";

/// Milliseconds, rounded towards 0, of what Go's `time.ParseDuration` accepts: `1h30m`, `1.5s`, `-2m`, `0`.
pub fn parse_duration(text: &str) -> Option<i64> {
    nanos(text).filter(|nanos| is_counted(*nanos)).map(|nanos| (nanos / 1e6) as i64)
}

/// Whether it is written as a duration and is beyond [`LONGEST`].
pub fn is_too_long(text: &str) -> bool {
    nanos(text).is_some_and(|nanos| !is_counted(nanos))
}

fn is_counted(nanos: f64) -> bool {
    nanos.abs() < i64::MAX as f64
}

fn nanos(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    let mut nanos = 0.0;
    loop {
        let (part, after) = duration_part(rest)?;
        nanos += part;
        rest = after;
        if rest.is_empty() {
            return Some(sign * nanos);
        }
    }
}

/// The nanoseconds of the first number and its unit, and what follows.
fn duration_part(text: &str) -> Option<(f64, &str)> {
    let unit = text.trim_start_matches(|char: char| char.is_ascii_digit() || char == '.');
    let number: f64 = text[..text.len() - unit.len()].parse().ok()?;
    let (factor, rest) = UNITS.iter().find_map(|(name, factor)| Some((*factor, unit.strip_prefix(name)?)))?;
    Some((number * factor, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("0", Some(0)),
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1h2m3s4ms5us6ns", Some(3_723_004)),
            ("1.5s", Some(1_500)),
            (".5h", Some(1_800_000)),
            ("-2m", Some(-120_000)),
            ("+100ms", Some(100)),
            ("999us", Some(0)),
            ("3\u{b5}s", Some(0)),
            ("", None),
            ("5", None),
            ("m", None),
            ("1d", None),
            (".s", None),
            ("1.2.3s", None),
            ("5m ", None),
            ("1h30", None),
            ("-", None),
            ("2562047h", Some(9_223_369_200_000)),
            ("2562048h", None),
            ("-99999999999999h", None),
        ] {
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
        assert!(is_too_long("2562048h") && !is_too_long("2562047h") && !is_too_long("soon"));
    }
}
