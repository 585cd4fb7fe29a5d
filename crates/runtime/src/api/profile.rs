//! A profile of processor time, as `go tool pprof` reads it.
use std::time::Duration;

use http::StatusCode;
use pprof::ProfilerGuardBuilder;
use pprof::protos::Message as _;
use tokio::sync::Semaphore;
use tracing::warn;

use super::Refused;

/// Its path, as in Go's servers; nonResourceURLs of a ClusterRole allow it.
pub(super) const PATH: &str = "/debug/pprof/profile";

/// Samples of each thread in a second: as in Go.
const FREQUENCY: i32 = 100;
/// How long is measured unless `seconds` says so: as in Go.
const SECONDS: u64 = 30;
/// The longest: a connection lives a little longer.
const SECONDS_MAX: u64 = 240;
/// Where a sample could meet a lock that unwinding takes too; time in them is not shown.
const UNSAFE_TO_UNWIND: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Makes one profile at a time: there is one timer in a process.
#[derive(Debug)]
pub(super) struct Profiler(Semaphore);

impl Profiler {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(1))
    }

    /// Measures for as long as a query says, such as `seconds=10`.
    pub(super) async fn profile(&self, query: Option<&str>) -> Result<Vec<u8>, Refused> {
        let seconds = seconds(query)?;
        let busy = || Refused::new(StatusCode::CONFLICT, "another profile is being made: try again later");
        let _place = self.0.try_acquire().map_err(|_| busy())?;
        let made = tokio::task::spawn_blocking(move || measure(Duration::from_secs(seconds))).await;
        made.map_err(|error| error.to_string()).flatten().map_err(|why| {
            warn!("no profile: {why}");
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, format!("no profile: {why}"))
        })
    }
}

fn seconds(query: Option<&str>) -> Result<u64, Refused> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(SECONDS) };
    let seconds = query.strip_prefix("seconds=").and_then(|seconds| seconds.parse().ok());
    let why = || format!("?{query}: expected seconds=N, with N from 1 to {SECONDS_MAX}");
    let some = seconds.filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
    some.ok_or_else(|| Refused::new(StatusCode::BAD_REQUEST, why()))
}

fn measure(time: Duration) -> Result<Vec<u8>, String> {
    let builder = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&UNSAFE_TO_UNWIND);
    let guard = builder.build().map_err(|error| error.to_string())?;
    std::thread::sleep(time);
    let profile = guard.report().build().and_then(|report| report.pprof());
    profile.map_err(|error| error.to_string())?.write_to_bytes().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use pprof::protos::Profile;

    use super::*;

    /// Works until it is told not to.
    #[inline(never)]
    fn spin_until(end: &AtomicBool) {
        let mut sum = 0_u64;
        while !end.load(Ordering::Relaxed) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
    }

    #[tokio::test]
    async fn a_profile_names_the_functions_that_take_time() {
        let end = Arc::<AtomicBool>::default();
        let worker = std::thread::spawn({
            let end = Arc::clone(&end);
            move || spin_until(&end)
        });
        let profiler = Profiler::new();
        let (one, other) =
            tokio::join!(profiler.profile(Some("seconds=1")), profiler.profile(Some("seconds=1")));
        end.store(true, Ordering::Relaxed);
        worker.join().unwrap();
        assert_eq!(other.unwrap_err().status, StatusCode::CONFLICT, "one at a time");
        let one = one.unwrap();
        let profile = Profile::parse_from_bytes(&one).unwrap();
        let text = |at: i64| profile.string_table[at as usize].as_str();
        let kinds: Vec<_> = profile.sample_type.iter().map(|kind| (text(kind.ty), text(kind.unit))).collect();
        assert!(kinds.contains(&("cpu", "nanoseconds")), "{kinds:?}");
        let names: Vec<&str> = profile.function.iter().map(|function| text(function.name)).collect();
        assert!(names.iter().any(|name| name.contains("spin_until")), "{names:?}");
    }

    #[test]
    fn the_time_of_a_profile_is_read_as_go_does() {
        assert_eq!(seconds(None), Ok(30));
        assert_eq!(seconds(Some("seconds=7")), Ok(7));
        for wrong in ["seconds=0", "seconds=241", "seconds=x", "minutes=1"] {
            let error = seconds(Some(wrong)).unwrap_err();
            assert_eq!(error.why, format!("?{wrong}: expected seconds=N, with N from 1 to 240"));
        }
    }
}
