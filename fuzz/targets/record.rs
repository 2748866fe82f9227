//! Feeds arbitrary bytes to `entry/record.rs`.
#![no_main]

#[path = "../entry/record.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
