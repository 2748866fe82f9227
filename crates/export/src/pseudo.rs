//! The pseudo file system of version 4 (RFC 8881 §7.3): read-only directories that lead from the root of the server to
//! its exports.
//!
//! Owns: the tree, made of the paths of the exports of one table, and its back end. A node that is an export stands for
//! the root of that export; a path walk continues there. An export of the path `/`, or else one with `fsid=0`, is the
//! root itself. Everything below an export belongs to that export; where another export begins there, a junction
//! ([`crate::junctions`]) leads into it.
//!
//! A node's handle, file id and change attribute are derived from its path and from the names below it, so that they
//! are stable over reloads and restarts, as long as these are.

use crate::export::Requester;
use crate::export::{Export, ExportSpec, Fsid, Source};
use crate::handle::{Handle, Key};
use crate::resolver::Resolver;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::{
    AccessMask, Attr, Backend, Change, ChangeKind, Component, Cx, DirEntry, Fid, FileType, Found,
    Limits, ListArgs, Listing, Node, ReadDone, Result, Stability, StatFs, Status, Time, Verifier,
    Want, WriteDone,
};

/// The identity of the pseudo file system: no export has it, since it is not a UUID that `fsid=` or the state
/// directory can produce.
const UUID: [u8; 16] = *b"bowline pseudofs";
/// The cookie of `.`; that of `..` is one more, that of the first entry two more.
const FIRST_COOKIE: u64 = 1;

/// A directory of the tree.
struct Dir {
    name: Vec<u8>,
    fid: Fid,
    fileid: u64,
    /// Its parent; the root is its own.
    parent: usize,
    /// Its entries by name.
    children: BTreeMap<Vec<u8>, usize>,
    /// The export of the node, by index in the table.
    export: Option<usize>,
    /// The exports at or below it.
    below: Vec<usize>,
    change: u64,
}

/// The tree.
struct Tree {
    /// The first is the root.
    dirs: Vec<Dir>,
    by_fileid: BTreeMap<u64, usize>,
    since: Time,
}

fn hash_of(path: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 4);
    hasher.write(path);
    // never 0, which some clients treat as "no file id"
    hasher.finish() | 1
}

impl Tree {
    fn new(paths: &[Option<&[u8]>]) -> Self {
        let mut tree = Self { dirs: Vec::new(), by_fileid: BTreeMap::new(), since: Time::now() };
        tree.add(b"/", b"", 0);
        for (export, path) in paths.iter().enumerate() {
            if let Some(path) = path {
                tree.add_export(export, path);
            }
        }
        for dir in &mut tree.dirs {
            let mut hasher = SipHasher13::new_with_keys(0, 5);
            for (name, child) in &dir.children {
                hasher.write(name);
                hasher.write_usize(*child);
            }
            dir.change = hasher.finish();
        }
        tree
    }

    fn add(&mut self, path: &[u8], name: &[u8], parent: usize) -> usize {
        let (at, fileid) = (self.dirs.len(), hash_of(path));
        self.dirs.push(Dir {
            name: name.to_vec(),
            fid: Fid::from_u64(fileid),
            fileid,
            parent,
            children: BTreeMap::new(),
            export: None,
            below: Vec::new(),
            change: 0,
        });
        self.by_fileid.insert(fileid, at);
        at
    }

    fn add_export(&mut self, export: usize, path: &[u8]) {
        let mut at = 0;
        let mut end = 0;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            end += 1 + name.len();
            self.add_to_ancestors(at, export);
            let known = self.dirs.get(at).and_then(|dir| dir.children.get(name).copied());
            at = known.unwrap_or_else(|| {
                let child = self.add(path.get(..end).unwrap_or_default(), name, at);
                if let Some(dir) = self.dirs.get_mut(at) {
                    dir.children.insert(name.to_vec(), child);
                }
                child
            });
        }
        self.add_to_ancestors(at, export);
        if let Some(dir) = self.dirs.get_mut(at) {
            dir.export = Some(export);
        }
    }

    fn add_to_ancestors(&mut self, at: usize, export: usize) {
        if let Some(dir) = self.dirs.get_mut(at)
            && dir.below.last() != Some(&export)
        {
            dir.below.push(export);
        }
    }

    fn dir(&self, fid: &Fid) -> Result<&Dir> {
        let bytes = fid.bytes().first_chunk::<8>().ok_or(Status::BadHandle)?;
        let at = self.by_fileid.get(&u64::from_be_bytes(*bytes)).ok_or(Status::Stale)?;
        self.dirs.get(*at).ok_or(Status::Stale)
    }

    fn at(&self, at: usize) -> Result<&Dir> {
        self.dirs.get(at).ok_or(Status::Stale)
    }

    fn attr(&self, dir: &Dir) -> Attr {
        let links = dir.children.len().saturating_add(2);
        Attr {
            ftype: FileType::Directory,
            mode: 0o555,
            nlink: u32::try_from(links).unwrap_or(u32::MAX),
            uid: 0,
            gid: 0,
            size: 4096,
            used: 0,
            rdev: (0, 0),
            fsid: 0,
            fileid: dir.fileid,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            change: dir.change,
            birth: None.into(),
        }
    }

    fn node(&self, dir: &Dir) -> Node {
        Node { fid: dir.fid, attr: self.attr(dir) }
    }
}

/// The root of a server's tree.
pub enum Root<'t> {
    /// At the root of an export.
    Export(&'t Arc<Export>),
    /// At the root of the pseudo file system.
    Pseudo,
}

/// The pseudo file system of a table of exports.
pub struct Pseudo {
    export: Arc<Export>,
    tree: Arc<Tree>,
    /// The index in the table of the export that is the root.
    root: Option<usize>,
}

impl Pseudo {
    pub(crate) fn new(exports: &[Arc<Export>], key: Key, resolver: &Arc<Resolver>) -> Self {
        // an export created by crossmnt is reached only through the export around it
        let path = |export: &'_ Arc<Export>| (!export.crossed).then(|| export.path.clone());
        let paths: Vec<Option<Vec<u8>>> = exports.iter().map(path).collect();
        let paths: Vec<Option<&[u8]>> = paths.iter().map(Option::as_deref).collect();
        let is_root = |export: &Arc<Export>| export.path == b"/";
        let is_zero = |export: &Arc<Export>| export.fsid == Some(Fsid::Number(0));
        let root = exports.iter().position(is_root).or_else(|| exports.iter().position(is_zero));
        let tree = Arc::new(Tree::new(&paths));
        let spec = ExportSpec {
            path: b"/".to_vec(),
            source: Source::scheme("pseudo", ""),
            fsid: None,
            rules: Vec::new(),
            mount_point: None,
            locations: None,
            crossed: false,
        };
        let backend = Arc::clone(&tree) as Arc<dyn Backend>;
        let export = Arc::new(Export::new(&spec, (u16::MAX, UUID), key, backend, resolver));
        Self { export, tree, root }
    }

    /// The root of the server's tree.
    pub fn root<'t>(&self, exports: &'t [Arc<Export>]) -> Root<'t> {
        self.root.and_then(|at| exports.get(at)).map_or(Root::Pseudo, Root::Export)
    }

    /// The path of an export from the root of the server's tree; `None` if the root is an export that does not contain it.
    pub fn path_of<'p>(&self, path: &'p [u8], exports: &[Arc<Export>]) -> Option<&'p [u8]> {
        let Root::Export(root) = self.root(exports) else { return Some(path) };
        let root = root.path.strip_suffix(b"/").unwrap_or(&root.path);
        match path.strip_prefix(root)? {
            b"" => Some(b"/"),
            below if below.starts_with(b"/") => Some(below),
            _ => None,
        }
    }

    /// The pseudo file system as an export of its own.
    pub const fn export(&self) -> &Arc<Export> {
        &self.export
    }

    /// Whether an export is the pseudo file system.
    pub fn is(&self, export: &Export) -> bool {
        self.export.id == export.id
    }

    /// Whether a client may enter any of the exports at or below a node.
    pub fn is_visible(&self, fid: &Fid, exports: &[Arc<Export>], who: &Requester<'_>) -> bool {
        use crate::export::ClientAccess::{Allowed, TransportSecurityTooWeak, Unresolved};
        let below = self.tree.dir(fid).map_or(&[][..], |dir| &dir.below);
        let access = |at: &usize| exports.get(*at).map(|export| export.access_for(who));
        let may = |found| matches!(found, Some(Allowed(_) | TransportSecurityTooWeak | Unresolved));
        below.is_empty() || below.iter().any(|at| may(access(at)))
    }

    /// The export of a node.
    pub fn export_at<'t>(&self, fid: &Fid, exports: &'t [Arc<Export>]) -> Option<&'t Arc<Export>> {
        exports.get(self.tree.dir(fid).ok()?.export?)
    }

    /// The node of an export, and its parent directory; `None` for the root.
    pub fn parent_of(&self, export: &Export, exports: &[Arc<Export>]) -> Option<Fid> {
        let dir = self.node_of(export, exports)?;
        let parent = self.tree.at(dir.parent).ok()?;
        // for an export below another one, only its own node is known here
        (parent.fid != dir.fid).then_some(parent.fid)
    }

    /// The file id of the directory that an export covers.
    pub fn covered_fileid(&self, export: &Export, exports: &[Arc<Export>]) -> Option<u64> {
        self.node_of(export, exports).map(|dir| dir.fileid)
    }

    fn node_of(&self, export: &Export, exports: &[Arc<Export>]) -> Option<&Dir> {
        let at = exports.iter().position(|other| other.id == export.id)?;
        if self.root == Some(at) {
            return None;
        }
        self.tree.dirs.iter().find(|dir| dir.export == Some(at))
    }

    /// The wire handle of a node.
    pub fn seal(&self, fid: &Fid) -> Handle {
        self.export.seal(fid)
    }
}

/// The read-only file system: every change is refused.
impl Backend for Tree {
    fn root(&self) -> Fid {
        self.dirs.first().map_or_else(|| Fid::from_u64(hash_of(b"/")), |root| root.fid)
    }

    fn root_fsid(&self) -> u64 {
        0
    }

    fn limits(&self) -> Limits {
        Limits {
            name_max: 255,
            link_max: 1,
            file_size_max: 0,
            time_delta_ns: 1,
            hard_links: false,
            symlinks: false,
            case_insensitive: false,
            chown_restricted: true,
            change_kind: ChangeKind::Undefined,
            clone_block: None,
        }
    }

    fn write_verifier(&self) -> Verifier {
        [0; 8]
    }

    fn statfs(&self, _: &Cx<'_>, fid: &Fid) -> Result<StatFs> {
        Ok(StatFs {
            total_bytes: 0,
            free_bytes: 0,
            avail_bytes: 0,
            total_files: self.dirs.len() as u64,
            free_files: 0,
            avail_files: 0,
            attr: self.attr(self.dir(fid)?),
        })
    }

    fn getattr(&self, _: &Cx<'_>, fid: &Fid, _: Want) -> Result<Attr> {
        Ok(self.attr(self.dir(fid)?))
    }

    fn access(&self, _: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)> {
        let may = AccessMask::READ | AccessMask::LOOKUP | AccessMask::EXECUTE;
        Ok((mask & may, self.attr(self.dir(fid)?)))
    }

    fn lookup(&self, _: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
        let dir = self.dir(dir)?;
        let found = match name {
            Component::Dot => dir,
            Component::DotDot => self.at(dir.parent)?,
            Component::Name(name) => {
                self.at(*dir.children.get(name.bytes()).ok_or(Status::NoEnt)?)?
            }
        };
        Ok(Found { node: self.node(found), dir: self.attr(dir) })
    }

    fn readlink(&self, _: &Cx<'_>, _: &Fid, _: &mut Vec<u8>) -> Result<Attr> {
        Err(Status::Inval)
    }

    fn read(&self, _: &Cx<'_>, _: &Fid, _: u64, _: &mut [u8]) -> Result<ReadDone> {
        Err(Status::IsDir)
    }

    fn write(&self, _: &Cx<'_>, _: &Fid, _: u64, _: &[u8], _: Stability) -> Result<WriteDone> {
        Err(Status::IsDir)
    }

    fn commit(&self, _: &Cx<'_>, _: &Fid, _: u64, _: u64) -> Result<Change> {
        Err(Status::IsDir)
    }

    fn readdir(
        &self,
        _: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        let dir = self.dir(dir)?;
        let children = dir.children.values().filter_map(|at| self.dirs.get(*at));
        let named = children.map(|child| (child.name.as_slice(), child));
        let parent = self.at(dir.parent)?;
        let dots = [(b".".as_slice(), dir), (b"..".as_slice(), parent)];
        for (cookie, (name, child)) in (FIRST_COOKIE..).zip(dots.into_iter().chain(named)) {
            if cookie <= args.cookie {
                continue;
            }
            let node = args.nodes.then(|| self.node(child));
            let entry = DirEntry { name, fileid: child.fileid, cookie, node: node.as_ref() };
            if sink(&entry).is_break() {
                return Ok(Listing { eof: false, dir: self.attr(dir) });
            }
        }
        Ok(Listing { eof: true, dir: self.attr(dir) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Backend, Component, Cx, Fid, ListArgs, Status, Tree};
    use std::ops::ControlFlow;
    use vfs::{Cred, Durability, IgnoreBlocking, Name, Right};

    fn cx() -> Cx<'static> {
        let cred = Cred { uid: 1, gid: 1, groups: &[] };
        Cx {
            cred,
            blocking: &IgnoreBlocking,
            durability: Durability::Sync,
            right: Right::Check,
            attr_cache_ms: 0,
        }
    }

    fn names(tree: &Tree, dir: &Fid, cookie: u64) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        let listing = tree.readdir(&cx(), dir, ListArgs::all(cookie, true), &mut |entry| {
            assert_ne!(entry.fileid, 0);
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        });
        assert!(listing.unwrap().eof);
        names
    }

    fn find(tree: &Tree, dir: &Fid, name: &[u8]) -> Result<Fid, Status> {
        let name = Component::Name(Name::new(name).unwrap());
        tree.lookup(&cx(), dir, name).map(|found| found.node.fid)
    }

    #[test]
    fn paths_share_their_directories() {
        let tree = Tree::new(&[Some(b"/srv/a"), Some(b"/srv/b"), Some(b"/home")]);
        let root = tree.root();
        assert_eq!(names(&tree, &root, 0), [&b"."[..], b"..", b"home", b"srv"]);
        assert_eq!(names(&tree, &root, 3), [b"srv"]);
        let srv = find(&tree, &root, b"srv").unwrap();
        assert_eq!(names(&tree, &srv, 2), [b"a", b"b"]);
        let a = find(&tree, &srv, b"a").unwrap();
        assert_eq!(tree.dir(&a).unwrap().export, Some(0));
        assert_eq!(tree.dir(&srv).unwrap().below, [0, 1]);
        let up = tree.lookup(&cx(), &a, Component::DotDot).unwrap();
        assert_eq!(up.node.fid, srv);
        assert_eq!(find(&tree, &srv, b"c"), Err(Status::NoEnt));
    }

    #[test]
    fn unchanged_nodes_keep_handles_and_changed_ones_change_attribute() {
        let before = Tree::new(&[Some(b"/srv/a"), Some(b"/home")]);
        let after = Tree::new(&[Some(b"/srv/a"), Some(b"/srv/b"), Some(b"/home")]);
        let (x, y) = (find(&before, &before.root(), b"srv"), find(&after, &after.root(), b"srv"));
        assert_eq!(x, y);
        let change = |tree: &Tree, fid: &Fid| tree.dir(fid).unwrap().change;
        assert_ne!(change(&before, &x.unwrap()), change(&after, &y.unwrap()));
        let gone = find(&after, &y.unwrap(), b"b").unwrap();
        assert_eq!(before.dir(&gone).err(), Some(Status::Stale));
        assert_eq!(before.dir(&Fid::new(b"x").unwrap()).err(), Some(Status::BadHandle));
    }
}
