//! Three prepared problems that `bowline top` has to show in its first view, beside a client that is well: who loads the
//! server is the first row, and its note says what limits it. A slow disk, a client that takes replies slowly, and a
//! receive window that is too small for the round trip of a simulated line.

use crate::rig::{BOWLINE, Server, text};
use bench::lab::{LabError, Link, LinkOptions};
use client::{Client, Identity};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testing::{Missing, skip};

const PATIENCE: Duration = Duration::from_secs(60);
/// Round trips: so long that a window of 256 KiB is full at a megabyte a second, which any machine can send.
const LONG: Duration = Duration::from_millis(300);
const SHORT: Duration = Duration::from_millis(1);

/// A load, which ends when this is dropped.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server at one end of a line, and a client that is well.
struct Rig {
    _quiet: Load,
    server: Server,
    link: Link,
}

impl Rig {
    /// `None` where there are no namespaces.
    fn start(rtt: Duration) -> Option<Self> {
        let options = LinkOptions { rtt, ..LinkOptions::default() };
        let link = match Link::start(&options) {
            Ok(link) => link,
            Err(LabError::Unable(why)) => {
                skip(Missing::Namespaces, why);
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let at = link.server_addr.to_string();
        let slow = "slow=mem:delay=100%:20..40ms";
        let args =
            [slow, "fast=mem:", "--listen", &at, "--client", "*", "--set", "tcp-rcvbuf=256K"];
        let server = link.server.run(|| Server::start_with(&args, |_| ())).unwrap();
        let bytes = vec![7; 1 << 20];
        std::fs::write(server.served().join("big"), bytes).unwrap();
        let quiet = ["--workload", "getattr", "--clients", "1", "--rate", "1"];
        let quiet = load(&link, server.port, "/fast", &quiet, link.server_addr);
        Some(Self { _quiet: quiet, server, link })
    }

    /// A load from the other end of the line.
    fn load(&self, export: &str, args: &[&str]) -> Load {
        load(&self.link, self.server.port, export, args, self.link.client_addr)
    }

    /// Waits until the first row of `top` is the client at the other end, with this note.
    fn until_top_says(&self, what: &str) {
        let wanted = format!("{} ", self.link.client_addr);
        let begun = Instant::now();
        loop {
            let output = self.server.ask(&["top", "--once", "--interval", "1"]);
            let page = text(&output.stdout);
            let first = page.lines().skip_while(|line| !line.starts_with("NAME ")).nth(1);
            if first.is_some_and(|row| row.starts_with(&wanted) && row.contains(what)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{what:?} of {wanted:?} is not shown:\n{page}");
        }
    }
}

/// A load that comes from one of the ends.
fn load(link: &Link, port: u16, export: &str, args: &[&str], from: IpAddr) -> Load {
    let mut command = Command::new(BOWLINE);
    let server = format!("{}:{port}", link.server_addr);
    command.args(["bench", "load", "--quiet", "--seconds", "600", "--server", &server]);
    command.args(["--export", export]).args(args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let end = if from == link.server_addr { &link.server } else { &link.client };
    Load(end.run(|| command.spawn().unwrap()).unwrap())
}

#[test]
fn top_names_a_slow_disk() {
    let Some(rig) = Rig::start(SHORT) else { return };
    let args = ["--workload", "read", "--clients", "2", "--files", "1"];
    let _load = rig.load("/slow", &[&args[..], &["--file-size", "64K"]].concat());
    rig.until_top_says("waits for the disk, nfs v3 READ in /slow for ");
    let calls = text(&rig.server.ask(&["top", "--once", "--view", "calls"]).stdout);
    let call = calls.lines().find(|line| line.starts_with("nfs v3 READ"));
    assert!(call.is_some_and(|call| call.contains("/slow")), "{calls}");
}

#[test]
fn top_names_a_window_that_is_too_small() {
    let Some(rig) = Rig::start(LONG) else { return };
    let args = ["--workload", "write", "--clients", "1", "--depth", "8", "--size", "256K"];
    let _load = rig.load("/fast", &args);
    rig.until_top_says("the server's receive window is full: try tcp-rcvbuf=");
}

#[test]
fn top_names_a_client_that_takes_replies_slowly() {
    let Some(rig) = Rig::start(SHORT) else { return };
    let export = rig.server.served().display().to_string();
    let at = SocketAddr::new(rig.link.server_addr, rig.server.port);
    let connect = || sys::outgoing::connect_reserved(at).unwrap();
    let stream = rig.link.client.run(connect).unwrap();
    let mut replies = stream.try_clone().unwrap();
    let mut client = Client::over_tcp(stream, PATIENCE).unwrap();
    client.set_identity(Some(Identity::root()));
    let root = client.mount(export.as_bytes()).unwrap();
    let file = client.lookup(&root, b"big").unwrap().handle;
    for _ in 0..32 {
        client.send_read(&file, 0, 64 << 10).unwrap();
    }
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut piece = vec![0; 64 << 10];
            while !end.load(Relaxed) && replies.read_exact(&mut piece).is_ok() {
                client.send_read(&file, 0, 64 << 10).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        // the thread is to end when this fails, too
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            rig.until_top_says("the client takes replies slowly")
        }));
        end.store(true, Relaxed);
        said.unwrap();
    });
}
