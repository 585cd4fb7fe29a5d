//! Jobs drawn from distributions, by a seed.
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use phalanx_cache::{Invalid, Names};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal, Uniform};
use rand_pcg::Pcg64Mcg;

use super::arrival::Arrival;
use super::job::Maker;

/// A distribution of seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Always this.
    Fixed(f64),
    /// Anything from the first to the second.
    Uniform(f64, f64),
    /// Exponential with this mean: arrivals that do not know of each other.
    Exp(f64),
    /// Log-normal with this median and this sigma: many short ones and a long tail.
    LogNormal(f64, f64),
}

/// What is wrong with the text of a distribution or of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOne(&'static str);

impl fmt::Display for NotOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NotOne {}

const SPREAD: NotOne = NotOne(
    "expected fixed:SECONDS, uniform:FROM,TO, exp:MEAN or lognormal:MEDIAN,SIGMA, with numbers of at least 0",
);

impl FromStr for Spread {
    type Err = NotOne;

    fn from_str(text: &str) -> Result<Self, NotOne> {
        let (kind, figures) = text.split_once(':').ok_or(SPREAD)?;
        let figure = |text: &str| text.parse::<f64>().ok().filter(|figure| (0.0..=1e9).contains(figure));
        let figures: Vec<f64> = figures.split(',').map(figure).collect::<Option<_>>().ok_or(SPREAD)?;
        match (kind, figures.as_slice()) {
            ("fixed", [always]) => Ok(Self::Fixed(*always)),
            ("uniform", [from, to]) if from <= to => Ok(Self::Uniform(*from, *to)),
            ("exp", [mean]) if *mean > 0.0 => Ok(Self::Exp(*mean)),
            ("lognormal", [median, sigma]) if *median > 0.0 && *sigma <= 10.0 => {
                Ok(Self::LogNormal(*median, *sigma))
            }
            _ => Err(SPREAD),
        }
    }
}

impl Spread {
    /// Seconds, to the millisecond.
    fn draw(self, random: &mut impl Rng) -> f64 {
        let drawn = match self {
            Self::Fixed(always) => Some(always),
            Self::Uniform(from, to) => Uniform::new_inclusive(from, to).ok().map(|it| it.sample(random)),
            Self::Exp(mean) => Exp::new(1.0 / mean).ok().map(|it| it.sample(random)),
            Self::LogNormal(median, sigma) => {
                LogNormal::new(median.ln(), sigma).ok().map(|it| it.sample(random))
            }
        };
        (drawn.unwrap_or_default().min(1e9) * 1_000.0).round() / 1_000.0
    }
}

/// Values, each with the weight of its draw: `a=3,b=1`, or one alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted<T>(Vec<(T, f64)>);

impl<T: FromStr> FromStr for Weighted<T> {
    type Err = NotOne;

    fn from_str(text: &str) -> Result<Self, NotOne> {
        let entry = |part: &str| {
            let (value, weight) = part.split_once('=').unwrap_or((part, "1"));
            let weight = weight.parse::<f64>().ok().filter(|weight| (0.0..=1e9).contains(weight))?;
            Some((value.parse().ok()?, weight))
        };
        let entries: Option<Vec<(T, f64)>> = text.split(',').map(entry).collect();
        let entries = entries.filter(|entries| entries.iter().any(|(_, weight)| *weight > 0.0));
        entries.map(Self).ok_or(NotOne("expected VALUE=WEIGHT,VALUE=WEIGHT,..., or one value"))
    }
}

impl<T: Clone> Weighted<T> {
    /// One value alone.
    pub fn always(value: T) -> Self {
        Self(vec![(value, 1.0)])
    }

    /// The values.
    fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(value, _)| value)
    }

    fn draw(&self, random: &mut impl Rng) -> Option<T> {
        let total: f64 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut left = random.random_range(0.0..1.0) * total;
        let drawn = self.0.iter().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        drawn.or(self.0.last()).map(|(value, _)| value.clone())
    }
}

/// What jobs are drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    /// The seed: the same one gives the same jobs.
    pub seed: u64,
    /// How many jobs.
    pub jobs: u32,
    /// The time from one arrival to the next.
    pub interarrival: Spread,
    /// How long the pods of a job run.
    pub duration: Spread,
    /// Pods of a job, all of which have to run at once.
    pub size: Weighted<u32>,
    /// Queues.
    pub queue: Weighted<String>,
    /// Priorities; without them jobs have none.
    pub priority: Option<Weighted<i32>>,
    /// What each pod requests.
    pub requests: BTreeMap<String, String>,
}

impl Generator {
    /// The first value that no job of a trace may have, by the rules for reading one.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut maker = Maker::new(&Names::default());
        let sizes = self.size.values().map(|size| Arrival { size: *size, ..self.example() });
        let queues =
            self.queue.values().map(|queue| Arrival { queue: Some(queue.clone()), ..self.example() });
        sizes.chain(queues).try_for_each(|arrival| maker.job(&arrival).map(drop))
    }

    /// A job with what all jobs have.
    fn example(&self) -> Arrival {
        let requests = self.requests.clone();
        Arrival { name: "job".to_owned(), size: 1, requests, ..Arrival::default() }
    }

    /// The jobs.
    pub fn arrivals(&self) -> impl Iterator<Item = Arrival> {
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut now_ms = 0.0;
        let digits = self.jobs.saturating_sub(1).to_string().len();
        (0..self.jobs).map(move |number| {
            if number > 0 {
                now_ms += (self.interarrival.draw(&mut random) * 1_000.0).round();
            }
            Arrival {
                arrival: now_ms / 1_000.0,
                duration: Some(self.duration.draw(&mut random)),
                name: format!("job-{number:0digits$}"),
                queue: self.queue.draw(&mut random),
                priority: self.priority.as_ref().and_then(|priority| priority.draw(&mut random)),
                size: self.size.draw(&mut random).unwrap_or(1),
                requests: self.requests.clone(),
                ..Arrival::default()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(seed: u64) -> Generator {
        Generator {
            seed,
            jobs: 2_000,
            interarrival: Spread::Exp(30.0),
            duration: "lognormal:600,1".parse().unwrap(),
            size: "1=3,8=1".parse().unwrap(),
            queue: Weighted::always("q".to_owned()),
            priority: None,
            requests: BTreeMap::new(),
        }
    }

    #[test]
    fn equal_seeds_draw_equal_jobs() {
        let text = |seed| generator(seed).arrivals().map(|job| job.line()).collect::<String>();
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn draws_are_as_the_distributions_say() {
        let jobs: Vec<Arrival> = generator(1).arrivals().collect();
        let mean = jobs.last().unwrap().arrival / 1_999.0;
        assert!((28.0..32.0).contains(&mean), "{mean}");
        let mut durations: Vec<f64> = jobs.iter().filter_map(|job| job.duration).collect();
        durations.sort_by(f64::total_cmp);
        assert!((540.0..660.0).contains(&durations[1_000]), "{}", durations[1_000]);
        let large = jobs.iter().filter(|job| job.size == 8).count();
        assert!((430..570).contains(&large), "{large}");
    }

    #[test]
    fn texts_of_distributions_and_weights_are_checked() {
        for text in ["exp:0", "exp", "fixed:-1", "uniform:3,2", "lognormal:1", "gauss:1,2", "fixed:nan"] {
            assert!(text.parse::<Spread>().is_err(), "{text}");
        }
        assert_eq!("uniform:1,2".parse(), Ok(Spread::Uniform(1.0, 2.0)));
        for text in ["", "1=", "1=0", "a=1", "1=-1"] {
            assert!(text.parse::<Weighted<u32>>().is_err(), "{text}");
        }
        assert_eq!("4".parse(), Ok(Weighted::always(4_u32)));
    }
}
