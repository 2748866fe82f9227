//! READDIR and READDIRPLUS: a directory's entries, encoded straight into the reply, within the
//! limits of the client.
//!
//! The directory's attributes stand before the entries on the wire and are known only after
//! them: space is reserved for all that comes before the first entry, and filled at the end.
//!
//! The cookie verifier is always zero and never checked. It exists for servers whose cookies lose
//! their meaning when a directory changes (RFC 1813 §3.3.16); a backend's cookies keep theirs for
//! the life of the entry, so there is nothing to verify.

use super::failed::Failed;
use super::{attr, finish};
use crate::Nfs;
use crate::junction::Crossing;
use crate::object::{Caller, Object};
use crate::verbs;
use export::{Handle, JunctionNames};
use proto::nfs3::{COOKIEVERFSIZE, Entry3, FATTR3_LEN, Nfsstat3, NoBody, WholeEntryPlus3};
use rpc::{Call, Copied, Fault};
use std::ops::ControlFlow;
use vfs::{DirEntry, Fid, ListArgs, Node, Status, Want};
use xdr::{Mark, Writer, hyper};

/// Attributes with their boolean, and the cookie verifier: what comes before the entries, after
/// the status.
const HEAD: usize = 4 + FATTR3_LEN + COOKIEVERFSIZE;
/// What comes after the entries: the end of the list, and eof.
const TAIL: usize = 4 + 4;

/// How many times as long as an entry of READDIR one of READDIRPLUS is, for names of usual length.
const PLUS_FACTOR: usize = 4;

/// What is to be listed.
pub(super) struct Request<'a> {
    /// The directory's handle.
    pub dir: &'a [u8],
    /// After which entry to begin.
    pub cookie: u64,
    /// The most bytes of the whole result (`READDIR3resok`, `READDIRPLUS3resok`).
    pub max_bytes: u32,
    /// The most bytes of names, file ids and cookies; the first entry is always allowed.
    pub max_info: u32,
    /// Whether entries carry handles and attributes.
    pub plus: bool,
}

/// The entries of the reply so far.
struct List<'w> {
    reply: &'w mut Writer,
    /// Where the entries begin.
    first: Mark,
    room: usize,
    info_room: usize,
    plus: bool,
    /// The server, if there are write delegations.
    delegated: Option<&'w Nfs>,
    has_entries: bool,
}

impl List<'_> {
    /// Appends an entry of the directory, or breaks if it does not fit.
    fn append(&mut self, dir: &Object<'_>, entry: &DirEntry<'_>) -> ControlFlow<()> {
        let info = Entry3::wire_len(entry.name.len()).saturating_sub(4);
        if self.has_entries && info > self.info_room {
            return ControlFlow::Break(());
        }
        match entry.node {
            Some(node) if self.plus && !self.is_written_by_other(dir, &node.fid) => {
                self.append_whole(dir, entry, node)?;
            }
            _ => self.append_name(entry)?,
        }
        self.info_room = self.info_room.saturating_sub(info);
        self.has_entries = true;
        ControlFlow::Continue(())
    }

    /// Whether a client has a write delegation of a file, of which neither attributes nor handle are told then.
    fn is_written_by_other(&self, dir: &Object<'_>, fid: &Fid) -> bool {
        self.delegated.is_some_and(|nfs| nfs.is_written_by_other(dir, fid, None))
    }

    /// Appends an entry with attributes and handle.
    fn append_whole(
        &mut self,
        dir: &Object<'_>,
        entry: &DirEntry<'_>,
        node: &Node,
    ) -> ControlFlow<()> {
        let handle_len = Handle::len_of(&node.fid);
        let (fileid, name, cookie) = (entry.fileid, entry.name, entry.cookie);
        let attr = &attr::fattr3(&node.attr);
        let whole = WholeEntryPlus3 { fileid, name, cookie, attr, handle_len };
        self.check_room(whole.wire_len())?;
        whole.put(self.reply, |place| dir.export().seal_into(&node.fid, place));
        ControlFlow::Continue(())
    }

    /// Appends an entry without them.
    fn append_name(&mut self, entry: &DirEntry<'_>) -> ControlFlow<()> {
        let absent = if self.plus { 8 } else { 0 };
        self.check_room(Entry3::wire_len(entry.name.len()).saturating_add(absent))?;
        let [high, low] = hyper(entry.fileid);
        self.reply.words([1, high, low]);
        self.reply.opaque(entry.name);
        self.reply.u64(entry.cookie);
        if self.plus {
            self.reply.words([0, 0]);
        }
        ControlFlow::Continue(())
    }

    /// Breaks if there is no room for so many more bytes.
    fn check_room(&self, len: usize) -> ControlFlow<()> {
        match self.reply.written_since(self.first).saturating_add(len) > self.room {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Lists a directory in which other exports begin: the client gets their roots by LOOKUP only.
#[cold]
fn list_crossing(
    caller: &Caller<'_>,
    dir: &Object<'_>,
    names: &JunctionNames,
    args: ListArgs,
    sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
) -> vfs::Result<vfs::Listing> {
    verbs::readdir(dir, args, &mut |entry| match caller.listed_junction(
        dir,
        Some(names),
        entry.name,
        Crossing::Marked,
    ) {
        Some(_) => sink(&DirEntry { node: None, ..*entry }),
        None => sink(entry),
    })
}

/// About how many bytes of names, file ids and cookies a reply of at most `most` bytes holds.
fn names_len(request: &Request<'_>, most: usize) -> usize {
    let share = if request.plus { most / PLUS_FACTOR } else { most };
    share.min(request.max_info as usize)
}

/// Answers READDIR or READDIRPLUS.
pub(super) fn list(
    nfs: &Nfs,
    call: &mut Call<'_>,
    reply: &mut Writer,
    request: &Request<'_>,
) -> Result<(), Fault> {
    let start = reply.mark();
    reply.space(4 + HEAD);
    reply.advance(4 + HEAD);
    let most = request.max_bytes.min(nfs.settings.read_max(call.peer.transport)) as usize;
    let mut list = List {
        first: reply.mark(),
        reply,
        room: most.saturating_sub(HEAD + TAIL),
        info_room: request.max_info as usize,
        plus: request.plus,
        delegated: nfs.v4.state.any_write_delegations().then_some(nfs),
        has_entries: false,
    };
    let args = ListArgs {
        cookie: request.cookie,
        nodes: request.plus,
        want: Want::STAT,
        room: names_len(request, most),
    };
    let listed = nfs.on_walk_v3(call, request.dir, |caller, dir| {
        let sink = &mut |entry: &DirEntry<'_>| list.append(dir, entry);
        match caller.junctions_in(dir) {
            None => verbs::readdir(dir, args, sink),
            Some(names) => list_crossing(caller, dir, names, args, sink),
        }
    });
    let bytes = list.reply.written_since(list.first);
    // Not even one entry fits (the empty end of a directory is no error, as long as it fits).
    let too_small = |eof: bool| most < HEAD + TAIL || (!list.has_entries && !eof);
    let failed = match listed {
        Ok(listing) if too_small(listing.eof) => {
            Failed { status: Status::TooSmall, attr: Some(listing.dir) }
        }
        Ok(listing) => {
            reply.rewind(start);
            reply.put(&Nfsstat3::Ok);
            reply.put(&Some(attr::fattr3(&listing.dir)));
            reply.put(&[0u8; COOKIEVERFSIZE]);
            reply.advance(bytes);
            reply.bool(false);
            reply.bool(listing.eof);
            call.outcome.status = Nfsstat3::Ok.number();
            call.outcome.bytes_read = u32::try_from(bytes).unwrap_or(u32::MAX);
            call.outcome.copied = Some(Copied::Listing);
            return Ok(());
        }
        Err(failed) => failed,
    };
    reply.rewind(start);
    finish(call, reply, &failed.post_op::<NoBody>())
}
