//! Distinguishes an object that was just created by name from one that was renamed to that name
//! since.
//!
//! The kernel creates directories, links and nodes without opening them. Until the server has opened the
//! name another client may have renamed something else to it, and that would be returned as the new object,
//! and get the requested owner and special bits. So the object found is compared with the expected one: its
//! type, its links, its owner, and its time of creation, where the file system has it. An object that passes
//! by mistake is of the same type, of the same user, has one name and is not older than the call by more
//! than [`SLACK`]: nothing that the caller could not have changed itself.
//!
//! Some file systems (FAT, many in user space) give everything to one owner, or have times by another
//! machine's clock. There nothing matches; an object of the right type is returned if no other call has
//! changed the directory meanwhile, and nothing is set on it.

use crate::attr::file_type;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::stat::Stat;
use vfs::FileType;

/// Tolerance of the time of creation before the call: file systems have a coarser clock, and FAT a
/// granularity of two seconds.
const SLACK: Duration = Duration::from_secs(2);

/// The expected object. To be constructed before the creation.
pub struct ExpectedObject {
    ftype: FileType,
    /// Of a device.
    rdev: Option<(u32, u32)>,
    uid: u32,
    /// The earliest time of creation, in seconds and nanoseconds.
    since: (i64, u32),
}

impl ExpectedObject {
    /// An object of this type that the caller is about to create.
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

    /// Whether this is the created object, as far as can be determined.
    pub fn matches(&self, stat: &Stat) -> bool {
        let new = stat.btime.is_none_or(|born| born >= self.since);
        self.could_match(stat) && stat.uid == self.uid && new
    }

    /// Whether it has the right type and no other name.
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
    fn an_older_or_foreign_object_was_not_created_by_the_call() {
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
