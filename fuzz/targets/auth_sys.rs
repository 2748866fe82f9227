//! Feeds arbitrary bytes to `entry/auth_sys.rs`.
#![no_main]

#[path = "../entry/auth_sys.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
