//! Simulated links, other servers as subjects, faulty servers, loads of version 4, and the report.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

mod bad_servers;
mod link;
mod peers;
mod report;
mod version4;
