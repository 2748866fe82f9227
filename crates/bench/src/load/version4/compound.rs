//! The calls of a load as COMPOUNDs, with the operations and attributes that the Linux client sends: behind LOOKUP and
//! OPEN the handle and the attributes, behind WRITE and ACCESS what tells whether the file has changed.

use super::state::State4;
use crate::load::call::{Call, LOCK_BYTES, LockOwner};
use client::Fh;
use client::nfs4::WITHOUT_DELEGATION;
use proto::layout::Bytes;
use proto::nfs3::StableHow;
use proto::nfs4::{
    AccessArgs, Bitmap4, CloseArgs, CommitArgs, Createhow4, ExistLockOwner4, FHSIZE, Fattr4,
    LINUX_CACHE_CONSISTENCY as CONSISTENCY, LINUX_GETATTR as ATTRIBUTES, LockArgs, LockType4,
    Locker4, LockuArgs, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, ReadArgs, ReaddirArgs,
    STRING_MAX, SetattrArgs, StableHow4, Stateid4, WriteArgs, attr, op, share,
};
use xdr::Writer;

/// What the Linux client asks of each entry of a listing: of names alone, and of attributes and handles as well.
const ENTRY: Bitmap4 = Bitmap4::of(&[attr::RDATTR_ERROR, attr::MOUNTED_ON_FILEID]);
const ENTRY_PLUS: Bitmap4 = ATTRIBUTES.or(&Bitmap4::of(&[attr::RDATTR_ERROR, attr::FILEHANDLE]));
/// What it asks of a file system.
const SPACE: Bitmap4 = Bitmap4::of(&[
    attr::FILES_AVAIL,
    attr::FILES_FREE,
    attr::FILES_TOTAL,
    attr::SPACE_AVAIL,
    attr::SPACE_FREE,
    attr::SPACE_TOTAL,
]);

/// Attributes that are set.
const MODE: Bitmap4 = Bitmap4::of(&[attr::MODE]);
const TIMES: Bitmap4 = Bitmap4::of(&[attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET]);
const MODE_0644: [u8; 4] = 0o644_u32.to_be_bytes();
/// Both times by the server's clock.
const NOW: [u8; 8] = [0; 8];
/// The mode, and both times by the server's clock.
const MODE_AND_NOW: [u8; 12] = [0, 0, 1, 0xa4, 0, 0, 0, 0, 0, 0, 0, 0];
/// Both times by the client's clock: 1,000,000,000 s.
const ARCHIVED: [u8; 32] = [
    0, 0, 0, 1, 0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0, 0, 0, 0, 0, //
    0, 0, 0, 1, 0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0, 0, 0, 0, 0,
];

/// Appends operations and counts them.
struct Operations<'w> {
    w: &'w mut Writer,
    count: u32,
}

impl Operations<'_> {
    /// One more; its arguments follow.
    fn add(&mut self, number: u32) -> &mut Writer {
        self.count += 1;
        self.w.u32(number);
        self.w
    }

    fn at(&mut self, fh: &Fh) {
        self.add(op::PUTFH).put(&Bytes::<FHSIZE>(fh.bytes()));
    }

    fn name(&mut self, number: u32, name: &[u8]) {
        self.add(number).put(&Bytes::<STRING_MAX>(name));
    }

    fn attributes(&mut self, attrs: &Bitmap4) {
        self.add(op::GETATTR).put(attrs);
    }

    fn set(&mut self, fh: &Fh, mask: Bitmap4, values: &[u8]) {
        self.at(fh);
        let (stateid, attrs) = (Stateid4::ANONYMOUS, Fattr4 { mask, values: Bytes(values) });
        self.add(op::SETATTR).put(&SetattrArgs { stateid, attrs });
        self.attributes(&ATTRIBUTES);
    }
}

/// Whether the Linux client asks the server to keep the reply: to what must not run twice.
const fn keeps_reply(call: &Call<'_>) -> bool {
    match call {
        Call::Touch(_)
        | Call::SetMode(_)
        | Call::SetTime(_)
        | Call::Create(..)
        | Call::CreateNew(..)
        | Call::Open(..)
        | Call::Close(_)
        | Call::Remove(..)
        | Call::Commit(_)
        | Call::Lock(..)
        | Call::Unlock(..) => true,
        Call::Null
        | Call::Getattr(_)
        | Call::Lookup(..)
        | Call::Access(..)
        | Call::Readlink(_)
        | Call::Read(..)
        | Call::Write(..)
        | Call::Readdir(..)
        | Call::Readdirplus(..)
        | Call::Fsstat(_) => false,
    }
}

/// Appends the arguments of COMPOUND for a call on a slot; nothing for the NULL of version 4.0.
pub(crate) fn put(w: &mut Writer, state: &mut State4, slot: usize, call: &Call<'_>) {
    if state.record.session.is_none() && matches!(call, Call::Null) {
        return;
    }
    w.opaque(b"");
    w.u32(state.minor());
    let count_at = w.mark();
    w.u32(0);
    let mut operations = Operations { w: &mut *w, count: 0 };
    let session = state.record.session.as_mut();
    if let Some(args) = session.and_then(|s| s.next_request(slot, keeps_reply(call))) {
        operations.add(op::SEQUENCE).put(&args);
    }
    add(&mut operations, state, slot, call);
    let count = operations.count;
    w.patch_u32(count_at, count);
}

fn add(to: &mut Operations<'_>, state: &State4, slot: usize, call: &Call<'_>) {
    match *call {
        Call::Null => {}
        Call::Getattr(fh) => {
            to.at(fh);
            to.attributes(&ATTRIBUTES);
        }
        Call::Fsstat(fh) => {
            to.at(fh);
            to.attributes(&SPACE);
        }
        Call::Touch(fh) => to.set(fh, TIMES, &NOW),
        Call::SetMode(fh) => to.set(fh, MODE.or(&TIMES), &MODE_AND_NOW),
        Call::SetTime(fh) => to.set(fh, TIMES, &ARCHIVED),
        Call::Lookup(dir, name) => {
            to.at(dir);
            to.name(op::LOOKUP, name);
            to.add(op::GETFH);
            to.attributes(&ATTRIBUTES);
        }
        Call::Access(fh, access) => {
            to.at(fh);
            to.add(op::ACCESS).put(&AccessArgs { access });
            to.attributes(&CONSISTENCY);
        }
        Call::Readlink(fh) => {
            to.at(fh);
            to.add(op::READLINK);
        }
        Call::Remove(dir, name) => {
            to.at(dir);
            to.name(op::REMOVE, name);
        }
        Call::Readdir(dir, cookie, verf, count) => {
            list(to, (dir, cookie, verf), (count, count), ENTRY);
        }
        Call::Readdirplus(dir, cookie, verf, count) => {
            list(to, (dir, cookie, verf), (count / 2, count), ENTRY_PLUS);
        }
        Call::Read(..) | Call::Write(..) | Call::Commit(_) => data(to, state, slot, call),
        Call::Create(..) | Call::CreateNew(..) | Call::Open(..) | Call::Close(_) => {
            open(to, state, slot, call);
        }
        Call::Lock(fh, owner) => lock(to, state, slot, (fh, owner), true),
        Call::Unlock(fh, owner) => lock(to, state, slot, (fh, owner), false),
    }
}

fn list(
    to: &mut Operations<'_>,
    (dir, cookie, cookieverf): (&Fh, u64, [u8; 8]),
    (dircount, maxcount): (u32, u32),
    attrs: Bitmap4,
) {
    to.at(dir);
    to.add(op::READDIR).put(&ReaddirArgs { cookie, cookieverf, dircount, maxcount, attrs });
}

/// READ, WRITE and COMMIT.
fn data(to: &mut Operations<'_>, state: &State4, slot: usize, call: &Call<'_>) {
    match *call {
        Call::Read(fh, offset, count, opened) => {
            to.at(fh);
            let stateid = state.stateid(slot, opened);
            to.add(op::READ).put(&ReadArgs { stateid, offset, count });
        }
        Call::Write(fh, offset, data, stable, opened) => {
            to.at(fh);
            let stable = match stable {
                StableHow::Unstable => StableHow4::Unstable,
                StableHow::DataSync => StableHow4::DataSync,
                StableHow::FileSync => StableHow4::FileSync,
            };
            let (stateid, data) = (state.stateid(slot, opened), Bytes(data));
            to.add(op::WRITE).put(&WriteArgs { stateid, offset, stable, data });
            to.attributes(&CONSISTENCY);
        }
        Call::Commit(fh) => {
            to.at(fh);
            to.add(op::COMMIT).put(&CommitArgs { offset: 0, count: 0 });
        }
        _ => {}
    }
}

/// OPEN, which may create, and CLOSE.
fn open(to: &mut Operations<'_>, state: &State4, slot: usize, call: &Call<'_>) {
    let Some(held) = state.slots.get(slot) else { return };
    let mode = Fattr4 { mask: MODE, values: Bytes(&MODE_0644) };
    let (dir, name, access, how) = match *call {
        Call::Create(dir, name) => {
            let how = OpenHow4::Create(Createhow4::Unchecked(mode));
            (dir, name, share::ACCESS_WRITE, how)
        }
        // version 4.0 has no attributes beside a verifier
        Call::CreateNew(dir, name, verifier) if state.minor() == 0 => {
            let how = OpenHow4::Create(Createhow4::Exclusive(verifier));
            (dir, name, share::ACCESS_WRITE, how)
        }
        Call::CreateNew(dir, name, verifier) => {
            let how = OpenHow4::Create(Createhow4::Exclusive41(verifier, mode));
            (dir, name, share::ACCESS_WRITE, how)
        }
        Call::Open(dir, name) => (dir, name, share::ACCESS_READ, OpenHow4::NoCreate),
        Call::Close(fh) => {
            to.at(fh);
            let stateid = held.opened.map_or(Stateid4::ANONYMOUS, |(_, stateid)| stateid);
            to.add(op::CLOSE).put(&CloseArgs { seqid: held.open_seqid, stateid });
            return;
        }
        _ => return,
    };
    let wanted = if state.minor() == 0 { 0 } else { WITHOUT_DELEGATION };
    to.at(dir);
    to.add(op::OPEN).put(&OpenArgs {
        seqid: held.open_seqid,
        share_access: access | wanted,
        share_deny: 0,
        owner: OpenOwner4 { clientid: state.record.client_id, owner: Bytes(&held.name) },
        how,
        claim: OpenClaim4::Null(Bytes(name)),
    });
    to.add(op::GETFH);
    to.add(op::ACCESS).put(&AccessArgs { access: 0x3f });
    to.attributes(&ATTRIBUTES);
}

fn lock(
    to: &mut Operations<'_>,
    state: &State4,
    slot: usize,
    (fh, owner): (&Fh, LockOwner),
    takes: bool,
) {
    let Some(held) = state.slots.get(slot) else { return };
    let (kind, seqid) = (LockType4::Write, held.lock_seqid);
    let (offset, length) = (u64::from(owner.0) * LOCK_BYTES, LOCK_BYTES);
    to.at(fh);
    if takes {
        let locker = Locker4::Known(ExistLockOwner4 { lock: held.lock, lock_seqid: seqid });
        to.add(op::LOCK).put(&LockArgs { kind, reclaim: false, offset, length, locker });
    } else {
        to.add(op::LOCKU).put(&LockuArgs { kind, seqid, stateid: held.lock, offset, length });
    }
}
