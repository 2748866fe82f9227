//! Ending a process whose threads may wait for a file system that hangs.
//!
//! A thread in such a wait may not be killable, and a process is not gone before its last thread is. Until then the
//! kernel keeps the descriptors of the process open, listening sockets among them, so that no other server could take
//! their addresses. So the sockets are closed first; other descriptors are not, as closing one may wait as well.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// How often the child looks whether its parent is gone, every ten milliseconds: for a minute, in case nobody collects
/// the parent's exit status.
const CHILD_WAITS_MAX: u32 = 6000;

/// Closes all sockets of the process, whoever owns them: each is replaced by `/dev/null`, so that its number is not
/// given to anything else. To be called when the process is about to end: its other threads find that their sockets
/// are none. Says how many there were.
pub fn close_all_sockets() -> usize {
    let (Ok(null), Ok(all)) = (File::open("/dev/null"), std::fs::read_dir("/proc/self/fd")) else {
        return 0;
    };
    let is_socket = |path: &Path| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<i32>().ok();
    let sockets: Vec<i32> = all
        .filter_map(Result::ok)
        .filter(|entry| is_socket(&entry.path()))
        .filter_map(|entry| number(&entry.path()))
        .collect();
    for socket in &sockets {
        // SAFETY: both are open descriptors of this process. The number stays valid, so that its owner, who may still
        // use it or close it, does so with /dev/null and with nothing of anybody else's.
        unsafe { libc::dup3(null.as_raw_fd(), *socket, libc::O_CLOEXEC) };
    }
    sockets.len()
}

/// Has a process of its own close what this process has open, after this one has ended. The kernel closes the files of
/// a process in its last thread, which cannot be killed then, so that a file system that does not answer `close` would
/// hold the end up. The child shares the descriptors and waits for this process to end; nothing else is left to it.
///
/// # Errors
/// The kernel refuses another process.
pub fn leave_files_to_child() -> io::Result<()> {
    let parent = std::process::id().cast_signed();
    // SAFETY: without CLONE_VM this is a fork: the child has a copy of the memory and of this thread's stack. As the
    // locks of other threads stay as they were, it makes system calls only, of which none allocates, and never returns.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_FILES, 0, 0, 0, 0) };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // the last to let go of the files closes them: all threads of the parent have to be gone before
            for _ in 0..CHILD_WAITS_MAX {
                let pause = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                // SAFETY: plain system calls; `pause` lives for the length of the call.
                unsafe {
                    if libc::kill(parent, 0) != 0 {
                        break;
                    }
                    libc::nanosleep(&raw const pause, std::ptr::null_mut());
                }
            }
            // SAFETY: ends the child at once, without what its copy of the memory would do at the end.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::close_all_sockets;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn close_all_sockets_frees_addresses_of_open_sockets() {
        if !testing::in_child("exit::tests::close_all_sockets_frees_addresses_of_open_sockets", &[])
        {
            return;
        }
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (tcp_at, udp_at) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
        assert!(TcpListener::bind(tcp_at).is_err() && UdpSocket::bind(udp_at).is_err());
        assert!(close_all_sockets() >= 2);
        assert!(tcp.accept().is_err() && udp.send_to(b"x", udp_at).is_err());
        assert!(TcpListener::bind(tcp_at).is_ok() && UdpSocket::bind(udp_at).is_ok());
    }
}
