//! The program as its operator and its clients see it: started, asked, loaded, killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

mod buffers;
mod cli;
mod containers;
mod crowd;
mod failing_disk;
mod foreign_clients;
mod killed;
mod leftovers;
mod little;
mod loads;
mod measured;
mod million;
mod nfs3_client;
mod read_race;
mod rig;
mod service;
