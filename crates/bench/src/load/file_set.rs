//! The objects on the server that a load works on, prepared before it begins: handles, names, files
//! of its own.
//!
//! Everything here is created by blocking calls of one client and then only read, so that the
//! threads of a load share it without a lock. The objects that the load creates are in one
//! directory, [`BENCH_DIR`], below the export's root, and are removed by [`FileSet::clear`].

use super::error::LoadError;
use super::op::{NLM_VERSION, Op, Version};
use super::plan::{Plan, Workload};
use super::recording::{self, Step};
use super::setup::{DirItem, ObjectKind, SetupClient, connect};
use client::Fh;
use std::net::SocketAddr;

/// The directory of everything that a load creates.
pub const BENCH_DIR: &[u8] = b"bowline-bench";
/// The most objects that are read from a tree for workloads that pick at random.
const OBJECTS_MAX: usize = 20_000;
/// The most objects of a tree for `walk`.
const WALK_MAX: usize = 4_000_000;
/// The name of a client's own file.
const OWN_FILE: &[u8] = b"written";

/// An object of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object {
    pub fh: Fh,
    /// Index of its directory in [`FileSet::dirs`].
    pub dir: u32,
    name_at: u32,
    name_len: u16,
    pub kind: ObjectKind,
    pub size: u64,
}

/// A file that is read.
#[derive(Debug, Clone)]
pub(crate) struct DataFile {
    pub fh: Fh,
    pub size: u64,
    /// Where it is opened.
    pub dir: Fh,
    pub name: Box<[u8]>,
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
    /// Indices of the regular files among the objects, for workloads that open them.
    pub(crate) regular: Vec<u32>,
    /// Files of a known content, by number, or existing ones of at least the size of a READ.
    pub(crate) files: Vec<DataFile>,
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
            regular: Vec::new(),
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

    /// The directory of an object, and its name.
    pub(crate) fn place(&self, object: &Object) -> Option<(&Fh, &[u8])> {
        Some((&self.dirs.get(object.dir as usize)?.fh, self.name(object)))
    }

    /// A regular file, by its number among these.
    pub(crate) fn regular(&self, number: usize) -> Option<&Object> {
        self.objects.get(*self.regular.get(number)? as usize)
    }

    /// Where client number `client` finds a file that it may open: its own, if it has one.
    pub(crate) fn own_place(&self, client: usize) -> Option<(&Fh, &[u8])> {
        match (self.client_files.get(client), self.client_dirs.get(client)) {
            (Some(_), Some(dir)) => Some((dir, OWN_FILE)),
            _ => self.place(self.regular(0)?),
        }
    }

    /// A file set without a server, for servers that ignore handles: one directory of 64 files.
    pub fn synthetic(plan: &Plan) -> Self {
        let fh = |n: u8| Fh::new(&[n; 32]).unwrap_or(Fh::EMPTY);
        let mut file_set = FileSet::empty();
        file_set.root = fh(0xff);
        file_set.dirs = vec![Dir { fh: file_set.root, first: 0, count: 64 }];
        for n in 0..64_u8 {
            let name = format!("file{n}").into_bytes();
            let (kind, size) = (ObjectKind::File, plan.file_size.max(u64::from(plan.size)));
            let (dir, boxed) = (file_set.root, name.clone().into_boxed_slice());
            file_set.add(0, &DirItem { name, fh: fh(n), kind, size: plan.file_size });
            file_set.files.push(DataFile { fh: fh(n), size, dir, name: boxed });
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
            | Workload::Readdirplus
            | Workload::OpenClose => file_set.read_tree(&mut client, OBJECTS_MAX)?,
            Workload::Read => file_set.find_files(&mut client, plan)?,
            Workload::Write => file_set.make_own(&mut client, plan, true)?,
            Workload::Create | Workload::Untar => {
                file_set.make_own(&mut client, plan, plan.version.opens())?;
            }
            Workload::Lock => {
                file_set.make_own(&mut client, plan, true)?;
                if plan.version == Version::V3 {
                    file_set.lock_port = find_lock_manager(plan)?;
                }
            }
            Workload::Mixed => {
                file_set.make_files(&mut client, plan)?;
                file_set.make_own(&mut client, plan, true)?;
                file_set.read_tree(&mut client, OBJECTS_MAX)?;
            }
            Workload::Replay(path) => {
                file_set.steps = recording::read(path, &mut client, &file_set.root)?;
                let creates = file_set.steps.iter().any(|step| step.op == Op::Create);
                if plan.version == Version::V40 && creates {
                    // to confirm the owners of opens with
                    file_set.make_own(&mut client, plan, true)?;
                }
            }
        }
        let export = &plan.export;
        match plan.workload {
            Workload::Lookup if file_set.objects.is_empty() => {
                let what =
                    format!("{export} is empty: there is no name to look up; put files there");
                Err(LoadError::Nothing(what))
            }
            Workload::OpenClose if file_set.regular.is_empty() => {
                let what = format!("{export} has no regular file to open; put files there");
                Err(LoadError::Nothing(what))
            }
            _ => Ok(file_set),
        }
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
            let found: Vec<Fh> = self
                .objects
                .iter()
                .skip(first)
                .filter(|o| o.kind == ObjectKind::Dir)
                .map(|o| o.fh)
                .collect();
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
        let (fh, kind, size) = (entry.fh, entry.kind, entry.size);
        if kind == ObjectKind::File
            && let Ok(index) = u32::try_from(self.objects.len())
        {
            self.regular.push(index);
        }
        self.objects.push(Object { fh, dir, name_at, name_len, kind, size });
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
                let large =
                    |o: &&Object| o.kind == ObjectKind::File && o.size >= u64::from(plan.size);
                let file = |o: &Object| {
                    let (dir, name) = self.place(o)?;
                    Some(DataFile { fh: o.fh, size: o.size, dir: *dir, name: name.into() })
                };
                self.files = self.objects.iter().filter(large).filter_map(file).collect();
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
            self.files.push(DataFile { fh, size, dir, name: name.into_bytes().into() });
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
                self.client_files.push(client.make_file(&own, OWN_FILE)?.0);
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
