//! A dispatcher over one export: whole records in, whole records out, as a socket would have them.

use super::{Awake, exports};
use bowline_nfs::nlm::{Nlm, nlm_program};
use bowline_nfs::{Nfs, NfsSettings, nfs_program};
use proto::nfs3::{PROGRAM, VERSION};
use rpc::{
    AuthSys, CallId, DispatchSettings, Dispatcher, LargeArgument, Outbound, OutboundCall,
    PartialRecord, Peer, Piped, Program, Request, Transport, Verdict,
};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use vfs::{Backend, Durability};
use xdr::Writer;

pub struct Dispatched {
    /// What the dispatcher serves.
    pub nfs: Arc<Nfs>,
    dispatcher: Dispatcher,
    /// The sealed root.
    pub root: Vec<u8>,
    peer: Peer,
    /// Who calls.
    pub user: (u32, u32),
}

/// Nobody is called: nobody waits for a lock.
struct NoCalls;

impl Outbound for NoCalls {
    fn call(&self, _: OutboundCall) -> CallId {
        CallId(0)
    }

    fn cancel(&self, _: CallId) {}
}

impl Dispatched {
    /// One export, changed at once rather than on disk; no reply is kept.
    pub fn over(backend: Arc<dyn Backend>) -> Self {
        Self::over_with_kept_attributes(backend, 0)
    }

    /// The same with `attr-cache`.
    pub fn over_with_kept_attributes(backend: Arc<dyn Backend>, attr_cache_ms: u32) -> Self {
        let options =
            export::Options { durability: Durability::Async, attr_cache_ms, ..exports::RW };
        let settings = DispatchSettings { reply_cache_bytes: 0, ..DispatchSettings::default() };
        Self::with(backend, options, settings)
    }

    /// One export, changed on disk, and replies kept in so many bytes.
    pub fn keeping(reply_cache_bytes: usize, backend: Arc<dyn Backend>) -> Self {
        Self::keeping_attributes(reply_cache_bytes, backend, 0)
    }

    /// The same with `attr-cache`.
    pub fn keeping_attributes(
        reply_cache_bytes: usize,
        backend: Arc<dyn Backend>,
        attr_cache_ms: u32,
    ) -> Self {
        let settings = DispatchSettings { reply_cache_bytes, ..DispatchSettings::default() };
        Self::with(backend, export::Options { attr_cache_ms, ..exports::RW }, settings)
    }

    fn with(
        backend: Arc<dyn Backend>,
        options: export::Options,
        settings: DispatchSettings,
    ) -> Self {
        let exports = Arc::new(exports::of(&[("/e", backend, options)]));
        let root = {
            let table = exports.load();
            let export = &table.exports()[0];
            export.seal(&export.backend.root()).bytes().to_vec()
        };
        let nfs = Arc::new(Nfs::new(exports, NfsSettings::default()));
        nfs.settings.set_versions(&"2,3,4.1".parse().unwrap());
        let nlm = Arc::new(Nlm::new(Arc::clone(&nfs), Arc::new(NoCalls), b"server"));
        let programs: Vec<Box<dyn Program>> =
            vec![Box::new(nfs_program(Arc::clone(&nfs))), Box::new(nlm_program(nlm))];
        let dispatcher = Dispatcher::new(programs, settings);
        let peer = Peer {
            addr: "127.0.0.1:700".parse().unwrap(),
            local: "127.0.0.1:2049".parse().unwrap(),
            transport: Transport::Tcp,
            security: rpc::TransportSecurity::PLAIN,
        };
        Self { nfs, dispatcher, root, peer, user: (0, 0) }
    }

    /// A record of version 3.
    pub fn record(&self, procedure: u32, args: &[u8]) -> Vec<u8> {
        self.record_of(VERSION, procedure, args)
    }

    /// A record of any version.
    pub fn record_of(&self, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        self.record_to(PROGRAM, version, procedure, args)
    }

    /// A record to any program.
    pub fn record_to(&self, program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        let sys = AuthSys::new(b"test", self.user.0, self.user.1, &[]).unwrap();
        let credential = Some(sys);
        let mut w = Writer::new();
        w.put(&Request { xid: 7, program, version, procedure, credential });
        w.raw(args);
        w.bytes().to_vec()
    }

    /// Answers a record into `reply`.
    pub fn answer(&self, record: &[u8], reply: &mut Writer) -> Verdict {
        self.dispatcher.dispatch(record, &self.peer, 1, &Awake, reply).verdict
    }

    /// Has data of the first bytes of a record taken, as a connection does that has received
    /// `so_far` of it and lacks `missing`, and cuts it out. Whether any of it ever will be taken.
    pub fn take(&self, so_far: &mut Vec<u8>, missing: usize, large: &mut LargeArgument) -> bool {
        let partial = PartialRecord { so_far, piped: None, missing };
        let taken = self.dispatcher.take_data(partial, &self.peer, &Awake, large);
        so_far.drain(taken);
        !large.is_over()
    }

    /// The same where what has just arrived is in a pipe, behind a copy of the data that was kept, as of a connection
    /// of which some was taken.
    pub fn take_piped(
        &self,
        so_far: &mut Vec<u8>,
        new: &[u8],
        missing: usize,
        large: &mut LargeArgument,
    ) -> bool {
        let data = [&so_far.split_off(large.data_at()), new].concat();
        let (mut read, mut write) = std::io::pipe().unwrap();
        write.write_all(&data).unwrap();
        drop(write);
        let piped = Some(Piped { pipe: read.as_fd(), len: data.len() });
        let partial = PartialRecord { so_far, piped, missing };
        let taken = self.dispatcher.take_data(partial, &self.peer, &Awake, large).len();
        let mut left = Vec::new();
        read.read_to_end(&mut left).unwrap();
        let rest = left.split_off(left.len() + taken - data.len());
        assert!(rest == data[taken..], "what was not taken is there still");
        so_far.extend(rest);
        !large.is_over()
    }

    /// Answers what is left of a record of which data was taken.
    pub fn finish(&self, record: &[u8], large: LargeArgument) -> Vec<u8> {
        let mut reply = Writer::new();
        let (dispatcher, peer) = (&self.dispatcher, &self.peer);
        let done = match large.is_empty() {
            true => dispatcher.dispatch(record, peer, 1, &Awake, &mut reply),
            false => dispatcher.finish(record, large, peer, &Awake, &mut reply),
        };
        assert_eq!(done.verdict, Verdict::Reply);
        reply.bytes().to_vec()
    }

    /// The reply's bytes.
    pub fn call(&self, procedure: u32, args: &[u8]) -> Vec<u8> {
        let mut reply = Writer::new();
        assert_eq!(self.answer(&self.record(procedure, args), &mut reply), Verdict::Reply);
        assert_eq!(reply.total_len(), reply.bytes().len(), "a reply without file ranges");
        reply.bytes().to_vec()
    }
}
