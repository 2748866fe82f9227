//! The command line as its users meet it: exit statuses, one-line errors, `check`, a live server
//! asked for its state, stopped, doubled, and run by an ordinary user.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline");
/// A user without rights; every Linux has it as nobody.
const NOBODY: u32 = 65534;

fn bowline(args: &[&str]) -> Output {
    Command::new(BOWLINE).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line on standard error of a command that failed with `status`.
fn told(output: &Output, status: i32) -> String {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert_eq!(error.lines().count(), 1, "one line: {error}");
    assert!(error.starts_with("bowline: "), "{error}");
    error
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A port that was free a moment ago, for TCP and UDP.
fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if std::net::UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server of a directory of its own; killed when dropped.
struct Server {
    base: tempfile::TempDir,
    child: Child,
    port: u16,
    lines: Vec<String>,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        Self::start_as(None, args)
    }

    fn start_as(user: Option<u32>, args: &[&str]) -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let served = base.path().join("served");
        std::fs::create_dir(&served).unwrap();
        std::fs::write(served.join("hello.txt"), "hello, world\n").unwrap();
        let port = free_port();
        let mut command = match user {
            None => Command::new(BOWLINE),
            Some(user) => {
                let program = base.path().join("bowline");
                std::fs::copy(BOWLINE, &program).unwrap();
                for path in [base.path(), &served, &served.join("hello.txt")] {
                    std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
                }
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={user}"), format!("--regid={user}")]);
                command.args(["--clear-groups", "--inh-caps=-all"]).arg(program);
                command
            }
        };
        command.arg("serve").arg(&served).args(["--port", &port.to_string()]);
        command.args(["--portmap", "off", "--state-dir"]).arg(base.path().join("state"));
        command.arg("--control").arg(base.path().join("c.sock")).args(args);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = Vec::new();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 {
                panic!("the server ended: {:?} after {lines:?}", child.wait());
            }
            let last = line.starts_with("control: ");
            lines.push(line);
            if last {
                break;
            }
        }
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        Self { base, child, port, lines }
    }

    fn control(&self) -> PathBuf {
        self.base.path().join("c.sock")
    }

    fn served(&self) -> PathBuf {
        self.base.path().join("served")
    }

    fn ask(&self, command: &[&str]) -> Output {
        Command::new(BOWLINE).args(command).arg("--control").arg(self.control()).output().unwrap()
    }

    fn json(&self, command: &str) -> Value {
        let output = self.ask(&[command, "--json"]);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// The exit status, within ten seconds.
    fn ended(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server does not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_wrong_command_line_is_status_2_and_one_line() {
    for (args, part) in [
        (&[][..], "bowline serve DIR"),
        (&["fly"], "fly"),
        (&["serve"], "nothing to serve"),
        (&["serve", "/a", "--prot", "1"], "--port"),
        (&["serve", "/a", "--port", "70000"], "65535"),
        (&["serve", "/a", "--listen", "here"], "IP address"),
        (&["serve", "/a", "--set", "max-reed=1"], "max-read"),
        (&["serve", "/a", "--portmap", "perhaps"], "register"),
        (&["set", "zero-copy=on"], "not in this version"),
        (&["status", "extra"], "extra"),
    ] {
        let error = told(&bowline(args), 2);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn help_and_version_are_status_0() {
    for args in [&["--help"][..], &["serve", "--help"], &["--version"], &["completions", "bash"]] {
        let output = bowline(args);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn no_server_is_status_1_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("none.sock");
    let control = control.to_str().unwrap();
    for command in ["status", "exports", "clients", "conns", "sockets", "pools", "ops", "reload"] {
        let error = told(&bowline(&[command, "--control", control]), 1);
        assert!(error.contains("bowline serve"), "{error}");
    }
}

#[test]
fn what_cannot_be_served_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (file, state) = (dir.path().join("file"), dir.path().join("state"));
    std::fs::write(&file, "").unwrap();
    let serve = |what: &str| {
        let state = state.to_str().unwrap();
        bowline(&["serve", what, "--state-dir", state, "--port", "1", "--portmap", "off"])
    };
    let missing = told(&serve("/no/such/directory"), 1);
    assert!(missing.contains("/no/such/directory"), "{missing}");
    let error = told(&serve(file.to_str().unwrap()), 1);
    assert!(error.contains("not a directory"), "{error}");
}

#[test]
fn a_configuration_with_a_wrong_key_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.toml");
    std::fs::write(&path, "dirs = '.'\nprot = 1\n").unwrap();
    let path = path.to_str().unwrap();
    let error = told(&bowline(&["serve", "--config", path]), 1);
    assert!(error.contains("b.toml:2:1: ") && error.contains("prot"), "{error}");
}

fn check(name: &str, content: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    bowline(&["check", path.to_str().unwrap()])
}

#[test]
fn check_says_what_a_good_file_exports() {
    let output = check("exports", "/tmp 10.0.0.0/8(rw,subtree_check) *.example.org(ro)\n");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    for part in ["/tmp", "10.0.0.0/8", "*.example.org", "ro", "subtree_check"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let output = check("b.toml", "dirs = '/tmp'\nport = 3049\nclient = '10.0.0.0/8'\n");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    for part in ["/tmp", "10.0.0.0/8", "3049"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn check_shows_the_place_of_what_is_wrong() {
    let output = check("exports", "/tmp *(rw)\n/usr *(rw,fast)\n");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("exports:2:") && error.contains("fast"), "{error}");
    assert!(error.lines().any(|line| line.trim() == "^"), "a caret: {error}");
    let output = check("b.toml", "port = 3049\nportt = 1\n");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("b.toml:2:1: ") && error.contains("portt"), "{error}");
}

#[test]
fn a_live_server_tells_its_state() {
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
        "state_dir",
        "portmap",
        "exports",
        "connections",
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
        "open_files",
        "open_files_max",
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
fn settings_change_while_it_runs() {
    let server = Server::start(&[]);
    let output = server.ask(&["set", "max-write=128K"]);
    assert_eq!(text(&output.stdout), "max-write: 128K (was 1M)\n");
    assert_eq!(text(&server.ask(&["get", "max-write"]).stdout), "128K\n");
    assert!(server.ask(&["set", "log-level=debug"]).status.success());
    assert!(server.ask(&["set", "threads=2..8"]).status.success());
    let error = told(&server.ask(&["get", "max-reed"]), 1);
    assert!(error.contains("max-read"), "{error}");
    let all = server.json("get");
    assert_eq!(all.as_array().unwrap().len(), 10);
}

#[test]
fn exports_are_read_again_as_a_whole_or_not_at_all() {
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
        assert!(begun.elapsed() < Duration::from_secs(5), "SIGHUP reads them again");
    }
}

#[test]
fn a_second_server_is_told_what_is_taken() {
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
    let error = told(&serve(&base.join("state2"), &base.join("d.sock"), &port), 1);
    assert!(error.contains("in use") && error.contains("--port"), "{error}");
    assert!(error.contains(&server.child.id().to_string()), "names the owner: {error}");
    let error = told(&serve(&base.join("state2"), &server.control(), &other_port), 1);
    assert!(error.contains("--control"), "{error}");
    assert!(server.ask(&["status"]).status.success(), "the first one goes on");
}

#[test]
fn sigterm_and_ctrl_c_end_it_with_status_0() {
    for signal in ["-TERM", "-INT"] {
        let mut server = Server::start(&[]);
        server.signal(signal);
        assert_eq!(server.ended(), Some(0), "{signal}");
        assert!(!server.control().exists(), "the socket is gone");
    }
}

#[test]
fn after_a_kill_it_starts_again_at_once() {
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
fn an_ordinary_user_is_told_what_is_different() {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
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
fn generated_pages_and_completions_are_current() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/generated");
    let dir = tempfile::tempdir().unwrap();
    assert!(bowline(&["man", dir.path().to_str().unwrap()]).status.success());
    for (shell, file) in [("bash", "bowline.bash"), ("zsh", "_bowline"), ("fish", "bowline.fish")] {
        std::fs::write(dir.path().join(file), bowline(&["completions", shell]).stdout).unwrap();
    }
    let names = |dir: &Path| {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&kept), names(dir.path()), "run packaging/generate");
    for name in names(&kept) {
        let (old, new) = (std::fs::read(kept.join(&name)), std::fs::read(dir.path().join(&name)));
        assert!(old.unwrap() == new.unwrap(), "{name:?} is old: run packaging/generate");
    }
}
