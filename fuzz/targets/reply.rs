//! Feeds arbitrary bytes to `entry/reply.rs`.
#![no_main]

#[path = "../entry/reply.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
