//! NLM (version 4 with NFS version 3; 1 and 3 with version 2) from the client's side: the parts that tests use.

use crate::client::{Client, Nothing, Reply};
use crate::error::{Error, Result};
use crate::message::{Identity, Target, put_call};
use proto::nlm::{
    Answer, CancelArgs, LockArgs, PROGRAM, Status, TestAnswer, TestArgs, TestResult, UnlockArgs,
    Versioned, Width, procedure as p,
};
use proto::rpc::CallHeader;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use xdr::{Encode, Reader, Writer};

pub use proto::nlm::Lock as NlmLock;

/// The conflicting lock, as TEST describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NlmHolder {
    /// A write lock.
    pub exclusive: bool,
    /// The process.
    pub svid: i32,
    /// The owner handle.
    pub oh: Vec<u8>,
    /// The first byte.
    pub offset: u64,
    /// How many bytes; 0: to the end of the file.
    pub len: u64,
}

/// Arguments in the form of a version.
struct Wire<'v, T> {
    value: &'v T,
    width: Width,
}

impl<'a, T: Versioned<'a>> Encode for Wire<'_, T> {
    fn encode(&self, w: &mut Writer) {
        self.value.encode(w, self.width);
    }
}

/// The form of a version; of one that is none, that of version 4.
fn width(version: u32) -> Width {
    Width::of_version(version).unwrap_or(Width::Bits64)
}

fn decoded<'a, T: Versioned<'a>>(
    reply: &'a Reply,
    operation: &'static str,
    version: u32,
) -> Result<T> {
    reply.decode_with(operation, |r: &mut Reader<'a>| T::decode(r, width(version)))
}

/// The version of clients that use the `_MSG` procedures.
const MESSAGE_VERSION: u32 = 3;
/// The cookie of all calls: a client that waits for each answer needs no more.
const COOKIE: &[u8] = b"1";

impl Client {
    fn nlm<'a>(
        &mut self,
        version: u32,
        procedure: u32,
        value: &impl Versioned<'a>,
    ) -> Result<Reply> {
        let target = Target { program: PROGRAM, version, procedure };
        self.call(target, &Wire { value, width: width(version) })
    }

    fn nlm_status<'a>(
        &mut self,
        version: u32,
        (procedure, operation): (u32, &'static str),
        args: &impl Versioned<'a>,
    ) -> Result<Status> {
        let reply = self.nlm(version, procedure, args)?;
        let answer: Answer<'_> = decoded(&reply, operation, version)?;
        if answer.cookie != COOKIE {
            let source = xdr::Error::NotMember { what: "the call's cookie", value: 0 };
            return Err(Error::Garbled { operation, source });
        }
        Ok(answer.status)
    }

    /// NULL: whether there is a lock manager.
    ///
    /// # Errors
    /// [`Error`].
    pub fn nlm_null(&mut self, version: u32) -> Result<()> {
        let target = Target { program: PROGRAM, version, procedure: p::NULL };
        self.call(target, &Nothing)?.decode::<Nothing>("NULL").map(|_| ())
    }

    /// LOCK; with `block` the answer may be BLOCKED.
    ///
    /// # Errors
    /// Any but a status, which is the result.
    pub fn nlm_lock(
        &mut self,
        version: u32,
        lock: NlmLock<'_>,
        exclusive: bool,
        block: bool,
    ) -> Result<Status> {
        let args = LockArgs { cookie: COOKIE, block, exclusive, lock, reclaim: false, state: 1 };
        self.nlm_status(version, (p::LOCK, "LOCK"), &args)
    }

    /// LOCK with `reclaim`: of a lock held before the server's restart.
    ///
    /// # Errors
    /// As [`Client::nlm_lock`].
    pub fn nlm_reclaim(
        &mut self,
        version: u32,
        lock: NlmLock<'_>,
        exclusive: bool,
    ) -> Result<Status> {
        let (block, reclaim) = (false, true);
        let args = LockArgs { cookie: COOKIE, block, exclusive, lock, reclaim, state: 1 };
        self.nlm_status(version, (p::LOCK, "LOCK"), &args)
    }

    /// UNLOCK.
    ///
    /// # Errors
    /// As [`Client::nlm_lock`].
    pub fn nlm_unlock(&mut self, version: u32, lock: NlmLock<'_>) -> Result<Status> {
        self.nlm_status(version, (p::UNLOCK, "UNLOCK"), &UnlockArgs { cookie: COOKIE, lock })
    }

    /// CANCEL of a LOCK with `block`.
    ///
    /// # Errors
    /// As [`Client::nlm_lock`].
    pub fn nlm_cancel(
        &mut self,
        version: u32,
        lock: NlmLock<'_>,
        exclusive: bool,
    ) -> Result<Status> {
        let args = CancelArgs { cookie: COOKIE, block: true, exclusive, lock };
        self.nlm_status(version, (p::CANCEL, "CANCEL"), &args)
    }

    /// TEST: the conflicting lock, if the status is DENIED.
    ///
    /// # Errors
    /// As [`Client::nlm_lock`].
    pub fn nlm_test(
        &mut self,
        version: u32,
        lock: NlmLock<'_>,
        exclusive: bool,
    ) -> Result<std::result::Result<Status, NlmHolder>> {
        let args = TestArgs { cookie: COOKIE, exclusive, lock };
        let reply = self.nlm(version, p::TEST, &args)?;
        let answer: TestAnswer<'_> = decoded(&reply, "TEST", version)?;
        Ok(match answer.result {
            TestResult::Other(status) => Ok(status),
            TestResult::Denied(holder) => Err(NlmHolder {
                exclusive: holder.exclusive,
                svid: holder.svid,
                oh: holder.oh.to_vec(),
                offset: holder.offset,
                len: holder.len,
            }),
        })
    }
}

/// A client of version 3 that asks by the `_MSG` procedures over UDP: the answer is a call, to the port that it asked
/// from and from the port that it asked.
pub struct NlmMessages {
    socket: UdpSocket,
    peer: String,
    xid: u32,
}

impl NlmMessages {
    /// `timeout` holds for each answer.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(server: SocketAddr, timeout: Duration) -> Result<Self> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let peer = server.to_string();
        let failed = |source| Error::Io { peer: peer.clone(), source };
        let socket = UdpSocket::bind((any, 0)).map_err(failed)?;
        socket.connect(server).map_err(failed)?;
        socket.set_read_timeout(Some(timeout)).map_err(failed)?;
        // a server's reply cache must not take this client for an earlier one on the same port
        let xid = RandomState::new().build_hasher().finish() as u32;
        Ok(Self { socket, peer, xid })
    }

    /// LOCK_MSG and LOCK_RES.
    ///
    /// # Errors
    /// Any but a status, which is the result.
    pub fn lock(&mut self, lock: NlmLock<'_>, exclusive: bool, block: bool) -> Result<Status> {
        let args = LockArgs { cookie: COOKIE, block, exclusive, lock, reclaim: false, state: 1 };
        self.exchange((p::LOCK_MSG, p::LOCK_RES), &args)
    }

    /// LOCK_MSG and LOCK_RES of what was held before the server's restart.
    ///
    /// # Errors
    /// As [`NlmMessages::lock`].
    pub fn reclaim(&mut self, lock: NlmLock<'_>, exclusive: bool) -> Result<Status> {
        let (block, reclaim) = (false, true);
        let args = LockArgs { cookie: COOKIE, block, exclusive, lock, reclaim, state: 1 };
        self.exchange((p::LOCK_MSG, p::LOCK_RES), &args)
    }

    /// CANCEL_MSG and CANCEL_RES.
    ///
    /// # Errors
    /// As [`NlmMessages::lock`].
    pub fn cancel(&mut self, lock: NlmLock<'_>, exclusive: bool) -> Result<Status> {
        let args = CancelArgs { cookie: COOKIE, block: true, exclusive, lock };
        self.exchange((p::CANCEL_MSG, p::CANCEL_RES), &args)
    }

    /// TEST_MSG and TEST_RES: whether the lock could be had.
    ///
    /// # Errors
    /// As [`NlmMessages::lock`].
    pub fn test(&mut self, lock: NlmLock<'_>, exclusive: bool) -> Result<Status> {
        let args = TestArgs { cookie: COOKIE, exclusive, lock };
        self.exchange((p::TEST_MSG, p::TEST_RES), &args)
    }

    /// UNLOCK_MSG and UNLOCK_RES.
    ///
    /// # Errors
    /// As [`NlmMessages::lock`].
    pub fn unlock(&mut self, lock: NlmLock<'_>) -> Result<Status> {
        let args = UnlockArgs { cookie: COOKIE, lock };
        self.exchange((p::UNLOCK_MSG, p::UNLOCK_RES), &args)
    }

    fn exchange<'a>(
        &mut self,
        (ask, answer): (u32, u32),
        args: &impl Versioned<'a>,
    ) -> Result<Status> {
        self.xid = self.xid.wrapping_add(1);
        let (xid, width) = (self.xid, Width::Bits32);
        let mut w = Writer::new();
        let target = Target { program: PROGRAM, version: MESSAGE_VERSION, procedure: ask };
        put_call(&mut w, xid, target, Some(&Identity::root()));
        args.encode(&mut w, width);
        let failed = |source| Error::Io { peer: self.peer.clone(), source };
        self.socket.send(w.bytes()).map_err(failed)?;
        let mut datagram = [0; 4096];
        loop {
            let len = self.socket.recv(&mut datagram).map_err(failed)?;
            let mut r = Reader::new(datagram.get(..len).unwrap_or_default());
            // the call's own reply, which is void, may come first
            let Ok(header) = r.get::<CallHeader<'_>>() else { continue };
            if (header.program, header.procedure) != (PROGRAM, answer) {
                continue;
            }
            let garbled = |source| Error::Garbled { operation: "an NLM answer", source };
            let result = Answer::decode(&mut r, width).map_err(garbled)?;
            return Ok(result.status);
        }
    }
}
