//! READDIR and READDIRPLUS from a listing that was kept (`attr-cache`, [`crate::cache::kept_listings`]): no system call where
//! the directory and all entries have recent copies of their attributes. What an entry lacks is asked as in a listing by the kernel.
//!
//! No lock is held while an entry is passed on, which may block.

use crate::cache::attr_cache::{CopyNumber, MaxAge};
use crate::cache::kept_listings::{KeptEntry, ListedDirId, NameRoom, NewListing, Next};
use crate::cache::open_file::OpenFile;
use crate::fs::LocalFs;
use crate::ops::lister::{ListedDir, Lister, Recent, Sink, prepare};
use crate::ops::permission::check;
use std::ops::ControlFlow;
use sys::dirent::Entry;
use vfs::access::Permission;
use vfs::{Attr, Cx, DirEntry, Fid, FileType, ListArgs, Listing, Node, Result};

/// A directory with a larger size is not kept, and is not read to its end for that.
const DIRECTORY_BYTES_MAX: u64 = 128 << 10;

/// What came of a listing that was to be served from a kept one.
pub enum Served {
    /// All of it.
    Whole(Listing),
    /// The entries up to one with this cookie; the kernel has the others.
    Until(u64),
}

/// Before the first name of a directory is read by the kernel: the listing that is to be kept, if it may be.
#[inline]
pub fn begin(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &OpenFile,
    attr: &Attr,
    cookie: u64,
) -> Option<NewListing> {
    let is_wanted = cx.attr_cache_ms > 0 && cookie == 0;
    // where asking an open object may block, nothing is served from what is kept
    if !is_wanted || attr.size > DIRECTORY_BYTES_MAX || local.warm_backend != local.backend {
        return None;
    }
    let copies = local.files.attrs.in_use()?;
    let copy = copies.find_born(file.id(), file.birth(), MaxAge::now(cx.attr_cache_ms))?;
    Some(NewListing::new(dir_id(local, file, copy.number)))
}

const fn dir_id(local: &LocalFs, file: &OpenFile, copy: CopyNumber) -> ListedDirId {
    ListedDirId { backend: local.backend, id: file.id(), copy }
}

/// Lists a directory from what was kept of it; `None` if nothing was that counts, or the answer is an error.
///
/// # Errors
/// Those of looking at an entry's object.
#[inline(never)]
pub fn serve(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    args: ListArgs,
    sink: Sink<'_>,
) -> Result<Option<Served>> {
    let recent = Recent::new(local, MaxAge::now(cx.attr_cache_ms));
    let Some((id, listed)) = recent_dir(local, cx, dir, args, &recent) else { return Ok(None) };
    let ring = local.files.listings.ring();
    let Some(mut kept) = ring.find(&id) else { return Ok(None) };
    if !kept.go_behind(args.cookie) {
        // the kernel may have other names by now, and who has seen those does not get the older ones again
        ring.forget(&id);
        return Ok(None);
    }
    recent.hit();
    let (mut room, mut cookie) = (NameRoom::default(), args.cookie);
    let served = KeptLister { cx, dir: &listed, recent: &recent };
    let eof = loop {
        match kept.next(&mut room) {
            Next::Entry(entry) => {
                if served.pass(&entry, sink)?.is_break() {
                    break false;
                }
                cookie = entry.next;
            }
            Next::End => break true,
            Next::Gone => return Ok(Some(Served::Until(cookie))),
        }
    };
    recent.copies.count_listing();
    Ok(Some(Served::Whole(Listing { eof, dir: listed.node.attr })))
}

/// A directory by a copy of its attributes, for a caller who may list it.
fn recent_dir<'l>(
    local: &'l LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    args: ListArgs,
    recent: &Recent<'_>,
) -> Option<(ListedDirId, ListedDir<'l>)> {
    let found = local.files.with(&local.warm_key(dir), |file| {
        let copy = recent.copies.find_born(file.id(), file.birth(), recent.age)?;
        let attr = local.attr_of_copy(&copy, || file.changes().count());
        let may = |want| check(local, cx, file, &attr, want).is_ok();
        if attr.ftype != FileType::Directory || !may(Permission::READ) {
            return None;
        }
        // nodes of entries require search permission
        let nodes = args.nodes && may(Permission::EXEC);
        let listed = ListedDir::new(local, Node { fid: *dir, attr }, nodes, args.want);
        Some((dir_id(local, file, copy.number), listed))
    });
    found.flatten()
}

/// Passes on the entries of a kept listing.
struct KeptLister<'l> {
    cx: &'l Cx<'l>,
    dir: &'l ListedDir<'l>,
    recent: &'l Recent<'l>,
}

impl KeptLister<'_> {
    #[inline(always)]
    fn pass(&self, entry: &KeptEntry<'_, '_>, sink: Sink<'_>) -> Result<ControlFlow<()>> {
        let (name, fileid, cookie) = (entry.name(), entry.ino, entry.next);
        let listed = DirEntry { name, fileid, cookie, node: None };
        if let Some(flow) = self.dir.pass_name(&listed, sink) {
            return Ok(flow);
        }
        let Recent { copies, age, .. } = self.recent;
        let id = (self.dir.node.attr.fsid, entry.ino);
        if let Some(birth) = entry.birth()
            && let Some(copy) = copies.find_born(id, Some(birth), *age)
            && let Some(fid) = entry.fid()
        {
            self.recent.hit();
            let node = Node { fid, attr: self.dir.attr_of_copy(&copy, &fid) };
            return Ok(self.dir.pass_node(&listed, &node, sink));
        }
        self.ask(entry, sink)
    }

    /// Passes on an entry of which not all is known, or not lately enough.
    #[cold]
    #[inline(never)]
    fn ask(&self, entry: &KeptEntry<'_, '_>, sink: Sink<'_>) -> Result<ControlFlow<()>> {
        let Self { cx, dir, recent } = self;
        let (name, local) = (entry.c_name(), dir.local);
        // none has a zero byte
        let Some(name) = name else { return Ok(ControlFlow::Continue(())) };
        let (file, _) = local.hold_dir(cx, &dir.node.fid)?;
        // whoever passed on the entry before may have acted as somebody else
        let now_s = prepare(local, cx, &file)?;
        let lister = Lister::new(dir, (&file, file.path()), now_s, Some(recent));
        let flow = lister.pass(&Entry { name, ino: entry.ino, next: entry.next }, sink)?;
        if let Some(object) = lister.take_object() {
            entry.note(&object);
        }
        Ok(flow)
    }
}
