//! A server whose control group or address space lets it have little: of memory it takes its share, and lives; without another thread it
//! serves with those that it has, and says so once.

use crate::rig::{Server, bowline, is_root, text, wrap};
use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use testing::{Missing, skip};

/// What a small container has.
pub const LIMIT: u64 = 64 << 20;

/// A control group of a controller, in a hierarchy of version 1 or 2; removed when dropped.
pub struct Group(PathBuf);

impl Group {
    /// A group where one of these files is; `None`, and a word about it, where none can be made.
    pub fn make(controller: &str, files: [&str; 2]) -> Option<(Self, PathBuf)> {
        let name = format!("bowline-test-{controller}-{}", std::process::id());
        let made = |(top, file): (String, &str)| {
            let group = Self(PathBuf::from(top).join(&name));
            fs::create_dir(&group.0).ok()?;
            let file = group.0.join(file);
            file.exists().then_some((group, file))
        };
        let tops = [format!("/sys/fs/cgroup/{controller}"), "/sys/fs/cgroup".to_owned()];
        let found = is_root().then(|| tops.into_iter().zip(files).find_map(made)).flatten();
        if found.is_none() {
            skip(Missing::ControlGroups, format_args!("no group of {controller} can be made"));
        }
        found
    }

    pub fn start(&self, args: &[&str], log: Option<File>) -> Server {
        let enter = format!("echo $$ >{}/cgroup.procs; exec \"$0\" \"$@\"", self.0.display());
        Server::start_with(args, |command| {
            wrap(command, &["sh", "-c", &enter]);
            log.map(|log| command.stderr(log));
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begun = Instant::now();
        // its last process may still be on its way out
        while fs::remove_dir(&self.0).is_err() && begun.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A load that has to come to its end.
fn load(server: &Server, export: &str, args: &[&str]) {
    let at = format!("127.0.0.1:{}", server.port);
    let always = ["bench", "load", "--server", &at, "--export", export, "--quiet"];
    let made = bowline(&[&always[..], args].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
}

#[test]
fn a_server_in_a_small_cgroup_uses_a_share_of_its_memory() {
    let files = ["memory.limit_in_bytes", "memory.max"];
    let Some((group, limit)) = Group::make("memory", files) else { return };
    fs::write(limit, LIMIT.to_string()).unwrap();
    let mut server = group.start(&[], None);
    let status = server.json("status");
    assert_eq!(status["memory_bytes_max"], LIMIT);
    let value = |key| text(&server.ask(&["get", key]).stdout);
    assert!(value("memory").trim_end() == "16M", "{}", value("memory"));
    // each may hold a READ's reply: 64 would be more than there is
    assert!(value("threads").trim_end().ends_with("..8"), "{}", value("threads"));
    server.kill();
}

#[test]
fn a_refused_thread_is_logged_once() {
    let Some((group, limit)) = Group::make("pids", ["pids.max"; 2]) else { return };
    let base = tempfile::tempdir().unwrap();
    let log = base.path().join("log");
    let sleepy = ["--set", "threads=2..64", "slow=mem:delay=100%:1..2ms"];
    let mut server = group.start(&sleepy, Some(File::create(&log).unwrap()));
    let now = fs::read_to_string(limit.with_file_name("pids.current")).unwrap();
    fs::write(&limit, now).unwrap();
    load(&server, "/slow", &["--clients", "16", "--seconds", "0.5", "--warmup", "0"]);
    // whoever wants to know is told, without a thread for him
    let status = server.json("status");
    let counters = status["counters"].as_array().unwrap();
    let wanted = counters.iter().find(|row| row["name"] == "threads-not-started").unwrap();
    assert!(wanted["value"].as_u64().unwrap() > 10, "{wanted}");
    let told = fs::read_to_string(&log).unwrap();
    assert_eq!(told.matches("cannot start a thread").count(), 1, "{told}");
    server.kill();
}

/// Bytes of a record that its client has begun and does not end, as in the attack of 12 of them.
const HELD: usize = 3 << 20;

/// Begins a record of several fragments, of which nothing can be used before it is whole.
fn hold_record(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let fragment = [&(HELD as u32).to_be_bytes()[..], &vec![0; HELD - 8]].concat();
    // the server may close the connection meanwhile, to have its memory back
    let _ = stream.write_all(&fragment);
    stream
}

#[test]
fn a_server_with_little_address_space_refuses_records() {
    let base = tempfile::tempdir().unwrap();
    for limit_kib in [110_000, 120_000, 150_000, 250_000] {
        let log = base.path().join(format!("log-{limit_kib}"));
        let limit = format!("ulimit -v {limit_kib}; exec \"$0\" \"$@\"");
        let mut server =
            Server::start_with(&["--set", "memory=512M", "--set", "zero-copy=off"], |command| {
                wrap(command, &["sh", "-c", &limit]);
                command.stderr(File::create(&log).unwrap());
            });
        let at = SocketAddr::from(([127, 0, 0, 1], server.port));
        let held: Vec<_> = (0..12).map(|_| hold_record(at)).collect();
        // who asks for little is served meanwhile, and READs of 1 MiB as well
        fs::write(server.served().join("large"), vec![7; 4 << 20]).unwrap();
        let export = server.served().to_str().unwrap().to_owned();
        load(
            &server,
            &export,
            &["--workload", "read", "--size", "1M", "--clients", "8", "--seconds", "0.5"],
        );
        let status = server.json("status");
        assert_eq!(status["memory_bytes_max"], limit_kib * 1024);
        let used = status["call_memory_bytes_max"].as_u64().unwrap();
        assert!((1 << 20..limit_kib * 1024 / 3).contains(&used), "{status}");
        let warnings = status["warnings"].to_string();
        assert!(warnings.contains("memory=512M") && warnings.contains("ulimit -v"), "{warnings}");
        let told = text(&server.ask(&["set", "memory=256M"]).stdout);
        assert!(told.contains("memory=256M is more than the address space"), "{told}");
        drop(held);
        server.kill();
        let log = fs::read_to_string(&log).unwrap();
        assert!(!log.contains("memory allocation"), "{log}");
        assert!(log.contains("memory=256M is more than"), "{log}");
    }
    let mut too_little = Command::new(env!("CARGO_BIN_EXE_bowline"));
    too_little.args(["serve", "--portmap", "off", "--state-dir"]).arg(base.path()).arg(base.path());
    wrap(&mut too_little, &["sh", "-c", "ulimit -v 50000; exec \"$0\" \"$@\""]);
    let too_little = too_little.output().unwrap();
    assert!(!too_little.status.success());
    let said = text(&too_little.stderr);
    assert!(said.contains("RLIMIT_AS") && said.contains("more are needed"), "{said}");
}
