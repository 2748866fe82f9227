//! Where the server is run is unfriendly: filters of system calls, a root that cannot be written to, name services that
//! answer late or never, disks that fail.

use crate::rig::{BOWLINE, Server, is_root, told, wrap};
use client::{Client, Error, Fh, Identity};
use proto::nfs3::{CreateHow3, Sattr3, StableHow};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testing::{FuseOp, FuseTree, Missing, skip};

/// Without them the server would start, and its clients would get errors that mean something else.
#[test]
fn a_seccomp_filter_of_required_calls_is_reported_at_start() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().to_str().unwrap().to_owned();
    let mut calls = vec![("accept4", "accept4"), ("fcntl", "fcntl"), ("getdents64", "getdents64")];
    calls.push(("clone3", "thread"));
    if is_root() {
        calls.push(("setfsuid", "setfsuid and setfsgid"));
    }
    for (refused, named) in calls {
        // a server that starts all the same would not end
        let mut inside = Command::new("timeout");
        inside.arg("30").arg(std::env::current_exe().unwrap());
        inside.args(["--exact", "hard_conditions::filtered", "--ignored", "--nocapture"]);
        let output = inside.env("REFUSED", refused).env("DIR", &dir).output().unwrap();
        let told = told(&output, 1);
        assert!(told.contains(named), "{refused}: {told}");
    }
}

/// Becomes the server, under a filter.
#[test]
#[ignore = "runs inside a_seccomp_filter_of_required_calls_is_reported_at_start"]
fn filtered() {
    let (refused, dir) = (std::env::var("REFUSED").unwrap(), std::env::var("DIR").unwrap());
    let mut server = Command::new(BOWLINE);
    server.args(["serve", &dir, "--portmap", "off", "--state-dir", &format!("{dir}/state")]);
    // its own filter has libc fall back from clone3 to clone, which this one lets pass
    server.args(["--set", "sandbox=off"]);
    sys::testing::syscall_filter::refuse_needed(&refused).unwrap();
    panic!("{}", server.exec());
}

/// How long an answer may take that waits for nothing, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn client(server: &Server) -> Client {
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut client = Client::tcp(at, PATIENCE).unwrap();
    client.set_identity(Some(Identity::root()));
    client
}

fn mount(client: &mut Client, path: &Path) -> Result<Fh, Error> {
    client.mount(path.to_str().unwrap().as_bytes())
}

/// A directory with `exports` of lines with these options, each of a directory `d0`, `d1`, … in it.
fn exported(base: &Path, options: &[&str]) -> (PathBuf, Vec<PathBuf>) {
    let dirs: Vec<PathBuf> = (0..options.len()).map(|n| base.join(format!("d{n}"))).collect();
    let lines = dirs.iter().zip(options).map(|(dir, options)| {
        fs::create_dir(dir).unwrap();
        format!("{} {options}\n", dir.display())
    });
    let lines: String = lines.collect();
    let exports = base.join("exports");
    fs::write(&exports, lines).unwrap();
    (exports, dirs)
}

/// Nothing but the exports, the state and the control socket can be written to.
#[test]
fn a_read_only_root_is_served_but_refused_as_state_directory() {
    if !is_root() {
        skip(Missing::Root, "a mount namespace with a read-only root");
        return;
    }
    let script = "mount --make-rprivate / && mount --bind \"$1\" \"$1\" && \
                  mount -o remount,bind,ro / && shift && exec \"$0\" \"$@\"";
    let base = tempfile::tempdir().unwrap();
    let (exports, dirs) = exported(base.path(), &["*(rw,insecure,no_root_squash)"]);
    let at = base.path().to_str().unwrap().to_owned();
    let probe = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh", &at, "-c", "! true >/read-only-root-probe"])
        .output()
        .unwrap();
    if !probe.status.success() {
        skip(Missing::Namespaces, String::from_utf8_lossy(&probe.stderr));
        return;
    }
    let port = crate::rig::free_port().to_string();
    let serve = |state: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, BOWLINE, &at, "serve", "--exports"]);
        command.arg(&exports).args(["--port", &port, "--portmap", "off", "--state-dir", state]);
        command.arg("--control").arg(base.path().join("c.sock"));
        command
    };
    let refused = serve("/bowline-state").output().unwrap();
    let refused = told(&refused, 1);
    assert!(refused.contains("Read-only file system"), "{refused}");
    assert!(refused.contains("--state-dir"), "what to do: {refused}");
    let mut child = serve(&format!("{at}/state")).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 32];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    let mut client = Client::tcp(to, PATIENCE).unwrap();
    client.set_identity(Some(Identity::root()));
    let root = mount(&mut client, &dirs[0]).unwrap();
    let made = client.create(&root, b"new", CreateHow3::Guarded(Sattr3::default())).unwrap();
    client.write(&made.handle.unwrap(), 0, b"data", StableHow::FileSync).unwrap();
    assert_eq!(fs::read(dirs[0].join("new")).unwrap(), b"data");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What a file system says of its disk or of a quota reaches the client, at each call, and an error of a sync is
/// followed by another verifier (RFC 1813 §3.3.21), so that clients send again what they wrote.
#[test]
fn disk_and_quota_errors_reach_clients_and_change_the_verifier() {
    const IO: (i32, u32) = (5, 5);
    const QUOTA: (i32, u32) = (122, 69);
    let base = tempfile::tempdir().unwrap();
    let Some(tree) = FuseTree::mount(&base.path().join("d"), &[("a", b"data")]) else { return };
    let exports = base.path().join("exports");
    let line = format!("{} *(rw,insecure,no_root_squash)\n", tree.path().display());
    fs::write(&exports, line).unwrap();
    let server = Server::start(&["--exports", exports.to_str().unwrap()]);
    let mut client = client(&server);
    let root = mount(&mut client, tree.path()).unwrap();
    let file = client.lookup(&root, b"a").unwrap().handle;
    let status = |result: Option<Error>| result.and_then(|error| error.status());
    for (errno, expected) in [IO, QUOTA] {
        let written = client.write(&file, 0, b"one!", StableHow::Unstable).unwrap();
        assert_eq!(written.verf, client.commit(&file, 0, 0).unwrap().verf);
        tree.fail(FuseOp::Write, errno);
        for stable in [StableHow::Unstable, StableHow::DataSync, StableHow::FileSync] {
            let refused = client.write(&file, 0, b"two!", stable).err();
            assert_eq!(status(refused), Some(expected), "{stable:?}");
        }
        tree.fail(FuseOp::Write, 0);
        tree.fail(FuseOp::Create, errno);
        let how = CreateHow3::Guarded(Sattr3::default());
        assert_eq!(status(client.create(&root, b"new", how).err()), Some(expected));
        tree.fail(FuseOp::Create, 0);
        let unstable = client.write(&file, 0, b"lost", StableHow::Unstable).unwrap();
        tree.fail(FuseOp::Fsync, errno);
        assert_eq!(status(client.commit(&file, 0, 0).err()), Some(expected));
        assert_eq!(status(client.write(&file, 0, b"s", StableHow::FileSync).err()), Some(expected));
        tree.fail(FuseOp::Fsync, 0);
        let again = client.write(&file, 0, b"kept", StableHow::Unstable).unwrap();
        assert_ne!(again.verf, unstable.verf, "what was unstable before has to be sent again");
        assert_eq!(client.commit(&file, 0, 0).unwrap().verf, again.verf);
        assert_eq!(tree.data("a").unwrap(), b"kept");
    }
    // the quota is the users' business, the disk the operator's
    let path = tree.path().to_str().unwrap();
    let rows = server.json("exports");
    let row = rows.as_array().unwrap().iter().find(|row| row["path"] == path).unwrap();
    assert_eq!(row["io_errors"], 6, "three WRITEs, CREATE, COMMIT, WRITE: {row}");
    let warned = |status: &Value| {
        let warnings = status["warnings"].as_array().unwrap().iter();
        warnings
            .filter_map(Value::as_str)
            .any(|text| text.starts_with(path) && text.contains("I/O errors, 6 since the start"))
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !warned(&server.json("status")) {
        assert!(Instant::now() < deadline, "{}", server.json("status"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A source of netgroups for nsswitch.conf(5) whose answers a test decides: it waits while the file `$NSS_WAIT`
/// exists, and has no group then.
const NSS_MODULE: &str = r#"
#include <errno.h>
#include <nss.h>
#include <stdlib.h>
#include <unistd.h>
enum nss_status _nss_test_setnetgrent(const char *group, void *result) {
    (void)group, (void)result;
    while (access(getenv("NSS_WAIT"), F_OK) == 0) usleep(10000);
    return NSS_STATUS_NOTFOUND;
}
enum nss_status _nss_test_endnetgrent(void *result) { (void)result; return NSS_STATUS_SUCCESS; }
enum nss_status _nss_test_getnetgrent_r(void *result, char *buffer, size_t len, int *error) {
    (void)result, (void)buffer, (void)len, (void)error;
    return NSS_STATUS_RETURN;
}
"#;

/// A directory service that does not answer costs those exports that ask it, and these only as long as it hangs.
#[test]
fn a_hung_netgroup_service_affects_only_its_export() {
    if !is_root() {
        skip(Missing::Root, "an nsswitch.conf of its own");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let options = ["@trusted(rw,insecure,no_root_squash)", "*(rw,insecure,no_root_squash)"];
    let (exports, dirs) = exported(base.path(), &options);
    let (module, wait) = (base.path().join("module.c"), base.path().join("wait"));
    fs::write(&module, NSS_MODULE).unwrap();
    let library = base.path().join("libnss_test.so.2");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&module);
    if !compile.status().is_ok_and(|status| status.success()) {
        skip(Missing::Program, "a C compiler");
        return;
    }
    fs::write(&wait, "").unwrap();
    // files come second: they have the group once the service has answered
    fs::write(base.path().join("nsswitch.conf"), "hosts: files\nnetgroup: test files\n").unwrap();
    fs::write(base.path().join("netgroup"), "trusted (127.0.0.1,,) (localhost,,)\n").unwrap();
    let script = "mount --make-rprivate / && touch /etc/netgroup && mount --bind \"$1/netgroup\" /etc/netgroup && \
                  mount --bind \"$1/nsswitch.conf\" /etc/nsswitch.conf && shift && exec \"$0\" \"$@\"";
    let at = base.path().to_str().unwrap();
    let server = Server::start_with(&["--exports", exports.to_str().unwrap()], |command| {
        wrap(command, &["unshare", "-m", "sh", "-c", script]);
        let (program, mut args) = (command.get_program().to_owned(), Vec::new());
        for arg in command.get_args() {
            args.push(arg.to_owned());
            // behind the name of the program, which is the shell's $0
            if Path::new(arg).file_name() == Some("bowline".as_ref()) {
                args.push(at.into());
            }
        }
        *command = Command::new(program);
        command.args(args).env("LD_LIBRARY_PATH", at).env("NSS_WAIT", &wait);
    });
    // more than there are threads, all of which ask for the group
    let path = dirs[0].to_str().unwrap().to_owned();
    let asking: Vec<_> = (0..100)
        .map(|_| {
            let (mut asking, path) = (client(&server), path.clone());
            std::thread::spawn(move || asking.mount(path.as_bytes()).is_ok())
        })
        .collect();
    let mut other = client(&server);
    let root = mount(&mut other, &dirs[1]).unwrap();
    for n in 0..50 {
        other.mkdir(&root, format!("new{n}").as_bytes(), Sattr3::default()).unwrap();
    }
    assert!(server.ask(&["status"]).status.success());
    assert!(asking.into_iter().all(|thread| !thread.join().unwrap()), "nobody is let in meanwhile");
    fs::remove_file(&wait).unwrap();
    let begun = Instant::now();
    while mount(&mut other, &dirs[0]).is_err() {
        assert!(begun.elapsed() < PATIENCE, "the group is found once the service answers");
        std::thread::sleep(Duration::from_millis(100));
    }
}
