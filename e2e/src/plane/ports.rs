//! Free ports on loopback.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result};

/// Below the ports that Linux hands to outgoing connections: one of those could take the place of a
/// server that is restarted, even a client of that server, connected to itself.
const FIRST: u32 = 15_000;
const COUNT: u32 = 17_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port that was free a moment ago. Each call returns another port.
pub(super) fn free() -> Result<u16> {
    // Every process begins elsewhere, so that test processes side by side seldom meet.
    let begin = std::process::id().wrapping_mul(977);
    (0..COUNT)
        .map(|_| begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)))
        .filter_map(|draw| u16::try_from(FIRST + draw % COUNT).ok())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .context("no free port on loopback")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_and_free() {
        // Another test may take a port in between, but not one of each draw.
        let bind = || -> Vec<_> {
            let ports: Vec<_> = (0..20).map(|_| free().unwrap()).collect();
            ports.iter().map(|port| TcpListener::bind(("127.0.0.1", *port))).collect()
        };
        assert!((0..3).any(|_| bind().iter().all(Result::is_ok)), "{:?}", bind());
    }
}
