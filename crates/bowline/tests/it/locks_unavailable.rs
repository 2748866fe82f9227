//! Where locks cannot be had clients are told so at once, and the operator why and what to do; and where they can be had
//! although the server may do little: as an ordinary user, in a sandbox, without capabilities.

use crate::rig::{BOWLINE, NOBODY, Server, is_root, text, wrap};
use client::{Client, Identity, NlmLock};
use proto::nlm::Status;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testing::{Missing, skip};

/// A limit for a server that does not answer; a refusal comes at once.
const TIMEOUT: Duration = Duration::from_secs(60);

fn client_of(server: &Server, uid: u32) -> Client {
    let mut client = Client::udp_reserved(([127, 0, 0, 1], server.port).into(), TIMEOUT).unwrap();
    let identity = Identity { machine: "m".into(), uid, gid: uid, groups: Vec::new() };
    client.set_identity(Some(identity));
    client
}

/// Asks for a lock of all of a file of the export, as a client of this name.
fn lock(client: &mut Client, server: &Server, caller_name: &[u8], name: &str) -> Status {
    let root = client.mount(server.served().to_str().unwrap().as_bytes()).unwrap();
    let handle = client.lookup(&root, name.as_bytes()).unwrap().handle;
    let (oh, handle) = (caller_name, handle.bytes());
    let lock = NlmLock { caller_name, handle, oh, svid: 7, offset: 0, len: 0 };
    client.nlm_lock(4, lock, true, false).unwrap()
}

/// Runs a command in the server's mount namespace.
fn inside(server: &Server, command: &[&str]) {
    let pid = server.child.id().to_string();
    let done = Command::new("nsenter").args(["-t", &pid, "-m"]).args(command).output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", text(&done.stderr));
}

#[test]
fn while_the_state_directory_cannot_be_written_new_clients_get_no_locks_available() {
    if !is_root() {
        return skip(Missing::Root, "a mount namespace");
    }
    // $0 is the program; the state directory gets a file system of its own, which only this server sees
    let own = "for word; do [ \"$last\" = --state-dir ] && state=$word; last=$word; done; \
         mkdir \"$state\" && mount -t tmpfs -o mode=700,size=2m none \"$state\" && exec \"$0\" \"$@\"";
    let server = Server::start_with(&[], |command| {
        wrap(command, &["unshare", "--mount", "sh", "-c", own]);
    });
    let mut client = client_of(&server, 0);
    assert_eq!(lock(&mut client, &server, b"before", "hello.txt"), Status::Granted);
    let state = server.base.path().join("state");
    let rest = state.join("rest");
    let full = format!("! dd if=/dev/zero of={} bs=4k 2>/dev/null", rest.display());
    inside(&server, &["sh", "-c", &full]);
    assert_eq!(lock(&mut client, &server, b"other", "hello.txt"), Status::Denied, "as ever");
    // what is left of the file's last page holds a few records more
    let long = |number: u8| [b"host".repeat(200), vec![b'0' + number]].concat();
    let is_full = |number: u8| {
        let name = format!("f{number}");
        std::fs::write(server.served().join(&name), "").unwrap();
        lock(&mut client, &server, &long(number), &name) == Status::DeniedNoLocks
    };
    assert!((0..9).any(is_full), "the file grows");
    std::fs::write(server.served().join("new"), "").unwrap();
    for _ in 0..3 {
        assert_eq!(lock(&mut client, &server, &long(9), "new"), Status::DeniedNoLocks);
    }
    assert_eq!(lock(&mut client, &server, b"before", "new"), Status::Granted, "it is recorded");
    let warnings = server.json("status")["warnings"].to_string();
    assert!(warnings.contains("No locks available") && warnings.contains("recovery"), "{warnings}");
    std::fs::write(server.served().join("newer"), "").unwrap();
    assert_eq!(lock(&mut client, &server, &long(9), "newer"), Status::DeniedNoLocks);
    inside(&server, &["rm", rest.to_str().unwrap()]);
    let begun = Instant::now();
    while lock(&mut client, &server, &long(9), "newer") != Status::Granted {
        assert!(begun.elapsed() < TIMEOUT, "it is written again");
        std::thread::sleep(Duration::from_millis(100));
    }
    let warnings = server.json("status")["warnings"].to_string();
    assert!(!warnings.contains("No locks available"), "{warnings}");
}

/// A lock manager of somebody else, registered with rpcbind: it answers NULL, and that it has no other procedure.
const OTHER_LOCK_MANAGER: &str = "
import socket, struct, subprocess
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 4045))
while True:
    call, peer = s.recvfrom(9000)
    xid, procedure = call[:4], call[20:24]
    s.sendto(xid + struct.pack('>IIIII', 1, 0, 0, 0, 0 if procedure == b'\\0\\0\\0\\0' else 3), peer)
";

/// $1 the program, $2 a directory, $3 the other lock manager.
const TAKEN_SCRIPT: &str = r#"
    set -e
    ip link set lo up
    mount -t tmpfs none /run
    mkdir /run/rpcbind
    rpcbind -f & rpcbind=$!
    for i in $(seq 200); do rpcinfo -p 127.0.0.1 >/dev/null 2>&1 && break; sleep 0.05; done
    python3 -c "$3" & other=$!
    for i in $(seq 200); do ss -uln | grep -q :4045 && break; sleep 0.05; done
    # program, version, UDP, port
    printf 'import socket, struct\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(("127.0.0.1", 901))\nfor v in (1, 3, 4):\n s.sendto(struct.pack(">14I", v, 0, 2, 100000, 2, 1, 0, 0, 0, 0, 100021, v, 17, 4045), ("127.0.0.1", 111))\n assert s.recv(99)[-1:] == b"\\1"\n' | python3 -
    "$1" serve m=mem: --portmap register --state-dir "$2/s" --control "$2/c" >"$2/out" 2>"$2/log" & server=$!
    trap 'kill $server $rpcbind $other 2>/dev/null || true; wait' EXIT
    for i in $(seq 400); do grep -q ^control: "$2/out" && break; sleep 0.05; done
    owner() { rpcinfo -p 127.0.0.1 | grep -c "100021 .*udp.* $1 " || true; }
    [ "$(owner 4045)" = 3 ] && [ "$(owner 2049)" = 0 ]
    echo "at the start:"; cat "$2/out" "$2/log"
    echo "status:"; "$1" status --control "$2/c"
    # only over UDP: over TCP nobody had it
    [ "$(rpcinfo -p 127.0.0.1 | grep -c "100021 .*tcp.* 2049 ")" = 3 ]
    kill $other; wait $other 2>/dev/null || true
    "$1" reload --control "$2/c"
    [ "$(owner 2049)" = 3 ]
    echo "afterwards:"; "$1" status --control "$2/c"
"#;

#[test]
fn another_lock_manager_of_the_machine_is_left_alone_and_named() {
    if !is_root() || !Path::new("/usr/sbin/rpcbind").exists() {
        return skip(Missing::Program, "root and rpcbind");
    }
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["-n", "-m", "sh", "-c", TAKEN_SCRIPT, "sh", BOWLINE])
        .arg(dir.path())
        .arg(OTHER_LOCK_MANAGER)
        .output()
        .unwrap();
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    let (start, rest) = told.split_once("status:\n").unwrap();
    let (status, afterwards) = rest.split_once("afterwards:\n").unwrap();
    for said in [start, status] {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("100021") && said.contains(":4045"), "whose it is: {said}");
        assert!(said.contains("No locks available") && said.contains("nolock"), "{said}");
    }
    assert!(!afterwards.contains("No locks available"), "{afterwards}");
}

/// Every mode that a file can have: who may read or write it, or owns it, may lock it.
#[test]
fn an_ordinary_user_without_capabilities_locks_every_file_in_a_sandbox() {
    if !is_root() {
        return skip(Missing::Root, "another user");
    }
    // no capabilities, none to be got, and a view of the machine of which only the directory can be written
    let sandbox = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"];
    let server = Server::launch(Some(NOBODY), &[], |command| wrap(command, &sandbox));
    let files = [("r", 0o444), ("w", 0o222), ("none", 0o000), ("x", 0o555), ("rw", 0o666)];
    for (owner, of) in [(NOBODY, "own"), (0, "other")] {
        for (name, mode) in files {
            let path = server.served().join(format!("{of}-{name}"));
            std::fs::write(&path, "").unwrap();
            std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    let program = server.served().join("running");
    std::fs::copy("/bin/sleep", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut running = Command::new(&program).arg("600").spawn().unwrap();
    let mut one = client_of(&server, NOBODY);
    let mut names: Vec<String> = files.iter().map(|(name, _)| format!("own-{name}")).collect();
    names.extend(["other-r", "other-w", "other-x", "other-rw", "running"].map(str::to_owned));
    for name in &names {
        assert_eq!(lock(&mut one, &server, b"one", name), Status::Granted, "{name}");
        assert_eq!(lock(&mut one, &server, b"two", name), Status::Denied, "{name}");
    }
    assert_eq!(server.json("locks").as_array().unwrap().len(), names.len());
    // neither read nor written by him, and not his: the answer comes at once
    assert_ne!(lock(&mut one, &server, b"one", "other-none"), Status::Granted);
    running.kill().unwrap();
    running.wait().unwrap();
}
