//! `tcp-rcvbuf` and `tcp-sndbuf` as an operator sets them, and as connections get them: for all,
//! for a network, for an export by its path and by an exports(5) option.

use crate::rig::{Server, is_root, told};
use client::Client;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use testing::{Missing, skip};

/// The link of the one connection.
fn link(server: &Server) -> Value {
    let conns = server.json("conns");
    assert_eq!(conns.as_array().unwrap().len(), 1, "{conns}");
    conns[0]["link"].clone()
}

fn set(server: &Server, change: &str) -> Value {
    let output = server.ask(&["set", change, "--json"]);
    assert!(output.status.success(), "{change}: {}", crate::rig::text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn connect(server: &Server) -> Client {
    let addr = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut client = Client::tcp(addr, Duration::from_secs(60)).unwrap();
    client.null().unwrap();
    client
}

#[test]
fn sizes_are_set_for_all_and_for_networks_while_connections_are_open() {
    let server = Server::start(&["--set", "tcp-rcvbuf=100K"]);
    let client = connect(&server);
    assert_eq!(link(&server)["receive_buffer_bytes"], 200 << 10);
    assert_eq!(link(&server)["receive_buffer"], "100K");
    let changed = set(&server, "tcp-rcvbuf@127.0.0.0/8=120K");
    assert_eq!(changed["before"], "0");
    assert_eq!(changed["notes"][0], "of 1 open connections, 1 have the new size");
    assert_eq!(link(&server)["receive_buffer_bytes"], 240 << 10);
    let memory = server.json("status")["tcp_memory"].clone();
    assert_eq!(memory["promised_bytes"], 240 << 10, "{memory}");
    assert!(memory["promised_bytes_max"].as_u64().unwrap() > 1 << 20);
    drop(client);
    let _other = connect(&server);
    assert_eq!(link(&server)["receive_buffer_bytes"], 240 << 10, "a new connection as well");
    set(&server, "tcp-rcvbuf@127.0.0.0/8=0");
    set(&server, "tcp-rcvbuf=0");
    assert_eq!(link(&server)["receive_buffer"], "auto");
    let get = server.ask(&["get", "tcp-rcvbuf"]);
    assert_eq!(crate::rig::text(&get.stdout), "auto\n");
    assert!(told(&server.ask(&["set", "tcp-rcvbuf@lan=1M"]), 2).contains("@10.0.0.0/8"));
}

#[test]
fn buffer_sizes_of_an_export_apply_from_its_first_call() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().to_str().unwrap();
    let file = base.path().join("exports");
    std::fs::write(&file, format!("{path} 127.0.0.1(ro,insecure)\n")).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    let mut client = connect(&server);
    let own = link(&server)["receive_buffer_bytes"].as_u64().unwrap();
    let wanted = own / 1024 * 2;
    set(&server, &format!("tcp-rcvbuf@{path}={wanted}K"));
    assert_eq!(link(&server)["receive_buffer_bytes"], own, "no call with a handle yet");
    let root = client.mount(path.as_bytes()).unwrap();
    client.getattr(&root).unwrap();
    assert_eq!(link(&server)["receive_buffer_bytes"], wanted * 2048);
    let note = set(&server, "tcp-rcvbuf@/nowhere=1M")["notes"].to_string();
    assert!(note.contains("no export has the path /nowhere"), "{note}");
}

#[test]
fn an_exports_file_sets_buffer_sizes_per_client() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("d");
    std::fs::create_dir(&dir).unwrap();
    let file = base.path().join("exports");
    let line = |size: &str| format!("{} 127.0.0.1(ro,insecure,tcp-rcvbuf={size})\n", dir.display());
    std::fs::write(&file, line("200K")).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    let mut client = connect(&server);
    let root = client.mount(dir.to_str().unwrap().as_bytes()).unwrap();
    client.getattr(&root).unwrap();
    assert_eq!(link(&server)["receive_buffer_bytes"], 400 << 10);
    std::fs::write(&file, line("300K")).unwrap();
    assert!(server.ask(&["reload"]).status.success());
    client.getattr(&root).unwrap();
    assert_eq!(link(&server)["receive_buffer_bytes"], 600 << 10, "a reload counts at once");
    std::fs::write(&file, line("300X")).unwrap();
    let error = told(&server.ask(&["reload"]), 1);
    assert!(error.contains("exports:1:") && error.contains("300X"), "{error}");
}

#[test]
fn a_size_above_a_sysctl_gives_a_note_with_advice() {
    if !is_root() {
        return skip(Missing::Root, "to start a server without CAP_NET_ADMIN");
    }
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let limit: u64 = limit.trim().parse().unwrap();
    if limit >= 256 << 20 {
        return skip(Missing::Limit, format_args!("net.core.rmem_max is {limit}"));
    }
    let server = Server::start_as(Some(crate::rig::NOBODY), &[]);
    let _client = connect(&server);
    let size = limit.next_power_of_two() * 2;
    let changed = set(&server, &format!("tcp-rcvbuf={size}"));
    let notes = changed["notes"].to_string();
    assert!(notes.contains("sysctl -w net.core.rmem_max=") && notes.contains("CAP_NET_ADMIN"));
    assert!(notes.contains("1 are limited by a sysctl"), "{notes}");
    let link = link(&server);
    assert_eq!(link["receive_buffer_bytes"], limit * 2, "{link}");
    assert_eq!(link["receive_buffer_cut_by"], "net.core.rmem_max");
    let counters = server.json("status")["counters"].to_string();
    assert!(counters.contains("tcp-buffers-clamped"), "{counters}");
}

#[test]
fn the_congestion_control_is_changed_on_open_and_new_connections() {
    let server = Server::start(&[]);
    let client = connect(&server);
    let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let system = system.trim();
    // the client is on this machine: nobody paces for it
    let own = if system.starts_with("bbr") { "reno" } else { system };
    assert_eq!(link(&server)["congestion_control"], own);
    set(&server, "tcp-congestion=reno");
    assert_eq!(link(&server)["congestion_control"], "reno");
    drop(client);
    let _other = connect(&server);
    assert_eq!(link(&server)["congestion_control"], "reno");
    let error = told(&server.ask(&["set", "tcp-congestion=none-such"]), 1);
    assert!(error.contains("there are") && error.contains("reno"), "{error}");
    set(&server, "tcp-congestion=system");
    assert_eq!(link(&server)["congestion_control"], system);
    set(&server, "tcp-congestion=auto");
    assert_eq!(link(&server)["congestion_control"], own);
}
