//! A server that systemd has started: its sockets, what it tells systemd, the priorities of its log lines.

use crate::rig::{BOWLINE, Server, text};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;
use testing::{Missing, skip};

/// The limit on waiting for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

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
