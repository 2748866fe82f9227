//! The objects on the server that a load works on, prepared before it begins: handles, names, files
//! of its own.
//!
//! Everything here is created by blocking calls of one client and then only read, so that the
//! threads of a load share it without a lock. The objects that the load creates are in one
//! directory, [`BENCH_DIR`], below the export's root, and are removed by [`FileSet::clear`].

use super::error::LoadError;
use super::op::{NLM_VERSION, Version};
use super::pattern;
use super::plan::{Plan, Proto, Workload};
use super::recording::{self, Step};
use client::{Client, Fh, Identity};
use proto::nfs3::{CreateHow3, FileType3, Sattr3, StableHow, Verf};
use std::net::SocketAddr;

/// The directory of everything that a load creates.
pub const BENCH_DIR: &[u8] = b"bowline-bench";
/// The most objects that are read from a tree for workloads that pick at random.
const OBJECTS_MAX: usize = 20_000;
/// The most objects of a tree for `walk`.
const WALK_MAX: usize = 4_000_000;
/// Bytes of a READDIR reply while the tree is read.
const PIECE: u32 = 32 << 10;
/// Bytes of one WRITE while files are created.
const WRITE_AT_ONCE: usize = 256 << 10;
/// NFS3ERR_EXIST and NFSERR_EXIST.
const EXIST: u32 = 17;
/// NFS3ERR_NOENT.
const NOENT: u32 = 2;

/// An object of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object {
    pub fh: Fh,
    /// Index of its directory in [`FileSet::dirs`].
    pub dir: u32,
    name_at: u32,
    name_len: u16,
    pub is_dir: bool,
    pub size: u64,
}

/// A directory of the tree; its objects are contiguous.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dir {
    pub fh: Fh,
    pub first: u32,
    pub count: u32,
}

/// The objects that a load works on.
#[derive(Debug)]
pub struct FileSet {
    pub(crate) root: Fh,
    pub(crate) dirs: Vec<Dir>,
    pub(crate) objects: Vec<Object>,
    names: Vec<u8>,
    /// Files of a known content, by number, or existing ones of at least the size of a READ.
    pub(crate) files: Vec<(Fh, u64)>,
    /// Whether `files` have the content of `pattern`.
    pub(crate) known_content: bool,
    /// A directory for each client, for workloads that change something.
    pub(crate) client_dirs: Vec<Fh>,
    /// A file for each client, for workloads that write.
    pub(crate) client_files: Vec<Fh>,
    pub(crate) steps: Vec<Step>,
    /// Where the lock manager listens, if that is not NFS's port.
    pub(crate) lock_port: Option<u16>,
}

impl FileSet {
    const fn empty() -> Self {
        Self {
            root: Fh::EMPTY,
            dirs: Vec::new(),
            objects: Vec::new(),
            names: Vec::new(),
            files: Vec::new(),
            known_content: false,
            client_dirs: Vec::new(),
            client_files: Vec::new(),
            steps: Vec::new(),
            lock_port: None,
        }
    }

    /// The name of an object.
    pub(crate) fn name(&self, object: &Object) -> &[u8] {
        let start = object.name_at as usize;
        self.names.get(start..start + usize::from(object.name_len)).unwrap_or_default()
    }

    /// A file set without a server, for servers that ignore handles: one directory of 64 files.
    pub fn synthetic(plan: &Plan) -> Self {
        let fh = |n: u8| Fh::new(&[n; 32]).unwrap_or(Fh::EMPTY);
        let mut file_set = FileSet::empty();
        file_set.root = fh(0xff);
        file_set.dirs = vec![Dir { fh: file_set.root, first: 0, count: 64 }];
        for n in 0..64_u8 {
            let name = format!("file{n}").into_bytes();
            file_set.add(0, &DirItem { name, fh: fh(n), is_dir: false, size: plan.file_size });
            file_set.files.push((fh(n), plan.file_size.max(u64::from(plan.size))));
        }
        file_set.client_dirs = vec![file_set.root; plan.clients];
        file_set.client_files = vec![fh(0); plan.clients];
        file_set
    }

    /// Mounts the export, and reads and creates what the workload needs.
    ///
    /// # Errors
    /// A refusal of the server; an export without usable objects.
    pub fn prepare(plan: &Plan) -> Result<Self, LoadError> {
        plan.check().map_err(LoadError::Plan)?;
        let mut file_set = FileSet::empty();
        let mut client = SetupClient::connect(plan)?;
        match &plan.workload {
            Workload::Null => return client.null().map(|()| file_set).map_err(LoadError::Server),
            _ => file_set.root = client.mount(plan)?,
        }
        match &plan.workload {
            Workload::Null => {}
            Workload::Walk => file_set.read_tree(&mut client, WALK_MAX)?,
            Workload::Getattr
            | Workload::Access
            | Workload::Lookup
            | Workload::Readdir
            | Workload::Readdirplus => file_set.read_tree(&mut client, OBJECTS_MAX)?,
            Workload::Read => file_set.find_files(&mut client, plan)?,
            Workload::Write => file_set.make_own(&mut client, plan, true)?,
            Workload::Create | Workload::Untar => file_set.make_own(&mut client, plan, false)?,
            Workload::Lock => {
                file_set.make_own(&mut client, plan, true)?;
                file_set.lock_port = find_lock_manager(plan)?;
            }
            Workload::Mixed => {
                file_set.make_files(&mut client, plan)?;
                file_set.make_own(&mut client, plan, true)?;
                file_set.read_tree(&mut client, OBJECTS_MAX)?;
            }
            Workload::Replay(path) => {
                file_set.steps = recording::read(path, &mut client, &file_set.root)?
            }
        }
        if plan.workload == Workload::Lookup && file_set.objects.is_empty() {
            let export = &plan.export;
            let what = format!("{export} is empty: there is no name to look up; put files there");
            return Err(LoadError::Nothing(what));
        }
        Ok(file_set)
    }

    /// Reads the tree from the root, breadth first, until `most` objects are known.
    fn read_tree(&mut self, client: &mut SetupClient, most: usize) -> Result<(), LoadError> {
        self.dirs = vec![Dir { fh: self.root, first: 0, count: 0 }];
        let mut next = 0;
        while let Some(dir) = self.dirs.get(next).copied() {
            let first = self.objects.len();
            if first >= most {
                // directories that are not read must not be mistaken for empty ones
                self.dirs.truncate(next);
                break;
            }
            let index = u32::try_from(next).unwrap_or(u32::MAX);
            for entry in client.list(&dir.fh)? {
                self.add(index, &entry);
            }
            let count = self.objects.len() - first;
            if let Some(dir) = self.dirs.get_mut(next) {
                dir.first = u32::try_from(first).unwrap_or(u32::MAX);
                dir.count = u32::try_from(count).unwrap_or(u32::MAX);
            }
            let found: Vec<Fh> =
                self.objects.iter().skip(first).filter(|o| o.is_dir).map(|o| o.fh).collect();
            self.dirs.extend(found.into_iter().map(|fh| Dir { fh, first: 0, count: 0 }));
            next += 1;
        }
        Ok(())
    }

    fn add(&mut self, dir: u32, entry: &DirItem) {
        let (Ok(name_at), Ok(name_len)) =
            (u32::try_from(self.names.len()), u16::try_from(entry.name.len()))
        else {
            return;
        };
        self.names.extend_from_slice(&entry.name);
        let (fh, is_dir, size) = (entry.fh, entry.is_dir, entry.size);
        self.objects.push(Object { fh, dir, name_at, name_len, is_dir, size });
    }

    /// Files to read: our own, or, on a read-only export, existing ones.
    fn find_files(&mut self, client: &mut SetupClient, plan: &Plan) -> Result<(), LoadError> {
        match self.make_files(client, plan) {
            Ok(()) => Ok(()),
            Err(
                LoadError::NotWritable { source: client::Error::Nfs { name, .. }, .. }
                | LoadError::Server(client::Error::Nfs { name, .. }),
            ) => {
                self.read_tree(client, OBJECTS_MAX)?;
                let large = |o: &&Object| !o.is_dir && o.size >= u64::from(plan.size);
                self.files = self.objects.iter().filter(large).map(|o| (o.fh, o.size)).collect();
                if self.files.is_empty() {
                    let (export, size) = (&plan.export, plan.size);
                    return Err(LoadError::Nothing(format!(
                        "{export} has no file of at least {size} bytes, and making one fails ({name})"
                    )));
                }
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    fn make_files(&mut self, client: &mut SetupClient, plan: &Plan) -> Result<(), LoadError> {
        let dir = client.make_dir(&self.root, BENCH_DIR)?;
        let size = plan.file_size.max(u64::from(plan.size));
        for number in 0..plan.files.max(1) {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let name = format!("data{number}");
            let (fh, there) = client.make_file(&dir, name.as_bytes())?;
            if there != size {
                client.fill(&fh, number, size)?;
            }
            self.files.push((fh, size));
        }
        self.known_content = true;
        Ok(())
    }

    fn make_own(
        &mut self,
        client: &mut SetupClient,
        plan: &Plan,
        files: bool,
    ) -> Result<(), LoadError> {
        let dir = client.make_dir(&self.root, BENCH_DIR)?;
        for number in 0..plan.clients {
            let own = client.make_dir(&dir, format!("client{number}").as_bytes())?;
            self.client_dirs.push(own);
            if files {
                self.client_files.push(client.make_file(&own, b"written")?.0);
            }
        }
        Ok(())
    }

    /// Removes everything that loads have created on the server. Missing objects are not an error.
    ///
    /// # Errors
    /// A refusal of the server.
    pub fn clear(&self, plan: &Plan) -> Result<(), LoadError> {
        if plan.workload == Workload::Null {
            return Ok(());
        }
        let mut client = SetupClient::connect(plan)?;
        let Some(dir) = client.find(&self.root, BENCH_DIR)? else { return Ok(()) };
        client.empty(&dir)?;
        client.remove_dir(&self.root, BENCH_DIR)
    }
}

/// An entry of a directory, whatever the version.
pub(crate) struct DirItem {
    pub name: Vec<u8>,
    pub fh: Fh,
    pub is_dir: bool,
    pub size: u64,
}

/// One blocking client that speaks the version of the plan.
pub(crate) struct SetupClient {
    client: Client,
    mount_client: Option<Client>,
    version: Version,
    proto: Proto,
}

/// A client with a reserved port if the process may have one.
fn connect(addr: SocketAddr, plan: &Plan) -> Result<Client, client::Error> {
    let mut client = match plan.proto {
        Proto::Tcp => match sys::outgoing::connect_reserved(addr) {
            Ok(stream) => Client::over_tcp(stream, plan.timeout)?,
            Err(_) => Client::tcp(addr, plan.timeout)?,
        },
        Proto::Udp => {
            Client::udp_reserved(addr, plan.timeout).or_else(|_| Client::udp(addr, plan.timeout))?
        }
    };
    client.set_identity(Some(Identity::new(plan.uid, plan.uid)));
    Ok(client)
}

impl SetupClient {
    fn connect(plan: &Plan) -> Result<Self, LoadError> {
        let first = plan.servers.first().ok_or_else(|| LoadError::Plan("no server".into()))?;
        let client = connect(*first, plan)?;
        let mount_client = match plan.mount_port {
            Some(port) => Some(connect(SocketAddr::new(first.ip(), port), plan)?),
            None => None,
        };
        Ok(Self { client, mount_client, version: plan.version, proto: plan.proto })
    }

    fn null(&mut self) -> Result<(), client::Error> {
        match self.version {
            Version::V3 => self.client.null(),
            Version::V2 => self.client.null2(),
        }
    }

    /// The root's handle: from NFS's own port, else from where the port mapper says MOUNT is.
    fn mount(&mut self, plan: &Plan) -> Result<Fh, LoadError> {
        let path = plan.export.as_bytes();
        if let Some(mount) = &mut self.mount_client {
            return Ok(mount_on(mount, plan.version, path)?);
        }
        match mount_on(&mut self.client, plan.version, path) {
            Err(client::Error::Rejected(_)) => {}
            other => return Ok(other?),
        }
        let first = plan.servers.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 111).into());
        let mut portmap = connect(SocketAddr::new(first.ip(), 111), plan).map_err(|error| {
            let what = format!(
                "{first} has no MOUNT on its NFS port, and no port mapper says where it is \
                 ({error}); name its port"
            );
            LoadError::Nothing(what)
        })?;
        let protocol = plan.proto.ip_protocol();
        let version = if plan.version == Version::V3 { 3 } else { 1 };
        let port = portmap.getport(proto::mount::PROGRAM, version, protocol)?.ok_or_else(|| {
            LoadError::Nothing(format!(
                "the port mapper of {first} knows no MOUNT version {version}"
            ))
        })?;
        let mut mount = connect(SocketAddr::new(first.ip(), port), plan)?;
        Ok(mount_on(&mut mount, plan.version, path)?)
    }

    /// All entries of a directory but `.` and `..`.
    pub(crate) fn list(&mut self, dir: &Fh) -> Result<Vec<DirItem>, LoadError> {
        match self.version {
            Version::V3 => self.list3(dir),
            Version::V2 => self.list2(dir),
        }
    }

    fn list3(&mut self, dir: &Fh) -> Result<Vec<DirItem>, LoadError> {
        let (mut all, mut cookie, mut verf) = (Vec::new(), 0, Verf::default());
        loop {
            let piece = self.client.readdirplus(dir, cookie, verf, PIECE)?;
            verf = piece.verf;
            let stuck = piece.entries.is_empty() && !piece.eof;
            for entry in piece.entries {
                cookie = entry.cookie;
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let (fh, attr) = match (entry.handle, entry.attr) {
                    (Some(fh), Some(attr)) => (fh, Some(attr)),
                    _ => match self.client.lookup(dir, &entry.name) {
                        Ok(found) => (found.handle, found.attr),
                        // removed meanwhile
                        Err(client::Error::Nfs { .. }) => continue,
                        Err(other) => return Err(other.into()),
                    },
                };
                let is_dir = attr.is_some_and(|a| a.ftype == FileType3::Dir);
                let size = attr.map_or(0, |a| a.size);
                all.push(DirItem { name: entry.name, fh, is_dir, size });
            }
            if piece.eof || stuck {
                return Ok(all);
            }
        }
    }

    fn list2(&mut self, dir: &Fh) -> Result<Vec<DirItem>, LoadError> {
        let dir = super::call::fh2(dir);
        let (mut all, mut cookie) = (Vec::new(), 0);
        loop {
            let (entries, eof) = self.client.readdir2(&dir, cookie, 8192)?;
            let stuck = entries.is_empty() && !eof;
            for entry in entries {
                cookie = entry.cookie;
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let found = match self.client.lookup2(&dir, &entry.name) {
                    Ok(found) => found,
                    Err(client::Error::Nfs { .. }) => continue,
                    Err(other) => return Err(other.into()),
                };
                let Some(fh) = Fh::new(&found.file) else { continue };
                let is_dir = found.attr.ftype == proto::nfs2::FileType2::Dir;
                all.push(DirItem { name: entry.name, fh, is_dir, size: found.attr.size.into() });
            }
            if eof || stuck {
                return Ok(all);
            }
        }
    }

    /// The object of a name, with its size; `None` if there is none.
    pub(crate) fn find(&mut self, dir: &Fh, name: &[u8]) -> Result<Option<Fh>, LoadError> {
        let found = match self.version {
            Version::V3 => self.client.lookup(dir, name).map(|found| Some(found.handle)),
            Version::V2 => {
                let dir = super::call::fh2(dir);
                self.client.lookup2(&dir, name).map(|found| Fh::new(&found.file))
            }
        };
        match found {
            Err(client::Error::Nfs { number: NOENT, .. }) => Ok(None),
            other => Ok(other?),
        }
    }

    fn make_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<Fh, LoadError> {
        let made = match self.version {
            Version::V3 => {
                let set = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
                self.client.mkdir(dir, name, set).map(|_| ())
            }
            Version::V2 => {
                let set = proto::nfs2::Sattr2 { mode: 0o777, ..proto::nfs2::Sattr2::default() };
                self.client.mkdir2(&super::call::fh2(dir), name, set).map(|_| ())
            }
        };
        match made {
            Ok(()) | Err(client::Error::Nfs { number: EXIST, .. }) => {}
            Err(source @ client::Error::Nfs { .. }) => {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(LoadError::NotWritable { name, source });
            }
            Err(other) => return Err(other.into()),
        }
        self.must_find(dir, name)
    }

    fn must_find(&mut self, dir: &Fh, name: &[u8]) -> Result<Fh, LoadError> {
        let gone = || {
            let name = String::from_utf8_lossy(name).into_owned();
            LoadError::Nothing(format!("the server made {name} but does not find it"))
        };
        self.find(dir, name)?.ok_or_else(gone)
    }

    /// A file and its size; an existing one is reused.
    fn make_file(&mut self, dir: &Fh, name: &[u8]) -> Result<(Fh, u64), LoadError> {
        match self.version {
            Version::V3 => {
                let set = Sattr3 { mode: Some(0o666), ..Sattr3::default() };
                self.client.create(dir, name, CreateHow3::Unchecked(set))?;
                let found = self.client.lookup(dir, name)?;
                Ok((found.handle, found.attr.map_or(0, |attr| attr.size)))
            }
            Version::V2 => {
                let dir2 = super::call::fh2(dir);
                let set = proto::nfs2::Sattr2 { mode: 0o666, ..proto::nfs2::Sattr2::default() };
                self.client.create2(&dir2, name, set)?;
                let found = self.client.lookup2(&dir2, name)?;
                let fh = Fh::new(&found.file).unwrap_or(*dir);
                Ok((fh, found.attr.size.into()))
            }
        }
    }

    /// Writes the known content.
    fn fill(&mut self, fh: &Fh, number: u32, size: u64) -> Result<(), LoadError> {
        let at_once = match self.version {
            // a size that every server accepts over UDP as well
            Version::V3 if self.proto == Proto::Udp => 32 << 10,
            Version::V3 => WRITE_AT_ONCE,
            Version::V2 => 8192,
        };
        let mut data = vec![0; at_once];
        let mut offset = 0;
        while offset < size {
            let left = usize::try_from(size - offset).unwrap_or(at_once).min(at_once);
            let piece = data.get_mut(..left).unwrap_or_default();
            pattern::fill(number, offset, piece);
            let done = match self.version {
                Version::V3 => {
                    self.client.write(fh, offset, piece, StableHow::Unstable)?.count as usize
                }
                Version::V2 => {
                    let at = u32::try_from(offset).unwrap_or(u32::MAX);
                    self.client.write2(&super::call::fh2(fh), at, piece)?;
                    left
                }
            };
            if done == 0 {
                return Err(LoadError::Nothing("the server writes 0 bytes of a WRITE".into()));
            }
            // a short WRITE may end within a word of the pattern
            offset += (done as u64) & !7;
        }
        Ok(())
    }

    /// Removes everything below a directory.
    fn empty(&mut self, dir: &Fh) -> Result<(), LoadError> {
        for entry in self.list(dir)? {
            if entry.is_dir {
                self.empty(&entry.fh)?;
                self.remove_dir(dir, &entry.name)?;
                continue;
            }
            match self.version {
                Version::V3 => self.client.remove(dir, &entry.name).map(|_| ())?,
                Version::V2 => self.client.remove2(&super::call::fh2(dir), &entry.name)?,
            }
        }
        Ok(())
    }

    fn remove_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), LoadError> {
        match self.version {
            Version::V3 => self.client.rmdir(dir, name).map(|_| ())?,
            Version::V2 => self.client.rmdir2(&super::call::fh2(dir), name)?,
        }
        Ok(())
    }
}

/// The port of the lock manager: the one that the plan names, NFS's own (`None`), or what the port mapper says.
fn find_lock_manager(plan: &Plan) -> Result<Option<u16>, LoadError> {
    if plan.lock_port.is_some() {
        return Ok(plan.lock_port);
    }
    let first = *plan.servers.first().ok_or_else(|| LoadError::Plan("no server".into()))?;
    match connect(first, plan)?.nlm_null(NLM_VERSION) {
        Ok(()) => return Ok(None),
        Err(client::Error::Rejected(_)) => {}
        Err(other) => return Err(other.into()),
    }
    let unknown = |why: &dyn std::fmt::Display| {
        let what = format!(
            "{first} has no lock manager (NLM 4) on its NFS port, and no port mapper says where it is ({why}); name \
             its port"
        );
        LoadError::Nothing(what)
    };
    let mut portmap =
        connect(SocketAddr::new(first.ip(), 111), plan).map_err(|error| unknown(&error))?;
    let port = portmap.getport(proto::nlm::PROGRAM, NLM_VERSION, plan.proto.ip_protocol());
    match port.map_err(|error| unknown(&error))? {
        Some(port) => Ok(Some(port)),
        None => Err(unknown(&"it knows none")),
    }
}

fn mount_on(client: &mut Client, version: Version, path: &[u8]) -> Result<Fh, client::Error> {
    match version {
        Version::V3 => client.mount(path),
        Version::V2 => {
            let handle = client.mount_old(1, path)?;
            Fh::new(&handle).ok_or(client::Error::Unsendable("a handle over 64 bytes"))
        }
    }
}
