//! Feeds arbitrary bytes to `entry/nfs4_args.rs`.
#![no_main]

#[path = "../entry/nfs4_args.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
