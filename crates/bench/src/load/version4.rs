//! NFS version 4 as the simulated clients speak it: COMPOUNDs as the Linux client makes them, over a session of the
//! client's own and a slot for each call under way (4.1, 4.2), or with a client id and owners' seqids (4.0).
//!
//! `session_setup` gives a client its session, opens what its load needs, and gives all of it back; `compound` writes the calls
//! of a load, `result` reads their replies, and `state` is what both know of the client. Per call nothing is allocated.

mod admission;
pub(crate) mod compound;
pub(crate) mod result;
mod session_setup;
mod state;

pub(crate) use admission::{retry_while_delayed, unique_name};
pub(crate) use session_setup::{StateReturn, set_up};
pub(crate) use state::State4;
