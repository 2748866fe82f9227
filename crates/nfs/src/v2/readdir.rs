//! READDIR (RFC 1094 §2.2.17): encoded straight into the reply. How cookies of 32 bits are made
//! of the backend's is described in [`super::cookies`].

use super::cookies::{Resume, shorten};
use super::{arguments, attr, finish};
use crate::Nfs;
use crate::object::Object;
use crate::verbs;
use proto::nfs2::{Fh2, MAXDATA, Nfsstat2, ReaddirArgs2};
use proto::nfs3::NoBody;
use rpc::{Call, Copied, Fault};
use std::ops::ControlFlow;
use vfs::{DirEntry, ListArgs, Status, Want};
use xdr::{Reader, Writer};

/// What comes after the entries: the end of the list, and eof.
const TAIL: usize = 4 + 4;

pub(super) fn readdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: ReaddirArgs2 = arguments(args)?;
    let start = reply.mark();
    reply.put(&Nfsstat2::Ok);
    match nfs.on_object_v2(call, &a.dir, |dir| entries(nfs, dir, reply, &a)) {
        Ok(eof) => {
            reply.bool(false);
            reply.bool(eof);
            call.outcome.status = Nfsstat2::Ok.number();
            call.outcome.bytes_read = attr::clamp(reply.written_since(start) as u64);
            call.outcome.copied = Some(Copied::Listing);
            Ok(())
        }
        Err(status) => {
            reply.rewind(start);
            finish::<NoBody>(call, reply, &Err(status))
        }
    }
}

/// Appends entries as long as they fit; gives eof.
fn entries(nfs: &Nfs, dir: &Object<'_>, reply: &mut Writer, a: &ReaddirArgs2) -> vfs::Result<bool> {
    let after = resume(nfs, dir, &a.dir, a.cookie)?;
    let room = MAXDATA.min(a.count as usize).saturating_sub(TAIL);
    let first = reply.mark();
    let mut last = None;
    let mut sink = |entry: &DirEntry<'_>| {
        let before = reply.mark();
        put(reply, entry);
        if reply.written_since(first) > room {
            reply.rewind(before);
            return ControlFlow::Break(());
        }
        last = Some(entry.cookie);
        ControlFlow::Continue(())
    };
    // an entry is eight bytes shorter than one of version 3
    let args = ListArgs { cookie: after, nodes: false, want: Want::STAT, room };
    let listing = verbs::readdir(dir, args, &mut sink)?;
    match last {
        Some(cookie) => nfs.v2.cookies.remember(&a.dir, cookie),
        None if listing.eof => {}
        None => return Err(Status::TooSmall),
    }
    Ok(listing.eof)
}

fn put(reply: &mut Writer, entry: &DirEntry<'_>) {
    reply.bool(true);
    reply.u32(attr::fold(entry.fileid));
    reply.opaque(entry.name);
    reply.u32(shorten(entry.cookie));
}

/// The backend's cookie for a client's.
fn resume(nfs: &Nfs, dir: &Object<'_>, short_dir: &Fh2, cookie: u32) -> vfs::Result<u64> {
    let wanted = match nfs.v2.cookies.resume(short_dir, cookie) {
        Resume::After(cookie) => return Ok(cookie),
        Resume::Search(wanted) => wanted,
    };
    let mut found = None;
    verbs::readdir(dir, ListArgs::all(0, false), &mut |entry| {
        if shorten(entry.cookie) == wanted {
            found = Some(entry.cookie);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    found.ok_or(Status::BadCookie)
}
