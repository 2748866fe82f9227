//! Names of directories that were listed a moment ago, for exports with the option `attr-cache`: READDIR and READDIRPLUS
//! may take them from here instead of asking the file system.
//!
//! # When a listing counts
//!
//! A listing carries the number of the copy that there was of the directory's attributes ([`crate::cache::attr_cache`]) *before* its
//! first name was read, and counts only while the directory's copy has that very number and is not too old. So the rules are
//! those of the attributes: a change of a name by this server makes the number another one before it is answered, the time
//! bound is that of the copy, and whoever asks for the directory's attributes and is told something else drops the copy. Names are never older than
//! the attributes that are answered with them: a client cannot take old names for those of a later mtime.
//!
//! A listing is kept whole or not at all, with the kernel's own positions as cookies: a client may go on by the kernel
//! where it began with a kept listing, and the other way round. If two entries have one position, or there are more than
//! [`LISTING_WORDS_MAX`], it is not kept.
//!
//! An entry may have its object: a file id, and the time of creation by which a copy of attributes is recognised as
//! that object's. Only objects are stored that can be told from a later one with the same inode number
//! ([`NameCache::settled`](crate::cache::name_cache::NameCache::settled)).
//!
//! # Memory
//!
//! All listings are in one ring of words, which is overwritten from its beginning when it is full: the oldest listing goes
//! first. It grows by chunks while it is used for the first time. [`BYTES_PER_OPEN_FILE`] for each file that may be open is the most.
//!
//! # Concurrency
//!
//! Positions in the ring only grow. `head` is where the next listing will be, and is moved *before* its words are
//! written; so what stands at a position is intact as long as `head` is not more than the ring's length beyond it. A reader
//! copies an entry and looks at `head` afterwards. If the entry was overwritten it has none, and the
//! listing goes on by the kernel. A reader takes no lock and writes nothing.
//!
//! The lock `writer` is held by whoever writes words, of which there is one at a time; others do not wait for it, and keep nothing. Nothing
//! under it blocks.

use crate::cache::attr_cache::{CopyNumber, ObjectId};
use std::ffi::CStr;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use std::sync::{Mutex, OnceLock};
use vfs::Fid;

/// Memory for listings: for each file that may be open so many bytes.
const BYTES_PER_OPEN_FILE: usize = 256;
/// Open files for each slot: a directory is found by a slot.
const OPEN_FILES_PER_SLOT: usize = 8;
/// Words of a chunk of the ring, 128 KiB. No listing is in two.
const CHUNK_WORDS: usize = 16_384;
/// The fewest chunks.
const CHUNKS_MIN: usize = 2;
/// The words of a listing that is kept, 64 KiB: about 600 names.
pub const LISTING_WORDS_MAX: usize = CHUNK_WORDS / 2;
/// The longest name in a listing that is kept: Linux has no longer one on file systems that have inodes of their own.
const NAME_MAX: usize = 255;

/// Words before the entries: backend, device, inode number, number of the directory's copy, entries.
const HEADER_WORDS: usize = 5;
const FID_WORDS: usize = Fid::MAX / 8;
/// Words of an entry before its name: position, inode number, what there is ([`meta`]), seconds of the object's creation, id.
const FIXED_WORDS: usize = 4 + FID_WORDS;
/// Words of the longest name, and a zero byte.
const NAME_WORDS: usize = NAME_MAX / 8 + 1;
/// In `meta`: the object is known.
const HAS_OBJECT: u64 = 1 << 24;

/// A directory by way of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedDirId {
    /// The backend, of which the ids of the entries' objects are.
    pub backend: u32,
    /// Device and inode number.
    pub id: ObjectId,
    /// Of the copy of its attributes.
    pub copy: CopyNumber,
}

/// The object of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptObject {
    /// Its id.
    pub fid: Fid,
    /// The time of its creation.
    pub birth: (i64, u32),
}

/// Name lengths, id lengths, whether there is an object, nanoseconds of its creation.
fn meta(name_len: usize, object: Option<&KeptObject>) -> u64 {
    let about = |object: &KeptObject| {
        HAS_OBJECT | (object.fid.bytes().len() as u64) << 16 | u64::from(object.birth.1) << 32
    };
    name_len as u64 | object.map_or(0, about)
}

/// The words of an object: seconds of its creation, id.
fn object_words(object: Option<&KeptObject>) -> [u64; FID_WORDS + 1] {
    let mut words = [0; FID_WORDS + 1];
    if let (Some(object), [birth, fid @ ..]) = (object, &mut words) {
        *birth = object.birth.0.cast_unsigned();
        for (word, bytes) in fid.iter_mut().zip(object.fid.padded().as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
    }
    words
}

/// The listings, once they are used.
pub struct KeptListings {
    ring: OnceLock<ListingRing>,
    open_files: usize,
}

impl KeptListings {
    /// For a cache of so many open files.
    pub const fn new(open_files: usize) -> Self {
        Self { ring: OnceLock::new(), open_files }
    }

    /// The ring, which is made.
    #[inline]
    pub fn ring(&self) -> &ListingRing {
        self.ring.get_or_init(|| ListingRing::new(self.open_files))
    }
}

type Chunk = Box<[AtomicU64]>;

/// The listings.
pub struct ListingRing {
    /// By directory: the position of its listing; 0 is none.
    slots: Box<[AtomicU64]>,
    chunks: Box<[OnceLock<Chunk>]>,
    /// The position of the next listing.
    head: AtomicU64,
    writer: Mutex<()>,
}

impl ListingRing {
    fn new(open_files: usize) -> Self {
        let chunk_bytes = CHUNK_WORDS * 8;
        let chunks = (open_files.saturating_mul(BYTES_PER_OPEN_FILE) / chunk_bytes).max(CHUNKS_MIN);
        let slots = (open_files / OPEN_FILES_PER_SLOT).max(2).next_power_of_two();
        Self {
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            head: AtomicU64::new(1),
            writer: Mutex::new(()),
        }
    }

    fn len(&self) -> u64 {
        (self.chunks.len() * CHUNK_WORDS) as u64
    }

    fn slot(&self, dir: &ListedDirId) -> Option<&AtomicU64> {
        let (dev, ino) = dir.id;
        let mixed = (ino ^ dev.rotate_left(32) ^ u64::from(dir.backend).rotate_left(20))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> 32) & (self.slots.len() as u64).wrapping_sub(1);
        self.slots.get(usize::try_from(place).ok()?)
    }

    /// The words from a position on to the end of their chunk.
    fn words(&self, position: u64) -> Option<&[AtomicU64]> {
        let place = usize::try_from(position.checked_rem(self.len())?).ok()?;
        self.chunks.get(place / CHUNK_WORDS)?.get()?.get(place % CHUNK_WORDS..)
    }

    /// Whether what was read at a position before is what was written there.
    #[inline]
    fn is_intact(&self, position: u64) -> bool {
        fence(Acquire);
        self.head.load(Relaxed) <= position.saturating_add(self.len())
    }

    /// The listing of a directory whose attributes have this copy.
    pub fn find(&self, dir: &ListedDirId) -> Option<KeptListing<'_>> {
        let position = self.slot(dir)?.load(Acquire);
        if position == 0 {
            return None;
        }
        let words = self.words(position)?;
        let (header, words) = words.split_first_chunk::<HEADER_WORDS>()?;
        let is_of_it = header.iter().zip(dir.words()).all(|(word, of)| word.load(Relaxed) == of);
        let [.., entries] = header;
        let left = entries.load(Relaxed);
        (is_of_it && self.is_intact(position)).then_some(KeptListing {
            ring: self,
            position,
            words,
            left,
        })
    }

    /// Keeps a listing. Not if somebody else is writing one: it is not worth waiting for.
    pub fn store(&self, listing: &NewListing) {
        let NewListing { dir, words, cookies, .. } = listing;
        let Ok(_writer) = self.writer.try_lock() else { return };
        let Some(slot) = self.slot(dir) else { return };
        let all = HEADER_WORDS.saturating_add(words.len());
        let begin = self.head.load(Relaxed);
        let in_chunk = begin % CHUNK_WORDS as u64;
        let is_beyond = in_chunk.saturating_add(all as u64) > CHUNK_WORDS as u64;
        let position = if is_beyond { begin - in_chunk + CHUNK_WORDS as u64 } else { begin };
        let place = usize::try_from(position % self.len()).unwrap_or(0) / CHUNK_WORDS;
        let Some(chunk) = self.chunks.get(place) else { return };
        chunk.get_or_init(|| (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect());
        self.head.store(position.saturating_add(all as u64), Relaxed);
        // nobody sees a word of below at the head of before
        fence(Release);
        let Some(places) = self.words(position) else { return };
        let header = dir.words().into_iter().chain([cookies.len() as u64]);
        for (place, word) in places.iter().zip(header.chain(words.iter().copied())) {
            place.store(word, Relaxed);
        }
        slot.store(position, Release);
    }

    /// Keeps no listing of a directory any more: it was listed by the kernel and may be another one.
    pub fn forget(&self, dir: &ListedDirId) {
        if let Some(slot) = self.slot(dir)
            && slot.load(Relaxed) != 0
        {
            slot.store(0, Relaxed);
        }
    }
}

impl ListedDirId {
    const fn words(&self) -> [u64; HEADER_WORDS - 1] {
        [self.backend as u64, self.id.0, self.id.1, self.copy.number()]
    }
}

/// A listing that is being read from the file system, to be kept.
pub struct NewListing {
    dir: ListedDirId,
    words: Vec<u64>,
    cookies: Vec<u64>,
    /// It is too long.
    is_beyond: bool,
}

impl NewListing {
    /// Of a directory whose attributes have this copy, before its first name is read.
    pub const fn new(dir: ListedDirId) -> Self {
        Self { dir, words: Vec::new(), cookies: Vec::new(), is_beyond: false }
    }

    /// Whether it can be kept so far.
    pub const fn can_be_kept(&self) -> bool {
        !self.is_beyond
    }

    /// Adds an entry.
    pub fn add(&mut self, name: &[u8], (ino, next): (u64, u64), object: Option<&KeptObject>) {
        let name_words = name.len() / 8 + 1;
        let len = self.words.len().saturating_add(HEADER_WORDS + FIXED_WORDS + name_words);
        self.is_beyond |= name.len() > NAME_MAX || len > LISTING_WORDS_MAX;
        if self.is_beyond {
            return;
        }
        self.cookies.push(next);
        self.words.extend([next, ino, meta(name.len(), object)]);
        self.words.extend(object_words(object));
        let (whole, rest) = name.as_chunks::<8>();
        self.words.extend(whole.iter().map(|bytes| u64::from_ne_bytes(*bytes)));
        let mut last = [0; 8];
        if let Some(place) = last.get_mut(..rest.len()) {
            place.copy_from_slice(rest);
        }
        self.words.push(u64::from_ne_bytes(last));
    }

    /// Keeps it, if it can be kept; to be called at the directory's end.
    pub fn finish(mut self, ring: &ListingRing) {
        // stays in its order in the words
        self.cookies.sort_unstable();
        let are_cookies_unique = self.cookies.is_sorted_by(|a, b| a < b);
        if self.can_be_kept() && are_cookies_unique {
            ring.store(&self);
        }
    }
}

/// Room for a name that is copied out of the ring.
pub struct NameRoom([u8; NAME_WORDS * 8]);

impl Default for NameRoom {
    fn default() -> Self {
        Self([0; NAME_WORDS * 8])
    }
}

/// A kept listing, from an entry on.
pub struct KeptListing<'r> {
    ring: &'r ListingRing,
    position: u64,
    /// Of the entries that are left, and more.
    words: &'r [AtomicU64],
    /// Entries that are left.
    left: u64,
}

/// An entry of a kept listing.
pub struct KeptEntry<'r, 'n> {
    /// The name, followed by a zero byte.
    name: &'n [u8],
    /// Inode number.
    pub ino: u64,
    /// Where the directory goes on behind it.
    pub next: u64,
    about: u64,
    ring: &'r ListingRing,
    position: u64,
    words: &'r [AtomicU64; FIXED_WORDS],
}

/// What comes next in a kept listing.
pub enum Next<'r, 'n> {
    /// An entry.
    Entry(KeptEntry<'r, 'n>),
    /// The directory's end.
    End,
    /// The listing was overwritten.
    Gone,
}

impl<'r> KeptListing<'r> {
    /// Goes to behind the entry that had this cookie; 0 is the start. False if there is none.
    pub fn go_behind(&mut self, cookie: u64) -> bool {
        if cookie == 0 {
            return true;
        }
        while self.left > 0 {
            let Some((fixed, rest)) = self.words.split_first_chunk::<FIXED_WORDS>() else { break };
            let [next, _, meta, ..] = fixed;
            let (next, name_len) = (next.load(Relaxed), meta.load(Relaxed) & 0xffff);
            let name_words = usize::try_from(name_len / 8).map_or(usize::MAX, |len| len + 1);
            let Some(rest) = rest.get(name_words..) else { break };
            (self.words, self.left) = (rest, self.left.wrapping_sub(1));
            if next == cookie {
                return self.ring.is_intact(self.position);
            }
        }
        false
    }

    /// The next entry.
    #[inline(always)]
    pub fn next<'n>(&mut self, room: &'n mut NameRoom) -> Next<'r, 'n> {
        if self.left == 0 {
            return if self.ring.is_intact(self.position) { Next::End } else { Next::Gone };
        }
        match self.read(room) {
            Some(entry) if self.ring.is_intact(self.position) => Next::Entry(entry),
            _ => Next::Gone,
        }
    }

    /// An entry as it stands there, intact or not.
    #[inline(always)]
    fn read<'n>(&mut self, NameRoom(room): &'n mut NameRoom) -> Option<KeptEntry<'r, 'n>> {
        let (fixed, rest) = self.words.split_first_chunk::<FIXED_WORDS>()?;
        let [next, ino, about, ..] = fixed;
        // before the words of the object, which may have been written later than the rest
        let about = about.load(Acquire);
        let name_len = usize::try_from(about & 0xffff).ok()?;
        let (name, rest) = rest.split_at_checked(name_len / 8 + 1)?;
        for (place, word) in room.as_chunks_mut::<8>().0.iter_mut().zip(name) {
            *place = word.load(Relaxed).to_ne_bytes();
        }
        (self.words, self.left) = (rest, self.left.wrapping_sub(1));
        Some(KeptEntry {
            name: room.get(..=name_len)?,
            ino: ino.load(Relaxed),
            next: next.load(Relaxed),
            about,
            ring: self.ring,
            position: self.position,
            words: fixed,
        })
    }
}

impl KeptEntry<'_, '_> {
    /// The name.
    #[inline(always)]
    pub fn name(&self) -> &[u8] {
        self.name.split_last().map_or(&[], |(_, name)| name)
    }

    /// The same for a system call.
    pub fn c_name(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.name).ok()
    }

    /// The time of creation of its object, if that is known.
    #[inline(always)]
    pub fn birth(&self) -> Option<(i64, u32)> {
        let [_, _, _, birth, ..] = self.words;
        let is_known = self.about & HAS_OBJECT != 0;
        is_known.then(|| (birth.load(Relaxed).cast_signed(), (self.about >> 32) as u32))
    }

    /// The id of its object, if that is known and nothing of the entry was overwritten until now.
    #[inline(always)]
    pub fn fid(&self) -> Option<Fid> {
        let [_, _, _, _, fid @ ..] = self.words;
        let mut words = [0; FID_WORDS];
        for (place, word) in words.iter_mut().zip(fid) {
            *place = word.load(Relaxed);
        }
        let is_known = self.about & HAS_OBJECT != 0 && self.ring.is_intact(self.position);
        let mut bytes = [0; Fid::MAX];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        let fid = Fid::from_padded(bytes, usize::try_from(self.about >> 16 & 0xff).ok()?);
        fid.filter(|_| is_known)
    }

    /// Notes the object, which was not known when the listing was kept.
    #[cold]
    pub fn note(&self, object: &KeptObject) {
        let Ok(_writer) = self.ring.writer.try_lock() else { return };
        let [_, _, about, places @ ..] = self.words;
        // nobody else writes now
        if !self.ring.is_intact(self.position) || about.load(Relaxed) & HAS_OBJECT != 0 {
            return;
        }
        for (place, word) in places.iter().zip(object_words(Some(object))) {
            place.store(word, Relaxed);
        }
        about.store(meta(self.name().len(), Some(object)), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        KeptEntry, KeptListing, KeptObject, LISTING_WORDS_MAX, ListedDirId, ListingRing, NameRoom,
        NewListing, Next,
    };
    use crate::cache::attr_cache::CopyNumber;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use vfs::Fid;

    fn dir(ino: u64, copy: u64) -> ListedDirId {
        ListedDirId { backend: 3, id: (7, ino), copy: CopyNumber::of(copy) }
    }

    fn object(n: u64) -> KeptObject {
        KeptObject { fid: Fid::from_u64(n), birth: (-(n as i64), n as u32) }
    }

    type Listed = Vec<(Vec<u8>, u64, u64, Option<KeptObject>)>;

    /// Entries of which everything says which version the listing is.
    fn entries(version: u64, count: u64) -> Listed {
        let entry = |n: u64| {
            let name = format!("{:n$}", version, n = (n % 21) as usize + 1).into_bytes();
            (
                name,
                version + n,
                (version << 20) + n + 1,
                (!n.is_multiple_of(3)).then(|| object(version + n)),
            )
        };
        (0..count).map(entry).collect()
    }

    fn new_listing(dir: ListedDirId, entries: &Listed) -> NewListing {
        let mut new = NewListing::new(dir);
        for (name, ino, next, object) in entries {
            new.add(name, (*ino, *next), object.as_ref());
        }
        new
    }

    fn found(entry: &KeptEntry<'_, '_>) -> Option<KeptObject> {
        let (birth, fid) = (entry.birth()?, entry.fid()?);
        Some(KeptObject { fid, birth })
    }

    /// What is left of a listing; `None` if it was overwritten.
    fn rest(mut listing: KeptListing<'_>) -> Option<Listed> {
        let (mut all, mut room) = (Vec::new(), NameRoom::default());
        loop {
            match listing.next(&mut room) {
                Next::Entry(entry) => {
                    assert_eq!(entry.c_name().unwrap().to_bytes(), entry.name());
                    all.push((entry.name().to_vec(), entry.ino, entry.next, found(&entry)));
                }
                Next::End => return Some(all),
                Next::Gone => return None,
            }
        }
    }

    #[test]
    fn a_listing_is_found_whole_by_its_directory_and_number() {
        let ring = ListingRing::new(1024);
        assert!(ring.find(&dir(1, 2)).is_none());
        let long = (vec![b'x'; 255], 9, 10_000_000, Some(object(5)));
        let all = [entries(5, 100), vec![long]].concat();
        new_listing(dir(1, 2), &all).finish(&ring);
        assert_eq!(rest(ring.find(&dir(1, 2)).unwrap()), Some(all.clone()));
        for other in [dir(1, 4), dir(2, 2), ListedDirId { backend: 4, ..dir(1, 2) }] {
            assert!(ring.find(&other).is_none());
        }
        for (at, (_, _, cookie, _)) in all.iter().enumerate() {
            let mut listing = ring.find(&dir(1, 2)).unwrap();
            assert!(listing.go_behind(*cookie));
            assert_eq!(rest(listing).unwrap(), all[at + 1..]);
        }
        assert!(!ring.find(&dir(1, 2)).unwrap().go_behind(12_345));
        ring.forget(&dir(1, 2));
        assert!(ring.find(&dir(1, 2)).is_none());
        new_listing(dir(1, 2), &Vec::new()).finish(&ring);
        assert_eq!(rest(ring.find(&dir(1, 2)).unwrap()), Some(vec![]));
    }

    #[test]
    fn what_cannot_be_continued_everywhere_or_is_too_long_is_not_kept() {
        let ring = ListingRing::new(1024);
        let mut all = entries(5, 10);
        all[3].2 = all[7].2;
        new_listing(dir(1, 2), &all).finish(&ring);
        assert!(ring.find(&dir(1, 2)).is_none(), "two entries have one cookie");
        let (most, _) = (1..)
            .map(|n| (n, new_listing(dir(1, 2), &entries(5, n))))
            .find(|(_, new)| {
                assert!(new.words.len() < LISTING_WORDS_MAX);
                !new.can_be_kept()
            })
            .unwrap();
        assert!(most > 400, "{most} names are too many");
        new_listing(dir(1, 2), &entries(5, most)).finish(&ring);
        assert!(ring.find(&dir(1, 2)).is_none());
        new_listing(dir(1, 2), &entries(5, most - 1)).finish(&ring);
        assert!(ring.find(&dir(1, 2)).is_some());
        let mut new = NewListing::new(dir(2, 2));
        new.add(&[b'x'; 256], (1, 2), None);
        assert!(!new.can_be_kept());
    }

    #[test]
    fn an_object_is_noted_later() {
        let ring = ListingRing::new(1024);
        let mut all = entries(5, 4);
        new_listing(dir(1, 2), &all).finish(&ring);
        let mut listing = ring.find(&dir(1, 2)).unwrap();
        let mut room = NameRoom::default();
        let Next::Entry(entry) = listing.next(&mut room) else { panic!("no entry") };
        assert_eq!(found(&entry), None);
        entry.note(&object(77));
        entry.note(&object(78));
        all[0].3 = Some(object(77));
        assert_eq!(rest(ring.find(&dir(1, 2)).unwrap()), Some(all));
        // not in what has taken its place
        let mut listing = ring.find(&dir(1, 2)).unwrap();
        let Next::Entry(entry) = listing.next(&mut room) else { panic!("no entry") };
        let later = entries(9, 400);
        (10..20).for_each(|ino| new_listing(dir(ino, 2), &later).finish(&ring));
        entry.note(&object(79));
        let kept: Vec<_> = (10..20).filter_map(|ino| ring.find(&dir(ino, 2))).collect();
        assert!(kept.len() >= 2);
        assert!(kept.into_iter().all(|listing| rest(listing) == Some(later.clone())));
    }

    #[test]
    fn the_oldest_listing_goes_when_the_ring_is_full() {
        let ring = ListingRing::new(1024);
        let mut began = Vec::new();
        for ino in 1..400 {
            let all = entries(ino, 1 + ino * 7 % 300);
            new_listing(dir(ino, 2), &all).finish(&ring);
            assert_eq!(rest(ring.find(&dir(ino, 2)).unwrap()), Some(all), "{ino}");
            began.push((ino, ring.find(&dir(ino, 2)).unwrap()));
        }
        let found = (1..400).filter(|ino| {
            let listing = ring.find(&dir(*ino, 2)).and_then(rest);
            assert!(listing.as_ref().is_none_or(|all| *all == entries(*ino, 1 + ino * 7 % 300)));
            listing.is_some()
        });
        assert!((5..100).contains(&found.count()));
        // readers that began before are told
        let gone = began.into_iter().filter_map(|(ino, listing)| match rest(listing) {
            None => Some(ino),
            Some(all) => {
                assert_eq!(all, entries(ino, 1 + ino * 7 % 300));
                None
            }
        });
        assert!(gone.max().unwrap() > 300);
        let chunks = ring.chunks.iter().filter(|chunk| chunk.get().is_some()).count();
        assert_eq!(chunks, ring.chunks.len());
        assert_eq!(ring.len(), 2 * super::CHUNK_WORDS as u64);
    }

    /// Listings are stored and noted by several threads over and over; all that is found is of one version.
    #[test]
    fn no_listing_is_of_two_versions() {
        let ring = ListingRing::new(1024);
        let (stop, whole, versions) =
            (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(1));
        let check = |ino: u64| {
            let Some(mut listing) = ring.find(&dir(ino, 2)) else { return };
            let mut room = NameRoom::default();
            let mut version = None;
            loop {
                match listing.next(&mut room) {
                    Next::Entry(entry) => {
                        let (of, n) = (entry.next >> 20, (entry.next & 0xf_ffff) - 1);
                        assert_eq!(*version.get_or_insert(of), of);
                        let (name, ino, ..) = entries(of, n + 1).pop().unwrap();
                        assert_eq!((entry.name(), entry.ino), (name.as_slice(), ino));
                        match found(&entry) {
                            Some(found) => assert_eq!(found, object(of + n)),
                            None if entry.birth().is_some() => return,
                            None => entry.note(&object(of + n)),
                        }
                    }
                    Next::End => break,
                    Next::Gone => return,
                }
            }
            whole.fetch_add(1, SeqCst);
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        (1..40).for_each(check);
                    }
                });
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        let version = versions.fetch_add(1, SeqCst);
                        let new = new_listing(dir(version % 39 + 1, 2), &entries(version, 60));
                        new.finish(&ring);
                    }
                });
            }
            while whole.load(SeqCst) < 500 || versions.load(SeqCst) < 2000 {
                std::thread::yield_now();
            }
            stop.store(true, SeqCst);
        });
    }
}
