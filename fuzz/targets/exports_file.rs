//! Feeds arbitrary bytes to `entry/exports_file.rs`.
#![no_main]

#[path = "../entry/exports_file.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
