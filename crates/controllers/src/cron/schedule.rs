//! Schedules: cron's five fields, nicknames, `@every DURATION`.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// When Jobs start.
pub(super) enum Schedule {
    Cron(Box<Cron>),
    Every(SignedDuration),
}

impl Schedule {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("spec.schedule: {text:?}: {why}");
        if let Some(every) = text.strip_prefix("@every ") {
            let duration = phalanx_api::duration(every).map_err(|error| wrong(&error))?;
            let duration = SignedDuration::try_from(std::time::Duration::from(duration)).ok();
            let duration = duration.filter(|one| *one >= SignedDuration::from_secs(60));
            return duration.map(Self::Every).ok_or_else(|| wrong(&"expected a minute or more"));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        parser.parse(text).map(|cron| Self::Cron(Box::new(cron))).map_err(|error| wrong(&error))
    }

    /// The last time after `begin`, up to now.
    pub(super) fn last(&self, begin: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let found = match self {
            Self::Cron(cron) => {
                let now: Zoned = now.to_zoned(zone.clone());
                cron.find_previous_occurrence(&now, true).ok()?.timestamp()
            }
            Self::Every(every) => {
                let times = now.duration_since(begin).as_secs().div_euclid(every.as_secs());
                begin.checked_add(SignedDuration::from_secs(every.as_secs().checked_mul(times)?)).ok()?
            }
        };
        (found > begin).then_some(found)
    }

    /// The first time after now.
    pub(super) fn next(&self, begin: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => {
                let now: Zoned = now.to_zoned(zone.clone());
                cron.find_next_occurrence(&now, false).ok().map(|next| next.timestamp())
            }
            Self::Every(every) => self.last(begin, now, zone).unwrap_or(begin).checked_add(*every).ok(),
        }
    }
}
