//! READDIR and READDIRPLUS: the kernel's own positions are the cookies, so they are as stable as the
//! file system makes them, and no state is kept between calls.
//!
//! Each call lists through a descriptor of its own: two listings never share a position. It stays open
//! for the next. Memory is one batch of at most 32 KiB on the stack, whatever the directory's size; a
//! batch is about as long as the reply, because the kernel's entries are as long as READDIR's on the
//! wire.
//!
//! Ids and attributes of entries cost one system call for an object that is known by this name (see
//! [`crate::cache::name_cache`]), two for others, an open only if the results of those two are
//! inconsistent.

use crate::cache::name_cache::{NameHint, Tag};
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::naming::fid::{fid_of, fid_of_entry};
use crate::ops::entry::{EntryFound, open_or_covered};
use crate::ops::permission::check;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use sys::dirent::{BATCH, Entry, Room, list, seek};
use sys::open::open_listing;
use sys::stat::Stat;
use vfs::access::Permission;
use vfs::{Attr, Cx, DirEntry, Fid, ListArgs, Listing, Node, Result, Status};

/// Bytes of a batch in addition to the reply's: an entry of the longest name, and the rounding of the
/// others.
const BATCH_MORE: usize = 512;

/// See [`vfs::Backend::readdir`].
pub fn readdir(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    args: ListArgs,
    sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
) -> Result<Listing> {
    let (file, attr) = local.hold_dir(cx, dir)?;
    check(local, cx, &file, &attr, Permission::READ)?;
    let now_s = local.files.now_s();
    if !file.listed_lately(now_s) {
        local.will_block(cx)?;
    }
    local.identity.act_as_server().map_err(errno::from)?;
    let listing = match file.take_listing() {
        Some(listing) => listing,
        None => local.files.open_with_retry(|| open_listing(file.path())).map_err(errno::from)?,
    };
    position(listing.as_fd(), args.cookie)?;
    // nodes of entries require search permission
    let nodes = args.nodes && check(local, cx, &file, &attr, Permission::EXEC).is_ok();
    let lister = Lister {
        local,
        dir,
        file: &file,
        listing: listing.as_fd(),
        attr,
        nodes,
        batch: batch(args.room),
    };
    let eof = lister.run(sink)?;
    file.put_listing(listing);
    file.note_listed(now_s);
    Ok(Listing { eof, dir: local.stat(&file)? })
}

/// Bytes of the kernel's entries that are fetched at once for this many of READDIR's. Slightly more, so that
/// a directory that fits is fetched by one call and its end by another, and no entry is too long.
fn batch(room: usize) -> usize {
    room.saturating_add(BATCH_MORE).min(BATCH)
}

fn position(listing: BorrowedFd<'_>, cookie: u64) -> Result<()> {
    if i64::try_from(cookie).is_err() {
        return Err(Status::BadCookie);
    }
    seek(listing, cookie).map_err(|e| match errno::status(&e) {
        Status::Inval => Status::BadCookie,
        other => other,
    })
}

/// One call's listing.
struct Lister<'l> {
    local: &'l LocalFs,
    dir: &'l Fid,
    file: &'l OpenFile,
    listing: BorrowedFd<'l>,
    attr: Attr,
    nodes: bool,
    batch: usize,
}

impl Lister<'_> {
    /// Passes entries to the sink until it breaks; whether the end was reached.
    fn run(&self, sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>) -> Result<bool> {
        let mut failed = None;
        let end = list(self.listing, &mut Room::default(), self.batch, &mut |entry| {
            let node = match self.node(&entry) {
                Ok(node) => node,
                Err(status) => {
                    failed = Some(status);
                    return ControlFlow::Break(());
                }
            };
            let name = entry.name.to_bytes();
            // the parent of the root is the root: nothing above is exposed
            let above = name == b".." && *self.dir == self.local.root_fid;
            let fileid = if above { self.attr.fileid } else { entry.ino };
            sink(&DirEntry { name, fileid, cookie: entry.next, node: node.as_ref() })
        });
        match (end, failed) {
            (_, Some(status)) => Err(status),
            (Ok(flow), None) => Ok(flow.is_continue()),
            (Err(e), None) => Err(errno::from(e)),
        }
    }

    /// Id and attributes of an entry, if they are requested and available.
    fn node(&self, entry: &Entry<'_>) -> Result<Option<Node>> {
        match entry.name.to_bytes() {
            _ if !self.nodes => Ok(None),
            b"." => Ok(Some(Node { fid: *self.dir, attr: self.attr })),
            b".." => Ok(None),
            name => {
                let tag = self.local.files.names().tag(&self.local.key(self.dir), name);
                let node = match self.known(entry, tag) {
                    Some(node) => Some(node),
                    None => match self.by_name(entry, tag)? {
                        Some(node) => Some(node),
                        None => self.opened(name)?,
                    },
                };
                // an id that could not be stored in the table would be stale
                let known = |node: &Node| self.local.resolver.remember(self.dir, name, &node.fid);
                Ok(node.filter(|node| known(node).is_ok()))
            }
        }
    }

    /// Id and attributes of an object that was seen by this name before: it is open here, or the
    /// inode has the same birth hash.
    fn known(&self, entry: &Entry<'_>, tag: Tag) -> Option<Node> {
        let names = self.local.files.names();
        let NameHint::Object(fid, born) = names.find(tag, self.local.files.now_s())? else {
            return None;
        };
        if born.is_none() {
            let name = entry.name.to_bytes();
            return crate::ops::entry::lookup_hint(self.local, self.file.path(), name, tag)
                .ok()
                .flatten();
        }
        let stat = sys::stat::of_entry(self.listing, entry.name).ok()?;
        let same = self.listed(entry, &stat) && names.born(&stat, &fid) == born;
        same.then(|| Node { fid, attr: self.local.attr_by_fid(&stat, &fid) })
    }

    /// Whether the name now refers to the inode that was listed, and not to one that is mounted on
    /// it.
    fn listed(&self, entry: &Entry<'_>, stat: &Stat) -> bool {
        stat.ino == entry.ino && stat.dev == self.attr.fsid && !stat.mount_root
    }

    /// Id and attributes by two calls on the name, used only if the inode is the one listed: then
    /// the handle, which was fetched in between, is that inode's as well.
    fn by_name(&self, entry: &Entry<'_>, tag: Tag) -> Result<Option<Node>> {
        let fid = match fid_of_entry(self.listing, entry.name) {
            Ok(Some(fid)) => fid,
            Ok(None) | Err(_) => return Ok(None),
        };
        let Ok(stat) = sys::stat::of_entry(self.listing, entry.name) else { return Ok(None) };
        if !self.listed(entry, &stat) {
            return Ok(None);
        }
        let names = self.local.files.names();
        if let Some(born) = names.settled(&stat, &fid) {
            names.note(tag, &fid, Some(born), self.local.files.now_s());
        }
        Ok(Some(Node { fid, attr: self.local.attr_by_fid(&stat, &fid) }))
    }

    /// The same through an open, without a race; `None` for removed entries. A mount point is the directory below it.
    fn opened(&self, name: &[u8]) -> Result<Option<Node>> {
        let fd = match open_or_covered(self.local, self.file.path(), name) {
            Ok(EntryFound::Open(fd)) => fd,
            Ok(EntryFound::Covered(node)) => return Ok(Some(node)),
            Err(_) => return Ok(None),
        };
        let Ok(stat) = sys::stat::of_fd(fd.as_fd()) else { return Ok(None) };
        match fid_of(fd.as_fd()) {
            Ok(fid) if stat.nlink > 0 => {
                Ok(Some(Node { fid, attr: self.local.attr_by_fid(&stat, &fid) }))
            }
            Ok(_) | Err(_) => Ok(None),
        }
    }
}
