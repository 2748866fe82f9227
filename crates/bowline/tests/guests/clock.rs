//! The clock of the server's machine jumps by days, forwards and backwards, under clients of versions 3 and 4.1 that
//! have files open and locked: only a machine of its own has a clock that can be set. Needs root and TUN.

use crate::quota::alone;
use std::path::Path;
use testing::{Missing, is_root, skip};

#[test]
fn clock_jumps_by_days_have_no_effect() {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return skip(Missing::Tun, "root and /dev/net/tun for a clock of its own");
    }
    alone("jumping clock", "clock.sh", &[], 14);
}
