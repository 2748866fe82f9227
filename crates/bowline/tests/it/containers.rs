//! A server as containers run it: in user namespaces that have one user, or only some.

use crate::rig::{BOWLINE, NOBODY, Server, free_port, is_root, told, wrap};
use client::{Client, Identity};
use proto::nfs3::Sattr3;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;
use testing::{Missing, skip};

/// Whether the kernel lets `user` make a user namespace; says so if not.
fn may_make_namespaces(user: u32) -> bool {
    let ids = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()];
    let tried = Command::new("setpriv").args(ids).args(["unshare", "--user", "true"]).status();
    let may = is_root() && tried.unwrap().success();
    if !may {
        skip(Missing::Namespaces, "a user namespace of another user");
    }
    may
}

/// As a rootless container of a user who has no other ids: root there has all capabilities, but can
/// become nobody else.
#[test]
fn root_of_a_single_user_namespace_serves_that_user() {
    if !may_make_namespaces(NOBODY) {
        return;
    }
    let mut server = Server::launch(Some(NOBODY), &["--prove"], |command| {
        wrap(command, &["unshare", "--user", "--map-root-user"]);
    });
    let said = server.lines.concat();
    assert!(said.contains("hello.txt") && said.contains("not privileged"), "{said}");
    assert!(said.contains("/etc/subuid"), "what to do about it: {said}");
    server.signal("-TERM");
    assert_eq!(server.ended(), Some(0));
}

#[test]
fn a_missing_proc_is_reported() {
    if !is_root() {
        return skip(Missing::Root, "a mount namespace");
    }
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().to_str().unwrap();
    let hide = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", hide, BOWLINE, "serve", dir, "--portmap", "off"])
        .args(["--port", &free_port().to_string(), "--state-dir", &format!("{dir}/state")])
        .args(["--control", &format!("{dir}/c.sock")])
        .output()
        .unwrap();
    assert!(told(&output, 1).contains("mount -t proc"));
}

#[test]
fn an_export_on_overlayfs_causes_a_note() {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap().contains("overlay");
    if !is_root() || !known {
        return skip(Missing::FileSystem, "root and overlayfs");
    }
    // $2 is the directory that is served
    let overlay = "mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w && mount -t overlay overlay \
         -o \"lowerdir=$2,upperdir=/mnt/u,workdir=/mnt/w\" \"$2\" && exec \"$0\" \"$@\"";
    let server = Server::start_with(&["--prove"], |command| {
        wrap(command, &["unshare", "--mount", "sh", "-c", overlay]);
    });
    let said = server.lines.concat();
    assert!(said.contains("overlayfs") && said.contains("hello.txt"), "{said}");
    assert!(server.json("status")["warnings"].to_string().contains("overlayfs"));
}

#[test]
fn a_caller_keeps_groups_mapped_in_the_namespace() {
    // waits until the shell that became it has its ids from a helper outside
    const SOME_USERS: &str = "me=$$; (until echo 0 0 60000 >/proc/$me/uid_map; do sleep 0.01; done; \
         echo 0 0 60000 >/proc/$me/gid_map) 2>/dev/null >&2 & exec unshare --user sh -c \
         'until read -r ids </proc/self/gid_map; do sleep 0.01; done; exec \"$0\" \"$@\"' \"$@\"";
    if !may_make_namespaces(0) {
        return;
    }
    let server = Server::launch(None, &[], |command| {
        wrap(command, &["sh", "-c", SOME_USERS, "sh"]);
    });
    let dir = server.served().join("group");
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(0), Some(4100)).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o770)).unwrap();

    let addr = ([127, 0, 0, 1], server.port).into();
    let mut client = Client::udp_reserved(addr, Duration::from_secs(60)).unwrap();
    let groups = vec![4100, 3_000_000];
    client.set_identity(Some(Identity { machine: "m".into(), uid: 4001, gid: 4001, groups }));
    let root = client.mount(server.served().to_str().unwrap().as_bytes()).unwrap();
    let found = client.lookup(&root, b"group").unwrap();
    client.mkdir(&found.handle, b"made", Sattr3::default()).unwrap();
    assert_eq!(std::fs::metadata(dir.join("made")).unwrap().uid(), 4001);
    let said = server.lines.concat();
    assert!(said.contains("65534") && said.contains("anonuid="), "root is squashed: {said}");
}
