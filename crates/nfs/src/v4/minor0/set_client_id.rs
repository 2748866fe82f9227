//! SETCLIENTID and SETCLIENTID_CONFIRM (RFC 7530 §16.33, §16.34).
//!
//! Callbacks are sent only to the address that SETCLIENTID came from, whatever address the client names, so that no client
//! can make the server call a third party.

use super::super::frame::Frame;
use super::super::status::Failed;
use proto::layout::Bytes;
use proto::nfs4::{ClientAddr4, Nfsstat4, SetclientidArgs, SetclientidConfirmArgs};
use proto::portmap::{Netid, from_universal};
use rpc::{Credential, Peer};
use state::v4::{Callback, CallbackCredential, CallbackUser, ClientIdError, SetClientId};
use std::sync::Arc;
use xdr::{Reader, Writer};

pub(super) fn setclientid<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: SetclientidArgs<'_> = args.get()?;
    let peer = frame.caller.peer();
    let callback = Callback::new(
        (a.cb_program, a.callback_ident),
        (peer.addr.ip(), peer.local.ip()),
        port_of(peer, &a.cb_location),
        credential_of(frame),
    );
    let who = SetClientId {
        name: a.id.0,
        verifier: a.verifier,
        principal: frame.client_principal(),
        callback: Arc::new(callback),
    };
    let set = || frame.v4().state.set_client_id(frame.now, &who);
    let known = match set() {
        // clients that are silent make room
        Err(ClientIdError::NoRoom) if frame.nfs.end_silent(frame.caller.blocking(), 0) => set(),
        known => known,
    };
    frame.v4().tell_name_conflicts();
    match known {
        Ok(names) => {
            reply.u64(names.client_id);
            reply.raw(&names.confirm);
            Ok(())
        }
        Err(ClientIdError::InUse) => {
            put_user(peer, reply);
            Err(Failed::WithResult(Nfsstat4::ClidInUse))
        }
        Err(ClientIdError::NoRoom) => Err(Nfsstat4::Delay.into()),
        // only SETCLIENTID_CONFIRM names a client
        Err(ClientIdError::Stale) => Err(Nfsstat4::ServerFault.into()),
    }
}

/// The port that a client names, if it names TCP and the address that it calls from.
fn port_of(peer: &Peer, location: &ClientAddr4<'_>) -> Option<u16> {
    let netid = Netid::parse(location.netid.0).filter(|netid| netid.is_tcp())?;
    let addr = from_universal(location.addr.0).filter(|addr| addr.is_ipv6() == netid.is_v6())?;
    let is_own = addr.ip().to_canonical() == peer.addr.ip().to_canonical();
    (is_own && addr.port() != 0).then_some(addr.port())
}

/// What callbacks are authenticated by: the flavour of SETCLIENTID (RFC 7530 §3.3.3), if that is without a key, and if what
/// they tell would not have been protected by TLS otherwise.
fn credential_of(frame: &Frame<'_>) -> CallbackCredential {
    if !frame.caller.peer().security.is_plain() {
        return CallbackCredential::Unavailable;
    }
    match frame.caller.credential() {
        Credential::Anonymous => CallbackCredential::None,
        Credential::Sys(user) => CallbackCredential::User(CallbackUser {
            machine: user.machinename.into(),
            uid: user.uid,
            gid: user.gid,
            groups: user.groups().into(),
        }),
        Credential::Principal(_) => CallbackCredential::Unavailable,
    }
}

/// The other user of the name, without an address: no client needs to know another's.
fn put_user(peer: &Peer, reply: &mut Writer) {
    let netid = if peer.addr.ip().to_canonical().is_ipv6() { "tcp6" } else { "tcp" };
    let addr = Bytes(b"");
    reply.put(&ClientAddr4 { netid: Bytes(netid.as_bytes()), addr });
}

pub(super) fn setclientid_confirm<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let SetclientidConfirmArgs { clientid, confirm } = args.get()?;
    let state = &frame.v4().state;
    let confirmed =
        state.confirm_client_id(frame.now, (clientid, confirm), frame.client_principal());
    frame.v4().tell_name_conflicts();
    match confirmed {
        Ok(Some(callback)) => frame.v4().callbacks.by_address.probe(callback),
        Ok(None) => {}
        Err(ClientIdError::InUse) => return Err(Nfsstat4::ClidInUse.into()),
        Err(ClientIdError::Stale) => return Err(Nfsstat4::StaleClientid.into()),
        Err(ClientIdError::NoRoom) => return Err(Nfsstat4::Delay.into()),
    }
    Ok(())
}
