//! Feeds arbitrary bytes to `entry/rquota_args.rs`.
#![no_main]

#[path = "../entry/rquota_args.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
