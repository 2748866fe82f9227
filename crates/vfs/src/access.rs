//! The permission check in user space, exactly as the kernel would decide.
//!
//! Owns: mode bits, POSIX ACLs and the exceptions that an NFS server needs, as pure functions.
