//! The ticket of a running request of an owner.

use super::super::client::Client;
use super::super::requester::Requester;
use super::owner::{Compared, KeptReply, Owner, OwnerError, Request};
use crate::key::Now;
use crate::principal::Principal;
use crate::sync::Arc;

/// How a request of an owner begins.
#[derive(Debug)]
pub enum Begun {
    /// It runs now.
    Run(OwnerTicket),
    /// It is a retransmission; this was its reply.
    Replay(KeptReply),
}

/// A request of an owner that runs. If the ticket is dropped before [`V4State::finish_request`](super::super::V4State::finish_request),
/// the owner's seqid stays as it was, as the errors of RFC 7530 §9.1.7 demand.
pub struct OwnerTicket {
    pub(in super::super) client: Arc<Client>,
    pub(super) owner: Arc<Owner>,
    request: Request,
    /// The open that it has closed.
    pub(super) closed: Option<[u8; 12]>,
    running: bool,
}

impl std::fmt::Debug for OwnerTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnerTicket").field("request", &self.request).finish_non_exhaustive()
    }
}

impl OwnerTicket {
    /// Begins a request of an owner of a client.
    pub(super) fn begin(
        client: &Arc<Client>,
        owner: &Arc<Owner>,
        now: Now,
        request: Request,
    ) -> Result<Begun, OwnerError> {
        Ok(match owner.begin(now, request)? {
            Compared::Again(reply) => Begun::Replay(reply),
            Compared::Next => Begun::Run(Self {
                client: Arc::clone(client),
                owner: Arc::clone(owner),
                request,
                closed: None,
                running: true,
            }),
        })
    }

    /// The client's id.
    pub fn client_id(&self) -> u64 {
        self.client.id
    }

    /// The client, which asks for state in this request of an owner.
    pub const fn requester(&self) -> Requester<'_> {
        Requester::new(&self.client)
    }

    /// The request's sender.
    pub(super) const fn user(&self) -> Principal {
        self.request.user
    }

    /// The owner's name within its client.
    pub fn owner_name(&self) -> &[u8] {
        &self.owner.name
    }

    /// Whether the owner has confirmed its first OPEN.
    pub fn is_confirmed(&self) -> bool {
        self.owner.is_confirmed()
    }

    /// Confirms the owner: an OPEN that is a reclaim needs no confirmation (RFC 7530 §9.1.11).
    pub fn confirm(&self) {
        self.owner.confirm();
    }

    /// Ends the request: its seqid is the owner's last one from now on, with this reply. Returns the open that the request
    /// before it had closed.
    pub(super) fn advance(mut self, reply: KeptReply) -> Option<[u8; 12]> {
        self.running = false;
        self.owner.end((self.request, reply), self.closed)
    }
}

impl Drop for OwnerTicket {
    fn drop(&mut self) {
        if self.running {
            self.owner.give_up();
        }
    }
}
