//! Clients that nobody here wrote, besides the kernel's: rpcinfo, showmount, libnfs, a boot loader
//! over UDP; each call that there is; and tshark's dissector over all of this traffic. Needs root.

use std::path::Path;
use std::process::Command;
use testing::{Missing, is_root, skip};

#[test]
fn foreign_clients_and_a_dissector() {
    if !is_root() {
        skip(Missing::Root, "a network namespace");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/foreign.sh");
    let output = Command::new(script).arg(env!("CARGO_BIN_EXE_bowline")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "foreign clients: {} failed", output.status);
    assert!(text.lines().filter(|line| line.starts_with("ok ")).count() >= 19);
}
