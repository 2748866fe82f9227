//! A server's NFS program without a server: calls go straight to the rows.
#![allow(dead_code)]

pub mod compounds;
pub mod dispatched;
pub mod exports;
pub mod fixed;

use bowline_nfs::{Nfs, NfsSettings, nfs_program};
use export::Exports;
use proto::nfs3::{Bytes, DirOpArgs3};
use rpc::{
    AuthSys, Blocking, Call, CallHost, Certificate, Credential, Fault, Outcome, Peer, Principal,
    Program, Service, Transport, TransportSecurity,
};
use std::sync::Arc;
use xdr::{Decode, Encode, Reader, Writer};

pub struct Awake;

impl CallHost for Awake {}

impl Blocking for Awake {
    fn will_block(&self) {}
}

/// NFS over some exports, and who calls.
pub struct TestServer {
    pub program: Service<Nfs>,
    pub transport: Transport,
    pub uid: u32,
    /// Who has been proven to call, in place of the user of AUTH_SYS.
    pub principal: Option<Principal>,
    pub client: &'static str,
    /// What protects the calls in transit.
    pub security: TransportSecurity,
}

/// A reply's result, and what the statistics were told.
pub struct Reply {
    pub bytes: Vec<u8>,
    pub outcome: Outcome,
}

/// A client's certificate with this name, one of a series of renewed ones.
pub fn certificate(name: &str, series: u8) -> Certificate {
    Certificate {
        subject: format!("CN={name}"),
        common_name: None,
        issuer: "CN=test".to_owned(),
        serial: format!("{series:02x}"),
        names: vec![name.to_owned()],
        fingerprint: std::array::from_fn(|at| name.as_bytes().get(at).copied().unwrap_or(series)),
        not_after: i64::MAX,
    }
}

/// The result of a call, decoded to the last byte.
pub fn decoded<T: Decode<'static>>(bytes: Vec<u8>) -> T {
    let mut r = Reader::new(bytes.leak());
    let result = r.get().unwrap();
    r.end().unwrap();
    result
}

pub fn wire(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

pub fn at<'a>(dir: &'a [u8], name: &'a [u8]) -> DirOpArgs3<'a> {
    DirOpArgs3 { dir: Bytes(dir), name: Bytes(name) }
}

impl TestServer {
    /// These exports, called by root of this machine.
    pub fn new(exports: Exports) -> Self {
        Self::over(Arc::new(exports))
    }

    /// The same exports, with nothing remembered of earlier calls.
    pub fn restarted(&self) -> Self {
        Self::over(Arc::clone(&self.nfs().exports))
    }

    /// The same server.
    pub fn again(&self) -> Self {
        Self::of_nfs(Arc::clone(&self.program.state))
    }

    fn over(exports: Arc<Exports>) -> Self {
        Self::of_nfs(Arc::new(Nfs::new(exports, NfsSettings::default())))
    }

    fn of_nfs(nfs: Arc<Nfs>) -> Self {
        Self {
            program: nfs_program(nfs),
            transport: Transport::Tcp,
            uid: 0,
            principal: None,
            client: "127.0.0.1:700",
            security: TransportSecurity::PLAIN,
        }
    }

    pub fn nfs(&self) -> &Nfs {
        &self.program.state
    }

    /// The sealed root of an export, by its place.
    pub fn root_of(&self, place: usize) -> Vec<u8> {
        let exports = &self.nfs().exports;
        let table = exports.load();
        let export = &table.exports()[place];
        export.seal(&export.backend.root()).bytes().to_vec()
    }

    pub fn root(&self) -> Vec<u8> {
        self.root_of(0)
    }

    /// Runs a procedure of NFS into `reply`.
    pub fn run(
        &self,
        version: u32,
        procedure: u32,
        args: &[u8],
        reply: &mut Writer,
    ) -> Result<Outcome, Fault> {
        self.run_of(&self.program, (version, procedure), args, reply)
    }

    /// Runs a procedure of another program over the same exports.
    pub fn run_of(
        &self,
        program: &Service<Nfs>,
        (version, procedure): (u32, u32),
        args: &[u8],
        reply: &mut Writer,
    ) -> Result<Outcome, Fault> {
        let peer = Peer {
            addr: self.client.parse().unwrap(),
            local: "127.0.0.1:2049".parse().unwrap(),
            transport: self.transport,
            security: self.security,
        };
        let sys = AuthSys::new(b"test", self.uid, self.uid, &[]).unwrap();
        let credential = match &self.principal {
            Some(principal) => Credential::Principal(principal),
            None => Credential::Sys(sys),
        };
        let mut call = Call::new(1, &peer, credential, &Awake);
        let row = program.row(version, procedure).unwrap().id;
        program.run(row, &mut call, &mut Reader::new(args), reply)?;
        Ok(call.outcome)
    }

    /// A procedure of another program over the same exports: its result.
    pub fn of<T: Decode<'static>>(
        &self,
        program: &Service<Nfs>,
        row: (u32, u32),
        args: &impl Encode,
    ) -> T {
        let mut reply = Writer::new();
        self.run_of(program, row, &wire(args), &mut reply).unwrap();
        decoded(reply.bytes().to_vec())
    }

    pub fn try_call(&self, version: u32, procedure: u32, args: &[u8]) -> Result<Reply, Fault> {
        let mut reply = Writer::new();
        let outcome = self.run(version, procedure, args, &mut reply)?;
        Ok(Reply { bytes: reply.bytes().to_vec(), outcome })
    }

    /// A procedure of version 3.
    pub fn v3<T: Decode<'static>>(&self, procedure: u32, args: &impl Encode) -> T {
        decoded(self.try_call(3, procedure, &wire(args)).unwrap().bytes)
    }

    /// A procedure of version 2.
    pub fn v2<T: Decode<'static>>(&self, procedure: u32, args: &impl Encode) -> T {
        decoded(self.try_call(2, procedure, &wire(args)).unwrap().bytes)
    }
}
