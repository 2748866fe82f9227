//! A server with two exports, and callers of it.

use super::tree::Tree;
use bowline_nfs::mount::{Mount, RefusalReason, RefusedMount, mount_program};
use bowline_nfs::{Nfs, NfsSettings, v2};
use export::{Client, ExportSpec, Exports, Identity, Options, Rule, Source, Table};
use proto::nfs2::Fh2;
use rpc::{AuthSys, Blocking, Call, Credential, Fault, Peer, Program, Transport};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use vfs::Backend;
use xdr::{Reader, Writer};

/// Who calls, and how.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    pub ip: &'a str,
    pub port: u16,
    pub transport: Transport,
    pub machine: Option<&'a str>,
}

impl Caller<'static> {
    /// One whom `/srv/x` is for.
    pub fn allowed() -> Self {
        Self { ip: "10.0.0.8", port: 700, transport: Transport::Tcp, machine: None }
    }

    /// One whom it is not for.
    pub fn denied() -> Self {
        Self { ip: "172.16.0.1", ..Self::allowed() }
    }
}

/// Counts how often a call said that it may sleep.
#[derive(Default)]
struct Sleeps(AtomicU32);

impl Blocking for Sleeps {
    fn will_block(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The server.
pub struct MountServer {
    pub mount: Arc<Mount>,
    exports: Arc<Exports>,
    aliases: Arc<Nfs>,
    tree: Arc<Tree>,
    sleeps: Sleeps,
}

impl MountServer {
    /// `/srv/x` for some and from reserved ports, `/open` for everybody, `/named` for a host by its name; all serve a tree with
    /// file ids of `fid_len` bytes.
    pub fn new(fid_len: usize) -> Self {
        let tree = Arc::new(Tree::new(fid_len));
        let exports = Arc::new(exports(&tree));
        Self {
            mount: Arc::new(Mount::new(exports.clone()).with_clock(|| 1_700_000_000)),
            aliases: Arc::new(Nfs::new(exports.clone(), NfsSettings::default())),
            exports,
            tree,
            sleeps: Sleeps::default(),
        }
    }

    /// With version 2's memory for handles that are too long for it.
    pub fn with_nfs(mut self) -> Self {
        self.mount = Arc::new(Mount::new(self.exports.clone()).with_nfs(self.aliases.clone()));
        self
    }

    /// With somebody who is told of refusals: the reason of the last.
    pub fn with_refusals(mut self) -> (Self, Arc<Mutex<Option<RefusalReason>>>) {
        let told = Arc::new(Mutex::new(None));
        let last = told.clone();
        let tell = Box::new(move |refusal: &RefusedMount<'_>| {
            *last.lock().unwrap() = Some(refusal.reason);
        });
        self.mount = Arc::new(Mount::new(self.exports.clone()).with_on_refused(tell));
        (self, told)
    }

    pub fn program(&self) -> impl Program {
        mount_program(self.mount.clone())
    }

    pub fn sleeps(&self) -> u32 {
        self.sleeps.0.load(Ordering::Relaxed)
    }

    pub fn ask(
        &self,
        caller: &Caller<'_>,
        version: u32,
        procedure: u32,
        args: &[u8],
    ) -> Result<Vec<u8>, Fault> {
        let sys = caller.machine.map(|m| AuthSys::new(m.as_bytes(), 0, 0, &[]).unwrap());
        let peer = Peer {
            addr: SocketAddr::new(caller.ip.parse().unwrap(), caller.port),
            local: "10.0.0.1:2049".parse().unwrap(),
            transport: caller.transport,
            security: rpc::TransportSecurity::PLAIN,
        };
        let credential = sys.map_or(Credential::Anonymous, Credential::Sys);
        let mut call = Call::new(1, &peer, credential, &self.sleeps);
        let mut reply = Writer::new();
        let (program, mut args) = (self.program(), Reader::new(args));
        let row = program.row(version, procedure).unwrap().id;
        program.run(row, &mut call, &mut args, &mut reply)?;
        Ok(reply.bytes().to_vec())
    }

    /// The name of the object that a handle means.
    pub fn name_of(&self, handle: &[u8]) -> &'static str {
        let table = self.exports.load();
        let (export, fid) = table.open(handle).unwrap();
        assert_eq!(export.path, b"/srv/x");
        self.tree.name(&fid)
    }

    /// The name of the object that a handle of version 2 means.
    pub fn name_of_old(&self, handle: &Fh2) -> &'static str {
        let aliases: &v2::handle::Aliases = &self.aliases.v2.aliases;
        let long = aliases.resolve(&self.exports, handle).unwrap();
        self.name_of(long.bytes())
    }
}

fn exports(tree: &Arc<Tree>) -> Exports {
    let spec = |path: &str, clients: &[&str], secure| ExportSpec {
        path: path.as_bytes().to_vec(),
        source: Source::scheme("mem", ""),
        rules: clients
            .iter()
            .map(|client| {
                let options = Options { secure, ..Options::default() };
                Rule::new(Client::parse(client).unwrap(), options)
            })
            .collect(),
        fsid: None,
        mount_point: None,
        locations: None,
        crossed: false,
    };
    let specs = vec![
        spec("/srv/x", &["10.0.0.0/8", "192.168.7.7"], true),
        spec("/open", &["*"], false),
        spec("/named", &["localhost"], false),
    ];
    let open = |_: &ExportSpec| Ok::<Arc<dyn Backend>, Infallible>(tree.clone());
    let identity = Identity::ephemeral().unwrap();
    let table = Table::build(&specs, &identity, &open, None).unwrap();
    Exports::new(table)
}
