//! What passes on the entries of a directory: names, and what each leads to.
//!
//! Ids and attributes of entries cost one system call for an object that is known by this name (see
//! [`crate::cache::name_cache`]), two for others, an open only if the results of those two are
//! inconsistent. Where attributes may be old (`attr-cache`), those of a known object are taken from a recent copy.

use crate::attr::convert;
use crate::cache::attr_cache::{AttrCopy, AttrTable, MaxAge};
use crate::cache::change_attr::ctime_ns;
use crate::cache::kept_listings::{KeptObject, NewListing};
use crate::cache::name_cache::{BirthHash, DirNameHasher, NameHint, Tag};
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::naming::fid::{fid_of, fid_of_entry};
use crate::ops::entry::{EntryFound, lookup_hint, open_or_covered};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use sys::dirent::{Entry, Room, list};
use sys::stat::Stat;
use vfs::{Attr, Cx, DirEntry, Fid, Node, Result, Time, Want};

/// Before the file system is asked for names, or for what they lead to; the second.
///
/// # Errors
/// Those of [`LocalFs::will_block`] and of acting as the server.
#[inline]
pub fn prepare(local: &LocalFs, cx: &Cx<'_>, dir: &OpenFile) -> Result<u32> {
    let now_s = local.files.now_s();
    if !dir.listed_lately(now_s) {
        local.will_block(cx)?;
    }
    local.identity.act_as_server().map_err(errno::from)?;
    Ok(now_s)
}

/// What a listing takes from copies of attributes, and counts at its end.
pub struct Recent<'l> {
    /// The copies.
    pub copies: &'l AttrTable,
    /// How old they may be.
    pub age: MaxAge,
    hits: Cell<u64>,
    misses: Cell<u64>,
}

impl<'l> Recent<'l> {
    /// Of a listing that begins.
    pub fn new(local: &'l LocalFs, age: MaxAge) -> Self {
        let copies = local.files.attrs.table();
        Self { copies, age, hits: Cell::default(), misses: Cell::default() }
    }

    /// Attributes were taken from a copy.
    #[inline]
    pub fn hit(&self) {
        self.hits.set(self.hits.get().wrapping_add(1));
    }
}

impl Drop for Recent<'_> {
    fn drop(&mut self) {
        self.copies.count(self.hits.get(), self.misses.get());
    }
}

/// The directory that is listed.
pub struct ListedDir<'l> {
    /// The backend.
    pub local: &'l LocalFs,
    /// Its own id and attributes.
    pub node: Node,
    /// Whether entries carry id and attributes.
    pub nodes: bool,
    /// Whether attributes are made with what is known of the object: the change attribute is used, or links may be hidden.
    by_fid: bool,
}

impl<'l> ListedDir<'l> {
    /// A directory, and what is wanted of its entries.
    #[inline(always)]
    pub fn new(local: &'l LocalFs, node: Node, nodes: bool, want: Want) -> Self {
        let by_fid = want.has(Want::CHANGE) || local.files.unlinked.has_files();
        Self { local, node, nodes, by_fid }
    }

    /// Passes an entry that needs nothing else, or says that it needs id and attributes.
    #[inline(always)]
    pub fn pass_name(&self, listed: &DirEntry<'_>, sink: Sink<'_>) -> Option<ControlFlow<()>> {
        match listed.name {
            b".." if self.node.fid == self.local.root_fid => {
                // the parent of the root is the root: nothing above is exposed
                Some(sink(&DirEntry { fileid: self.node.attr.fileid, ..*listed }))
            }
            b"." if self.nodes => Some(sink(&DirEntry { node: Some(&self.node), ..*listed })),
            name if !self.nodes || name == b".." => Some(sink(listed)),
            _ => None,
        }
    }

    /// Passes an entry with id and attributes.
    #[inline(always)]
    pub fn pass_node(&self, entry: &DirEntry<'_>, node: &Node, sink: Sink<'_>) -> ControlFlow<()> {
        // an id that could not be stored in the table would be stale
        if self.local.resolver.uses_table()
            && self.local.resolver.remember(&self.node.fid, entry.name, &node.fid).is_err()
        {
            return sink(entry);
        }
        sink(&DirEntry { node: Some(node), ..*entry })
    }

    /// Attributes by a copy.
    #[inline(always)]
    pub fn attr_of_copy(&self, copy: &AttrCopy, fid: &Fid) -> Attr {
        let count = || if self.by_fid { self.local.change_count(fid) } else { 0 };
        self.local.attr_of_copy(copy, count)
    }

    #[inline(always)]
    fn attr(&self, stat: &Stat, fid: &Fid) -> Attr {
        if self.by_fid {
            return self.local.attr_by_fid(stat, fid);
        }
        let (sec, nsec) = stat.ctime;
        convert(stat, ctime_ns(Time { sec, nsec }))
    }
}

/// Asks the file system for the entries of a directory.
pub struct Lister<'l> {
    dir: &'l ListedDir<'l>,
    local: &'l LocalFs,
    file: &'l OpenFile,
    /// Where its entries are found.
    at: BorrowedFd<'l>,
    names: DirNameHasher<'l>,
    now_s: u32,
    /// Where attributes may be old.
    recent: Option<&'l Recent<'l>>,
    /// The object of the entry that was passed last, if it can be told from a later one.
    object: Cell<Option<KeptObject>>,
}

/// Where entries are passed to; it breaks if there is no room.
pub type Sink<'s> = &'s mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>;

impl<'l> Lister<'l> {
    /// Of a directory that is open.
    pub fn new(
        dir: &'l ListedDir<'l>,
        (file, at): (&'l OpenFile, BorrowedFd<'l>),
        now_s: u32,
        recent: Option<&'l Recent<'l>>,
    ) -> Self {
        let local = dir.local;
        let names = local.files.names().name_hasher(&local.key(&dir.node.fid));
        Self { dir, local, file, at, names, now_s, recent, object: Cell::new(None) }
    }

    /// Passes entries to the sink until it breaks; whether the end was reached.
    ///
    /// # Errors
    /// The kernel's error.
    #[inline]
    pub fn run(&self, batch: usize, sink: Sink<'_>) -> Result<bool> {
        if !self.dir.nodes {
            return self.run_names(batch, sink);
        }
        let mut failed = None;
        let end = list(self.at, &mut Room::default(), batch, &mut |entry| {
            self.pass_inlined(&entry, sink).unwrap_or_else(|status| {
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

    /// The same without ids and attributes.
    fn run_names(&self, batch: usize, sink: Sink<'_>) -> Result<bool> {
        let ListedDir { local, node, .. } = self.dir;
        // the parent of the root is the root: nothing above is exposed
        let parent = (node.fid == local.root_fid).then_some(node.attr.fileid);
        let end = list(self.at, &mut Room::default(), batch, &mut |entry| {
            let name = entry.name.to_bytes();
            let fileid = match parent {
                Some(root) if name == b".." => root,
                _ => entry.ino,
            };
            sink(&DirEntry { name, fileid, cookie: entry.next, node: None })
        });
        end.map(|flow| flow.is_continue()).map_err(errno::from)
    }

    /// The same of a listing that is to be kept, which goes on to the end without the sink.
    ///
    /// # Errors
    /// The kernel's error.
    #[inline(never)]
    pub fn run_to_keep(&self, batch: usize, sink: Sink<'_>, new: &mut NewListing) -> Result<bool> {
        let (mut failed, mut is_full) = (None, false);
        let end = list(self.at, &mut Room::default(), batch, &mut |entry| {
            if !is_full {
                match self.pass(&entry, sink) {
                    Ok(flow) => is_full = flow.is_break(),
                    Err(status) => {
                        failed = Some(status);
                        return ControlFlow::Break(());
                    }
                }
            }
            let object = self.object.take();
            new.add(entry.name.to_bytes(), (entry.ino, entry.next), object.as_ref());
            if is_full && !new.can_be_kept() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        match (end, failed) {
            (_, Some(status)) => Err(status),
            (Ok(_), None) => Ok(!is_full),
            (Err(e), None) => Err(errno::from(e)),
        }
    }

    /// Passes an entry to the sink, with id and attributes if they are requested and available.
    ///
    /// # Errors
    /// Those of looking at its object.
    #[inline(never)]
    pub fn pass(&self, entry: &Entry<'_>, sink: Sink<'_>) -> Result<ControlFlow<()>> {
        self.pass_inlined(entry, sink)
    }

    #[inline(always)]
    fn pass_inlined(&self, entry: &Entry<'_>, sink: Sink<'_>) -> Result<ControlFlow<()>> {
        let name = entry.name.to_bytes();
        let listed = DirEntry { name, fileid: entry.ino, cookie: entry.next, node: None };
        if let Some(flow) = self.dir.pass_name(&listed, sink) {
            return Ok(flow);
        }
        let tag = self.names.tag(name);
        let hint = self.local.files.names().find(tag, self.now_s);
        Ok(
            if let (Some(recent), Some(NameHint::Object(fid, Some(born)))) = (self.recent, &hint)
                && let Some(node) = self.copied(recent, entry, (fid, *born))
            {
                self.dir.pass_node(&listed, &node, sink)
            } else if let Some(NameHint::Object(fid, Some(born))) = &hint
                && let Some(stat) = self.stat_if_same(entry, fid, *born)
            {
                // made where it is passed on: a node is too long to be moved often
                let node = Node { fid: *fid, attr: self.dir.attr(&stat, fid) };
                self.dir.pass_node(&listed, &node, sink)
            } else {
                match self.node(entry, tag, hint)? {
                    Some(node) => self.dir.pass_node(&listed, &node, sink),
                    None => sink(&listed),
                }
            },
        )
    }

    /// The object of the entry that was passed, if it can be told from a later one: once.
    pub fn take_object(&self) -> Option<KeptObject> {
        self.object.take()
    }

    /// The node of an object that was seen by this name before, by a copy of its attributes; or by the name, and copied.
    #[inline(never)]
    fn copied(
        &self,
        recent: &Recent<'_>,
        entry: &Entry<'_>,
        (fid, born): (&Fid, BirthHash),
    ) -> Option<Node> {
        let id = (self.dir.node.attr.fsid, entry.ino);
        let names = self.local.files.names();
        let note = |birth: Option<(i64, u32)>| {
            self.object.set(birth.map(|birth| KeptObject { fid: *fid, birth }));
        };
        if let Some(copy) = recent.copies.find(id, recent.age)
            && names.born(entry.ino, copy.stat.btime, fid) == Some(born)
        {
            recent.hit();
            note(copy.stat.btime);
            return Some(Node { fid: *fid, attr: self.dir.attr_of_copy(&copy, fid) });
        }
        let fill = recent.copies.begin_fill(id, recent.age);
        let stat = self.stat_if_same(entry, fid, born)?;
        recent.misses.set(recent.misses.get().wrapping_add(1));
        let visible = self.local.visible_stat(&stat, fid);
        fill.store(&visible, self.local.is_settled(&stat), None);
        note(stat.btime);
        Some(Node { fid: *fid, attr: self.dir.attr(&stat, fid) })
    }

    /// Attributes of an object that was seen by this name before and need not be open: the inode has the same birth
    /// hash. In each caller, so that of the attributes only what is wanted is made.
    #[inline(always)]
    fn stat_if_same(&self, entry: &Entry<'_>, fid: &Fid, born: BirthHash) -> Option<Stat> {
        let stat = sys::stat::of_entry(self.at, entry.name).ok()?;
        let names = self.local.files.names();
        let same = self.listed(entry, &stat) && names.born(stat.ino, stat.btime, fid) == Some(born);
        same.then_some(stat)
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
        stat.ino == entry.ino && stat.dev == self.dir.node.attr.fsid && !stat.mount_root
    }

    /// Id and attributes by two calls on the name, used only if the inode is the one listed: then
    /// the handle, which was fetched in between, is that inode's as well.
    fn by_name(&self, entry: &Entry<'_>, tag: Tag) -> Result<Option<Node>> {
        let fid = match fid_of_entry(self.at, entry.name) {
            Ok(Some(fid)) => fid,
            Ok(None) | Err(_) => return Ok(None),
        };
        let id = (self.dir.node.attr.fsid, entry.ino);
        let fill = self.recent.map(|recent| recent.copies.begin_fill(id, recent.age));
        let Ok(stat) = sys::stat::of_entry(self.at, entry.name) else { return Ok(None) };
        if !self.listed(entry, &stat) {
            return Ok(None);
        }
        if let (Some(fill), Some(recent)) = (fill, self.recent) {
            recent.misses.set(recent.misses.get().wrapping_add(1));
            let visible = self.local.visible_stat(&stat, &fid);
            fill.store(&visible, self.local.is_settled(&stat), None);
        }
        let names = self.local.files.names();
        if let Some(born) = names.settled(&stat, &fid) {
            names.note(tag, &fid, Some(born), self.now_s);
            self.object.set(stat.btime.map(|birth| KeptObject { fid, birth }));
        }
        Ok(Some(Node { fid, attr: self.dir.attr(&stat, &fid) }))
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
            Ok(fid) if stat.nlink > 0 => Ok(Some(Node { fid, attr: self.dir.attr(&stat, &fid) })),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}
