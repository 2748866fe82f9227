//! Feeds arbitrary bytes to `entry/nsm_args.rs`.
#![no_main]

#[path = "../entry/nsm_args.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
