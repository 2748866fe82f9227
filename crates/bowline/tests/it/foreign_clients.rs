//! Clients that nobody here wrote, besides the kernel's: rpcinfo, showmount, libnfs, a boot loader
//! over UDP; each call that there is; and tshark's dissector over all of this traffic. Skipped, loudly,
//! without root.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

#[test]
fn foreign_clients_and_a_dissector() {
    if std::fs::metadata("/proc/self").map(|m| m.uid()).ok() != Some(0) {
        eprintln!("skipped: a private network namespace needs root");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/foreign.sh");
    let output = Command::new(script).arg(env!("CARGO_BIN_EXE_bowline")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "foreign clients: {} failed", output.status);
    assert!(text.lines().filter(|line| line.starts_with("ok ")).count() >= 16);
}
