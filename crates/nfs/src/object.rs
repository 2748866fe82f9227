//! From a filehandle of the wire to an object that verbs work on.
//!
//! Owns: the order of the checks (handle, client, security flavour, credentials) and their result, the [`Object`]. Every
//! procedure that takes a filehandle opens it here, once, by [`Caller::open`]; MNT opens the root
//! of an export by [`Caller::open_root`], with the same check of the client.
//!
//! A [`Caller`] holds the export table of its call: a reload in between changes nothing for a call
//! under way. Any number of objects of one caller can exist at once, each with its own export and
//! squashed credentials.
//!
//! Nothing is locked here, and nothing is allocated but for a user of an export with `manage-gids`
//! who is in more than 32 groups.

use crate::Nfs;
use export::{
    BufferSize, BufferSizes, ClientAccess, Delegate, Export, ExportId, Exports, FlavorList,
    GroupList, Handle, HeldTable, Options, OwnerNames, RefusedCall, Requester, Rule, SquashedCred,
    Table, UserLookup,
};
use rpc::{Blocking, Call, Credential, Peer, SocketBufferSize, SocketBufferSizes};
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use vfs::{AccessMask, Attr, Backend, Cx, Fid, Status, Want};

/// Who makes a call, and what the call's filehandles are opened with.
pub struct Caller<'c> {
    exports: &'c Exports,
    table: HeldTable<'c>,
    peer: &'c Peer,
    credential: &'c Credential<'c>,
    blocking: &'c dyn Blocking,
    /// The export of the object that was opened last, for the statistics.
    export_index: &'c Cell<Option<u16>>,
    /// What that export wants of the connection's buffers.
    buffers: &'c Cell<SocketBufferSizes>,
    /// Whether the call is refused because of its transport security (`xprtsec`).
    too_weak: &'c Cell<bool>,
}

/// Why a client may not use an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRefused {
    /// No rule of the export is for the client.
    NotForClient,
    /// The rule is for ports below 1024 (`secure`).
    Port,
    /// The rule does not accept the transport security of the call (`xprtsec`).
    TransportSecurity,
    /// The name services did not determine the client's rule in time.
    NoAnswer,
}

impl fmt::Display for ClientRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl ClientRefused {
    /// The reason, for the operator.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotForClient => "not a client of this export",
            Self::Port => "its port is not below 1024 (option insecure)",
            Self::TransportSecurity => {
                "its call does not use the required transport security (option xprtsec)"
            }
            Self::NoAnswer => "the name services did not identify this client",
        }
    }
}

/// The reason why a call of a client that may use the export is refused, for the operator.
const FLAVOR_REFUSED: &str = "its security flavour is not accepted (option sec)";

/// Why an object is not opened for version 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The export does not accept the security flavour or the transport security of the call.
    Flavor,
    /// Any other reason.
    Status(Status),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<ClientRefused> for Refused {
    fn from(refused: ClientRefused) -> Self {
        match refused {
            ClientRefused::TransportSecurity => Self::Flavor,
            other => Self::Status(other.into()),
        }
    }
}

/// What a client may do with the pseudo file system.
static PSEUDO_OPTIONS: LazyLock<Options> =
    LazyLock::new(|| Options { secure: false, ..Options::default() });

impl From<ClientRefused> for Status {
    fn from(refused: ClientRefused) -> Self {
        match refused {
            ClientRefused::NotForClient
            | ClientRefused::Port
            | ClientRefused::TransportSecurity => Self::Acces,
            ClientRefused::NoAnswer => Self::Jukebox,
        }
    }
}

impl<'c> Caller<'c> {
    /// The caller of this call.
    pub fn new(exports: &'c Exports, call: &'c mut Call<'_>) -> Self {
        Self {
            exports,
            table: exports.load(),
            peer: call.peer,
            credential: &call.credential,
            blocking: call.blocking,
            export_index: Cell::from_mut(&mut call.outcome.export),
            buffers: Cell::from_mut(&mut call.outcome.buffers),
            too_weak: Cell::from_mut(&mut call.outcome.too_weak),
        }
    }

    /// The export table in force when the call began.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Opens the object of a filehandle for this caller. Whether the object exists is not looked
    /// at: the backend says so when a verb uses it.
    ///
    /// # Errors
    /// [`Status::BadHandle`], [`Status::Stale`]; [`Status::Acces`] for a client that the export
    /// is not for, and for a security flavour that it does not accept, as the kernel's server
    /// answers in versions 2 and 3; [`Status::Jukebox`] if that cannot be found out now.
    pub fn open(&self, filehandle: &[u8]) -> vfs::Result<Object<'_>> {
        let (export, fid) = self.table.open(filehandle)?;
        let rule = self.client_rule(export)?;
        self.object(export, rule, fid)
    }

    /// Opens the root of an export for this caller, to ask for a quota: an ordinary user may do so from any port, and
    /// only root needs one that is reserved where the export is `secure`.
    ///
    /// # Errors
    /// Those of [`Caller::open`].
    pub fn open_for_quota<'t>(&'t self, export: &'t Arc<Export>) -> vfs::Result<Object<'t>> {
        let rule = match self.client_rule(export) {
            Err(ClientRefused::Port) => {
                let ClientAccess::Allowed(rule) = export.access_from_any_port(&self.requester())
                else {
                    return Err(Status::Acces);
                };
                rule
            }
            allowed => return self.object(export, allowed?, export.backend.root()),
        };
        let object = self.object(export, rule, export.backend.root())?;
        if object.cx().cred.uid == 0 { Err(Status::Acces) } else { Ok(object) }
    }

    /// An object of an export, after the client was checked: the flavour, and the caller's credentials.
    #[inline]
    fn object<'t>(
        &'t self,
        export: &'t Arc<Export>,
        rule: &'t Rule,
        fid: Fid,
    ) -> vfs::Result<Object<'t>> {
        if !rule.options.flavors.accepts(self.credential) {
            return self.object_by_other_flavor(export, rule, fid, Status::Acces);
        }
        self.accepted_object(export, &rule.options, fid)
    }

    /// An object for a call whose flavour is none of the rule's first ones, or the error.
    #[cold]
    #[inline(never)]
    fn object_by_other_flavor<'t, E: From<Status>>(
        &'t self,
        export: &'t Arc<Export>,
        rule: &'t Rule,
        fid: Fid,
        refused: E,
    ) -> Result<Object<'t>, E> {
        let Some(options) = rule.options_for(self.credential) else {
            self.tell_refused(export, FLAVOR_REFUSED, true);
            return Err(refused);
        };
        self.accepted_object(export, options, fid)
    }

    /// The same for version 4, which has a pseudo file system, and an error of its own for a security flavour.
    ///
    /// # Errors
    /// As [`Caller::open`], but [`Refused::Flavor`] for the flavour.
    #[inline]
    pub fn open_v4(&self, filehandle: &[u8]) -> Result<Object<'_>, Refused> {
        let (export, fid) = self.table.open_v4(filehandle)?;
        self.enter(export, fid)
    }

    /// The same whatever the flavour of the call is. For what needs no permission of a user.
    ///
    /// # Errors
    /// As [`Caller::open_v4`]; [`Refused::Flavor`] for the channel only.
    pub fn open_whatever_flavor(&self, filehandle: &[u8]) -> Result<Object<'_>, Refused> {
        let (export, fid) = self.table.open_v4(filehandle)?;
        let rule = self.client_rule(export)?;
        let options = rule.options_for(self.credential).unwrap_or(&rule.options);
        self.accepted_object(export, options, fid)
    }

    /// Opens a file that a client wants to lock over NLM: neither `sec=` nor `xprtsec=` applies. Linux sends NLM by
    /// AUTH_SYS and without TLS whatever a mount uses, and its server accepts that; a lock gives no access to data.
    ///
    /// # Errors
    /// As [`Caller::open`] without those.
    pub fn open_to_lock(&self, filehandle: &[u8]) -> vfs::Result<Object<'_>> {
        let (export, fid) = self.table.open(filehandle)?;
        let rule = match export.access_for(&self.requester()) {
            ClientAccess::Allowed(rule) => {
                self.export_index.set(Some(export.index));
                rule
            }
            _ => self.mount_rule(export)?,
        };
        let options = rule.options_for(self.credential).unwrap_or(&rule.options);
        self.accepted_object(export, options, fid)
    }

    /// An object that was not named by a handle: the root of an export that is walked into, a node of the pseudo file
    /// system.
    ///
    /// # Errors
    /// As [`Caller::open_v4`].
    #[inline]
    pub fn enter<'t>(&'t self, export: &'t Arc<Export>, fid: Fid) -> Result<Object<'t>, Refused> {
        if self.table.pseudo().is(export) {
            return Ok(self.pseudo_object(fid));
        }
        let rule = self.client_rule(export)?;
        if !rule.options.flavors.accepts(self.credential) {
            return self.object_by_other_flavor(export, rule, fid, Refused::Flavor);
        }
        self.accepted_object(export, &rule.options, fid)
    }

    /// The root of an export that is walked into in versions 2 and 3.
    ///
    /// # Errors
    /// As [`Caller::open`].
    pub fn enter_root<'t>(&'t self, export: &'t Arc<Export>) -> vfs::Result<Object<'t>> {
        let rule = self.client_rule(export)?;
        self.object(export, rule, export.backend.root())
    }

    /// A node of the pseudo file system, which everybody may read.
    pub fn pseudo_object(&self, fid: Fid) -> Object<'_> {
        let export = self.table.pseudo().export();
        let options = &PSEUDO_OPTIONS;
        let cred = options.squash(self.credential, None);
        let (blocking, right) = (self.blocking_in(export), vfs::Right::Check);
        Object { fid, right, export, options, cred, blocking }
    }

    /// The names of owners, if they have names (`idmap-domain`).
    #[inline]
    pub fn owner_names(&self) -> Option<&'c OwnerNames> {
        let names = self.exports.owner_names();
        if names.is_on() { Some(names) } else { None }
    }

    /// The address and port of the client.
    pub const fn peer(&self) -> &'c Peer {
        self.peer
    }

    /// Who is asking, before squashing.
    pub const fn credential(&self) -> &'c Credential<'c> {
        self.credential
    }

    /// An object, after the flavour was checked as well, in the result of whoever asks: it is large enough that moving it
    /// to another one is a call of memcpy.
    #[inline]
    fn accepted_object<'t, E: From<Status>>(
        &'t self,
        export: &'t Arc<Export>,
        options: &'t Options,
        fid: Fid,
    ) -> Result<Object<'t>, E> {
        let groups = if options.manage_gids { self.listed_groups(options)? } else { None };
        let cred = options.squash(self.credential, groups);
        let (blocking, right) = (self.blocking_in(export), vfs::Right::Check);
        Ok(Object { fid, right, export, options, cred, blocking })
    }

    /// Opens the root of an export with the server's own credentials: that a client may mount a
    /// directory does not depend on who its user is, nor on the flavour of the call, since the answer of MNT
    /// is where a client learns which flavours there are (RFC 2623 §2.7).
    ///
    /// # Errors
    /// [`ClientRefused`].
    pub fn open_root<'t>(&'t self, export: &'t Arc<Export>) -> Result<Object<'t>, ClientRefused> {
        let options = &self.mount_rule(export)?.options;
        let (fid, cred) = (export.backend.root(), SquashedCred::ROOT);
        let (blocking, right) = (self.blocking_in(export), vfs::Right::Check);
        Ok(Object { fid, right, export, options, cred, blocking })
    }

    /// To whom blocking is announced that is not a file system's.
    pub(crate) const fn blocking(&self) -> &'c dyn Blocking {
        self.blocking
    }

    fn blocking_in(&self, export: &Export) -> WorkerBlocking<'c> {
        WorkerBlocking { worker: self.blocking, export: export.index }
    }

    /// What this client may do with an export, which is noted for the statistics.
    ///
    /// A name service has to be asked only rarely: by MNT, and for the first call of a client that
    /// mounted before a restart or a reload, if the export names hosts. Other calls go on while it
    /// is asked.
    fn client_rule<'t>(&self, export: &'t Export) -> Result<&'t Rule, ClientRefused> {
        self.export_index.set(Some(export.index));
        let rule = match export.access_for(&self.requester()) {
            ClientAccess::Allowed(rule) => rule,
            ClientAccess::Unresolved => self.resolved_rule(export, Export::access_for)?,
            access => return Err(self.no_access(export, access)),
        };
        self.buffers.set(socket_buffer_sizes(export.buffers_for(&rule.options)));
        Ok(rule)
    }

    /// What the client may do, after the name services were asked.
    #[cold]
    fn resolved_rule<'t>(
        &self,
        export: &'t Export,
        access: impl Fn(&'t Export, &Requester<'_>) -> ClientAccess<'t>,
    ) -> Result<&'t Rule, ClientRefused> {
        self.blocking.will_block();
        export.resolve_blocking(self.peer.addr.ip());
        match access(export, &self.requester()) {
            ClientAccess::Allowed(rule) => Ok(rule),
            access => Err(self.no_access(export, access)),
        }
    }

    /// What this client may do once it has mounted an export.
    fn mount_rule<'t>(&self, export: &'t Export) -> Result<&'t Rule, ClientRefused> {
        self.export_index.set(Some(export.index));
        match export.access_to_mount(&self.requester()) {
            ClientAccess::Allowed(rule) => Ok(rule),
            ClientAccess::Unresolved => self.resolved_rule(export, Export::access_to_mount),
            access => Err(self.no_access(export, access)),
        }
    }

    /// Who asks, as exports know clients.
    pub fn requester(&self) -> Requester<'c> {
        let (address, port) = (self.peer.addr.ip(), self.peer.addr.port());
        let certificates = self.exports.certificates();
        Requester { address, port, security: self.peer.security, certificates }
    }

    /// The reason of a refusal, after it was counted.
    #[cold]
    fn no_access(&self, export: &Export, access: ClientAccess<'_>) -> ClientRefused {
        let why = match access {
            ClientAccess::NoRule => ClientRefused::NotForClient,
            ClientAccess::PortNotReserved => ClientRefused::Port,
            ClientAccess::TransportSecurityTooWeak => ClientRefused::TransportSecurity,
            ClientAccess::Allowed(_) | ClientAccess::Unresolved => ClientRefused::NoAnswer,
        };
        self.too_weak.set(why == ClientRefused::TransportSecurity);
        self.refused(export, why)
    }

    /// Tells who counts refusals.
    #[cold]
    fn refused(&self, export: &Export, why: ClientRefused) -> ClientRefused {
        self.tell_refused(export, why.text(), why == ClientRefused::TransportSecurity);
        why
    }

    /// The same, with who has called.
    #[cold]
    #[inline(never)]
    fn tell_refused(&self, export: &Export, why: &'static str, is_unproven: bool) {
        let certificate = self.peer.security.certificate();
        let certificate = certificate.and_then(|id| self.exports.certificates().find(id));
        let mut proven = Vec::new();
        if let Credential::Principal(principal) = self.credential {
            proven.push(String::from_utf8_lossy(&principal.name).into_owned());
        }
        proven.extend(certificate.map(|seen| format!("certificate {}", seen.name())));
        let identity = &*proven.join(", ");
        let client = self.peer.addr;
        self.exports.refused(&RefusedCall { export, client, identity, is_unproven, why });
    }

    /// The groups that this machine knows the caller's user to be in, squashed; `None` if it does
    /// not know the user. Other calls go on while the name services are asked.
    fn listed_groups(&self, options: &Options) -> vfs::Result<Option<GroupList>> {
        let Credential::Sys(sys) = self.credential else { return Ok(None) };
        let users = self.exports.users();
        let find = || users.find(sys.uid, Instant::now(), |gid| options.squash_group(gid));
        let found = match find() {
            UserLookup::Ask => {
                self.blocking.will_block();
                if !users.ask(sys.uid) {
                    return Err(Status::Jukebox);
                }
                find()
            }
            known => known,
        };
        match found {
            UserLookup::Known(groups) => Ok(Some(groups)),
            UserLookup::NoSuchUser => Ok(None),
            UserLookup::Ask => Err(Status::Jukebox),
        }
    }
}

/// The sizes in the transport's types.
const fn socket_buffer_sizes(sizes: BufferSizes) -> SocketBufferSizes {
    const fn size(size: BufferSize) -> SocketBufferSize {
        match size {
            BufferSize::Unset => SocketBufferSize::UNSET,
            BufferSize::Auto => SocketBufferSize::AUTO,
            BufferSize::Bytes(bytes) => SocketBufferSize::bytes(bytes),
        }
    }
    SocketBufferSizes { receive: size(sizes.receive), send: size(sizes.send) }
}

/// The worker's [`rpc::Blocking`] as the backend wants it.
#[derive(Clone)]
struct WorkerBlocking<'c> {
    worker: &'c dyn Blocking,
    /// The export that the call works in, by its index.
    export: u16,
}

impl vfs::Blocking for WorkerBlocking<'_> {
    fn will_block(&self) -> vfs::Result<()> {
        match self.worker.will_block_in(self.export) {
            true => Ok(()),
            false => Err(Status::Jukebox),
        }
    }
}

/// An object of an export, opened for one caller: what every verb receives.
///
/// It is what the current and the saved filehandle of a COMPOUND (RFC 8881 §2.10.1.4, §16.2.3.1)
/// are: it can be copied, kept over the operations of a call, moved to another object of its export by
/// setting `fid` (LOOKUP, CREATE), and replaced by one of another export (PUTFH). A node of
/// version 4's pseudo file system is one whose export has a read-only backend that is made of the
/// export table.
#[derive(Clone)]
pub struct Object<'c> {
    /// The object in the export's backend.
    pub fid: Fid,
    /// What gives the right to its data.
    pub right: vfs::Right,
    export: &'c Arc<Export>,
    options: &'c Options,
    cred: SquashedCred<'c>,
    blocking: WorkerBlocking<'c>,
}

impl<'c> Object<'c> {
    /// The export's backend.
    pub fn backend(&self) -> &'c dyn Backend {
        self.export.backend.as_ref()
    }

    /// Who is told before the call waits.
    pub const fn blocking(&self) -> &'c dyn Blocking {
        self.blocking.worker
    }

    /// What the backend's calls for this caller carry.
    pub fn cx(&self) -> Cx<'_> {
        Cx {
            cred: self.cred.cred(),
            blocking: &self.blocking,
            durability: self.options.durability,
            right: self.right,
            attr_cache_ms: self.options.attr_cache_ms,
        }
    }

    /// Refuses a change of an object of a read-only export.
    ///
    /// # Errors
    /// [`Status::RoFs`].
    pub const fn check_writable(&self) -> vfs::Result<()> {
        if self.options.read_only { Err(Status::RoFs) } else { Ok(()) }
    }

    /// Refuses two objects of different exports: names and links stay inside of one.
    ///
    /// # Errors
    /// [`Status::XDev`].
    pub fn check_same_export(&self, other: &Self) -> vfs::Result<()> {
        if self.export.id == other.export.id { Ok(()) } else { Err(Status::XDev) }
    }

    /// Whether the file system is elsewhere for clients of version 4 (`refer`).
    #[inline]
    pub fn is_absent(&self) -> bool {
        self.export.is_referral
    }

    /// Whether file systems mounted below the export are part of it (`crossmnt`).
    pub const fn crosses_mounts(&self) -> bool {
        self.options.crossmnt
    }

    /// Whether names must be UTF-8 (`utf8=strict`).
    pub const fn needs_utf8_names(&self) -> bool {
        self.options.utf8_names
    }

    /// Which delegations clients of version 4 get here, if the export says it (`delegations=`).
    pub const fn delegations(&self) -> Option<Delegate> {
        self.options.delegations
    }

    /// Whether open files outlive the server without a name here, if the export says it (`preserve-unlinked=`).
    pub const fn preserves_unlinked(&self) -> Option<bool> {
        self.options.preserve_unlinked
    }

    /// Whether clients may see and set ACLs here.
    pub const fn shows_acls(&self) -> bool {
        self.options.acl
    }

    /// Whether who locks the file must be allowed to read it, or own it (`auth_nlm`).
    pub const fn locks_need_permission(&self) -> bool {
        self.options.auth_nlm
    }

    /// The permissions that the export leaves, whatever the file system grants.
    pub fn permitted(&self) -> AccessMask {
        let look = AccessMask::READ | AccessMask::LOOKUP | AccessMask::EXECUTE;
        let change = AccessMask::MODIFY | AccessMask::EXTEND | AccessMask::DELETE;
        if self.options.read_only { look } else { look | change }
    }

    /// The attributes, if they can be had: for `post_op_attr` and `wcc_data` of a failure, whose
    /// own cause is what the client is told.
    pub fn attributes(&self) -> Option<Attr> {
        self.backend().getattr(&self.cx(), &self.fid, Want::STAT).ok()
    }

    /// The number of the export in handles.
    pub fn export_id(&self) -> ExportId {
        self.export.id
    }

    /// The security flavours that the export accepts from this client.
    pub fn flavors(&self) -> FlavorList {
        self.options.rule_flavors.unwrap_or(self.options.flavors)
    }

    /// The filehandle of an object of the same export.
    pub fn seal(&self, fid: &Fid) -> Handle {
        self.export.seal(fid)
    }

    /// The export that it is in.
    pub fn export(&self) -> &'c Arc<Export> {
        self.export
    }

    /// The same object, to be kept after the call's own data is gone, or handed to another thread.
    pub fn into_owned(self) -> OwnedObject {
        OwnedObject {
            fid: self.fid,
            export: Arc::clone(self.export),
            options: *self.options,
            cred: self.cred.into_owned(),
        }
    }
}

/// An [`Object`] that owns what it refers to: the export as it was in the table of its call, and
/// the squashed credentials. A reload does not reach it.
#[derive(Debug)]
pub struct OwnedObject {
    fid: Fid,
    export: Arc<Export>,
    options: Options,
    cred: SquashedCred<'static>,
}

impl OwnedObject {
    /// Whether its export is one of this table, and not one that a reload has replaced.
    pub fn is_of(&self, table: &Table) -> bool {
        table.by_id(self.export.id).is_some_and(|export| Arc::ptr_eq(export, &self.export))
    }

    /// The export's backend.
    pub fn backend(&self) -> &dyn Backend {
        self.export.backend.as_ref()
    }

    /// The object for verbs that a worker runs.
    pub fn as_object<'o>(&'o self, blocking: &'o dyn Blocking) -> Object<'o> {
        Object {
            fid: self.fid,
            right: vfs::Right::Check,
            export: &self.export,
            options: &self.options,
            cred: self.cred.borrow(),
            blocking: WorkerBlocking { worker: blocking, export: self.export.index },
        }
    }
}

impl Nfs {
    /// Does `work` on the object of a filehandle.
    ///
    /// # Errors
    /// Those of [`Caller::open`] and of `work`.
    pub fn on_object<T>(
        &self,
        call: &mut Call<'_>,
        filehandle: &[u8],
        work: impl FnOnce(&Object<'_>) -> vfs::Result<T>,
    ) -> vfs::Result<T> {
        let caller = Caller::new(&self.exports, call);
        // borrowed where it was made: an object is large enough that moving it is a call of memcpy
        match &caller.open(filehandle) {
            Ok(object) => work(object),
            Err(status) => Err(*status),
        }
    }

    /// Does `work` on the objects of two filehandles.
    ///
    /// # Errors
    /// Those of [`Caller::open`] and of `work`.
    pub fn on_two_objects<T>(
        &self,
        call: &mut Call<'_>,
        (first, second): (&[u8], &[u8]),
        work: impl FnOnce(&Object<'_>, &Object<'_>) -> vfs::Result<T>,
    ) -> vfs::Result<T> {
        let caller = Caller::new(&self.exports, call);
        work(&caller.open(first)?, &caller.open(second)?)
    }
}
