//! A client as a server of any minor version knows it: with a session since version 4.1, by SETCLIENTID before.
//!
//! Version 4.0's callbacks go nowhere: the address that the server is told is 0.0.0.0.

use super::{CALLBACK_PROGRAM, Operations, Session, garbled, results, results_inside, succeeded};
use crate::client::{Client, Reply};
use crate::error::Result;
use proto::layout::Bytes;
use proto::nfs4::{ClientAddr4, SetclientidArgs, SetclientidConfirmArgs, TAG_MAX, Verifier4, op};
use xdr::Reader;

/// What the server knows of a client.
#[derive(Debug, Clone)]
pub struct ClientRecord {
    /// The client's id, which owners have.
    pub client_id: u64,
    /// The minor version that it speaks.
    pub minor: u32,
    /// Its session; none in version 4.0.
    pub session: Option<Session>,
}

impl ClientRecord {
    /// Makes a client of a minor version known by a name that no other has, and ends its reclaiming; with so many slots
    /// at the most where there are sessions.
    ///
    /// # Errors
    /// Any.
    pub fn establish(client: &mut Client, minor: u32, name: &[u8], slots: u32) -> Result<Self> {
        if minor == 0 {
            let client_id = set_client_id(client, name)?;
            return Ok(Self { client_id, minor, session: None });
        }
        let session = client.open_session_of_minor(minor, name, slots)?;
        Ok(Self { client_id: session.client_id, minor, session: Some(session) })
    }

    /// Sends a compound, on the first slot if there is a session, and waits for its answer.
    ///
    /// # Errors
    /// Any; an operation's failure is in the answer.
    pub fn compound(&mut self, client: &mut Client, operations: &Operations) -> Result<Reply> {
        let Some(session) = &mut self.session else {
            return client.compound_alone(self.minor, operations);
        };
        let reply = client.compound(session, operations)?;
        if !has_run(&reply).map_err(garbled)? {
            session.take_back_request(0);
        }
        Ok(reply)
    }

    /// The results of the operations that [`ClientRecord::compound`] was given, if all succeeded.
    ///
    /// # Errors
    /// As [`results`].
    pub fn results<'r>(&self, reply: &'r Reply) -> Result<Reader<'r>> {
        if self.session.is_some() { results_inside(reply) } else { results(reply) }
    }

    /// Has the server forget the client, which has nothing open. Version 4.0 has no call for that: there it is forgotten
    /// at the end of its lease.
    ///
    /// # Errors
    /// Any.
    pub fn destroy(self, client: &mut Client) -> Result<()> {
        self.session.map_or(Ok(()), |session| client.destroy_client(&session))
    }
}

/// Whether the SEQUENCE of a compound succeeded.
fn has_run(reply: &Reply) -> std::result::Result<bool, xdr::Error> {
    let mut r = Reader::new(reply.body());
    let status = r.u32()?;
    r.opaque(TAG_MAX)?;
    Ok(status == 0 || r.u32()? > 1)
}

/// SETCLIENTID and SETCLIENTID_CONFIRM (RFC 7530 §16.33, §16.34).
fn set_client_id(client: &mut Client, name: &[u8]) -> Result<u64> {
    let args = SetclientidArgs {
        verifier: [1; 8],
        id: Bytes(name),
        cb_program: CALLBACK_PROGRAM,
        cb_location: ClientAddr4 { netid: Bytes(b"tcp"), addr: Bytes(b"0.0.0.0.0.0") },
        callback_ident: 1,
    };
    let reply = client.compound_alone(0, &Operations::new().with(op::SETCLIENTID, &args))?;
    let mut r = results(&reply)?;
    succeeded(&mut r, op::SETCLIENTID)?;
    let clientid = r.u64().map_err(garbled)?;
    let confirm: Verifier4 = r.array().map_err(garbled)?;
    let args = SetclientidConfirmArgs { clientid, confirm };
    results(&client.compound_alone(0, &Operations::new().with(op::SETCLIENTID_CONFIRM, &args))?)?;
    Ok(clientid)
}
