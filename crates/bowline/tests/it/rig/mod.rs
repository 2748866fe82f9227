//! The binary under test: run once, or as a live server of a directory of its own.

pub mod channel;
pub mod random;

use serde_json::Value;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
pub use testing::is_root;

pub const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline");
/// A user without rights; every Linux has it as nobody.
pub const NOBODY: u32 = 65534;

pub fn bowline(args: &[&str]) -> Output {
    Command::new(BOWLINE).args(args).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line on standard error of a command that failed with `status`.
pub fn told(output: &Output, status: i32) -> String {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert_eq!(error.lines().count(), 1, "one line: {error}");
    assert!(error.starts_with("bowline: "), "{error}");
    error
}

/// Has the program of a command that [`Server::launch`] made started by `wrapper`.
pub fn wrap(command: &mut Command, wrapper: &[&str]) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let program =
        words.iter().position(|word| Path::new(word).file_name() == Some("bowline".as_ref()));
    let (before, after) = words.split_at(program.unwrap());
    let wrapper = wrapper.iter().map(OsString::from);
    let all: Vec<OsString> =
        before.iter().cloned().chain(wrapper).chain(after.iter().cloned()).collect();
    *command = Command::new(&all[0]);
    command.args(&all[1..]);
}

/// A port that was free a moment ago, for TCP and UDP.
pub fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if std::net::UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server of a directory of its own; killed when dropped.
pub struct Server {
    pub base: tempfile::TempDir,
    pub child: Child,
    pub port: u16,
    pub lines: Vec<String>,
    command: Command,
}

impl Server {
    pub fn start(args: &[&str]) -> Self {
        Self::start_as(None, args)
    }

    /// A server whose command `prepare` may change.
    pub fn start_with(args: &[&str], prepare: impl FnOnce(&mut Command)) -> Self {
        Self::launch(None, args, prepare)
    }

    /// A server run by another user.
    pub fn start_as(user: Option<u32>, args: &[&str]) -> Self {
        Self::launch(user, args, |_| ())
    }

    /// A server run by another user, whose command `prepare` may change.
    pub fn launch(user: Option<u32>, args: &[&str], prepare: impl FnOnce(&mut Command)) -> Self {
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
                // a process of its own: no other test's child has the copy open for writing then
                let copied = Command::new("cp").arg(BOWLINE).arg(&program).status().unwrap();
                assert!(copied.success());
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
        prepare(&mut command);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = Self::ready(&mut child);
        Self { base, child, port, lines, command }
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The command that started it, for another process.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.command.get_program());
        command.args(self.command.get_args());
        command
    }

    /// Starts it again as it was, without waiting until it serves.
    pub fn begin_again(&mut self) {
        self.child = self.command.spawn().unwrap();
    }

    /// Starts it again as it was.
    pub fn start_again(&mut self) {
        self.begin_again();
        self.lines = Self::ready(&mut self.child);
    }

    /// What it says until it serves.
    fn ready(child: &mut Child) -> Vec<String> {
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
        lines
    }

    pub fn control(&self) -> PathBuf {
        self.base.path().join("c.sock")
    }

    pub fn served(&self) -> PathBuf {
        self.base.path().join("served")
    }

    pub fn ask(&self, command: &[&str]) -> Output {
        Command::new(BOWLINE).args(command).arg("--control").arg(self.control()).output().unwrap()
    }

    pub fn json(&self, command: &str) -> Value {
        let output = self.ask(&[command, "--json"]);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// The exit status.
    pub fn ended(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
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
