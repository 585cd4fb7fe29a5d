//! What a figure needs beside it: the machine's size and the process's memory.
use std::fs;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// The result of a closure and the seconds that it took. For benchmarks in memory, exactly the instructions of this
/// function are counted (`.ci/instructions`).
#[inline(never)]
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let it = work();
    (started.elapsed().as_secs_f64(), it)
}

/// The result of a closure and the seconds of processor time that this thread took for it: on a busy machine too, these
/// are what it would take on an idle one.
pub(crate) fn used<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = processor(ClockId::ThreadCPUTime);
    let it = work();
    (processor(ClockId::ThreadCPUTime) - started, it)
}

/// The one or the other: valgrind does not let a process read the processor's clock.
pub(crate) fn timed<T>(processor_time: bool, work: impl FnOnce() -> T) -> (f64, T) {
    if processor_time { used(work) } else { measured(work) }
}

/// Seconds of processor time of all threads so far.
#[cfg(any(feature = "journal", feature = "explain"))]
pub(crate) fn used_by_all() -> f64 {
    processor(ClockId::ProcessCPUTime)
}

fn processor(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Processors this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The largest resident set of a process so far, in bytes; 0 where the system does not tell.
pub(crate) fn peak_rss(pid: Option<u32>) -> u64 {
    let path = pid.map_or_else(|| "/proc/self/status".to_owned(), |pid| format!("/proc/{pid}/status"));
    memory(&path, "VmHWM:")
}

/// A field of `/proc/PID/status` that counts memory, in bytes.
pub(crate) fn memory(path: &str, field: &str) -> u64 {
    let status = fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|text| text.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
