//! OPEN in version 4.0 (RFC 7530 §16.16): a request of the open owner, whose first OPEN is to be confirmed.

use super::super::delegation::{self, OpenedBy, Outcome};
use super::super::frame::{Frame, wire_stateid};
use super::super::name;
use super::super::open::{self, LOCKTYPE_POSIX, OpenedFile};
use super::super::open_create::{self, Found};
use super::super::recording;
use super::super::status::Failed;
use super::owner_request::{request_of, run_or_replay};
use crate::object::Object;
use proto::nfs4::{Createhow4, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, op};
use state::v4::Begun;
use state::{ShareBits, ShareMode};
use xdr::{Reader, Writer};

/// `OPEN4_RESULT_CONFIRM`: the client must confirm the OPEN before it does anything else.
const CONFIRM: u32 = 2;

pub(super) fn open<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let before = args.rest();
    let a: OpenArgs<'_> = args.get()?;
    check_members(&a)?;
    let request = request_of(frame, (op::OPEN, a.seqid), before, args);
    frame.object()?;
    let owner = (a.owner.clientid, a.owner.owner.0);
    let ticket = match frame.v4().state.begin_open(frame.now, owner, request) {
        Ok(Begun::Run(ticket)) => ticket,
        begun => return run_or_replay(frame, reply, (op::OPEN, begun), |_, _, _| Ok(())),
    };
    let is_confirmed = ticket.is_confirmed() || matches!(a.claim, OpenClaim4::Previous(_));
    let flags = if is_confirmed { LOCKTYPE_POSIX } else { LOCKTYPE_POSIX | CONFIRM };
    frame.named_client.set(Some(ticket.client_id()));
    frame.opener = Some(ticket);
    let opened = run(frame, &a);
    let body = reply.mark();
    let ended = opened.map(|(file, granted)| {
        // those from before others were held back do not count
        frame.fetched = match &granted {
            Ok(granted) => granted.attr,
            Err(_) => file.attr.filter(|_| a.share_deny == 0),
        };
        reply.put(&wire_stateid(file.opened.stateid));
        reply.put(&file.dir);
        reply.u32(flags);
        reply.put(&file.set);
        delegation::put(&granted, reply);
    });
    let ticket = frame.opener.take();
    super::owner_request::end(frame, [ticket, None], (op::OPEN, ended), (body, reply));
    ended
}

/// Refuses what the XDR of version 4.0 does not have.
fn check_members(a: &OpenArgs<'_>) -> Result<(), Failed> {
    let create = matches!(a.how, OpenHow4::Create(Createhow4::Exclusive41(..)));
    let claim =
        matches!(a.claim, OpenClaim4::Fh | OpenClaim4::DelegPrevFh | OpenClaim4::DelegCurFh(_));
    if create || claim { Err(Nfsstat4::BadXdr.into()) } else { Ok(()) }
}

/// The share access and deny bits.
fn share_mode(a: &OpenArgs<'_>) -> Result<ShareMode, Failed> {
    let bits = (ShareBits::from_number(a.share_access), ShareBits::from_number(a.share_deny));
    match bits {
        (Some(access), Some(deny)) if access != ShareBits::NONE => Ok(ShareMode { access, deny }),
        _ => Err(Nfsstat4::Inval.into()),
    }
}

/// Opens the file, and gives the delegation that the client may have with it.
fn run(frame: &mut Frame<'_>, a: &OpenArgs<'_>) -> Result<(OpenedFile, Outcome), Failed> {
    let mode = share_mode(a)?;
    let place = frame.object()?.clone();
    let ticket = frame.opener.as_ref().ok_or(Nfsstat4::ServerFault)?;
    let reclaims = matches!(a.claim, OpenClaim4::Previous(_));
    match recording::admit(frame, ticket.requester(), reclaims) {
        // whoever has a delegation has it since before the restart
        Err(Failed::As(Nfsstat4::Grace)) if delegation::is_claimed(&a.claim) => {}
        admitted => admitted?,
    }
    let owner = a.owner.owner.0;
    let file = match (a.claim, a.how) {
        (OpenClaim4::Null(name), how) => {
            name::check(name.0, &place)?;
            match how {
                OpenHow4::NoCreate => open::open_name(frame, &place, name.0, owner, mode)?,
                OpenHow4::Create(how) => {
                    open_create::open_or_create(frame, &place, name.0, owner, mode, how)?
                }
            }
        }
        (OpenClaim4::Previous(_), OpenHow4::NoCreate) => reclaim(frame, &place, owner, mode)?,
        (OpenClaim4::DelegateCur(stateid, name), OpenHow4::NoCreate) => {
            name::check(name.0, &place)?;
            delegation::check_claim_of_name(frame, stateid, &place, name.0)?;
            open::open_name(frame, &place, name.0, owner, mode)?
        }
        // delegations do not outlive their client
        (OpenClaim4::DelegatePrev(_), OpenHow4::NoCreate) => return Err(Nfsstat4::NotSupp.into()),
        _ => return Err(Nfsstat4::Inval.into()),
    };
    delegation::recall_own(frame, mode)?;
    let granted = match a.claim {
        OpenClaim4::Null(name) => {
            let name = Some((&place, name.0));
            delegation::decide(frame, a.share_access, &OpenedBy { mode, name })
        }
        OpenClaim4::Previous(had) => delegation::reclaimed(frame, had, a.share_access, mode),
        _ => delegation::none(a.share_access),
    };
    Ok((file, granted))
}

/// Reclaims an open after the server's restart.
fn reclaim(
    frame: &Frame<'_>,
    file: &Object<'_>,
    owner: &[u8],
    mode: ShareMode,
) -> Result<OpenedFile, Failed> {
    let opened = open::reserve(frame, file, owner, mode, Found::Reclaimed)?;
    if let Some(ticket) = &frame.opener {
        ticket.confirm();
        ticket.requester().reclaimed(frame.now, &frame.nfs.state);
    }
    Ok(OpenedFile::by_handle(opened))
}
