//! Handles of exactly 32 bytes (RFC 1094 §2.3.3) for the server's own of up to 64.
//!
//! A sealed handle of up to 32 bytes is sent as it is, with zeros behind it, which
//! [`export::Table::open`] takes; nearly all file systems give such handles. For a longer one, an alias
//! is sent: [`ALIAS`], which no sealed handle begins with (they begin with the envelope's version),
//! and 31 bytes that stand for the handle in a table of at most [`ALIASES_MAX`].
//!
//! An alias is a hash of the sealed handle, which has a MAC that only this server can compute: an
//! alias cannot be guessed. The alias of a handle never changes: one that is not in the table, after
//! a restart or because the table was full, is stale until the client looks the name up again.
//! Aliases of the roots of exports are always resolved.
//!
//! Lock: `Aliases::table`, held for one look-up or insertion; only long handles take it.

use super::fifo_map::FifoMap;
use export::Exports;
use proto::nfs2::{FHSIZE, Fh2};
use proto::nfs3;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::sync::{Mutex, PoisonError};
use vfs::Status;

/// The first byte of an alias.
const ALIAS: u8 = 0xff;
/// The most long handles in the table: about 12 MiB.
const ALIASES_MAX: usize = 65_536;

/// A sealed handle, in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullHandle {
    bytes: [u8; nfs3::FHSIZE],
    len: usize,
}

impl FullHandle {
    fn new(sealed: &[u8]) -> Option<Self> {
        let mut bytes = [0; nfs3::FHSIZE];
        bytes.get_mut(..sealed.len())?.copy_from_slice(sealed);
        Some(Self { bytes, len: sealed.len() })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The handle of version 2 for a sealed one: the same for the same handle. An alias can be
/// resolved only by an [`Aliases`] that has stored the handle, or if it is an export's root.
pub fn short_handle(sealed: &[u8]) -> Fh2 {
    let mut short = [0; FHSIZE];
    if let Some(front) = short.get_mut(..sealed.len()) {
        front.copy_from_slice(sealed);
    } else {
        let halves = [1, 2].map(|key| hash(key, sealed));
        short.iter_mut().zip(halves.as_flattened()).for_each(|(to, from)| *to = *from);
        if let Some(first) = short.first_mut() {
            *first = ALIAS;
        }
    }
    short
}

fn hash(key: u64, sealed: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    hasher.write(sealed);
    hasher.finish128().as_bytes()
}

/// The long handles that have an alias.
#[derive(Debug)]
pub struct Aliases {
    table: Mutex<FifoMap<Fh2, FullHandle>>,
}

impl Default for Aliases {
    fn default() -> Self {
        Self { table: Mutex::new(FifoMap::new(ALIASES_MAX)) }
    }
}

impl Aliases {
    /// The handle of version 2 for a sealed one, stored for [`Aliases::resolve`] if it is an alias.
    pub fn shorten(&self, sealed: &[u8]) -> Fh2 {
        let short = short_handle(sealed);
        if short.first() == Some(&ALIAS)
            && let Some(long) = FullHandle::new(sealed)
        {
            self.table.lock().unwrap_or_else(PoisonError::into_inner).insert(short, long);
        }
        short
    }

    /// The sealed handle of one of version 2. Its MAC is not checked here but by
    /// [`export::Table::open`].
    ///
    /// # Errors
    /// [`Status::Stale`] for an alias that is not in the table.
    pub fn resolve(&self, exports: &Exports, short: &Fh2) -> vfs::Result<FullHandle> {
        let long = if short.first() == Some(&ALIAS) {
            self.find(short).or_else(|| root(exports, short))
        } else {
            FullHandle::new(short)
        };
        long.ok_or(Status::Stale)
    }

    fn find(&self, short: &Fh2) -> Option<FullHandle> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).find(short).copied()
    }
}

/// The root that an alias stands for.
fn root(exports: &Exports, short: &Fh2) -> Option<FullHandle> {
    exports.load().exports().iter().find_map(|export| {
        let sealed = export.seal(&export.backend.root());
        if short_handle(sealed.bytes()) == *short { FullHandle::new(sealed.bytes()) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::{ALIAS, Aliases, short_handle};

    #[test]
    fn handles_of_up_to_32_bytes_need_no_alias() {
        assert_eq!(short_handle(&[7; 32]), [7; 32]);
        assert_eq!(short_handle(&[7; 31])[30..], [7, 0]);
    }

    #[test]
    fn each_long_handle_has_its_own_alias() {
        let aliases = Aliases::default();
        let short = aliases.shorten(&[7; 40]);
        assert_eq!(short[0], ALIAS);
        assert_eq!(aliases.find(&short).unwrap().bytes(), [7; 40]);
        assert_ne!(short, short_handle(&[7; 41]));
        assert_eq!(short, short_handle(&[7; 40]));
        assert_eq!(aliases.find(&short_handle(&[7; 41])), None);
    }
}
