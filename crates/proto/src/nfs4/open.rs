//! Arguments of OPEN (RFC 8881 §18.16).

use super::{Component4, Fattr4, OPAQUE_LIMIT, Stateid4, Verifier4};
use crate::layout::Bytes;
use xdr::{Decode, Encode, Error, Reader, Writer};

/// Bits of `share_access` (`OPEN4_SHARE_ACCESS_*`).
pub mod share {
    /// For reading.
    pub const ACCESS_READ: u32 = 1;
    /// For writing.
    pub const ACCESS_WRITE: u32 = 2;
    /// The bits that say what the file is open for.
    pub const ACCESS_MASK: u32 = 3;
    /// The bits that say which delegation is wanted.
    pub const WANT_MASK: u32 = 0xff00;
    /// One for reading is wanted.
    pub const WANT_READ_DELEG: u32 = 0x0100;
    /// No delegation is wanted.
    pub const WANT_NO_DELEG: u32 = 0x0400;
    /// A wanted delegation is to be cancelled.
    pub const WANT_CANCEL: u32 = 0x0500;
    /// When a delegation could be signalled: two single bits.
    pub const WANT_SIGNALS: u32 = 0x3_0000;
    /// The client wants to keep the file's times itself while it has the delegation (RFC 9754).
    pub const WANT_DELEG_TIMESTAMPS: u32 = 0x10_0000;
    /// The client wants no open where it gets a delegation (RFC 9754).
    pub const WANT_OPEN_XOR_DELEGATION: u32 = 0x20_0000;
    /// The bits of `share_deny`.
    pub const DENY_MASK: u32 = 3;
}

crate::layout::fields! {
    /// `open_owner4`.
    OpenOwner4<'a> {
        /// Ignored since version 4.1: the session says who calls.
        clientid: u64,
        /// The client's name for one that opens files.
        owner: Bytes<'a, OPAQUE_LIMIT>,
    }
}

/// How OPEN makes a file (`createhow4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Createhow4<'a> {
    /// What is there is taken, and cut if size is among the attributes.
    Unchecked(Fattr4<'a>),
    /// Nothing may be there.
    Guarded(Fattr4<'a>),
    /// Nothing may be there that was not made with this verifier.
    Exclusive(Verifier4),
    /// The same, with attributes.
    Exclusive41(Verifier4, Fattr4<'a>),
}

impl<'a> Decode<'a> for Createhow4<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match r.u32()? {
            0 => Self::Unchecked(r.get()?),
            1 => Self::Guarded(r.get()?),
            2 => Self::Exclusive(r.get()?),
            3 => Self::Exclusive41(r.get()?, r.get()?),
            value => return Err(Error::NotMember { what: "createmode4", value }),
        })
    }
}

impl Encode for Createhow4<'_> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Unchecked(attrs) => (w.u32(0), w.put(attrs)).0,
            Self::Guarded(attrs) => (w.u32(1), w.put(attrs)).0,
            Self::Exclusive(verifier) => (w.u32(2), w.put(verifier)).0,
            Self::Exclusive41(verifier, attrs) => {
                w.u32(3);
                w.put(verifier);
                w.put(attrs);
            }
        }
    }
}

/// Whether OPEN makes a file (`openflag4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenHow4<'a> {
    /// It must be there.
    NoCreate,
    /// It is made.
    Create(Createhow4<'a>),
}

impl<'a> Decode<'a> for OpenHow4<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        // the XDR has one case and a default
        match r.u32()? {
            1 => Ok(Self::Create(r.get()?)),
            0 => Ok(Self::NoCreate),
            value => Err(Error::NotMember { what: "opentype4", value }),
        }
    }
}

impl Encode for OpenHow4<'_> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::NoCreate => w.u32(0),
            Self::Create(how) => (w.u32(1), w.put(how)).0,
        }
    }
}

/// By what right a file is opened (`open_claim4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenClaim4<'a> {
    /// A name in the current directory.
    Null(Component4<'a>),
    /// The current file, which was open before the server restarted; and the delegation that went with it.
    Previous(u32),
    /// A name, of which the client has a delegation.
    DelegateCur(Stateid4, Component4<'a>),
    /// A name, of which the client had a delegation before it restarted.
    DelegatePrev(Component4<'a>),
    /// The current file.
    Fh,
    /// The current file, of which the client has a delegation.
    DelegCurFh(Stateid4),
    /// The current file, of which the client had a delegation before it restarted.
    DelegPrevFh,
}

impl<'a> Decode<'a> for OpenClaim4<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match r.u32()? {
            0 => Self::Null(r.get()?),
            1 => Self::Previous(r.get()?),
            2 => Self::DelegateCur(r.get()?, r.get()?),
            3 => Self::DelegatePrev(r.get()?),
            4 => Self::Fh,
            5 => Self::DelegCurFh(r.get()?),
            6 => Self::DelegPrevFh,
            value => return Err(Error::NotMember { what: "open_claim_type4", value }),
        })
    }
}

impl Encode for OpenClaim4<'_> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Null(name) => (w.u32(0), w.put(name)).0,
            Self::Previous(delegation) => w.words([1, *delegation]),
            Self::DelegateCur(stateid, name) => {
                w.u32(2);
                w.put(stateid);
                w.put(name);
            }
            Self::DelegatePrev(name) => (w.u32(3), w.put(name)).0,
            Self::Fh => w.u32(4),
            Self::DelegCurFh(stateid) => (w.u32(5), w.put(stateid)).0,
            Self::DelegPrevFh => w.u32(6),
        }
    }
}

crate::layout::fields! {
    /// `OPEN4args`.
    OpenArgs<'a> {
        /// Ignored since version 4.1.
        seqid: u32,
        /// What the file is to be open for, and which delegation is wanted ([`share`]).
        share_access: u32,
        /// What others may not open it for.
        share_deny: u32,
        /// Who opens it.
        owner: OpenOwner4<'a>,
        /// Whether it is made.
        how: OpenHow4<'a>,
        /// By what right.
        claim: OpenClaim4<'a>,
    }
}
