//! Feeds arbitrary bytes to `entry/lock_sequence.rs`.
#![no_main]

#[path = "../entry/lock_sequence.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
