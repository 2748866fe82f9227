//! Signals to a server: which end it, how, and which it ignores.

use crate::rig::{BOWLINE, NOBODY, Server, is_root};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The limit on waiting for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

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
