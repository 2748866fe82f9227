//! The state that clients hold in the server: byte-range locks, share reservations, requests that wait, the grace
//! period after a restart, and the records by which clients are known again.
//!
//! Pure: no I/O, no clock, no wire types. Every call is told the time and returns what it comes to, a [`Plan`], and
//! what is to be done because of it, [`Effects`]. Built for NLM and, with another kind of owner, for NFSv4.
//!
//! # Plan, act, settle
//!
//! Nothing that may block happens under a lock, so that a decision which needs the kernel or the disk takes two calls:
//!
//! 1. [`State::lock`] answers [`Plan::Local`]: the range stands in the table as tentative and keeps others from it.
//! 2. The caller sets the pieces of the [`LocalOp`] with `fcntl`, or undoes those that it has set.
//! 3. [`State::settle`] makes the range a lock, or removes it.
//!
//! [`Plan::Record`] is the same with the disk: the caller stores the record, calls [`State::persisted`] and asks again;
//! nothing was granted yet, so that nothing is ever granted to a host that could not reclaim it. The caller runs the
//! effects when it holds no lock of its own; each is returned exactly once.
//!
//! # Who decides
//!
//! The table decides among the owners of NFS. The kernel is shown only the strongest mode that any of them holds on
//! each byte, and decides between them and local programs.
//!
//! # Sources
//!
//! NLM and NSM are described in X/Open's C702 (Protocols for Interworking: XNFS), chapters 10 and 11, which was not at
//! hand: what is said here of the protocols follows the published descriptions of their wire format and the behaviour
//! of existing clients. The semantics of ranges are those of `fcntl` in POSIX.1-2024.

mod acquire;
mod client_record;
mod crc32c;
mod deadlock;
mod file;
mod files;
mod grace;
mod grace_length;
mod hashed_file;
mod holder;
mod host_removal;
mod hosts;
mod image;
mod key;
mod limits;
mod plan;
mod principal;
mod range;
mod record;
mod recovery;
mod release;
mod server;
mod session_slots;
mod settle;
mod share;
mod share_requests;
mod sync;
mod table;
mod tree;
pub mod v4;
mod view;
mod waiter;
mod waits;

pub use client_record::{ClientName, RecordedClient};
pub use file::{How, LockRequest, TestAnswer};
pub use grace::{Admission, GraceClient, GraceHost, GraceOutcome, Phase};
pub use grace_length::{GraceSeconds, GraceSecondsError, LeaseSeconds, LeaseSecondsError};
pub use holder::{Holder, Who};
pub use host_removal::{HostRemoval, Reboot};
pub use hosts::Caller;
pub use image::{LocalOp, Piece};
pub use key::{FileKey, HostId, Now, Tag};
pub use limits::{DEADLOCK_EDGES_MAX, Limits, NAME_MAX};
pub use plan::{
    Conflict, Effect, Effects, Granted, Kept, KeptFile, LocalAnswer, LocalConflict, Plan, Ticket,
};
pub use range::{ByteRange, Mode, RangeTooBig};
pub use record::{HostName, MonitoredHost, RECORD_MAX, Record, Records, TornRecord, Transport};
pub use recovery::Recovery;
pub use release::Cancelled;
pub use server::{NotIdentified, State};
pub use session_slots::{SessionSlots, SessionSlotsError};
pub use share::{ShareBits, ShareMode, ShareOwner};
pub use share_requests::ShareRequest;
pub use view::{FileRow, HostRow, LockRow, ShareRow, Totals, WaiterRow};

#[cfg(test)]
mod table_tests;
