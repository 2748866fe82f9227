//! Access control lists on the wire (RFC 8881 §6.2.1): entries are decoded one by one.

use super::OPAQUE_LIMIT;
use crate::layout::Bytes;
use xdr::{Decode, Error, Reader};

/// The most entries that are taken off the wire.
pub const ACES_MAX: usize = 4096;

/// Entry types (`acetype4`).
pub mod acetype {
    /// `ACE4_ACCESS_ALLOWED_ACE_TYPE`.
    pub const ALLOW: u32 = 0;
    /// `ACE4_ACCESS_DENIED_ACE_TYPE`.
    pub const DENY: u32 = 1;
    /// `ACE4_SYSTEM_AUDIT_ACE_TYPE`.
    pub const AUDIT: u32 = 2;
    /// `ACE4_SYSTEM_ALARM_ACE_TYPE`.
    pub const ALARM: u32 = 3;
}

crate::layout::fields! {
    /// `nfsace4`.
    Nfsace4<'a> {
        /// One of [`acetype`].
        kind: u32,
        /// `aceflag4`.
        flags: u32,
        /// `acemask4`.
        mask: u32,
        /// Whom it is about.
        who: Bytes<'a, OPAQUE_LIMIT>,
    }
}

/// The value of the attribute `acl`: checked as a whole, decoded entry by entry.
#[derive(Debug, Clone)]
pub struct AclValue<'a> {
    count: usize,
    aces: Reader<'a>,
}

impl<'a> AclValue<'a> {
    /// How many entries there are.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = Nfsace4<'a>> + use<'a> {
        let mut aces = self.aces.clone();
        (0..self.count).map_while(move |_| aces.get().ok())
    }
}

impl<'a> Decode<'a> for AclValue<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let count = r.count(ACES_MAX)?;
        let aces = r.clone();
        for _ in 0..count {
            r.get::<Nfsace4<'a>>()?;
        }
        Ok(Self { count, aces })
    }
}
