//! Version 4.0 (RFC 7530), as far as it differs from the later ones. A COMPOUND has no session: each operation identifies
//! its client by a client ID or a stateid. A retransmission is recognised by the seqid of its owner ([`owner_request`]) or in the
//! reply cache of RPC ([`mod@plan`]).
//!
//! An operation that is not here is the same in all minor versions.

mod close;
mod errors;
mod lock;
mod lock_owner;
mod lockt;
mod locku;
mod open;
mod open_confirm;
mod open_downgrade;
mod ops;
mod owner_request;
mod plan;
mod release_lockowner;
mod renew;
mod restorefh;
mod secinfo;
mod set_client_id;
mod stateids;

pub(super) use errors::errors_of;
pub(super) use ops::row;
pub(super) use plan::plan;
pub(super) use stateids::{data_right, delegation_of, has_callbacks, note_client};
