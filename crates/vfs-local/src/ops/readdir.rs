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
//! inconsistent. Where attributes may be old (`attr-cache`), those of a known object are taken from a recent copy; the names
//! are always those of the moment.

use crate::attr::convert;
use crate::cache::attr_cache::{AttrTable, MaxAge};
use crate::cache::change_attr::ctime_ns;
use crate::cache::name_cache::{BirthHash, DirNameHasher, NameHint, Tag};
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::naming::fid::{fid_of, fid_of_entry};
use crate::ops::entry::{EntryFound, lookup_hint, open_or_covered};
use crate::ops::permission::check;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use sys::dirent::{BATCH, Entry, Room, list, seek};
use sys::open::open_listing;
use sys::stat::Stat;
use vfs::access::Permission;
use vfs::{Attr, Cx, DirEntry, Fid, ListArgs, Listing, Node, Result, Status, Time, Want};

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
        own: Node { fid: *dir, attr },
        names: local.files.names().name_hasher(&local.key(dir)),
        now_s,
        nodes,
        change: args.want.has(Want::CHANGE),
        batch: batch(args.room),
        recent: (nodes && cx.attr_cache_ms > 0).then(|| Recent::new(local, cx.attr_cache_ms)),
    };
    let eof = lister.run(sink);
    drop(lister);
    let eof = eof?;
    file.put_listing(listing);
    file.note_listed(now_s);
    Ok(Listing { eof, dir: attr })
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

/// What a listing takes from copies of attributes, and counts at its end.
struct Recent<'l> {
    copies: &'l AttrTable,
    age: MaxAge,
    hits: Cell<u64>,
    misses: Cell<u64>,
}

impl<'l> Recent<'l> {
    fn new(local: &'l LocalFs, max_age_ms: u32) -> Self {
        let copies = local.files.attrs.table();
        Self {
            copies,
            age: MaxAge::now(max_age_ms),
            hits: Cell::default(),
            misses: Cell::default(),
        }
    }
}

impl Drop for Recent<'_> {
    fn drop(&mut self) {
        self.copies.count(self.hits.get(), self.misses.get());
    }
}

/// One call's listing.
struct Lister<'l> {
    local: &'l LocalFs,
    dir: &'l Fid,
    file: &'l OpenFile,
    listing: BorrowedFd<'l>,
    /// The directory.
    own: Node,
    names: DirNameHasher<'l>,
    now_s: u32,
    nodes: bool,
    /// Whether the change attribute is used.
    change: bool,
    batch: usize,
    /// Where attributes may be old.
    recent: Option<Recent<'l>>,
}

type Sink<'s> = &'s mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>;

impl Lister<'_> {
    /// Passes entries to the sink until it breaks; whether the end was reached.
    fn run(&self, sink: Sink<'_>) -> Result<bool> {
        let mut failed = None;
        let end = list(self.listing, &mut Room::default(), self.batch, &mut |entry| {
            self.pass(&entry, sink).unwrap_or_else(|status| {
                failed = Some(status);
                ControlFlow::Break(())
            })
        });
        match (end, failed) {
            (_, Some(status)) => Err(status),
            (Ok(flow), None) => Ok(flow.is_continue()),
            (Err(e), None) => Err(errno::from(e)),
        }
    }

    /// Passes an entry to the sink, with id and attributes if they are requested and available.
    fn pass(&self, entry: &Entry<'_>, sink: Sink<'_>) -> Result<ControlFlow<()>> {
        let name = entry.name.to_bytes();
        let listed = DirEntry { name, fileid: entry.ino, cookie: entry.next, node: None };
        Ok(match name {
            b".." if *self.dir == self.local.root_fid => {
                // the parent of the root is the root: nothing above is exposed
                sink(&DirEntry { fileid: self.own.attr.fileid, ..listed })
            }
            b"." if self.nodes => sink(&DirEntry { node: Some(&self.own), ..listed }),
            _ if !self.nodes || name == b".." => sink(&listed),
            _ => {
                let tag = self.names.tag(name);
                let hint = self.local.files.names().find(tag, self.now_s);
                if let (Some(recent), Some(NameHint::Object(fid, Some(born)))) =
                    (&self.recent, &hint)
                    && let Some(node) = self.copied(recent, entry, (fid, *born))
                {
                    self.pass_node(&listed, &node, sink)
                } else if let Some(NameHint::Object(fid, Some(born))) = &hint
                    && let Some(stat) = self.stat_if_same(entry, fid, *born)
                {
                    // made where it is passed on: a node is too long to be moved often
                    let node = Node { fid: *fid, attr: self.attr(&stat, fid) };
                    self.pass_node(&listed, &node, sink)
                } else {
                    match self.node(entry, tag, hint)? {
                        Some(node) => self.pass_node(&listed, &node, sink),
                        None => sink(&listed),
                    }
                }
            }
        })
    }

    #[inline(always)]
    fn pass_node(&self, entry: &DirEntry<'_>, node: &Node, sink: Sink<'_>) -> ControlFlow<()> {
        // an id that could not be stored in the table would be stale
        if self.local.resolver.uses_table()
            && self.local.resolver.remember(self.dir, entry.name, &node.fid).is_err()
        {
            return sink(entry);
        }
        sink(&DirEntry { node: Some(node), ..*entry })
    }

    /// The node of an object that was seen by this name before, by a copy of its attributes; or by the name, and copied.
    #[inline(never)]
    fn copied(
        &self,
        recent: &Recent<'_>,
        entry: &Entry<'_>,
        (fid, born): (&Fid, BirthHash),
    ) -> Option<Node> {
        let id = (self.own.attr.fsid, entry.ino);
        let names = self.local.files.names();
        let count = || if self.change { self.local.change_count(fid) } else { 0 };
        if let Some(copy) = recent.copies.find(id, recent.age)
            && names.born(entry.ino, copy.stat.btime, fid) == Some(born)
        {
            recent.hits.set(recent.hits.get().wrapping_add(1));
            return Some(Node { fid: *fid, attr: self.local.attr_of_copy(&copy, count) });
        }
        let fill = recent.copies.begin_fill(id, recent.age);
        let stat = self.stat_if_same(entry, fid, born)?;
        recent.misses.set(recent.misses.get().wrapping_add(1));
        fill.store(&stat, self.local.is_settled(&stat), None);
        Some(Node { fid: *fid, attr: self.attr(&stat, fid) })
    }

    /// Attributes of an object that was seen by this name before and need not be open: the inode has the same birth
    /// hash. In each caller, so that of the attributes only what is wanted is made.
    #[inline(always)]
    fn stat_if_same(&self, entry: &Entry<'_>, fid: &Fid, born: BirthHash) -> Option<Stat> {
        let stat = sys::stat::of_entry(self.listing, entry.name).ok()?;
        let names = self.local.files.names();
        let same = self.listed(entry, &stat) && names.born(stat.ino, stat.btime, fid) == Some(born);
        same.then_some(stat)
    }

    #[inline(always)]
    fn attr(&self, stat: &Stat, fid: &Fid) -> Attr {
        if self.change {
            return self.local.attr_by_fid(stat, fid);
        }
        let (sec, nsec) = stat.ctime;
        convert(stat, ctime_ns(Time { sec, nsec }))
    }

    /// Id and attributes of an entry: of an object that is open here and was seen by this name before; else by two
    /// calls on the name; else through an open.
    #[inline(never)]
    fn node(&self, entry: &Entry<'_>, tag: Tag, hint: Option<NameHint>) -> Result<Option<Node>> {
        let name = entry.name.to_bytes();
        if let Some(NameHint::Object(_, None)) = hint
            && let Ok(Some(node)) = lookup_hint(self.local, self.file.path(), (name, tag), None)
        {
            return Ok(Some(node));
        }
        match self.by_name(entry, tag)? {
            Some(node) => Ok(Some(node)),
            None => self.opened(name),
        }
    }

    /// Whether the name now refers to the inode that was listed, and not to one that is mounted on
    /// it.
    fn listed(&self, entry: &Entry<'_>, stat: &Stat) -> bool {
        stat.ino == entry.ino && stat.dev == self.own.attr.fsid && !stat.mount_root
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
            names.note(tag, &fid, Some(born), self.now_s);
        }
        Ok(Some(Node { fid, attr: self.attr(&stat, &fid) }))
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
            Ok(fid) if stat.nlink > 0 => Ok(Some(Node { fid, attr: self.attr(&stat, &fid) })),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}
