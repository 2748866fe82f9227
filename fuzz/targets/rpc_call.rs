//! Feeds arbitrary bytes to `entry/rpc_call.rs`.
#![no_main]

#[path = "../entry/rpc_call.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
