//! What the tests of several crates share; a dev-dependency only, never part of the server.
//!
//! * [`in_child`] runs one test again in a process of its own, for tests that change or measure
//!   what all threads of a process share: limits, credentials, memory, descriptors.
//! * [`skip()`] reports a test that cannot run here.
//! * [`FuseTree`] is a file system whose operations hang or fail.
//! * [`Realm`] is a Kerberos realm with its KDC.
//! * [`ByteWrites`] is a connection that sends its bytes one by one.
//! * [`is_root`] says whether tests that need root can run.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "used by tests only: a failure is the test's"
)]

mod byte_writes;
mod fuse;
mod realm;
mod skip;

pub use byte_writes::ByteWrites;
pub use fuse::{FuseTree, Op as FuseOp};
pub use realm::Realm;
pub use skip::{ABSENT_IN_CI, Missing, log, skip};

use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// Set in the environment of a child of [`in_child`].
const CHILD: &str = "BOWLINE_TEST_CHILD";

/// The user of a process without privileges: the front of a command for [`in_child`].
pub const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Runs the test `test` (its full name, `module::name`) of this program alone in a child process,
/// started by the command `wrapper` if that is not empty. Returns true inside of the child, which
/// is where the test does its work, and false in the parent once the child has passed.
///
/// # Panics
/// In the parent, if the child fails or if `test` does not name exactly one test.
pub fn in_child(test: &str, wrapper: &[&str]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let mut command = match wrapper.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {text}\n{errors}");
    false
}
