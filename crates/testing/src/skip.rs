//! Skipped checks: all are counted.
//!
//! A test that cannot run where it is calls [`skip`] with what is missing. The skip is written to
//! standard error and to the file `skipped` in the directory `$BOWLINE_TEST_LOG`, if that is set: a
//! line each, which `./do test` counts and prints at its end. Where `CI=true` is set a skip fails the
//! test, unless what is missing is one of [`ABSENT_IN_CI`].

use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::path::Path;

/// What a test needs and does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Root, or a capability that root has.
    Root,
    /// Namespaces of its own (network, mount, user), or what is made in them.
    Namespaces,
    /// The device `/dev/net/tun`.
    Tun,
    /// Loop devices.
    LoopDevices,
    /// A program or package of the distribution.
    Program,
    /// A file system with the property that is tested.
    FileSystem,
    /// A control group that may be made.
    ControlGroups,
    /// A feature of the kernel or of the processor.
    Kernel,
    /// A limit (`ulimit`, sysctl, memory) that is too low or too high.
    Limit,
    /// Processor time: the host gives it to others.
    ProcessorTime,
    /// Nothing: the run is for something else (another wake policy, a plain `cargo test`).
    Purpose,
}

/// What the machine that CI runs on cannot have.
pub const ABSENT_IN_CI: [Missing; 1] = [Missing::ProcessorTime];

/// Reports that the calling test, or a part of it, does not run because something is `missing`.
///
/// # Panics
/// In CI, unless it is something that CI's machine cannot have; and if the log cannot be written.
#[track_caller]
pub fn skip(missing: Missing, details: impl Display) {
    let place = Location::caller();
    let thread = std::thread::current();
    let test = thread.name().filter(|name| name.contains("::")).unwrap_or("");
    let line = format!("skipped: {test} ({}:{}): {details}", place.file(), place.line());
    eprintln!("{line}");
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    if is_ci && !ABSENT_IN_CI.contains(&missing) {
        panic!("{line}: CI must have it ({missing:?})");
    }
    log("skipped", &line);
}

/// Appends a line to a file of `$BOWLINE_TEST_LOG`, if that is set.
///
/// # Panics
/// If that cannot be done.
pub fn log(file: &str, line: &str) {
    let Some(dir) = std::env::var_os("BOWLINE_TEST_LOG") else { return };
    let file = Path::new(&dir).join(file);
    let mut file = std::fs::File::options().append(true).create(true).open(file).unwrap();
    // one write, so that lines of several processes stay whole
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[cfg(test)]
mod tests {
    use super::{Missing, log, skip};

    #[test]
    fn a_skip_is_logged_and_fails_in_ci() {
        let dir = tempfile::tempdir().unwrap();
        let log_dir = format!("BOWLINE_TEST_LOG={}", dir.path().display());
        let test = "skip::tests::a_skip_is_logged_and_fails_in_ci";
        if crate::in_child(test, &["env", "CI=true", &log_dir]) {
            assert!(std::panic::catch_unwind(|| skip(Missing::Root, "x")).is_err());
            skip(Missing::ProcessorTime, "a rate of 3");
            return log("other", "1 2");
        }
        let written = std::fs::read_to_string(dir.path().join("skipped")).unwrap();
        assert_eq!(written.lines().count(), 1, "{written}");
        assert!(written.ends_with("): a rate of 3\n"), "{written}");
        assert_eq!(std::fs::read_to_string(dir.path().join("other")).unwrap(), "1 2\n");
    }
}
