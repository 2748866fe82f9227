//! MOUNT, versions 1, 2 (RFC 1094, appendix A) and 3 (RFC 1813 §5): arguments and results.
//!
//! Both directions of every type, borrowed from the record. Every length has its limit here.

use crate::list;
use xdr::{Decode, Encode, Error, Reader, Writer};

/// The program's number.
pub const PROGRAM: u32 = 100_005;
/// The longest path in bytes (`MNTPATHLEN`, the same in all versions).
pub const PATH_MAX: usize = 1024;
/// The longest host or group name in bytes (`MNTNAMLEN`).
pub const NAME_MAX: usize = 255;
/// The length of a handle of versions 1 and 2 (`FHSIZE`).
pub const HANDLE_V1: usize = 32;
/// The longest handle of version 3 (`FHSIZE3`).
pub const HANDLE_V3_MAX: usize = 64;
/// The most authentication flavours of a reply; the protocol has no limit, and no server offers
/// more than the few registered ones.
pub const FLAVORS_MAX: usize = 16;
/// The most rows of DUMP or EXPORT that a client accepts.
pub const LIST_MAX: usize = 65_536;
/// The most groups of one export that a client accepts.
pub const GROUPS_MAX: usize = 4096;

/// AUTH_NONE, as MNT lists it (RFC 5531 §8.2).
pub const AUTH_NONE: u32 = 0;
/// AUTH_SYS, as MNT lists it (RFC 5531 §8.2).
pub const AUTH_SYS: u32 = 1;

/// Procedure numbers, the same in all versions (EXPORTALL only in 1 and 2).
pub mod procedure {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Returns the handle of a path.
    pub const MNT: u32 = 1;
    /// Lists the mounts of all clients.
    pub const DUMP: u32 = 2;
    /// Removes one mount of the caller.
    pub const UMNT: u32 = 3;
    /// Removes all mounts of the caller.
    pub const UMNTALL: u32 = 4;
    /// Lists the exports.
    pub const EXPORT: u32 = 5;
    /// EXPORT under another number (RFC 1094 §A.5); not in version 3.
    pub const EXPORTALL: u32 = 6;
}

/// `dirpath`, the argument of MNT and UMNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirPath<'a>(pub &'a [u8]);

impl<'a> Decode<'a> for DirPath<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.opaque(PATH_MAX).map(Self)
    }
}

impl Encode for DirPath<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.0);
    }
}

/// `mountstat3` (RFC 1813 §5.1.5) without the success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum MountError {
    /// MNT3ERR_PERM.
    #[error("not owner")]
    Perm = 1,
    /// MNT3ERR_NOENT.
    #[error("no such file or directory")]
    NoEnt = 2,
    /// MNT3ERR_IO.
    #[error("I/O error")]
    Io = 5,
    /// MNT3ERR_ACCES.
    #[error("permission denied")]
    Acces = 13,
    /// MNT3ERR_NOTDIR.
    #[error("not a directory")]
    NotDir = 20,
    /// MNT3ERR_INVAL.
    #[error("invalid argument")]
    Inval = 22,
    /// MNT3ERR_NAMETOOLONG.
    #[error("file name too long")]
    NameTooLong = 63,
    /// MNT3ERR_NOTSUPP.
    #[error("operation not supported")]
    NotSupp = 10_004,
    /// MNT3ERR_SERVERFAULT.
    #[error("server fault")]
    ServerFault = 10_006,
}

impl MountError {
    /// The number on the wire; versions 1 and 2 send it as a UNIX error number, and up to
    /// NAMETOOLONG the two lists agree.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The error with this number, if version 3 defines it.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Perm,
            2 => Self::NoEnt,
            5 => Self::Io,
            13 => Self::Acces,
            20 => Self::NotDir,
            22 => Self::Inval,
            63 => Self::NameTooLong,
            10_004 => Self::NotSupp,
            10_006 => Self::ServerFault,
            _ => return None,
        })
    }
}

/// The result of MNT in versions 1 and 2: `fhstatus` (RFC 1094 §A.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mount1Result {
    /// The root handle.
    Ok([u8; HANDLE_V1]),
    /// A UNIX error number, never 0.
    Err(u32),
}

impl<'a> Decode<'a> for Mount1Result {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        match r.u32()? {
            0 => r.array().map(Self::Ok),
            number => Ok(Self::Err(number)),
        }
    }
}

impl Encode for Mount1Result {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Ok(handle) => {
                w.u32(0);
                w.opaque_fixed(handle);
            }
            Self::Err(number) => w.u32(*number),
        }
    }
}

/// Authentication flavours in the order of the server's preference, inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flavors {
    list: [u32; FLAVORS_MAX],
    len: usize,
}

impl Flavors {
    /// These flavours; `None` for more than [`FLAVORS_MAX`].
    pub fn new(flavors: &[u32]) -> Option<Self> {
        let mut own = Self { len: flavors.len(), ..Self::default() };
        own.list.get_mut(..flavors.len())?.copy_from_slice(flavors);
        Some(own)
    }

    /// The flavours.
    pub fn list(&self) -> &[u32] {
        self.list.get(..self.len).unwrap_or_default()
    }
}

/// `mountres3_ok` (RFC 1813 §5.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mounted3<'a> {
    /// The handle of the path.
    pub handle: &'a [u8],
    /// The flavours that the server accepts.
    pub flavors: Flavors,
}

/// The result of MNT in version 3: `mountres3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mount3Result<'a> {
    /// The handle.
    Ok(Mounted3<'a>),
    /// The refusal.
    Err(MountError),
}

impl<'a> Decode<'a> for Mount3Result<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let status = r.u32()?;
        if status != 0 {
            return MountError::from_number(status)
                .map(Self::Err)
                .ok_or(Error::NotMember { what: "mountstat3", value: status });
        }
        let handle = r.opaque(HANDLE_V3_MAX)?;
        let mut flavors = Flavors { len: r.count(FLAVORS_MAX)?, ..Flavors::default() };
        for place in flavors.list.iter_mut().take(flavors.len) {
            *place = r.u32()?;
        }
        Ok(Self::Ok(Mounted3 { handle, flavors }))
    }
}

impl Encode for Mount3Result<'_> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Ok(mounted) => {
                w.u32(0);
                w.opaque(mounted.handle);
                let flavors = mounted.flavors.list();
                w.u32(u32::try_from(flavors.len()).unwrap_or_default());
                flavors.iter().for_each(|flavor| w.u32(*flavor));
            }
            Self::Err(error) => w.u32(error.number()),
        }
    }
}

/// One row of DUMP: `mountbody` (RFC 1813 §5.2.2, `mountlist` in RFC 1094 §A.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountRow<'a> {
    /// The client's host name.
    pub host: &'a [u8],
    /// The path that it mounted.
    pub path: &'a [u8],
}

impl MountRow<'_> {
    /// Bytes of the row on the wire, with the boolean before it.
    pub const fn wire_len(&self) -> usize {
        12 + xdr::padded(self.host.len()) + xdr::padded(self.path.len())
    }
}

impl<'a> Decode<'a> for MountRow<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { host: r.opaque(NAME_MAX)?, path: r.opaque(PATH_MAX)? })
    }
}

impl Encode for MountRow<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.host);
        w.opaque(self.path);
    }
}

/// The result of DUMP.
///
/// # Errors
/// [`Error`], also for more than [`LIST_MAX`] rows.
pub fn decode_dump<'a>(r: &mut Reader<'a>) -> Result<Vec<MountRow<'a>>, Error> {
    list::decode(r, LIST_MAX)
}

/// A client group of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group<'a>(pub &'a [u8]);

impl<'a> Decode<'a> for Group<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.opaque(NAME_MAX).map(Self)
    }
}

impl Encode for Group<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.0);
    }
}

/// One row of EXPORT: `exportnode` (RFC 1813 §5.2.5, `exportlist` in RFC 1094 §A.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportRow<'a> {
    /// The exported path.
    pub path: &'a [u8],
    /// The clients that may mount it; empty means all.
    pub groups: Vec<Group<'a>>,
}

impl<'a> Decode<'a> for ExportRow<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { path: r.opaque(PATH_MAX)?, groups: list::decode(r, GROUPS_MAX)? })
    }
}

impl Encode for ExportRow<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.path);
        list::encode(w, self.groups.iter().copied());
    }
}

/// The result of EXPORT and EXPORTALL.
///
/// # Errors
/// [`Error`], also for more than [`LIST_MAX`] rows.
pub fn decode_exports<'a>(r: &mut Reader<'a>) -> Result<Vec<ExportRow<'a>>, Error> {
    list::decode(r, LIST_MAX)
}

/// Decodes the arguments of one procedure and checks that nothing follows them; for tests with
/// arbitrary bytes. A procedure without arguments ignores what follows.
///
/// # Errors
/// [`Error`]: what the server would answer with GARBAGE_ARGS; [`Error::NotMember`] for a
/// procedure that the version does not have.
pub fn decode_all_args(version: u32, number: u32, bytes: &[u8]) -> Result<(), Error> {
    let mut r = Reader::new(bytes);
    match (version, number) {
        (1..=3, procedure::MNT | procedure::UMNT) => {
            r.get::<DirPath<'_>>()?;
        }
        (1..=3, procedure::NULL | procedure::DUMP | procedure::UMNTALL | procedure::EXPORT)
        | (1..=2, procedure::EXPORTALL) => return Ok(()),
        _ => return Err(Error::NotMember { what: "a procedure of MOUNT", value: number }),
    }
    r.end()
}

#[cfg(test)]
mod tests {
    use super::{
        DirPath, Error, ExportRow, Flavors, Group, Mount1Result, Mount3Result, MountError,
        MountRow, Mounted3, decode_all_args, decode_dump, decode_exports,
    };
    use crate::list;
    use xdr::{Encode, Reader, Writer};

    fn bytes(value: &impl Encode) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(value);
        w.bytes().to_vec()
    }

    #[test]
    fn a_v3_mount_has_the_layout_of_the_rfc() {
        let flavors = Flavors::new(&[1, 0]).unwrap();
        let result = Mount3Result::Ok(Mounted3 { handle: b"abcde", flavors });
        let wire = bytes(&result);
        assert_eq!(wire, b"\0\0\0\0\0\0\0\x05abcde\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0");
        let mut r = Reader::new(&wire);
        assert_eq!(r.get::<Mount3Result<'_>>(), Ok(result));
        r.end().unwrap();
    }

    #[test]
    fn every_error_survives_a_round_trip() {
        let mut seen = 0;
        for number in 0..20_000 {
            let Some(error) = MountError::from_number(number) else { continue };
            seen += 1;
            assert_eq!(error.number(), number);
            let wire = bytes(&Mount3Result::Err(error));
            assert_eq!(wire, number.to_be_bytes());
            assert_eq!(Reader::new(&wire).get(), Ok(Mount3Result::Err(error)));
        }
        assert_eq!(seen, 9);
        let unknown = 3u32.to_be_bytes();
        assert_eq!(
            Reader::new(&unknown).get::<Mount3Result<'_>>(),
            Err(Error::NotMember { what: "mountstat3", value: 3 })
        );
    }

    #[test]
    fn a_v1_mount_has_a_fixed_handle() {
        let wire = bytes(&Mount1Result::Ok([7; 32]));
        assert_eq!(wire.len(), 36);
        assert_eq!(Reader::new(&wire).get(), Ok(Mount1Result::Ok([7; 32])));
        assert_eq!(bytes(&Mount1Result::Err(13)), 13u32.to_be_bytes());
    }

    #[test]
    fn lists_survive_a_round_trip() {
        let rows =
            [MountRow { host: b"host", path: b"/a" }, MountRow { host: b"h2", path: b"/b/c" }];
        let mut w = Writer::new();
        list::encode(&mut w, rows);
        assert_eq!(w.len(), rows.iter().map(MountRow::wire_len).sum::<usize>() + 4);
        assert_eq!(decode_dump(&mut Reader::new(w.bytes())).unwrap(), rows);

        let exports = [
            ExportRow { path: b"/a", groups: vec![Group(b"10.0.0.0/8"), Group(b"h")] },
            ExportRow { path: b"/b", groups: vec![] },
        ];
        let mut w = Writer::new();
        list::encode(&mut w, exports.clone());
        assert_eq!(decode_exports(&mut Reader::new(w.bytes())).unwrap(), exports);
    }

    #[test]
    fn a_list_that_never_ends_is_refused() {
        let mut w = Writer::new();
        for _ in 0..5 {
            w.bool(true);
            w.opaque(b"g");
        }
        w.bool(false);
        let taken = list::decode::<Group<'_>>(&mut Reader::new(w.bytes()), 4);
        assert_eq!(taken, Err(Error::TooLong { len: 5, limit: 4 }));
        assert_eq!(list::decode::<Group<'_>>(&mut Reader::new(w.bytes()), 5).unwrap().len(), 5);
    }

    #[test]
    fn too_many_flavours_are_refused() {
        assert!(Flavors::new(&[1; 17]).is_none());
        let mut w = Writer::new();
        w.u32(0);
        w.opaque(b"");
        w.u32(17);
        assert_eq!(
            Reader::new(w.bytes()).get::<Mount3Result<'_>>(),
            Err(Error::TooLong { len: 17, limit: 16 })
        );
    }

    #[test]
    fn truncated_and_trailing_arguments_are_refused() {
        let path = bytes(&DirPath(b"/srv"));
        for version in 1..=3 {
            assert_eq!(decode_all_args(version, 1, &path), Ok(()));
            assert_eq!(decode_all_args(version, 3, &path), Ok(()));
            assert_eq!(decode_all_args(version, 2, &path), Ok(()));
            let long = [&path[..], &[0; 4]].concat();
            assert_eq!(decode_all_args(version, 1, &long), Err(Error::Trailing(4)));
            assert!(decode_all_args(version, 7, b"").is_err());
        }
        assert_eq!(decode_all_args(2, 6, b""), Ok(()));
        assert!(decode_all_args(3, 6, b"").is_err());
        let long = bytes(&DirPath(&[b'a'; 1025]));
        assert_eq!(decode_all_args(3, 1, &long), Err(Error::TooLong { len: 1025, limit: 1024 }));
    }
}
