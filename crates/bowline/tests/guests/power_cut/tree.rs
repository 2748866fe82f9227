//! What a client was promised: the tree that its calls have made, and of each file what must be on
//! disk and what may be. Everything follows from a seed, so that those who work and those who
//! look afterwards agree without a word.
//!
//! Data is told by sectors: each knows the writes that may be in it. An unstable write adds itself; a
//! stable one, or a COMMIT, leaves only the last. The file's length is promised up to `safe`, and
//! may be anything from there to `size`.

use crate::random::Xorshift;
use std::collections::BTreeMap;

/// Each byte of the verifier of an exclusive CREATE.
pub const VERIFIER: u8 = 7;
/// Bytes of a sector: what is written is made of whole ones.
pub const SECTOR: u64 = 512;
/// The directories: the exported one and two below it.
pub const DIRS: [&str; 3] = ["", "a", "b"];
/// Names that are used in each.
const NAMES: [&[u8]; 5] = [b"v", b"w", b"x", b"y", b"z"];
/// Sectors that a file has at most: enough for a WRITE that goes to the file as it arrives.
const SECTORS_MAX: u64 = 2048;

/// A name in one of [`DIRS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub dir: usize,
    name: usize,
}

impl Slot {
    fn any(random: &mut Xorshift) -> Self {
        let mut one_of = |len: usize| random.one_of(len);
        Self { dir: one_of(DIRS.len()), name: one_of(NAMES.len()) }
    }

    pub fn name(self) -> &'static [u8] {
        NAMES[self.name]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A place in [`Tree::files`].
    File(usize),
    /// Its mode, unless the server chose it.
    Dir(Option<u32>),
    /// The same.
    Fifo(Option<u32>),
    /// Leads to this number.
    Symlink(u64),
}

#[derive(Debug, Clone, Copy)]
pub enum Exists {
    Guarded,
    Unchecked,
    Exclusive,
}

#[derive(Debug, Clone, Copy)]
pub enum Safety {
    Unstable,
    DataSync,
    FileSync,
}

/// A call.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Of a new file.
    Create {
        at: Slot,
        how: Exists,
        mode: u32,
    },
    /// Of one that is there: UNCHECKED, with a size of 0.
    Empty {
        at: Slot,
    },
    Mkdir {
        at: Slot,
    },
    Symlink {
        at: Slot,
        to: u64,
    },
    Mknod {
        at: Slot,
    },
    Link {
        file: Slot,
        at: Slot,
    },
    Rename {
        from: Slot,
        to: Slot,
    },
    Remove {
        at: Slot,
    },
    Rmdir {
        at: Slot,
    },
    /// Sectors from `first` on; `tag` is in all of them.
    Write {
        at: Slot,
        first: u64,
        count: u64,
        safety: Safety,
        tag: u64,
    },
    /// The same of sectors; `count` 0 goes to the end.
    Commit {
        at: Slot,
        first: u64,
        count: u64,
    },
    Resize {
        at: Slot,
        sectors: u64,
    },
    Mode {
        at: Slot,
        mode: u32,
    },
    Times {
        at: Slot,
        mtime: u32,
    },
}

/// A file, as its client knows it.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// `None`: the server chose it.
    pub mode: Option<u32>,
    /// `None`: now, whenever that was.
    pub mtime: Option<u32>,
    /// Bytes that were promised, and that there were before the power failed.
    pub safe: u64,
    pub size: u64,
    /// The tags that each sector may have; 0 is a hole.
    pub sectors: Vec<Vec<u64>>,
}

#[derive(Debug, Clone, Default)]
pub struct Tree {
    pub names: BTreeMap<Slot, Node>,
    /// All that there ever were.
    pub files: Vec<File>,
}

impl Tree {
    /// The next call: one that must succeed.
    pub fn choose(&self, random: &mut Xorshift, tag: u64) -> Step {
        loop {
            if let Some(step) = self.attempt(random, tag) {
                return step;
            }
        }
    }

    fn attempt(&self, random: &mut Xorshift, tag: u64) -> Option<Step> {
        let (at, other) = (Slot::any(random), Slot::any(random));
        let free = |place: Slot| !self.names.contains_key(&place);
        let file = self.file(at);
        let mode = 0o400 + random.below(0o400) as u32;
        let sector = random.below(SECTORS_MAX);
        Some(match random.below(20) {
            0 | 1 if free(at) => {
                let how = [Exists::Guarded, Exists::Unchecked, Exists::Exclusive];
                Step::Create { at, how: how[random.below(3) as usize], mode }
            }
            2 if file.is_some() => Step::Empty { at },
            3 if free(at) => Step::Mkdir { at },
            4 if free(at) => Step::Symlink { at, to: tag },
            5 if free(at) => Step::Mknod { at },
            6 if file.is_some() && free(other) => Step::Link { file: at, at: other },
            7 | 8 if self.may_rename(at, other) => Step::Rename { from: at, to: other },
            9 if !free(at) && !self.is_dir(at) => Step::Remove { at },
            10 if self.is_dir(at) => Step::Rmdir { at },
            11..=14 if file.is_some() => {
                let safety =
                    [Safety::Unstable, Safety::Unstable, Safety::DataSync, Safety::FileSync];
                let safety = safety[random.below(4) as usize];
                let longest = [16, 200, SECTORS_MAX][random.below(3) as usize];
                let first = sector.min(SECTORS_MAX - 1) / (1 + random.below(8));
                let count = 1 + random.below(longest.min(SECTORS_MAX - first));
                Step::Write { at, first, count, safety, tag }
            }
            15 | 16 => {
                let size = file?.size / SECTOR;
                let first = random.below(size.max(1));
                let count = 1 + random.below((size - first.min(size)).max(1));
                let whole = random.below(3) == 0;
                let (first, count) = if whole { (0, 0) } else { (first, count) };
                Step::Commit { at, first, count }
            }
            17 if file.is_some() => Step::Resize { at, sectors: sector / 2 },
            18 if self.has_mode(at) => Step::Mode { at, mode },
            19 if file.is_some() => Step::Times { at, mtime: 1_000_000 + tag as u32 },
            _ => return None,
        })
    }

    /// Whether a rename must succeed, and changes something.
    fn may_rename(&self, from: Slot, to: Slot) -> bool {
        let (Some(node), over) = (self.names.get(&from), self.names.get(&to)) else { return false };
        let dirs = || self.is_dir(from) || self.is_dir(to);
        over.is_none_or(|over| over != node && !dirs())
    }

    fn is_dir(&self, at: Slot) -> bool {
        matches!(self.names.get(&at), Some(Node::Dir(_)))
    }

    fn has_mode(&self, at: Slot) -> bool {
        self.names.get(&at).is_some_and(|node| !matches!(node, Node::Symlink(_)))
    }

    fn set_mode(&mut self, at: Slot, set: u32) {
        match self.names.get_mut(&at) {
            Some(Node::Dir(mode) | Node::Fifo(mode)) => *mode = Some(set),
            _ => self.file_mut(at).mode = Some(set),
        }
    }

    fn file(&self, at: Slot) -> Option<&File> {
        match self.names.get(&at)? {
            Node::File(id) => self.files.get(*id),
            _ => None,
        }
    }

    fn file_mut(&mut self, at: Slot) -> &mut File {
        match self.names[&at] {
            Node::File(id) => &mut self.files[id],
            ref other => panic!("{at:?} is {other:?}"),
        }
    }

    /// How many names a file has.
    pub fn links(&self, file: usize) -> u64 {
        self.names.values().filter(|node| **node == Node::File(file)).count() as u64
    }

    /// What is promised once the call was answered.
    pub fn answered(&mut self, step: Step) {
        match step {
            Step::Create { at, how, mode } => {
                // the verifier of an exclusive one is in its times
                let exclusive = matches!(how, Exists::Exclusive);
                let mtime = exclusive.then_some(u32::from_be_bytes([VERIFIER; 4]));
                let mode = (!exclusive).then_some(mode);
                self.files.push(File { mode, mtime, ..File::default() });
                self.names.insert(at, Node::File(self.files.len() - 1));
            }
            Step::Empty { at } => self.file_mut(at).resize(0),
            Step::Mkdir { at } => drop(self.names.insert(at, Node::Dir(None))),
            Step::Symlink { at, to } => drop(self.names.insert(at, Node::Symlink(to))),
            Step::Mknod { at } => drop(self.names.insert(at, Node::Fifo(None))),
            Step::Link { file, at } => drop(self.names.insert(at, self.names[&file])),
            Step::Rename { from, to } => {
                let node = self.names.remove(&from).unwrap();
                self.names.insert(to, node);
            }
            Step::Remove { at } | Step::Rmdir { at } => drop(self.names.remove(&at)),
            Step::Write { at, first, count, safety, tag } => {
                self.file_mut(at).written(first, count, safety, tag);
            }
            Step::Commit { at, first, count } => self.file_mut(at).committed(first, count),
            Step::Resize { at, sectors } => self.file_mut(at).resize(sectors),
            Step::Mode { at, mode } => self.set_mode(at, mode),
            Step::Times { at, mtime } => self.file_mut(at).mtime = Some(mtime),
        }
    }
}

impl File {
    fn written(&mut self, first: u64, count: u64, safety: Safety, tag: u64) {
        let end = first + count;
        self.size = self.size.max(end * SECTOR);
        self.sectors.resize((self.size / SECTOR) as usize, vec![0]);
        for sector in &mut self.sectors[first as usize..end as usize] {
            match safety {
                Safety::Unstable => sector.push(tag),
                Safety::DataSync | Safety::FileSync => *sector = vec![tag],
            }
        }
        if !matches!(safety, Safety::Unstable) {
            self.safe = self.safe.max(end * SECTOR);
        }
        self.mtime = None;
    }

    /// What was written of a range is safe, and the length as far as that goes; a hole at the end of the
    /// range is not data.
    fn committed(&mut self, first: u64, count: u64) {
        let all = self.size / SECTOR;
        let end = if count == 0 { all } else { all.min(first + count) };
        if (first, end) == (0, all) {
            self.safe = self.size;
        }
        for number in first.min(end)..end {
            let sector = &mut self.sectors[number as usize];
            if *sector != [0] {
                self.safe = self.safe.max((number + 1) * SECTOR);
            }
            sector.drain(..sector.len() - 1);
        }
    }

    fn resize(&mut self, sectors: u64) {
        self.size = sectors * SECTOR;
        self.safe = self.size;
        self.sectors.resize(sectors as usize, vec![0]);
        self.mtime = None;
    }
}

/// What a sector holds after the write with `tag`.
pub fn content(sector: u64, tag: u64) -> Vec<u8> {
    let word = if tag == 0 { 0 } else { tag << 32 | sector };
    word.to_le_bytes().repeat(SECTOR as usize / 8)
}
