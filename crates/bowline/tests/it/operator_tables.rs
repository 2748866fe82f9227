//! What an operator finds out about trouble: a call that sleeps, a client that is refused or wants another version,
//! an rpcbind that was restarted.

use crate::rig::{BOWLINE, Server, text};
use client::nfs4::{Operations, results, results_inside, succeeded};
use client::{Client, Identity, Target};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, ClientAddr4, Createhow4, Fattr4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4,
    SetclientidArgs, SetclientidConfirmArgs, op,
};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testing::{FuseOp, FuseTree, Missing, is_root, skip};

const PATIENCE: Duration = Duration::from_secs(60);

/// A client with a port that exports take.
pub fn connect(server: &Server) -> Client {
    let at: SocketAddr = ([127, 0, 0, 1], server.port).into();
    match sys::outgoing::connect_reserved(at) {
        Ok(stream) => Client::over_tcp(stream, PATIENCE).unwrap(),
        Err(_) => Client::tcp(at, PATIENCE).unwrap(),
    }
}

#[test]
fn conns_shows_the_oldest_call_blocked_in_a_file_system() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mount = dir.path().join("tree");
    let Some(tree) = FuseTree::mount(&mount, &[("a", b"data")]) else { return };
    let server = Server::start(&[&format!("slow={}", mount.display())]);
    let mut client = connect(&server);
    let root = client.mount(b"/slow").unwrap();
    let file = client.lookup(&root, b"a").unwrap().handle;
    tree.hang(&[FuseOp::Read]);
    let reader = std::thread::spawn(move || client.read(&file, 0, 4).map(|done| done.data.len()));
    tree.wait_until_held(FuseOp::Read, 1);
    std::thread::sleep(Duration::from_millis(300));
    let conns = server.json("conns");
    let row = &conns[0];
    assert_eq!(row["oldest_blocked"]["call"], "nfs v3 READ", "{row}");
    assert_eq!(row["oldest_blocked"]["export"], "/slow", "{row}");
    assert!(row["oldest_blocked"]["age_ms"].as_u64().unwrap() >= 300, "{row}");
    assert_eq!(row["link"]["limit"], "disk", "{row}");
    let top = server.ask(&["top", "--once", "--view", "calls", "--interval", "0.1"]);
    let page = text(&top.stdout);
    let path = mount.join("a");
    let call =
        page.lines().find(|line| line.contains("nfs v3 READ")).unwrap_or_else(|| panic!("{page}"));
    assert!(call.contains("127.0.0.1:") && call.contains(" of "), "{page}");
    assert!(call.contains(path.to_str().unwrap()), "{page}");
    let page = text(&server.ask(&["conns"]).stdout);
    assert!(page.contains("OLDEST") && page.contains("  disk"), "{page}");
    tree.release();
    assert_eq!(reader.join().unwrap().unwrap(), 4);
    assert!(server.json("conns")[0]["oldest_blocked"].is_null());
}

#[test]
fn exports_and_clients_show_refusals_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = dir.path().join("exports");
    let path = dir.path().to_str().unwrap();
    std::fs::write(&file, format!("{path} 192.0.2.1(ro)\n")).unwrap();
    let server = Server::start(&["--exports", file.to_str().unwrap()]);
    let mut client = connect(&server);
    for _ in 0..2 {
        client.mount(path.as_bytes()).unwrap_err();
    }
    let exports = server.json("exports");
    let row = exports.as_array().unwrap().iter().find(|row| row["path"] == path).unwrap();
    assert_eq!(
        (row["refused"].as_u64(), row["last_refusal"].as_str()),
        (Some(2), Some("not a client of this export"))
    );
    client.mount(b"/none").unwrap_err();
    let clients = server.json("clients");
    assert_eq!(clients[0]["refused"], 3, "{clients}");
    assert_eq!(clients[0]["last_refusal"], "/none: no such export", "{clients}");
    let page = text(&server.ask(&["clients"]).stdout);
    assert!(page.contains("REFUSED") && page.contains("3: /none: no such export"), "{page}");
    assert!(text(&server.ask(&["exports"]).stdout).contains("2: not a client of this export"));
    // a call by a handle from before a reload that removed the client
    let mut mounted = connect(&server);
    let served = server.served();
    std::fs::write(&file, format!("{path} 127.0.0.1(ro,insecure)\n")).unwrap();
    assert!(server.ask(&["reload"]).status.success());
    let root = mounted.mount(path.as_bytes()).unwrap();
    std::fs::write(&file, format!("{path} 192.0.2.1(ro)\n")).unwrap();
    assert!(server.ask(&["reload"]).status.success());
    mounted.getattr(&root).unwrap_err();
    let exports = server.json("exports");
    let row = exports.as_array().unwrap().iter().find(|row| row["path"] == path).unwrap();
    assert_eq!(row["refused"], 3, "{row}");
    assert!(served.exists());
}

#[test]
fn a_client_of_an_unserved_version_is_logged_once() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut server = Server::start_with(&[], |command| {
        command.stderr(log.reopen().unwrap());
    });
    let mut client = connect(&server);
    for version in [9, 9, 10] {
        let target = Target { program: 100_003, version, procedure: 0 };
        client.call(target, &client::Nothing).unwrap_err();
    }
    server.signal("-TERM");
    assert_eq!(server.ended(), Some(0));
    let lines = std::fs::read_to_string(log.path()).unwrap();
    let named: Vec<_> =
        lines.lines().filter(|line| line.contains("requests NFS version")).collect();
    assert_eq!(named.len(), 1, "{lines}");
    assert!(
        named[0].contains("127.0.0.1 requests NFS version 9") && named[0].contains("option vers=3")
    );
}

#[test]
fn a_watched_table_is_printed_repeatedly() {
    let server = Server::start(&[]);
    let mut commands = Vec::new();
    for table in ["status", "exports", "clients", "conns", "ops", "pools", "sockets"] {
        let mut command = Command::new(BOWLINE);
        command.args([table, "--json", "--watch", "0.1", "--control"]).arg(server.control());
        commands.push((table, command.stdout(Stdio::piped()).spawn().unwrap()));
    }
    for (table, mut child) in commands {
        let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .take(3)
            .map(Result::unwrap)
            .collect();
        assert_eq!(lines.len(), 3, "{table}");
        for line in &lines {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value.is_array() || value.is_object());
        }
        // nobody reads any more: it ends by itself
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begun.elapsed() > PATIENCE => panic!("{table} goes on"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        assert!(status.success(), "{table}");
    }
}

/// Restarts rpcbind twice under a server: the first time a reload registers it again, the second time it does so by
/// itself.
const RPCBIND_SCRIPT: &str = r#"
    set -e
    ip link set lo up
    mount -t tmpfs none /run
    mkdir /run/rpcbind
    begin() {
        rpcbind -f & rpcbind=$!
        for i in $(seq 100); do rpcinfo -p 127.0.0.1 >/dev/null 2>&1 && return; sleep 0.05; done
    }
    registered() { rpcinfo -p 127.0.0.1 | grep -c "100003 .*2049 " || true; }
    again() { kill $rpcbind; wait $rpcbind || true; begin; [ "$(registered)" = 0 ]; }
    begin
    "$1" serve m=mem: --portmap register --state-dir "$2/s" --control "$2/c" >"$2/out" 2>"$2/log" & server=$!
    trap 'kill $server $rpcbind; wait' EXIT
    for i in $(seq 200); do grep -q ^control: "$2/out" && break; sleep 0.05; done
    [ "$(registered)" = 5 ]
    again
    "$1" reload --control "$2/c"
    [ "$(registered)" = 5 ]
    again
    for i in $(seq 300); do [ "$(registered)" = 5 ] && break; sleep 0.1; done
    [ "$(registered)" = 5 ]
    cat "$2/log"
    echo done
"#;

#[test]
fn services_are_registered_again_with_a_restarted_rpcbind() {
    if !is_root() || !Path::new("/usr/sbin/rpcbind").exists() {
        skip(Missing::Program, "root and rpcbind");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["-n", "-m", "sh", "-c", RPCBIND_SCRIPT, "sh", BOWLINE])
        .arg(dir.path())
        .output()
        .unwrap();
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && told.ends_with("done\n"), "{told}\n{errors}");
    assert!(told.contains("note: rpcbind had lost"), "the reload says so: {told}");
    assert!(told.contains("portmapper: rpcbind had lost"), "the log says so: {told}");
}

#[test]
fn top_shows_current_rates() {
    let server = Server::start(&["m=mem:"]);
    let at = server.control();
    let mut top = Command::new(BOWLINE);
    top.args(["top", "--once", "--json", "--interval", "1", "--control"]).arg(&at);
    let mut client = connect(&server);
    let root = client.mount(b"/m").unwrap();
    let mut top = top.stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let mut calls = 0_u32;
    while top.try_wait().unwrap().is_none() {
        client.getattr(&root).unwrap();
        calls += 1;
    }
    let per_s = f64::from(calls) / begun.elapsed().as_secs_f64();
    let output = top.wait_with_output().unwrap();
    assert!(output.status.success());
    let rates: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = |view: &str, name: &str| {
        let rows = rates[view].as_array().unwrap();
        rows.iter().find(|row| row["name"].as_str().unwrap().starts_with(name)).cloned().unwrap()
    };
    for (view, name) in [
        ("clients", "127.0.0.1"),
        ("exports", "/m"),
        ("operations", "nfs v3 GETATTR"),
        ("connections", "127.0.0.1:"),
        ("pools", "pool 0"),
    ] {
        let row = found(view, name);
        let rate = row["calls_per_s"].as_f64().unwrap();
        assert!(rate > per_s / 10.0 && rate < per_s * 10.0, "{view}: {rate} of {per_s}");
    }
    let getattr = found("operations", "nfs v3 GETATTR");
    let (p50, p99) = (getattr["p50_ns"].as_u64().unwrap(), getattr["p99_ns"].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p99 && p99 < 10_000_000_000, "{getattr}");
    let text =
        text(&server.ask(&["top", "--once", "--view", "exports", "--interval", "0.2"]).stdout);
    assert!(text.contains("exports, over 0.") && text.contains("/m"), "{text}");
    let no_terminal = server.ask(&["top"]);
    assert_eq!(no_terminal.status.code(), Some(1));
    let error = String::from_utf8_lossy(&no_terminal.stderr).into_owned();
    assert!(error.contains("write `bowline top --once`"), "{error}");
}

#[test]
fn names_of_hosts_are_shown_beside_their_addresses() {
    let server = Server::start(&["m=mem:"]);
    let mut client = connect(&server);
    client.mount(b"/m").unwrap();
    let page = |command: &[&str]| text(&server.ask(command).stdout);
    // as the machine calls itself
    let name = sys::name_service::name_of([127, 0, 0, 1].into()).unwrap().unwrap();
    let beside = format!("127.0.0.1 ({name})");
    assert!(page(&["clients", "--names"]).contains(&beside), "{}", page(&["clients", "--names"]));
    assert!(!page(&["clients"]).contains(&name));
    let conns = page(&["conns", "--names"]);
    assert!(
        conns.lines().any(|line| line.starts_with("127.0.0.1:") && line.contains(&name)),
        "{conns}"
    );
    let top = page(&["top", "--once", "--names", "--interval", "0.2"]);
    assert!(top.contains(&beside), "{top}");
    let refused = server.ask(&["clients", "--names", "--json"]);
    assert_eq!(refused.status.code(), Some(2), "JSON has addresses alone");
}

#[test]
fn sessions_and_opens_of_version_4_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let server =
        Server::start(&[&format!("tree={}", dir.path().display()), "--set", "versions=3,4.0,4.1"]);
    let mut client = connect(&server);
    client.set_identity(Some(Identity::new(65_534, 65_534)));
    let mut session = client.open_session(b"a machine", 4).unwrap();
    let args = OpenArgs {
        seqid: 0,
        share_access: 3,
        share_deny: 2,
        owner: OpenOwner4 { clientid: session.client_id, owner: Bytes(b"one") },
        how: OpenHow4::Create(Createhow4::Unchecked(Fattr4 {
            mask: Bitmap4::NONE,
            values: Bytes(b""),
        })),
        claim: OpenClaim4::Null(Bytes(b"file")),
    };
    let operations = Operations::new()
        .bare(op::PUTROOTFH)
        .with(op::LOOKUP, &Bytes::<255>(b"tree"))
        .with(op::OPEN, &args);
    results_inside(&client.compound(&mut session, &operations).unwrap()).unwrap();
    let sessions = server.json("sessions");
    let row = &sessions[0];
    assert_eq!(
        (row["address"].as_str(), row["client"].as_str()),
        (Some("127.0.0.1"), Some("a machine"))
    );
    assert_eq!((row["state"].as_str(), row["opens"].as_u64()), (Some("active"), Some(1)), "{row}");
    assert_eq!((row["slots"].as_u64(), row["slots_used"].as_u64()), (Some(4), Some(1)), "{row}");
    let opens = server.json("opens");
    let row = &opens[0];
    assert_eq!(row["file"].as_str(), dir.path().join("file").to_str(), "{row}");
    assert_eq!(
        (row["access"].as_str(), row["deny"].as_str()),
        (Some("read and write"), Some("write"))
    );
    assert_eq!((row["export"].as_str(), row["owner"].as_str()), (Some("/tree"), Some("one")));
    let clients = server.json("clients");
    assert_eq!((clients[0]["sessions"].as_u64(), clients[0]["opens"].as_u64()), (Some(1), Some(1)));
    let page = text(&server.ask(&["sessions"]).stdout);
    assert!(page.contains("127.0.0.1 a machine") && page.contains("active"), "{page}");
    let page = text(&server.ask(&["opens"]).stdout);
    assert!(page.contains("/file") && page.contains("read and write"), "{page}");
    let known = SetclientidArgs {
        verifier: [1; 8],
        id: Bytes(b"an old machine"),
        cb_program: 0,
        cb_location: ClientAddr4 { netid: Bytes(b"tcp"), addr: Bytes(b"") },
        callback_ident: 0,
    };
    let known = client.compound_alone(0, &Operations::new().with(op::SETCLIENTID, &known)).unwrap();
    let mut r = results(&known).unwrap();
    succeeded(&mut r, op::SETCLIENTID).unwrap();
    let confirm =
        SetclientidConfirmArgs { clientid: r.u64().unwrap(), confirm: r.array().unwrap() };
    let confirm = Operations::new().with(op::SETCLIENTID_CONFIRM, &confirm);
    results(&client.compound_alone(0, &confirm).unwrap()).unwrap();
    let sessions = server.json("sessions");
    let row = &sessions[1];
    assert_eq!((row["client"].as_str(), row["id"].as_str()), (Some("an old machine"), Some("")));
    assert_eq!(row["owners"], 0, "{row}");
    let page = text(&server.ask(&["sessions"]).stdout);
    assert!(page.contains("none: version 4.0"), "{page}");
    let ops = server.json("ops");
    let opened = ops.as_array().unwrap().iter().find(|row| row["procedure"] == "OPEN");
    assert!(opened.is_some_and(|row| row["inside"] == 1 && row["inside_failed"] == 0), "{ops}");
}

#[test]
fn clients_over_udp_are_counted() {
    let server = Server::start(&[]);
    let at = format!("127.0.0.1:{}", server.port).parse().unwrap();
    let mut client = Client::udp(at, Duration::from_secs(60)).unwrap();
    for _ in 0..5 {
        client.mount_null(3).unwrap();
    }
    let rows = server.json("clients");
    assert_eq!((&rows[0]["address"], &rows[0]["connections"]), (&"127.0.0.1".into(), &0.into()));
    assert!(rows[0]["udp_calls"].as_u64().unwrap() >= 5, "{rows}");
    assert_eq!(rows[0]["udp_calls"], rows[0]["calls"], "{rows}");
    // a NULL is 40 bytes or more, its reply 24
    assert!(rows[0]["bytes_in"].as_u64().unwrap() >= 5 * 40, "{rows}");
    assert!(rows[0]["bytes_out"].as_u64().unwrap() >= 5 * 24, "{rows}");
    let metrics = text(&server.ask(&["metrics"]).stdout);
    assert!(metrics.contains("\nbowline_udp_clients 1\n"), "{metrics}");
}
