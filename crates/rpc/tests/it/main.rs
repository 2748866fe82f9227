//! The dispatcher over a small program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

mod deferred;
mod dispatch;
mod sealed;
mod toy;
