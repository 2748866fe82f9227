//! What is known of an open object's ACL, so that a check needs no system call.
//!
//! Invariant: what is kept belongs to exactly the ctime that it is kept under. Setting an ACL
//! changes ctime, but within the clock's grain it may do so without a visible difference; so
//! nothing is kept under a ctime that was younger than that grain when the ACL was fetched.

use crate::cache::change_attr::{ctime_ns, is_settled};
use arc_swap::ArcSwapOption;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use vfs::acl::Acl;
use vfs::{Attr, Time};

/// Marks that nothing is known; a real stamp is never this in the lifetime of Linux.
const UNKNOWN: u64 = u64::MAX;

/// The cell.
pub struct AclCache {
    /// The ctime under which there is no ACL: nearly every object.
    none_at: AtomicU64,
    /// An ACL and the ctime that it belongs to, from the first on that was seen: the end of a cell
    /// that can be exchanged looks through the threads, which objects without an ACL are spared.
    known: OnceLock<ArcSwapOption<(u64, Acl)>>,
}

impl Default for AclCache {
    fn default() -> Self {
        Self { none_at: AtomicU64::new(UNKNOWN), known: OnceLock::new() }
    }
}

impl AclCache {
    /// Gives `check` the ACL that the object has under `attr`, which must have been fetched just
    /// now.
    ///
    /// # Errors
    /// What the kernel says.
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
        let known = self.known.get().map(ArcSwapOption::load);
        if let Some((at, acl)) = known.as_ref().and_then(|known| known.as_deref())
            && *at == stamp
        {
            return Ok(check(Some(acl)));
        }
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
                    let known = self.known.get_or_init(ArcSwapOption::empty);
                    known.store(Some(Arc::new((stamp, acl))));
                }
                Ok(answer)
            }
        }
    }
}
