//! Feeds what libFuzzer makes up to the target that `BOWLINE_FUZZ_TARGET` names. All targets are in one program, so
//! that everything is compiled and linked once.
#![no_main]

mod entry;
#[cfg(feature = "tls")]
#[path = "entry/tls_stream.rs"]
mod tls_stream;

use std::sync::OnceLock;

const TARGET: &str = "BOWLINE_FUZZ_TARGET";

macro_rules! find {
    ($($target:ident)*) => {
        /// The target of that name.
        fn find(name: &str) -> Option<fn(&[u8])> {
            match name {
                $(stringify!($target) => Some(entry::$target::run),)*
                #[cfg(feature = "tls")]
                "tls_stream" => Some(tls_stream::run),
                _ => None,
            }
        }
    };
}
entry::each_target!(find);

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static RUN: OnceLock<fn(&[u8])> = OnceLock::new();
    let run = RUN.get_or_init(|| {
        let name = std::env::var(TARGET).unwrap_or_default();
        find(&name).unwrap_or_else(|| panic!("{TARGET}={name:?} names no target"))
    });
    run(data);
});
