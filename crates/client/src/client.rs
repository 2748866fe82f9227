//! Calls and their replies, matched by transaction id.
//!
//! Owns: the calls in flight, and replies that arrived while another was waited for. A datagram is
//! retransmitted until it is answered; over a connection TCP does that.
//!
//! Invariant: a reply is kept only for a call in flight, so that memory is bounded by what the user
//! has sent.

use crate::callbacks::{self, CallbackHandler};
use crate::error::{Error, Result};
use crate::message::{Identity, Target, put_call, reply_xid};
use crate::transport::Link;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use tls::ClientStream;
use xdr::{Decode, Encode, Reader, Writer};

/// The first wait before a datagram is retransmitted; it doubles each time.
const RETRANSMIT_FIRST: Duration = Duration::from_millis(500);
/// Times that a datagram is sent at least, even if the timeout is short.
const TRIES_AT_LEAST: u32 = 3;

/// A blocking client of one server over one socket.
pub struct Client {
    link: Link,
    identity: Option<Identity>,
    timeout: Duration,
    next_xid: u32,
    /// Calls in flight; with the whole message if it may have to be retransmitted.
    under_way: HashMap<u32, Vec<u8>>,
    /// Replies that arrived while another was waited for.
    early: HashMap<u32, Vec<u8>>,
    scratch: Writer,
    retransmissions: u64,
    /// What is done with calls of the server.
    on_callback: Option<CallbackHandler>,
}

/// The undecoded result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    record: Vec<u8>,
    header: usize,
}

impl Reply {
    fn open(record: Vec<u8>) -> Result<Self> {
        let garbled = |source| Error::Garbled { operation: "the call", source };
        let results = rpc::Reply::parse(&record).map_err(garbled)?.results?;
        let header = record.len().saturating_sub(results.remaining());
        Ok(Self { record, header })
    }

    /// The result, from the first byte after `accept_stat`.
    pub fn body(&self) -> &[u8] {
        self.record.get(self.header..).unwrap_or_default()
    }

    /// Decodes the result; nothing may follow it. `operation` is for the error's text.
    ///
    /// # Errors
    /// [`Error::Garbled`].
    pub fn decode<'a, T: Decode<'a>>(&'a self, operation: &'static str) -> Result<T> {
        self.decode_with(operation, Reader::get)
    }

    /// As [`Reply::decode`], by a function.
    ///
    /// # Errors
    /// [`Error::Garbled`].
    pub fn decode_with<'a, T>(
        &'a self,
        operation: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> std::result::Result<T, xdr::Error>,
    ) -> Result<T> {
        let mut r = Reader::new(self.body());
        let value = read(&mut r).and_then(|value| r.end().map(|()| value));
        value.map_err(|source| Error::Garbled { operation, source })
    }
}

/// No arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nothing;

impl Encode for Nothing {
    fn encode(&self, _: &mut Writer) {}
}

impl<'a> Decode<'a> for Nothing {
    fn decode(_: &mut Reader<'a>) -> std::result::Result<Self, xdr::Error> {
        Ok(Self)
    }
}

impl Client {
    fn new(link: Link, timeout: Duration) -> Self {
        // A server's reply cache must not mistake this client for an earlier one on the same port.
        let random = RandomState::new().build_hasher().finish().to_be_bytes();
        Self {
            link,
            identity: None,
            timeout,
            next_xid: random.first_chunk().copied().map_or(1, u32::from_be_bytes),
            under_way: HashMap::new(),
            early: HashMap::new(),
            scratch: Writer::new(),
            retransmissions: 0,
            on_callback: None,
        }
    }

    /// Connects. `timeout` applies to connecting and to each call.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TimedOut`], [`Error::Io`].
    pub fn tcp(addr: SocketAddr, timeout: Duration) -> Result<Self> {
        Ok(Self::new(Link::tcp(addr, timeout)?, timeout))
    }

    /// Takes over an existing connection, such as one from a reserved port.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn over_tcp(stream: TcpStream, timeout: Duration) -> Result<Self> {
        Ok(Self::new(Link::over_tcp(stream)?, timeout))
    }

    /// A client over TLS: see [`crate::starttls::connect`].
    pub fn over_tls(stream: ClientStream<TcpStream>, timeout: Duration) -> Self {
        Self::new(Link::over_tls(stream), timeout)
    }

    /// A client that sends datagrams. Nothing is sent yet, so that a dead server is detected only
    /// at the first call.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn udp(addr: SocketAddr, timeout: Duration) -> Result<Self> {
        Ok(Self::new(Link::udp(addr, false)?, timeout))
    }

    /// As [`Client::udp`], from a reserved port, which exports marked `secure` require.
    ///
    /// # Errors
    /// [`Error::Io`], also without the privilege.
    pub fn udp_reserved(addr: SocketAddr, timeout: Duration) -> Result<Self> {
        Ok(Self::new(Link::udp(addr, true)?, timeout))
    }

    /// Connects to a UNIX stream socket, such as that of rpcbind.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Io`].
    pub fn unix(path: &Path, timeout: Duration) -> Result<Self> {
        Ok(Self::new(Link::unix(path, timeout)?, timeout))
    }

    /// Sets the user of later calls; `None` is AUTH_NONE.
    pub fn set_identity(&mut self, identity: Option<Identity>) {
        self.identity = identity;
    }

    /// Sets the timeout of later calls.
    pub const fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Number of datagrams retransmitted so far.
    pub const fn retransmissions(&self) -> u64 {
        self.retransmissions
    }

    /// Number of calls sent and not yet answered.
    pub fn under_way(&self) -> usize {
        self.under_way.len().saturating_add(self.early.len())
    }

    /// Sends a call without waiting for its reply, and returns its transaction id.
    ///
    /// # Errors
    /// Errors of sending.
    pub fn send(&mut self, target: Target, args: &(impl Encode + ?Sized)) -> Result<u32> {
        let xid = self.next_xid;
        self.next_xid = xid.wrapping_add(1);
        self.scratch.clear();
        put_call(&mut self.scratch, xid, target, self.identity.as_ref());
        self.scratch.put(args);
        self.link.send(self.scratch.bytes(), self.timeout)?;
        let again =
            if self.link.is_datagram() { self.scratch.bytes().to_vec() } else { Vec::new() };
        self.under_way.insert(xid, again);
        Ok(xid)
    }

    /// Waits for the reply to one call.
    ///
    /// # Errors
    /// Any; after [`Error::TimedOut`] the call is abandoned.
    pub fn recv(&mut self, xid: u32) -> Result<Reply> {
        if let Some(record) = self.early.remove(&xid) {
            return Reply::open(record);
        }
        if !self.under_way.contains_key(&xid) {
            return Err(Error::NotUnderWay(xid));
        }
        let mut wait = Wait::new(self.timeout, self.link.is_datagram());
        loop {
            match self.next_answer(&mut wait, &[xid]) {
                Ok(Some((got, record))) if got == xid => return Reply::open(record),
                Ok(Some((got, record))) => {
                    self.early.insert(got, record);
                }
                Ok(None) => {
                    self.under_way.remove(&xid);
                    return Err(self.timed_out(&wait));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the next reply to any call, and returns its transaction id with it.
    ///
    /// # Errors
    /// Outer: of the connection. Inner: of the call. After [`Error::TimedOut`] every call in flight
    /// is abandoned.
    pub fn recv_any(&mut self) -> Result<(u32, Result<Reply>)> {
        let early = self.early.keys().next().copied();
        if let Some((xid, record)) = early.and_then(|xid| self.early.remove_entry(&xid)) {
            return Ok((xid, Reply::open(record)));
        }
        let all: Vec<u32> = match self.link.is_datagram() {
            true => self.under_way.keys().copied().collect(),
            false => Vec::new(),
        };
        let mut wait = Wait::new(self.timeout, self.link.is_datagram());
        if self.under_way.is_empty() {
            return Err(Error::NotUnderWay(0));
        }
        match self.next_answer(&mut wait, &all)? {
            Some((xid, record)) => Ok((xid, Reply::open(record))),
            None => {
                self.under_way.clear();
                Err(self.timed_out(&wait))
            }
        }
    }

    /// Sends a call and waits for its reply.
    ///
    /// # Errors
    /// Any.
    pub fn call(&mut self, target: Target, args: &(impl Encode + ?Sized)) -> Result<Reply> {
        let xid = self.send(target, args)?;
        self.recv(xid)
    }

    pub(crate) fn set_callback_handler(&mut self, handler: CallbackHandler) {
        self.on_callback = Some(handler);
    }

    /// Answers a record that is a call of the server, if there is a handler; whether it is one.
    fn take_call(&mut self, record: &[u8]) -> Result<bool> {
        let is_call = record.get(4..8).is_some_and(|kind| kind == [0; 4]);
        let Some(handler) = self.on_callback.as_mut().filter(|_| is_call) else { return Ok(false) };
        if let Some(reply) = callbacks::answer(handler, record) {
            self.link.send(&reply, self.timeout)?;
        }
        Ok(true)
    }

    /// Takes calls of the server until one has come or the time is over; replies that come meanwhile are kept.
    pub(crate) fn take_calls(&mut self, time: Duration) -> Result<bool> {
        let deadline = Instant::now() + time;
        while let Some(record) = self.link.receive(deadline)? {
            if self.take_call(&record)? {
                return Ok(true);
            }
            if let Ok(xid) = reply_xid(&record)
                && self.under_way.remove(&xid).is_some()
            {
                self.early.insert(xid, record);
            }
        }
        Ok(false)
    }

    /// The next reply to a call in flight, or `None` at the deadline. Retransmits `again` at the
    /// intervals of the wait.
    fn next_answer(&mut self, wait: &mut Wait, again: &[u32]) -> Result<Option<(u32, Vec<u8>)>> {
        loop {
            if let Some(record) = self.link.receive(wait.until())? {
                if self.take_call(&record)? {
                    continue;
                }
                match reply_xid(&record) {
                    Ok(xid) if self.under_way.remove(&xid).is_some() => {
                        return Ok(Some((xid, record)));
                    }
                    // An undecodable datagram may have any sender.
                    Err(what) if !self.link.is_datagram() => {
                        return Err(Error::NotRpc { peer: self.link.peer().to_owned(), what });
                    }
                    Ok(_) | Err(_) => wait.strays = wait.strays.saturating_add(1),
                }
            }
            if wait.is_over() {
                return Ok(None);
            }
            if wait.is_time_to_retransmit() {
                for message in again.iter().filter_map(|xid| self.under_way.get(xid)) {
                    self.link.send(message, wait.timeout)?;
                    self.retransmissions = self.retransmissions.saturating_add(1);
                }
            }
        }
    }

    fn timed_out(&self, wait: &Wait) -> Error {
        let peer = self.link.peer().to_owned();
        Error::TimedOut { peer, after: wait.timeout, strays: wait.strays }
    }
}

/// One wait: the deadline, and the time of the next retransmission.
struct Wait {
    timeout: Duration,
    deadline: Instant,
    interval: Duration,
    resend: Option<Instant>,
    strays: u32,
}

impl Wait {
    fn new(timeout: Duration, datagram: bool) -> Self {
        let now = Instant::now();
        let interval = RETRANSMIT_FIRST.min(timeout / TRIES_AT_LEAST);
        let deadline = now + timeout;
        Self { timeout, deadline, interval, resend: datagram.then(|| now + interval), strays: 0 }
    }

    fn until(&self) -> Instant {
        self.resend.map_or(self.deadline, |resend| resend.min(self.deadline))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// True once per interval; the next is twice as long.
    fn is_time_to_retransmit(&mut self) -> bool {
        let now = Instant::now();
        match self.resend {
            Some(resend) if now >= resend => {
                self.interval = self.interval.saturating_mul(2);
                self.resend = Some(now + self.interval);
                true
            }
            Some(_) | None => false,
        }
    }
}
