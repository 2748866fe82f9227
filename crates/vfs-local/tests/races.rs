//! What others do to a name while it is being made.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is the test's")]

mod support;

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{ROOT, Stage, each, name, of};
use vfs::{Backend, Create, Cx, Durability, SetAttr, Status};

/// The mode of a file that the one made who is not tested.
const OTHERS: u32 = 0o640;
/// Calls of either outcome in a race.
const CALLS: usize = 200;
/// As long as it may take: on a busy machine one of the two may have the processor alone.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `calls` while somebody makes a file and removes it, again and again, but no other's file.
fn beside_one_that_comes_and_goes(path: &Path, calls: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut how = File::options();
            how.write(true).create_new(true).mode(OTHERS);
            while !stop.load(Relaxed) {
                if how.open(path).is_ok() {
                    fs::remove_file(path).unwrap();
                }
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(calls));
        stop.store(true, Relaxed);
        done.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
}

/// Creates the file again and again, and removes it whenever it was new.
fn create(stage: &Stage, how: Create) {
    let (local, path) = (stage.serve(), stage.tree.join("f"));
    let cx = Cx { durability: Durability::Async, ..of(ROOT) };
    let (mut made, mut met) = (0, 0);
    let begun = Instant::now();
    beside_one_that_comes_and_goes(&path, || {
        while made.min(met) < CALLS && begun.elapsed() < PATIENCE {
            match local.create(&cx, &local.root(), name("f"), how) {
                Ok(done) if done.node.attr.mode == OTHERS => met += 1,
                Ok(_) => {
                    fs::remove_file(&path).unwrap();
                    made += 1;
                }
                Err(Status::Exist) if !matches!(how, Create::Unchecked(_)) => met += 1,
                // eight races lost one after the other
                Err(Status::Jukebox) => {}
                Err(status) => panic!("{how:?}: {status:?} after {made} made, {met} met"),
            }
        }
    });
    assert!(made + met > 0);
}

#[test]
fn a_file_that_goes_while_it_is_taken_is_made() {
    each(|stage| {
        let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        create(stage, Create::Unchecked(mode));
        create(stage, Create::Unchecked(SetAttr { size: Some(0), ..mode }));
        create(stage, Create::Exclusive(*b"verifier"));
        create(stage, Create::Guarded(mode));
    });
}
