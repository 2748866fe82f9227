//! The dispatcher over a small program, and the fuzz targets' seeds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

#[allow(clippy::duplicate_mod, reason = "a fuzz target brings the toy program with it")]
mod corpus;
mod deferred;
mod dispatch;
mod sealed;
mod toy;
