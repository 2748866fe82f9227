//! One export: as it is configured ([`ExportSpec`]) and as it is served ([`Export`]).

use crate::buffer_options::{AtomicBufferSizes, BufferSizes};
use crate::client_rules::{ClientMatch, ClientRules, Rule};
use crate::fs_locations::FsLocations;
use crate::handle::{Handle, Key, Sealer};
use crate::identity::{Identity, IdentityError};
use crate::options::Options;
use crate::resolver::Resolver;
use rpc::{Certificates, TransportSecurity, XprtsecMode};
use siphasher::sip::SipHasher13;
use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Backend, Fid};

/// An export's number in handles: derived from its UUID, unique in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct ExportId(pub u32);

impl ExportId {
    /// The number of an export with this UUID; always the same.
    pub fn of(uuid: &[u8; 16]) -> Self {
        // The key only distributes `fsid=1`, `fsid=2` over the numbers; it is not a secret.
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        hasher.write(uuid);
        let hash = hasher.finish();
        Self((hash ^ (hash >> 32)) as u32)
    }
}

impl fmt::Display for ExportId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// An identity set by the operator (`fsid=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fsid {
    /// A number; the same on all servers.
    Number(u32),
    /// A whole UUID.
    Uuid([u8; 16]),
}

impl Fsid {
    /// As a UUID.
    pub fn uuid(self) -> [u8; 16] {
        match self {
            Self::Uuid(uuid) => uuid,
            Self::Number(number) => {
                let mut uuid = *b"bowline fsid\0\0\0\0";
                let place = uuid.last_chunk_mut::<4>();
                place.into_iter().for_each(|four| *four = number.to_be_bytes());
                uuid
            }
        }
    }
}

impl fmt::Display for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Uuid(uuid) => f.write_str(&uuid_text(uuid)),
        }
    }
}

/// A UUID as 32 hexadecimal digits.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|b| format!("{b:02x}")).collect()
}

/// The storage of an export.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// In a directory of this machine.
    Directory(PathBuf),
    /// In a back end of another kind, written `scheme:text`.
    Scheme {
        /// Which kind.
        scheme: String,
        /// Its argument.
        text: String,
    },
}

impl Source {
    /// A back end of another kind than a directory.
    pub fn scheme(scheme: &str, text: &str) -> Self {
        Self::Scheme { scheme: scheme.to_owned(), text: text.to_owned() }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Scheme { scheme, text } => write!(f, "{scheme}:{text}"),
        }
    }
}

/// The configuration of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportSpec {
    /// The path that clients mount: absolute, in normal form (no `//`, no `.` or `..`, no slash
    /// at the end but for the root).
    pub path: Vec<u8>,
    /// Where its files are.
    pub source: Source,
    /// The identity set by the operator; else one is stored in the state directory.
    pub fsid: Option<Fsid>,
    /// The client rules, in the order written.
    pub rules: Vec<Rule>,
    /// The path that must be a mount point, else the export is not served (`mountpoint`).
    pub mount_point: Option<PathBuf>,
    /// Where else the file system is (`refer`, `replicas`).
    pub locations: Option<Arc<FsLocations>>,
    /// A file system mounted below an export with `crossmnt`, not an entry of the operator's: only clients whose rule has
    /// that option may use it.
    /// the option may use it.
    pub crossed: bool,
}

/// An export with the option `mountpoint` whose path is not mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a mount point, which its option mountpoint requires: mount the file system first", .0.display())]
pub struct NotMounted(pub PathBuf);

impl ExportSpec {
    /// Checks the option `mountpoint`. Accesses the file system.
    ///
    /// # Errors
    /// [`NotMounted`], also for a path that does not exist or cannot be opened.
    pub fn check_mount_point(&self) -> Result<(), NotMounted> {
        let Some(path) = &self.mount_point else { return Ok(()) };
        let is_mounted = std::fs::File::open(path)
            .and_then(|dir| sys::stat::of_fd(dir.as_fd()))
            .is_ok_and(|stat| stat.mount_root);
        if is_mounted { Ok(()) } else { Err(NotMounted(path.clone())) }
    }

    /// The export of a file system that is mounted at `path` below this export's directory: the same rules, and an
    /// identity derived from this export's and from the mount point.
    /// identity that follows from the export's and from where it is mounted.
    pub fn crossing(&self, uuid: &[u8; 16], below: &Path, mounted: PathBuf) -> Self {
        let below = below.as_os_str().as_encoded_bytes();
        let mut path = self.path.clone();
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(below);
        let mut derived = [0; 16];
        for (place, number) in derived.as_chunks_mut::<8>().0.iter_mut().zip(0..) {
            let mut hasher = SipHasher13::new_with_keys(number, 7);
            hasher.write(uuid);
            hasher.write(below);
            *place = hasher.finish().to_be_bytes();
        }
        Self {
            path,
            source: Source::Directory(mounted.clone()),
            fsid: Some(Fsid::Uuid(derived)),
            rules: self.rules.clone(),
            mount_point: Some(mounted),
            locations: None,
            crossed: true,
        }
    }

    /// The options that hold for all clients, as exports(5) writes them, each after a comma: `,fsid=7,refer=/a@b`.
    pub fn shared_options(&self) -> String {
        shared_options(self.fsid, self.locations.as_deref())
    }

    /// The UUID that the export has or will have.
    ///
    /// # Errors
    /// [`IdentityError`]: a new one cannot be stored.
    pub fn uuid(&self, identity: &Identity) -> Result<[u8; 16], IdentityError> {
        self.fsid.map_or_else(|| identity.uuid(&self.path), |fsid| Ok(fsid.uuid()))
    }
}

/// The access of a client to an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAccess<'e> {
    /// It may use the export, by this rule.
    Allowed(&'e Rule),
    /// No rule matches.
    NoRule,
    /// Its rule requires a port below 1024 (`secure`).
    PortNotReserved,
    /// Its rule does not accept calls with this transport security (`xprtsec`).
    TransportSecurityTooWeak,
    /// The name services must be queried for the matching rule.
    Unresolved,
}

/// The client that wants to use an export.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'r> {
    /// The client's address, which may be IPv4 in IPv6.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// What protects its calls in transit.
    pub security: TransportSecurity,
    /// The certificates that this refers to.
    pub certificates: &'r Certificates,
}

/// An export that is served.
pub struct Export {
    /// Its index in the statistics; the same over reloads for the same UUID.
    pub index: u16,
    /// Its number in handles.
    pub id: ExportId,
    /// Its persistent identity.
    pub uuid: [u8; 16],
    /// The identity set by the operator.
    pub fsid: Option<Fsid>,
    /// The path that clients mount.
    pub path: Vec<u8>,
    /// Where its files are.
    pub source: Source,
    /// Its file system.
    pub backend: Arc<dyn Backend>,
    /// [`Backend::root_fsid`] of it.
    pub root_fsid: u64,
    /// A file system below an export with `crossmnt` ([`ExportSpec::crossed`]).
    pub crossed: bool,
    /// Where else the file system is.
    pub locations: Option<Arc<FsLocations>>,
    /// Whether it is absent here for clients of version 4: they are referred to its locations.
    pub is_referral: bool,
    /// The buffer sizes of its connections, where the rule does not set them.
    buffers: AtomicBufferSizes,
    pub(crate) sealer: Sealer,
    client_rules: Arc<ClientRules>,
    resolver: Arc<Resolver>,
}

impl Export {
    pub(crate) fn new(
        spec: &ExportSpec,
        (index, uuid): (u16, [u8; 16]),
        key: Key,
        backend: Arc<dyn Backend>,
        resolver: &Arc<Resolver>,
    ) -> Self {
        let id = ExportId::of(&uuid);
        let sealer = Sealer::new(key, id.0, &uuid, &backend.root());
        Self {
            index,
            id,
            uuid,
            fsid: spec.fsid,
            path: spec.path.clone(),
            source: spec.source.clone(),
            root_fsid: backend.root_fsid(),
            backend,
            crossed: spec.crossed,
            locations: spec.locations.clone(),
            is_referral: spec.locations.as_deref().is_some_and(FsLocations::is_referral),
            buffers: AtomicBufferSizes::default(),
            sealer,
            client_rules: Arc::new(ClientRules::new(spec.rules.clone())),
            resolver: Arc::clone(resolver),
        }
    }

    /// The wire handle of an object.
    pub fn seal(&self, fid: &Fid) -> Handle {
        self.sealer.seal(fid)
    }

    /// The same, made where it is wanted: see [`Sealer::seal_into`].
    #[inline]
    pub fn seal_into(&self, fid: &Fid, place: &mut [u8; Handle::MAX]) {
        self.sealer.seal_into(fid, place);
    }

    /// The access of a client. Never blocks.
    ///
    /// The address may be IPv4 in IPv6. The first matching rule in the order written applies, more
    /// specific kinds before less specific ones, as in exports(5).
    pub fn access_for(&self, who: &Requester<'_>) -> ClientAccess<'_> {
        match self.access_from_any_port(who) {
            ClientAccess::Allowed(rule) if port_is_refused(&rule.options, who) => {
                ClientAccess::PortNotReserved
            }
            access => access,
        }
    }

    /// The same, for any port.
    pub fn access_from_any_port(&self, who: &Requester<'_>) -> ClientAccess<'_> {
        let client = who.address.to_canonical();
        let found = match who.security.certificate() {
            None => self.client_rules.find(client),
            Some(id) => self.client_rules.find_certified(client, id, who.certificates),
        };
        match found {
            ClientMatch::Allowed(rule) if self.crossed && !rule.options.crossmnt => {
                ClientAccess::NoRule
            }
            ClientMatch::Allowed(rule) if !rule.options.xprtsec.accepts(who.security.mode()) => {
                ClientAccess::TransportSecurityTooWeak
            }
            ClientMatch::Allowed(rule) => ClientAccess::Allowed(rule),
            ClientMatch::Denied => ClientAccess::NoRule,
            ClientMatch::Unknown => ClientAccess::Unresolved,
        }
    }

    /// Whether a client may mount: as [`Export::access_for`] without `xprtsec`, which the following calls have to meet.
    /// Clients send MNT without TLS even if these calls use it (Linux does).
    pub fn access_to_mount(&self, who: &Requester<'_>) -> ClientAccess<'_> {
        match self.client_rules.find_for_mount(who.address.to_canonical()) {
            ClientMatch::Allowed(rule) if self.crossed && !rule.options.crossmnt => {
                ClientAccess::NoRule
            }
            ClientMatch::Allowed(rule) if port_is_refused(&rule.options, who) => {
                ClientAccess::PortNotReserved
            }
            ClientMatch::Allowed(rule) => ClientAccess::Allowed(rule),
            ClientMatch::Denied => ClientAccess::NoRule,
            ClientMatch::Unknown => ClientAccess::Unresolved,
        }
    }

    /// Waits until [`Export::access_for`] can answer for a client for which it returns
    /// [`ClientAccess::Unresolved`]: for as long as the name services take, at most ten seconds. The
    /// caller calls `will_block` first. False if the services gave no answer in that time.
    pub fn resolve_blocking(&self, client: IpAddr) -> bool {
        self.resolver.wait_for(&self.client_rules, client.to_canonical())
    }

    /// The buffer sizes of connections for a client with these options.
    pub fn buffers_for(&self, options: &Options) -> BufferSizes {
        options.buffers.or(self.buffers.get())
    }

    /// Changes the buffer sizes of connections where the client's rule does not set them; applies
    /// from the next call.
    pub fn set_buffers(&self, sizes: BufferSizes) {
        self.buffers.put(sizes);
    }

    /// The rules, in the order written.
    pub fn rules(&self) -> &[Rule] {
        self.client_rules.rules()
    }

    /// The clients as the operator wrote them.
    pub fn client_names(&self) -> Vec<String> {
        self.rules().iter().map(|rule| rule.client.to_string()).collect()
    }

    /// [`ExportSpec::shared_options`].
    pub fn shared_options(&self) -> String {
        shared_options(self.fsid, self.locations.as_deref())
    }

    /// The path for display.
    pub fn path_text(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

fn shared_options(fsid: Option<Fsid>, locations: Option<&FsLocations>) -> String {
    let fsid = fsid.map(|fsid| format!(",fsid={fsid}")).unwrap_or_default();
    let locations = locations.map(|locations| format!(",{locations}")).unwrap_or_default();
    fsid + &locations
}

/// Whether the client's port must be a privileged one and is not. A certificate replaces a privileged port.
fn port_is_refused(options: &Options, who: &Requester<'_>) -> bool {
    /// Only privileged processes can use ports below this one.
    const RESERVED_END: u16 = 1024;
    options.secure && who.port >= RESERVED_END && who.security.mode() != XprtsecMode::Mtls
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("index", &self.index)
            .field("id", &self.id)
            .field("path", &self.path_text())
            .finish_non_exhaustive()
    }
}
