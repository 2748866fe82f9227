//! A client that takes all places for connections keeps nobody else out: the whole server, with few descriptors.

use crate::rig::{Server, text, wrap};
use client::Client;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use sys::testing::tcp::connect_from;

/// Silent connections of one address: more than there are descriptors for connections.
const SILENT: usize = 600;
/// Who has them.
const GREEDY: &str = "127.0.0.66";
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that calls from an address of its own.
fn client_at(last: u8, server: &Server) -> Client {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0));
    let stream = connect_from(from, to).unwrap();
    Client::over_tcp(stream, PATIENCE).unwrap()
}

#[test]
fn six_hundred_silent_connections_do_not_exclude_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, exports, path) =
        (dir.path().join("log"), dir.path().join("exports"), dir.path().join("served"));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("hello.txt"), "hello").unwrap();
    fs::write(&exports, format!("{} *(rw,insecure)\n", path.display())).unwrap();
    let error = File::create(&log).unwrap();
    let server = Server::start_with(&["--exports", exports.to_str().unwrap()], |command| {
        wrap(command, &["prlimit", "--nofile=1024:1024"]);
        command.stderr(error);
    });
    let path = path.as_os_str().as_encoded_bytes();
    let mut mount = client_at(2, &server);
    let root = mount.mount(path).unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    let from = SocketAddr::from((GREEDY.parse::<Ipv4Addr>().unwrap(), 0));
    let silent: Vec<TcpStream> = (0..SILENT).map(|_| connect_from(from, to).unwrap()).collect();
    let begun = Instant::now();
    let status = loop {
        let status = server.json("status");
        if status["connections"].as_u64() >= status["connections_max"].as_u64() {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status["connections_max"].as_u64().unwrap() < SILENT as u64, "{status}");
    for last in 100..150 {
        let mut newcomer = client_at(last, &server);
        let root = newcomer.mount(path).unwrap();
        assert!(newcomer.lookup(&root, b"hello.txt").is_ok());
    }
    assert!(mount.lookup(&root, b"hello.txt").is_ok(), "who was here before is here still");
    let status = text(&server.ask(&["status"]).stdout);
    assert!(status.contains(&format!("of them by {GREEDY}")), "{status}");
    let clients = server.json("clients");
    let displaced = |address: &str| {
        let row = clients.as_array().unwrap().iter().find(|row| row["address"] == address);
        row.unwrap()["displaced"].as_u64().unwrap()
    };
    assert!(displaced(GREEDY) >= 50, "{clients}");
    assert_eq!((displaced("127.0.0.2"), displaced("127.0.0.100")), (0, 0));
    let logged = fs::read_to_string(&log).unwrap();
    let lines = logged.lines().filter(|line| line.contains("places for connections")).count();
    assert_eq!(lines, 1, "{logged}");
    assert!(logged.contains(&format!("by {GREEDY}")), "{logged}");
    drop(silent);
}
