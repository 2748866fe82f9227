//! The program as its operator and its clients see it: started, asked, loaded, killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

mod async_copy;
mod audit;
mod bench_cleanup;
mod bench_sec;
mod bench_subject;
mod callback_address;
mod callbacks;
mod cli;
mod completions;
mod containers;
mod crash_restart;
mod delegated_attrs;
mod delegations;
mod directory_delegations;
mod do_script;
mod explain;
mod exportfs;
mod failing_disk;
mod foreign_clients;
mod free_for_all;
mod greedy_client;
mod half_handshakes;
mod hard_conditions;
mod hung_export;
mod idle_connections;
mod large_directory;
mod load_generator;
mod lock_recovery;
mod locks;
mod locks_unavailable;
mod many_clients;
mod many_lock_hosts;
mod many_opens;
mod metrics;
mod minor0_delegations;
mod nameless_files;
mod nfs3_client;
mod operator_tables;
mod page_tls;
mod problems_in_top;
mod read_race;
mod reload;
mod resource_limits;
mod rig;
mod sandbox;
mod service;
mod signals;
mod silent_connections;
mod state_kills;
mod status_monitor;
mod systemd;
mod tcp_buffers;
mod tls;
mod unlinked;
mod write_delegations;
