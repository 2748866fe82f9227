//! Telling an object that was just made by name from one that was moved to that name since.
//!
//! The kernel makes directories, links and nodes without opening them. SyncPoint the server has opened the
//! name another client may have moved something else there, and whatever it is would be answered as
//! new, and get the owner and the special bits that were asked for. So what is found is compared
//! with what was made: its type, its links, its owner, and when it came to be, where the file system
//! tells. What passes for it by mistake is of the same type, of the same user, has one name and is not older
//! than the call by more than [`SLACK`]: nothing that the caller could not have changed himself.
//!
//! Some file systems (FAT, many in user space) give everything to one owner, or tell the time by another
//! machine's clock. There nothing matches; what has the right type is shown if no other call has
//! changed the directory meanwhile, and nothing is set on it.

use crate::attr::file_type;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::stat::Stat;
use vfs::FileType;

/// By how much the time of creation may be before the call: file systems stamp by a coarser clock, and FAT
/// to two seconds.
const SLACK: Duration = Duration::from_secs(2);

/// Who makes something, and what. To be put together before it is made.
pub struct ExpectedObject {
    ftype: FileType,
    /// Of a device.
    rdev: Option<(u32, u32)>,
    uid: u32,
    /// The earliest second and nanosecond that it can be from.
    since: (i64, u32),
}

impl ExpectedObject {
    /// The caller, who is about to make something of this type.
    pub fn new(uid: u32, ftype: FileType) -> Self {
        let since = SystemTime::now().checked_sub(SLACK).unwrap_or(UNIX_EPOCH);
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos());
        Self { ftype, rdev: None, uid, since }
    }

    /// The same of a device with these numbers.
    pub fn device(uid: u32, ftype: FileType, rdev: (u32, u32)) -> Self {
        Self { rdev: Some(rdev), ..Self::new(uid, ftype) }
    }

    /// Whether this is what was made, as far as can be told.
    pub fn matches(&self, stat: &Stat) -> bool {
        let new = stat.btime.is_none_or(|born| born >= self.since);
        self.could_match(stat) && stat.uid == self.uid && new
    }

    /// Whether it is of the right kind and has no other name.
    pub fn could_match(&self, stat: &Stat) -> bool {
        // a directory's own `.` counts on some file systems
        let links = if self.ftype == FileType::Directory { 2 } else { 1 };
        file_type(stat.mode) == self.ftype
            && stat.nlink <= links
            && self.rdev.is_none_or(|rdev| rdev == stat.rdev)
    }
}

#[cfg(test)]
mod tests {
    use super::ExpectedObject;
    use std::os::fd::AsFd;
    use sys::stat::Stat;
    use vfs::FileType;

    #[test]
    fn what_is_older_has_another_owner_or_more_names_was_not_made() {
        let dir = std::fs::File::open("/proc/self").unwrap();
        let like = sys::stat::of_fd(dir.as_fd()).unwrap();
        let dir = Stat { mode: 0o040_755, nlink: 2, uid: 7, btime: Some((1000, 5)), ..like };
        let of = |ftype| ExpectedObject { ftype, rdev: None, uid: 7, since: (1000, 5) };
        let mkdir = of(FileType::Directory);
        assert!(mkdir.matches(&dir) && mkdir.matches(&Stat { nlink: 1, ..dir }));
        assert!(mkdir.matches(&Stat { btime: None, ..dir }), "nobody knows");
        for other in [
            Stat { btime: Some((1000, 4)), ..dir },
            Stat { btime: Some((999, 900)), ..dir },
            Stat { uid: 8, ..dir },
        ] {
            assert!(!mkdir.matches(&other) && mkdir.could_match(&other), "{other:?}");
        }
        assert!(!mkdir.could_match(&Stat { nlink: 3, ..dir }));
        assert!(!mkdir.could_match(&Stat { mode: 0o100_755, nlink: 1, ..dir }));
        let node = Stat { mode: 0o020_644, nlink: 1, rdev: (1, 3), ..dir };
        let mknod = ExpectedObject { rdev: Some((1, 3)), ..of(FileType::Char) };
        assert!(mknod.matches(&node) && !mknod.matches(&Stat { rdev: (1, 5), ..node }));
        assert!(!mknod.matches(&Stat { nlink: 2, ..node }));
    }
}
