//! What the server tells about connections and clients.
//!
//! The numbers are read with relaxed loads while they change, so that two of them need not be of the
//! same instant.

use crate::conn::clients::ClientTotals;
use crate::conn::connection::Conn;
use crate::conn::link::LinkInfo;
use crate::socket_info::SocketKind;
use rpc::Certificate;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A call that blocks in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BlockedCallInfo {
    /// The export's index in the export table.
    pub export: u16,
    /// For how long it has blocked, in milliseconds.
    pub age_ms: u64,
    /// Its program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Its procedure.
    pub procedure: u32,
}

/// TLS of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnTls {
    /// The cipher suite.
    pub suite: String,
    /// Whether the kernel encrypts and decrypts its records.
    pub in_kernel: bool,
    /// The certificate that the client has shown.
    pub certificate: Option<ConnCertificate>,
}

/// The certificate of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnCertificate {
    /// Its first name.
    pub name: String,
    /// The subject.
    pub subject: String,
    /// The issuer.
    pub issuer: String,
    /// The serial number.
    pub serial: String,
    /// The SHA-256, in hexadecimal digits.
    pub fingerprint: String,
}

impl ConnTls {
    fn of(conn: &Conn) -> Option<Self> {
        let seal = conn.stream.seal()?;
        let certificate = certificate(conn).map(|certificate| ConnCertificate {
            name: certificate.name().to_owned(),
            subject: certificate.subject.clone(),
            issuer: certificate.issuer.clone(),
            serial: certificate.serial.clone(),
            fingerprint: certificate.fingerprint_text(),
        });
        Some(Self { suite: seal.suite.clone(), in_kernel: seal.kernel().is_some(), certificate })
    }
}

/// The certificate that a connection's client has shown.
fn certificate(conn: &Conn) -> Option<Arc<Certificate>> {
    conn.stream.seal()?.certificate.as_ref()?.certificate()
}

/// The client of a connection and the first name in its certificate, if it has shown one.
pub(crate) fn certified_name(conn: &Conn) -> Option<(IpAddr, String)> {
    Some((conn.peer.addr.ip(), certificate(conn)?.name().to_owned()))
}

/// One open connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnInfo {
    /// Its number; rises with each connection.
    pub id: u64,
    /// The client's end.
    pub peer: SocketAddr,
    /// The server's end.
    pub local: SocketAddr,
    /// Its transport: `tcp`.
    pub transport: SocketKind,
    /// TLS, if its bytes are sealed.
    pub tls: Option<ConnTls>,
    /// Milliseconds since it was accepted.
    pub age_ms: u64,
    /// Milliseconds since it last sent something.
    pub idle_ms: u64,
    /// Calls that came.
    pub calls: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes of replies that the client has not taken.
    pub queued_bytes: usize,
    /// Bytes of memory for what has arrived and is not answered.
    pub partial_bytes: usize,
    /// Calls that run detached now.
    pub in_flight: u64,
    /// The oldest of its calls that block in a file system now, if that was asked for.
    pub oldest_blocked: Option<BlockedCallInfo>,
    /// Its pool.
    pub pool: usize,
    /// The state of its TCP, if that was asked for.
    pub link: Option<LinkInfo>,
}

impl ConnInfo {
    /// What is known without asking the kernel.
    pub(crate) fn new(conn: &Conn, now_ms: u64) -> Self {
        Self {
            id: conn.id,
            peer: conn.peer.addr,
            local: conn.peer.local,
            transport: SocketKind::Tcp,
            tls: ConnTls::of(conn),
            age_ms: now_ms.saturating_sub(conn.since_ms),
            idle_ms: now_ms.saturating_sub(conn.counters.last_ms.load(Relaxed)),
            calls: conn.counters.calls.load(Relaxed),
            bytes_in: conn.counters.bytes_in.load(Relaxed),
            bytes_out: conn.counters.bytes_out.load(Relaxed),
            queued_bytes: conn.counters.queued.load(Relaxed),
            partial_bytes: conn.counters.partial.load(Relaxed),
            in_flight: conn.counters.in_flight.load(Relaxed),
            oldest_blocked: None,
            pool: conn.pool.load(Relaxed),
            link: None,
        }
    }
}

/// What an open connection does, as far as it is known without a system call and without allocating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ConnActivity {
    /// Its number; rises with each connection.
    pub id: u64,
    /// The client's end.
    pub peer: SocketAddr,
    /// Milliseconds since it last sent something.
    pub idle_ms: u64,
    /// Calls that came.
    pub calls: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes of replies that the client has not taken.
    pub queued_bytes: usize,
    /// Calls that run detached now.
    pub in_flight: u64,
}

impl ConnActivity {
    pub(crate) fn new(conn: &Conn, now_ms: u64) -> Self {
        Self {
            id: conn.id,
            peer: conn.peer.addr,
            idle_ms: now_ms.saturating_sub(conn.counters.last_ms.load(Relaxed)),
            calls: conn.counters.calls.load(Relaxed),
            bytes_in: conn.counters.bytes_in.load(Relaxed),
            bytes_out: conn.counters.bytes_out.load(Relaxed),
            queued_bytes: conn.counters.queued.load(Relaxed),
            in_flight: conn.counters.in_flight.load(Relaxed),
        }
    }
}

/// One client: an address that is connected, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClientInfo {
    /// Its address.
    pub address: IpAddr,
    /// Its open connections.
    pub connections: u64,
    /// What it did on all its connections since the server started, or since it was forgotten.
    pub totals: ClientTotals,
}

impl ClientInfo {
    /// The clients of open connections, and those that are known from closed ones, by address.
    pub(crate) fn all(conns: &[Arc<Conn>], closed: Vec<(IpAddr, ClientTotals)>) -> Vec<Self> {
        let mut all: BTreeMap<IpAddr, Self> = BTreeMap::new();
        let mut add = |address, connections, totals| {
            let none = Self { address, connections: 0, totals: ClientTotals::default() };
            let client = all.entry(address).or_insert(none);
            client.connections = client.connections.saturating_add(connections);
            client.totals.add(totals);
        };
        conns.iter().for_each(|conn| add(conn.peer.addr.ip(), 1, conn.counters.totals()));
        closed.into_iter().for_each(|(address, totals)| add(address, 0, totals));
        all.into_values().collect()
    }
}
