//! The state of NFS version 4: client ids, sessions with their slots, opens and lock states. What only version 4.0 has is
//! in `minor0`, on the same tables.
//!
//! Pure as the rest of the crate: no I/O, no clock, no wire types. What a file's back end needs to keep an open file
//! is held as an opaque guard and dropped by the caller.
//!
//! # Which lock guards what
//!
//! - [`V4State::clients`](V4State): the records of clients; taken by EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION and
//!   DESTROY_CLIENTID only.
//! - A shard of the files: which opens there are of its files. Taken by OPEN, OPEN_DOWNGRADE, CLOSE, NLM's SHARE, and by
//!   access without an open while somebody denies something. Taken before the locks of the core ([`State`](crate::State)).
//! - A shard of the delegations: which there are of its files, and which of them are recalled. Taken after a shard of the
//!   files, never before one.
//! - A client's opens: which opens and delegations it has. Taken after a shard, never before one.
//! - An open's lock states: which there are. Taken after a shard, never before one, and one at a time.
//! - The names of which there may be two clients. Taken after the clients, or alone.
//! - `released`: what has ended and may have locks; `forgotten`: whose record is to be taken back. Taken last.
//! - A slot's reply: its bytes; taken when a reply is kept and when one is replayed.
//!
//! SEQUENCE and the check of a stateid take none of them: sessions and opens are found in one map that is protected by
//! epochs, and a slot is taken by one compare-exchange on a line of its own.

mod arriving;
mod back_channel;
mod client;
mod clients;
mod create_session;
mod delegation;
mod delegation_entry;
mod exchange_id;
mod file_opens;
mod files;
mod granted_attrs;
mod holder;
mod host_share;
mod key_hash;
mod limits;
mod lock_entry;
mod lock_state;
mod machine;
mod minor0;
mod name_conflicts;
mod open;
mod open_access;
mod open_entry;
mod recording;
mod requester;
mod revoked;
mod revoked_stateids;
mod rows;
mod server;
mod session;
mod share_conflicts;
mod slot;
mod slots;
mod stateid;
mod stateid_access;
mod view;

pub use crate::principal::Principal;
pub use arriving::{ArrivingRequest, Resumed};
pub use back_channel::{
    BACK_CONNS_MAX, BACK_SLOTS_MAX, BackAnswer, BackCall, BackChannel, BackStep,
};
pub use create_session::{CreateSession, CreateSessionError, DestroyError};
pub use delegation::{
    DelegationConflict, DelegationRow, NamedDelegation, NotDelegated, SweptDelegations,
};
pub use delegation_entry::{DelegationKind, DelegationRequest, PendingWrite, Recall};
pub use exchange_id::{ExchangeId, ExchangeIdError, Exchanged};
pub use granted_attrs::{DelegatedTimes, FileTime, GrantedAttrs};
pub use holder::{Holder, OwnWriteDelegation};
pub use limits::V4Limits;
pub use lock_entry::Released;
pub use lock_state::LockRef;
pub use machine::MachineCredential;
pub use minor0::{
    Begun, Callback, CallbackCredential, CallbackPath, CallbackUser, ClientIdError, ClientNames,
    KeptReply, LockBegun, LockOwnerName, Minor0Client, OwnerError, OwnerRow, OwnerTicket,
    ReleaseError, Request, SetClientId,
};
pub use name_conflicts::{NameConflict, NameConflictKind};
pub use open::{DowngradeError, OpenError, OpenRequest, Opened};
pub use open_access::OpenRef;
pub use recording::Expiry;
pub use requester::Requester;
pub use rows::{ClientRow, ClientState, OpenRow, SessionRow};
pub use server::{Random, Reading, V4State};
pub use session::{
    ChannelLimits, Created, SequenceError, Session, SessionId, SlotTicket, Started, status_flags,
};
pub use stateid::{Stateid, StateidError};
pub use stateid_access::StateidAccess;
