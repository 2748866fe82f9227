//! Tests of other crates that need what a kernel seldom has (netem, the kernel's own NFS server, ext4 with quotas, TLS): their
//! programs run in a guest, whose kernel has it. `./do test` says where the programs are. Needs root and TUN.

use crate::GuestSlot;
use std::path::Path;
use testing::{Missing, is_root, skip};

/// The crate, the name of its test program, and the test, which is ignored elsewhere.
const TESTS: [(&str, &str, &str); 5] = [
    ("vfs-local", "it", "quota::quota_usage_counts_written_data"),
    ("bench", "it", "peers::knfsd_serves_a_directory_and_stops"),
    ("bench", "it", "link::netem_gives_rate_and_round_trip"),
    ("sys", "bowline_sys", "kernel_tls::tests::the_kernel_encrypts_and_decrypts"),
    ("svc", "it", "kernel_tls::connections_are_encrypted_by_the_kernel"),
];

#[test]
fn tests_of_kernel_features_pass() {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return skip(Missing::Tun, "root and /dev/net/tun for a kernel with netem, nfsd, quotas");
    }
    let Some(list) = std::env::var_os("BOWLINE_TEST_PROGRAMS") else {
        return skip(Missing::Purpose, "./do test, which knows the other crates' test programs");
    };
    let list = std::fs::read_to_string(list).unwrap();
    let program = |package: &str, name: &str| {
        let mut rows = list.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let row =
            rows.find(|row| row[0].ends_with(&format!("/crates/{package}")) && row[1] == name);
        let row = row.unwrap_or_else(|| panic!("no program {name} of {package} in the list"));
        [row[0].to_owned(), row[2].to_owned()]
    };
    let rig = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernel");
    let slot = GuestSlot::wait();
    let mut guest = slot.kernel_client();
    guest.args(["-t", "240", "exec sleep 600"]).arg(rig.join("kernel_features.sh"));
    for (package, name, test) in TESTS {
        guest.args(program(package, name)).arg(test);
    }
    let output = guest.output().unwrap();
    drop(slot);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", output.status);
    let passed = text.lines().filter(|line| line.starts_with("test result: ok. 1 passed"));
    assert_eq!(passed.count(), TESTS.len());
}
