//! Registering with the rpcbind of the distribution, in a private network and with a private /run.
//! Skipped with a message without root or without rpcbind.

use bowline_client::Client;
use bowline_client::rpcbind::{RegisterError, Rpcbind, register};
use proto::portmap::{Netid, Registration};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testing::{Missing, is_root, skip};

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts rpcbind in new namespaces and runs this file's `inside` there.
const SCRIPT: &str = r#"
    ip link set lo up
    mount -t tmpfs none /run
    mkdir /run/rpcbind
    rpcbind -f & rpcbind=$!
    for i in $(seq 100); do [ -S /run/rpcbind.sock ] && break; sleep 0.05; done
    status=0
    "$1" --exact real_rpcbind::inside --ignored --nocapture || status=$?
    kill $rpcbind
    exit $status
"#;

#[test]
fn a_real_rpcbind_registers_and_unregisters() {
    if !is_root() || !Path::new("/usr/sbin/rpcbind").exists() {
        skip(Missing::Program, "root and rpcbind");
        return;
    }
    let output = Command::new("unshare")
        .args(["-n", "-m", "sh", "-c", SCRIPT, "sh"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("test real_rpcbind::inside ... ok"), "{text}\n{errors}");
}

/// The lines of `rpcinfo -p` that are about NFS.
fn listed() -> Vec<String> {
    let output = Command::new("rpcinfo").args(["-p", "127.0.0.1"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let words = |line: &str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    text.lines().filter(|line| line.contains("10000") && line.contains("nfs")).map(words).collect()
}

fn services(port: u16) -> Vec<Registration> {
    let mut services = Vec::new();
    for version in [2, 3] {
        for tcp in [true, false] {
            for ip in ["0.0.0.0", "::"] {
                let addr = std::net::SocketAddr::new(ip.parse().unwrap(), port);
                services.push(Registration::new(100_003, version, tcp, addr));
            }
        }
    }
    services
}

#[test]
#[ignore = "runs inside a_real_rpcbind_registers_and_unregisters"]
fn inside() {
    version_4_over_the_unix_socket();
    a_second_server_finds_the_first_registered();
    registrations_can_be_changed();
    version_2_over_the_network();
}

fn version_4_over_the_unix_socket() {
    let registered = register(&services(2049), Rpcbind::default()).unwrap();
    assert_eq!(registered.services().len(), 8);
    let wanted =
        ["100003 2 tcp 2049", "100003 2 udp 2049", "100003 3 tcp 2049", "100003 3 udp 2049"];
    let mut lines = listed();
    lines.sort();
    assert_eq!(lines, wanted);

    let mut client = Client::tcp(Rpcbind::default().addr, PATIENCE).unwrap();
    assert_eq!(client.getport(100_003, 3, 6).unwrap(), Some(2049));
    let list = client.registrations().unwrap();
    for netid in Netid::ALL {
        let held = list.iter().find(|r| r.program == 100_003 && r.netid == netid.text()).unwrap();
        let address = if netid.is_v6() { "::.8.1" } else { "0.0.0.0.8.1" };
        assert_eq!((held.address.as_str(), held.owner.as_str()), (address, "superuser"));
    }
    let found = client.getversaddr(100_003, 3, Netid::Tcp).unwrap();
    assert_eq!(found, Some("127.0.0.1:2049".parse().unwrap()));

    registered.unregister().unwrap();
    assert_eq!(listed(), Vec::<String>::new());
    let list = client.registrations().unwrap();
    assert!(list.iter().all(|r| r.program != 100_003), "{list:?}");
}

fn a_second_server_finds_the_first_registered() {
    // No server answers at 2049: the first server is dead, and its registration is replaced.
    let dead = register(&services(2049), Rpcbind::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let second = register(&services(port), Rpcbind::default()).unwrap();
    assert_eq!(dead.services().len(), second.services().len());
    let mut client = Client::tcp(Rpcbind::default().addr, PATIENCE).unwrap();
    assert_eq!(client.getport(100_003, 3, 6).unwrap(), Some(port));
    // Now a server answers: rpcbind itself, whose port the first registration has.
    second.unregister().unwrap();
    let holder = Registration::new(100_003, 3, true, "0.0.0.0:111".parse().unwrap());
    let holder = register(&[holder], Rpcbind::default()).unwrap();
    let error = register(&services(2049), Rpcbind::default()).unwrap_err();
    assert!(matches!(error, RegisterError::Taken { version: 3, .. }), "{error:?}");
    // The registrations before the refusal are undone.
    assert_eq!(listed(), ["100003 3 tcp 111"]);
    holder.unregister().unwrap();
}

fn registrations_can_be_changed() {
    let all = services(2049);
    let tcp: Vec<Registration> = all.iter().filter(|s| s.netid.is_tcp()).copied().collect();
    let mut registered = register(&tcp, Rpcbind::default()).unwrap();
    let sorted = || {
        let mut lines = listed();
        lines.sort();
        lines
    };
    for _ in 0..2 {
        assert_eq!(sorted(), ["100003 2 tcp 2049", "100003 3 tcp 2049"]);
        registered.change(&all).unwrap();
        assert_eq!((sorted().len(), registered.services().len()), (4, 8));
        registered.change(&tcp).unwrap();
    }
    registered.change(&[]).unwrap();
    assert_eq!(listed(), Vec::<String>::new());
    registered.unregister().unwrap();
}

fn version_2_over_the_network() {
    let without_socket = Rpcbind { socket: "/nonexistent".into(), ..Rpcbind::default() };
    let registered = register(&services(2049), without_socket).unwrap();
    assert_eq!(registered.services().len(), 4);
    assert_eq!(listed().len(), 4);
    registered.unregister().unwrap();
    assert_eq!(listed(), Vec::<String>::new());
}
