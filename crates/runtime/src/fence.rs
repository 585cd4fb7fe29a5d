//! The time until which this process may write: the lease opens the fence for a while with each renewal, and every
//! write checks it.
//!
//! The API server knows nothing of the lease, so it carries out whatever arrives. A process that was stopped for a
//! while wakes up with writes at hand, before the task of the lease has found out that another process leads. Three
//! things are out of reach: bytes that are in the buffers of the kernel already, a request that the API server holds
//! for seconds before it carries it out, and a virtual machine whose clocks stop with it.
use std::fmt;
use std::ops::Add;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A moment on the clock that never jumps and goes on while the machine sleeps, which that of [`std::time::Instant`]
/// does not on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    const NEVER: Self = Self(Duration::MAX);

    /// This long after the start of the machine.
    pub fn at(since: Duration) -> Self {
        Self(since)
    }

    /// This one.
    pub fn now() -> Self {
        let time = clock_gettime(CLOCK);
        Self(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// How long ago another one was; nothing when it is still to come.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

/// Opens and closes the fence. It is closed at first, and when this is dropped.
#[derive(Debug)]
pub struct Gatekeeper(watch::Sender<Option<BootTime>>);

impl Gatekeeper {
    /// With the fence.
    pub fn new() -> (Self, Fence) {
        Self::on(BootTime::now)
    }

    /// With a fence on another clock.
    pub fn on(clock: impl Fn() -> BootTime + Send + Sync + 'static) -> (Self, Fence) {
        let (keeper, end) = watch::channel(None);
        (Self(keeper), Fence { end, clock: Arc::new(clock) })
    }

    /// Writes may leave before this moment.
    pub fn open_until(&self, end: BootTime) {
        self.0.send_replace(Some(end));
    }

    /// Writes may leave until further notice.
    pub fn open(&self) {
        self.open_until(BootTime::NEVER);
    }

    /// No write leaves any more.
    pub fn close(&self) {
        self.0.send_replace(None);
    }
}

impl Drop for Gatekeeper {
    fn drop(&mut self) {
        self.close();
    }
}

/// Looked at before each write.
#[derive(Clone)]
pub struct Fence {
    end: watch::Receiver<Option<BootTime>>,
    clock: Arc<dyn Fn() -> BootTime + Send + Sync>,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Fence {
    /// One that is always open.
    pub fn none() -> Self {
        Self { end: watch::channel(Some(BootTime::NEVER)).1, clock: Arc::new(BootTime::now) }
    }

    /// Whether a write may leave now.
    pub fn is_open(&self) -> bool {
        self.end.borrow().is_some_and(|end| (self.clock)() < end)
    }

    /// Waits until it is opened or closed.
    pub async fn changed(&mut self) {
        if self.end.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A write that was not sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this process does not lead, or may not for long: nothing is written")]
pub struct Fenced;
