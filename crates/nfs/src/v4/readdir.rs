//! READDIR (RFC 8881 §18.23): entries with the attributes that are asked for, encoded straight into the reply.
//!
//! `.` and `..` are not entries here. The cookie verifier is zero: a cookie remains valid as long as its entry exists. If
//! the attributes of an entry cannot be fetched, `rdattr_error` reports that if it is requested; otherwise the entry is
//! left out. The list ends before a file of which another client has a write delegation, who is asked when it is the first; so are those
//! who have others behind it.
//! Where another export begins, the attributes are those of its root, or NFS4ERR_MOVED if it is elsewhere.

use super::absent;
use super::attr::{self, Facts, Shared};
use super::delegation;
use super::frame::Frame;
use super::lookup;
use super::owner::Owners;
use super::quota_attrs::{QUOTAS, QuotaSpace};
use super::status::Failed;
use super::usual_entries::{Put, UsualEntries};
use super::{acl, attr_sets};
use crate::junction::Crossing;
use crate::object::Object;
use crate::verbs;
use export::JunctionNames;
use proto::nfs4::{Bitmap4, Nfsstat4, ReaddirArgs, attr as a};
use rpc::Copied;
use std::ops::ControlFlow;
use vfs::acl4::Ace;
use vfs::{Attr, DirEntry, Fid, ListArgs, Want};
use xdr::{Mark, Writer};

/// What comes before the entries: the verifier of cookies.
const HEAD: usize = 8;
/// What comes after them: the end of the list, and eof.
const TAIL: usize = 4 + 4;
/// About how many times as long as a name with its cookie an entry with attributes is.
const ATTRS_FACTOR: usize = 4;
/// Files that other clients are asked for in one call, and entries that are looked at for them.
const ASKED_MAX: usize = 16;
const PASSED_MAX: usize = 256;

struct List<'a, 'f> {
    frame: &'a Frame<'f>,
    dir: &'a Object<'f>,
    asked: Bitmap4,
    owners: Owners<'f>,
    shared: Shared,
    /// If what is asked for of entries is what clients usually ask for, and nothing else is to be found out of them.
    usual: Option<UsualEntries<'a>>,
    is_pseudo: bool,
    /// The names that lead to other exports.
    junctions: Option<&'a JunctionNames>,
    first: Mark,
    room: usize,
    has_entries: bool,
    /// An entry is the root of an absent file system, and nothing that it has is asked for.
    is_moved: bool,
    /// Attributes of entries are asked for that show writes, and there are write delegations.
    shows_writes: bool,
    /// Files of which other clients have write delegations, before the first of which the list ends.
    delegated: Vec<Fid>,
    /// Entries that were looked at only for more of them.
    passed: usize,
    /// The attributes of such files, as their holders say.
    held: Vec<(Fid, Attr)>,
}

impl List<'_, '_> {
    /// Appends an entry, or breaks if it does not fit.
    fn append(&mut self, entry: &DirEntry<'_>, reply: &mut Writer) -> ControlFlow<()> {
        if matches!(entry.name, b"." | b"..") {
            return ControlFlow::Continue(());
        }
        if let (Some(usual), Some(node)) = (&mut self.usual, entry.node) {
            let room = self.room.saturating_sub(reply.written_since(self.first));
            match usual.put(entry, node, room, reply) {
                Put::Done => {
                    self.has_entries = true;
                    return ControlFlow::Continue(());
                }
                Put::NoRoom => return ControlFlow::Break(()),
                Put::Unusual => {}
            }
        }
        if self.shows_writes && self.is_to_be_asked_for(entry) {
            let is_enough =
                self.has_entries || self.delegated.len() >= ASKED_MAX || self.passed >= PASSED_MAX;
            return if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        let before = reply.mark();
        reply.u32(1);
        reply.u64(entry.cookie);
        reply.opaque(entry.name);
        if !self.put_attrs(entry, reply) {
            reply.rewind(before);
            return if self.is_moved { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        if reply.written_since(self.first) > self.room {
            reply.rewind(before);
            return ControlFlow::Break(());
        }
        self.has_entries = true;
        ControlFlow::Continue(())
    }

    /// Whether an entry is a file whose attributes another client must be asked for, or comes behind one.
    fn is_to_be_asked_for(&mut self, entry: &DirEntry<'_>) -> bool {
        if let Some(node) = &entry.node
            && !self.held.iter().any(|(fid, _)| *fid == node.fid)
            && self.frame.nfs.is_written_by_other(self.dir, &node.fid, self.frame.client_id())
        {
            self.delegated.push(node.fid);
            return true;
        }
        self.passed = self.passed.saturating_add(1);
        !self.delegated.is_empty()
    }

    /// Appends the attributes of an entry; false if it is to be left out.
    fn put_attrs(&mut self, entry: &DirEntry<'_>, reply: &mut Writer) -> bool {
        let junction =
            self.frame.caller.listed_junction(self.dir, self.junctions, entry.name, Crossing::All);
        if let Some(inner) = junction
            && !self.asked.is_empty()
        {
            return match self.frame.caller.enter(inner, inner.backend.root()) {
                Ok(root) => self.put_root(&root, entry, reply),
                Err(refused) => {
                    let failed = Failed::from(refused);
                    self.put_error(failed.status(proto::nfs4::op::LOOKUP, self.frame.minor), reply)
                }
            };
        }
        let Some(node) = &entry.node else {
            if self.asked.is_empty() {
                // no attributes, of which there are no bytes
                reply.words([0, 0]);
                return true;
            }
            return self.put_error(Nfsstat4::Access, reply);
        };
        if self.is_pseudo {
            match lookup::cross(self.frame.caller, self.dir, &node.fid) {
                Ok(None) => {}
                Ok(Some(root)) => return self.put_root(&root, entry, reply),
                Err(Failed::As(Nfsstat4::NoEnt)) => return false,
                Err(failed) => {
                    return self.put_error(
                        failed.status(proto::nfs4::op::LOOKUP, self.frame.minor),
                        reply,
                    );
                }
            }
        }
        let held = self.held.iter().find(|(fid, _)| *fid == node.fid);
        let (fid, found) = held.map_or((&node.fid, &node.attr), |(fid, held)| (fid, held));
        let export = self.dir.export();
        let acl = match self.acl_of(*fid) {
            Ok(acl) => acl,
            Err(failed) => {
                return self
                    .put_error(failed.status(proto::nfs4::op::GETATTR, self.frame.minor), reply);
            }
        };
        let (acl, mounted_on, shared) = (acl.as_deref(), entry.fileid, &self.shared);
        let quota = QuotaSpace::default();
        self.owners.prepare(found);
        let owners = self.owners;
        let facts = Facts { fid, attr: found, export, acl, quota, owners, mounted_on, shared };
        if self.asked.has(a::TIME_CREATE) && found.birth.known().is_none() {
            self.put_with_birth(&facts, reply);
        } else {
            attr::put_facts(&facts, &self.asked, reply);
        }
        true
    }

    /// Appends attributes with the time of creation, which this listing does not have.
    fn put_with_birth(&self, facts: &Facts<'_>, reply: &mut Writer) {
        let mut object = self.dir.clone();
        object.fid = *facts.fid;
        match verbs::getattr_with(&object, Want::BIRTH).map(|attr| attr.birth) {
            Ok(birth) if birth.known().is_some() => {
                let found = Attr { birth, ..*facts.attr };
                attr::put_facts(&Facts { attr: &found, ..*facts }, &self.asked, reply);
            }
            _ => attr::put_facts(facts, &self.asked.without(&attr::BIRTH), reply),
        }
    }

    /// The ACL of an entry, if it is asked for.
    fn acl_of(&self, fid: Fid) -> Result<Option<Vec<Ace>>, Failed> {
        if !self.asked.has(a::ACL) {
            return Ok(None);
        }
        let mut object = self.dir.clone();
        object.fid = fid;
        Ok(Some(acl::of(&object)?))
    }

    /// Appends the attributes of the root of an export.
    fn put_root(&mut self, root: &Object<'_>, entry: &DirEntry<'_>, reply: &mut Writer) -> bool {
        if root.is_absent() {
            let put = absent::put_entry(self.frame, root, entry.fileid, &self.asked, reply);
            self.is_moved = put.is_err();
            return put.is_ok();
        }
        // what that export has of what its neighbours have
        let asked = attr_sets::given(self.frame, root, &self.asked);
        let shared = Shared::of(self.frame, root, &asked);
        let found = verbs::getattr_with(root, attr::want(&asked)).map_err(Failed::from);
        match (shared, found) {
            (Ok(shared), Ok(found)) => {
                let (fid, export) = (&root.fid, root.export());
                let (mounted_on, shared, quota) = (entry.fileid, &shared, QuotaSpace::default());
                let owners = self.owners;
                owners.prepare(&found);
                let attr = &found;
                let facts =
                    Facts { fid, attr, export, acl: None, quota, owners, mounted_on, shared };
                let known = found.birth.known().is_some();
                let asked = if known { asked } else { asked.without(&attr::BIRTH) };
                attr::put_facts(&facts, &asked, reply);
                true
            }
            (Err(failed), _) | (_, Err(failed)) => {
                self.put_error(failed.status(proto::nfs4::op::GETATTR, self.frame.minor), reply)
            }
        }
    }

    /// Appends the error in place of attributes, if that was asked for.
    fn put_error(&self, status: Nfsstat4, reply: &mut Writer) -> bool {
        if self.asked.has(a::RDATTR_ERROR) {
            reply.put(&Bitmap4::of(&[a::RDATTR_ERROR]));
            reply.words([4, status.number()]);
        }
        self.asked.has(a::RDATTR_ERROR)
    }
}

pub(super) fn readdir<'f>(
    frame: &mut Frame<'f>,
    args: &mut xdr::Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: ReaddirArgs = args.get()?;
    let dir = frame.object()?;
    attr::check_readable(&a.attrs)?;
    check_cookie(&a)?;
    // what quotas leave to each entry is not looked up
    let asked = attr_sets::given(frame, dir, &a.attrs).without(&QUOTAS);
    let (room, too_big) = frame.room(reply);
    let most = (frame.nfs.settings.read_max(frame.caller.peer().transport).min(a.maxcount)
        as usize)
        .min(room);
    reply.u64(0);
    let (shared, start) = (Shared::of(frame, dir, &asked)?, reply.mark());
    let (owners, junctions) = (Owners::of(frame.caller), frame.caller.junctions_in(dir));
    let shows_writes =
        frame.nfs.v4.state.any_write_delegations() && asked.intersects(&delegation::SHOW_WRITES);
    let is_plain = !shared.is_pseudo && junctions.is_none() && !shows_writes;
    let mut list = List {
        is_pseudo: shared.is_pseudo,
        usual: UsualEntries::of(dir.export(), owners, &asked).filter(|_| is_plain),
        junctions,
        frame,
        dir,
        asked,
        owners,
        shared,
        first: reply.mark(),
        room: most.saturating_sub(HEAD + TAIL),
        has_entries: false,
        is_moved: false,
        shows_writes,
        delegated: Vec::new(),
        passed: 0,
        held: Vec::new(),
    };
    let nodes = !asked.is_empty();
    let args = ListArgs {
        cookie: a.cookie,
        nodes: nodes || list.is_pseudo,
        want: Want::CHANGE,
        room: most / ATTRS_FACTOR,
    };
    let mut listing = verbs::readdir(dir, args, &mut |entry| list.append(entry, reply))?;
    if !list.delegated.is_empty() && !list.has_entries {
        let asked = std::mem::take(&mut list.delegated);
        list.held = frame.nfs.attrs_by_holders(dir, &asked, frame.client_id())?;
        list.passed = 0;
        reply.rewind(start);
        listing = verbs::readdir(dir, args, &mut |entry| list.append(entry, reply))?;
        if !list.delegated.is_empty() && !list.has_entries {
            return Err(Nfsstat4::Delay.into());
        }
    }
    if list.is_moved {
        return Err(Nfsstat4::Moved.into());
    }
    if most < HEAD + TAIL || !list.has_entries && !listing.eof {
        // not even one entry fits
        let by_client = (a.maxcount as usize) <= room;
        return Err(if by_client { Nfsstat4::TooSmall } else { too_big }.into());
    }
    let bytes = reply.written_since(list.first);
    reply.words([0, u32::from(listing.eof)]);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    frame.bytes_read = frame.bytes_read.saturating_add(bytes);
    frame.copied = Some(Copied::Listing);
    Ok(())
}

/// Refuses cookies that were never given out: 1 and 2 are reserved (RFC 8881 §18.23.3), and the verifier is zero.
fn check_cookie(args: &ReaddirArgs) -> Result<(), Failed> {
    match args.cookie {
        1 | 2 => Err(Nfsstat4::BadCookie.into()),
        cookie if cookie != 0 && args.cookieverf != [0; 8] => Err(Nfsstat4::NotSame.into()),
        _ => Ok(()),
    }
}
