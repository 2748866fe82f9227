//! What an operator sees of a client, a session and an open.

use super::minor0::CallbackPath;
use super::stateid::SessionId;
use crate::key::FileKey;
use crate::share::ShareMode;
use std::net::IpAddr;

/// What a client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// It has made no session yet.
    Unconfirmed,
    /// Its lease is good.
    Active,
    /// Its lease is over; what it has is kept until somebody else wants it.
    Courtesy,
}

/// A client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRow {
    /// Its id.
    pub id: u64,
    /// The address that it made itself known from.
    pub address: IpAddr,
    /// What it calls itself.
    pub owner: Box<[u8]>,
    /// What it is doing.
    pub state: ClientState,
    /// How long ago it last renewed its lease, in milliseconds.
    pub silent_ms: u64,
    /// How many sessions it has.
    pub sessions: usize,
    /// How many opens it has.
    pub opens: usize,
    /// How many delegations it has.
    pub delegations: usize,
    /// How many open owners and lock owners it has, if it is a client of version 4.0.
    pub owners: usize,
    /// Whether it is a client of version 4.0, which has no sessions.
    pub minor0: bool,
    /// Whether its callback address answers, if it is one.
    pub callback: Option<CallbackPath>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its name.
    pub id: SessionId,
    /// The client's id.
    pub client: u64,
    /// The number of its slots.
    pub slots: u32,
    /// The longest request, with its RPC header.
    pub request_bytes: u32,
    /// The longest reply.
    pub response_bytes: u32,
    /// Slots that were ever used.
    pub slots_used: u32,
    /// Slots whose request runs now.
    pub slots_running: u32,
    /// Whether callbacks reach the client.
    pub callbacks: bool,
}

/// An open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRow {
    /// The client's id.
    pub client: u64,
    /// Who opened the file, within the client.
    pub owner: Box<[u8]>,
    /// The file.
    pub file: FileKey,
    /// What is wanted and denied.
    pub mode: ShareMode,
}
