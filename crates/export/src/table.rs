//! The export table: an immutable snapshot, swapped whole.
//!
//! A call loads the table once ([`Exports::load`]) and works with that snapshot to its end. Client
//! decisions are cached per export in a lock-free map; nothing on a call's way takes a lock.
//! [`Exports::replace`] is the only writer.

use crate::clients::{Client, Pattern};
use crate::handle::{Envelope, Handle, seal};
use crate::identity::{Identity, IdentityError};
use crate::names;
use crate::options::Options;
use arc_swap::{ArcSwap, Guard};
use std::net::IpAddr;
use std::sync::Arc;
use vfs::{Backend, Fid, Status};

/// Client decisions that one export remembers; at the limit all are forgotten and made again.
const CLIENTS_MAX: usize = 65_536;
/// With so few rules, all by address, deciding anew is as cheap as remembering.
const RULES_FEW: usize = 4;

/// What a handle carries of its export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportId(pub u32);

/// An export's UUID given by the administrator (`fsid=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fsid(pub [u8; 16]);

/// One client rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Who it is for.
    pub pattern: Pattern,
    /// What they may do.
    pub options: Options,
}

/// Where an export's files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecBackend {
    /// A directory of this machine.
    Directory(Vec<u8>),
    /// In memory, gone with the server.
    Memory,
}

/// An export as the configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportSpec {
    /// What clients mount: begins with `/`, has no double and no trailing slash.
    pub path: Vec<u8>,
    /// Where its files are.
    pub backend: SpecBackend,
    /// Who may mount it.
    pub rules: Vec<Rule>,
    /// The administrator's own id for it.
    pub fsid: Option<Fsid>,
}

/// One export in force.
pub struct Export {
    /// Its place in the statistics; the same over reloads.
    pub index: u16,
    /// What handles carry.
    pub id: ExportId,
    /// Its lasting identity.
    pub uuid: [u8; 16],
    /// What clients mount.
    pub path: Vec<u8>,
    /// Its files.
    pub backend: Arc<dyn Backend>,
    /// What it was built from.
    pub spec: ExportSpec,
    /// Whether some rule needs a client's name or this machine's addresses.
    slow: bool,
    /// Address → the rule that holds, if any.
    decided: papaya::HashMap<IpAddr, Option<usize>>,
}

impl Export {
    /// What a client may do here; `None` if nothing. Never blocks: a client for whom
    /// [`Export::needs_resolution`] holds is refused until [`Export::resolve_blocking`].
    pub fn access_for(&self, client: IpAddr, client_port: u16) -> Option<&Options> {
        let client = client.to_canonical();
        let rule = if !self.slow && self.spec.rules.len() <= RULES_FEW {
            self.decide(client, false)
        } else {
            self.remembered(client)
        };
        let options = &self.spec.rules.get(rule?)?.options;
        (!options.secure || client_port < 1024).then_some(options)
    }

    /// Whether a name service has to be asked before this client's rule is known.
    pub fn needs_resolution(&self, client: IpAddr) -> bool {
        self.slow && !self.decided.pin().contains_key(&client.to_canonical())
    }

    /// Finds the client's rule and remembers it; blocks as long as the name service does.
    pub fn resolve_blocking(&self, client: IpAddr) {
        let client = client.to_canonical();
        let decision = self.decide(client, true);
        self.remember(client, decision);
    }

    /// Forgets what is known of clients, so that changes of names are seen.
    pub fn forget_clients(&self) {
        if self.slow {
            self.decided.pin().clear();
        }
    }

    /// The clients as the administrator wrote them; `*` for everybody.
    pub fn client_names(&self) -> Vec<String> {
        self.spec.rules.iter().map(|rule| rule.pattern.text()).collect()
    }

    fn remembered(&self, client: IpAddr) -> Option<usize> {
        if let Some(known) = self.decided.pin().get(&client) {
            return *known;
        }
        if self.slow {
            return None;
        }
        let decision = self.decide(client, false);
        self.remember(client, decision);
        decision
    }

    fn remember(&self, client: IpAddr, decision: Option<usize>) {
        let decided = self.decided.pin();
        if decided.len() >= CLIENTS_MAX {
            decided.clear();
        }
        decided.insert(client, decision);
    }

    /// The most exact rule for a client; with `ask`, names are looked up.
    fn decide(&self, address: IpAddr, ask: bool) -> Option<usize> {
        let by_name = self.spec.rules.iter().any(|rule| rule.pattern.needs_names());
        let names = if ask && by_name { names::names_of(address) } else { Vec::new() };
        let client = Client {
            address,
            names: &names,
            local: ask && names::is_local(address),
            in_netgroup: &|group, name| ask && sys::name_service::in_netgroup(group, name),
        };
        let matches = |pattern: &Pattern| match pattern {
            Pattern::Host(host) => {
                ask && (pattern.matches(&client) || names::resolves_to(host, address))
            }
            other => other.matches(&client),
        };
        let mut best: Option<(u16, usize)> = None;
        for (index, rule) in self.spec.rules.iter().enumerate() {
            let rank = rule.pattern.rank();
            if best.is_none_or(|(known, _)| rank > known) && matches(&rule.pattern) {
                best = Some((rank, index));
            }
        }
        best.map(|(_, index)| index)
    }
}

/// Why a table cannot be built; nothing of it is applied.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two exports have one path.
    #[error("{0} is exported twice: give one of them a name (NAME=DIR)")]
    Twice(String),
    /// Two exports have one `fsid=`.
    #[error("{0} and {1} have the same fsid")]
    SameFsid(String, String),
    /// More exports than indices.
    #[error("more than {} exports", u16::MAX)]
    TooMany,
    /// The files of an export cannot be reached.
    #[error("{0}")]
    Backend(String),
    /// The state directory.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// All exports at one moment.
#[derive(Default)]
pub struct Table {
    exports: Vec<Arc<Export>>,
    /// Export ids with the place in `exports`, rising.
    by_id: Vec<(ExportId, usize)>,
}

impl Table {
    /// The exports, in the order of the configuration.
    pub fn exports(&self) -> &[Arc<Export>] {
        &self.exports
    }

    /// The export with the longest path that `path` is or lies below, and what follows that path
    /// (empty, or beginning with `/`).
    pub fn by_path<'p>(&self, path: &'p [u8]) -> Option<(&Export, &'p [u8])> {
        let below = |export: &Export| {
            let rest =
                if export.path == b"/" { Some(path) } else { path.strip_prefix(&*export.path) };
            rest.filter(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
        };
        self.exports
            .iter()
            .filter_map(|export| Some((&**export, below(export)?)))
            .min_by_key(|(_, rest)| rest.len())
    }

    /// The export of a handle.
    pub fn by_id(&self, id: ExportId) -> Option<&Export> {
        let at = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, place) = self.by_id.get(at)?;
        self.exports.get(*place).map(|export| &**export)
    }

    /// Builds a table whole, or fails whole. `open` makes the backend of a spec; those of exports
    /// that are in `previous` with the same files and identity are taken over.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build<E: std::fmt::Display>(
        specs: Vec<ExportSpec>,
        identity: &Identity,
        previous: &Self,
        open: &dyn Fn(&ExportSpec, [u8; 16]) -> Result<Arc<dyn Backend>, E>,
    ) -> Result<Self, BuildError> {
        let mut table = Self::default();
        for spec in specs {
            let shown = || String::from_utf8_lossy(&spec.path).into_owned();
            if table.exports.iter().any(|e| e.path == spec.path) {
                return Err(BuildError::Twice(shown()));
            }
            let uuid = match spec.fsid {
                Some(Fsid(uuid)) => uuid,
                None => identity.uuid(&spec.path)?,
            };
            if let Some(other) = table.exports.iter().find(|e| e.uuid == uuid) {
                let other = String::from_utf8_lossy(&other.path).into_owned();
                return Err(BuildError::SameFsid(other, shown()));
            }
            let known = previous.exports.iter().find(|e| e.uuid == uuid);
            let backend = match known.filter(|e| e.spec.backend == spec.backend) {
                Some(export) => Arc::clone(&export.backend),
                None => open(&spec, uuid).map_err(|e| BuildError::Backend(e.to_string()))?,
            };
            let index = match known {
                Some(export) => export.index,
                None => table.free_index(previous).ok_or(BuildError::TooMany)?,
            };
            let id = table.free_id(&uuid);
            table.add(index, id, uuid, backend, spec);
        }
        Ok(table)
    }

    fn add(
        &mut self,
        index: u16,
        id: ExportId,
        uuid: [u8; 16],
        backend: Arc<dyn Backend>,
        spec: ExportSpec,
    ) {
        let slow =
            spec.rules.iter().any(|r| r.pattern.needs_names() || r.pattern == Pattern::ThisMachine);
        let place = self.exports.len();
        self.exports.push(Arc::new(Export {
            index,
            id,
            uuid,
            path: spec.path.clone(),
            backend,
            spec,
            slow,
            decided: papaya::HashMap::new(),
        }));
        self.by_id.push((id, place));
        self.by_id.sort_unstable();
    }

    /// An index that neither this table nor the one before uses.
    fn free_index(&self, previous: &Self) -> Option<u16> {
        (0..u16::MAX).find(|index| {
            let same = |export: &Arc<Export>| export.index == *index;
            !self.exports.iter().any(same) && !previous.exports.iter().any(same)
        })
    }

    /// The first four bytes of the UUID, or the next ones where another export has these.
    fn free_id(&self, uuid: &[u8; 16]) -> ExportId {
        let ids =
            uuid.windows(4).filter_map(|w| w.first_chunk::<4>()).map(|w| u32::from_be_bytes(*w));
        let free = |id: &u32| self.by_id(ExportId(*id)).is_none();
        ExportId(
            ids.into_iter()
                .find(free)
                .unwrap_or_else(|| (0..u32::MAX).find(free).unwrap_or_default()),
        )
    }

    /// What a reload changes, a line each.
    pub fn difference(old: &Self, new: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let find = |table: &Self, path: &[u8]| {
            table.exports.iter().find(|e| e.path == path).map(Arc::clone)
        };
        for export in &new.exports {
            let shown = String::from_utf8_lossy(&export.path);
            match find(old, &export.path) {
                None => lines.push(format!("+ {shown}")),
                Some(before) if before.spec != export.spec => lines.push(format!("~ {shown}")),
                Some(_) => {}
            }
        }
        for export in &old.exports {
            if find(new, &export.path).is_none() {
                lines.push(format!("- {}", String::from_utf8_lossy(&export.path)));
            }
        }
        lines
    }
}

/// The table in force, and the key that seals handles.
pub struct Exports {
    identity: Identity,
    current: ArcSwap<Table>,
}

impl Exports {
    /// With no exports yet.
    pub fn new(identity: Identity) -> Self {
        Self { identity, current: ArcSwap::from_pointee(Table::default()) }
    }

    /// What outlives the server.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The table in force; takes no lock and no reference count.
    pub fn load(&self) -> Guard<Arc<Table>> {
        self.current.load()
    }

    /// Puts another table in force; calls under way finish with theirs. Gives the old one.
    pub fn replace(&self, table: Table) -> Arc<Table> {
        self.current.swap(Arc::new(table))
    }

    /// Forgets what is known of clients' names, in all exports.
    pub fn forget_clients(&self) {
        self.load().exports.iter().for_each(|export| export.forget_clients());
    }

    /// The wire handle of an object of an export.
    pub fn seal(&self, export: &Export, fid: &Fid) -> Handle {
        seal(self.identity.key(), export.id.0, &export.uuid, fid)
    }

    /// The export and the object that a wire handle names.
    ///
    /// # Errors
    /// [`Status::BadHandle`] for one that this server did not seal; [`Status::Stale`] for one whose
    /// export is no longer there.
    pub fn open<'t>(&self, table: &'t Table, wire: &[u8]) -> Result<(&'t Export, Fid), Status> {
        let envelope = Envelope::parse(wire)?;
        let export = table.by_id(ExportId(envelope.id)).ok_or(Status::Stale)?;
        let fid = envelope.open(self.identity.key(), &export.uuid)?;
        Ok((export, fid))
    }
}
