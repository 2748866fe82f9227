//! CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID, BIND_CONN_TO_SESSION, BACKCHANNEL_CTL and RECLAIM_COMPLETE (RFC 8881
//! §18.36, §18.37, §18.50, §18.34, §18.33, §18.51).
//!
//! There are no callbacks: no connection is bound to a back channel, and the replies say so.

use super::frame::Frame;
use super::recording;
use super::status::Failed;
use proto::nfs4::{
    BackchannelCtlArgs, BindConnArgs, ChannelAttrs, CreateSessionArgs, Nfsstat4, OPS_MAX,
    ReclaimCompleteArgs, SessionId, create_session as flags,
};
use state::v4::{ChannelLimits, CreateSession, CreateSessionError, DestroyError};
use xdr::{Reader, Writer};

/// What a request or reply has beside its data: headers, handles, attributes.
const HEADERS: u32 = 4096;
/// The shortest requests and replies with which a session is of use.
const LEAST: u32 = 256;

pub(super) fn create_session<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: CreateSessionArgs = args.get()?;
    if a.flags & !(flags::PERSIST | flags::CONN_BACK_CHAN | flags::CONN_RDMA) != 0 {
        return Err(Nfsstat4::Inval.into());
    }
    // a callback is CB_SEQUENCE and one more operation
    if is_too_small(&a.back) || a.back.maxoperations < 2 {
        return Err(Nfsstat4::TooSmall.into());
    }
    let limits = granted(frame, &a.fore)?;
    let want = CreateSession {
        client_id: a.clientid,
        sequence: a.sequence,
        principal: frame.principal(),
        limits,
    };
    let made = frame.v4().state.create_session(frame.now, &want).map_err(|error| match error {
        CreateSessionError::StaleClientId => Nfsstat4::StaleClientid,
        CreateSessionError::Misordered => Nfsstat4::SeqMisordered,
        CreateSessionError::InUse => Nfsstat4::ClidInUse,
        CreateSessionError::NoRoom => Nfsstat4::NoSpc,
    })?;
    reply.raw(&made.session);
    // no persistent reply cache, no back channel, no RDMA
    reply.words([made.sequence, 0]);
    reply.put(&ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: made.limits.request_bytes,
        maxresponsesize: made.limits.response_bytes,
        maxresponsesize_cached: made.limits.cached_bytes,
        maxoperations: made.limits.operations,
        maxrequests: made.limits.slots,
    });
    reply.put(&ChannelAttrs { headerpadsize: 0, ..a.back });
    Ok(())
}

/// Whether not even the shortest requests and replies fit.
const fn is_too_small(attrs: &ChannelAttrs) -> bool {
    attrs.maxrequestsize < LEAST || attrs.maxresponsesize < LEAST
}

/// What is granted of what the client wants.
fn granted(frame: &Frame<'_>, wanted: &ChannelAttrs) -> Result<ChannelLimits, Failed> {
    if is_too_small(wanted) {
        return Err(Nfsstat4::TooSmall.into());
    }
    if wanted.maxoperations == 0 || wanted.maxrequests == 0 {
        return Err(Nfsstat4::Inval.into());
    }
    let transport = frame.caller.peer().transport;
    let (read, write) =
        (frame.nfs.settings.read_max(transport), frame.nfs.settings.write_max(transport));
    Ok(ChannelLimits {
        request_bytes: wanted.maxrequestsize.min(write.saturating_add(HEADERS)),
        response_bytes: wanted.maxresponsesize.min(read.saturating_add(HEADERS)),
        cached_bytes: wanted.maxresponsesize_cached.min(wanted.maxresponsesize),
        operations: wanted.maxoperations.min(OPS_MAX),
        slots: wanted.maxrequests,
    })
}

pub(super) fn destroy_session<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let id: SessionId = args.get()?;
    let own = frame.running.as_ref().is_some_and(|running| *running.session.id() == id);
    if own && frame.position.saturating_add(1) != frame.count {
        // the session that the COMPOUND runs in goes last (RFC 8881 §18.37.3)
        return Err(Nfsstat4::NotOnlyOp.into());
    }
    let destroyed = frame.v4().state.destroy_session(&id);
    destroyed.map_err(|_| Failed::As(Nfsstat4::BadSession))
}

pub(super) fn destroy_clientid<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let id: u64 = args.get()?;
    frame.v4().state.destroy_client(id).map_err(|error| {
        Failed::As(match error {
            DestroyError::Unknown => Nfsstat4::StaleClientid,
            DestroyError::Busy => Nfsstat4::ClientidBusy,
        })
    })
}

pub(super) fn bind_conn_to_session<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    /// `CDFC4_FORE`, `CDFC4_FORE_OR_BOTH`, `CDFS4_FORE`.
    const FORE: u32 = 1;
    const FORE_OR_BOTH: u32 = 3;
    let BindConnArgs { sessionid, dir, .. } = args.get()?;
    frame.reading.session(&sessionid).ok_or(Nfsstat4::BadSession)?;
    if dir != FORE && dir != FORE_OR_BOTH {
        return Err(Nfsstat4::Inval.into());
    }
    reply.raw(&sessionid);
    reply.words([FORE, 0]);
    Ok(())
}

/// There is no back channel whose parameters could change.
pub(super) fn backchannel_ctl<'f>(
    _: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let BackchannelCtlArgs { .. } = args.get()?;
    Ok(())
}

pub(super) fn reclaim_complete<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let ReclaimCompleteArgs { one_fs } = args.get()?;
    if one_fs {
        // of one file system that was moved: there are no moves, so nothing ends
        frame.object()?;
        return Ok(());
    }
    recording::complete_reclaim(frame)
}
