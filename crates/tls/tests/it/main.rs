//! Both sides of TLS, connected in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure is the test's"
)]

mod corpus;
mod sessions;
