//! READDIR and READDIRPLUS: the kernel's own positions are the cookies, so they are as stable as the
//! file system makes them, and no state is kept between calls.
//!
//! Each call lists through a descriptor of its own: two listings never share a position. It stays open
//! for the next. Memory is one batch of at most 32 KiB on the stack, whatever the directory's size; a
//! batch is about as long as the reply, because the kernel's entries are as long as READDIR's on the
//! wire.
//!
//! Where attributes may be old (`attr-cache`), the names of a directory that is not large are kept for the next listing
//! ([`crate::ops::kept_listing`]).

use crate::cache::attr_cache::MaxAge;
use crate::errno;
use crate::fs::LocalFs;
use crate::ops::kept_listing::{self, Served};
use crate::ops::lister::{ListedDir, Lister, Recent, Sink, prepare};
use crate::ops::permission::check;
use std::os::fd::{AsFd, BorrowedFd};
use sys::dirent::{BATCH, seek};
use sys::open::open_listing;
use vfs::access::Permission;
use vfs::{Cx, Fid, ListArgs, Listing, Node, Result, Status};

/// Bytes of a batch in addition to the reply's: an entry of the longest name, and the rounding of the
/// others.
const BATCH_MORE: usize = 512;

/// See [`vfs::Backend::readdir`].
pub fn readdir(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    args: ListArgs,
    sink: Sink<'_>,
) -> Result<Listing> {
    if cx.attr_cache_ms == 0 {
        return by_kernel(local, cx, dir, args, sink);
    }
    match kept_listing::serve(local, cx, dir, args, sink)? {
        Some(Served::Whole(listing)) => Ok(listing),
        Some(Served::Until(cookie)) => by_kernel(local, cx, dir, ListArgs { cookie, ..args }, sink),
        None => by_kernel(local, cx, dir, args, sink),
    }
}

fn by_kernel(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    args: ListArgs,
    sink: Sink<'_>,
) -> Result<Listing> {
    let (file, attr) = local.hold_dir(cx, dir)?;
    check(local, cx, &file, &attr, Permission::READ)?;
    let mut new = kept_listing::begin(local, cx, &file, &attr, args.cookie);
    let now_s = prepare(local, cx, &file)?;
    let listing = match file.take_listing() {
        Some(listing) => listing,
        None => local.files.open_with_retry(|| open_listing(file.path())).map_err(errno::from)?,
    };
    position(listing.as_fd(), args.cookie)?;
    // nodes of entries require search permission
    let nodes = args.nodes && check(local, cx, &file, &attr, Permission::EXEC).is_ok();
    let own = ListedDir::new(local, Node { fid: *dir, attr }, nodes, args.want);
    let recent =
        (nodes && cx.attr_cache_ms > 0).then(|| Recent::new(local, MaxAge::now(cx.attr_cache_ms)));
    let lister = Lister::new(&own, (&file, listing.as_fd()), now_s, recent.as_ref());
    let eof = match &mut new {
        None => lister.run(batch(args.room), sink),
        Some(new) => lister.run_to_keep(batch(args.room), sink, new),
    };
    drop(recent);
    let eof = eof?;
    file.put_listing(listing);
    file.note_listed(now_s);
    if let Some(new) = new {
        new.finish(local.files.listings.ring());
    }
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
