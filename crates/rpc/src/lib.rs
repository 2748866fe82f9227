//! ONC RPC version 2 (RFC 5531) without I/O.
//!
//! Owns: record marking, call and reply headers, authentication flavours, the tables of programs
//! and the reply cache. Reads no clock and no socket: bytes, peers and times come in as arguments.

mod call;
mod program;

pub use call::{AuthSys, Call, Credential, Fault, MaySleep, Outcome, Peer, Transport};
pub use program::{Handler, OpIndex, OpName, Program, Row, RowFlags, RowInfo, Service, Version};
