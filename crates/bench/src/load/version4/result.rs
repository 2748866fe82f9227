//! The replies of COMPOUND: how it ended, what the load needs of it, and what changes in the client's state with it.

use super::state::{OpenFile, State4, advances};
use crate::load::op::Op;
use crate::load::reply::{Body, Reply};
use client::Fh;
use client::nfs4::OpenDone;
use proto::nfs4::{
    ChangeInfo4, DATA_MAX, FHSIZE, Fattr4, STRING_MAX, Stateid4, TAG_MAX, Verifier4, op,
};
use xdr::{Error, Reader};

/// Bytes of the result of SEQUENCE behind its status.
const SEQUENCE_RESULT: usize = 36;

/// Reads the result of a call of `of` on a slot.
pub(crate) fn read<'a>(
    r: &mut Reader<'a>,
    state: &mut State4,
    slot: usize,
    of: Op,
) -> Result<Reply<'a>, Error> {
    let in_session = state.record.session.is_some();
    if of == Op::Null && !in_session {
        r.end()?;
        return Ok(Reply::Result { status: 0, body: Body::Plain });
    }
    let status = r.u32()?;
    r.opaque(TAG_MAX)?;
    let count = r.u32()?;
    if status != 0 {
        failed(state, slot, of, (status, count));
        return Ok(Reply::Result { status, body: Body::Plain });
    }
    if in_session {
        succeeded(r, op::SEQUENCE)?;
        r.opaque_fixed(SEQUENCE_RESULT)?;
    }
    let body = if of == Op::Null {
        Body::Plain
    } else {
        succeeded(r, op::PUTFH)?;
        body(r, state, slot, of)?
    };
    Ok(Reply::Result { status, body })
}

/// The head of the result of an operation that succeeded.
fn succeeded(r: &mut Reader<'_>, number: u32) -> Result<(), Error> {
    match r.words()? {
        [found, 0] if found == number => Ok(()),
        [value, _] => Err(Error::NotMember { what: "the operations sent", value }),
    }
}

/// What a COMPOUND that failed at its last of `count` results has changed.
fn failed(state: &mut State4, slot: usize, of: Op, (status, count): (u32, u32)) {
    if let Some(session) = &mut state.record.session {
        if count <= 1 {
            session.take_back_request(slot);
        }
        return;
    }
    // behind PUTFH comes the operation with the owner's number
    let reached = count >= 2 && advances(status);
    if let Some(slot) = state.slots.get_mut(slot).filter(|_| reached) {
        count_request(slot, of);
    }
}

/// The owner's next request has the next number.
const fn count_request(slot: &mut super::state::SlotState, of: Op) {
    match of {
        Op::Create | Op::Open | Op::Close => slot.open_seqid = slot.open_seqid.wrapping_add(1),
        Op::Lock | Op::Unlock => slot.lock_seqid = slot.lock_seqid.wrapping_add(1),
        _ => {}
    }
}

fn body<'a>(
    r: &mut Reader<'a>,
    state: &mut State4,
    slot: usize,
    of: Op,
) -> Result<Body<'a>, Error> {
    let slot = state.slots.get_mut(slot).ok_or(Error::Invalid("no such slot"))?;
    count_request(slot, of);
    Ok(match of {
        Op::Null => Body::Plain,
        Op::Getattr | Op::Fsstat => {
            attributes(r)?;
            Body::Plain
        }
        Op::Setattr => {
            succeeded(r, op::SETATTR)?;
            Body::Plain
        }
        Op::Access => {
            succeeded(r, op::ACCESS)?;
            r.words::<2>()?;
            attributes(r)?;
            Body::Plain
        }
        Op::Readlink => {
            succeeded(r, op::READLINK)?;
            r.opaque(STRING_MAX)?;
            Body::Plain
        }
        Op::Lookup => {
            succeeded(r, op::LOOKUP)?;
            let fh = handle(r)?;
            attributes(r)?;
            Body::Object(Some(fh))
        }
        Op::Create | Op::Open => {
            let (fh, stateid) = opened(r)?;
            slot.opened = Some((fh, stateid));
            Body::Object(Some(fh))
        }
        Op::Close => {
            succeeded(r, op::CLOSE)?;
            slot.opened = None;
            Body::Plain
        }
        Op::Remove => {
            succeeded(r, op::REMOVE)?;
            r.get::<ChangeInfo4>().map(|_| Body::Plain)?
        }
        Op::Read => {
            succeeded(r, op::READ)?;
            let eof = r.bool()?;
            Body::Data { bytes: r.opaque(DATA_MAX)?, eof }
        }
        Op::Write => {
            succeeded(r, op::WRITE)?;
            let [count, _committed] = r.words()?;
            let _verifier: Verifier4 = r.array()?;
            attributes(r)?;
            Body::Written(count)
        }
        Op::Commit => {
            succeeded(r, op::COMMIT)?;
            r.array::<8>().map(|_| Body::Plain)?
        }
        Op::Readdir | Op::Readdirplus => entries(r)?,
        Op::Lock | Op::Unlock => {
            succeeded(r, if of == Op::Lock { op::LOCK } else { op::LOCKU })?;
            slot.lock = r.get::<Stateid4>()?;
            slot.is_locked = of == Op::Lock;
            Body::Plain
        }
    })
}

fn attributes(r: &mut Reader<'_>) -> Result<(), Error> {
    succeeded(r, op::GETATTR)?;
    r.get::<Fattr4<'_>>().map(drop)
}

fn handle(r: &mut Reader<'_>) -> Result<Fh, Error> {
    succeeded(r, op::GETFH)?;
    let bytes = r.opaque(FHSIZE)?;
    Fh::new(bytes).ok_or(Error::TooLong { len: bytes.len(), limit: Fh::MAX })
}

/// OPEN with what comes behind it.
fn opened(r: &mut Reader<'_>) -> Result<OpenFile, Error> {
    succeeded(r, op::OPEN)?;
    let done: OpenDone = r.get()?;
    let fh = handle(r)?;
    succeeded(r, op::ACCESS)?;
    r.words::<2>()?;
    attributes(r)?;
    Ok((fh, done.stateid))
}

fn entries<'a>(r: &mut Reader<'a>) -> Result<Body<'a>, Error> {
    succeeded(r, op::READDIR)?;
    let verf = r.array()?;
    let (mut entries, mut cookie) = (0, 0);
    while r.bool()? {
        cookie = r.u64()?;
        r.opaque(STRING_MAX)?;
        r.get::<Fattr4<'_>>()?;
        entries += 1;
    }
    Ok(Body::DirItem { entries, cookie, verf, eof: r.bool()? })
}
