//! The directory in which files that are open when they lose their last name have another one, so that they outlive the
//! server: `.bowline-open` in the exported directory. A file's name there is its file id in hexadecimal digits.
//!
//! It is used only if it is the server's own: a directory, neither a symbolic link nor a mount point, of the server's
//! user, which nobody else may enter and no other server has locked (flock(2)): each would take the other's files for
//! those of an earlier run. Nothing is followed in it, and nothing is removed from it but a regular file whose
//! name is its own id.

use crate::attr::file_type;
use crate::errno;
use crate::naming::fid::fid_of;
use crate::naming::resolver::FidResolver;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use sys::dirent::{BATCH, Room, list, seek};
use sys::namespace::{make_dir, make_link, remove};
use sys::open::{How, open_entry};
use vfs::{Fid, FileType, Status};

/// Its name.
pub const NAME: &[u8] = b".bowline-open";
/// Its mode.
const MODE: u32 = 0o700;
/// What nobody but its owner may have.
const OTHERS: u32 = 0o077;

/// The directory, open and locked.
pub struct UnlinkedDir {
    dir: File,
    fid: Fid,
    /// Device and inode number of the directory that it is in.
    parent: (u64, u64),
    resolver: FidResolver,
    /// A failure to add a file was reported.
    reported: AtomicBool,
}

impl UnlinkedDir {
    /// Opens it, if it is there. To be called as the server, whose user id is `owner`.
    ///
    /// # Errors
    /// The kernel's error; [`io::ErrorKind::Other`] with a reason if it is not the server's own.
    pub fn open(
        root: BorrowedFd<'_>,
        (root_fid, resolver): (&Fid, &FidResolver),
        owner: u32,
    ) -> io::Result<Option<Self>> {
        let dir = match open_entry(root, NAME, How::List, false) {
            Ok(dir) => File::from(dir),
            Err(error) if errno::status(&error) == Status::NoEnt => return Ok(None),
            Err(error) => return Err(error),
        };
        dir.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other("another server uses it"),
            TryLockError::Error(error) => error,
        })?;
        let (stat, around) = (sys::stat::of_fd(dir.as_fd())?, sys::stat::of_fd(root)?);
        if stat.nlink == 0 {
            // another server has just removed it
            return Ok(None);
        }
        if stat.uid != owner || stat.mode & OTHERS != 0 {
            let why = "it is there, and not a directory that only the server may enter";
            return Err(io::Error::other(why));
        }
        let odd = |status: Status| io::Error::other(status.to_string());
        let fid = fid_of(dir.as_fd()).map_err(odd)?;
        resolver.remember(root_fid, NAME, &fid).map_err(odd)?;
        let parent = (around.dev, around.ino);
        let resolver = resolver.clone();
        Ok(Some(Self { dir, fid, parent, resolver, reported: AtomicBool::new(false) }))
    }

    /// Opens it, and makes it if it is not there. To be called as the server.
    ///
    /// # Errors
    /// As [`UnlinkedDir::open`].
    pub fn make(
        root: BorrowedFd<'_>,
        by: (&Fid, &FidResolver),
        owner: u32,
    ) -> io::Result<Option<Self>> {
        if let Some(dir) = Self::open(root, by, owner)? {
            return Ok(Some(dir));
        }
        match make_dir(root, NAME, MODE) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Self::open(root, by, owner),
        }
    }

    /// Device and inode number of the directory that it is in.
    pub const fn parent(&self) -> (u64, u64) {
        self.parent
    }

    /// It, open for listing and syncing.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Gives an open file, whose id this is, a name here. It may have it already.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add(&self, file: BorrowedFd<'_>, fid: &Fid) -> io::Result<()> {
        let name = name_of(fid);
        match make_link(file, self.dir.as_fd(), &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.has(fid)? => {}
            made => made?,
        }
        // a file system may give it another number with another name (overlays)
        if !self.has(fid)? {
            remove(self.dir.as_fd(), &name)?;
            return Err(io::Error::other("it does not keep its number"));
        }
        if self.resolver.remember(&self.fid, &name, fid).is_err() {
            self.remove(fid)?;
            return Err(io::Error::other("the table of file names cannot be written"));
        }
        Ok(())
    }

    /// Whether the name of this id is that of a regular file with it.
    fn has(&self, fid: &Fid) -> io::Result<bool> {
        let file = match open_entry(self.dir.as_fd(), &name_of(fid), How::Path, false) {
            Ok(file) => file,
            Err(error) if errno::status(&error) == Status::NoEnt => return Ok(false),
            Err(error) => return Err(error),
        };
        let stat = sys::stat::of_fd(file.as_fd())?;
        let is_file = file_type(stat.mode) == FileType::Regular;
        Ok(is_file && fid_of(file.as_fd()).is_ok_and(|found| found == *fid))
    }

    /// Removes a file's name here, if it has one. To be called as the server.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove(&self, fid: &Fid) -> io::Result<()> {
        if !self.has(fid)? {
            return Ok(());
        }
        let name = name_of(fid);
        remove(self.dir.as_fd(), &name)?;
        self.resolver.name_removed(fid, &self.fid, &name);
        Ok(())
    }

    /// The ids of the files that have a name here, by these names. To be called as the server.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn fids(&self) -> io::Result<Vec<Fid>> {
        let mut fids = Vec::new();
        seek(self.dir.as_fd(), 0)?;
        let _all = list(self.dir.as_fd(), &mut Room::default(), BATCH, &mut |entry| {
            fids.extend(fid_in(entry.name.to_bytes()));
            ControlFlow::Continue(())
        })?;
        Ok(fids)
    }

    /// Whether a failure to add a file is the first one.
    pub fn is_first_failure(&self) -> bool {
        !self.reported.swap(true, Relaxed)
    }
}

/// A file's name: two digits for each byte of its id.
fn name_of(fid: &Fid) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
    fid.bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// The id in a name; `None` for a name that no file gets.
fn fid_in(name: &[u8]) -> Option<Fid> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = name.as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(value(*high)? << 4 | value(*low)?);
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?;
    if rest.is_empty() && !bytes.is_empty() { Fid::new(&bytes) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{fid_in, name_of};
    use vfs::Fid;

    #[test]
    fn a_name_holds_the_id() {
        for bytes in [&[1_u8][..], &[0, 255, 16, 9], &[7; Fid::MAX]] {
            let fid = Fid::new(bytes).unwrap();
            assert_eq!(fid_in(&name_of(&fid)), Some(fid));
        }
        assert_eq!(name_of(&Fid::new(&[0xa1, 0x0f]).unwrap()), b"a10f");
        for other in [&b"."[..], b"..", b"", b"a", b"A1", b"0x", b"file", &[b'0'; 2 * Fid::MAX + 2]]
        {
            assert_eq!(fid_in(other), None, "{other:?}");
        }
    }
}
