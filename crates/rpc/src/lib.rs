//! ONC RPC version 2 (RFC 5531) without I/O.
//!
//! Owns: record marking, call and reply headers, authentication flavours, the tables of programs
//! and the reply cache. Reads no clock and no socket: bytes, peers and times come in as arguments.

pub mod auth;
mod back_channel;
mod call;
mod client_network;
mod credential;
mod deferred;
mod dispatch;
pub mod large_argument;
mod line;
mod outbound;
mod outcome;
mod peer;
mod plan;
mod program;
pub mod record;
mod reply;
mod reply_cache;
mod request;
mod socket_buffers;
mod transport_security;

pub use back_channel::{BackChannel, ConnId, Replies};
pub use call::{Blocking, Call, CallConnection, CallHost, Fault, IgnoreBlocking, OperationCounter};
pub use client_network::client_network;
pub use credential::{AuthSys, Credential, Principal, PrincipalUser};
pub use deferred::Deferred;
pub use dispatch::{DispatchSettings, Dispatcher, UnservedObserver};
pub use large_argument::{
    ArgumentSink, BeginHandler, Begun, Consumed, LargeArgument, PartialRecord, Piece, Piped,
};
pub use line::{Line, Posted};
pub use outbound::{
    CallCredential, CallFailure, CallId, CallTarget, CallUser, CallerAddress, Completion, Outbound,
    OutboundCall, ProgramPort,
};
pub use outcome::{Copied, Done, Duplicate, Outcome, Reject, Verdict};
pub use peer::{Peer, Transport};
pub use plan::{KeepReply, OpIndex, OpName, Plan};
pub use program::{
    Handler, Planner, Program, Row, RowId, RowInfo, ServedVersions, Service, Version, VersionFilter,
};
pub use reply::{Refusal, Reply};
pub use reply_cache::ReplyCacheUsage;
pub use request::Request;
pub use socket_buffers::{SocketBufferSize, SocketBufferSizes};
pub use transport_security::{
    Certificate, CertificateId, Certificates, HeldCertificate, TransportSecurity, XprtsecMode,
};
