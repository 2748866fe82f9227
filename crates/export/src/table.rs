//! The export table: built as a whole, immutable, replaced by [`Exports::replace`].
//!
//! No locks. A replaced table lives until the last call that began under it has ended.

use crate::export::{Export, ExportId, ExportSpec, NotMounted};
use crate::groups::{GroupService, UserGroups};
use crate::handle::{Envelope, Key};
use crate::identity::{Identity, IdentityError};
use crate::pseudo::Pseudo;
use crate::resolver::Resolver;
use siphasher::sip::SipHasher24;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use sys::snapshot::{Held, LongReads, Snapshot};
use vfs::{Backend, Fid, Status};

/// Most exports of one server; the statistics tell 256 of them apart.
pub const EXPORTS_MAX: usize = 4096;

/// Why a table cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError<E> {
    /// The state directory.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Nothing is mounted where the option `mountpoint` demands it.
    #[error("{path}: {source}")]
    NotMounted {
        /// The path that clients would mount.
        path: String,
        /// What has to be mounted.
        source: NotMounted,
    },
    /// The files cannot be served.
    #[error("{path}: {source}")]
    Open {
        /// The path that clients would mount.
        path: String,
        /// What the backend said.
        source: E,
    },
    /// Two exports of one name.
    #[error("{path} is exported twice: give one of them another name")]
    SamePath {
        /// The path.
        path: String,
    },
    /// Two exports of one identity.
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
        /// How many were asked for.
        count: usize,
    },
}

/// Opens the backend of an export.
pub type OpenBackend<'a, E> = &'a dyn Fn(&ExportSpec) -> Result<Arc<dyn Backend>, E>;

/// The exports at one time.
pub struct Table {
    exports: Vec<Arc<Export>>,
    /// Number in handles to place in `exports`; sorted.
    by_id: Vec<(ExportId, usize)>,
    /// The statistics index of every UUID that this process has served.
    indices: BTreeMap<[u8; 16], u16>,
    pub(crate) resolver: Arc<Resolver>,
    key: Key,
    /// Made when the first call of version 4 comes.
    pseudo: OnceLock<Pseudo>,
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
            by_id: Vec::new(),
            indices: BTreeMap::new(),
            resolver: Arc::clone(resolver),
            key: Key([0; 16]),
            pseudo: OnceLock::new(),
        }
    }

    /// Builds a table. What is in `previous` with the same identity and source, and still there, keeps
    /// its backend, and with the same rules also what is known about its clients. `identity` gives an export
    /// without `fsid` its UUID.
    ///
    /// # Errors
    /// All errors, not only the first.
    pub fn build<E>(
        specs: &[ExportSpec],
        identity: &Identity,
        open: OpenBackend<'_, E>,
        previous: Option<&Self>,
    ) -> Result<Self, Vec<BuildError<E>>> {
        let empty;
        let previous = if let Some(previous) = previous {
            previous
        } else {
            empty = Self::default();
            &empty
        };
        if specs.len() > EXPORTS_MAX {
            return Err(vec![BuildError::TooMany { count: specs.len() }]);
        }
        let mut table = Self::with_resolver(&previous.resolver);
        table.indices.clone_from(&previous.indices);
        table.key = identity.key();
        let mut errors = Vec::new();
        for spec in specs {
            match table.build_export(spec, identity, open, previous) {
                Ok(export) => table.exports.push(export),
                Err(error) => errors.push(error),
            }
        }
        table.by_id = table.exports.iter().enumerate().map(|(n, e)| (e.id, n)).collect();
        table.by_id.sort_unstable();
        if errors.is_empty() { Ok(table) } else { Err(errors) }
    }

    fn build_export<E>(
        &mut self,
        spec: &ExportSpec,
        identity: &Identity,
        open: OpenBackend<'_, E>,
        previous: &Self,
    ) -> Result<Arc<Export>, BuildError<E>> {
        let path = || String::from_utf8_lossy(&spec.path).into_owned();
        if self.exports.iter().any(|export| export.path == spec.path) {
            return Err(BuildError::SamePath { path: path() });
        }
        spec.check_mount_point()
            .map_err(|source| BuildError::NotMounted { path: path(), source })?;
        let uuid = spec.uuid(identity)?;
        let id = ExportId::of(&uuid);
        if let Some(other) = self.exports.iter().find(|export| export.id == id) {
            return Err(BuildError::SameIdentity { path: path(), other: other.path_text() });
        }
        let same = |old: &&Arc<Export>| old.uuid == uuid && old.source == spec.source;
        let old = previous.exports.iter().find(same).filter(|old| old.backend.is_still_there());
        if let Some(old) = old
            && old.path == spec.path
            && old.rules() == spec.rules
        {
            return Ok(Arc::clone(old));
        }
        let backend = match old {
            Some(old) => Arc::clone(&old.backend),
            None => open(spec).map_err(|source| BuildError::Open { path: path(), source })?,
        };
        let index = self.index_for(uuid, previous);
        Ok(Arc::new(Export::new(spec, (index, uuid), identity.key(), backend, &self.resolver)))
    }

    /// The index that this UUID had before, or one that none had. If in the life of a process all
    /// 65,536 were given out, one that is not in use.
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

    /// The exports, in the order written.
    pub fn exports(&self) -> &[Arc<Export>] {
        &self.exports
    }

    /// The export that a path is in, the innermost if one is inside another, and the rest of the
    /// path below it. The path must be in normal form, as [`ExportSpec::path`] is.
    pub fn by_path<'t, 'p>(&'t self, path: &'p [u8]) -> Option<(&'t Arc<Export>, &'p [u8])> {
        let inside = |export: &'t Arc<Export>| Some((export, below(&export.path, path)?));
        self.exports.iter().filter_map(inside).max_by_key(|(export, _)| export.path.len())
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

    /// Sixteen bytes that are the same for all tables of a server, over restarts as well, and no other server's.
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
        let export = self.by_id(ExportId(envelope.id)).or_else(pseudo).ok_or(Status::Stale)?;
        Ok((export, export.sealer.open(&envelope)?))
    }

    /// The object that a wire handle names.
    ///
    /// # Errors
    /// [`Status::BadHandle`] for what this server never sealed; [`Status::Stale`] for an export
    /// that is not there (any more).
    pub fn open(&self, handle: &[u8]) -> Result<(&Arc<Export>, Fid), Status> {
        let envelope = Envelope::parse(handle)?;
        let export = self.by_id(ExportId(envelope.id)).ok_or(Status::Stale)?;
        let fid = export.sealer.open(&envelope)?;
        Ok((export, fid))
    }
}

/// The part of `path` below `export`, without the slash between them.
fn below<'p>(export: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    if export == b"/" {
        return path.strip_prefix(b"/");
    }
    let rest = path.strip_prefix(export)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
}

/// A table, kept for the length of a call.
pub type HeldTable<'e> = Held<'e, Table, LongReads>;

/// The exports in force.
pub struct Exports {
    table: Snapshot<Table, LongReads>,
    users: UserGroups,
    refused: OnceLock<RefusalObserver>,
}

/// Is told of each call that an export refuses: the export, the client's address and port, and why.
pub type RefusalObserver = Box<dyn Fn(&Export, SocketAddr, &'static str) + Send + Sync>;

impl Exports {
    /// Serves a table.
    pub fn new(table: Table) -> Self {
        Self { table: Snapshot::new(table), users: UserGroups::default(), refused: OnceLock::new() }
    }

    /// The same with other services that know the groups of users.
    #[must_use]
    pub fn with_group_service(self, service: Box<dyn GroupService>) -> Self {
        Self { users: UserGroups::new(service), ..self }
    }

    /// Has an observer told of each refusal from now on; the first one stays. It must not wait.
    pub fn observe_refusals(&self, observer: RefusalObserver) {
        // a second one is a mistake of the caller that costs statistics only
        let _ = self.refused.set(observer);
    }

    /// Tells the observer that an export refuses a client.
    #[cold]
    pub fn refused(&self, export: &Export, client: SocketAddr, why: &'static str) {
        if let Some(observer) = self.refused.get() {
            observer(export, client, why);
        }
    }

    /// The groups of users, for exports with `manage-gids`.
    pub const fn users(&self) -> &UserGroups {
        &self.users
    }

    /// The table in force; the guard keeps it for the length of a call.
    pub fn load(&self) -> HeldTable<'_> {
        self.table.load()
    }

    /// Puts another table in force. Calls that run finish under the table that they began with,
    /// which goes when the last of them has ended and [`Exports::collect`] is called.
    pub fn replace(&self, table: Table) {
        self.table.replace(table);
    }

    /// Drops replaced tables that no call reads any more, and with them the backends that are no longer
    /// exported; gives how many tables are left. To be called each second.
    pub fn collect(&self) -> usize {
        self.table.collect()
    }
}

#[cfg(test)]
mod tests;
