//! The control socket and its JSON.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a failure here is the test's"
)]

mod json_keys;
mod socket;
