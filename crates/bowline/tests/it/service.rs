//! A live server as its operator meets it: asked for its state, changed, reloaded, doubled, stopped,
//! started by systemd, run by an ordinary user.

use crate::rig::{BOWLINE, NOBODY, Server, free_port, is_root, text, told};
use client::Client;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
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
fn a_reload_is_all_or_nothing() {
    let base = tempfile::tempdir().unwrap();
    let (one, two) = (base.path().join("one"), base.path().join("two"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&two).unwrap();
    let file = base.path().join("exports");
    let line = |dir: &Path, options: &str| format!("{} *({options})\n", dir.display());
    std::fs::write(&file, line(&one, "ro")).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    assert_eq!(server.json("exports").as_array().unwrap().len(), 2);

    std::fs::write(&file, line(&one, "rw") + &line(&two, "ro")).unwrap();
    let output = server.ask(&["reload"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [one.to_str().unwrap(), two.to_str().unwrap(), "applied: 3 exports"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(text(&server.ask(&["reload"]).stdout).contains("nothing changed"));

    std::fs::write(&file, line(&one, "rw") + &line(&two, "quick")).unwrap();
    let error = told(&server.ask(&["reload"]), 1);
    assert!(error.contains("exports:2:") && error.contains("quick"), "{error}");
    assert_eq!(server.json("exports").as_array().unwrap().len(), 3);

    std::fs::write(&file, line(&two, "ro")).unwrap();
    server.signal("-HUP");
    let begun = Instant::now();
    while server.json("exports").as_array().unwrap().len() != 2 {
        assert!(begun.elapsed() < PATIENCE, "SIGHUP reads them again");
    }
}

/// A disk that was mounted after the server was started; or a directory that was made anew, for which
/// it takes no privilege.
#[test]
fn a_reload_serves_a_newly_mounted_directory() {
    let base = tempfile::tempdir().unwrap();
    let (file, served) = (base.path().join("exports"), base.path().join("disk"));
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("hello.txt"), "").unwrap();
    std::fs::write(&file, format!("{} *(rw,insecure)\n", served.display())).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    let at = ([127, 0, 0, 1], server.port).into();
    let found = |name: &[u8]| {
        let mut client = Client::tcp(at, PATIENCE).unwrap();
        let root = client.mount(served.to_str().unwrap().as_bytes()).unwrap();
        client.lookup(&root, name).is_ok()
    };
    assert!(found(b"hello.txt"));
    std::fs::rename(&served, base.path().join("before")).unwrap();
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("disk.txt"), "").unwrap();
    let shown = text(&server.ask(&["reload"]).stdout);
    assert!(shown.contains("is a different directory now"), "{shown}");
    assert!(found(b"disk.txt") && !found(b"hello.txt"));
    assert!(text(&server.ask(&["reload"]).stdout).contains("nothing changed"));
    if is_root() {
        let mount = |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(&served).status();
        assert!(mount(&["mount", "-t", "tmpfs", "none"]).unwrap().success());
        std::fs::write(served.join("mounted.txt"), "").unwrap();
        assert!(text(&server.ask(&["reload"]).stdout).contains("is a different directory now"));
        let is_found = found(b"mounted.txt");
        assert!(mount(&["umount", "-l"]).unwrap().success());
        assert!(is_found);
    }
}

#[test]
fn a_directory_of_exports_files_is_one_transaction() {
    let base = tempfile::tempdir().unwrap();
    let dir = |name: &str| {
        std::fs::create_dir_all(base.path().join(name)).unwrap();
        base.path().join(name).to_str().unwrap().to_owned()
    };
    let (one, two, more) = (dir("one"), dir("two"), dir("exports.d"));
    let file = dir("etc") + "/exports";
    let write = |name: &str, text: String| std::fs::write(format!("{more}/{name}"), text).unwrap();
    std::fs::write(&file, "").unwrap();
    write("b.exports", format!("{one} *(ro)\n"));
    let server = Server::start(&["--exports", &file, "--exports", &more]);
    let count = || server.json("exports").as_array().unwrap().len();
    assert_eq!(count(), 2);
    write("c.exports", format!("{two} *(ro)\n"));
    write("d.exports", "\n/usr *(ro,fast)\n".to_owned());
    let refused = told(&server.ask(&["reload"]), 1);
    assert!(refused.contains("exports.d/d.exports:2:11: unknown option fast"), "{refused}");
    assert_eq!(count(), 2, "nothing of c.exports");
    std::fs::rename(format!("{more}/d.exports"), format!("{more}/d.off")).unwrap();
    let shown = text(&server.ask(&["reload"]).stdout);
    assert!(shown.contains(&two) && shown.contains("applied: 3 exports"), "{shown}");
    std::fs::remove_dir_all(&more).unwrap();
    let refused = told(&server.ask(&["reload"]), 1);
    assert!(refused.contains("cannot read") && refused.contains("exports.d"), "{refused}");
    assert_eq!(count(), 3);
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
fn read_only_applies_to_an_exports_file() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("exports");
    let line = |options| format!("{} *({options})\n", base.path().display());
    std::fs::write(&file, line("rw")).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap(), "--read-only"]);
    let shown = server.lines.concat();
    assert!(shown.contains("(ro,") && !shown.contains("(rw,"), "{shown}");
    let all_read_only = || {
        let rows = server.json("exports");
        let rows = rows.as_array().unwrap().clone();
        let options = |row: &serde_json::Value| row["rules"][0]["options"].to_string();
        rows.len() == 2 && rows.iter().all(|row| options(row).starts_with("\"ro,"))
    };
    assert!(all_read_only());
    std::fs::write(&file, line("rw,async")).unwrap();
    assert!(text(&server.ask(&["reload"]).stdout).contains("async"));
    assert!(all_read_only(), "after a reload");
}

#[test]
fn a_reload_reads_the_configuration() {
    let base = tempfile::tempdir().unwrap();
    let (config, exports) = (base.path().join("b.toml"), base.path().join("exports"));
    std::fs::write(&exports, format!("{} *(rw)\n", base.path().display())).unwrap();
    std::fs::write(&config, "client = '10.0.0.0/8'\n").unwrap();
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    assert!(text(&server.ask(&["reload"]).stdout).contains("nothing changed"));

    let text_now = "client = '10.0.0.0/8'\nexports = 'exports'\nread-only = true\n";
    std::fs::write(&config, text_now).unwrap();
    let shown = text(&server.ask(&["reload"]).stdout);
    assert!(shown.contains("applied: 2 exports") && !shown.contains("note"), "{shown}");
    let rules = |row: &serde_json::Value| row["rules"].to_string();
    let rows = server.json("exports");
    assert!(rows.as_array().unwrap().iter().all(|row| rules(row).contains("\"ro,")), "{rows}");

    let other = "client = '*'\nlisten = '127.0.0.2'\n[set]\nmax-read = '64K'\n";
    std::fs::write(&config, other).unwrap();
    let shown = text(&server.ask(&["reload"]).stdout);
    for part in ["applied: 1 export", "a new value of listen: restart", "`bowline set`"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let rows = server.json("exports");
    assert!(rules(&rows[0]).contains("\"*\"") && rules(&rows[0]).contains("\"rw,"), "{rows}");

    std::fs::write(&config, "client = 3\n").unwrap();
    let error = told(&server.ask(&["reload"]), 1);
    assert!(error.contains("b.toml:1:10: "), "{error}");
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
fn sigterm_and_sigint_stop_the_server_with_status_0() {
    for signal in ["-TERM", "-INT"] {
        let mut server = Server::start(&[]);
        server.signal(signal);
        assert_eq!(server.ended(), Some(0), "{signal}");
        assert!(!server.control().exists(), "the socket is gone");
    }
}

#[test]
fn the_server_restarts_immediately_after_sigkill() {
    let mut server = Server::start(&[]);
    server.signal("-KILL");
    assert_eq!(server.ended(), None);
    let again = Command::new(BOWLINE)
        .arg("serve")
        .arg(server.served())
        .args(["--portmap", "off", "--port", &server.port.to_string(), "--state-dir"])
        .arg(server.base.path().join("state"))
        .arg("--control")
        .arg(server.control())
        .stdout(Stdio::piped())
        .spawn();
    server.child = again.unwrap();
    let mut first = [0; 7];
    server.child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"bowline");
    assert!(server.ask(&["status"]).status.success());
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
fn common_signals_are_ignored_and_sigusr1_logs_the_status() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let writer = log.reopen().unwrap();
    let mut server = Server::start_with(&[], |command| {
        command.stderr(writer);
    });
    for signal in ["-USR2", "-PIPE", "-XFSZ", "-WINCH", "-URG", "-CHLD", "-USR1"] {
        server.signal(signal);
    }
    let begun = Instant::now();
    let said = || std::fs::read_to_string(log.path()).unwrap();
    while !said().contains("status: up ") {
        assert!(begun.elapsed() < PATIENCE, "{}", said());
        assert!(server.child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(said().lines().filter(|line| line.contains("status: ")).count(), 1, "{}", said());
    assert!(said().contains("exports 1, connections 0, calls 0"), "{}", said());
    assert!(server.ask(&["status"]).status.success());
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

/// A server in which a call runs that takes a while, what it logs to, and who waits for the call.
fn busy() -> (Server, tempfile::NamedTempFile, std::thread::JoinHandle<bool>) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let writer = log.reopen().unwrap();
    // as an ordinary user it takes calls from any port
    let user = is_root().then_some(NOBODY);
    let server = Server::launch(user, &["slow=mem:delay=100%:5000..5000ms"], |command| {
        command.stderr(writer);
    });
    let at = (std::net::Ipv4Addr::LOCALHOST, server.port).into();
    let call = std::thread::spawn(move || {
        let mut client = client::Client::tcp(at, PATIENCE).unwrap();
        client.mount(b"/slow").is_ok()
    });
    let begun = Instant::now();
    while server.json("conns")[0]["in_flight"] != 1 {
        assert!(begun.elapsed() < PATIENCE, "the call runs");
    }
    (server, log, call)
}

#[test]
fn repeated_sigterm_still_stops_gracefully() {
    let (mut server, log, call) = busy();
    for _ in 0..10 {
        server.signal("-TERM");
    }
    assert_eq!(server.ended(), Some(0));
    assert!(call.join().unwrap(), "what runs may finish");
    assert!(!server.control().exists(), "the socket is gone");
    let said = std::fs::read_to_string(log.path()).unwrap();
    assert!(said.contains("stopped"), "{said}");
}

#[test]
fn log_lines_have_syslog_priorities_under_journald() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let writer = log.reopen().unwrap();
    let server = Server::start_with(&[], |command| {
        command.stderr(writer).env("JOURNAL_STREAM", "1:1");
    });
    let changed = server.ask(&["set", "max-read=64K"]);
    assert!(text(&changed.stdout).contains("each transfers 64K at most"), "a note: {changed:?}");
    let lines = std::fs::read_to_string(log.path()).unwrap();
    assert!(lines.contains("<6>max-read=64K (was 1M)\n"), "{lines}");
    assert!(lines.lines().all(|line| line.starts_with('<')), "{lines}");
}

#[test]
fn a_second_sigint_stops_immediately() {
    let (mut server, log, call) = busy();
    let begun = Instant::now();
    let said = || std::fs::read_to_string(log.path()).unwrap();
    server.signal("-INT");
    while !said().contains("Ctrl-C again to end at once") {
        assert!(begun.elapsed() < PATIENCE, "{}", said());
        std::thread::sleep(Duration::from_millis(10));
    }
    server.signal("-INT");
    assert_eq!(server.ended(), Some(130));
    assert!(!call.join().unwrap(), "it waited for a call");
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
fn systemd_is_notified() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = || {
        let mut message = [0; 4096];
        let n = manager.recv(&mut message).unwrap();
        text(&message[..n])
    };
    let mut server = Server::start_with(&[], |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    assert!(next().contains("READY=1"));
    assert!(server.ask(&["reload"]).status.success());
    let reloading = next();
    assert!(reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="));
    assert!(next().contains("READY=1"));
    server.signal("-TERM");
    assert!(next().contains("STOPPING=1"));
    assert_eq!(server.ended(), Some(0));
}

/// A server that is handed sockets as systemd does it: from descriptor 3 on, to the process id that
/// execs. Its first lines, what it is asked for on its control socket, and `meanwhile`'s answer.
fn activated<T>(
    tcp: TcpListener,
    udp: Option<UdpSocket>,
    args: &[&str],
    meanwhile: impl FnOnce() -> T,
) -> (String, serde_json::Value, T) {
    let base = tempfile::tempdir().unwrap();
    let exports = base.path().join("exports");
    std::fs::write(&exports, format!("{} *(ro,insecure)\n", base.path().display())).unwrap();
    let count = if udp.is_some() { 2 } else { 1 };
    let hand_over = "3<&0 4<&2 2>/dev/null";
    let script = format!("LISTEN_PID=$$ LISTEN_FDS={count} exec \"$0\" \"$@\" {hand_over}");
    let mut child = Command::new("sh")
        .args(["-c", &script, BOWLINE, "serve", "--prove", "--exports"])
        .arg(&exports)
        .arg("--state-dir")
        .arg(base.path().join("state"))
        .arg("--control")
        .arg(base.path().join("c.sock"))
        .args(args)
        .stdin(Stdio::from(OwnedFd::from(tcp)))
        .stderr(udp.map_or_else(Stdio::null, |udp| Stdio::from(OwnedFd::from(udp))))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut out = child.stdout.take().unwrap();
    let mut piece = [0; 4096];
    while !said.contains("control: ") {
        let n = out.read(&mut piece).unwrap();
        assert!(n > 0, "the server ended: {said}");
        said.push_str(&text(&piece[..n]));
    }
    let asked = Command::new(BOWLINE)
        .args(["sockets", "--json", "--control"])
        .arg(base.path().join("c.sock"))
        .output()
        .unwrap();
    let answer = meanwhile();
    child.kill().unwrap();
    child.wait().unwrap();
    (said, serde_json::from_slice(&asked.stdout).unwrap(), answer)
}

#[test]
fn sockets_from_systemd_are_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (said, sockets, ()) = activated(listener, None, &["--portmap", "off"], || ());
    assert!(said.contains("proof: ") && said.contains(&format!("{addr} (TCP only)")), "{said}");
    assert!(said.contains("--port"), "it is not used: {said}");
    assert_eq!(sockets.as_array().unwrap().len(), 1, "nothing else is bound: {sockets}");
    assert_eq!(sockets[0]["adopted"], true);
    assert_eq!(sockets[0]["local"], addr.to_string());
}

/// What the server's port mapper tells of NFS over TCP and over UDP, to IPv4 and to IPv6.
fn ports_told() -> [Option<u16>; 3] {
    let at = |ip: &str| std::net::SocketAddr::new(ip.parse().unwrap(), 111);
    let ask = |ip| client::Client::tcp(at(ip), PATIENCE).unwrap();
    let port = |protocol| ask("127.0.0.1").getport(100_003, 3, protocol).unwrap();
    let six = ask("::1").getversaddr(100_003, 3, proto::portmap::Netid::Tcp6).unwrap();
    [port(6), port(17), six.map(|addr| addr.port())]
}

#[test]
fn the_port_mapper_lists_both_families_of_systemd_sockets() {
    let run = || {
        if sys::netns::enter_new().is_err() {
            return skip(Missing::Namespaces, "a network namespace");
        }
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.unwrap().success());
        // as systemd binds them: for both families; to different ports, if its unit says so
        let tcp = || TcpListener::bind("[::]:0").unwrap();
        let udp = UdpSocket::bind("[::]:0").unwrap();
        let (listener, both) = (tcp(), udp.local_addr().unwrap().port());
        let port = listener.local_addr().unwrap().port();
        let serve = ["--portmap", "serve"];
        let (said, _, told) = activated(listener, Some(udp), &serve, ports_told);
        assert_eq!(told, [Some(port), Some(both), Some(port)], "{said}");
        // a client that finds the ports needs none, and can lock
        let mount = "mount -t nfs -o vers=3,proto=tcp,mountproto=tcp ";
        assert!(said.contains("proof: ") && said.contains(mount), "{said}");
        let (said, _, told) = activated(tcp(), None, &serve, ports_told);
        assert!(told[0].is_some() && told[1].is_none() && told[2] == told[0], "{told:?}: {said}");
    };
    std::thread::spawn(run).join().unwrap();
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
