//! Attributes that were read a moment ago, for exports with the option `attr-cache`: an answer may take them from here
//! until they are as old as the option allows, instead of asking the file system.
//!
//! Where an object is found is decided by its device and inode number. So all exports of a file system share a copy, a
//! change by way of one of them counts for all, and an object need not be open (entries of a listing). Where two objects
//! meet in a slot the later one stays. A copy is of one object only if the time of creation is that object's too: the number
//! of an inode is reused.
//!
//! # Changes by this server
//!
//! After a change by a call of any version, no answer has attributes from before it. A slot has a sequence number, even while
//! nobody writes the slot. Whoever fills it takes the number *before* asking the file system, and writes only by
//! exchanging that very number for the next odd one. A change adds two to the number *after* the file system has made it and before
//! it is answered ([`AttrTable::changed`]), without looking at what is there. So what was asked for before the change is either not
//! written or is written and does not count: a copy carries the number that the slot has if nothing happened between, and counts
//! only at that number. An addition while somebody writes makes the number at the end a different one.
//!
//! A change of which the object is not known for certain (the name was changed by two calls at once) makes
//! all copies invalid ([`AttrTable::changed_unknown`]): the number of the epoch that a copy was asked for in is another one then.
//!
//! # Changes by others
//!
//! Programs of this machine, and other servers of the same file system, are noticed when a copy is too old. So that such a
//! change is late and never hidden for ever:
//!
//! - Attributes from before a change by a call (`wcc_data`, `change_info4`), which tell a client whether somebody else has changed the
//!   object, are never taken from here ([`LocalFs::begin_change`](crate::fs::LocalFs)); READ, OPEN and COMMIT ask as well.
//! - Where the change attribute says whether ctime is settled ([`change_attr`](crate::cache::change_attr)), a copy says
//!   what was so when the file system was asked. Later it would stand for a change in the same tick that the copy does not show.
//! - Attributes do not go back: whoever asks the file system and is told something else than the copy says drops the copy
//!   ([`AttrTable::invalidate_if_changed`]).
//! - When a file is delegated its copy is dropped, once local programs are held back: what the client keeps for the time of the
//!   delegation is true.
//!
//! # Names
//!
//! The copy of an object may say by which name it was found, in a directory whose copy had a certain number. As long as the
//! directory's copy has it, nothing has changed there by this server, and LOOKUP of the name needs no system call either. A
//! copy that is no longer valid does not pass its name on to the next.
//!
//! # Memory and cost
//!
//! The table is made when the first call comes that may use it; before that a change costs a load and a branch. It has as many slots
//! as files may be open, 192 bytes each. To read takes no lock and writes nothing but a count of the thread's own.

use crate::cache::name_cache::Tag;
use std::cell::Cell;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};
use std::sync::{LazyLock, OnceLock};
use std::time::Instant;
use sys::stat::Stat;

/// Words of a copy in a slot.
const WORDS: usize = 17;
/// Inode numbers that lie side by side in the table: those of a directory are often close to each other.
const NEIGHBOURS_BITS: u32 = 13;
/// In place of the nanoseconds of a time of creation that is not known.
const NO_BIRTH: u32 = u32::MAX;
/// Counts; threads beyond share them.
const COUNTS: usize = 64;

/// From here on time is counted.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// An object: device and inode number.
pub type ObjectId = (u64, u64);

/// The number that an object's copy has; another copy of it has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyNumber(u64);

impl CopyNumber {
    /// As a number; 0 is no copy's.
    pub const fn number(self) -> u64 {
        self.0
    }

    #[cfg(test)]
    pub(super) const fn of(number: u64) -> Self {
        Self(number)
    }
}

/// How old the attributes of an answer may be, at a time.
#[derive(Debug, Clone, Copy)]
pub struct MaxAge {
    now_ms: u64,
    max_age_ms: u32,
}

impl MaxAge {
    /// From now on.
    pub fn now(max_age_ms: u32) -> Self {
        let now = BEGAN.elapsed();
        let ms = u64::from(now.subsec_millis());
        Self { now_ms: now.as_secs().wrapping_mul(1000).wrapping_add(ms), max_age_ms }
    }
}

/// Attributes as they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttrCopy {
    /// The attributes.
    pub stat: Stat,
    /// Whether ctime was settled then.
    pub settled: bool,
    /// The number of this copy.
    pub number: CopyNumber,
    /// The name by which it was found, as a number, and the number of the directory's copy.
    name: (u64, u64),
}

impl AttrCopy {
    /// Whether the object was found by this name in a directory that still has this copy.
    pub fn has_name(&self, tag: Tag, dir: CopyNumber) -> bool {
        self.name == (tag.number(), dir.0)
    }
}

/// The table of copies, once it is used.
pub struct AttrCache {
    table: OnceLock<AttrTable>,
    slots: usize,
}

impl AttrCache {
    /// Room for about so many copies, when they are used.
    pub fn new(slots: usize) -> Self {
        Self { table: OnceLock::new(), slots }
    }

    /// The table, if any export uses it or did.
    #[inline]
    pub fn in_use(&self) -> Option<&AttrTable> {
        self.table.get()
    }

    /// The table, which is made.
    pub fn table(&self) -> &AttrTable {
        self.table.get_or_init(|| AttrTable::new(self.slots))
    }
}

/// Answers that needed no system call, and those that did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttrCacheCounts {
    /// Attributes that were taken from a copy.
    pub hits: u64,
    /// Attributes that the file system was asked for although a copy would have done.
    pub misses: u64,
    /// Listings whose names were kept ([`crate::cache::kept_listings`]).
    pub listings: u64,
}

/// Of some threads.
#[repr(align(64))]
#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    listings: AtomicU64,
}

/// Three cache lines.
#[repr(align(64))]
#[derive(Default)]
struct Slot {
    sequence: AtomicU64,
    /// The sequence number at which the copy counts; 0 never is one.
    valid_at: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The copies.
pub struct AttrTable {
    slots: Box<[Slot]>,
    epoch: AtomicU64,
    counts: Box<[Counts]>,
}

impl AttrTable {
    fn new(slots: usize) -> Self {
        let slots = slots.clamp(2, 1 << 20).next_power_of_two();
        Self {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            epoch: AtomicU64::new(0),
            counts: (0..COUNTS).map(|_| Counts::default()).collect(),
        }
    }

    fn slot(&self, (dev, ino): ObjectId) -> Option<&Slot> {
        let far = (dev << 32 ^ dev ^ ino >> NEIGHBOURS_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = ino.wrapping_add(far >> 32) & (self.slots.len() as u64).wrapping_sub(1);
        self.slots.get(usize::try_from(place).unwrap_or(0))
    }

    /// The copy of an object that is not too old, whatever its time of creation is.
    #[inline]
    pub fn find(&self, id: ObjectId, age: MaxAge) -> Option<AttrCopy> {
        let (copy, epoch, read_ms) = self.slot(id)?.read()?;
        let is_fresh = age.now_ms.saturating_sub(read_ms) < u64::from(age.max_age_ms);
        let is_valid = epoch == self.epoch.load(Acquire);
        (is_fresh && is_valid && (copy.stat.dev, copy.stat.ino) == id).then_some(copy)
    }

    /// The same of the object that was created at this time.
    #[inline]
    pub fn find_born(
        &self,
        id: ObjectId,
        birth: Option<(i64, u32)>,
        age: MaxAge,
    ) -> Option<AttrCopy> {
        self.find(id, age).filter(|copy| copy.stat.btime == birth)
    }

    /// Before the file system is asked for an object's attributes, to store them afterwards.
    pub fn begin_fill(&self, id: ObjectId, age: MaxAge) -> PendingFill<'_> {
        let slot = self.slot(id);
        let sequence = slot.map_or(1, |slot| slot.sequence.load(Acquire));
        PendingFill { slot, id, sequence, epoch: self.epoch.load(Acquire), read_ms: age.now_ms }
    }

    /// The file system has changed an object: no copy of what it was before counts from here on.
    #[cold]
    #[inline(never)]
    pub fn changed(&self, id: ObjectId) {
        if let Some(slot) = self.slot(id) {
            slot.sequence.fetch_add(2, AcqRel);
        }
    }

    /// It has changed an object of which it is not certain which one it is.
    #[cold]
    pub fn changed_unknown(&self) {
        self.epoch.fetch_add(1, AcqRel);
    }

    /// The file system was asked: if the copy says something else, it is dropped.
    #[inline(never)]
    pub fn invalidate_if_changed(&self, stat: &Stat) {
        let Some(slot) = self.slot((stat.dev, stat.ino)) else { return };
        let Some((copy, ..)) = slot.read() else { return };
        let is_of_it = (copy.stat.dev, copy.stat.ino) == (stat.dev, stat.ino);
        if is_of_it && copy.stat != (Stat { btime: copy.stat.btime, mount_root: false, ..*stat }) {
            slot.sequence.fetch_add(2, AcqRel);
        }
    }

    /// Counts so many answers.
    pub fn count(&self, hits: u64, misses: u64) {
        let Some(counts) = self.counts.get(thread_number() % COUNTS) else { return };
        for (count, more) in [(&counts.hits, hits), (&counts.misses, misses)] {
            if more > 0 {
                count.fetch_add(more, Relaxed);
            }
        }
    }

    /// Counts a listing whose names were kept.
    pub fn count_listing(&self) {
        if let Some(counts) = self.counts.get(thread_number() % COUNTS) {
            counts.listings.fetch_add(1, Relaxed);
        }
    }

    /// How many there were.
    pub fn counts(&self) -> AttrCacheCounts {
        let sum = |of: fn(&Counts) -> &AtomicU64| {
            self.counts.iter().map(|counts| of(counts).load(Relaxed)).sum()
        };
        AttrCacheCounts {
            hits: sum(|counts| &counts.hits),
            misses: sum(|counts| &counts.misses),
            listings: sum(|counts| &counts.listings),
        }
    }
}

/// The place of this thread's counts.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Relaxed);
            own.set(Some(number));
            number
        })
    })
}

/// Attributes that the file system is being asked for.
pub struct PendingFill<'t> {
    slot: Option<&'t Slot>,
    id: ObjectId,
    /// Of the slot, before.
    sequence: u64,
    /// Before.
    epoch: u64,
    read_ms: u64,
}

impl PendingFill<'_> {
    /// Stores the answer, unless somebody has changed the object or stored another since; the number of the copy. Nothing is
    /// stored of an object without a name, or of another one than was asked for.
    pub fn store(
        self,
        stat: &Stat,
        settled: bool,
        name: Option<(Tag, CopyNumber)>,
    ) -> Option<CopyNumber> {
        let is_of_it = (stat.dev, stat.ino) == self.id;
        if !is_of_it || stat.nlink == 0 || stat.mount_root || self.sequence % 2 == 1 {
            return None;
        }
        let slot = self.slot?;
        let writing = self.sequence.wrapping_add(1);
        slot.sequence.compare_exchange(self.sequence, writing, Acquire, Relaxed).ok()?;
        // nobody sees the words of below at the number of before
        fence(Release);
        let was_valid = slot.valid_at.load(Relaxed) == self.sequence;
        let names = match name {
            Some((tag, dir)) => (tag.number(), dir.0),
            None if was_valid && slot.id() == self.id => slot.name(),
            None => (0, 0),
        };
        let valid_at = self.sequence.wrapping_add(2);
        slot.valid_at.store(valid_at, Relaxed);
        for (word, value) in
            slot.words.iter().zip(pack(stat, settled, self.epoch, self.read_ms, names))
        {
            word.store(value, Relaxed);
        }
        slot.sequence.fetch_add(1, Release);
        Some(CopyNumber(valid_at))
    }
}

const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// The words of a copy.
fn pack(
    stat: &Stat,
    settled: bool,
    epoch: u64,
    read_ms: u64,
    (tag, dir): (u64, u64),
) -> [u64; WORDS] {
    let (birth_s, birth_ns) = stat.btime.unwrap_or((0, NO_BIRTH));
    [
        stat.dev,
        stat.ino,
        tag,
        dir,
        epoch,
        read_ms << 1 | u64::from(settled),
        pair(stat.mode, stat.nlink),
        pair(stat.uid, stat.gid),
        stat.size,
        stat.blocks,
        pair(stat.rdev.0, stat.rdev.1),
        stat.atime.0.cast_unsigned(),
        stat.mtime.0.cast_unsigned(),
        stat.ctime.0.cast_unsigned(),
        pair(stat.atime.1, stat.mtime.1),
        pair(stat.ctime.1, birth_ns),
        birth_s.cast_unsigned(),
    ]
}

impl Slot {
    fn id(&self) -> ObjectId {
        let [dev, ino, ..] = &self.words;
        (dev.load(Relaxed), ino.load(Relaxed))
    }

    fn name(&self) -> (u64, u64) {
        let [_, _, tag, dir, ..] = &self.words;
        (tag.load(Relaxed), dir.load(Relaxed))
    }

    /// The copy, its epoch and when it was read, if it counts.
    #[inline]
    fn read(&self) -> Option<(AttrCopy, u64, u64)> {
        let number = self.sequence.load(Acquire);
        if number == 0 || self.valid_at.load(Relaxed) != number {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, slot) in words.iter_mut().zip(&self.words) {
            *word = slot.load(Relaxed);
        }
        fence(Acquire);
        (self.sequence.load(Relaxed) == number).then(|| unpack(&words, CopyNumber(number)))
    }
}

#[inline]
fn unpack(words: &[u64; WORDS], number: CopyNumber) -> (AttrCopy, u64, u64) {
    let [
        dev,
        ino,
        tag,
        dir,
        epoch,
        read,
        mode_nlink,
        owners,
        size,
        blocks,
        rdev,
        atime,
        mtime,
        ctime,
        atime_mtime_ns,
        ctime_birth_ns,
        birth,
    ] = *words;
    let ((mode, nlink), (uid, gid)) = (halves(mode_nlink), halves(owners));
    let ((atime_ns, mtime_ns), (ctime_ns, birth_ns)) =
        (halves(atime_mtime_ns), halves(ctime_birth_ns));
    let stat = Stat {
        mode,
        nlink,
        uid,
        gid,
        size,
        blocks,
        rdev: halves(rdev),
        dev,
        ino,
        atime: (atime.cast_signed(), atime_ns),
        mtime: (mtime.cast_signed(), mtime_ns),
        ctime: (ctime.cast_signed(), ctime_ns),
        btime: (birth_ns != NO_BIRTH).then(|| (birth.cast_signed(), birth_ns)),
        mount_root: false,
    };
    (AttrCopy { stat, settled: read & 1 == 1, number, name: (tag, dir) }, epoch, read >> 1)
}

#[cfg(test)]
mod tests {
    use super::{AttrTable, MaxAge};
    use crate::cache::key::Key;
    use crate::cache::name_cache::{NameCache, Tag};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use sys::stat::Stat;
    use vfs::Fid;

    /// An object whose every attribute says which version it is.
    fn version(ino: u64, version: u64) -> Stat {
        let (short, long) = (version as u32 & 0xff_ffff, version.cast_signed());
        Stat {
            mode: short,
            nlink: 1 + short,
            uid: short,
            gid: short,
            size: version,
            blocks: version,
            rdev: (short, short),
            dev: 7,
            ino,
            atime: (long, short),
            mtime: (long, short),
            ctime: (long, short),
            btime: Some((4, 5)),
            mount_root: false,
        }
    }

    fn at(now_ms: u64) -> MaxAge {
        MaxAge { now_ms, max_age_ms: 100 }
    }

    fn found(table: &AttrTable, ino: u64, now_ms: u64) -> Option<Stat> {
        table.find((7, ino), at(now_ms)).map(|copy| copy.stat)
    }

    fn fill(table: &AttrTable, stat: &Stat, now_ms: u64) -> bool {
        table.begin_fill((stat.dev, stat.ino), at(now_ms)).store(stat, false, None).is_some()
    }

    #[test]
    fn a_copy_is_found_whole_until_it_is_too_old() {
        let table = AttrTable::new(64);
        assert_eq!(found(&table, 1, 0), None);
        let negative = Stat { atime: (-5, 1), btime: None, ..version(1, 3) };
        for stat in [version(1, 3), negative, Stat { btime: Some((-1, 0)), ..negative }] {
            assert!(fill(&table, &stat, 1000));
            assert_eq!(found(&table, 1, 1099), Some(stat));
            assert_eq!(table.find((7, 1), at(1099)).map(|copy| copy.settled), Some(false));
            assert_eq!((found(&table, 1, 1100), found(&table, 2, 1000)), (None, None));
            assert_eq!(table.find((8, 1), at(1000)), None, "of another device");
        }
        assert!(table.find_born((7, 1), Some((-1, 0)), at(1000)).is_some());
        assert_eq!(table.find_born((7, 1), Some((4, 5)), at(1000)), None, "the number was reused");
        assert_eq!(table.find_born((7, 1), None, at(1000)), None);
    }

    #[test]
    fn what_was_asked_before_a_change_is_not_stored_after_it() {
        let table = AttrTable::new(64);
        let asked = table.begin_fill((7, 1), at(0));
        table.changed((7, 1));
        assert_eq!(asked.store(&version(1, 1), false, None), None);
        assert_eq!(found(&table, 1, 0), None);
        // stored, and changed afterwards
        assert!(fill(&table, &version(1, 2), 0));
        table.changed((7, 1));
        assert_eq!(found(&table, 1, 0), None);
        // while it is being written: both orders of an addition and the writer's end
        let asked = table.begin_fill((7, 1), at(0));
        let slot = table.slot((7, 1)).unwrap();
        let before = slot.sequence.load(SeqCst);
        slot.sequence.store(before + 1, SeqCst);
        assert_eq!(
            table.begin_fill((7, 1), at(0)).store(&version(1, 3), false, None),
            None,
            "two write"
        );
        table.changed((7, 1));
        slot.valid_at.store(before + 2, SeqCst);
        slot.sequence.fetch_add(1, SeqCst);
        assert_eq!(found(&table, 1, 0), None);
        assert_eq!(asked.store(&version(1, 3), false, None), None);
        // two that were asked for at the same time: the first to store is right, and the other is not needed
        let [one, two] = [(), ()].map(|()| table.begin_fill((7, 1), at(0)));
        assert!(one.store(&version(1, 5), false, None).is_some());
        assert_eq!(two.store(&version(1, 4), false, None), None);
        assert_eq!(found(&table, 1, 0), Some(version(1, 5)));
    }

    #[test]
    fn an_unknown_change_concerns_all() {
        let table = AttrTable::new(64);
        let asked = table.begin_fill((7, 2), at(0));
        assert!(fill(&table, &version(1, 1), 0));
        table.changed_unknown();
        assert!(asked.store(&version(2, 1), false, None).is_some());
        assert_eq!((found(&table, 1, 0), found(&table, 2, 0)), (None, None));
        assert!(fill(&table, &version(1, 2), 0));
        assert_eq!(found(&table, 1, 0), Some(version(1, 2)));
    }

    #[test]
    fn attributes_do_not_go_back() {
        let table = AttrTable::new(64);
        assert!(fill(&table, &version(1, 1), 0));
        let same = Stat { btime: None, ..version(1, 1) };
        table.invalidate_if_changed(&same);
        table.invalidate_if_changed(&version(65, 9));
        assert_eq!(found(&table, 1, 0), Some(version(1, 1)));
        table.invalidate_if_changed(&Stat { size: 9, ..same });
        assert_eq!(found(&table, 1, 0), None);
    }

    #[test]
    fn nothing_is_stored_of_what_has_no_name_or_is_another_object() {
        let table = AttrTable::new(64);
        for stat in [
            Stat { nlink: 0, ..version(1, 1) },
            Stat { mount_root: true, ..version(1, 1) },
            version(2, 1),
        ] {
            assert_eq!(table.begin_fill((7, 1), at(0)).store(&stat, false, None), None);
        }
        assert_eq!((found(&table, 1, 0), found(&table, 2, 0)), (None, None));
    }

    #[test]
    fn a_name_holds_as_long_as_the_directory_is_not_changed() {
        let (table, names) = (AttrTable::new(64), NameCache::new(2));
        let key = Key { backend: 0, fid: Fid::new(&[1]).unwrap() };
        let [name, other] = [&b"name"[..], b"other"].map(|name| names.tag(&key, name));
        let dir = || table.begin_fill((7, 1), at(0)).store(&version(1, 1), false, None).unwrap();
        let has =
            |tag: Tag, dir| table.find((7, 2), at(0)).is_some_and(|copy| copy.has_name(tag, dir));
        let first = dir();
        let object =
            |named| table.begin_fill((7, 2), at(0)).store(&version(2, 1), true, named).is_some();
        assert!(object(Some((name, first))));
        assert!(has(name, first) && !has(other, first));
        assert_eq!(table.find((7, 2), at(0)).map(|copy| copy.settled), Some(true));
        // a later copy of the object keeps the name
        assert!(object(None) && has(name, first));
        table.changed((7, 1));
        assert!(!has(name, dir()), "the directory was changed");
        // one of a changed object does not: a lease may have been taken of it
        assert!(object(Some((name, first))));
        table.changed((7, 2));
        assert!(object(None) && !has(name, first));
    }

    #[test]
    fn neighbours_do_not_meet() {
        let table = AttrTable::new(4096);
        for ino in 0..4096 {
            assert!(fill(&table, &version(131_072 + ino, ino), 0));
        }
        assert!((0..4096).all(|ino| found(&table, 131_072 + ino, 0).is_some()));
        // directories are often at the same place of a group of inodes each
        let groups = 64;
        (0..groups).for_each(|group| assert!(fill(&table, &version(group << 13, group), 0)));
        let left = (0..groups).filter(|group| found(&table, group << 13, 0).is_some()).count();
        assert!(left > 50, "{left}");
    }

    /// Two objects in one slot are changed, asked for and copied by several threads. Whoever looks after a change is done does
    /// not find what was before it, and all that is found is of one version.
    #[test]
    fn no_copy_is_older_than_the_last_change_that_is_done() {
        let table = AttrTable::new(2);
        let now: [AtomicU64; 2] = Default::default();
        let done: [AtomicU64; 2] = Default::default();
        let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
        let ino = |which: usize| 2 * which as u64;
        let check = |which: usize| {
            let least = done[which].load(SeqCst);
            let Some(stat) = found(&table, ino(which), 0) else { return };
            assert!(stat.size >= least, "{} after {least}", stat.size);
            assert_eq!(stat, version(ino(which), stat.size));
            hits.fetch_add(1, SeqCst);
        };
        assert_eq!(table.slot((7, ino(0))).unwrap().id(), table.slot((7, ino(1))).unwrap().id());
        let until_stopped = |work: &dyn Fn(usize)| {
            for n in 0.. {
                if stop.load(SeqCst) {
                    break;
                }
                work(n & 1);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    until_stopped(&|which| {
                        let asked = table.begin_fill((7, ino(which)), at(0));
                        let stat = version(ino(which), now[which].load(SeqCst));
                        let _stored = asked.store(&stat, false, None);
                        check(which);
                    });
                });
                scope.spawn(|| until_stopped(&check));
            }
            for round in 1..3_000_u64 {
                for which in 0..2 {
                    now[which].store(round, SeqCst);
                    table.changed((7, ino(which)));
                    done[which].store(round, SeqCst);
                }
                if round % 8 == 0 {
                    std::thread::yield_now();
                }
            }
            stop.store(true, SeqCst);
        });
        assert!(hits.load(SeqCst) > 100, "{hits:?}");
    }
}
