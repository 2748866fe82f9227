//! Recent results of look-ups: hints with which a repeated LOOKUP takes two `statx`, and each entry
//! of a repeated READDIRPLUS one.
//!
//! A hint is always verified. It contains the object that a name may refer to; the look-up then
//! takes that object out of the cache of open files and compares it with the kernel's *current*
//! attributes of the name. While our descriptor is open the kernel cannot reuse the object's inode
//! number, so equal device and inode numbers mean the same object, and a hint that is old, torn
//! (its words are written one by one) or another name's (two names may share a slot) only costs the
//! slow path. That is why no lock and no sequence number guards a slot.
//!
//! An object that is not open is recognised by inode number and time of creation, of which a slot has
//! a hash ([`BirthHash`]), including the id, so that a torn slot matches nothing. A reused inode
//! number has a later time of creation, unless both were created in one tick of the clock: so an
//! object is stored at the earliest [`OLD_S`] after its creation.
//!
//! Absence of a name is a hint as well: the kernel knew it without reading the disk, and will know
//! it for a while.
//!
//! A name may be in either of two adjacent slots: with a quarter of all slots used and one slot for each name,
//! every fifth name would share its slot with another, and the two would evict each other at each listing. A slot
//! is written when a name is looked up that was in neither, and when a hint of absence is renewed; a repeated
//! look-up writes nothing.

use crate::cache::key::Key;
use foldhash::fast::FoldHasher;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use sys::stat::Stat;
use vfs::Fid;

/// Slots, 4 MiB: more names than open files, because a listing also recognises objects that are not open.
pub const SLOTS: usize = 65_536;
/// Seconds for which the kernel is assumed to remember that a name is absent.
const ABSENT_S: u32 = 30;
/// Seconds after which a confirmed hint of absence is renewed.
const RENEW_S: u32 = 10;
/// Words of a file id in a slot.
const FID_WORDS: usize = Fid::MAX / 8;
/// Seconds after its creation from which on an object can be told from one made before it.
const OLD_S: i64 = 2;
/// The length that stands for absence.
const ABSENT: u64 = 0xff;

/// The result of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameHint {
    /// This object, and what an inode that it was when it was noted was born as.
    Object(Fid, Option<BirthHash>),
    /// Nothing; `renew` if that is to be noted again should it be so.
    Absent {
        /// Whether the note grows old.
        renew: bool,
    },
}

/// 56 bits of a hash of an inode's number, its time of creation and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BirthHash(u64);

/// The key of a name in a directory; 0 is no name's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u64);

impl Tag {
    /// As a number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// Makes the keys of names in a directory, which it has hashed.
#[derive(Clone)]
pub struct DirNameHasher<'c>(FoldHasher<'c>);

impl DirNameHasher<'_> {
    /// The key of a name.
    pub fn tag(&self, name: &[u8]) -> Tag {
        let mut hasher = self.0.clone();
        // without its length, which counts in the hash of bytes
        hasher.write(name);
        Tag(hasher.finish().max(1))
    }
}

/// One cache line.
#[repr(align(64))]
#[derive(Default)]
struct Slot {
    tag: AtomicU64,
    /// The id's length and above it its [`BirthHash`], 0 if that is not known; or [`ABSENT`] and above it
    /// the second in which that was noted.
    about: AtomicU64,
    fid: [AtomicU64; FID_WORDS],
}

/// The hints of all exports.
pub struct NameCache {
    slots: Box<[Slot]>,
    /// Of names; equal hashes only cost the long way.
    hasher: foldhash::fast::RandomState,
    /// Of what an inode is told by. It need only hold against chance: who is given the id of an earlier inode has an id
    /// that is stale.
    births: foldhash::quality::RandomState,
}

impl NameCache {
    /// Room for about this many names.
    pub fn new(count: usize) -> Self {
        let count = count.clamp(2, SLOTS).next_power_of_two();
        let slots = (0..count).map(|_| Slot::default()).collect();
        let (hasher, births) = Default::default();
        Self { slots, hasher, births }
    }

    /// The key of a name.
    pub fn tag(&self, dir: &Key, name: &[u8]) -> Tag {
        self.name_hasher(dir).tag(name)
    }

    /// What makes the keys of names in one directory.
    pub fn name_hasher(&self, dir: &Key) -> DirNameHasher<'_> {
        let mut hasher = self.hasher.build_hasher();
        dir.hash(&mut hasher);
        DirNameHasher(hasher)
    }

    /// The hint for a name.
    pub fn find(&self, tag: Tag, now_s: u32) -> Option<NameHint> {
        let slot = self.pair(tag)?.into_iter().find(|slot| slot.tag.load(Relaxed) == tag.0)?;
        let about = slot.about.load(Relaxed);
        if about & 0xff == ABSENT {
            let age_s = u64::from(now_s).saturating_sub(about >> 8);
            let renew = age_s > u64::from(RENEW_S);
            return (age_s <= u64::from(ABSENT_S)).then_some(NameHint::Absent { renew });
        }
        let mut bytes = [0; Fid::MAX];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(&slot.fid) {
            slot.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        let len = usize::try_from(about & 0xff).ok()?;
        let fid = Fid::from_padded(bytes, len)?;
        Some(NameHint::Object(fid, (about >> 8 != 0).then_some(BirthHash(about >> 8))))
    }

    /// The hash that distinguishes an inode, with its id, from all earlier and later ones of the
    /// same number, if it can be computed.
    pub fn born(&self, ino: u64, btime: Option<(i64, u32)>, fid: &Fid) -> Option<BirthHash> {
        let (sec, nsec) = btime?;
        let hash = self.births.hash_one((ino, sec, nsec, fid));
        Some(BirthHash((hash >> 8).max(1)))
    }

    /// The same, if the object is old enough for it to be noted.
    pub fn settled(&self, stat: &Stat, fid: &Fid) -> Option<BirthHash> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let old = stat.btime?.0.saturating_add(OLD_S) <= i64::try_from(now).ok()?;
        old.then(|| self.born(stat.ino, stat.btime, fid))?
    }

    /// Stores the object of a name.
    pub fn note(&self, tag: Tag, fid: &Fid, born: Option<BirthHash>, now_s: u32) {
        if self.find(tag, now_s) == Some(NameHint::Object(*fid, born)) {
            return;
        }
        let Some(slot) = self.slot(tag, now_s) else { return };
        slot.tag.store(0, Relaxed);
        let mut chunks = fid.bytes().chunks(8);
        for word in &slot.fid {
            let mut bytes = [0; 8];
            let chunk = chunks.next().unwrap_or_default();
            if let Some(slot) = bytes.get_mut(..chunk.len()) {
                slot.copy_from_slice(chunk);
            }
            word.store(u64::from_ne_bytes(bytes), Relaxed);
        }
        let born = born.map_or(0, |born| born.0);
        slot.about.store(born << 8 | fid.bytes().len() as u64, Relaxed);
        slot.tag.store(tag.0, Relaxed);
    }

    /// Stores that a name is absent, and that the kernel knows it.
    pub fn note_absent(&self, tag: Tag, now_s: u32) {
        let Some(slot) = self.slot(tag, now_s) else { return };
        slot.about.store(u64::from(now_s) << 8 | ABSENT, Relaxed);
        slot.tag.store(tag.0, Relaxed);
    }

    /// Removes what is stored of a name.
    pub fn forget(&self, tag: Tag) {
        for slot in self.pair(tag).into_iter().flatten() {
            if slot.tag.load(Relaxed) == tag.0 {
                slot.tag.store(0, Relaxed);
            }
        }
    }

    /// The slots in which a name may be, the likelier one first.
    fn pair(&self, tag: Tag) -> Option<[&Slot; 2]> {
        // a power of two of slots: the mask leaves an index that is one
        let mask = self.slots.len().checked_sub(1)?;
        let at = usize::try_from(tag.0).ok()? & mask;
        Some([self.slots.get(at)?, self.slots.get(at ^ 1)?])
    }

    /// The slot that a name is written to: its own, an empty one, or the two alternately.
    fn slot(&self, tag: Tag, now_s: u32) -> Option<&Slot> {
        let pair = self.pair(tag)?;
        let held = |by: u64| pair.into_iter().find(|slot| slot.tag.load(Relaxed) == by);
        let [first, second] = pair;
        let turn = if now_s.is_multiple_of(2) { first } else { second };
        Some(held(tag.0).or_else(|| held(0)).unwrap_or(turn))
    }
}

#[cfg(test)]
mod tests {
    use super::{NameCache, NameHint};
    use crate::cache::key::Key;
    use vfs::Fid;

    #[test]
    fn a_name_is_found_in_its_own_directory_only() {
        let names = NameCache::new(1024);
        let dir = |n| Key { backend: n, fid: Fid::from_u64(7) };
        let fid = Fid::new(&[9; Fid::MAX]).unwrap();
        let tag = names.tag(&dir(1), b"name");
        assert_eq!(names.find(tag, 1), None);
        names.note(tag, &fid, None, 1);
        assert_eq!(names.find(tag, 1), Some(NameHint::Object(fid, None)));
        for other in [names.tag(&dir(2), b"name"), names.tag(&dir(1), b"name2")] {
            assert_eq!(names.find(other, 1), None);
            names.forget(other);
        }
        assert!(names.find(tag, 1).is_some());
        names.forget(tag);
        assert_eq!(names.find(tag, 1), None);
        let short = Fid::new(&[1, 2, 3]).unwrap();
        names.note(tag, &short, None, 1);
        assert_eq!(names.find(tag, 1), Some(NameHint::Object(short, None)));
    }

    #[test]
    fn a_negative_entry_expires_unless_renewed() {
        let names = NameCache::new(16);
        let tag = names.tag(&Key { backend: 0, fid: Fid::from_u64(1) }, b"none");
        names.note_absent(tag, 100);
        assert_eq!(names.find(tag, 105), Some(NameHint::Absent { renew: false }));
        assert_eq!(names.find(tag, 125), Some(NameHint::Absent { renew: true }));
        names.note_absent(tag, 125);
        assert_eq!(names.find(tag, 140), Some(NameHint::Absent { renew: true }));
        assert_eq!(names.find(tag, 156), None);
    }

    #[test]
    fn names_beyond_the_slots_evict_each_other() {
        let names = NameCache::new(4);
        let dir = Key { backend: 0, fid: Fid::from_u64(1) };
        for n in 0u64..100 {
            let tag = names.tag(&dir, &n.to_be_bytes());
            names.note(tag, &Fid::from_u64(n), None, 1);
            assert_eq!(names.find(tag, 1), Some(NameHint::Object(Fid::from_u64(n), None)));
        }
        let left =
            (0u64..100).filter(|n| names.find(names.tag(&dir, &n.to_be_bytes()), 1).is_some());
        assert!((1..=4).contains(&left.count()));
    }

    #[test]
    fn a_quarter_full_cache_keeps_nearly_all_names() {
        let names = NameCache::new(4096);
        let dir = Key { backend: 0, fid: Fid::from_u64(1) };
        let tag = |n: u64| names.tag(&dir, &n.to_be_bytes());
        (0..1024).for_each(|n| names.note(tag(n), &Fid::from_u64(n), None, 1));
        let kept = (0..1024).filter(|n| names.find(tag(*n), 1).is_some()).count();
        // one slot each would keep 906 of them, give or take 9
        assert!(kept > 960, "{kept}");
    }
}
