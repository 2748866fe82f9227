//! The cached ACL of an open object, so that a check needs no system call.
//!
//! Invariant: a cached ACL belongs to exactly the ctime that it is stored with. Setting an ACL
//! changes ctime, but within the clock's granularity the change may not be visible; so nothing is
//! cached under a ctime that was younger than that when the ACL was fetched.

use crate::cache::change_attr::{ctime_ns, is_settled};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use sys::snapshot::{ShortReads, Snapshot};
use vfs::acl::Acl;
use vfs::{Attr, Time};

/// Marks an unknown ACL; a real stamp never has this value.
const UNKNOWN: u64 = u64::MAX;

/// The cache of one object.
pub struct AclCache {
    /// The ctime under which there is no ACL: nearly every object.
    none_at: AtomicU64,
    /// An ACL and the ctime that it belongs to, from the first one on that was seen.
    known: OnceLock<Snapshot<(u64, Acl), ShortReads>>,
}

impl Default for AclCache {
    fn default() -> Self {
        Self { none_at: AtomicU64::new(UNKNOWN), known: OnceLock::new() }
    }
}

impl AclCache {
    /// Passes `check` the ACL that the object has under `attr`, which must have just been fetched.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn with<R>(
        &self,
        fd: BorrowedFd<'_>,
        attr: &Attr,
        check: impl FnOnce(Option<&Acl>) -> R,
    ) -> io::Result<R> {
        let stamp = ctime_ns(attr.ctime);
        if self.none_at.load(Ordering::Relaxed) == stamp {
            return Ok(check(None));
        }
        let known = self.known.get().map(Snapshot::load);
        if let Some((at, acl)) = known.as_deref()
            && *at == stamp
        {
            return Ok(check(Some(acl)));
        }
        drop(known);
        let keep = is_settled(attr.ctime, Time::now());
        match sys::acl::get(fd, sys::acl::ACCESS)? {
            None => {
                if keep {
                    self.none_at.store(stamp, Ordering::Relaxed);
                }
                Ok(check(None))
            }
            Some(value) => {
                let acl = Acl::parse(&value).ok_or(io::ErrorKind::InvalidData)?;
                let answer = check(Some(&acl));
                if keep {
                    self.note(stamp, acl);
                }
                Ok(answer)
            }
        }
    }

    fn note(&self, stamp: u64, acl: Acl) {
        match self.known.get() {
            Some(known) => known.replace((stamp, acl)),
            // or another thread has just stored it
            None => drop(self.known.set(Snapshot::new((stamp, acl)))),
        }
    }
}
