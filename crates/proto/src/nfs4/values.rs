//! Values that several operations use.

use super::{ATTRLIST_MAX, Bitmap4};
use crate::layout::Bytes;

crate::layout::fields! {
    /// `stateid4`.
    Stateid4 {
        /// Which version of the state; 0 means the current one (RFC 8881 §8.2.2).
        seqid: u32,
        /// Which state.
        other: [u8; 12],
    }
}

impl Stateid4 {
    /// No open: access is checked by the file's permissions (RFC 8881 §8.2.3).
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// READ bypass. A WRITE treats it as [`Self::ANONYMOUS`].
    pub const BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };
    /// The current stateid of the COMPOUND.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// Never valid.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };
}

crate::layout::fields! {
    /// `change_info4`: a directory's change attribute around a change.
    ChangeInfo4 {
        /// Whether nothing else can have changed it between the two.
        atomic: bool,
        /// Before.
        before: u64,
        /// After.
        after: u64,
    }
}

crate::layout::fields! {
    /// `fattr4`: which attributes, and their values one after the other in rising order of their numbers.
    Fattr4<'a> {
        /// Which.
        mask: Bitmap4,
        /// The values (`attrlist4`).
        values: Bytes<'a, ATTRLIST_MAX>,
    }
}

crate::layout::fields! {
    /// `nfstime4`.
    Nfstime4 {
        /// Seconds since 1970, in two's complement.
        seconds: u64,
        /// Nanoseconds.
        nseconds: u32,
    }
}

crate::layout::fields! {
    /// `specdata4`: the numbers of a device.
    Specdata4 {
        /// Major.
        major: u32,
        /// Minor.
        minor: u32,
    }
}

crate::layout::numbers! {
    /// `nfs_ftype4`.
    FileType4 as "nfs_ftype4" {
        /// A regular file.
        Reg = 1,
        /// A directory.
        Dir = 2,
        /// A block device.
        Blk = 3,
        /// A character device.
        Chr = 4,
        /// A symbolic link.
        Lnk = 5,
        /// A socket.
        Sock = 6,
        /// A named pipe.
        Fifo = 7,
        /// A named attribute's directory.
        AttrDir = 8,
        /// A named attribute.
        NamedAttr = 9,
    }
}
