//! Feeds arbitrary bytes to `entry/nfsacl_args.rs`.
#![no_main]

#[path = "../entry/nfsacl_args.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
