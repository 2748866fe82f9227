//! Directory entries as READDIR and READDIRPLUS list them (RFC 1813 §3.3.16, §3.3.17).

use super::{ENTRIES_MAX, Fattr3, Fh, Filename3, Verf};
use xdr::{Decode, Encode, Error, Reader, Writer};

crate::layout::fields! {
    /// `entry3` without the link to the next.
    Entry3<'a> {
        /// Inode number.
        fileid: u64,
        /// The name.
        name: Filename3<'a>,
        /// Cookie to continue after it.
        cookie: u64,
    }
}

crate::layout::fields! {
    /// `entryplus3` without the link to the next.
    EntryPlus3<'a> {
        /// Inode number.
        fileid: u64,
        /// The name.
        name: Filename3<'a>,
        /// Cookie to continue after it.
        cookie: u64,
        /// Its attributes.
        attr: Option<Fattr3>,
        /// Its handle.
        handle: Option<Fh<'a>>,
    }
}

impl Entry3<'_> {
    /// Bytes on the wire of an entry with a name of `len` bytes, with the boolean before it.
    pub const fn wire_len(len: usize) -> usize {
        24 + xdr::padded(len)
    }
}

macro_rules! listing {
    ($(#[$meta:meta])* $name:ident of $entry:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name<'a> {
            /// The directory's attributes.
            pub dir: Option<Fattr3>,
            /// Verifier to be sent with a cookie.
            pub verf: Verf,
            /// The entries.
            pub entries: Vec<$entry<'a>>,
            /// Whether the last entry of the directory is among them.
            pub eof: bool,
        }

        impl<'a> Decode<'a> for $name<'a> {
            fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
                let (dir, verf) = (r.get()?, r.get()?);
                let mut entries = Vec::new();
                let eof = decode_entries(r, |entry: $entry<'a>| entries.push(entry))?;
                Ok(Self { dir, verf, entries, eof })
            }
        }

        impl Encode for $name<'_> {
            fn encode(&self, w: &mut Writer) {
                w.put(&self.dir);
                w.put(&self.verf);
                crate::list::encode(w, self.entries.iter().copied());
                w.bool(self.eof);
            }
        }
    };
}

listing! {
    /// `READDIR3resok`.
    ReaddirOk of Entry3
}

listing! {
    /// `READDIRPLUS3resok`.
    ReaddirplusOk of EntryPlus3
}

/// Reads `dirlist3` or `dirlistplus3` without storing it: passes each entry to `each`, and returns
/// `eof`.
///
/// # Errors
/// Those of the entries; [`Error::TooLong`] for more than [`ENTRIES_MAX`] of them.
pub fn decode_entries<'a, T: Decode<'a>>(
    r: &mut Reader<'a>,
    mut each: impl FnMut(T),
) -> Result<bool, Error> {
    let mut len = 0usize;
    while r.bool()? {
        len = len.saturating_add(1);
        if len > ENTRIES_MAX {
            return Err(Error::TooLong { len, limit: ENTRIES_MAX });
        }
        each(r.get()?);
    }
    r.bool()
}
