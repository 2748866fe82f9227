//! The state that only version 4.0 has (RFC 7530 §9): SETCLIENTID and its confirmation, and owners with seqids.
//!
//! Clients, opens, lock states and share reservations are those of the later versions; a client of version 4.0 has no
//! sessions, and a table of owners instead ([`owners`]). A request that opens, closes or locks is numbered by its owner:
//! its seqid is compared with that of the owner's last request. It runs, or it is a retransmission and gets the kept
//! reply, or it fails ([`owner`]).
//!
//! # Which lock guards what
//!
//! - The table of clients: names and callbacks of clients of this version as well.
//! - A client's owners: which there are. Taken after the table of clients, or alone.
//! - An owner's sequence: the seqid and reply of its last request. Never held while a request runs. Taken after the lock
//!   of the owners, and before none.
//! - An owner's states: which opens or lock states it has. Taken last.
//! - `ended`: the stateids and client IDs that have been lost. Taken last.

mod access;
mod callback;
mod confirm;
mod delegations;
mod ended;
mod locks;
mod opens;
mod owner;
mod owner_ticket;
mod owners;
mod set_client_id;
mod sweep;

pub use access::Minor0Client;
pub use callback::{Callback, CallbackCredential, CallbackPath, CallbackUser};
pub use locks::{LockBegun, LockOwnerName, ReleaseError};
pub use owner::{KeptReply, OwnerError, Request};
pub use owner_ticket::{Begun, OwnerTicket};
pub use owners::OwnerRow;
pub use set_client_id::{ClientIdError, ClientNames, SetClientId};

pub(super) use callback::Confirmation;
pub(super) use ended::Ended;
pub(super) use owner::Owner;
pub(super) use owners::Owners;
