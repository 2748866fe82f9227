//! Feeds arbitrary bytes to `entry/nfs3_args.rs`.
#![no_main]

#[path = "../entry/nfs3_args.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
