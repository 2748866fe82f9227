//! The flavour over a test mechanism: its messages are checksums and XOR, but their order and layout are those of RFC 2203.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a failure here is the test's"
)]

mod client;
mod library;
mod messages;
mod refused_tokens;
mod toy;
