//! Feeds arbitrary bytes to `entry/dispatch.rs`.
#![no_main]

#[path = "../entry/dispatch.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
