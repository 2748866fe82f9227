//! The state after a server was killed at any of the system calls of an exclusive create, and the reply to the
//! client's retry.

use crate::support::{ANN, ROOT, Stage, name, of};
use bowline_vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use sys::testing::kill_at::kill_at;
use sys::testing::single_step::{be_traced, mark};
use sys::testing::syscall_filter::refuse_links;
use testing::is_root;
use vfs::{Backend, Create, Status};

/// The directory in which a child creates its file.
const DIR: &str = "BOWLINE_TEST_KILLED_IN";
/// A child cannot create links: the file must be created by its name.
const NO_LINKS: &str = "BOWLINE_TEST_KILLED_WITHOUT_LINKS";
const VERIFIER: [u8; 8] = *b"\x01erifier";
/// System calls of one create, at most; each stops at its beginning and its end.
const STOPS_MAX: u32 = 400;

/// The test that the children run.
const CHILD: &str = "killed::makes_a_file_while_it_is_traced";

fn create(local: &LocalFs, verifier: [u8; 8]) -> vfs::Result<vfs::Created> {
    // as root, the call of an unprivileged caller
    let cx = of(if is_root() { ANN } else { ROOT });
    local.create(&cx, &local.root(), name("lock"), Create::Exclusive(verifier))
}

#[test]
fn makes_a_file_while_it_is_traced() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let options = LocalOptions::default();
    let local = LocalFs::open(Path::new(&dir), &options, Arc::new(OpenFiles::new(64))).unwrap();
    if std::env::var_os(NO_LINKS).is_some() {
        refuse_links().unwrap();
    }
    be_traced().unwrap();
    mark();
    create(&local, VERIFIER).unwrap();
    mark();
}

/// Number of stops, and those after which the retry was not recognised.
fn kill_at_every_stop(no_links: bool) -> (u32, Vec<u32>) {
    let mut refused = Vec::new();
    for stops in 1..STOPS_MAX {
        let naming = if is_root() { Naming::Handles } else { Naming::Table };
        let stage = Stage::new(naming);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", CHILD, "--test-threads=1"]).env(DIR, &stage.tree);
        if no_links {
            command.env(NO_LINKS, "1");
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if !kill_at(&mut child, stops).unwrap() {
            assert!(fs::exists(stage.tree.join("lock")).unwrap());
            return (stops - 1, refused);
        }
        let local = stage.serve();
        match create(&local, VERIFIER) {
            Ok(made) => assert!(made.node.is_some()),
            Err(Status::Exist) => refused.push(stops),
            Err(other) => panic!("after {stops} stops: {other:?}"),
        }
        assert_eq!(create(&local, *b"somebody").err(), Some(Status::Exist));
        assert_eq!(fs::read_dir(&stage.tree).unwrap().count(), 1);
        sys::identity::act_as_process().unwrap();
    }
    panic!("the create did not end");
}

#[test]
fn an_exclusive_create_is_recognised_whenever_the_server_was_killed() {
    let (stops, refused) = kill_at_every_stop(false);
    assert!(stops > 10, "{stops}: the create has more system calls");
    assert!(refused.is_empty(), "its own retry was refused after {refused:?} of {stops}");
}

#[test]
fn without_linkat_only_a_kill_before_utimensat_is_unrecognised() {
    let (stops, refused) = kill_at_every_stop(true);
    assert!(stops > 10, "{stops}: the create has more system calls");
    // the end of openat(2) and the beginning of utimensat(2)
    assert!(
        (1..=2).contains(&refused.len()),
        "its own retry was refused after {refused:?} of {stops}"
    );
}
