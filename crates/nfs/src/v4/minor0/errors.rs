//! Which errors each operation may fail with in version 4.0 (RFC 7530 §13.2, table 7), in the order of the operations'
//! numbers. NVERIFY has NFS4ERR_RESOURCE as well, which the table has for VERIFY and omits there, probably by mistake.

use proto::nfs4::Nfsstat4::{
    self, Access, AdminRevoked, AttrNotSupp, BadChar, BadCookie, BadHandle, BadName, BadOwner,
    BadRange, BadSeqid, BadStateid, BadType, BadXdr, CbPathDown, ClidInUse, DQuot, Deadlock, Delay,
    Denied, Exist, Expired, FBig, FhExpired, FileOpen, Grace, Inval, Io, IsDir, LeaseMoved,
    LockNotSupp, LockRange, Locked, LocksHeld, MLink, Moved, NameTooLong, NoEnt, NoFilehandle,
    NoGrace, NoSpc, NotDir, NotEmpty, NotSame, NotSupp, NxIo, OldStateid, OpIllegal, OpenMode,
    Perm, ReclaimBad, ReclaimConflict, Resource, RestoreFh, RoFs, Same, ServerFault, ShareDenied,
    Stale, StaleClientid, StaleStateid, Symlink, TooSmall, WrongSec, XDev,
};
use proto::nfs4::op;

const fn row(op: u32, errors: &'static [Nfsstat4]) -> (u32, &'static [Nfsstat4]) {
    (op, errors)
}

/// The errors of an operation; empty for one that version 4.0 does not have.
pub(in super::super) fn errors_of(number: u32) -> &'static [Nfsstat4] {
    let at = ERRORS.binary_search_by_key(&number, |(op, _)| *op);
    at.ok().and_then(|at| ERRORS.get(at)).map_or(&[], |(_, errors)| errors)
}

#[rustfmt::skip]
static ERRORS: [(u32, &[Nfsstat4]); 38] = [
    row(op::ACCESS, &[Access, BadHandle, BadXdr, Delay, FhExpired, Inval, Io, Moved, NoFilehandle, Resource,
        ServerFault, Stale]),
    row(op::CLOSE, &[AdminRevoked, BadHandle, BadSeqid, BadStateid, BadXdr, Delay, Expired, FhExpired, Inval, IsDir,
        LeaseMoved, LocksHeld, Moved, NoFilehandle, OldStateid, Resource, ServerFault, Stale, StaleStateid]),
    row(op::COMMIT, &[Access, BadHandle, BadXdr, Delay, FhExpired, Inval, Io, IsDir, Moved, NoFilehandle, Resource,
        RoFs, ServerFault, Stale, Symlink]),
    row(op::CREATE, &[Access, AttrNotSupp, BadChar, BadHandle, BadName, BadOwner, BadType, BadXdr, Delay, DQuot,
        Exist, FhExpired, Inval, Io, Moved, NameTooLong, NoFilehandle, NoSpc, NotDir, Perm, Resource, RoFs,
        ServerFault, Stale]),
    row(op::DELEGPURGE, &[BadXdr, Delay, LeaseMoved, NotSupp, Resource, ServerFault, StaleClientid]),
    row(op::DELEGRETURN, &[AdminRevoked, BadStateid, BadXdr, Delay, Expired, Inval, LeaseMoved, Moved, NoFilehandle,
        NotSupp, OldStateid, Resource, ServerFault, Stale, StaleStateid]),
    row(op::GETATTR, &[Access, BadHandle, BadXdr, Delay, FhExpired, Grace, Inval, Io, Moved, NoFilehandle, Resource,
        ServerFault, Stale]),
    row(op::GETFH, &[BadHandle, FhExpired, Moved, NoFilehandle, Resource, ServerFault, Stale]),
    row(op::LINK, &[Access, BadChar, BadHandle, BadName, BadXdr, Delay, DQuot, Exist, FhExpired, FileOpen, Inval, Io,
        IsDir, MLink, Moved, NameTooLong, NoEnt, NoFilehandle, NoSpc, NotDir, NotSupp, Resource, RoFs, ServerFault,
        Stale, WrongSec, XDev]),
    row(op::LOCK, &[Access, AdminRevoked, BadHandle, BadRange, BadSeqid, BadStateid, BadXdr, Deadlock, Delay, Denied,
        Expired, FhExpired, Grace, Inval, IsDir, LeaseMoved, LockNotSupp, LockRange, Moved, NoFilehandle, NoGrace,
        OldStateid, OpenMode, ReclaimBad, ReclaimConflict, Resource, ServerFault, Stale, StaleClientid,
        StaleStateid]),
    row(op::LOCKT, &[Access, BadHandle, BadRange, BadXdr, Delay, Denied, Expired, FhExpired, Grace, Inval, IsDir,
        LeaseMoved, LockRange, Moved, NoFilehandle, Resource, ServerFault, Stale, StaleClientid]),
    row(op::LOCKU, &[Access, AdminRevoked, BadHandle, BadRange, BadSeqid, BadStateid, BadXdr, Delay, Expired,
        FhExpired, Grace, Inval, IsDir, LeaseMoved, LockRange, Moved, NoFilehandle, OldStateid, Resource,
        ServerFault, Stale, StaleStateid]),
    row(op::LOOKUP, &[Access, BadChar, BadHandle, BadName, BadXdr, Delay, FhExpired, Inval, Io, Moved, NameTooLong,
        NoEnt, NoFilehandle, NotDir, Resource, ServerFault, Stale, Symlink, WrongSec]),
    row(op::LOOKUPP, &[Access, BadHandle, Delay, FhExpired, Io, Moved, NoEnt, NoFilehandle, NotDir, Resource,
        ServerFault, Stale, Symlink, WrongSec]),
    row(op::NVERIFY, &[Access, AttrNotSupp, BadChar, BadHandle, BadXdr, Delay, FhExpired, Grace, Inval, Io, Moved,
        NoFilehandle, Same, ServerFault, Stale, Resource]),
    row(op::OPEN, &[Access, AdminRevoked, AttrNotSupp, BadChar, BadHandle, BadName, BadOwner, BadSeqid, BadStateid,
        BadXdr, Delay, DQuot, Exist, Expired, FBig, FhExpired, Grace, Inval, Io, IsDir, Moved, NameTooLong, NoEnt,
        NoFilehandle, NoGrace, NoSpc, NotDir, NotSupp, OldStateid, Perm, ReclaimBad, ReclaimConflict, Resource, RoFs,
        ServerFault, ShareDenied, Stale, StaleClientid, Symlink, WrongSec]),
    row(op::OPENATTR, &[Access, BadHandle, BadXdr, Delay, DQuot, FhExpired, Io, Moved, NoEnt, NoFilehandle, NoSpc,
        NotSupp, Resource, RoFs, ServerFault, Stale]),
    row(op::OPEN_CONFIRM, &[AdminRevoked, BadHandle, BadSeqid, BadStateid, BadXdr, Expired, FhExpired, Inval, IsDir,
        LeaseMoved, Moved, NoFilehandle, OldStateid, Resource, ServerFault, Stale, StaleStateid]),
    row(op::OPEN_DOWNGRADE, &[AdminRevoked, BadHandle, BadSeqid, BadStateid, BadXdr, Delay, Expired, FhExpired,
        Inval, LeaseMoved, LocksHeld, Moved, NoFilehandle, OldStateid, Resource, RoFs, ServerFault, Stale,
        StaleStateid]),
    row(op::PUTFH, &[BadHandle, BadXdr, Delay, FhExpired, Moved, ServerFault, Stale, WrongSec]),
    row(op::PUTPUBFH, &[Delay, ServerFault, WrongSec]),
    row(op::PUTROOTFH, &[Delay, ServerFault, WrongSec]),
    row(op::READ, &[Access, AdminRevoked, BadHandle, BadStateid, BadXdr, Delay, Expired, FhExpired, Grace, Inval, Io,
        IsDir, LeaseMoved, Locked, Moved, NoFilehandle, OldStateid, OpenMode, Resource, ServerFault, Stale,
        StaleStateid, Symlink]),
    row(op::READDIR, &[Access, BadCookie, BadHandle, BadXdr, Delay, FhExpired, Inval, Io, Moved, NoFilehandle,
        NotDir, NotSame, Resource, ServerFault, Stale, TooSmall]),
    row(op::READLINK, &[Access, BadHandle, Delay, FhExpired, Inval, Io, IsDir, Moved, NoFilehandle, NotSupp,
        Resource, ServerFault, Stale]),
    row(op::REMOVE, &[Access, BadChar, BadHandle, BadName, BadXdr, Delay, FhExpired, FileOpen, Grace, Inval, Io,
        Moved, NameTooLong, NoEnt, NoFilehandle, NotDir, NotEmpty, Resource, RoFs, ServerFault, Stale]),
    row(op::RENAME, &[Access, BadChar, BadHandle, BadName, BadXdr, Delay, DQuot, Exist, FhExpired, FileOpen, Grace,
        Inval, Io, Moved, NameTooLong, NoEnt, NoFilehandle, NoSpc, NotDir, NotEmpty, Resource, RoFs, ServerFault,
        Stale, WrongSec, XDev]),
    row(op::RENEW, &[Access, BadXdr, CbPathDown, Expired, LeaseMoved, Resource, ServerFault, StaleClientid]),
    row(op::RESTOREFH, &[BadHandle, FhExpired, Moved, Resource, RestoreFh, ServerFault, Stale, WrongSec]),
    row(op::SAVEFH, &[BadHandle, FhExpired, Moved, NoFilehandle, Resource, ServerFault, Stale]),
    row(op::SECINFO, &[Access, BadChar, BadHandle, BadName, BadXdr, Delay, FhExpired, Inval, Moved, NameTooLong,
        NoEnt, NoFilehandle, NotDir, Resource, ServerFault, Stale]),
    row(op::SETATTR, &[Access, AdminRevoked, AttrNotSupp, BadChar, BadHandle, BadOwner, BadStateid, BadXdr, Delay,
        DQuot, Expired, FBig, FhExpired, Grace, Inval, Io, IsDir, LeaseMoved, Locked, Moved, NoFilehandle, NoSpc,
        OldStateid, OpenMode, Perm, Resource, RoFs, ServerFault, Stale, StaleStateid]),
    row(op::SETCLIENTID, &[BadXdr, ClidInUse, Delay, Inval, Resource, ServerFault]),
    row(op::SETCLIENTID_CONFIRM, &[BadXdr, ClidInUse, Delay, Resource, ServerFault, StaleClientid]),
    row(op::VERIFY, &[Access, AttrNotSupp, BadChar, BadHandle, BadXdr, Delay, FhExpired, Grace, Inval, Io, Moved,
        NoFilehandle, NotSame, Resource, ServerFault, Stale]),
    row(op::WRITE, &[Access, AdminRevoked, BadHandle, BadStateid, BadXdr, Delay, DQuot, Expired, FBig, FhExpired,
        Grace, Inval, Io, IsDir, LeaseMoved, Locked, Moved, NoFilehandle, NoSpc, NxIo, OldStateid, OpenMode,
        Resource, RoFs, ServerFault, Stale, StaleStateid, Symlink]),
    row(op::RELEASE_LOCKOWNER, &[BadXdr, Expired, LeaseMoved, LocksHeld, Resource, ServerFault, StaleClientid]),
    row(op::ILLEGAL, &[BadXdr, OpIllegal]),
];
