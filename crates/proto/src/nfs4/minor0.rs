//! Arguments of the operations that only version 4.0 has (RFC 7530 §16; its XDR is RFC 7531).

use super::{LockOwner4, OPAQUE_LIMIT, Stateid4, Verifier4};
use crate::layout::Bytes;

/// The longest network id of an address (`r_netid`) that is taken off the wire.
const NETID_MAX: usize = 64;
/// The longest universal address (`r_addr`) that is taken off the wire.
const UADDR_MAX: usize = 256;

crate::layout::fields! {
    /// `clientaddr4`: an address as rpcbind writes it (RFC 5665 §5).
    ClientAddr4<'a> {
        /// `tcp`, `tcp6`, and others.
        netid: Bytes<'a, NETID_MAX>,
        /// The address and the port, such as `192.0.2.1.3.231`.
        addr: Bytes<'a, UADDR_MAX>,
    }
}

crate::layout::fields! {
    /// `SETCLIENTID4args`.
    SetclientidArgs<'a> {
        /// Changes when the client restarts.
        verifier: Verifier4,
        /// The client's name for itself.
        id: Bytes<'a, OPAQUE_LIMIT>,
        /// The number of its callback program.
        cb_program: u32,
        /// Where callbacks go.
        cb_location: ClientAddr4<'a>,
        /// What each callback brings back.
        callback_ident: u32,
    }
}

crate::layout::fields! {
    /// `SETCLIENTID_CONFIRM4args`.
    SetclientidConfirmArgs {
        /// The client's id.
        clientid: u64,
        /// What the answer to SETCLIENTID had with it.
        confirm: Verifier4,
    }
}

crate::layout::fields! {
    /// `OPEN_CONFIRM4args`.
    OpenConfirmArgs {
        /// The open.
        stateid: Stateid4,
        /// The number of the request among the open owner's.
        seqid: u32,
    }
}

crate::layout::fields! {
    /// `RENEW4args`.
    RenewArgs {
        /// The client.
        clientid: u64,
    }
}

crate::layout::fields! {
    /// `RELEASE_LOCKOWNER4args`.
    ReleaseLockownerArgs<'a> {
        /// The lock owner.
        owner: LockOwner4<'a>,
    }
}

crate::layout::fields! {
    /// `DELEGPURGE4args`.
    DelegpurgeArgs {
        /// The client.
        clientid: u64,
    }
}

/// The callback program of a client (RFC 7530 §17): its version, and the procedure that does nothing.
pub mod callback {
    /// The version of the program.
    pub const VERSION: u32 = 1;
    /// CB_NULL.
    pub const NULL: u32 = 0;
    /// CB_COMPOUND.
    pub const COMPOUND: u32 = 1;
}
