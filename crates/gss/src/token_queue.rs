//! The queue of tokens that wait for a thread.
//!
//! It has [`QUEUE_MAX`] places, of which one client can take [`QUEUE_OF_CLIENT_MAX`], so that a client that sends very many
//! tokens does not take the places of others. A client is what [`client_network`] says. The lock guards the list and
//! the numbers, for a list operation; nobody does anything else under it.

use crate::establish::Token;
use rpc::client_network;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The most tokens in the queue.
pub const QUEUE_MAX: usize = 1024;
/// The most tokens of one client in the queue.
pub const QUEUE_OF_CLIENT_MAX: usize = 256;

#[derive(Default)]
pub struct TokenQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    tokens: VecDeque<Token>,
    of_client: HashMap<IpAddr, usize>,
    is_closed: bool,
}

impl TokenQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a token, unless the queue is closed or the client or all clients have too many there; returns whether it was
    /// added. A token that is not is never answered.
    pub fn add(&self, token: Token) -> bool {
        let mut waiting = self.lock();
        let client = client_network(token.answer.client().ip());
        let own = waiting.of_client.get(&client).copied().unwrap_or(0);
        let is_full = waiting.tokens.len() >= QUEUE_MAX || own >= QUEUE_OF_CLIENT_MAX;
        if waiting.is_closed || is_full {
            return false;
        }
        waiting.of_client.insert(client, own.saturating_add(1));
        waiting.tokens.push_back(token);
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// The next token, waiting for one; `None` once the queue is closed.
    pub fn next(&self) -> Option<Token> {
        let waiting = self.lock();
        let is_idle = |waiting: &mut Waiting| waiting.tokens.is_empty() && !waiting.is_closed;
        let mut waiting =
            self.changed.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner);
        if waiting.is_closed {
            return None;
        }
        let token = waiting.tokens.pop_front()?;
        let client = client_network(token.answer.client().ip());
        if let Some(own) = waiting.of_client.get_mut(&client) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                waiting.of_client.remove(&client);
            }
        }
        Some(token)
    }

    /// Drops what waits, and ends those who wait for more.
    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        let dropped = std::mem::take(&mut waiting.tokens);
        waiting.of_client.clear();
        drop(waiting);
        self.changed.notify_all();
        drop(dropped);
    }
}
