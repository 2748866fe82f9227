//! Arguments of the operations on data that version 4.2 adds (RFC 7862 §15), and of those on extended attributes (RFC 8276
//! §8.4).

use super::{Bitmap4, Component4, DATA_MAX, STRING_MAX, Stateid4};
use crate::layout::Bytes;
use xdr::{Decode, Encode, Error, Reader, Writer};

/// The most servers that a COPY may name as its source; the server has no use for any.
const SOURCES_MAX: usize = 64;

crate::layout::fields! {
    /// `ALLOCATE4args` and `DEALLOCATE4args`.
    RangeArgs {
        /// What gives the right to write.
        stateid: Stateid4,
        /// Where to begin.
        offset: u64,
        /// How many bytes.
        length: u64,
    }
}

crate::layout::fields! {
    /// `SEEK4args`.
    SeekArgs {
        /// What gives the right to read.
        stateid: Stateid4,
        /// Where to begin.
        offset: u64,
        /// A `data_content4`, of which only some are known: [`content`].
        what: u32,
    }
}

/// The numbers of `data_content4`.
pub mod content {
    /// Data.
    pub const DATA: u32 = 0;
    /// A hole.
    pub const HOLE: u32 = 1;
}

crate::layout::fields! {
    /// `CLONE4args`: from the saved filehandle to the current one.
    CloneArgs {
        /// What gives the right to read the source.
        src_stateid: Stateid4,
        /// What gives the right to write the target.
        dst_stateid: Stateid4,
        /// Where to begin in the source.
        src_offset: u64,
        /// Where to begin in the target.
        dst_offset: u64,
        /// How many bytes; 0 means up to the end.
        count: u64,
    }
}

crate::layout::fields! {
    /// `IO_ADVISE4args`.
    IoAdviseArgs {
        /// The open.
        stateid: Stateid4,
        /// Where to begin.
        offset: u64,
        /// How many bytes; 0 means up to the end.
        count: u64,
        /// The hints, by their numbers.
        hints: Bitmap4,
    }
}

/// `COPY4args`: from the saved filehandle to the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyArgs {
    /// The files, ranges and rights.
    pub range: CloneArgs,
    /// Whether the bytes must be copied in their order.
    pub consecutive: bool,
    /// Whether the copy must be done when it is answered.
    pub synchronous: bool,
    /// How many servers are named as the source; none: this one is it.
    pub sources: usize,
}

/// Skips a `netloc4`.
fn skip_netloc(r: &mut Reader<'_>) -> Result<(), Error> {
    match r.u32()? {
        // a name, a URL
        1 | 2 => r.opaque(STRING_MAX).map(drop),
        // netaddr4: net id and address
        3 => r.opaque(STRING_MAX).and_then(|_| r.opaque(STRING_MAX)).map(drop),
        value => Err(Error::NotMember { what: "netloc_type4", value }),
    }
}

impl<'a> Decode<'a> for CopyArgs {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let range = r.get()?;
        let (consecutive, synchronous) = (r.bool()?, r.bool()?);
        let sources = r.count(SOURCES_MAX)?;
        for _ in 0..sources {
            skip_netloc(r)?;
        }
        Ok(Self { range, consecutive, synchronous, sources })
    }
}

impl Encode for CopyArgs {
    /// Of a copy within one server: without names of sources.
    fn encode(&self, w: &mut Writer) {
        w.put(&self.range);
        w.bool(self.consecutive);
        w.bool(self.synchronous);
        w.u32(0);
    }
}

crate::layout::fields! {
    /// `GETXATTR4args` and `REMOVEXATTR4args`.
    XattrArgs<'a> {
        /// Its name.
        name: Component4<'a>,
    }
}

crate::layout::numbers! {
    /// `setxattr_option4`.
    SetxattrOption4 as "setxattr_option4" {
        /// Whether it is there or not.
        Either = 0,
        /// Only a new one.
        Create = 1,
        /// Only one that is there.
        Replace = 2,
    }
}

crate::layout::fields! {
    /// `SETXATTR4args`.
    SetxattrArgs<'a> {
        /// Whether it must be there.
        option: SetxattrOption4,
        /// Its name.
        name: Component4<'a>,
        /// Its value.
        value: Bytes<'a, DATA_MAX>,
    }
}

crate::layout::fields! {
    /// `LISTXATTRS4args`.
    ListxattrsArgs {
        /// Behind which name to begin; 0 is the start.
        cookie: u64,
        /// The most bytes of the whole result.
        maxcount: u32,
    }
}
