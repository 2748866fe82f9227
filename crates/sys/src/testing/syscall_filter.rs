//! A filter of system calls as containers have, for tests of what the server does under one.
//!
//! Invariant: a thread never gets rid of its filter, and those that it starts have it too; the callers
//! use a thread of its own for it.

use std::io;

/// Where the kernel's `struct seccomp_data` has the number of the system call.
const NUMBER_AT: u32 = 0;

/// From now on the calling thread may neither ask for file handles nor open them, as in a container of
/// Docker or containerd of before July 2023.
///
/// # Errors
/// As prctl(2) with `PR_SET_SECCOMP`: the kernel has no filters.
pub fn refuse_file_handles() -> io::Result<()> {
    refuse(&[libc::SYS_name_to_handle_at, libc::SYS_open_by_handle_at], libc::EPERM)
}

/// From now on the calling thread may not use `openat2`, as under a filter from before it was known.
///
/// # Errors
/// As [`refuse_file_handles`].
pub fn refuse_openat2() -> io::Result<()> {
    refuse(&[libc::SYS_openat2], libc::EPERM)
}

/// From now on the calling thread may make no hard links, as under some security modules.
///
/// # Errors
/// As [`refuse_file_handles`].
pub fn refuse_links() -> io::Result<()> {
    refuse(&[libc::SYS_linkat], libc::EPERM)
}

/// From now on the calling thread may not use the system call of this name, one of those that the server needs.
///
/// # Errors
/// As [`refuse_file_handles`]; not found if it is none of them.
pub fn refuse_needed(name: &str) -> io::Result<()> {
    let number = match name {
        "accept4" => libc::SYS_accept4,
        "clone3" => libc::SYS_clone3,
        "fcntl" => libc::SYS_fcntl,
        "getdents64" => libc::SYS_getdents64,
        "setfsuid" => libc::SYS_setfsuid,
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    refuse(&[number], libc::EPERM)
}

/// From now on each of these system calls of the calling thread fails with `errno`.
///
/// # Errors
/// As [`refuse_file_handles`].
pub fn refuse(numbers: &[libc::c_long], errno: i32) -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER_AT)];
    for call in numbers {
        let number = u32::try_from(*call).unwrap_or(u32::MAX);
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number));
        let error = libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
        program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, error));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let len = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    let (on, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: PR_SET_NO_NEW_PRIVS takes numbers and concerns this thread only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, none, none, none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: PR_SET_SECCOMP takes a sock_fprog, whose pointer leads to as many instructions as it
    // says; the kernel copies them.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_named_calls_of_the_thread_fail() {
        let refused = || {
            super::refuse(&[libc::SYS_getppid], libc::EPERM).unwrap();
            // SAFETY: getppid takes nothing.
            let got = unsafe { libc::syscall(libc::SYS_getppid) };
            let error = std::io::Error::last_os_error();
            assert_eq!((got, error.raw_os_error()), (-1, Some(libc::EPERM)));
            assert!(std::fs::metadata("/").is_ok());
        };
        std::thread::spawn(refused).join().unwrap();
        // SAFETY: getppid takes nothing.
        assert!(unsafe { libc::syscall(libc::SYS_getppid) } >= 0);
    }
}
