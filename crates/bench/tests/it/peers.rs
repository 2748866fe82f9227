//! Other servers are started, answer our client, are metered, and leave nothing running.

use bench::lab::Namespace;
use bench::result::Outcome;
use bench::servers::{Placement, ScratchDir, ServerError, TestServer, command, ganesha, knfsd};
use client::{Client, Identity};
use std::time::{Duration, Instant};
use testing::{Missing, skip};

const PATIENCE: Duration = Duration::from_secs(60);

/// The server, or a message why it is skipped.
fn unless_unable(started: Result<TestServer, ServerError>, missing: Missing) -> Option<TestServer> {
    match started {
        Ok(server) => Some(server),
        Err(error) if matches!(error.outcome(), Outcome::Unable(_)) => {
            skip(missing, error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn network() -> Option<Namespace> {
    Namespace::new("peers").map_err(|error| skip(Missing::Namespaces, error)).ok()
}

/// Mounts, reads the file `f` and compares it.
fn check_read(server: &TestServer, data: &[u8]) {
    let work = || {
        let root = Some(Identity::root());
        let addr = (server.nfs().ip(), server.mount_port()).into();
        let mut mount = Client::tcp(addr, PATIENCE).unwrap();
        mount.set_identity(root.clone());
        let handle = mount.mount(server.export().as_bytes()).unwrap();
        let mut nfs = Client::tcp(server.nfs(), PATIENCE).unwrap();
        nfs.set_identity(root);
        let file = nfs.lookup(&handle, b"f").unwrap().handle;
        assert_eq!(nfs.read(&file, 0, 1 << 16).unwrap().data, data);
    };
    match server.namespace() {
        Some(namespace) => namespace.run(work).unwrap(),
        None => work(),
    }
}

fn gone(pid: u32) {
    let begun = Instant::now();
    while sys::child::exists(pid) {
        assert!(begun.elapsed() < PATIENCE, "{pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ganesha_serves_a_directory_and_stops() {
    let Some(namespace) = network() else { return };
    let scratch = ScratchDir::new().unwrap();
    scratch.file("f", "some words").unwrap();
    let place = Placement::inside(&namespace);
    let Some(mut server) = unless_unable(ganesha::start(scratch.path(), &place), Missing::Program)
    else {
        return;
    };
    let before = server.reading().unwrap();
    check_read(&server, b"some words");
    let usage = server.reading().unwrap().since(&before);
    assert!(usage.cpu_ns > 0 && usage.threads > 1 && usage.rss_bytes > 1 << 20, "{usage:?}");
    let name = std::fs::read_to_string(format!("/proc/{}/comm", server.pid())).unwrap();
    assert!(name.starts_with("ganesha"), "{name}");
    assert!(server.set("threads", "1..2").unwrap_err().to_string().contains("control socket"));
    let pid = server.pid();
    let begun = Instant::now();
    drop(server);
    gone(pid);
    eprintln!("ganesha: {usage:?}, stopped in {:?}", begun.elapsed());
}

#[test]
fn the_death_of_a_server_is_detected() {
    let Some(namespace) = network() else { return };
    let scratch = ScratchDir::new().unwrap();
    let place = Placement::inside(&namespace);
    let Some(mut server) = unless_unable(ganesha::start(scratch.path(), &place), Missing::Program)
    else {
        return;
    };
    sys::child::end(server.pid(), sys::child::Ending::Kill).unwrap();
    let begun = Instant::now();
    let error = loop {
        match server.check() {
            Ok(()) => assert!(begun.elapsed() < PATIENCE, "it lives"),
            Err(error) => break error,
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(matches!(&error, ServerError::Died { name, .. } if name == "ganesha"), "{error}");
    assert!(server.reading().is_err());
}

#[test]
#[ignore = "runs inside a guest, whose kernel has a server"]
fn knfsd_serves_a_directory_and_stops() {
    let Some(namespace) = network() else { return };
    let scratch = ScratchDir::new().unwrap();
    scratch.file("f", "kernel").unwrap();
    let started = knfsd::start(scratch.path(), &Placement::inside(&namespace));
    let Some(mut server) = unless_unable(started, Missing::Kernel) else { return };
    check_read(&server, b"kernel");
    assert!(server.reading().is_ok());
}

#[test]
fn a_command_that_is_not_a_server_does_not_start() {
    let scratch = ScratchDir::new().unwrap();
    let place = Placement::default();
    let begun = Instant::now();
    let error = command::start("sleep 0.5 # {PORT}", scratch.path(), &place).unwrap_err();
    assert!(matches!(&error, ServerError::DidNotStart { name, .. } if name == "sleep"), "{error}");
    assert!(begun.elapsed() < PATIENCE);
}
