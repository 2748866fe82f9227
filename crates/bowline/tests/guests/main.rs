//! Tests that boot user-mode Linux guests: the kernel's NFS client, and power cuts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

#[path = "../it/rig/dice.rs"]
mod dice;

mod kernel_client;
mod power_cut;
