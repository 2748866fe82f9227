//! The log of handshakes: one line for each that succeeds, and a limited number per minute for those that fail, since
//! anybody can cause failures.

use crate::conn::connection::Conn;
use crate::sync::lock;
use std::net::SocketAddr;
use std::sync::Mutex;

/// Failures that are logged per minute.
const FAILURES_PER_MINUTE: u32 = 30;
const MINUTE_MS: u64 = 60_000;

/// Writes the log. The lock guards two numbers.
#[derive(Debug, Default)]
pub(super) struct HandshakeLog(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    since_ms: u64,
    failures: u32,
}

impl HandshakeLog {
    /// Logs a completed handshake (required by RFC 9289 §6.1).
    pub fn done(conn: &Conn) {
        let Some(seal) = conn.stream.seal() else { return };
        let held = seal.certificate.as_ref().and_then(|held| held.certificate());
        let certificate = held.as_ref().map_or("none", |certificate| certificate.name());
        let serial = held.as_ref().map_or("", |certificate| &certificate.serial);
        let records = if seal.kernel().is_some() { "kernel" } else { "process" };
        tracing::info!(client = %conn.peer.addr, suite = seal.suite, records, certificate, serial, "connection with TLS 1.3");
    }

    /// Logs a failed handshake.
    pub fn failed(&self, client: SocketAddr, why: &str, now_ms: u64) {
        let mut minute = lock(&self.0);
        if now_ms.saturating_sub(minute.since_ms) >= MINUTE_MS {
            *minute = Minute { since_ms: now_ms, failures: 0 };
        }
        minute.failures = minute.failures.saturating_add(1);
        let failures = minute.failures;
        drop(minute);
        if failures < FAILURES_PER_MINUTE {
            tracing::warn!(%client, "TLS refused: {why}");
        } else if failures == FAILURES_PER_MINUTE {
            tracing::warn!(%client, "TLS refused: {why}; further failures within this minute are only counted");
        }
    }
}
