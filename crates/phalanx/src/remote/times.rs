//! Times in the forms that vcctl prints, in UTC.
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A moment, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) i64);

impl Millis {
    /// The time of the system's clock.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The day: `2026-01-31`. No time is the first day of year 1, as in Go.
pub(crate) fn day(time: Option<&Time>) -> String {
    let text = time.map_or_else(|| "0001-01-01".to_owned(), |time| time.0.to_string());
    text.split('T').next().unwrap_or_default().to_owned()
}

/// The moment as Go writes it: `2026-01-31 08:00:00 +0000 UTC`.
pub(crate) fn moment(time: Option<&Time>) -> String {
    let text = time.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |time| time.0.to_string());
    text.replace('T', " ").replace('Z', " +0000 UTC")
}

/// How long ago it was.
pub(crate) fn since(time: Option<&Time>, now: Millis) -> String {
    time.map_or_else(|| "<unknown>".to_owned(), |time| duration(now.0 - time.0.as_millisecond()))
}

/// A duration in milliseconds in one or two units, the fewer the longer it is. Up to two seconds before now count as
/// now, since clocks differ.
fn duration(millis: i64) -> String {
    let (seconds, minutes, hours) = (millis / SECOND, millis / MINUTE, millis / HOUR);
    let two = |large: i64, unit: &str, small: i64, part: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{part}"),
    };
    match (seconds, minutes, hours) {
        (..-1, ..) => "<invalid>".to_owned(),
        (-1, ..) => "0s".to_owned(),
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, _) => two(minutes, "m", seconds % 60, "s"),
        (_, ..180, _) => format!("{minutes}m"),
        (.., ..8) => two(hours, "h", minutes % 60, "m"),
        (.., ..48) => format!("{hours}h"),
        (.., ..192) => two(hours / 24, "d", hours % 24, "h"),
        (.., ..17_520) => format!("{}d", hours / 24),
        (.., ..70_080) => format!("{}y{}d", hours / 24 / 365, (hours / 24) % 365),
        _ => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of vcctl's own test.
    #[test]
    fn durations_read_as_vcctls() {
        const DAY: i64 = 24 * HOUR;
        for (millis, expected) in [
            (-MINUTE, "<invalid>"),
            (-1, "0s"),
            (62 * SECOND, "62s"),
            (180 * SECOND, "3m"),
            (190 * SECOND, "3m10s"),
            (121 * MINUTE + 56 * SECOND, "121m"),
            (5 * HOUR + 9 * SECOND, "5h"),
            (5 * HOUR + 7 * MINUTE + 9 * SECOND, "5h7m"),
            (12 * HOUR + 7 * MINUTE + 9 * SECOND, "12h"),
            (5 * DAY + 7 * MINUTE + 9 * SECOND, "5d"),
            (5 * DAY + 9 * HOUR, "5d9h"),
            (531 * DAY + 7 * MINUTE + 9 * SECOND, "531d"),
            ((365 * 5 + 89) * DAY + 7 * MINUTE + 9 * SECOND, "5y89d"),
            ((365 * 12 + 15) * DAY + 7 * MINUTE + 9 * SECOND, "12y"),
        ] {
            assert_eq!(duration(millis), expected, "{millis}");
        }
    }

    #[test]
    fn times_are_written_as_go_writes_them() {
        let time: Time = serde_json::from_str("\"2026-01-31T08:00:05Z\"").unwrap();
        assert_eq!(day(Some(&time)), "2026-01-31");
        assert_eq!(moment(Some(&time)), "2026-01-31 08:00:05 +0000 UTC");
        assert_eq!((&*day(None), &*moment(None)), ("0001-01-01", "0001-01-01 00:00:00 +0000 UTC"));
        assert_eq!(since(Some(&time), Millis(time.0.as_millisecond() + 5 * SECOND)), "5s");
        assert_eq!(since(None, Millis(0)), "<unknown>");
    }
}
