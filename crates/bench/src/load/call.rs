//! Calls as bytes: a header encoded once for each simulated client, and the arguments of versions 2 and 3; those of
//! version 4 are in `version4`.
//!
//! Invariant: [`CallTemplate::put`] appends one whole call to the buffer, after its record mark if the
//! transport has one.

use super::op::{Op, Version};
use super::version4::{State4, compound};
use client::{Fh, Identity};
use proto::nfs2::{self, Fh2};
use proto::nfs3::{self, CreateHow3, Sattr3, SetTime3, StableHow, Verf};
use proto::nlm::{Lock, LockArgs, UnlockArgs, Versioned, Width};
use proto::rpc::{GROUPS_MAX, MACHINE_NAME_MAX};
use rpc::{AuthSys, Request};
use xdr::Writer;

/// The words of a header before the credential that change (RFC 5531 §9).
const XID_AT: usize = 0;
const PROGRAM_AT: usize = 12;
const VERSION_AT: usize = 16;
const PROCEDURE_AT: usize = 20;
/// The cookie of every lock call: the xid tells them apart.
const COOKIE: &[u8] = b"load";

/// A call's header without its xid, program and procedure, encoded once.
pub(crate) struct CallTemplate {
    bytes: Vec<u8>,
    /// What the client calls itself to the lock manager.
    machine: Vec<u8>,
    version: Version,
    /// Records have a mark in front (TCP).
    marked: bool,
    /// The most bytes of a fragment; 0: a record is one.
    fragment: usize,
}

/// An operation with its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call<'a> {
    Null,
    Getattr(&'a Fh),
    /// Sets both times to the server's clock.
    Touch(&'a Fh),
    /// Gives a new file its mode, and both times by the server's clock.
    SetMode(&'a Fh),
    /// Gives a file a time of its archive.
    SetTime(&'a Fh),
    Lookup(&'a Fh, &'a [u8]),
    Access(&'a Fh, u32),
    Readlink(&'a Fh),
    Read(&'a Fh, u64, u32, Opened),
    Write(&'a Fh, u64, &'a [u8], StableHow, Opened),
    /// In version 4 it opens the new file for its slot, which closes it.
    Create(&'a Fh, &'a [u8]),
    /// The same, exclusive, with its verifier; not in version 2.
    CreateNew(&'a Fh, &'a [u8], [u8; 8]),
    Remove(&'a Fh, &'a [u8]),
    Readdir(&'a Fh, u64, Verf, u32),
    Readdirplus(&'a Fh, u64, Verf, u32),
    Fsstat(&'a Fh),
    Commit(&'a Fh),
    /// Exclusive; in version 3 by NLM.
    Lock(&'a Fh, LockOwner),
    Unlock(&'a Fh, LockOwner),
    /// Opens a name for its slot; version 4 only.
    Open(&'a Fh, &'a [u8]),
    /// Closes what its slot has opened; version 4 only.
    Close(&'a Fh),
}

/// By which open of version 4 data is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// None: the permissions count (RFC 8881 §8.2.3).
    No,
    /// That of a file of the file set that is read, by its number.
    File(usize),
    /// That of the client's own file.
    Own,
    /// That of the slot.
    Slot,
}

/// Who locks, and which bytes: each owner has [`LOCK_BYTES`] of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockOwner(pub u32);

/// Bytes that one owner locks.
pub(crate) const LOCK_BYTES: u64 = 16;

impl Call<'_> {
    pub(crate) const fn op(&self) -> Op {
        match self {
            Self::Null => Op::Null,
            Self::Getattr(_) => Op::Getattr,
            Self::Touch(_) | Self::SetMode(_) | Self::SetTime(_) => Op::Setattr,
            Self::Lookup(..) => Op::Lookup,
            Self::Access(..) => Op::Access,
            Self::Readlink(_) => Op::Readlink,
            Self::Read(..) => Op::Read,
            Self::Write(..) => Op::Write,
            Self::Create(..) | Self::CreateNew(..) => Op::Create,
            Self::Remove(..) => Op::Remove,
            Self::Readdir(..) => Op::Readdir,
            Self::Readdirplus(..) => Op::Readdirplus,
            Self::Fsstat(_) => Op::Fsstat,
            Self::Commit(_) => Op::Commit,
            Self::Lock(..) => Op::Lock,
            Self::Unlock(..) => Op::Unlock,
            Self::Open(..) => Op::Open,
            Self::Close(_) => Op::Close,
        }
    }
}

impl CallTemplate {
    pub(crate) fn new(version: Version, identity: &Identity, marked: bool) -> Self {
        let name = identity.machine.as_bytes();
        let name = name.get(..MACHINE_NAME_MAX).unwrap_or(name);
        let groups = identity.groups.get(..GROUPS_MAX).unwrap_or(&identity.groups);
        let credential = AuthSys::new(name, identity.uid, identity.gid, groups);
        let mut w = Writer::new();
        w.put(&Request {
            xid: 0,
            program: nfs3::PROGRAM,
            version: version.number(),
            procedure: 0,
            credential,
        });
        let (bytes, machine) = (w.bytes().to_vec(), name.to_vec());
        Self { bytes, machine, version, marked, fragment: 0 }
    }

    /// Cuts records into fragments of at most this many bytes; 0: not at all.
    #[must_use]
    pub(crate) const fn with_fragments(mut self, fragment: usize) -> Self {
        self.fragment = fragment;
        self
    }

    pub(crate) const fn version(&self) -> Version {
        self.version
    }

    /// Appends one call to `w`; of version 4 for a slot of the client's state.
    pub(crate) fn put(
        &self,
        w: &mut Writer,
        xid: u32,
        call: &Call<'_>,
        state: Option<(&mut State4, usize)>,
    ) {
        let mark = self.marked.then(|| {
            let mark = w.mark();
            w.u32(0);
            mark
        });
        let start = w.mark();
        let procedure = call.op().procedure(self.version).unwrap_or(0);
        let (program, version) = call.op().program(self.version);
        let room = w.space(self.bytes.len());
        room.copy_from_slice(&self.bytes);
        put_word(room, XID_AT, xid);
        put_word(room, PROGRAM_AT, program);
        put_word(room, VERSION_AT, version);
        put_word(room, PROCEDURE_AT, procedure);
        w.advance(self.bytes.len());
        match (call, state) {
            (_, Some((state, slot))) => compound::put(w, state, slot, call),
            (Call::Lock(fh, owner), None) => lock_arguments(w, fh, *owner, &self.machine),
            (Call::Unlock(fh, owner), None) => unlock_arguments(w, fh, *owner, &self.machine),
            _ if self.version == Version::V2 => arguments2(w, call),
            _ => arguments3(w, call),
        }
        if let Some(mark) = mark {
            let len = w.written_since(start);
            let word = rpc::record::mark(len).unwrap_or(0);
            w.patch_u32(mark, word);
            if self.fragment > 0 && len > self.fragment {
                let record = w.since(start).to_vec();
                w.rewind(mark);
                put_fragments(w, &record, self.fragment);
            }
        }
    }
}

/// A record as fragments (RFC 5531 §11): all but the last have the mark's first bit clear.
fn put_fragments(w: &mut Writer, record: &[u8], fragment: usize) {
    let pieces = record.chunks(fragment);
    let last = pieces.len().saturating_sub(1);
    for (number, piece) in pieces.enumerate() {
        let word = rpc::record::mark(piece.len()).unwrap_or(0);
        w.u32(if number == last { word } else { word & 0x7fff_ffff });
        w.raw(piece);
    }
}

fn put_word(bytes: &mut [u8], at: usize, word: u32) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *place = word.to_be_bytes();
    }
}

fn fh3(fh: &Fh) -> nfs3::Fh<'_> {
    nfs3::Fh { 0: fh.bytes() }
}

fn place3<'a>(dir: &'a Fh, name: &'a [u8]) -> nfs3::DirOpArgs3<'a> {
    nfs3::DirOpArgs3 { dir: fh3(dir), name: nfs3::Filename3 { 0: name } }
}

/// What NLM is told of a lock. Owner handles differ, as those of processes do.
fn with_lock(fh: &Fh, owner: LockOwner, machine: &[u8], put: impl FnOnce(Lock<'_>)) {
    put(Lock {
        caller_name: machine,
        handle: fh.bytes(),
        oh: &owner.0.to_be_bytes(),
        svid: owner.0.cast_signed(),
        offset: u64::from(owner.0) * LOCK_BYTES,
        len: LOCK_BYTES,
    });
}

fn lock_arguments(w: &mut Writer, fh: &Fh, owner: LockOwner, machine: &[u8]) {
    let (cookie, block, exclusive, reclaim, state) = (COOKIE, false, true, false, 1);
    with_lock(fh, owner, machine, |lock| {
        LockArgs { cookie, block, exclusive, lock, reclaim, state }.encode(w, Width::Bits64);
    });
}

fn unlock_arguments(w: &mut Writer, fh: &Fh, owner: LockOwner, machine: &[u8]) {
    with_lock(fh, owner, machine, |lock| {
        UnlockArgs { cookie: COOKIE, lock }.encode(w, Width::Bits64);
    });
}

fn arguments3(w: &mut Writer, call: &Call<'_>) {
    match *call {
        // locks are not NFS's, and nothing is opened
        Call::Null | Call::Lock(..) | Call::Unlock(..) | Call::Open(..) | Call::Close(_) => {}
        Call::Getattr(fh) | Call::Readlink(fh) | Call::Fsstat(fh) => w.put(&fh3(fh)),
        Call::Touch(fh) => {
            let now = SetTime3::Server;
            let set = Sattr3 { atime: now, mtime: now, ..Sattr3::default() };
            w.put(&nfs3::SetattrArgs { object: fh3(fh), set, guard: None });
        }
        Call::SetMode(fh) => {
            let now = SetTime3::Server;
            let set = Sattr3 { mode: Some(0o644), atime: now, mtime: now, ..Sattr3::default() };
            w.put(&nfs3::SetattrArgs { object: fh3(fh), set, guard: None });
        }
        Call::SetTime(fh) => {
            let time = SetTime3::Client(nfs3::Nfstime3 { seconds: 1_000_000_000, nseconds: 0 });
            let set = Sattr3 { atime: time, mtime: time, ..Sattr3::default() };
            w.put(&nfs3::SetattrArgs { object: fh3(fh), set, guard: None });
        }
        Call::Lookup(dir, name) | Call::Remove(dir, name) => w.put(&place3(dir, name)),
        Call::Access(fh, access) => w.put(&nfs3::AccessArgs { object: fh3(fh), access }),
        Call::Read(fh, offset, count, _) => w.put(&nfs3::ReadArgs { file: fh3(fh), offset, count }),
        Call::Write(fh, offset, data, stable, _) => {
            let data = nfs3::Data { 0: data };
            w.put(&nfs3::WriteArgs { file: fh3(fh), offset, stable, data });
        }
        Call::Create(dir, name) => {
            let set = Sattr3 { mode: Some(0o644), ..Sattr3::default() };
            w.put(&nfs3::CreateArgs { place: place3(dir, name), how: CreateHow3::Unchecked(set) });
        }
        Call::CreateNew(dir, name, verifier) => {
            let how = CreateHow3::Exclusive(verifier);
            w.put(&nfs3::CreateArgs { place: place3(dir, name), how });
        }
        Call::Readdir(dir, cookie, verf, count) => {
            w.put(&nfs3::ReaddirArgs { dir: fh3(dir), cookie, verf, count });
        }
        Call::Readdirplus(dir, cookie, verf, count) => w.put(&nfs3::ReaddirplusArgs {
            dir: fh3(dir),
            cookie,
            verf,
            dircount: count,
            maxcount: count,
        }),
        Call::Commit(fh) => w.put(&nfs3::CommitArgs { file: fh3(fh), offset: 0, count: 0 }),
    }
}

/// A handle of version 2: all of them are 32 bytes long.
pub(crate) fn fh2(fh: &Fh) -> Fh2 {
    let mut bytes = Fh2::default();
    for (to, from) in bytes.iter_mut().zip(fh.bytes()) {
        *to = *from;
    }
    bytes
}

fn place2<'a>(dir: &Fh, name: &'a [u8]) -> nfs2::DirOpArgs2<'a> {
    nfs2::DirOpArgs2 { dir: fh2(dir), name: nfs2::Filename2 { 0: name } }
}

/// Offsets and cookies of version 2 have 32 bits; a load never goes beyond them.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn arguments2(w: &mut Writer, call: &Call<'_>) {
    match *call {
        // Operations that version 2 lacks become NULL; no workload that supports version 2 uses them.
        Call::Null
        | Call::Lock(..)
        | Call::Unlock(..)
        | Call::Access(..)
        | Call::Readdirplus(..)
        | Call::Commit(_)
        | Call::CreateNew(..)
        | Call::SetMode(_)
        | Call::SetTime(_)
        | Call::Open(..)
        | Call::Close(_) => {}
        Call::Getattr(fh) | Call::Readlink(fh) | Call::Fsstat(fh) => w.put(&fh2(fh)),
        Call::Touch(fh) => {
            let now = nfs2::Timeval { seconds: 0, useconds: nfs2::SERVER_TIME };
            let set = nfs2::Sattr2 { atime: now, mtime: now, ..nfs2::Sattr2::default() };
            w.put(&nfs2::SetattrArgs2 { file: fh2(fh), set });
        }
        Call::Lookup(dir, name) | Call::Remove(dir, name) => w.put(&place2(dir, name)),
        Call::Read(fh, offset, count, _) => {
            let (file, offset) = (fh2(fh), narrow(offset));
            w.put(&nfs2::ReadArgs2 { file, offset, count, totalcount: count });
        }
        Call::Write(fh, offset, data, ..) => {
            let (file, offset, data) = (fh2(fh), narrow(offset), nfs2::Data2 { 0: data });
            w.put(&nfs2::WriteArgs2 { file, beginoffset: 0, offset, totalcount: 0, data });
        }
        Call::Create(dir, name) => {
            let set = nfs2::Sattr2 { mode: 0o644, size: 0, ..nfs2::Sattr2::default() };
            w.put(&nfs2::CreateArgs2 { place: place2(dir, name), set });
        }
        Call::Readdir(dir, cookie, _, count) => {
            w.put(&nfs2::ReaddirArgs2 { dir: fh2(dir), cookie: narrow(cookie), count });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, CallTemplate, LockArgs, LockOwner, Versioned, Width};
    use crate::load::op::{Op, Version};
    use client::{Fh, Identity};
    use proto::nfs3::ReadArgs;
    use proto::rpc::CallHeader;
    use xdr::{Reader, Writer};

    #[test]
    fn a_call_carries_its_header_and_arguments() {
        let template = CallTemplate::new(Version::V3, &Identity::new(7, 8), true);
        let fh = Fh::new(&[9; 40]).unwrap();
        let mut w = Writer::new();
        template.put(&mut w, 0x1234, &Call::Getattr(&fh), None);
        let first = w.len();
        template.put(&mut w, 0x1235, &Call::Read(&fh, 4096, 77, super::Opened::No), None);
        let second = w.bytes().get(first..).unwrap();
        let mut r = Reader::new(second);
        assert_eq!(r.u32().unwrap(), 0x8000_0000 | u32::try_from(second.len() - 4).unwrap());
        let header: CallHeader<'_> = r.get().unwrap();
        assert_eq!(header.xid, 0x1235);
        assert_eq!(Some(header.procedure), Op::Read.procedure(Version::V3));
        let args: ReadArgs<'_> = r.get().unwrap();
        assert_eq!((args.offset, args.count, args.file.0), (4096, 77, fh.bytes()));
        r.end().unwrap();
    }

    #[test]
    fn a_lock_is_a_call_of_the_lock_manager() {
        let template = CallTemplate::new(Version::V3, &Identity::new(7, 8), false);
        let fh = Fh::new(&[9; 40]).unwrap();
        let mut w = Writer::new();
        template.put(&mut w, 1, &Call::Lock(&fh, LockOwner(3)), None);
        let mut r = Reader::new(w.bytes());
        let header: CallHeader<'_> = r.get().unwrap();
        let target = (header.program, header.version, header.procedure);
        assert_eq!(target, (proto::nlm::PROGRAM, 4, proto::nlm::procedure::LOCK));
        let args = LockArgs::decode(&mut r, Width::Bits64).unwrap();
        r.end().unwrap();
        assert!(args.exclusive && !args.block && !args.reclaim);
        assert_eq!((args.lock.svid, args.lock.offset, args.lock.len), (3, 48, 16));
        assert_eq!(args.lock.handle, fh.bytes());
        // the next call is NFS's again
        let mut w = Writer::new();
        template.put(&mut w, 2, &Call::Null, None);
        let header: CallHeader<'_> = Reader::new(w.bytes()).get().unwrap();
        assert_eq!((header.program, header.version), (proto::nfs3::PROGRAM, 3));
    }

    #[test]
    fn fragments_join_to_the_record() {
        let fh = Fh::new(&[9; 40]).unwrap();
        let call = Call::Getattr(&fh);
        let (mut whole, mut with_fragments) = (Writer::new(), Writer::new());
        let template = || CallTemplate::new(Version::V3, &Identity::new(7, 8), true);
        template().put(&mut whole, 1, &call, None);
        template().with_fragments(30).put(&mut with_fragments, 1, &call, None);
        assert!(with_fragments.len() > whole.len());
        let mut input = with_fragments.bytes();
        let mut partial = rpc::record::Partial::new();
        let record = partial.next(&mut input, 1 << 20).unwrap().unwrap();
        assert_eq!(Some(&*record), whole.bytes().get(4..));
    }

    #[test]
    fn a_datagram_has_no_mark() {
        let template = CallTemplate::new(Version::V2, &Identity::root(), false);
        let mut w = Writer::new();
        template.put(&mut w, 5, &Call::Lookup(&Fh::new(&[1; 32]).unwrap(), b"f"), None);
        let mut r = Reader::new(w.bytes());
        let header: CallHeader<'_> = r.get().unwrap();
        assert_eq!((header.xid, header.version, header.procedure), (5, 2, 4));
        let args: proto::nfs2::DirOpArgs2<'_> = r.get().unwrap();
        assert_eq!(args.name.0, b"f");
    }
}
