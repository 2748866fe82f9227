//! Exports whose file system hangs: they cost themselves, and neither the other exports, nor the operator, nor the
//! start, nor the stop. The file system is one of our own over `/dev/fuse`.

use crate::rig::{Server, free_port, text, told};
use client::{Client, Error, Fh, Identity, Target};
use proto::nfs3::{CreateHow3, Sattr3, SetattrArgs, StableHow};
use std::fs::{self, File};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testing::{FuseOp, FuseTree};

/// How long an answer may take that must not wait for a hung file system, on a loaded machine.
const BOUNDED: Duration = Duration::from_secs(20);

/// A server with the export `served` and others over FUSE, in an exports file.
struct Rig {
    /// Dropped first: the server does not end before.
    trees: Vec<FuseTree>,
    server: Server,
    exports: PathBuf,
    log: PathBuf,
    /// An export that does not hang.
    plain: PathBuf,
    _dir: tempfile::TempDir,
}

fn exports_of(trees: &[FuseTree], plain: &Path) -> String {
    let plain = format!("{} *(rw,insecure,no_root_squash)\n", plain.display());
    let line =
        |tree: &FuseTree| format!("{} *(rw,insecure,no_root_squash)\n", tree.path().display());
    trees.iter().map(line).chain([plain]).collect()
}

impl Rig {
    /// `None` where there is no FUSE. `hang` is called when the trees are mounted.
    fn start(count: usize, args: &[&str], hang: impl Fn(&FuseTree)) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = |n| FuseTree::mount(&dir.path().join(format!("t{n}")), &[("a", b"data")]);
        let trees: Vec<FuseTree> = (0..count).map(mount).collect::<Option<_>>()?;
        trees.iter().for_each(hang);
        let (exports, log) = (dir.path().join("exports"), dir.path().join("log"));
        let plain = dir.path().join("plain");
        fs::create_dir(&plain).unwrap();
        fs::write(plain.join("hello.txt"), "hello, world\n").unwrap();
        fs::write(&exports, exports_of(&trees, &plain)).unwrap();
        let all = [&["--exports", exports.to_str().unwrap()], args].concat();
        let error = File::create(&log).unwrap();
        let server = Server::start_with(&all, |command| {
            command.stderr(error);
        });
        Some(Self { trees, server, exports, log, plain, _dir: dir })
    }

    fn client(&self) -> Client {
        let at = SocketAddr::from(([127, 0, 0, 1], self.server.port));
        let mut client = Client::tcp(at, BOUNDED).unwrap();
        client.set_identity(Some(Identity::root()));
        client
    }

    fn mount(&self, client: &mut Client, path: &Path) -> Result<Fh, Error> {
        client.mount(path.to_str().unwrap().as_bytes())
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Works with the export that does not hang.
    fn use_the_other(&self) {
        let mut client = self.client();
        let root = self.mount(&mut client, &self.plain).unwrap();
        let found = client.lookup(&root, b"hello.txt").unwrap();
        assert_eq!(client.read(&found.handle, 0, 100).unwrap().data, b"hello, world\n");
    }

    /// Asks the control socket, which has to answer in bounded time.
    fn ask(&self, command: &[&str]) -> String {
        let begun = Instant::now();
        let output = self.server.ask(command);
        assert!(begun.elapsed() < BOUNDED, "{command:?}");
        assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn release(&self) {
        self.trees.iter().for_each(FuseTree::release);
    }
}

/// How many threads of the server have this name.
fn threads(rig: &Rig, name: &str) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", rig.server.child.id())).unwrap();
    let paths = tasks.filter_map(|task| Some(task.ok()?.path().join("comm")));
    paths.filter(|path| fs::read_to_string(path).is_ok_and(|comm| comm.trim() == name)).count()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn reloads_are_answered_while_an_export_hangs() {
    let Some(rig) = Rig::start(1, &[], |_| ()) else { return };
    let mut client = rig.client();
    let root = rig.mount(&mut client, rig.trees[0].path()).unwrap();
    rig.trees[0].hang_all();
    // more than the control socket has places for
    for _ in 0..34 {
        let said = rig.ask(&["reload"]);
        assert!(said.contains("does not answer; the previous export stays in use"), "{said}");
    }
    rig.ask(&["status"]);
    rig.use_the_other();
    // the one that removes it
    fs::write(&rig.exports, exports_of(&[], &rig.plain)).unwrap();
    let would = rig.ask(&["reload", "--dry-run"]);
    assert!(would.contains("no longer exported\n") && would.contains("not applied"), "{would}");
    assert!(rig.ask(&["exports"]).contains("/t0"), "nothing was changed");
    assert!(rig.ask(&["reload"]).contains("no longer exported\n"));
    rig.use_the_other();
    rig.release();
    assert!(matches!(client.getattr(&root), Err(Error::Nfs { .. })));
}

#[test]
fn a_hung_export_is_served_once_its_file_system_answers() {
    let Some(rig) = Rig::start(3, &[], FuseTree::hang_all) else { return };
    rig.use_the_other();
    let log = rig.log();
    assert_eq!(log.matches("is not served: its file system does not answer").count(), 3, "{log}");
    assert!(log.contains("exports:1: ") && log.contains("exports:3: "), "{log}");
    let status = rig.server.json("status");
    assert_eq!(status["state"], "degraded");
    assert_eq!(status["waiting_exports"].as_array().unwrap().len(), 3);
    assert_eq!(status["exports"], 2);
    let rows = rig.server.json("exports");
    let states: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["served", "served", "waiting", "waiting", "waiting"]);
    let mut client = rig.client();
    assert!(rig.mount(&mut client, rig.trees[0].path()).is_err(), "it is not served yet");
    // one begins of each, however often it is tried
    for _ in 0..5 {
        rig.ask(&["reload"]);
    }
    let openers = || threads(&rig, "export-opener");
    until("a thread for each that hangs, and no other, is left", || openers() == 3);
    rig.release();
    until("all are served", || rig.server.json("status")["state"] == "ok");
    for tree in &rig.trees {
        let root = rig.mount(&mut client, tree.path()).unwrap();
        assert_eq!(client.lookup(&root, b"a").unwrap().attr.unwrap().size, 4);
    }
    assert_eq!(rig.log().matches(": now served to ").count(), 3);
}

/// Handles that clients have of an export stay good over a start in which it hangs.
#[test]
fn handles_of_a_waiting_export_fail_with_jukebox() {
    let Some(mut rig) = Rig::start(1, &[], |_| ()) else { return };
    let mut client = rig.client();
    let root = rig.mount(&mut client, rig.trees[0].path()).unwrap();
    rig.server.signal("-TERM");
    rig.server.ended();
    rig.trees[0].hang_all();
    rig.server.start_again();
    let mut client = rig.client();
    let error = client.getattr(&root).unwrap_err().to_string();
    assert!(
        error.to_ascii_lowercase().contains("jukebox") || error.contains("try again"),
        "{error}"
    );
    rig.release();
    until("it is served", || client.getattr(&root).is_ok());
}

/// Sends calls that hang, and waits until they do.
fn hang_calls(rig: &Rig, clients: &mut [Client], op: FuseOp) {
    for client in clients.iter_mut() {
        let root = rig.mount(client, rig.trees[0].path()).unwrap();
        let file = client.lookup(&root, b"a").unwrap().handle;
        client.read(&file, 0, 4).unwrap();
        rig.trees[0].hang(&[op]);
        client.send_read(&file, 0, 4).unwrap();
        rig.trees[0].wait_until_held(op, 1);
        rig.trees[0].hang(&[]);
    }
}

/// After ten seconds, to whoever reads the log and to whoever looks.
#[test]
fn a_hung_call_names_itself_in_the_log_and_in_top() {
    let Some(rig) = Rig::start(1, &[], |_| ()) else { return };
    let mut clients = [rig.client()];
    hang_calls(&rig, &mut clients, FuseOp::Read);
    let export = rig.trees[0].path().display().to_string();
    let parts = [
        "nfs v3 READ of 127.0.0.1:".to_owned(),
        format!(" in {export}, in p"),
        format!(" of {export}/a; the file system does not answer"),
    ];
    until("the log names the call", || rig.log().contains("hung for 1"));
    let log = rig.log();
    let line = log.lines().find(|line| line.contains("hung for 1")).unwrap();
    assert!(parts.iter().all(|part| line.contains(part)), "{parts:?}: {line}");
    assert!(line.contains("WARN"), "{line}");
    let page = rig.ask(&["top", "--once", "--interval", "0.2"]);
    let problem = page.lines().find(|line| line.starts_with("warning: ")).unwrap();
    assert!(
        problem.contains(&format!("{export} does not answer: nfs v3 READ of 127.0.0.1:")),
        "{page}"
    );
    assert!(problem.contains(&format!(" of {export}/a")), "{page}");
    assert!(page.contains("waits for the disk, nfs v3 READ in "), "{page}");
    let calls = rig.ask(&["top", "--once", "--interval", "0.2", "--view", "calls"]);
    let call = calls.lines().find(|line| line.starts_with("nfs v3 READ")).unwrap();
    assert!(
        call.contains(" s  127.0.0.1:") && call.contains(&format!(" of {export}/a")),
        "{calls}"
    );
    rig.release();
    until("the log says that it has ended", || rig.log().contains("no longer hung: nfs v3 READ"));
    assert_eq!(rig.log().matches("hung for 1").count(), 1, "{}", rig.log());
}

/// More calls than all threads, and more than one connection may have under way.
#[test]
fn a_flood_of_calls_to_a_hung_export_does_not_block_others() {
    const CONNECTIONS: usize = 86;
    const DEPTH: usize = 128;
    let Some(rig) = Rig::start(1, &[], |_| ()) else { return };
    let mut first = rig.client();
    let root = rig.mount(&mut first, rig.trees[0].path()).unwrap();
    let file = first.lookup(&root, b"a").unwrap().handle;
    first.read(&file, 0, 4).unwrap();
    rig.trees[0].hang(&[FuseOp::Read]);
    let mut flood: Vec<Client> = (0..CONNECTIONS).map(|_| rig.client()).collect();
    for client in &mut flood {
        for _ in 0..DEPTH {
            client.send_read(&file, 0, 4).unwrap();
        }
    }
    rig.trees[0].wait_until_held(FuseOp::Read, 1);
    let blocked = || rig.server.json("status")["blocked_exports"][0].clone();
    until("calls beyond the share are refused", || {
        blocked()["refused"].as_u64().is_some_and(|n| n > 0)
    });
    // both kinds of calls of the other export, those that need a thread to block in as well
    let mut client = rig.client();
    let root = rig.mount(&mut client, &rig.plain).unwrap();
    let hello = client.lookup(&root, b"hello.txt").unwrap().handle;
    for n in 0..50 {
        let name = format!("new{n}");
        let made = client.mkdir(&root, name.as_bytes(), Sattr3::default());
        made.unwrap();
        for _ in 0..40 {
            assert_eq!(client.read(&hello, 0, 100).unwrap().data, b"hello, world\n");
        }
    }
    let still = blocked();
    assert!(still["calls"].as_u64().unwrap() > 0, "it hung all the time: {still}");
    assert!(still["path"].as_str().unwrap().ends_with("/t0"), "{still}");
    rig.release();
    until("the calls that hung have ended", || {
        blocked()["calls"].as_u64().is_none_or(|calls| calls == 0)
    });
    let mut after = rig.client();
    assert_eq!(after.read(&file, 0, 4).unwrap().data, b"data");
}

/// Sends so many calls of each kind that a file system asks another process for, even of an open file.
fn send_of_each_kind(client: &mut Client, file: &Fh, count: usize) {
    let wire = || proto::nfs3::Fh { 0: file.bytes() };
    let target = |procedure| Target { program: proto::nfs3::PROGRAM, version: 3, procedure };
    let set = proto::nfs3::Sattr3 { mode: Some(0o644), ..Default::default() };
    for _ in 0..count {
        client.send(target(proto::nfs3::procedure::GETATTR), &wire()).unwrap();
        let change = SetattrArgs { object: wire(), set, guard: None };
        client.send(target(proto::nfs3::procedure::SETATTR), &change).unwrap();
    }
}

/// GETATTR and SETATTR of an open file of a local file system wait for nothing; here they do.
#[test]
fn a_flood_of_getattr_and_setattr_to_a_hung_export_blocks_no_others() {
    let Some(rig) = Rig::start(1, &[], |_| ()) else { return };
    let mut first = rig.client();
    let root = rig.mount(&mut first, rig.trees[0].path()).unwrap();
    let file = first.lookup(&root, b"a").unwrap().handle;
    first.getattr(&file).unwrap();
    rig.trees[0].hang_all();
    let mut flood: Vec<Client> = (0..8).map(|_| rig.client()).collect();
    for client in &mut flood {
        send_of_each_kind(client, &file, 64);
    }
    rig.trees[0].wait_until_held(FuseOp::GetAttr, 1);
    let blocked = || rig.server.json("status")["blocked_exports"][0].clone();
    until("calls beyond the share are refused", || {
        blocked()["refused"].as_u64().is_some_and(|n| n > 0)
    });
    let mut client = rig.client();
    let root = rig.mount(&mut client, &rig.plain).unwrap();
    for n in 0..50 {
        let name = format!("new{n}");
        let made = client.mkdir(&root, name.as_bytes(), Sattr3::default());
        made.unwrap();
        client.getattr(&root).unwrap();
    }
    assert!(blocked()["calls"].as_u64().unwrap() > 0, "it hung all the time");
    rig.release();
    until("the calls that hung have ended", || {
        blocked()["calls"].as_u64().is_none_or(|calls| calls == 0)
    });
    assert!(rig.client().getattr(&file).is_ok());
}

/// Whether the server has a file open whose path ends so.
fn has_open(rig: &Rig, name: &str) -> bool {
    let fds = fs::read_dir(format!("/proc/{}/fd", rig.server.child.id())).unwrap();
    let links = fds.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    links.filter_map(|link| link.to_str().map(str::to_owned)).any(|link| link.ends_with(name))
}

/// One export closes no file, another does not say whether its files are still there: idle files of a third are
/// closed, with their space given back when they are removed behind the server's back.
#[test]
fn hung_file_systems_do_not_delay_closing_files_of_others() {
    let Some(rig) = Rig::start(2, &[], |_| ()) else { return };
    let mut client = rig.client();
    for tree in &rig.trees {
        let root = rig.mount(&mut client, tree.path()).unwrap();
        let file = client.lookup(&root, b"a").unwrap().handle;
        client.write(&file, 0, b"data", StableHow::FileSync).unwrap();
    }
    rig.trees[0].hang(&[FuseOp::Flush, FuseOp::Release]);
    rig.trees[1].hang(&[FuseOp::GetAttr]);
    // of idle files: nobody calls
    rig.trees[0].wait_until_held(FuseOp::Flush, 1);
    rig.trees[1].wait_until_held(FuseOp::GetAttr, 1);
    let root = rig.mount(&mut client, &rig.plain).unwrap();
    for round in 0..3 {
        let (written, removed) = (format!("written{round}"), format!("removed{round}"));
        for name in [&written, &removed] {
            let made =
                client.create(&root, name.as_bytes(), CreateHow3::Unchecked(Sattr3::default()));
            let file = made.unwrap().handle.unwrap();
            client.write(&file, 0, b"data", StableHow::FileSync).unwrap();
        }
        fs::remove_file(rig.plain.join(&removed)).unwrap();
        until("what was written is closed", || !has_open(&rig, &format!("/{written}")));
        until("what was removed is closed", || !has_open(&rig, " (deleted)"));
    }
    assert_eq!(rig.trees[0].held(FuseOp::Flush), 1, "it hung all the time");
    assert_eq!(rig.trees[1].held(FuseOp::GetAttr), 1);
    assert!((2..=4).contains(&threads(&rig, "file-closer")), "one for each that hangs");
    rig.release();
    until("all is closed", || !has_open(&rig, "/t0/a") && !has_open(&rig, "/t1/a"));
}

#[test]
fn sigterm_ends_a_server_with_hung_calls() {
    let Some(mut rig) = Rig::start(1, &[], |_| ()) else { return };
    rig.trees[0].answer_interrupts();
    let mut clients = [(); 3].map(|()| rig.client());
    hang_calls(&rig, &mut clients, FuseOp::Read);
    rig.trees[0].hang_all();
    let begun = Instant::now();
    rig.server.signal("-TERM");
    assert_eq!(rig.server.ended(), Some(0));
    assert!(begun.elapsed() < BOUNDED, "{:?}", begun.elapsed());
    let log = rig.log();
    assert!(log.contains("calls were still in progress and are cut off, in: "), "{log}");
}

#[test]
fn sigterm_ends_a_server_whose_files_cannot_be_closed() {
    let Some(mut rig) = Rig::start(1, &[], |_| ()) else { return };
    rig.trees[0].answer_interrupts();
    let mut client = rig.client();
    let root = rig.mount(&mut client, rig.trees[0].path()).unwrap();
    let file = client.lookup(&root, b"a").unwrap().handle;
    client.write(&file, 0, b"open", StableHow::Unstable).unwrap();
    rig.trees[0].hang(&[FuseOp::Flush, FuseOp::Release]);
    let begun = Instant::now();
    rig.server.signal("-TERM");
    assert_eq!(rig.server.ended(), Some(0));
    assert!(begun.elapsed() < BOUNDED, "{:?}", begun.elapsed());
}

/// The kernel does not end a process while one of its threads waits for a file system that answers nothing, not even
/// interrupts. The next server can take its place all the same.
#[test]
fn ports_and_state_are_released_while_the_process_cannot_exit() {
    let Some(mut rig) = Rig::start(1, &[], |_| ()) else { return };
    let mut clients = [(); 3].map(|()| rig.client());
    hang_calls(&rig, &mut clients, FuseOp::Read);
    rig.trees[0].hang_all();
    let begun = Instant::now();
    rig.server.signal("-TERM");
    let stat = format!("/proc/{}/stat", rig.server.child.id());
    let is_zombie = || fs::read_to_string(&stat).unwrap().contains(") Z ");
    until("the main thread has ended", is_zombie);
    assert!(begun.elapsed() < BOUNDED, "{:?}", begun.elapsed());
    assert!(rig.server.child.try_wait().unwrap().is_none(), "the kernel keeps it");
    let at = SocketAddr::from(([127, 0, 0, 1], rig.server.port));
    drop((TcpListener::bind(at).unwrap(), UdpSocket::bind(at).unwrap()));
    // the same command again: same addresses, same state directory
    fs::write(&rig.exports, exports_of(&[], &rig.plain)).unwrap();
    let mut command = rig.server.command();
    let mut next = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 64];
    next.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert!(text(&said).contains("serves NFS versions"), "{}", text(&said));
    next.kill().unwrap();
    next.wait().unwrap();
    rig.release();
    rig.server.ended();
}

#[test]
fn valid_exports_are_served_despite_invalid_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (good, late) = (dir.path().join("good"), dir.path().join("late"));
    fs::create_dir(&good).unwrap();
    let (good, late) = (good.display(), late.display());
    let exports = dir.path().join("exports");
    let lines = format!(
        "{good} *(rw,insecure)\n{late} *(rw,insecure)\n/tmp *(rw,no_rootsquash)\n/proc *(ro)\n/proc 10.0.0.1(fast)\n"
    );
    fs::write(&exports, lines).unwrap();
    let log = dir.path().join("log");
    let error = File::create(&log).unwrap();
    let server = Server::start_with(&["--exports", exports.to_str().unwrap()], |command| {
        command.stderr(error);
    });
    let log = || fs::read_to_string(&log).unwrap();
    for part in [
        format!("exports:2: {late} is not served: {late} does not exist: make the directory"),
        "exports:3:".to_owned(),
        "exports:5:".to_owned(),
    ] {
        assert!(log().contains(&part), "{part}: {}", log());
    }
    assert_eq!(log().matches("ERROR").count(), 3, "{}", log());
    let status = server.json("status");
    assert_eq!((&status["state"], &status["exports"]), (&"degraded".into(), &2.into()));
    let page = text(&server.ask(&["status"]).stdout);
    assert!(page.contains("2 served, 1 not: degraded") && page.contains("exports:3:"), "{page}");
    // a line of the same path is wrong: what its clients may do is not known
    let rows = server.json("exports").to_string();
    assert!(!rows.contains("/proc") && !rows.contains("\"/tmp\""), "{rows}");
    let refused = told(&server.ask(&["reload"]), 1);
    assert!(refused.contains("exports:3:"), "all or nothing: {refused}");
    fs::create_dir(late.to_string()).unwrap();
    until("the directory is served", || server.json("exports")[2]["state"] == "served");
    assert!(log().contains(&format!("{late}: now served to *")), "{}", log());
    let lines = format!("{good} *(rw,insecure)\n{late} *(rw,insecure)\n");
    fs::write(&exports, &lines).unwrap();
    assert!(server.ask(&["reload"]).status.success());
    assert_eq!(server.json("status")["state"], "ok");
    // a reload is all or nothing
    fs::write(&exports, format!("{lines}/no/such *(ro)\n")).unwrap();
    let refused = told(&server.ask(&["reload"]), 1);
    assert!(refused.contains("exports:3: /no/such does not exist"), "{refused}");
    let would = told(&server.ask(&["reload", "--dry-run"]), 1);
    assert!(would.contains("exports:3: /no/such does not exist"), "{would}");
    assert_eq!(server.json("exports").as_array().unwrap().len(), 3);
}

#[test]
fn a_state_directory_that_is_removed_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let error = File::create(&log).unwrap();
    let server = Server::start_with(&[], |command| {
        command.stderr(error);
    });
    fs::remove_dir_all(server.base.path().join("state")).unwrap();
    let lost = "was removed or replaced while the server runs";
    until("it is logged", || fs::read_to_string(&log).unwrap().contains(lost));
    assert!(server.json("status")["warnings"].to_string().contains(lost));
}

/// The way in which an init system would find a file in its place.
#[test]
fn a_fifo_as_key_is_refused_at_once() {
    let base = tempfile::tempdir().unwrap();
    let key = base.path().join("key");
    assert!(Command::new("mkfifo").arg(&key).status().unwrap().success());
    let served = base.path().to_str().unwrap();
    let port = free_port().to_string();
    let refused = crate::rig::bowline(&["serve", served, "--state-dir", served, "--port", &port]);
    let told = told(&refused, 1);
    assert!(told.contains("key") && told.contains("not a regular file"), "{told}");
}
