//! Feeds arbitrary bytes to `entry/sealed.rs`.
#![no_main]

#[path = "../entry/sealed.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
