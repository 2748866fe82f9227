//! The client against scripted servers and against the distribution's rpcbind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

mod real_rpcbind;
mod responder_driven;
