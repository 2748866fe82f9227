//! Both sides of TLS, connected in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure is the test's")]

mod sessions;
