//! Directory entries as READDIR and READDIRPLUS list them (RFC 1813 §3.3.16, §3.3.17).

use super::attr::{POST_OP_ATTR_LEN, pair};
use super::{ENTRIES_MAX, FHSIZE, Fattr3, Fh, Filename3, Verf};
use xdr::{Decode, Encode, Error, Reader, Writer, hyper};

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

/// Bytes before the name of a [`WholeEntryPlus3`]: the boolean, the inode number and the name's length.
const HEAD: usize = 4 + 8 + 4;
/// Bytes between name and handle: cookie, attributes, the boolean and the handle's length.
const MIDDLE: usize = 8 + POST_OP_ATTR_LEN + 4 + 4;

/// An `entryplus3` with attributes and handle, which is written in one piece.
#[derive(Debug, Clone, Copy)]
pub struct WholeEntryPlus3<'a> {
    /// Inode number.
    pub fileid: u64,
    /// The name.
    pub name: &'a [u8],
    /// Cookie to continue after it.
    pub cookie: u64,
    /// Its attributes.
    pub attr: &'a Fattr3,
    /// Bytes of its handle.
    pub handle_len: usize,
}

impl WholeEntryPlus3<'_> {
    /// Bytes on the wire, with the boolean before it.
    pub const fn wire_len(&self) -> usize {
        let (name, handle) = (xdr::padded(self.name.len()), xdr::padded(self.handle_len));
        HEAD + MIDDLE + name + handle
    }

    /// Appends it, with the boolean before it. There is one look at the buffer's room for all of it. `put_handle` makes the
    /// handle in its place, and may use what is behind it.
    pub fn put(&self, w: &mut Writer, put_handle: impl FnOnce(&mut [u8; FHSIZE])) {
        let len = self.wire_len();
        // the longest handle has room behind the shortest
        let place = w.space(len + FHSIZE);
        if self.fill(place, put_handle).is_some() {
            w.advance(len);
        }
    }

    #[inline(always)]
    fn fill(&self, place: &mut [u8], put_handle: impl FnOnce(&mut [u8; FHSIZE])) -> Option<()> {
        let (head, rest) = place.split_first_chunk_mut::<HEAD>()?;
        let [high, low] = hyper(self.fileid);
        let name_len = u32::try_from(self.name.len()).ok()?;
        put_hypers(head, [pair(1, high), pair(low, name_len)]);
        let (name, rest) = rest.split_at_mut_checked(xdr::padded(self.name.len()))?;
        // the padding is in the last word; the data in it is written after that
        if let Some(last) = name.last_chunk_mut::<4>() {
            *last = [0; 4];
        }
        name.get_mut(..self.name.len())?.copy_from_slice(self.name);
        let (middle, rest) = rest.split_first_chunk_mut::<MIDDLE>()?;
        let [a, b, c, d, e, f, g, h, i, j, k] = self.attr.post_op_hypers();
        let handle = pair(1, u32::try_from(self.handle_len).ok()?);
        put_hypers(middle, [self.cookie, a, b, c, d, e, f, g, h, i, j, k, handle]);
        put_handle(rest.first_chunk_mut::<FHSIZE>()?);
        rest.get_mut(self.handle_len..xdr::padded(self.handle_len))?.fill(0);
        Some(())
    }
}

/// Fills a place of as many bytes with hypers.
fn put_hypers<const N: usize>(place: &mut [u8], hypers: [u64; N]) {
    for (place, hyper) in place.as_chunks_mut::<8>().0.iter_mut().zip(hypers) {
        *place = hyper.to_be_bytes();
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
