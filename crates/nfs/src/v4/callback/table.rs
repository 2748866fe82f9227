//! The back channels of all sessions, which of them belong to a client, and which a connection is bound to.
//!
//! Invariants: `of_client` and `of_conn` refer to exactly the channels that exist; after each change the status flags of a
//! client's sessions are those of its channels.

use super::calls::{Delayed, Pending, Waiting};
use super::operation::CallbackFailure;
use super::{CallbackParams, Recipient};
use rpc::{CallCredential, ConnId};
use state::v4::{BackChannel, Session, SessionId, status_flags};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Callbacks that may wait for a slot of a session.
const WAITING_MAX: usize = 1024;
/// Callbacks of all sessions that may be delayed.
const DELAYED_MAX: usize = 65_536;

/// A connection, as the table keeps it.
type Connection = Arc<dyn rpc::BackChannel>;

/// A session's back channel.
pub(super) struct Channel {
    session: Arc<Session>,
    params: CallbackParams,
    pub back: BackChannel<Connection>,
    waiting: VecDeque<Waiting>,
}

impl Channel {
    fn takes_callbacks(&self) -> bool {
        self.back.is_up() && self.params.credential.is_some() && !self.session.is_ended()
    }
}

/// The outcome of [`Table::begin`].
pub(super) enum Begun {
    Send(Box<Pending>),
    Waits,
    Refused(Waiting, CallbackFailure),
}

/// All channels.
#[derive(Default)]
pub(super) struct Table {
    channels: HashMap<SessionId, Channel>,
    of_client: HashMap<u64, Vec<SessionId>>,
    of_conn: HashMap<ConnId, Vec<SessionId>>,
    delayed: Vec<(Instant, Delayed)>,
}

impl Table {
    pub fn add(&mut self, session: Arc<Session>, params: CallbackParams) {
        let (id, client) = (*session.id(), session.client_id());
        // an existing one was made by the same request, which was retransmitted
        let Entry::Vacant(free) = self.channels.entry(id) else { return };
        let back = BackChannel::new(params.slots);
        free.insert(Channel { session, params, back, waiting: VecDeque::new() });
        self.of_client.entry(client).or_default().push(id);
        self.publish(client);
    }

    pub fn set_params(&mut self, session: &SessionId, program: u32, credential: CallCredential) {
        if let Some(channel) = self.channels.get_mut(session) {
            channel.params.program = program;
            channel.params.credential = Some(credential);
        }
    }

    pub fn bound(&self) -> usize {
        self.of_conn.len()
    }

    pub fn get_mut(&mut self, session: &SessionId) -> Option<&mut Channel> {
        self.channels.get_mut(session)
    }

    pub fn client_of(&self, session: &SessionId) -> Option<u64> {
        Some(self.channels.get(session)?.session.client_id())
    }

    pub fn bind(&mut self, session: &SessionId, conn: ConnId, connection: &Connection) -> bool {
        let Some(channel) = self.channels.get_mut(session) else { return false };
        if channel.params.credential.is_none() || !channel.back.bind(conn.0, Arc::clone(connection))
        {
            return false;
        }
        let client = channel.session.client_id();
        let sessions = self.of_conn.entry(conn).or_default();
        if !sessions.contains(session) {
            sessions.push(*session);
        }
        self.publish(client);
        true
    }

    /// The program of a session's callbacks.
    pub fn program(&self, session: &SessionId) -> Option<u32> {
        Some(self.channels.get(session)?.params.program)
    }

    pub fn is_bound(&self, session: &SessionId, conn: ConnId) -> bool {
        self.channels.get(session).is_some_and(|channel| channel.back.is_bound(conn.0))
    }

    /// A connection is closed.
    pub fn unbind(&mut self, conn: ConnId) {
        for session in self.of_conn.remove(&conn).unwrap_or_default() {
            let Some(channel) = self.channels.get_mut(&session) else { continue };
            channel.back.unbind(conn.0);
            let client = channel.session.client_id();
            self.publish(client);
        }
    }

    /// A callback or a probe over a connection was answered, or was not answered.
    pub fn heard(&mut self, conn: ConnId, answered: bool) {
        for session in self.of_conn.get(&conn).cloned().unwrap_or_default() {
            let Some(channel) = self.channels.get_mut(&session) else { continue };
            match answered {
                true => channel.back.heard(conn.0),
                false => channel.back.unanswered(conn.0),
            }
            let client = channel.session.client_id();
            self.publish(client);
        }
    }

    /// Removes a session that has ended; returns the callbacks that waited for it.
    pub fn remove(&mut self, session: &SessionId) -> Vec<Waiting> {
        let Some(channel) = self.channels.remove(session) else { return Vec::new() };
        let client = channel.session.client_id();
        if let Some(sessions) = self.of_client.get_mut(&client) {
            sessions.retain(|id| id != session);
            if sessions.is_empty() {
                self.of_client.remove(&client);
            }
        }
        self.of_conn.retain(|_, sessions| {
            sessions.retain(|id| id != session);
            !sessions.is_empty()
        });
        self.publish(client);
        channel.waiting.into()
    }

    /// Removes the sessions that have ended without [`Table::remove`].
    pub fn remove_ended(&mut self) -> Vec<Waiting> {
        let ended = self.channels.iter().filter(|(_, channel)| channel.session.is_ended());
        let ended: Vec<SessionId> = ended.map(|(id, _)| *id).collect();
        ended.iter().flat_map(|id| self.remove(id)).collect()
    }

    /// Gives a callback a slot and a connection, or puts it in a session's queue.
    pub fn begin(&mut self, waiting: Waiting) -> Begun {
        let sessions = match waiting.to {
            Recipient::Session(session) => vec![session],
            Recipient::Client(client) => self.of_client.get(&client).cloned().unwrap_or_default(),
        };
        let mut busy = None;
        for session in sessions {
            let Some(channel) = self.channels.get_mut(&session) else { continue };
            if !channel.takes_callbacks() {
                continue;
            }
            match channel.back.begin() {
                Some(call) => {
                    let pending = Box::new(Pending::new(waiting, session, call));
                    return match self.route(pending) {
                        Ok(pending) => Begun::Send(pending),
                        Err(pending) => {
                            Begun::Refused(pending.into_waiting(), CallbackFailure::NoPath)
                        }
                    };
                }
                None => busy = busy.or(Some(session)),
            }
        }
        match busy.and_then(|session| self.channels.get_mut(&session)) {
            None => Begun::Refused(waiting, CallbackFailure::NoPath),
            Some(channel) if channel.waiting.len() >= WAITING_MAX => {
                Begun::Refused(waiting, CallbackFailure::NoRoom)
            }
            Some(channel) => {
                channel.waiting.push_back(waiting);
                Begun::Waits
            }
        }
    }

    /// Gives a callback the next connection; if there is none, frees its slot and returns it as an error.
    pub fn route(&mut self, mut pending: Box<Pending>) -> Result<Box<Pending>, Box<Pending>> {
        let Some(channel) = self.channels.get_mut(&pending.session) else { return Err(pending) };
        let Some((_, connection)) = channel.back.route(&mut pending.call) else {
            channel.back.give_up(&pending.call);
            return Err(pending);
        };
        pending.connection = Some(connection);
        self.address(pending)
    }

    /// Fills in the program, minor version and credential of the session; an error if it has ended or has no credential.
    pub fn address(&self, mut pending: Box<Pending>) -> Result<Box<Pending>, Box<Pending>> {
        let Some(channel) = self.channels.get(&pending.session) else { return Err(pending) };
        let Some(credential) = channel.params.credential.clone() else { return Err(pending) };
        pending.program = channel.params.program;
        pending.minor = channel.params.minor;
        pending.credential = credential;
        pending.highest = channel.back.highest_busy();
        Ok(pending)
    }

    /// The next callback that waits for a slot of a session.
    pub fn next_waiting(&mut self, session: &SessionId) -> Option<Waiting> {
        self.channels.get_mut(session)?.waiting.pop_front()
    }

    /// Puts a callback off until `at`; returns it if too many are delayed.
    pub fn delay(&mut self, at: Instant, delayed: Delayed) -> Option<Delayed> {
        if self.delayed.len() >= DELAYED_MAX {
            return Some(delayed);
        }
        self.delayed.push((at, delayed));
        None
    }

    /// Removes and returns the delayed callbacks that are due.
    pub fn take_due(&mut self, now: Instant) -> Vec<Delayed> {
        self.delayed.extract_if(.., |(at, _)| *at <= now).map(|(_, delayed)| delayed).collect()
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.iter().map(|(at, _)| *at).min()
    }

    /// Sets the callback flags that SEQUENCE returns to a client.
    pub fn publish(&self, client: u64) {
        let sessions = self.of_client.get(&client).map_or(&[][..], Vec::as_slice);
        let channels = || sessions.iter().filter_map(|id| self.channels.get(id));
        let (any, wanted) = (
            channels().any(Channel::takes_callbacks),
            channels().any(|channel| channel.back.was_wanted()),
        );
        for channel in channels() {
            let mut flags = 0;
            if wanted && !any {
                flags |= status_flags::CB_PATH_DOWN;
            }
            if channel.back.was_wanted() && !channel.back.is_up() {
                flags |= status_flags::CB_PATH_DOWN_SESSION;
            }
            if channel.back.is_faulty() {
                flags |= status_flags::BACKCHANNEL_FAULT;
            }
            let mask = status_flags::CB_PATH_DOWN
                | status_flags::CB_PATH_DOWN_SESSION
                | status_flags::BACKCHANNEL_FAULT;
            channel.session.set_status(mask, flags);
            channel.session.set_callbacks(any);
        }
    }
}
