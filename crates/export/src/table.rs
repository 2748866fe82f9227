//! The export table: built as a whole, immutable, replaced by [`Exports::replace`].
//!
//! No locks. A replaced table lives until the last call that began under it has ended.

use crate::export::{Export, ExportId, ExportSpec};
use crate::groups::{GroupService, UserGroups};
use crate::handle::{Envelope, Key};
use crate::identity::{Identity, IdentityError};
use crate::junctions::{CoveredDir, JunctionNames, JunctionSearch, Junctions};
use crate::owner_names::{OwnerNames, OwnerService};
use crate::pseudo::Pseudo;
use crate::resolver::Resolver;
use rpc::Certificates;
use siphasher::sip::SipHasher24;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use sys::snapshot::{Held, LongReads, Snapshot};
use vfs::{Backend, Fid, Status};

/// Most exports of one server; the statistics distinguish 256 of them.
pub const EXPORTS_MAX: usize = 4096;

/// Why a table cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError<E> {
    /// The state directory.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The files cannot be served.
    #[error("{path}: {source}")]
    Open {
        /// The path that clients would mount.
        path: String,
        /// The error of the backend.
        source: E,
    },
    /// Two exports of the same path.
    #[error("{path} is exported twice: give one of them another name")]
    SamePath {
        /// The path.
        path: String,
    },
    /// Two exports of the same identity.
    #[error("{path} and {other} have the same identity: give one of them another fsid=")]
    SameIdentity {
        /// The path of the later.
        path: String,
        /// The path of the earlier.
        other: String,
    },
    /// Over the limit.
    #[error("{count} exports are more than the {EXPORTS_MAX} that one server can have")]
    TooMany {
        /// Number of configured exports.
        count: usize,
    },
}

/// Opens the backend of an export.
pub type OpenBackend<'a, E> = &'a dyn Fn(&ExportSpec) -> Result<Arc<dyn Backend>, E>;

/// Why a configured export is not served at present.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitReason {
    /// Its file system has not answered in time.
    #[error("its file system does not answer")]
    NoAnswer,
    /// It could not be opened: the error and its remedy.
    #[error("{0}")]
    Failed(String),
}

/// The result of opening an export.
#[derive(Clone)]
pub enum Opened {
    /// It can be served.
    Backend(Arc<dyn Backend>),
    /// It cannot be served now.
    Waiting(WaitReason),
}

/// An export that is configured but not served at present. Calls with its filehandles are answered "try again later",
/// and its path belongs to no other export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingExport {
    /// Its configuration.
    pub spec: ExportSpec,
    /// Its persistent identity.
    pub uuid: [u8; 16],
    /// Why it is not served.
    pub reason: WaitReason,
}

/// Why there is no served export at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotServed {
    /// No export is configured there.
    NoExport,
    /// One is configured, but is not served at present.
    Waiting,
}

/// The exports at one time.
pub struct Table {
    exports: Vec<Arc<Export>>,
    /// The exports that are not served now.
    waiting: Vec<WaitingExport>,
    /// Number in handles to index in `exports`; sorted.
    by_id: Vec<(ExportId, usize)>,
    /// The statistics index of every UUID that this process has served.
    indices: BTreeMap<[u8; 16], u16>,
    pub(crate) resolver: Arc<Resolver>,
    key: Key,
    /// Created by the first call of version 4.
    pseudo: OnceLock<Pseudo>,
    /// Where exports are inside of others.
    junctions: Arc<Junctions>,
}

impl Default for Table {
    fn default() -> Self {
        Self::with_resolver(&Resolver::system())
    }
}

impl Table {
    pub(crate) fn with_resolver(resolver: &Arc<Resolver>) -> Self {
        Self {
            exports: Vec::new(),
            waiting: Vec::new(),
            by_id: Vec::new(),
            indices: BTreeMap::new(),
            resolver: Arc::clone(resolver),
            key: Key([0; 16]),
            pseudo: OnceLock::new(),
            junctions: Arc::default(),
        }
    }

    /// Builds a table of exports that `open` opens, without waiting ones. An export in `previous` with the
    /// same identity and source keeps its backend, and with the same rules also its cache of clients.
    /// `identity` provides the UUID of an export without `fsid`.
    ///
    /// # Errors
    /// All errors, not only the first.
    pub fn build<E>(
        specs: &[ExportSpec],
        identity: &Identity,
        open: OpenBackend<'_, E>,
        previous: Option<&Self>,
    ) -> Result<Self, Vec<BuildError<E>>> {
        let mut errors = Vec::new();
        let mut opened = Vec::new();
        for spec in specs {
            let known = match previous.map(|table| table.backend_of(spec, identity)).transpose() {
                Ok(known) => known.flatten(),
                Err(error) => {
                    errors.push(error.into());
                    continue;
                }
            };
            match known.map_or_else(|| open(spec), Ok) {
                Ok(backend) => opened.push((spec.clone(), Opened::Backend(backend))),
                Err(source) => {
                    let path = String::from_utf8_lossy(&spec.path).into_owned();
                    errors.push(BuildError::Open { path, source });
                }
            }
        }
        let (table, conflicts) = Self::assemble(opened, identity, previous);
        errors.splice(0..0, conflicts);
        if let Some(search) = table.junction_search() {
            search.run();
        }
        if errors.is_empty() { Ok(table) } else { Err(errors) }
    }

    /// The backend of an export with the same identity and source.
    ///
    /// # Errors
    /// [`IdentityError`]: a new UUID cannot be stored.
    pub fn backend_of(
        &self,
        spec: &ExportSpec,
        identity: &Identity,
    ) -> Result<Option<Arc<dyn Backend>>, IdentityError> {
        let uuid = spec.uuid(identity)?;
        Ok(self.served_as(&uuid, spec).map(|export| Arc::clone(&export.backend)))
    }

    fn served_as(&self, uuid: &[u8; 16], spec: &ExportSpec) -> Option<&Arc<Export>> {
        self.exports.iter().find(|old| old.uuid == *uuid && old.source == spec.source)
    }

    /// Makes a table of exports that have been opened or wait. An export with the same backend as in `previous`
    /// keeps its index in the statistics, and with the same rules also its cache of clients. One that conflicts
    /// with an earlier one is left out; the errors name it.
    pub fn assemble<E>(
        exports: Vec<(ExportSpec, Opened)>,
        identity: &Identity,
        previous: Option<&Self>,
    ) -> (Self, Vec<BuildError<E>>) {
        let empty;
        let previous = if let Some(previous) = previous {
            previous
        } else {
            empty = Self::default();
            &empty
        };
        let mut table = Self::with_resolver(&previous.resolver);
        table.indices.clone_from(&previous.indices);
        table.key = identity.key();
        if exports.len() > EXPORTS_MAX {
            return (table, vec![BuildError::TooMany { count: exports.len() }]);
        }
        let mut errors = Vec::new();
        for (spec, opened) in exports {
            if let Err(error) = table.add(spec, opened, identity, previous) {
                errors.push(error);
            }
        }
        table.by_id = table.exports.iter().enumerate().map(|(n, e)| (e.id, n)).collect();
        table.by_id.sort_unstable();
        (table, errors)
    }

    fn add<E>(
        &mut self,
        spec: ExportSpec,
        opened: Opened,
        identity: &Identity,
        previous: &Self,
    ) -> Result<(), BuildError<E>> {
        let path = || String::from_utf8_lossy(&spec.path).into_owned();
        let uuid = spec.uuid(identity)?;
        let id = ExportId::of(&uuid);
        if self.configured().any(|(known, _)| *known == *spec.path) {
            return Err(BuildError::SamePath { path: path() });
        }
        let same_id = |(_, other): &(&[u8], &[u8; 16])| ExportId::of(other) == id;
        if let Some((other, _)) = self.configured().find(same_id) {
            let other = String::from_utf8_lossy(other).into_owned();
            return Err(BuildError::SameIdentity { path: path(), other });
        }
        let backend = match opened {
            Opened::Backend(backend) => backend,
            Opened::Waiting(reason) => {
                self.waiting.push(WaitingExport { spec, uuid, reason });
                return Ok(());
            }
        };
        let same = |old: &&Arc<Export>| {
            std::ptr::addr_eq(Arc::as_ptr(&old.backend), Arc::as_ptr(&backend))
                && old.path == spec.path
                && old.rules() == spec.rules
                && old.fsid == spec.fsid
                && old.crossed == spec.crossed
                && old.locations == spec.locations
        };
        if let Some(old) = previous.served_as(&uuid, &spec).filter(same) {
            self.exports.push(Arc::clone(old));
            return Ok(());
        }
        let index = self.index_for(uuid, previous);
        let export = Export::new(&spec, (index, uuid), identity.key(), backend, &self.resolver);
        self.exports.push(Arc::new(export));
        Ok(())
    }

    /// Path and UUID of all exports, served or not.
    fn configured(&self) -> impl Iterator<Item = (&[u8], &[u8; 16])> {
        let served = self.exports.iter().map(|export| (&*export.path, &export.uuid));
        served.chain(self.waiting.iter().map(|export| (&*export.spec.path, &export.uuid)))
    }

    /// The index that this UUID had before, or an unused one. If all 65,536 have been used in the
    /// life of the process, one that is not in use now.
    fn index_for(&mut self, uuid: [u8; 16], previous: &Self) -> u16 {
        if let Some(index) = self.indices.get(&uuid) {
            return *index;
        }
        let index = u16::try_from(self.indices.len()).unwrap_or_else(|_| {
            let used = |i: &u16| {
                self.exports.iter().chain(&previous.exports).any(|export| export.index == *i)
            };
            let free = (0..=u16::MAX).find(|i| !used(i)).unwrap_or(u16::MAX);
            self.indices.retain(|_, i| *i != free);
            free
        });
        self.indices.insert(uuid, index);
        index
    }

    /// The search for junctions, to be run by the caller; `None` if no export lies inside another. Junctions take effect
    /// when it has finished.
    pub fn junction_search(&self) -> Option<JunctionSearch> {
        JunctionSearch::new(&self.exports, &self.junctions)
    }

    /// The export that a name of a directory of another export leads to.
    #[inline]
    pub fn junction(&self, parent: ExportId, dir: &Fid, name: &[u8]) -> Option<&Arc<Export>> {
        let junctions = self.junctions.found()?;
        self.exports.get(junctions.at(parent, dir, name)?)
    }

    /// The names in a directory of an export that lead to other exports.
    #[inline]
    pub fn junctions_in(&self, parent: ExportId, dir: &Fid) -> Option<&JunctionNames> {
        self.junctions.found()?.names(parent, dir)
    }

    /// The directory of an outer export that the root of an export covers.
    pub fn covered_dir(&self, export: &Export) -> Option<(&Arc<Export>, &CoveredDir)> {
        let covered = self.junctions.found()?.covered_dir(export.id)?;
        Some((self.exports.get(covered.parent)?, covered))
    }

    /// An export of this table, by its index.
    pub fn at(&self, index: usize) -> Option<&Arc<Export>> {
        self.exports.get(index)
    }

    /// The exports, in the order written.
    pub fn exports(&self) -> &[Arc<Export>] {
        &self.exports
    }

    /// The exports that are configured and not served now.
    pub fn waiting(&self) -> &[WaitingExport] {
        &self.waiting
    }

    /// The export that a path is in, the innermost if one is inside another, and the rest of the
    /// path below it. The path must be in normal form, as [`ExportSpec::path`] is.
    ///
    /// # Errors
    /// [`NotServed::Waiting`] if the innermost is not served now: paths below it are not its parent's.
    pub fn by_path<'t, 'p>(
        &'t self,
        path: &'p [u8],
    ) -> Result<(&'t Arc<Export>, &'p [u8]), NotServed> {
        let inside = |export: &'t Arc<Export>| Some((export, below(&export.path, path)?));
        let served =
            self.exports.iter().filter_map(inside).max_by_key(|(export, _)| export.path.len());
        let waits = |export: &&WaitingExport| below(&export.spec.path, path).is_some();
        let waiting = self.waiting.iter().filter(waits).map(|export| export.spec.path.len()).max();
        match served {
            Some((export, _)) if waiting > Some(export.path.len()) => Err(NotServed::Waiting),
            Some(found) => Ok(found),
            None if waiting.is_some() => Err(NotServed::Waiting),
            None => Err(NotServed::NoExport),
        }
    }

    /// The export of a number in handles.
    pub fn by_id(&self, id: ExportId) -> Option<&Arc<Export>> {
        let found = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, place) = self.by_id.get(found)?;
        self.exports.get(*place)
    }

    /// The pseudo file system of version 4.
    pub fn pseudo(&self) -> &Pseudo {
        self.pseudo.get_or_init(|| Pseudo::new(&self.exports, self.key, &self.resolver))
    }

    /// Sixteen bytes that are the same for all tables of a server, over restarts as well, and unique to it.
    pub fn server_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        for (place, part) in id.as_chunks_mut::<8>().0.iter_mut().zip([b"server 1", b"server 2"]) {
            let mut hasher = SipHasher24::new_with_key(&self.key.0);
            hasher.write(part);
            *place = hasher.finish().to_be_bytes();
        }
        id
    }

    /// The object that a wire handle names, which may be one of the pseudo file system.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_v4(&self, handle: &[u8]) -> Result<(&Arc<Export>, Fid), Status> {
        let envelope = Envelope::parse(handle)?;
        let pseudo = || Some(self.pseudo().export()).filter(|export| export.id.0 == envelope.id);
        let id = ExportId(envelope.id);
        let export = self.by_id(id).or_else(pseudo).ok_or_else(|| self.why_not(id))?;
        Ok((export, export.sealer.open(&envelope)?))
    }

    /// The object that a wire handle names.
    ///
    /// # Errors
    /// [`Status::BadHandle`] for a handle that this server did not seal; [`Status::Stale`] for an
    /// unknown or removed export; [`Status::Jukebox`] for one that is not served now.
    pub fn open(&self, handle: &[u8]) -> Result<(&Arc<Export>, Fid), Status> {
        let envelope = Envelope::parse(handle)?;
        let id = ExportId(envelope.id);
        let export = self.by_id(id).ok_or_else(|| self.why_not(id))?;
        let fid = export.sealer.open(&envelope)?;
        Ok((export, fid))
    }
}

impl Table {
    /// The reason why there is no served export with this number.
    #[cold]
    fn why_not(&self, id: ExportId) -> Status {
        match self.waiting.iter().any(|export| ExportId::of(&export.uuid) == id) {
            true => Status::Jukebox,
            false => Status::Stale,
        }
    }
}

/// The part of `path` below `export`, without the slash between them.
pub(crate) fn below<'p>(export: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    if export == b"/" {
        return path.strip_prefix(b"/");
    }
    let rest = path.strip_prefix(export)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
}

/// A table, kept for the length of a call.
pub type HeldTable<'e> = Held<'e, Table, LongReads>;

/// The current exports.
pub struct Exports {
    table: Snapshot<Table, LongReads>,
    users: UserGroups,
    owner_names: OwnerNames,
    refused: OnceLock<RefusalObserver>,
    certificates: Arc<Certificates>,
}

/// A call refused by an export.
#[derive(Debug)]
pub struct RefusedCall<'a> {
    /// The export.
    pub export: &'a Export,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The authenticated caller: a principal or a certificate; otherwise empty.
    pub identity: &'a str,
    /// Whether it was refused because of its security flavour or transport security.
    pub is_unproven: bool,
    /// The reason.
    pub why: &'static str,
}

/// Called for each call that an export refuses.
pub type RefusalObserver = Box<dyn Fn(&RefusedCall<'_>) + Send + Sync>;

impl Exports {
    /// Serves a table.
    pub fn new(table: Table) -> Self {
        Self {
            table: Snapshot::new(table),
            users: UserGroups::default(),
            owner_names: OwnerNames::default(),
            refused: OnceLock::new(),
            certificates: Arc::default(),
        }
    }

    /// The same with another source of the groups of users.
    #[must_use]
    pub fn with_group_service(self, service: Box<dyn GroupService>) -> Self {
        Self { users: UserGroups::new(service), ..self }
    }

    /// The same with another source of the names of owners.
    #[must_use]
    pub fn with_owner_service(self, service: Box<dyn OwnerService>) -> Self {
        Self { owner_names: OwnerNames::new(service), ..self }
    }

    /// Sets the observer of refusals; only the first one is used. It must not block.
    pub fn observe_refusals(&self, observer: RefusalObserver) {
        // setting a second observer is a bug of the caller that affects statistics only
        let _ = self.refused.set(observer);
    }

    /// Reports a refusal of a client by an export.
    #[cold]
    pub fn refused(&self, refused: &RefusedCall<'_>) {
        if let Some(observer) = self.refused.get() {
            observer(refused);
        }
    }

    /// The groups of users, for exports with `manage-gids`.
    pub const fn users(&self) -> &UserGroups {
        &self.users
    }

    /// The names of owners, for version 4.
    pub const fn owner_names(&self) -> &OwnerNames {
        &self.owner_names
    }

    /// The client certificates that calls refer to; filled by the transport.
    pub const fn certificates(&self) -> &Arc<Certificates> {
        &self.certificates
    }

    /// The current table; the guard keeps it for the length of a call.
    pub fn load(&self) -> HeldTable<'_> {
        self.table.load()
    }

    /// Replaces the table. Running calls finish with the table that they began with, which is freed
    /// when the last of them has ended and [`Exports::collect`] is called.
    pub fn replace(&self, table: Table) {
        self.table.replace(table);
    }

    /// Frees replaced tables that no call uses any more, and with them the backends that are no longer exported; returns how
    /// many tables are left. To be called every second.
    pub fn collect(&self) -> usize {
        self.table.collect()
    }
}

#[cfg(test)]
mod tests;
