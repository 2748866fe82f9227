//! The only unsafe code of Bowline: thin, safe faces of the Linux system calls that the server
//! needs and the standard library lacks. One module per family; each unsafe block says why it is
//! sound. Nothing here knows of NFS.

pub mod acl;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod datagram;
pub mod descriptors;
pub mod dirent;
pub mod epoll;
pub mod errno;
pub mod event;
pub mod exit;
pub mod file_handle;
pub mod gssapi;
pub mod identity;
pub mod inherited;
pub mod io;
pub mod kernel_tls;
pub mod lease;
pub mod limits;
pub mod mmsg;
pub mod name_service;
pub mod namespace;
pub mod netlink;
pub mod netns;
pub mod ofd_lock;
pub mod open;
pub mod outgoing;
pub mod pipe;
pub mod prefetch;
pub mod quota;
pub mod required_calls;
pub mod sandbox;
pub mod send_on_drop;
pub mod signal;
pub mod snapshot;
pub mod socket;
pub mod space;
pub mod stat;
pub mod system_call;
pub mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod thread;
pub mod tun;
pub mod xattr;
pub mod zeros;
