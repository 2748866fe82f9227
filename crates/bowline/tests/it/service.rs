//! A live server as its operator meets it: its state, settings, log lines, refusals, and an ordinary user's server.

use crate::rig::{BOWLINE, NOBODY, Server, free_port, is_root, text, told};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testing::{Missing, skip};

/// The limit on waiting for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn status_describes_a_running_server() {
    let server = Server::start(&["--set", "max-read=64K"]);
    let status = server.json("status");
    let keys: Vec<&str> = status.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec![
        "version",
        "pid",
        "uptime_s",
        "listen",
        "privileged",
        "uid",
        "sandbox",
        "kernel_tls",
        "directory_delegations",
        "state_dir",
        "portmap",
        "exports",
        "connections",
        "connections_max",
        "calls",
        "calls_per_s",
        "calls_per_s_recent",
        "errors",
        "rejected",
        "bytes_in",
        "bytes_out",
        "bytes_read",
        "bytes_written",
        "threads",
        "memory_bytes",
        "memory_bytes_max",
        "call_memory_bytes_max",
        "open_files",
        "open_files_max",
        "unlinked_files",
        "worker_threads",
        "blocked_exports",
        "state",
        "waiting_exports",
        "outbound",
        "tcp_memory",
        "counters",
        "warnings",
    ];
    expected.sort_unstable();
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(status["pid"], server.child.id());
    assert_eq!(status["exports"], 1);
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let listen = status["listen"].to_string();
    for transport in ["tcp", "udp"] {
        let at = format!("{transport} 127.0.0.1:{}", server.port);
        assert!(listen.contains(&at), "{at}: {listen}");
    }
    let exports = server.json("exports");
    assert_eq!(exports[0]["path"], server.served().to_str().unwrap());
    assert_eq!(exports[0]["uuid"].as_str().unwrap().len(), 32);
    for command in ["clients", "conns", "sockets", "pools", "ops"] {
        assert!(server.json(command).is_array(), "{command}");
        assert!(server.ask(&[command]).status.success());
    }
    assert!(server.json("sockets").as_array().unwrap().len() >= 2);
    assert_eq!(text(&server.ask(&["get", "max-read"]).stdout), "64K\n");
}

#[test]
fn prove_uses_a_client_address_that_the_export_allows() {
    if !is_root() {
        skip(Missing::Root, "exports that are secure by default");
        return;
    }
    let server = Server::start(&["--prove", "--set", "udp-sockets=off"]);
    let said = server.lines.concat();
    assert!(said.contains("proof: ") && said.contains(",secure,"), "{said}");
    let status = server.json("status");
    assert_eq!((&status["errors"], &status["rejected"]), (&0.into(), &0.into()), "{status}");
}

#[test]
fn prove_uses_the_newest_version_that_is_served() {
    for (versions, proven) in
        [("2,3,4.0,4.1,4.2", "4.2"), ("4.1", "4.1"), ("3,4.0", "3"), ("2,3", "3")]
    {
        let setting = format!("versions={versions}");
        let server = Server::start(&["--prove", "--set", &setting]);
        let said = server.lines.concat();
        let line = format!(
            " by version {proven}, 1 entry, read hello.txt (13 B), the same bytes as on disk"
        );
        assert!(said.contains(&line), "{versions}: {said}");
        // it leaves nothing behind
        assert_eq!(server.json("sessions"), serde_json::json!([]), "{versions}");
    }
    let base = tempfile::tempdir().unwrap();
    let path = |name| base.path().join(name);
    let refused = Command::new(BOWLINE)
        .args(["serve", "m=mem:", "--prove", "--set", "versions=2,4.0", "--portmap", "off"])
        .args(["--port", &free_port().to_string(), "--state-dir"])
        .arg(path("state"))
        .arg("--control")
        .arg(path("c.sock"))
        .output();
    let error = told(&refused.unwrap(), 1);
    assert!(error.contains("--prove tests versions 3, 4.1 and 4.2"), "{error}");
}

#[test]
fn calls_are_counted() {
    let server = Server::start(&["--prove"]);
    let proof = server.lines.concat();
    assert!(proof.contains("hello.txt"), "{proof}");
    let ops = server.json("ops");
    let read = ops.as_array().unwrap().iter().find(|op| op["procedure"] == "READ");
    let read = read.unwrap_or_else(|| panic!("no READ in {ops}"));
    assert!(read["calls"].as_u64().unwrap() >= 1 && read["p50_ns"].as_u64().unwrap() > 0);
    let status = server.json("status");
    assert!(status["calls"].as_u64().unwrap() >= 4, "{status}");
    assert!(status["bytes_read"].as_u64().unwrap() >= 13, "the file and the listing: {status}");
}

#[test]
fn settings_change_at_run_time() {
    let server = Server::start(&[]);
    let output = server.ask(&["set", "max-write=128K"]);
    assert!(text(&output.stdout).starts_with("max-write: 128K (was 1M)\nnote: "), "{output:?}");
    assert_eq!(text(&server.ask(&["get", "max-write"]).stdout), "128K\n");
    assert!(server.ask(&["set", "log-level=debug"]).status.success());
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let control = server.control();
    let get = ["get", "--control", control.to_str().unwrap()];
    let lost = Command::new(BOWLINE).args(get).stdout(full).stderr(Stdio::piped()).output();
    assert!(told(&lost.unwrap(), 1).contains("standard output"));
    assert!(server.ask(&["set", "threads=2..8"]).status.success());
    let error = told(&server.ask(&["get", "max-reed"]), 2);
    assert!(error.contains("max-read"), "{error}");
    let all = server.json("get");
    let page = include_str!("../../../../packaging/generated/bowline-settings.7");
    let described = page.split_once(".SH SETTINGS").unwrap().1.matches("\n.TP\n").count();
    assert_eq!(all.as_array().unwrap().len(), described);
}

#[test]
fn call_counts_of_a_client_survive_its_connections() {
    let server = Server::start_as(is_root().then_some(NOBODY), &[]);
    let at = (std::net::Ipv4Addr::LOCALHOST, server.port).into();
    let row = || server.json("clients")[0].clone();
    let mut seen = Vec::new();
    for calls in [3, 5] {
        let mut client = client::Client::tcp(at, PATIENCE).unwrap();
        for _ in 0..calls {
            client.null().unwrap();
        }
        assert_eq!(row()["connections"], 1, "{}", row());
        drop(client);
        let begun = Instant::now();
        while row()["connections"] != 0 {
            assert!(begun.elapsed() < PATIENCE, "{}", row());
        }
        assert_eq!(row()["address"], "127.0.0.1");
        seen.push((row()["calls"].clone(), row()["bytes_in"].as_u64().unwrap()));
    }
    assert_eq!((&seen[0].0, &seen[1].0), (&3.into(), &8.into()));
    assert!(seen[0].1 > 0 && seen[1].1 > seen[0].1, "{seen:?}");
}

#[test]
fn udp_is_switched_off_and_on() {
    let server = Server::start(&["--set", "udp-sockets=off"]);
    let listens = |udp: bool| {
        let status = server.json("status");
        let at = status["listen"].as_array().unwrap();
        let of = |transport: &str| at.iter().any(|at| at.as_str().unwrap().starts_with(transport));
        assert!(of("tcp ") && of("udp ") == udp, "{status}");
    };
    let answers = |tries: u32| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", server.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        // NULL of NFS version 3, without a credential (RFC 5531 §9)
        let words = [7_u32, 0, 2, 100_003, 3, 0, 0, 0, 0, 0].map(u32::to_be_bytes);
        (0..tries).any(|_| {
            let sent = socket.send(words.as_flattened());
            sent.is_ok() && socket.recv(&mut [0; 100]).is_ok()
        })
    };
    listens(false);
    assert!(!answers(1));
    assert!(server.ask(&["set", "udp-sockets=single"]).status.success());
    listens(true);
    assert!(answers(20));
    assert!(server.ask(&["set", "udp-sockets=off"]).status.success());
    listens(false);
    assert!(!answers(1));
}

#[test]
fn an_fsid_is_shown_with_the_options() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("exports");
    let line = format!("{} 10.0.0.1(ro,fsid=7) *(rw)\n", base.path().display());
    std::fs::write(&file, line).unwrap();
    let file = file.to_str().unwrap();
    let checked = text(&crate::rig::bowline(&["check", file]).stdout);
    let server = Server::start(&["--exports", file]);
    let asked = text(&server.ask(&["exports"]).stdout);
    for shown in [checked, asked, server.lines.concat(), server.json("exports").to_string()] {
        assert_eq!(shown.matches(",fsid=7").count(), 2, "of each rule: {shown}");
    }
}

#[test]
fn a_second_server_names_the_address_in_use() {
    let server = Server::start(&[]);
    let (port, base) = (server.port.to_string(), server.base.path());
    let served = server.served();
    let serve = |state: &Path, control: &Path, port: &str| {
        Command::new(BOWLINE)
            .arg("serve")
            .arg(&served)
            .args(["--portmap", "off", "--port", port, "--state-dir"])
            .arg(state)
            .arg("--control")
            .arg(control)
            .output()
            .unwrap()
    };
    let other_port = free_port().to_string();
    let error = told(&serve(&base.join("state"), &base.join("d.sock"), &other_port), 1);
    assert!(error.contains("in use") && error.contains("--state-dir"), "{error}");
    let error = told(&serve(&base.join("state2"), &base.join("d.sock"), &port), 3);
    assert!(error.contains("in use") && error.contains("--port"), "{error}");
    assert!(error.contains(&server.child.id().to_string()), "names the owner: {error}");
    let error = told(&serve(&base.join("state2"), &server.control(), &other_port), 1);
    assert!(error.contains("--control"), "{error}");
    assert!(server.ask(&["status"]).status.success(), "the first one goes on");
}

#[test]
fn an_unprivileged_server_prints_what_is_different() {
    if !is_root() {
        skip(Missing::Root, "to start a server as another user");
        return;
    }
    let mut server = Server::start_as(Some(NOBODY), &["--prove"]);
    let lines = server.lines.concat();
    assert!(lines.contains("not privileged") && lines.contains("hello.txt"), "{lines}");
    let status = server.json("status");
    assert_eq!(status["privileged"], false);
    assert_eq!(status["uid"], NOBODY);
    server.signal("-TERM");
    assert_eq!(server.ended(), Some(0));
}

#[test]
fn a_write_beyond_rlimit_fsize_fails_without_ending_the_server() {
    use proto::nfs3::{CreateHow3, Sattr3, StableHow};
    let user = is_root().then_some(NOBODY);
    let server = Server::launch(user, &[], |_| ());
    // as its own user: nobody else may change a process's limits without CAP_SYS_RESOURCE
    let mut limit = Command::new("setpriv");
    if let Some(user) = user {
        limit.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()]);
    }
    limit.args(["prlimit", "--fsize=1048576:", "--pid", &server.child.id().to_string()]);
    assert!(limit.status().unwrap().success());
    let at = (std::net::Ipv4Addr::LOCALHOST, server.port).into();
    let mut client = client::Client::tcp(at, PATIENCE).unwrap();
    let root = client.mount(server.served().to_str().unwrap().as_bytes()).unwrap();
    let made = client.create(&root, b"large", CreateHow3::Unchecked(Sattr3::default())).unwrap();
    let file = made.handle.unwrap();
    for (offset, fits) in [(0, true), (2 << 20, false), (0, true)] {
        let written = client.write(&file, offset, &[7; 512], StableHow::FileSync);
        assert_eq!(written.is_ok(), fits, "{offset}: {written:?}");
        let told = written.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(fits || told.contains("FBig"), "{told}");
    }
}

#[test]
fn a_state_directory_inside_an_export_causes_a_warning() {
    let outside = Server::start(&[]);
    assert!(!outside.lines.concat().contains("state directory"), "{:?}", outside.lines);
    // the rig keeps state where temporary directories are
    let exports = outside.base.path().join("exports");
    std::fs::write(&exports, format!("{} *(ro)\n", std::env::temp_dir().display())).unwrap();
    let inside = Server::start(&["--exports", exports.to_str().unwrap()]);
    assert!(inside.lines.concat().contains("move it with --state-dir"));
}

#[test]
fn the_reason_of_a_refused_mount_is_logged() {
    let base = tempfile::tempdir().unwrap();
    std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut lines = String::new();
    for (name, clients) in [("secure", "*(ro)"), ("others", "192.0.2.1(ro,insecure)")] {
        let dir = base.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        lines += &format!("{} {clients}\n", dir.display());
    }
    let exports = base.path().join("exports");
    std::fs::write(&exports, lines).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let writer = log.reopen().unwrap();
    let server = Server::start_with(&["--exports", exports.to_str().unwrap()], |command| {
        command.stderr(writer);
    });
    let at = (std::net::Ipv4Addr::LOCALHOST, server.port).into();
    let mut client = client::Client::tcp(at, PATIENCE).unwrap();
    for name in ["secure", "others", "none", "secure", "others", "none"] {
        client.mount(base.path().join(name).as_os_str().as_encoded_bytes()).unwrap_err();
    }
    let said = std::fs::read_to_string(log.path()).unwrap();
    let refused: Vec<&str> = said.lines().filter(|line| line.contains(" refused ")).collect();
    let expected = [
        "/secure: its port is not below 1024 (option insecure)",
        "/others: not a client of this export",
        "/none: no such export",
    ];
    assert_eq!(refused.len(), expected.len(), "{said}");
    for (line, end) in refused.iter().zip(expected) {
        assert!(line.contains(" WARN refused 127.0.0.1:") && line.ends_with(end), "{said}");
    }
}

#[test]
fn a_full_state_directory_is_logged_once() {
    let base = tempfile::tempdir().unwrap();
    std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let served = base.path().join("many");
    std::fs::create_dir(&served).unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(served.join(name), "").unwrap();
    }
    let exports = base.path().join("exports");
    std::fs::write(&exports, format!("{} *(ro,insecure,fsid=5)\n", served.display())).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let writer = log.reopen().unwrap();
    // who is not root finds files by a table; this one is on a disk that is full
    let user = is_root().then_some(NOBODY);
    let server = Server::launch(user, &["--exports", exports.to_str().unwrap()], |command| {
        let state = command.get_args().skip_while(|arg| *arg != "--state-dir").nth(1).unwrap();
        let table = format!("names-{}", export::uuid_text(&export::Fsid::Number(5).uuid()));
        std::fs::create_dir(state).unwrap();
        std::os::unix::fs::chown(state, user, user).unwrap();
        std::os::unix::fs::symlink("/dev/full", Path::new(state).join(table)).unwrap();
        command.stderr(writer);
    });
    let at = (std::net::Ipv4Addr::LOCALHOST, server.port).into();
    let mut client = client::Client::tcp(at, PATIENCE).unwrap();
    let root = client.mount(served.as_os_str().as_encoded_bytes()).unwrap();
    for name in ["a", "b", "c"] {
        let told = client.lookup(&root, name.as_bytes()).unwrap_err().to_string();
        assert!(told.to_lowercase().contains("nospc"), "{told}");
    }
    let said = std::fs::read_to_string(log.path()).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("names-*")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("WARN") && lines[0].contains("No space left"), "{said}");
}

#[test]
fn root_without_cap_setuid_does_not_start() {
    if !is_root() {
        skip(Missing::Root, "to take capabilities from a server");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let output = Command::new("setpriv")
        .args(["--bounding-set=-setuid", "--inh-caps=-setuid", BOWLINE, "serve"])
        .arg(base.path())
        .args(["--port", &free_port().to_string(), "--portmap", "off", "--state-dir"])
        .arg(base.path().join("state"))
        .arg("--control")
        .arg(base.path().join("c.sock"))
        .output()
        .unwrap();
    assert!(told(&output, 1).contains("CAP_SETUID"));
}
