//! EXCHANGE_ID (RFC 8881 §18.35).

use super::frame::Frame;
use super::status::Failed;
use proto::nfs4::{Bitmap4, ExchangeIdArgs, Nfsstat4, StateProtectHow, exchange_id as flags, op};
use state::v4::{ExchangeId, ExchangeIdError, MachineCredential};
use xdr::{Reader, Writer};

/// Operations that a client can have reserved for its machine's credential.
const ENFORCED: Bitmap4 = Bitmap4::of(&[
    op::BIND_CONN_TO_SESSION,
    op::EXCHANGE_ID,
    op::CREATE_SESSION,
    op::DESTROY_SESSION,
    op::DESTROY_CLIENTID,
    op::DELEGPURGE,
]);
/// Operations for which a client can use it in its users' place: those that give state back. Not WRITE and COMMIT: Linux
/// then sends all of them so, and what a user writes would be the machine's.
const ALLOWED: Bitmap4 = Bitmap4::of(&[
    op::CLOSE,
    op::OPEN_DOWNGRADE,
    op::LOCKU,
    op::DELEGRETURN,
    op::TEST_STATEID,
    op::FREE_STATEID,
]);

pub(super) fn exchange_id<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: ExchangeIdArgs<'_> = args.get()?;
    if a.flags & !flags::MASK_A != 0 {
        return Err(Nfsstat4::Inval.into());
    }
    let machine = match a.state_protect {
        StateProtectHow::None => None,
        // the request itself has to be signed with it (RFC 8881 §18.35.3)
        StateProtectHow::MachCred { .. } if !frame.is_signed() => {
            return Err(Nfsstat4::Inval.into());
        }
        StateProtectHow::MachCred { enforce, allow } => Some(MachineCredential {
            enforced: enforce.and(&ENFORCED).words(),
            allowed: allow.and(&ALLOWED).words(),
        }),
        StateProtectHow::Ssv => return Err(Nfsstat4::EncrAlgUnsupp.into()),
    };
    let who = ExchangeId {
        owner: a.ownerid,
        verifier: a.verifier,
        principal: frame.client_principal(),
        machine,
        is_signed: frame.is_signed(),
        address: frame.caller.peer().addr.ip(),
        update: a.flags & flags::UPD_CONFIRMED_REC_A != 0,
    };
    let exchange = || frame.v4().state.exchange_id(frame.now, &who);
    let known = match exchange() {
        // clients that are silent make room
        Err(ExchangeIdError::NoRoom) if frame.nfs.end_silent(frame.caller.blocking(), 0) => {
            exchange()
        }
        known => known,
    };
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
    reply.words([known.sequence, flags::USE_NON_PNFS | confirmed]);
    match known.machine {
        None => reply.u32(0),
        Some(MachineCredential { enforced, allowed }) => {
            reply.u32(1);
            reply.put(&Bitmap4::of_words(enforced));
            reply.put(&Bitmap4::of_words(allowed));
        }
    }
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
