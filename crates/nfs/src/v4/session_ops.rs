//! CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID, BIND_CONN_TO_SESSION, BACKCHANNEL_CTL and RECLAIM_COMPLETE (RFC 8881
//! §18.36, §18.37, §18.50, §18.34, §18.33, §18.51).
//!
//! A connection is bound to the fore channel by SEQUENCE on it, which needs no record, and to the back channel here only.

use super::callback::CallbackParams;
use super::frame::Frame;
use super::recording;
use super::status::Failed;
use proto::nfs4::{
    BackchannelCtlArgs, BindConnArgs, CallbackSecParms, ChannelAttrs, CreateSessionArgs, Nfsstat4,
    OPS_MAX, ReclaimCompleteArgs, SessionId, create_session as flags, op,
};
use rpc::{CallCredential, CallUser};
use state::v4::{
    BACK_SLOTS_MAX, ChannelLimits, CreateSession, CreateSessionError, Created, DestroyError,
};
use std::sync::Arc;
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
    let a: CreateSessionArgs<'_> = args.get()?;
    if a.flags & !(flags::PERSIST | flags::CONN_BACK_CHAN | flags::CONN_RDMA) != 0 {
        return Err(Nfsstat4::Inval.into());
    }
    // a callback is CB_SEQUENCE and one more operation
    if is_too_small(&a.back) || a.back.maxoperations < 2 {
        return Err(Nfsstat4::TooSmall.into());
    }
    let limits = granted(frame, &a.fore)?;
    frame.check_protection(frame.v4().state.machine_of(a.clientid), op::CREATE_SESSION)?;
    let want = CreateSession {
        client_id: a.clientid,
        sequence: a.sequence,
        principal: frame.client_principal(),
        limits,
        back_channel: a.flags & flags::CONN_BACK_CHAN != 0 && takes_callbacks(&a),
    };
    let create = || frame.v4().state.create_session(frame.now, &want);
    let made = match create() {
        // the next request finds the room
        Err(CreateSessionError::Full) if frame.nfs.end_silent(frame.caller.blocking(), 0) => {
            create()
        }
        made => made,
    };
    frame.v4().tell_name_conflicts();
    let made = made.map_err(|error| match error {
        CreateSessionError::StaleClientId => Nfsstat4::StaleClientid,
        CreateSessionError::Misordered => Nfsstat4::SeqMisordered,
        CreateSessionError::InUse => Nfsstat4::ClidInUse,
        CreateSessionError::NoRoom => Nfsstat4::NoSpc,
        CreateSessionError::Full => Nfsstat4::Delay,
    })?;
    let back_channel = set_up_callbacks(frame, &a, &made);
    frame.v4().recall_slots(frame.v4().state.take_slot_recalls());
    reply.raw(&made.session);
    // no persistent reply cache, no RDMA
    reply.words([made.sequence, if back_channel { flags::CONN_BACK_CHAN } else { 0 }]);
    reply.put(&ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: made.limits.request_bytes,
        maxresponsesize: made.limits.response_bytes,
        maxresponsesize_cached: made.limits.cached_bytes,
        maxoperations: made.limits.operations,
        maxrequests: made.limits.slots,
    });
    let maxrequests = a.back.maxrequests.min(BACK_SLOTS_MAX);
    reply.put(&ChannelAttrs { headerpadsize: 0, maxrequests, ..a.back });
    Ok(())
}

/// Whether a callback to the session could be made: it has slots, and a flavour that is known here.
fn takes_callbacks(a: &CreateSessionArgs<'_>) -> bool {
    a.back.maxrequests > 0 && credential_of(&a.sec_parms).is_some()
}

/// What callbacks carry: AUTH_SYS as the client asks for it, or else AUTH_NONE, if it takes that.
fn credential_of(parms: &CallbackSecParms<'_>) -> Option<CallCredential> {
    match &parms.sys {
        Some(user) => Some(CallCredential::User(Arc::new(CallUser {
            machine: user.machine.into(),
            uid: user.uid,
            gid: user.gid,
            groups: user.groups().into(),
        }))),
        None => parms.none.then_some(CallCredential::None),
    }
}

/// Notes what callbacks to a session that was made are like, and binds the connection if the client wants it to be;
/// whether it is bound now. The same request again, which may come by another connection, binds that.
fn set_up_callbacks(frame: &Frame<'_>, a: &CreateSessionArgs<'_>, made: &Created) -> bool {
    let callbacks = &frame.v4().callbacks;
    let reading = frame.v4().state.read();
    let Some(session) = reading.shared_session(&made.session) else { return false };
    if let Some(conn) = frame.connection.conn() {
        session.bind(conn.0);
    }
    let (minor, slots) = (frame.minor, a.back.maxrequests);
    let credential = credential_of(&a.sec_parms);
    let params = CallbackParams { program: a.cb_program, credential, minor, slots };
    callbacks.add_session(session, params);
    let way = made.back_channel.then(|| frame.connection.channel()).flatten();
    way.is_some_and(|way| callbacks.bind(&made.session, way))
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
    let session = frame.reading.session(&id).ok_or(Nfsstat4::BadSession)?;
    frame.check_protection(session.machine(), op::DESTROY_SESSION)?;
    let destroyed = frame.v4().state.destroy_session(&id);
    destroyed.map_err(|_| Failed::As(Nfsstat4::BadSession))?;
    frame.v4().callbacks.end_session(&id);
    Ok(())
}

pub(super) fn destroy_clientid<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let id: u64 = args.get()?;
    frame.check_protection(frame.v4().state.machine_of(id), op::DESTROY_CLIENTID)?;
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
    /// `channel_dir_from_client4` and `channel_dir_from_server4`.
    const FORE: u32 = 1;
    const BACK: u32 = 2;
    const BOTH: u32 = 3;
    const FORE_OR_BOTH: u32 = 3;
    const BACK_OR_BOTH: u32 = 7;
    let BindConnArgs { sessionid, dir, .. } = args.get()?;
    let session = frame.reading.session(&sessionid).ok_or(Nfsstat4::BadSession)?;
    // the operation has no error for a wrong credential: to others there is no such session
    let protected = frame.check_protection(session.machine(), op::BIND_CONN_TO_SESSION);
    protected.map_err(|_| Failed::As(Nfsstat4::BadSession))?;
    let callbacks = &frame.v4().callbacks;
    let way = frame.connection.channel();
    let bound = match dir {
        FORE => {
            let conn = way.and_then(|way| way.conn());
            if conn.is_some_and(|conn| callbacks.is_bound(&sessionid, conn)) {
                // it is for callbacks as well, and stays so
                return Err(Nfsstat4::Inval.into());
            }
            FORE
        }
        FORE_OR_BOTH | BACK_OR_BOTH | BACK => {
            match way.is_some_and(|way| callbacks.bind(&sessionid, way)) {
                true if dir == BACK => BACK,
                true => BOTH,
                false if dir == FORE_OR_BOTH => FORE,
                // it can be no way for callbacks, and is wanted for these
                false => return Err(Nfsstat4::Inval.into()),
            }
        }
        _ => return Err(Nfsstat4::Inval.into()),
    };
    if let Some(conn) = frame.connection.conn().filter(|_| bound != BACK) {
        session.bind(conn.0);
    }
    reply.raw(&sessionid);
    reply.words([bound, 0]);
    Ok(())
}

pub(super) fn backchannel_ctl<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let BackchannelCtlArgs { cb_program, sec_parms } = args.get()?;
    let session = frame.session()?;
    let credential = credential_of(&sec_parms).ok_or(Nfsstat4::Inval)?;
    frame.v4().callbacks.set_params(session.id(), cb_program, credential);
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
