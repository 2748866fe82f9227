//! Parses replies: the xid, whether the call was accepted, its status and the part of the result
//! that a load needs.
//!
//! Those of version 4 are in `version4`. Nothing else of a reply is parsed: checking every attribute would measure the client. Data is
//! verified by `verify`, on a sample.

use super::op::{Op, Version};
use super::version4::{State4, result};
use client::Fh;
use proto::nfs2::{self, DirOpOk2, Nfsstat2, ReadOk2, ReaddirOk2};
use proto::nfs3::{self, LookupOk, MadeOk, Nfsstat3, ReadOk, Verf, WriteOk};
use proto::nfs4::Nfsstat4;
use proto::nlm::{Answer, Status, Versioned, Width};
use proto::rpc::{Accepted, Denied, REPLY, ReplyBody};
use xdr::{Error, Reader};

/// The result of an accepted call.
#[derive(Debug, PartialEq)]
pub(crate) enum Body<'a> {
    /// No data that a load needs.
    Plain,
    /// LOOKUP, CREATE, OPEN.
    Object(Option<Fh>),
    /// READ.
    Data { bytes: &'a [u8], eof: bool },
    /// WRITE: how many bytes.
    Written(u32),
    /// READDIR, READDIRPLUS.
    DirItem { entries: u32, cookie: u64, verf: Verf, eof: bool },
}

/// The outcome of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply<'a> {
    /// Accepted; a status of 0 is success.
    Result { status: u32, body: Body<'a> },
    /// Rejected; the reason.
    Rejected(&'static str),
}

/// The xid of a message, which must be a reply.
pub(crate) fn xid(record: &[u8]) -> Result<u32, Error> {
    let mut r = Reader::new(record);
    let xid = r.u32()?;
    match r.u32()? {
        REPLY => Ok(xid),
        value => Err(Error::NotMember { what: "msg_type of a reply", value }),
    }
}

/// Parses the reply to a call of `op`; of version 4 for a slot of the client's state.
pub(crate) fn read<'a>(
    record: &'a [u8],
    version: Version,
    op: Op,
    state: Option<(&mut State4, usize)>,
) -> Result<Reply<'a>, Error> {
    let mut r = Reader::new(record);
    r.u64()?; // xid and REPLY: seen by `xid`
    match r.get::<ReplyBody<'_>>()? {
        ReplyBody::Accepted { status: Accepted::Success, .. } => {}
        ReplyBody::Accepted { status, .. } => return Ok(Reply::Rejected(refusal(status))),
        ReplyBody::Denied(Denied::RpcMismatch { .. }) => {
            return Ok(Reply::Rejected("RPC_MISMATCH"));
        }
        ReplyBody::Denied(Denied::AuthError(_)) => return Ok(Reply::Rejected("AUTH_ERROR")),
    }
    if let Some((state, slot)) = state {
        return result::read(&mut r, state, slot, op);
    }
    if op == Op::Null {
        r.end()?;
        return Ok(Reply::Result { status: 0, body: Body::Plain });
    }
    if matches!(op, Op::Lock | Op::Unlock) {
        let status = Answer::decode(&mut r, Width::Bits64)?.status.number();
        return Ok(Reply::Result { status, body: Body::Plain });
    }
    let status = r.u32()?;
    let body = match (status, version) {
        (0, Version::V3) => body3(&mut r, op)?,
        (0, Version::V2) => body2(&mut r, op)?,
        _ => Body::Plain,
    };
    Ok(Reply::Result { status, body })
}

const fn refusal(status: Accepted) -> &'static str {
    match status {
        Accepted::Success => "SUCCESS",
        Accepted::ProgUnavail => "PROG_UNAVAIL",
        Accepted::ProgMismatch { .. } => "PROG_MISMATCH",
        Accepted::ProcUnavail => "PROC_UNAVAIL",
        Accepted::GarbageArgs => "GARBAGE_ARGS",
        Accepted::SystemErr => "SYSTEM_ERR",
    }
}

fn body3<'a>(r: &mut Reader<'a>, op: Op) -> Result<Body<'a>, Error> {
    Ok(match op {
        Op::Getattr => r.get::<nfs3::Fattr3>().map(|_| Body::Plain)?,
        Op::Access => r.get::<nfs3::AccessOk>().map(|_| Body::Plain)?,
        Op::Lookup => Body::Object(Fh::new(r.get::<LookupOk<'_>>()?.object.0)),
        Op::Create => Body::Object(r.get::<MadeOk<'_>>()?.object.and_then(|fh| Fh::new(fh.0))),
        Op::Read => {
            let ok: ReadOk<'_> = r.get()?;
            if ok.data.0.len() != ok.count as usize {
                return Err(Error::Invalid("READ: count is not the length of the data"));
            }
            Body::Data { bytes: ok.data.0, eof: ok.eof }
        }
        Op::Write => Body::Written(r.get::<WriteOk>()?.count),
        Op::Readdir => {
            let ok: nfs3::ReaddirOk<'_> = r.get()?;
            let cookie = ok.entries.last().map_or(0, |last| last.cookie);
            Body::DirItem { entries: count(ok.entries.len()), cookie, verf: ok.verf, eof: ok.eof }
        }
        Op::Readdirplus => {
            let ok: nfs3::ReaddirplusOk<'_> = r.get()?;
            let cookie = ok.entries.last().map_or(0, |last| last.cookie);
            Body::DirItem { entries: count(ok.entries.len()), cookie, verf: ok.verf, eof: ok.eof }
        }
        Op::Null
        | Op::Setattr
        | Op::Readlink
        | Op::Remove
        | Op::Fsstat
        | Op::Commit
        | Op::Lock
        | Op::Unlock
        | Op::Open
        | Op::Close => Body::Plain,
    })
}

fn body2<'a>(r: &mut Reader<'a>, op: Op) -> Result<Body<'a>, Error> {
    Ok(match op {
        Op::Lookup | Op::Create => Body::Object(Fh::new(&r.get::<DirOpOk2>()?.file)),
        // Version 2 has no end-of-file mark.
        Op::Read => Body::Data { bytes: r.get::<ReadOk2<'_>>()?.data.0, eof: false },
        Op::Write => r.get::<nfs2::Fattr2>().map(|_| Body::Plain)?,
        Op::Readdir => {
            let ok: ReaddirOk2<'_> = r.get()?;
            let cookie = ok.entries.last().map_or(0, |last| u64::from(last.cookie));
            let (entries, verf) = (count(ok.entries.len()), Verf::default());
            Body::DirItem { entries, cookie, verf, eof: ok.eof }
        }
        Op::Null
        | Op::Getattr
        | Op::Setattr
        | Op::Access
        | Op::Readlink
        | Op::Remove
        | Op::Readdirplus
        | Op::Fsstat
        | Op::Commit
        | Op::Lock
        | Op::Unlock
        | Op::Open
        | Op::Close => Body::Plain,
    })
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The protocol's name of a status.
pub(crate) fn status_name(version: Version, op: Op, status: u32) -> String {
    let (prefix, name) = match (op, version) {
        (_, Version::V40 | Version::V41 | Version::V42) => {
            ("NFS4ERR_", Nfsstat4::from_number(status).map(|s| format!("{s:?}")))
        }
        (Op::Lock | Op::Unlock, _) => {
            ("NLM4_", Status::from_number(status).map(|s| format!("{s:?}")))
        }
        (_, Version::V3) => ("NFS3ERR_", Nfsstat3::from_number(status).map(|s| format!("{s:?}"))),
        (_, Version::V2) => ("NFSERR_", Nfsstat2::from_number(status).map(|s| format!("{s:?}"))),
    };
    name.map_or_else(|| format!("status {status}"), |name| prefix.to_owned() + &name.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::{Body, Reply, read, status_name, xid};
    use crate::load::op::{Op, Version};
    use proto::rpc::{Accepted, ReplyHeader};
    use xdr::Writer;

    fn reply(status: Accepted, words: &[u32]) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(&ReplyHeader::accepted(9, status));
        words.iter().for_each(|word| w.u32(*word));
        w.bytes().to_vec()
    }

    #[test]
    fn success_and_rejection_are_distinguished() {
        let null = reply(Accepted::Success, &[]);
        assert_eq!(xid(&null), Ok(9));
        let plain = Reply::Result { status: 0, body: Body::Plain };
        assert_eq!(read(&null, Version::V3, Op::Null, None), Ok(plain));
        let rejected = reply(Accepted::ProcUnavail, &[]);
        assert_eq!(
            read(&rejected, Version::V3, Op::Null, None),
            Ok(Reply::Rejected("PROC_UNAVAIL"))
        );
        let stale = reply(Accepted::Success, &[70]);
        let failed = Reply::Result { status: 70, body: Body::Plain };
        assert_eq!(read(&stale, Version::V3, Op::Getattr, None), Ok(failed));
        assert_eq!(status_name(Version::V3, Op::Getattr, 70), "NFS3ERR_STALE");
    }

    #[test]
    fn data_shorter_than_its_count_is_an_error() {
        // no attributes, count 8, eof, 4 bytes of data
        let short = reply(Accepted::Success, &[0, 0, 8, 1, 4, 0xdead_beef]);
        assert!(read(&short, Version::V3, Op::Read, None).is_err());
        let right = reply(Accepted::Success, &[0, 0, 4, 1, 4, 0xdead_beef]);
        let data = Body::Data { bytes: &[0xde, 0xad, 0xbe, 0xef], eof: true };
        assert_eq!(
            read(&right, Version::V3, Op::Read, None),
            Ok(Reply::Result { status: 0, body: data })
        );
    }

    #[test]
    fn a_lock_manager_answers_with_a_cookie_and_a_status() {
        let cookie = u32::from_be_bytes(*b"load");
        let denied = reply(Accepted::Success, &[4, cookie, 1]);
        let failed = Reply::Result { status: 1, body: Body::Plain };
        assert_eq!(read(&denied, Version::V3, Op::Lock, None), Ok(failed));
        assert_eq!(status_name(Version::V3, Op::Lock, 1), "NLM4_DENIED");
        assert!(read(&reply(Accepted::Success, &[1]), Version::V3, Op::Unlock, None).is_err());
    }

    #[test]
    fn a_call_is_not_accepted_as_a_reply() {
        assert!(xid(&[0, 0, 0, 9, 0, 0, 0, 0]).is_err());
        assert!(xid(&[0, 0, 0]).is_err());
    }
}
