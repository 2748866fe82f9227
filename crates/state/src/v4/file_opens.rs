//! The opens of one file, with what they come to: however many there are, a request looks at its owner's open alone,
//! unless others are in its way.
//!
//! Invariants: a client's owner has one open of the file at the most; the counts are those of the modes of all opens, so
//! that a mode changes through [`FileOpens::set_mode`] only. All under the lock of the file's shard.

use super::client::Client;
use super::open_entry::{Open, mode_of};
use crate::share::{ShareBits, ShareMode};
use crate::sync::Arc;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

/// How many opens want, or deny, something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Bits {
    read: usize,
    write: usize,
}

impl Bits {
    fn change(&mut self, before: ShareBits, after: ShareBits) {
        for (count, bit) in [(&mut self.read, ShareBits::READ), (&mut self.write, ShareBits::WRITE)]
        {
            *count += usize::from(after.intersects(bit));
            *count -= usize::from(before.intersects(bit));
        }
    }

    /// What some open wants or denies.
    fn any(self) -> ShareBits {
        let bit = |count, bit| if count > 0 { bit } else { ShareBits::NONE };
        bit(self.read, ShareBits::READ).with(bit(self.write, ShareBits::WRITE))
    }
}

/// The opens of a file.
#[derive(Default)]
pub(super) struct FileOpens {
    opens: BTreeSet<ByOwner>,
    access: Bits,
    deny: Bits,
}

impl FileOpens {
    pub fn is_empty(&self) -> bool {
        self.opens.is_empty()
    }

    /// What all opens together want and deny.
    pub fn mode(&self) -> ShareMode {
        ShareMode { access: self.access.any(), deny: self.deny.any() }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Open>> {
        self.opens.iter().map(|open| &open.0)
    }

    /// The opens of one client.
    pub fn of_client(&self, client: u64) -> impl Iterator<Item = &Arc<Open>> {
        let first: &dyn Named = &Name { client, owner: &[] };
        let from = self.opens.range::<dyn Named, _>((Bound::Included(first), Bound::Unbounded));
        from.map(|open| &open.0).take_while(move |open| open.client_id() == client)
    }

    /// The open of an owner.
    pub fn find(&self, client: &Client, owner: &[u8]) -> Option<&Arc<Open>> {
        let name: &dyn Named = &Name { client: client.id, owner };
        self.opens.get(name).map(|open| &open.0)
    }

    /// Adds the open of an owner who has none.
    pub fn add(&mut self, open: Arc<Open>) {
        self.count(mode_of(0), open.mode());
        let is_new = self.opens.insert(ByOwner(open));
        debug_assert!(is_new, "an owner has one open of a file");
    }

    /// Changes what an open wants and denies.
    pub fn set_mode(&mut self, open: &Open, mode: ShareMode) {
        self.count(open.mode(), mode);
        open.set_mode(mode);
    }

    /// Removes an open, of this mode.
    pub fn remove(&mut self, open: &Open, mode: ShareMode) {
        let name: &dyn Named = &Name { client: open.client_id(), owner: &open.owner };
        if self.opens.remove(name) {
            self.count(mode, mode_of(0));
        }
    }

    fn count(&mut self, before: ShareMode, after: ShareMode) {
        self.access.change(before.access, after.access);
        self.deny.change(before.deny, after.deny);
    }
}

/// By what opens of one file are found.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a> {
    client: u64,
    owner: &'a [u8],
}

trait Named {
    fn name(&self) -> Name<'_>;
}

impl Named for Name<'_> {
    fn name(&self) -> Name<'_> {
        Name { client: self.client, owner: self.owner }
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Named + '_ {}

impl PartialOrd for dyn Named + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Named + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(&other.name())
    }
}

/// An open, by its client and owner.
struct ByOwner(Arc<Open>);

impl Named for ByOwner {
    fn name(&self) -> Name<'_> {
        Name { client: self.0.client_id(), owner: &self.0.owner }
    }
}

impl<'a> Borrow<dyn Named + 'a> for ByOwner {
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

impl PartialEq for ByOwner {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ByOwner {}

impl PartialOrd for ByOwner {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByOwner {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(&other.name())
    }
}
