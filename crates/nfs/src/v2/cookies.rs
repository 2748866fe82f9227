//! Directory cookies of 32 bits for a backend's of 64.
//!
//! A cookie below 2^31 is sent as it is. A larger one (ext4 counts in 63-bit hashes) is sent as
//! 2^31 plus a 31-bit hash of itself, so that it is always the same. Clients usually continue after
//! the last entry of a reply: for each reply with a hashed last cookie, the table stores the long
//! cookie by directory and short cookie, at most [`COOKIES_MAX`] of them; the oldest is evicted
//! first. If a client sends one that is not in the table (an entry in the middle, after a restart or
//! a long pause), the directory is read from the start until an entry has that short cookie; if none
//! has, the cookie is bad.
//!
//! Two entries of one directory with the same short cookie do no harm while the table has the one
//! that was sent last; only a search from the start may continue at the wrong one.
//!
//! Lock: `Cookies::table`, held for one look-up or insertion.

use super::fifo_map::FifoMap;
use proto::nfs2::Fh2;
use std::sync::{Mutex, PoisonError};

/// The most cookies in the table: about 400 KiB.
const COOKIES_MAX: usize = 4096;
/// Set in hashed cookies only.
const HASHED: u32 = 1 << 31;

/// The table of long cookies.
#[derive(Debug)]
pub struct Cookies {
    table: Mutex<FifoMap<(Fh2, u32), u64>>,
}

impl Default for Cookies {
    fn default() -> Self {
        Self { table: Mutex::new(FifoMap::new(COOKIES_MAX)) }
    }
}

/// The short form of a cookie.
pub fn shorten(cookie: u64) -> u32 {
    match u32::try_from(cookie) {
        Ok(small) if small < HASHED => small,
        // The high bits of a product with an odd constant depend on all bits of the cookie.
        _ => {
            let mixed = (cookie ^ (cookie >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            HASHED | u32::try_from(mixed).unwrap_or_default()
        }
    }
}

/// Where a READDIR continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// After this cookie of the backend.
    After(u64),
    /// After the entry whose cookie has this short form, which has to be searched for.
    Search(u32),
}

impl Cookies {
    /// Stores the last cookie of a reply.
    pub fn remember(&self, dir: &Fh2, cookie: u64) {
        let short = shorten(cookie);
        if short & HASHED != 0 {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            table.insert((*dir, short), cookie);
        }
    }

    /// Where to continue for a client's cookie.
    pub fn resume(&self, dir: &Fh2, short: u32) -> Resume {
        if short & HASHED == 0 {
            return Resume::After(u64::from(short));
        }
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.find(&(*dir, short)).map_or(Resume::Search(short), |cookie| Resume::After(*cookie))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cookies, Resume, shorten};

    #[test]
    fn cookies_below_2_31_are_sent_unchanged() {
        let cookies = Cookies::default();
        for cookie in [0, 1, 0x7fff_ffff] {
            assert_eq!(u64::from(shorten(cookie)), cookie);
            assert_eq!(cookies.resume(&[0; 32], shorten(cookie)), Resume::After(cookie));
        }
    }

    #[test]
    fn large_cookies_are_stored_per_directory() {
        let cookies = Cookies::default();
        let large = 0x1234_5678_9abc_def0;
        cookies.remember(&[1; 32], large);
        assert_eq!(cookies.resume(&[1; 32], shorten(large)), Resume::After(large));
        assert_eq!(cookies.resume(&[2; 32], shorten(large)), Resume::Search(shorten(large)));
        assert!(shorten(1 << 31) >= 1 << 31);
    }

    #[test]
    fn short_forms_of_many_cookies_differ() {
        let short: std::collections::HashSet<u32> =
            (1..5000u64).map(|n| shorten(n.wrapping_mul(0x0001_0000_0100_0193) >> 1)).collect();
        assert!(short.len() > 4990, "{}", short.len());
    }
}
