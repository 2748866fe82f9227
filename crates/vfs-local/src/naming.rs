//! How objects are named and found again.
//!
//! A file id is one byte of kind and the object's key: the kernel's handle where the file system
//! has handles (kind: the handle's type), else inode number and time of creation (kind 255). The
//! ids are the same in both modes, so handles also survive a change between them:
//!
//! - *By handle*: the kernel opens the object by its handle (`CAP_DAC_READ_SEARCH`).
//! - *By table*: a persistent table remembers for each id its parent and its name. The path is put
//!   together up to the root and opened component by component, never through a link and never
//!   into another mount. What is found must have the very id. If it has not (its newest name was
//!   removed, somebody renamed it behind our back), its other names are tried, then the directories
//!   where it was are searched once.

use crate::errno;
use crate::inode_table::{FileKey, InodeTable, Place};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use sys::file_handle::{self, KernelHandle};
use sys::open::{How, open_entry, open_listing, reopen};
use vfs::{Fid, Result, Status};

/// The kind of ids made of inode number and time of creation.
const KIND_INODE: u8 = 255;
/// Directories between an object and the root of its export: more than any path has.
const DEPTH_MAX: usize = 2048;
/// Entries that are looked at when an object is not where the table says.
const SEARCH_MAX: usize = 100_000;

/// Objects that are looked for at a time, each in the next: it takes that many directories that were
/// moved behind the server's back, each into the next.
const SEARCHES_MAX: usize = 16;

/// The least time between two lines in the log about tables that cannot be written: a call fails
/// for each name that is new, and clients try again and again.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// How a backend finds its objects.
pub enum Finder {
    /// The kernel opens handles for us.
    Handles,
    /// Names are remembered.
    Table(Arc<InodeTable>),
}

/// The id of an open object.
///
/// # Errors
/// What the kernel says.
pub fn fid_of(fd: BorrowedFd<'_>) -> Result<Fid> {
    match file_handle::of_fd(fd) {
        Ok(handle) if fits(&handle) => Ok(from_handle(&handle)?),
        Ok(_) => from_inode(fd),
        Err(e) if errno::status(&e) == Status::NotSupp => from_inode(fd),
        Err(e) => Err(errno::from(e)),
    }
}

/// The id of an entry that is not opened; `None` if that takes an open.
///
/// # Errors
/// What the kernel says.
pub fn fid_of_entry(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<Option<Fid>> {
    match file_handle::of_entry(dir, name) {
        Ok(handle) if fits(&handle) => from_handle(&handle).map(Some),
        Ok(_) => Ok(None),
        Err(e) if errno::status(&e) == Status::NotSupp => Ok(None),
        Err(e) => Err(errno::from(e)),
    }
}

fn fits(handle: &KernelHandle) -> bool {
    handle.kind != KIND_INODE && handle.bytes().len() < Fid::MAX
}

fn from_handle(handle: &KernelHandle) -> Result<Fid> {
    let mut bytes = [0; Fid::MAX];
    let data = handle.bytes();
    let whole = bytes.get_mut(..=data.len()).ok_or(Status::ServerFault)?;
    if let Some((kind, rest)) = whole.split_first_mut() {
        *kind = handle.kind;
        rest.copy_from_slice(data);
    }
    Fid::new(whole).ok_or(Status::ServerFault)
}

fn from_inode(fd: BorrowedFd<'_>) -> Result<Fid> {
    let stat = sys::stat::of_fd(fd).map_err(errno::from)?;
    let (sec, nsec) = stat.btime.unwrap_or_default();
    let mut bytes = vec![KIND_INODE];
    bytes.extend(stat.ino.to_be_bytes());
    bytes.extend(sec.to_be_bytes());
    bytes.extend(nsec.to_be_bytes());
    Fid::new(&bytes).ok_or(Status::ServerFault)
}

fn file_key(fid: &Fid) -> Result<FileKey> {
    FileKey::new(fid.bytes()).ok_or(Status::BadHandle)
}

fn place(dir: &Fid, name: &[u8]) -> Result<Place> {
    Ok(Place { parent: file_key(dir)?, name: name.to_vec() })
}

impl Finder {
    /// Opens an object as a path. May block.
    ///
    /// # Errors
    /// [`Status::Stale`] if it is gone, [`Status::BadHandle`] if the id is none.
    pub fn open(&self, root: BorrowedFd<'_>, root_fid: &Fid, fid: &Fid) -> Result<OwnedFd> {
        if fid == root_fid {
            return root.try_clone_to_owned().map_err(errno::from);
        }
        match self {
            Self::Handles => open_handle(root, fid),
            Self::Table(table) => Walk { table, root, root_fid }.open(fid, None),
        }
    }

    /// Notes where an object is.
    ///
    /// # Errors
    /// [`Status::Io`] and the like if the table cannot be written; the id would not survive.
    pub fn remember(&self, dir: &Fid, name: &[u8], fid: &Fid) -> Result<()> {
        match self {
            Self::Handles => Ok(()),
            Self::Table(table) => {
                table.remember(&file_key(dir)?, name, &file_key(fid)?).map_err(unwritten)
            }
        }
    }

    /// Notes that an object is about to be at another place as well: whoever is killed in between finds it at one
    /// of the two. Says whether that is new, and has to be taken back if nothing comes of it.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn expect(&self, fid: &Fid, dir: &Fid, name: &[u8]) -> Result<bool> {
        let Self::Table(table) = self else { return Ok(false) };
        table.expect(&file_key(fid)?, &place(dir, name)?).map_err(unwritten)
    }

    /// Notes that an object is no longer at a place but at another.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn moved(
        &self,
        fid: &Fid,
        (from_dir, from): (&Fid, &[u8]),
        (to_dir, to): (&Fid, &[u8]),
    ) -> Result<()> {
        let Self::Table(table) = self else { return Ok(()) };
        let (from, to) = (place(from_dir, from)?, place(to_dir, to)?);
        table.moved(&file_key(fid)?, &from, Some(&to)).map_err(unwritten)
    }

    /// Notes that an object that has other names is no longer at a place.
    pub fn left(&self, fid: &Fid, dir: &Fid, name: &[u8]) {
        if let Self::Table(table) = self
            && let (Ok(key), Ok(from)) = (file_key(fid), place(dir, name))
            && let Err(error) = table.moved(&key, &from, None)
        {
            // the place does no harm but that of a search
            tell_of(&error);
        }
    }

    /// Whether names are remembered, and have to be forgotten.
    pub const fn remembers(&self) -> bool {
        matches!(self, Self::Table(_))
    }

    /// Forgets an object that is no more.
    pub fn forget(&self, fid: &Fid) {
        if let Self::Table(table) = self
            && let Ok(key) = file_key(fid)
            && let Err(error) = table.forget(&key)
        {
            // the row does no harm but that of a search
            tell_of(&error);
        }
    }

    /// Opens an object, of which we have a path descriptor, for data.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open_data(
        &self,
        root: BorrowedFd<'_>,
        fid: &Fid,
        path: BorrowedFd<'_>,
        how: How,
    ) -> io::Result<OwnedFd> {
        if matches!(self, Self::Handles)
            && let Some(handle) = kernel_handle(fid)
        {
            return file_handle::open(root, &handle, how);
        }
        reopen(path, how)
    }
}

/// The status for a table that cannot be written. Its client is told of a full disk that is not the
/// export's, so the log says which one it is.
#[expect(clippy::needless_pass_by_value, reason = "the form that map_err calls")]
fn unwritten(error: io::Error) -> Status {
    tell_of(&error);
    errno::status(&error)
}

/// Tells the operator that tables cannot be written, now and then.
fn tell_of(error: &io::Error) {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let now = Instant::now();
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.is_none_or(|then| now.duration_since(then) >= TELL_EVERY) {
        *told = Some(now);
        drop(told);
        tracing::warn!(
            "the table of file names (names-* in the state directory, which `bowline status` names) \
             cannot be written, and calls fail for files that it does not know: {error}"
        );
    }
}

fn kernel_handle(fid: &Fid) -> Option<KernelHandle> {
    let (kind, data) = fid.bytes().split_first()?;
    (*kind != KIND_INODE).then(|| KernelHandle::new(*kind, data))?
}

fn open_handle(root: BorrowedFd<'_>, fid: &Fid) -> Result<OwnedFd> {
    let handle = kernel_handle(fid).ok_or(Status::BadHandle)?;
    file_handle::open(root, &handle, How::Path).map_err(|e| match errno::status(&e) {
        Status::Inval | Status::NotSupp => Status::BadHandle,
        Status::NoEnt => Status::Stale,
        other => other,
    })
}

/// Finding one object by the table.
struct Walk<'w> {
    table: &'w InodeTable,
    root: BorrowedFd<'w>,
    root_fid: &'w Fid,
}

/// The objects that are being looked for, each because the one before it may be in it. What the table
/// knows of old places need not be a tree: two directories may have been in one another by turns.
#[derive(Clone, Copy)]
struct Searches<'s> {
    key: FileKey,
    before: Option<&'s Self>,
    count: usize,
}

impl Searches<'_> {
    fn has(&self, key: &FileKey) -> bool {
        self.key == *key || self.before.is_some_and(|before| before.has(key))
    }
}

impl Walk<'_> {
    /// Opens an object, for which others may be looked for already.
    fn open(&self, fid: &Fid, within: Option<&Searches<'_>>) -> Result<OwnedFd> {
        let way = self.way_up(fid)?;
        match self.down(&way) {
            Ok(fd) if fid_of(fd.as_fd())? == *fid => Ok(fd),
            Ok(_) => self.mend(&way, within),
            Err(e) if matches!(errno::status(&e), Status::NoEnt | Status::NotDir) => {
                self.mend(&way, within)
            }
            Err(e) => Err(errno::from(e)),
        }
    }

    /// Keys and names from the object up to the root, the object's own first, of several names the
    /// newest.
    fn way_up(&self, fid: &Fid) -> Result<Vec<(FileKey, Vec<u8>)>> {
        let (root, mut key) = (file_key(self.root_fid)?, file_key(fid)?);
        let mut way = Vec::new();
        while key != root {
            let place = self.table.places(&key).into_iter().next().ok_or(Status::Stale)?;
            way.push((key, place.name));
            if way.len() > DEPTH_MAX {
                return Err(Status::Stale);
            }
            key = place.parent;
        }
        Ok(way)
    }

    fn down(&self, way: &[(FileKey, Vec<u8>)]) -> io::Result<OwnedFd> {
        let mut at = self.root.try_clone_to_owned()?;
        for (_, name) in way.iter().rev() {
            at = open_entry(at.as_fd(), name, How::Path, false)?;
        }
        Ok(at)
    }

    /// Goes down a way that leads elsewhere: what is not where it was is looked for, from the top on,
    /// so that everything below a directory that was renamed is found by one search. Gives the object
    /// at the end.
    fn mend(&self, way: &[(FileKey, Vec<u8>)], within: Option<&Searches<'_>>) -> Result<OwnedFd> {
        let mut at = self.root.try_clone_to_owned().map_err(errno::from);
        for (key, name) in way.iter().rev() {
            let fid = Fid::new(key.bytes()).ok_or(Status::Stale)?;
            let there = match at {
                Ok(dir) => entry_if(dir.as_fd(), name, &fid)?,
                Err(_) => None,
            };
            at = match there.map_or_else(|| self.elsewhere(key, &fid, within), Ok) {
                // what is below it may have another place
                Err(Status::Stale) => Err(Status::Stale),
                found => Ok(found?),
            };
        }
        at
    }

    /// The object is not under its newest name: tries the others, then looks for it in the
    /// directories where it was. If it is not there either it is forgotten, so that the next call
    /// with this id costs nothing; a look-up that meets it elsewhere brings it back. It is not
    /// forgotten where it could not be looked for, as without a descriptor or a right.
    fn elsewhere(
        &self,
        key: &FileKey,
        fid: &Fid,
        before: Option<&Searches<'_>>,
    ) -> Result<OwnedFd> {
        let count = before.map_or(0, |before| before.count);
        if count >= SEARCHES_MAX || before.is_some_and(|before| before.has(key)) {
            return Err(Status::Stale);
        }
        let within = Searches { key: *key, before, count: count.saturating_add(1) };
        let mut dirs: Vec<(FileKey, OwnedFd)> = Vec::new();
        let mut unsure = None;
        for place in self.table.places(key) {
            let dir = match self.dir(&place.parent, &within) {
                Ok(dir) => dir,
                Err(Status::Stale | Status::XDev) => continue,
                Err(status) => {
                    unsure = Some(status);
                    continue;
                }
            };
            if let Some(fd) = entry_if(dir.as_fd(), &place.name, fid)? {
                self.table.prefer(&place, key).map_err(unwritten)?;
                return Ok(fd);
            }
            if dirs.iter().all(|(known, _)| *known != place.parent) {
                dirs.push((place.parent, dir));
            }
        }
        for (parent, dir) in dirs {
            if let Some((name, fd)) = entry_of(dir.as_fd(), fid)? {
                self.table.prefer(&Place { parent, name }, key).map_err(unwritten)?;
                return Ok(fd);
            }
        }
        if let Some(status) = unsure {
            return Err(status);
        }
        self.table.forget(key).map_err(unwritten)?;
        Err(Status::Stale)
    }

    fn dir(&self, key: &FileKey, within: &Searches<'_>) -> Result<OwnedFd> {
        let fid = Fid::new(key.bytes()).ok_or(Status::Stale)?;
        if fid == *self.root_fid {
            return self.root.try_clone_to_owned().map_err(errno::from);
        }
        self.open(&fid, Some(within))
    }
}

/// The entry of this name, if it is this object.
fn entry_if(dir: BorrowedFd<'_>, name: &[u8], fid: &Fid) -> Result<Option<OwnedFd>> {
    match open_entry(dir, name, How::Path, false).map_err(errno::from) {
        Ok(fd) => Ok((fid_of(fd.as_fd())? == *fid).then_some(fd)),
        // mounts are not entered
        Err(Status::NoEnt | Status::NotDir | Status::Stale | Status::XDev) => Ok(None),
        Err(status) => Err(status),
    }
}

/// The entry of a directory that is this object: its name, and open as a path.
#[inline(never)] // its room is not to be on the stack of everybody who waits for it
fn entry_of(dir: BorrowedFd<'_>, fid: &Fid) -> Result<Option<(Vec<u8>, OwnedFd)>> {
    let wanted = inode_in(fid);
    let listing = open_listing(dir).map_err(errno::from)?;
    let mut found = Ok(None);
    let mut looked_at = 0;
    let mut room = sys::dirent::Room::default();
    let listed = sys::dirent::list(listing.as_fd(), &mut room, sys::dirent::BATCH, &mut |entry| {
        let name = entry.name.to_bytes();
        let may_be = wanted.is_none_or(|ino| ino == entry.ino) && !matches!(name, b"." | b"..");
        if may_be {
            match entry_if(dir, name, fid) {
                Ok(None) => {}
                Ok(Some(fd)) => {
                    found = Ok(Some((name.to_vec(), fd)));
                    return ControlFlow::Break(());
                }
                Err(status) => found = Err(status),
            }
        }
        looked_at += 1;
        if looked_at < SEARCH_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    listed.map(drop).map_err(errno::from)?;
    found
}

/// The inode number in an id, where we know the layout: ours, and the kernel's generic one.
fn inode_in(fid: &Fid) -> Option<u64> {
    let (kind, data) = fid.bytes().split_first()?;
    match (kind, data.len()) {
        (&KIND_INODE, _) => data.first_chunk().map(|b| u64::from_be_bytes(*b)),
        // other lengths of these types are a file system's own: tmpfs begins with the generation
        (1, 8) | (2, 16) => data.first_chunk().map(|b| u64::from(u32::from_ne_bytes(*b))),
        _ => None,
    }
}
