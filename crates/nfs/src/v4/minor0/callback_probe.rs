//! CB_NULL (RFC 7530 §17.1): whether a client's callback program answers. The result is shown to the operator and affects
//! no call of the client.

use crate::Nfs;
use proto::nfs4::callback;
use rpc::{CallCredential, CallTarget, CallerAddress, OutboundCall, ProgramPort, Transport};
use state::v4::Callback;
use std::sync::Arc;

/// How long to wait for the answer.
const TIMEOUT_MS: u64 = 10_000;

/// Calls a client's callback program, if it has given an address that may be called.
pub(super) fn send(nfs: &Nfs, to: Arc<Callback>) {
    let (Some(port), Some(calls)) = (to.port, nfs.outbound()) else { return };
    calls.call(OutboundCall {
        target: CallTarget::Machine {
            to: CallerAddress::recorded(to.address, to.local),
            port: ProgramPort::Known(port),
            transport: Transport::Tcp,
        },
        program: to.program,
        version: callback::VERSION,
        procedure: callback::NULL,
        credential: CallCredential::None,
        args: Vec::new(),
        timeout_ms: TIMEOUT_MS,
        expects_reply: true,
        done: Box::new(move |answer| to.tried(answer.is_ok())),
    });
}
