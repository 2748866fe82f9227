//! The operations of a COMPOUND (`nfs_opnum4`, RFC 7863 and RFC 8276), by number.

/// Operation numbers.
pub mod op {
    /// ACCESS.
    pub const ACCESS: u32 = 3;
    /// CLOSE.
    pub const CLOSE: u32 = 4;
    /// COMMIT.
    pub const COMMIT: u32 = 5;
    /// CREATE.
    pub const CREATE: u32 = 6;
    /// DELEGPURGE.
    pub const DELEGPURGE: u32 = 7;
    /// DELEGRETURN.
    pub const DELEGRETURN: u32 = 8;
    /// GETATTR.
    pub const GETATTR: u32 = 9;
    /// GETFH.
    pub const GETFH: u32 = 10;
    /// LINK.
    pub const LINK: u32 = 11;
    /// LOCK.
    pub const LOCK: u32 = 12;
    /// LOCKT.
    pub const LOCKT: u32 = 13;
    /// LOCKU.
    pub const LOCKU: u32 = 14;
    /// LOOKUP.
    pub const LOOKUP: u32 = 15;
    /// LOOKUPP.
    pub const LOOKUPP: u32 = 16;
    /// NVERIFY.
    pub const NVERIFY: u32 = 17;
    /// OPEN.
    pub const OPEN: u32 = 18;
    /// OPENATTR.
    pub const OPENATTR: u32 = 19;
    /// OPEN_CONFIRM.
    pub const OPEN_CONFIRM: u32 = 20;
    /// OPEN_DOWNGRADE.
    pub const OPEN_DOWNGRADE: u32 = 21;
    /// PUTFH.
    pub const PUTFH: u32 = 22;
    /// PUTPUBFH.
    pub const PUTPUBFH: u32 = 23;
    /// PUTROOTFH.
    pub const PUTROOTFH: u32 = 24;
    /// READ.
    pub const READ: u32 = 25;
    /// READDIR.
    pub const READDIR: u32 = 26;
    /// READLINK.
    pub const READLINK: u32 = 27;
    /// REMOVE.
    pub const REMOVE: u32 = 28;
    /// RENAME.
    pub const RENAME: u32 = 29;
    /// RENEW.
    pub const RENEW: u32 = 30;
    /// RESTOREFH.
    pub const RESTOREFH: u32 = 31;
    /// SAVEFH.
    pub const SAVEFH: u32 = 32;
    /// SECINFO.
    pub const SECINFO: u32 = 33;
    /// SETATTR.
    pub const SETATTR: u32 = 34;
    /// SETCLIENTID.
    pub const SETCLIENTID: u32 = 35;
    /// SETCLIENTID_CONFIRM.
    pub const SETCLIENTID_CONFIRM: u32 = 36;
    /// VERIFY.
    pub const VERIFY: u32 = 37;
    /// WRITE.
    pub const WRITE: u32 = 38;
    /// RELEASE_LOCKOWNER.
    pub const RELEASE_LOCKOWNER: u32 = 39;
    /// BACKCHANNEL_CTL.
    pub const BACKCHANNEL_CTL: u32 = 40;
    /// BIND_CONN_TO_SESSION.
    pub const BIND_CONN_TO_SESSION: u32 = 41;
    /// EXCHANGE_ID.
    pub const EXCHANGE_ID: u32 = 42;
    /// CREATE_SESSION.
    pub const CREATE_SESSION: u32 = 43;
    /// DESTROY_SESSION.
    pub const DESTROY_SESSION: u32 = 44;
    /// FREE_STATEID.
    pub const FREE_STATEID: u32 = 45;
    /// GET_DIR_DELEGATION.
    pub const GET_DIR_DELEGATION: u32 = 46;
    /// GETDEVICEINFO.
    pub const GETDEVICEINFO: u32 = 47;
    /// GETDEVICELIST.
    pub const GETDEVICELIST: u32 = 48;
    /// LAYOUTCOMMIT.
    pub const LAYOUTCOMMIT: u32 = 49;
    /// LAYOUTGET.
    pub const LAYOUTGET: u32 = 50;
    /// LAYOUTRETURN.
    pub const LAYOUTRETURN: u32 = 51;
    /// SECINFO_NO_NAME.
    pub const SECINFO_NO_NAME: u32 = 52;
    /// SEQUENCE.
    pub const SEQUENCE: u32 = 53;
    /// SET_SSV.
    pub const SET_SSV: u32 = 54;
    /// TEST_STATEID.
    pub const TEST_STATEID: u32 = 55;
    /// WANT_DELEGATION.
    pub const WANT_DELEGATION: u32 = 56;
    /// DESTROY_CLIENTID.
    pub const DESTROY_CLIENTID: u32 = 57;
    /// RECLAIM_COMPLETE.
    pub const RECLAIM_COMPLETE: u32 = 58;
    /// ALLOCATE.
    pub const ALLOCATE: u32 = 59;
    /// COPY.
    pub const COPY: u32 = 60;
    /// COPY_NOTIFY.
    pub const COPY_NOTIFY: u32 = 61;
    /// DEALLOCATE.
    pub const DEALLOCATE: u32 = 62;
    /// IO_ADVISE.
    pub const IO_ADVISE: u32 = 63;
    /// LAYOUTERROR.
    pub const LAYOUTERROR: u32 = 64;
    /// LAYOUTSTATS.
    pub const LAYOUTSTATS: u32 = 65;
    /// OFFLOAD_CANCEL.
    pub const OFFLOAD_CANCEL: u32 = 66;
    /// OFFLOAD_STATUS.
    pub const OFFLOAD_STATUS: u32 = 67;
    /// READ_PLUS.
    pub const READ_PLUS: u32 = 68;
    /// SEEK.
    pub const SEEK: u32 = 69;
    /// WRITE_SAME.
    pub const WRITE_SAME: u32 = 70;
    /// CLONE.
    pub const CLONE: u32 = 71;
    /// GETXATTR.
    pub const GETXATTR: u32 = 72;
    /// SETXATTR.
    pub const SETXATTR: u32 = 73;
    /// LISTXATTRS.
    pub const LISTXATTRS: u32 = 74;
    /// REMOVEXATTR.
    pub const REMOVEXATTR: u32 = 75;
    /// ILLEGAL.
    pub const ILLEGAL: u32 = 10044;
}

/// An operation: its name, and the minor versions that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpInfo {
    /// The number on the wire.
    pub number: u32,
    /// The name in the RFC.
    pub name: &'static str,
    /// The first minor version that defines it.
    pub since: u32,
    /// The last minor version in which it may be implemented; later ones answer NFS4ERR_NOTSUPP.
    pub until: u32,
}

const LATEST: u32 = u32::MAX;

const fn info(number: u32, name: &'static str, since: u32, until: u32) -> OpInfo {
    OpInfo { number, name, since, until }
}

/// The operations of versions 4.0 to 4.2 with the extended attributes of RFC 8276, rising and without a gap from [`op::ACCESS`], ILLEGAL left out.
pub static OPS: [OpInfo; 73] = [
    info(op::ACCESS, "ACCESS", 0, LATEST),
    info(op::CLOSE, "CLOSE", 0, LATEST),
    info(op::COMMIT, "COMMIT", 0, LATEST),
    info(op::CREATE, "CREATE", 0, LATEST),
    info(op::DELEGPURGE, "DELEGPURGE", 0, LATEST),
    info(op::DELEGRETURN, "DELEGRETURN", 0, LATEST),
    info(op::GETATTR, "GETATTR", 0, LATEST),
    info(op::GETFH, "GETFH", 0, LATEST),
    info(op::LINK, "LINK", 0, LATEST),
    info(op::LOCK, "LOCK", 0, LATEST),
    info(op::LOCKT, "LOCKT", 0, LATEST),
    info(op::LOCKU, "LOCKU", 0, LATEST),
    info(op::LOOKUP, "LOOKUP", 0, LATEST),
    info(op::LOOKUPP, "LOOKUPP", 0, LATEST),
    info(op::NVERIFY, "NVERIFY", 0, LATEST),
    info(op::OPEN, "OPEN", 0, LATEST),
    info(op::OPENATTR, "OPENATTR", 0, LATEST),
    info(op::OPEN_CONFIRM, "OPEN_CONFIRM", 0, 0),
    info(op::OPEN_DOWNGRADE, "OPEN_DOWNGRADE", 0, LATEST),
    info(op::PUTFH, "PUTFH", 0, LATEST),
    info(op::PUTPUBFH, "PUTPUBFH", 0, LATEST),
    info(op::PUTROOTFH, "PUTROOTFH", 0, LATEST),
    info(op::READ, "READ", 0, LATEST),
    info(op::READDIR, "READDIR", 0, LATEST),
    info(op::READLINK, "READLINK", 0, LATEST),
    info(op::REMOVE, "REMOVE", 0, LATEST),
    info(op::RENAME, "RENAME", 0, LATEST),
    info(op::RENEW, "RENEW", 0, 0),
    info(op::RESTOREFH, "RESTOREFH", 0, LATEST),
    info(op::SAVEFH, "SAVEFH", 0, LATEST),
    info(op::SECINFO, "SECINFO", 0, LATEST),
    info(op::SETATTR, "SETATTR", 0, LATEST),
    info(op::SETCLIENTID, "SETCLIENTID", 0, 0),
    info(op::SETCLIENTID_CONFIRM, "SETCLIENTID_CONFIRM", 0, 0),
    info(op::VERIFY, "VERIFY", 0, LATEST),
    info(op::WRITE, "WRITE", 0, LATEST),
    info(op::RELEASE_LOCKOWNER, "RELEASE_LOCKOWNER", 0, 0),
    info(op::BACKCHANNEL_CTL, "BACKCHANNEL_CTL", 1, LATEST),
    info(op::BIND_CONN_TO_SESSION, "BIND_CONN_TO_SESSION", 1, LATEST),
    info(op::EXCHANGE_ID, "EXCHANGE_ID", 1, LATEST),
    info(op::CREATE_SESSION, "CREATE_SESSION", 1, LATEST),
    info(op::DESTROY_SESSION, "DESTROY_SESSION", 1, LATEST),
    info(op::FREE_STATEID, "FREE_STATEID", 1, LATEST),
    info(op::GET_DIR_DELEGATION, "GET_DIR_DELEGATION", 1, LATEST),
    info(op::GETDEVICEINFO, "GETDEVICEINFO", 1, LATEST),
    info(op::GETDEVICELIST, "GETDEVICELIST", 1, 1),
    info(op::LAYOUTCOMMIT, "LAYOUTCOMMIT", 1, LATEST),
    info(op::LAYOUTGET, "LAYOUTGET", 1, LATEST),
    info(op::LAYOUTRETURN, "LAYOUTRETURN", 1, LATEST),
    info(op::SECINFO_NO_NAME, "SECINFO_NO_NAME", 1, LATEST),
    info(op::SEQUENCE, "SEQUENCE", 1, LATEST),
    info(op::SET_SSV, "SET_SSV", 1, LATEST),
    info(op::TEST_STATEID, "TEST_STATEID", 1, LATEST),
    info(op::WANT_DELEGATION, "WANT_DELEGATION", 1, LATEST),
    info(op::DESTROY_CLIENTID, "DESTROY_CLIENTID", 1, LATEST),
    info(op::RECLAIM_COMPLETE, "RECLAIM_COMPLETE", 1, LATEST),
    info(op::ALLOCATE, "ALLOCATE", 2, LATEST),
    info(op::COPY, "COPY", 2, LATEST),
    info(op::COPY_NOTIFY, "COPY_NOTIFY", 2, LATEST),
    info(op::DEALLOCATE, "DEALLOCATE", 2, LATEST),
    info(op::IO_ADVISE, "IO_ADVISE", 2, LATEST),
    info(op::LAYOUTERROR, "LAYOUTERROR", 2, LATEST),
    info(op::LAYOUTSTATS, "LAYOUTSTATS", 2, LATEST),
    info(op::OFFLOAD_CANCEL, "OFFLOAD_CANCEL", 2, LATEST),
    info(op::OFFLOAD_STATUS, "OFFLOAD_STATUS", 2, LATEST),
    info(op::READ_PLUS, "READ_PLUS", 2, LATEST),
    info(op::SEEK, "SEEK", 2, LATEST),
    info(op::WRITE_SAME, "WRITE_SAME", 2, LATEST),
    info(op::CLONE, "CLONE", 2, LATEST),
    info(op::GETXATTR, "GETXATTR", 2, LATEST),
    info(op::SETXATTR, "SETXATTR", 2, LATEST),
    info(op::LISTXATTRS, "LISTXATTRS", 2, LATEST),
    info(op::REMOVEXATTR, "REMOVEXATTR", 2, LATEST),
];

/// The number of the first operation.
pub const FIRST: u32 = op::ACCESS;

/// What is known of an operation; `None` for a number that versions 4.0 to 4.2 do not define.
pub fn op_info(number: u32) -> Option<&'static OpInfo> {
    OPS.get(usize::try_from(number.checked_sub(FIRST)?).ok()?)
}
