//! NFSACL, versions 2 and 3: POSIX access control lists beside NFS of the same version, arguments and results of all
//! procedures, in both directions.
//!
//! Sun's protocol, described in draft-cel-nfsv4-nfs-acl; Linux uses GETACL, SETACL and, in version 2, GETATTR and
//! ACCESS. GETXATTRDIR is specific to Solaris and not implemented. The entries of a list are a count, and a list of
//! the same length unless only the count was requested.

use crate::nfs2::{Fattr2, Fh2, Res2};
use crate::nfs3::{Fh, PostOpAttr, Res};
use xdr::{Decode, Encode, Error, Reader, Writer};

/// The program's number.
pub const PROGRAM: u32 = 100_227;
/// The most entries of one list (`NFS_ACL_MAX_ENTRIES`).
pub const ENTRIES_MAX: usize = 1024;

/// Procedure numbers of version 2.
pub mod procedure2 {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// The access control lists of an object.
    pub const GETACL: u32 = 1;
    /// Sets them.
    pub const SETACL: u32 = 2;
    /// Attributes.
    pub const GETATTR: u32 = 3;
    /// Permissions, as in NFS version 3.
    pub const ACCESS: u32 = 4;
}

/// Procedure numbers of version 3.
pub mod procedure3 {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// The access control lists of an object.
    pub const GETACL: u32 = 1;
    /// Sets them.
    pub const SETACL: u32 = 2;
}

/// The bits of a mask: requested or returned lists.
pub mod mask {
    /// The access list.
    pub const ACL: u32 = 0x1;
    /// The number of its entries.
    pub const ACL_COUNT: u32 = 0x2;
    /// The default list.
    pub const DEFAULT: u32 = 0x4;
    /// The number of its entries.
    pub const DEFAULT_COUNT: u32 = 0x8;
    /// All of them.
    pub const ALL: u32 = 0xf;
}

/// The kinds of entries. In a default list each also has [`DEFAULT`](kind::DEFAULT).
pub mod kind {
    /// The owner.
    pub const USER_OBJ: u32 = 0x1;
    /// Another user.
    pub const USER: u32 = 0x2;
    /// The owning group.
    pub const GROUP_OBJ: u32 = 0x4;
    /// Another group.
    pub const GROUP: u32 = 0x8;
    /// The mask.
    pub const CLASS_OBJ: u32 = 0x10;
    /// Others.
    pub const OTHER_OBJ: u32 = 0x20;
    /// The entry is one of a default list.
    pub const DEFAULT: u32 = 0x1000;
}

crate::layout::fields! {
    /// `aclent`: one entry. Kinds and permissions are not checked here: the server refuses invalid ones.
    AclEntry {
        /// One of [`kind`].
        kind: u32,
        /// The user or group.
        id: u32,
        /// Read 4, write 2, execute 1.
        permissions: u32,
    }
}

/// Bytes of an entry on the wire.
const ENTRY_LEN: usize = 12;

/// The entries of one list, without a copy: as bytes of the record, or to be sent.
#[derive(Debug, Clone, Copy)]
pub enum AclEntries<'a> {
    /// Whole entries of a record.
    Wire(&'a [u8]),
    /// Entries.
    Own(&'a [AclEntry]),
}

impl<'a> AclEntries<'a> {
    /// None.
    pub const NONE: Self = Self::Own(&[]);

    /// How many there are.
    pub const fn len(&self) -> usize {
        match self {
            Self::Wire(bytes) => bytes.len() / ENTRY_LEN,
            Self::Own(entries) => entries.len(),
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = AclEntry> + use<'a> {
        let (wire, own): (&'a [u8], &'a [AclEntry]) = match *self {
            Self::Wire(bytes) => (bytes, &[]),
            Self::Own(entries) => (&[], entries),
        };
        let (chunks, _) = wire.as_chunks::<ENTRY_LEN>();
        let decode = |bytes: &'a [u8; ENTRY_LEN]| Reader::new(bytes).get::<AclEntry>().ok();
        chunks.iter().filter_map(decode).chain(own.iter().copied())
    }
}

impl PartialEq for AclEntries<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for AclEntries<'_> {}

impl<'a> Decode<'a> for AclEntries<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let count = r.count(ENTRIES_MAX)?;
        r.opaque_fixed(count * ENTRY_LEN).map(Self::Wire)
    }
}

impl Encode for AclEntries<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(u32::try_from(self.len()).unwrap_or(u32::MAX));
        self.iter().for_each(|entry| w.put(&entry));
    }
}

/// `secattr`: both lists of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecAttr<'a> {
    /// The valid fields of the following: bits of [`mask`].
    pub mask: u32,
    /// Number of entries of the access list; they need not follow.
    pub acl_count: u32,
    /// The access list, or nothing.
    pub acl: AclEntries<'a>,
    /// Number of entries of the default list; they need not follow.
    pub default_count: u32,
    /// The default list, or nothing.
    pub default: AclEntries<'a>,
}

/// A count, and a list of as many entries or none.
fn counted<'a>(r: &mut Reader<'a>) -> Result<(u32, AclEntries<'a>), Error> {
    let count = r.u32()?;
    let entries: AclEntries<'a> = r.get()?;
    if count as usize > ENTRIES_MAX {
        return Err(Error::TooLong { len: count as usize, limit: ENTRIES_MAX });
    }
    if !entries.is_empty() && entries.len() != count as usize {
        return Err(Error::Invalid("an access control list is not as long as its count"));
    }
    Ok((count, entries))
}

impl<'a> Decode<'a> for SecAttr<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let mask = r.u32()?;
        let (acl_count, acl) = counted(r)?;
        let (default_count, default) = counted(r)?;
        Ok(Self { mask, acl_count, acl, default_count, default })
    }
}

impl Encode for SecAttr<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.mask);
        w.u32(self.acl_count);
        w.put(&self.acl);
        w.u32(self.default_count);
        w.put(&self.default);
    }
}

crate::layout::fields! {
    /// `GETACL2args`.
    GetAcl2Args {
        /// The object.
        handle: Fh2,
        /// The requested lists: bits of [`mask`].
        mask: u32,
    }
}

crate::layout::fields! {
    /// `GETACL2resok`.
    GetAcl2Ok<'a> {
        /// The attributes.
        attr: Fattr2,
        /// The lists.
        acl: SecAttr<'a>,
    }
}

/// `GETACL2res`.
pub type GetAcl2Res<'a> = Res2<GetAcl2Ok<'a>>;

crate::layout::fields! {
    /// `SETACL2args`.
    SetAcl2Args<'a> {
        /// The object.
        handle: Fh2,
        /// The lists.
        acl: SecAttr<'a>,
    }
}

/// `SETACL2res`, `GETATTR2res`.
pub type Attr2Res = Res2<Fattr2>;

crate::layout::fields! {
    /// `ACCESS2args`.
    Access2Args {
        /// The object.
        handle: Fh2,
        /// The bits of RFC 1813 §3.3.4.
        access: u32,
    }
}

crate::layout::fields! {
    /// `ACCESS2resok`.
    Access2Ok {
        /// The attributes.
        attr: Fattr2,
        /// The granted part of the requested bits.
        access: u32,
    }
}

/// `ACCESS2res`.
pub type Access2Res = Res2<Access2Ok>;

crate::layout::fields! {
    /// `GETACL3args`.
    GetAcl3Args<'a> {
        /// The object.
        handle: Fh<'a>,
        /// The requested lists: bits of [`mask`].
        mask: u32,
    }
}

crate::layout::fields! {
    /// `GETACL3resok`.
    GetAcl3Ok<'a> {
        /// The attributes.
        attr: PostOpAttr,
        /// The lists.
        acl: SecAttr<'a>,
    }
}

/// `GETACL3res`.
pub type GetAcl3Res<'a> = Res<GetAcl3Ok<'a>, PostOpAttr>;

crate::layout::fields! {
    /// `SETACL3args`.
    SetAcl3Args<'a> {
        /// The object.
        handle: Fh<'a>,
        /// The lists.
        acl: SecAttr<'a>,
    }
}

/// `SETACL3res`.
pub type SetAcl3Res = Res<PostOpAttr, PostOpAttr>;

fn whole<'a, T: Decode<'a>>(r: &mut Reader<'a>) -> Result<(), Error> {
    r.get::<T>().map(drop)
}

/// Decodes the arguments of one procedure and checks that nothing follows them; for tests with arbitrary bytes.
///
/// # Errors
/// [`Error`]: what the server would answer with GARBAGE_ARGS; [`Error::NotMember`] for a procedure that the version
/// does not have.
pub fn decode_all_args(version: u32, number: u32, bytes: &[u8]) -> Result<(), Error> {
    let r = &mut Reader::new(bytes);
    match (version, number) {
        (2, procedure2::NULL) | (3, procedure3::NULL) => return Ok(()),
        (2, procedure2::GETACL) => whole::<GetAcl2Args>(r)?,
        (2, procedure2::SETACL) => whole::<SetAcl2Args<'_>>(r)?,
        (2, procedure2::GETATTR) => whole::<Fh2>(r)?,
        (2, procedure2::ACCESS) => whole::<Access2Args>(r)?,
        (3, procedure3::GETACL) => whole::<GetAcl3Args<'_>>(r)?,
        (3, procedure3::SETACL) => whole::<SetAcl3Args<'_>>(r)?,
        _ => return Err(Error::NotMember { what: "a procedure of NFSACL", value: number }),
    }
    r.end()
}

#[cfg(test)]
mod tests;
