//! System calls without which the server cannot serve, and which a filter (seccomp) may refuse: they are tried at
//! the start, so that the operator reads their names instead of clients getting errors that mean something else.
//!
//! Each is tried in a way that changes nothing. What the server can do without (`openat2`, file handles, `linkat`)
//! is not among them.

use crate::identity::{self, Capability};
use crate::socket;
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;

/// Those that are refused, by name.
pub fn refused() -> Vec<&'static str> {
    type Probe = fn() -> io::Result<()>;
    let probes: [(&str, Probe); 4] = [
        ("accept4", socket::may_accept),
        ("fcntl", may_fcntl),
        ("getdents64", may_list),
        ("setfsuid and setfsgid", may_change_fs_ids),
    ];
    let is_refusal =
        |e: &io::Error| matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported);
    let refused = probes.into_iter().filter(|(_, probe)| probe().is_err_and(|e| is_refusal(&e)));
    refused.map(|(name, _)| name).collect()
}

fn may_fcntl() -> io::Result<()> {
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::fcntl_getfd(&root)?;
    rustix::io::fcntl_dupfd_cloexec(&root, 0)?;
    Ok(())
}

fn may_list() -> io::Result<()> {
    // a directory that everybody may list
    let dir = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = openat(CWD, "/proc/self/fdinfo", dir, Mode::empty())?;
    let mut room = [MaybeUninit::uninit(); 512];
    match RawDir::new(own, &mut room).next() {
        Some(Err(error)) => Err(error.into()),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Only where the server would change them: an ordinary user acts as nobody else.
fn may_change_fs_ids() -> io::Result<()> {
    if !identity::has(Capability::SetUid) || !identity::has(Capability::SetGid) {
        return Ok(());
    }
    identity::keep_fs_ids()
}

#[cfg(test)]
mod tests {
    use super::refused;
    use crate::testing::syscall_filter::refuse;

    #[test]
    fn system_calls_refused_by_a_filter_are_named() {
        assert!(refused().is_empty(), "{:?}", refused());
        let mut expected = vec![
            (libc::SYS_accept4, "accept4"),
            (libc::SYS_fcntl, "fcntl"),
            (libc::SYS_getdents64, "getdents64"),
        ];
        if crate::identity::has(crate::identity::Capability::SetUid) {
            expected.push((libc::SYS_setfsuid, "setfsuid and setfsgid"));
        }
        for (number, name) in expected {
            let found = std::thread::spawn(move || {
                refuse(&[number], libc::EPERM).unwrap();
                refused()
            });
            assert_eq!(found.join().unwrap(), [name]);
        }
    }
}
