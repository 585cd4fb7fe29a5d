//! The hours of a revocable zone.

pub(super) const MINUTE_MS: i64 = 60_000;
pub(super) const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// The first and the last millisecond of the hours, since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ZoneHours {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

/// Parses an offset from UTC, such as `+08:00`, to milliseconds.
pub(super) fn utc_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    Some(sign * time_of_day(rest)?)
}

/// Parses a time of day, such as `21:30`, to milliseconds since midnight.
fn time_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str, below: i64| -> Option<i64> {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number < below)
    };
    let minutes = Some(minutes).filter(|minutes| minutes.len() == 2)?;
    Some((number(hours, 24)? * 60 + number(minutes, 60)?) * MINUTE_MS)
}

impl ZoneHours {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.trim().split_once('-')?;
        Some(Self { from_ms: time_of_day(from)?, to_ms: time_of_day(to)? })
    }

    /// Whether a time of day is within the hours, which may pass midnight.
    pub(super) fn contains(self, time_ms: i64) -> bool {
        if self.from_ms < self.to_ms {
            (self.from_ms..=self.to_ms).contains(&time_ms)
        } else {
            time_ms >= self.from_ms || time_ms <= self.to_ms
        }
    }
}
