//! What a server gives up before it serves, so that one that was taken over can do less: capabilities, the right to gain
//! any by executing a file, and system calls that serving never makes.
//!
//! All of it is given up by the calling thread, for itself and for the threads that it starts: so it is to be called while
//! there is one. Nothing of it can be taken back. Capabilities that single calls need are kept out of force but for these
//! calls ([`crate::identity`]).
//!
//! There are no rules of Landlock: those for files would have to name every export before there are any, and a process
//! with such rules can neither rename from one directory to another nor use files that were opened by handle; those for
//! executing, for signals and for sockets are the filter's here, which older kernels have as well.

mod filter;

use crate::identity::{Capability, keep_only};
use std::io;

/// In force while the server serves.
const EFFECTIVE: [Capability; 10] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::DacReadSearch,
    Capability::Fowner,
    Capability::Fsetid,
    Capability::SetGid,
    Capability::SetUid,
    Capability::NetBindService,
    Capability::Mknod,
    Capability::Lease,
];
/// In force during single calls: buffers beyond the sysctls; others' quotas, directories that a mount covers.
const ON_DEMAND: [Capability; 2] = [Capability::NetAdmin, Capability::SysAdmin];
/// The highest capability that a kernel may have.
const CAPABILITY_MAX: libc::c_ulong = 63;

/// What is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confined {
    /// Capabilities that are left.
    pub capabilities: u32,
    /// System calls that are refused, whole or with some arguments; `None` if the kernel takes no filter.
    pub refused_calls: Option<usize>,
}

/// Gives up what serving does not need.
///
/// # Errors
/// What the kernel says; a filter that it does not take is none.
pub fn confine() -> io::Result<Confined> {
    // what an executed file could have; without CAP_SETPCAP, as an ordinary user's process, nothing can be gained anyway
    for number in 0..=CAPABILITY_MAX {
        let is_kept = EFFECTIVE.iter().chain(&ON_DEMAND).any(|one| *one as libc::c_ulong == number);
        if !is_kept {
            // a kernel that has no such capability, and a process that may not, are no errors
            let _ = prctl(libc::PR_CAPBSET_DROP, number);
        }
    }
    let capabilities = keep_only(&EFFECTIVE, &ON_DEMAND)?;
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    let refused_calls = filter::install().ok();
    Ok(Confined { capabilities, refused_calls })
}

fn prctl(option: libc::c_int, argument: libc::c_ulong) -> io::Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: the options of this module take numbers and concern the calling thread only.
    match unsafe { libc::prctl(option, argument, none, none, none) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Confined, confine};
    use crate::identity::{Capability, has, with};
    use std::fs::File;
    use std::io::ErrorKind;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use testing::in_child;

    /// The result of a system call with up to three arguments that are numbers.
    fn call(number: libc::c_long, args: [libc::c_long; 3]) -> Result<libc::c_long, i32> {
        let [a, b, c] = args;
        // SAFETY: the calls of this test take numbers, or pointers that are null, which they refuse.
        match unsafe { libc::syscall(number, a, b, c, 0, 0, 0) } {
            -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            done => Ok(done),
        }
    }

    fn status(key: &str) -> String {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().to_owned()
    }

    #[test]
    fn a_confined_process_serves_and_can_do_nothing_else() {
        if !in_child("sandbox::tests::a_confined_process_serves_and_can_do_nothing_else", &[]) {
            return;
        }
        let is_root = testing::is_root();
        let could_administrate = has(Capability::SysAdmin);
        let Confined { capabilities, refused_calls } = confine().unwrap();
        assert!(capabilities <= 12 && refused_calls.unwrap() > 40, "{refused_calls:?}");
        assert_eq!((status("NoNewPrivs:"), status("Seccomp:")), ("1".into(), "2".into()));
        if is_root {
            assert!(has(Capability::SetUid) && has(Capability::DacReadSearch));
        }
        assert!(!has(Capability::SysAdmin) && !has(Capability::SysResource));
        assert_eq!(with(Capability::SysAdmin, || has(Capability::SysAdmin)), could_administrate);
        assert!(!with(Capability::SysResource, || has(Capability::SysResource)));
        assert!(!has(Capability::SysAdmin));

        let refused = Err(libc::EPERM);
        for number in [libc::SYS_execve, libc::SYS_ptrace, libc::SYS_bpf, libc::SYS_mount] {
            assert_eq!(call(number, [0; 3]), refused, "{number}");
        }
        assert_eq!(call(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0]), refused);
        assert_eq!(call(libc::SYS_clone, [libc::CLONE_NEWUSER.into(), 0, 0]), refused);
        let parent = i64::from(std::os::unix::process::parent_id());
        assert_eq!(call(libc::SYS_kill, [parent, 0, 0]), refused);
        assert_eq!(call(libc::SYS_kill, [std::process::id().into(), 0, 0]), Ok(0));
        let raw = call(libc::SYS_socket, [libc::AF_PACKET.into(), libc::SOCK_RAW.into(), 0]);
        assert_eq!(raw, Err(libc::EAFNOSUPPORT));
        assert_eq!(call(libc::SYS_quotactl_fd, [-1, 0x80_0008 << 8, 0]), refused, "Q_SETQUOTA");
        assert_eq!(call(libc::SYS_quotactl_fd, [-1, 0x80_0007 << 8, 0]), Err(libc::EBADF));
        let executed = Command::new("/bin/true").status().unwrap_err();
        assert_eq!(executed.kind(), ErrorKind::PermissionDenied);

        assert!(std::thread::spawn(|| status("Seccomp:") == "2").join().unwrap());
        TcpListener::bind("127.0.0.1:0").unwrap();
        UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).unwrap();
        UnixStream::pair().unwrap();
        File::open("/proc/self/fd").unwrap();
    }
}
