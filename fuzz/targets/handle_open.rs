//! Feeds arbitrary bytes to `entry/handle_open.rs`.
#![no_main]

#[path = "../entry/handle_open.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
