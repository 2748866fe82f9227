//! Calls of a client's callback program, to an address (RFC 7530 §17) or over its own connection (RFC 8881 §20).

use proto::nfs4::callback as program;
use rpc::{CallCredential, CallTarget, Completion, OutboundCall};

/// How long a callback may take over one connection.
const CALL_MS: u64 = 10_000;

/// CB_NULL, of which clients take no other flavour than AUTH_NONE.
pub(super) fn null(target: CallTarget, program: u32, done: Completion) -> OutboundCall {
    call(target, (program, program::NULL), (CallCredential::None, Vec::new()), done)
}

/// CB_COMPOUND, with its credential and arguments.
pub(super) fn compound(
    target: CallTarget,
    program: u32,
    arguments: (CallCredential, Vec<u8>),
    done: Completion,
) -> OutboundCall {
    call(target, (program, program::COMPOUND), arguments, done)
}

fn call(
    target: CallTarget,
    (program, procedure): (u32, u32),
    (credential, args): (CallCredential, Vec<u8>),
    done: Completion,
) -> OutboundCall {
    OutboundCall {
        target,
        program,
        version: program::VERSION,
        procedure,
        credential,
        args,
        timeout_ms: CALL_MS,
        expects_reply: true,
        done,
    }
}
