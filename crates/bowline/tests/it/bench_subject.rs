//! The program as a server under test: started, set, metered and stopped by the benchmark's own means.

use bench::lab::{Link, LinkOptions, Namespace};
use bench::servers::bowline::{Export, Options, start};
use bench::servers::{Placement, ScratchDir, ServerError, command};
use client::{Client, Identity};
use std::path::PathBuf;
use std::time::Duration;
use testing::{Missing, skip};

const PATIENCE: Duration = Duration::from_secs(60);

fn program() -> Option<PathBuf> {
    Some(env!("CARGO_BIN_EXE_bowline").into())
}

#[test]
fn wan_write_in_a_network_namespace_is_unable() {
    if !testing::is_root() {
        skip(Missing::Root, "a network namespace");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let mut run = std::process::Command::new("unshare");
    run.args([
        "-n",
        env!("CARGO_BIN_EXE_bowline"),
        "bench",
        "run",
        "wan-write",
        "--quick",
        "--out",
    ]);
    let output = run.arg(out.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("wan-write: cannot run here: "), "{text}");
    assert!(text.contains("net.ipv4.tcp_mem is not visible in a network namespace"), "{text}");
    let findings = std::fs::read_to_string(out.path().join("wan-write.json")).unwrap();
    assert!(findings.contains("\"unable\""), "{findings}");
}

#[test]
fn a_server_can_be_started_configured_measured_and_stopped() {
    let scratch = ScratchDir::new().unwrap();
    scratch.file("f", "words").unwrap();
    let options = Options { program: program(), ..Options::of_dir(scratch.path()) };
    let mut server = start(&options.set("threads", "2..4")).unwrap();
    assert!(server.command().contains("--set threads=2..4"), "{}", server.command());
    let before = server.reading().unwrap();
    let mut client = Client::tcp(server.nfs(), PATIENCE).unwrap();
    client.set_identity(Some(Identity::root()));
    let root = client.mount(server.export().as_bytes()).unwrap();
    let file = client.lookup(&root, b"f").unwrap().handle;
    assert_eq!(client.read(&file, 0, 100).unwrap().data, b"words");
    let usage = server.reading().unwrap().since(&before);
    assert!(usage.cpu_ns > 0 && usage.rss_bytes > 0, "{usage:?}");
    assert_eq!(server.set("threads", "3..5").unwrap(), "3..5");
    let refused = server.set("threads", "none").unwrap_err();
    assert!(matches!(refused, ServerError::Refused { .. }), "{refused}");
    let pid = server.pid();
    server.stop(PATIENCE).unwrap();
    assert!(!sys::child::exists(pid));
}

#[test]
fn an_unknown_setting_prevents_the_start_with_a_message() {
    let options = Options { program: program(), ..Options::of_memory() };
    let error = start(&options.set("no-such-setting", "1")).unwrap_err();
    assert!(
        matches!(&error, ServerError::DidNotStart { name, .. } if name == "bowline"),
        "{error}"
    );
    assert!(error.to_string().contains("no-such-setting"), "{error}");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
}

#[test]
fn bowline_serves_over_a_simulated_link() {
    let options = LinkOptions { rtt: Duration::from_millis(20), ..LinkOptions::default() };
    let link = match Link::start(&options) {
        Ok(link) => link,
        Err(error) => return skip(Missing::Namespaces, error),
    };
    let options = Options {
        program: program(),
        listen: vec![link.server_addr],
        export: Export::Memory("far".into()),
        place: Placement::inside(&link.server),
        ..Options::of_memory()
    };
    let server = start(&options).unwrap();
    assert_eq!(server.export(), "/far");
    let took = link.client.run(|| {
        let mut client = Client::tcp(server.nfs(), PATIENCE).unwrap();
        client.null().unwrap();
        let begun = std::time::Instant::now();
        client.null().unwrap();
        begun.elapsed()
    });
    assert!(took.unwrap() >= Duration::from_millis(20));
}

#[test]
fn any_command_can_be_the_server() {
    let scratch = ScratchDir::new().unwrap();
    let place = match Namespace::new("command") {
        Ok(namespace) => Placement::inside(&namespace),
        Err(_) => Placement::default(),
    };
    let line = format!(
        "{} serve {{DIR}} --port {{PORT}} --portmap off --state-dir {1}/state --control {1}/c",
        env!("CARGO_BIN_EXE_bowline"),
        scratch.path().display()
    );
    let dir = scratch.dir("served dir").unwrap();
    let mut server = command::start(&line, &dir, &place).unwrap();
    assert_eq!((server.name(), server.control()), ("bowline", None));
    assert!(server.export().ends_with("served dir"));
    server.check().unwrap();
}

#[test]
fn mktree_creates_the_tree_and_continues_it() {
    let scratch = ScratchDir::new().unwrap();
    let top = scratch.path().join("tree");
    let run = |scale: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(["bench", "mktree", "--json", "--scale", scale]).arg(&top).output().unwrap()
    };
    for present in [0, 54 + 807] {
        let output = run("0.005");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&made["directories"], &made["files"]), (&54.into(), &807.into()));
        assert_eq!(made["present"], present);
    }
    let refused = run("0");
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.starts_with("bowline: a scale of 0") && words.lines().count() == 1, "{words}");
}
