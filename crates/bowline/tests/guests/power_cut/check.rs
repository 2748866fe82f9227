//! Afterwards: what each copy of the disk holds, against what had been promised when it was made.
//! It is read by the kernel, without the server.

use super::tree::{DIRS, File, Node, SECTOR, Slot, Tree, content};
use crate::random::Xorshift;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Looks at the copies 0 to `steps`; what is wrong with them.
pub fn check(seed: u64, steps: u64, job: &Path, fs: &str) -> Vec<String> {
    let (mut random, mut tree) = (Xorshift(seed), Tree::default());
    let mut wrong = Vec::new();
    let mut last = String::from("nothing");
    for n in 0..=steps {
        if n > 0 {
            let step = tree.choose(&mut random, n);
            tree.answered(step);
            last = format!("{step:?}");
        }
        let copy = job.join(format!("cut.{n}"));
        let mounted = Mounted::new(&copy, fs);
        let found = mounted.differences(&tree);
        wrong.extend(found.into_iter().map(|what| format!("after {n}, {last}: {what}")));
        drop(mounted);
        std::fs::remove_file(copy).unwrap();
    }
    wrong
}

/// A copy of the disk, mounted: the file system's journal is played back as after a power cut.
struct Mounted(PathBuf);

impl Mounted {
    fn new(copy: &Path, fs: &str) -> Self {
        let at = PathBuf::from("/mnt/cut");
        // the original and its copies have one name for their file system
        let options = if fs == "xfs" { "loop,nouuid" } else { "loop" };
        let done =
            Command::new("mount").args(["-t", fs, "-o", options]).arg(copy).arg(&at).status();
        assert!(done.unwrap().success(), "{} cannot be mounted", copy.display());
        Self(at)
    }

    fn differences(&self, tree: &Tree) -> Vec<String> {
        let served = self.0.join("served");
        let mut wrong = Vec::new();
        for (number, dir) in DIRS.iter().enumerate() {
            let mut expected: BTreeSet<Vec<u8>> = tree
                .names
                .keys()
                .filter(|at| at.dir == number)
                .map(|at| at.name().into())
                .collect();
            if number == 0 {
                expected.extend(DIRS[1..].iter().map(|name| name.as_bytes().to_vec()));
            }
            let there: BTreeSet<Vec<u8>> = match std::fs::read_dir(served.join(dir)) {
                Ok(all) => all.map(|entry| entry.unwrap().file_name().into_vec()).collect(),
                Err(error) => {
                    wrong.push(format!("{dir:?}: {error}"));
                    continue;
                }
            };
            if there != expected {
                let text = |names: &BTreeSet<Vec<u8>>| {
                    names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
                };
                let (there, expected): (Vec<_>, Vec<_>) = (text(&there), text(&expected));
                wrong.push(format!("{dir:?} has {there:?} instead of {expected:?}"));
            }
        }
        for (at, node) in &tree.names {
            if let Err(what) = object(&path(&served, *at), *node, tree) {
                wrong.push(format!("{at:?}: {what}"));
            }
        }
        wrong
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()), "the copy stays mounted");
    }
}

fn path(served: &Path, at: Slot) -> PathBuf {
    served.join(DIRS[at.dir]).join(OsStr::from_bytes(at.name()))
}

/// What is wrong with an object.
fn object(path: &Path, node: Node, tree: &Tree) -> Result<(), String> {
    let there = std::fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    let kind = there.file_type();
    let right = match node {
        Node::File(_) => kind.is_file(),
        Node::Dir(_) => kind.is_dir(),
        Node::Fifo(_) => kind.is_fifo(),
        Node::Symlink(to) => {
            std::fs::read_link(path).is_ok_and(|l| l.as_os_str() == &*to.to_string())
        }
    };
    match node {
        _ if !right => Err(format!("{kind:?} instead of {node:?}")),
        Node::File(id) => file(path, &there, &tree.files[id], tree.links(id)),
        Node::Dir(mode) | Node::Fifo(mode) => same_mode(&there, mode),
        Node::Symlink(_) => Ok(()),
    }
}

fn same_mode(there: &Metadata, mode: Option<u32>) -> Result<(), String> {
    let is = there.mode() & 0o7777;
    match mode {
        Some(mode) if is != mode => Err(format!("mode {is:o}, not {mode:o}")),
        _ => Ok(()),
    }
}

/// What is wrong with a file.
fn file(path: &Path, there: &Metadata, file: &File, links: u64) -> Result<(), String> {
    let wrong = |what: &str, is: u64, expected: String| Err(format!("{what} {is}, not {expected}"));
    if !(file.safe..=file.size).contains(&there.len()) || !there.len().is_multiple_of(SECTOR) {
        return wrong("length", there.len(), format!("{} to {}", file.safe, file.size));
    }
    if there.nlink() != links {
        return wrong("links", there.nlink(), links.to_string());
    }
    same_mode(there, file.mode)?;
    if let Some(mtime) = file.mtime.filter(|mtime| there.mtime() != i64::from(*mtime)) {
        return wrong("mtime", there.mtime() as u64, mtime.to_string());
    }
    let data = std::fs::read(path).map_err(|error| error.to_string())?;
    for (number, (is, allowed)) in data.chunks(SECTOR as usize).zip(&file.sectors).enumerate() {
        if !allowed.iter().any(|tag| content(number as u64, *tag) == is) {
            let tag = u64::from_le_bytes(is[..8].try_into().unwrap()) >> 32;
            return wrong(&format!("sector {number} is of write"), tag, format!("{allowed:?}"));
        }
    }
    Ok(())
}
