//! Network namespaces, held by a descriptor and by no name, so that the kernel takes one away with
//! everything in it when the last process or descriptor that uses it goes.
//!
//! Invariant: a thread that has entered a namespace stays there; the callers use a thread of its
//! own for it. A socket belongs to the namespace of the thread that made it, whoever uses it later;
//! a child process begins in that of the thread that started it.

use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The namespace that the calling thread is in.
///
/// # Errors
/// As open(2): no `/proc`.
pub fn own() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Moves the calling thread into a new, empty namespace.
///
/// # Errors
/// As unshare(2): `CAP_SYS_ADMIN` is missing, or the kernel has no network namespaces.
pub fn enter_new() -> io::Result<()> {
    // SAFETY: only the network namespace is unshared: no memory, descriptors or signal handlers
    // stop being shared with other threads, which is what makes unshare(2) dangerous.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
    Ok(())
}

/// Moves the calling thread into the namespace behind `namespace`.
///
/// # Errors
/// As setns(2): `CAP_SYS_ADMIN` is missing, or it is not a network namespace.
pub fn enter(namespace: impl AsFd) -> io::Result<()> {
    let kind = Some(LinkNameSpaceType::Network);
    Ok(rustix::thread::move_into_link_name_space(namespace.as_fd(), kind)?)
}

#[cfg(test)]
mod tests {
    use super::{enter, enter_new, own};

    #[test]
    fn a_new_network_namespace_applies_to_its_thread_only() {
        let before = std::fs::read_link("/proc/self/ns/net").unwrap();
        let inside = std::thread::spawn(|| {
            if let Err(error) = enter_new() {
                assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
                testing::skip(testing::Missing::Namespaces, "a network namespace");
                return None;
            }
            let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let names = devices.lines().skip(2).filter_map(|line| line.split(':').next());
            assert!(names.map(str::trim).all(|name| !name.starts_with("eth")), "{devices}");
            Some((own().unwrap(), std::fs::read_link("/proc/thread-self/ns/net").unwrap()))
        });
        let Some((fd, name)) = inside.join().unwrap() else { return };
        assert_ne!(name, before);
        assert_eq!(std::fs::read_link("/proc/self/ns/net").unwrap(), before);
        let again = std::thread::spawn(move || {
            enter(fd).unwrap();
            std::fs::read_link("/proc/thread-self/ns/net").unwrap()
        });
        assert_eq!(again.join().unwrap(), name);
    }
}
