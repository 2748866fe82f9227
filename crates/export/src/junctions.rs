//! Junctions: where exports lie inside other exports, so that a path walk continues in the inner export.
//!
//! Owns, for each table: the directories of the outer exports and the names in them at which inner exports begin. They
//! are found by look-ups in the outer exports, which may block on the file system; so the search runs after the table was
//! put into service, in a thread that nothing waits for, and stores its result once. Reading takes no lock.

use crate::export::{Export, ExportId};
use crate::squash::SquashedCred;
use crate::table::below;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use vfs::{Component, Cx, Durability, Fid, IgnoreBlocking, ListArgs, Right};

/// The names in a directory that lead to other exports, by index in the table.
pub type JunctionNames = HashMap<Vec<u8>, usize>;

/// The directory of an outer export at which the root of an inner export lies.
#[derive(Debug, Clone, Copy)]
pub struct CoveredDir {
    /// The outer export, by index in the table.
    pub(crate) parent: usize,
    /// The directory that contains the covered one.
    pub dir: Fid,
    /// The file id of the covered directory.
    pub covered_fileid: Option<u64>,
}

/// The junctions of a table.
#[derive(Debug, Default)]
pub struct Junctions(OnceLock<JunctionMap>);

/// The result of a search.
#[derive(Debug, Default)]
pub struct JunctionMap {
    dirs: HashMap<(ExportId, Fid), JunctionNames>,
    covered_dirs: HashMap<ExportId, CoveredDir>,
}

impl Junctions {
    /// The result; `None` before the search has finished or if there are no junctions.
    #[inline]
    pub fn found(&self) -> Option<&JunctionMap> {
        self.0.get()
    }
}

impl JunctionMap {
    /// The export at a name of a directory.
    pub fn at(&self, parent: ExportId, dir: &Fid, name: &[u8]) -> Option<usize> {
        self.names(parent, dir)?.get(name).copied()
    }

    /// The junctions of a directory.
    pub fn names(&self, parent: ExportId, dir: &Fid) -> Option<&JunctionNames> {
        self.dirs.get(&(parent, *dir))
    }

    /// The directory that the root of an export covers.
    pub fn covered_dir(&self, export: ExportId) -> Option<&CoveredDir> {
        self.covered_dirs.get(&export)
    }
}

/// A search for junctions, not started yet.
pub struct JunctionSearch {
    exports: Vec<Arc<Export>>,
    /// Outer export, inner export, and the path between them.
    nested: Vec<(usize, usize, Vec<u8>)>,
    result: Arc<Junctions>,
}

impl JunctionSearch {
    pub(crate) fn new(exports: &[Arc<Export>], result: &Arc<Junctions>) -> Option<Self> {
        let mut nested = Vec::new();
        for (inner, export) in exports.iter().enumerate() {
            let outer = exports
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != inner)
                .filter_map(|(at, other)| Some((at, other, below(&other.path, &export.path)?)))
                .max_by_key(|(_, other, _)| other.path.len());
            if let Some((outer, _, path)) = outer {
                nested.push((outer, inner, path.to_vec()));
            }
        }
        (!nested.is_empty()).then(|| Self {
            exports: exports.to_vec(),
            nested,
            result: Arc::clone(result),
        })
    }

    /// Searches for the directories. An export whose directory does not exist is left out.
    pub fn run(self) {
        let mut found = JunctionMap::default();
        for (outer, inner, path) in &self.nested {
            let (Some(parent), Some(export)) = (self.exports.get(*outer), self.exports.get(*inner))
            else {
                continue;
            };
            let Some((dir, name)) = walk(parent, path) else { continue };
            let covered_fileid = fileid_of(parent, &dir, name);
            found
                .covered_dirs
                .insert(export.id, CoveredDir { parent: *outer, dir, covered_fileid });
            found.dirs.entry((parent.id, dir)).or_default().insert(name.to_vec(), *inner);
        }
        // there is one search per table
        let _ = self.result.0.set(found);
    }
}

/// Calls are made with the server's identity.
fn cx<'c>(cred: &'c SquashedCred<'static>) -> Cx<'c> {
    Cx {
        cred: cred.cred(),
        blocking: &IgnoreBlocking,
        durability: Durability::Async,
        right: Right::Check,
        attr_cache_ms: 0,
    }
}

/// The directory that the last name of a path is in.
fn walk<'p>(export: &Export, path: &'p [u8]) -> Option<(Fid, &'p [u8])> {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let last = names.next_back()?;
    let mut dir = export.backend.root();
    for name in names {
        let name = Component::new(name).ok()?;
        dir = export.backend.lookup(&cx(&SquashedCred::ROOT), &dir, name).ok()?.node.fid;
    }
    Some((dir, last))
}

/// The file id that a directory lists for a name.
fn fileid_of(export: &Export, dir: &Fid, name: &[u8]) -> Option<u64> {
    let mut cookie = 0;
    loop {
        let (mut found, before) = (None, cookie);
        let listing = export.backend.readdir(
            &cx(&SquashedCred::ROOT),
            dir,
            ListArgs::all(cookie, false),
            &mut |entry| {
                cookie = entry.cookie;
                if entry.name == name {
                    found = Some(entry.fileid);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            },
        );
        match (found, listing) {
            (Some(fileid), _) => return Some(fileid),
            (None, Ok(listing)) if !listing.eof && cookie != before => {}
            (None, _) => return None,
        }
    }
}
