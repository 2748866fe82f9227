//! EXCHANGE_ID (RFC 8881 §18.35).

use super::frame::Frame;
use super::status::Failed;
use proto::nfs4::{ExchangeIdArgs, Nfsstat4, StateProtectHow, exchange_id as flags};
use state::v4::{ExchangeId, ExchangeIdError};
use xdr::{Reader, Writer};

pub(super) fn exchange_id<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: ExchangeIdArgs<'_> = args.get()?;
    if a.flags & !flags::MASK_A != 0 {
        return Err(Nfsstat4::Inval.into());
    }
    match a.state_protect {
        StateProtectHow::None => {}
        // asks for RPCSEC_GSS (RFC 8881 §18.35.3), which there is not
        StateProtectHow::MachCred => return Err(Nfsstat4::Inval.into()),
        StateProtectHow::Ssv => return Err(Nfsstat4::EncrAlgUnsupp.into()),
    }
    let who = ExchangeId {
        owner: a.ownerid,
        verifier: a.verifier,
        principal: frame.principal(),
        address: frame.caller.peer().addr.ip(),
        update: a.flags & flags::UPD_CONFIRMED_REC_A != 0,
    };
    let known = frame.v4().state.exchange_id(frame.now, &who);
    frame.v4().tell_name_conflicts();
    let known = known.map_err(|error| match error {
        ExchangeIdError::InUse => Nfsstat4::ClidInUse,
        ExchangeIdError::NoEnt => Nfsstat4::NoEnt,
        ExchangeIdError::NotSame => Nfsstat4::NotSame,
        ExchangeIdError::Perm => Nfsstat4::Perm,
        ExchangeIdError::NoRoom => Nfsstat4::Delay,
    })?;
    let confirmed = if known.confirmed { flags::CONFIRMED_R } else { 0 };
    reply.u64(known.client_id);
    // no state protection
    reply.words([known.sequence, flags::USE_NON_PNFS | confirmed, 0]);
    // so_minor_id, so_major_id and the scope: the same on every address, so that connections can be trunked
    let id = frame.caller.table().server_id();
    reply.u64(0);
    reply.opaque(&id);
    reply.opaque(&id);
    put_implementation(reply);
    Ok(())
}

/// Who made the server; when is not said.
fn put_implementation(reply: &mut Writer) {
    reply.u32(1);
    reply.opaque(b"bowline");
    reply.opaque(concat!("bowline ", env!("CARGO_PKG_VERSION")).as_bytes());
    reply.words([0; 3]);
}
