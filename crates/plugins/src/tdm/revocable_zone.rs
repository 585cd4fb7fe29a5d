//! When the nodes of a zone are lent.

pub(super) const MINUTE_MS: i64 = 60_000;
pub(super) const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// Milliseconds of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ZoneHours {
    pub(super) from: i64,
    pub(super) to: i64,
}

/// Milliseconds ahead of UTC of `+08:00`.
pub(super) fn utc_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    Some(sign * time_of_day(rest)?)
}

/// Milliseconds of the day of `21:30`.
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
        Some(Self { from: time_of_day(from)?, to: time_of_day(to)? })
    }

    /// Its ends belong to it; over midnight it is the rest of the day and the beginning of the next.
    pub(super) fn lasts(self, time: i64) -> bool {
        if self.from < self.to {
            (self.from..=self.to).contains(&time)
        } else {
            time >= self.from || time <= self.to
        }
    }
}
