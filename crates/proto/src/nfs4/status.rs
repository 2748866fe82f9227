//! `nfsstat4` (RFC 7863; the meanings are in RFC 8881 §15.1, RFC 7862 §11.1 and RFC 8276 §8.3).

crate::layout::numbers! {
    /// How an operation ended.
    Nfsstat4 as "nfsstat4" {
        /// Success.
        Ok = 0,
        /// The caller is not privileged.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// A hard I/O error.
        Io = 5,
        /// No such device.
        NxIo = 6,
        /// Permission denied.
        Access = 13,
        /// The name exists.
        Exist = 17,
        /// Across file systems.
        XDev = 18,
        /// Not a directory.
        NotDir = 20,
        /// A directory.
        IsDir = 21,
        /// An invalid argument.
        Inval = 22,
        /// Larger than a file can be.
        FBig = 27,
        /// No space left.
        NoSpc = 28,
        /// A read-only file system.
        RoFs = 30,
        /// Too many hard links.
        MLink = 31,
        /// A name is too long.
        NameTooLong = 63,
        /// The directory is not empty.
        NotEmpty = 66,
        /// The quota is used up.
        DQuot = 69,
        /// The object is gone.
        Stale = 70,
        /// Not a filehandle of this server's.
        BadHandle = 10001,
        /// Not a cookie of this directory.
        BadCookie = 10003,
        /// Not supported.
        NotSupp = 10004,
        /// Less room than one result needs.
        TooSmall = 10005,
        /// A fault of the server.
        ServerFault = 10006,
        /// CREATE cannot make this type.
        BadType = 10007,
        /// Try again later.
        Delay = 10008,
        /// NVERIFY: the attributes are the same.
        Same = 10009,
        /// A lock is held by another.
        Denied = 10010,
        /// The lease has expired.
        Expired = 10011,
        /// A share reservation denies it.
        Locked = 10012,
        /// The server is in its grace period.
        Grace = 10013,
        /// A volatile filehandle has expired.
        FhExpired = 10014,
        /// A share reservation conflicts.
        ShareDenied = 10015,
        /// The security flavour is not accepted.
        WrongSec = 10016,
        /// The client owner belongs to another principal.
        ClidInUse = 10017,
        /// Out of resources; version 4.0 only.
        Resource = 10018,
        /// The file system is elsewhere.
        Moved = 10019,
        /// There is no current filehandle.
        NoFilehandle = 10020,
        /// The minor version is not served.
        MinorVersMismatch = 10021,
        /// The client id is unknown.
        StaleClientid = 10022,
        /// The stateid is of an earlier instance.
        StaleStateid = 10023,
        /// A seqid of the past.
        OldStateid = 10024,
        /// No such stateid.
        BadStateid = 10025,
        /// A seqid out of order; version 4.0 only.
        BadSeqid = 10026,
        /// VERIFY: the attributes differ.
        NotSame = 10027,
        /// A range that partly overlaps a lock.
        LockRange = 10028,
        /// A symbolic link.
        Symlink = 10029,
        /// There is no saved filehandle; version 4.0 only.
        RestoreFh = 10030,
        /// A lease has moved.
        LeaseMoved = 10031,
        /// An attribute is not supported.
        AttrNotSupp = 10032,
        /// A reclaim outside of the grace period.
        NoGrace = 10033,
        /// Nothing to reclaim.
        ReclaimBad = 10034,
        /// A reclaim conflicts.
        ReclaimConflict = 10035,
        /// The arguments do not decode.
        BadXdr = 10036,
        /// Locks are held.
        LocksHeld = 10037,
        /// The open does not allow it.
        OpenMode = 10038,
        /// An owner that cannot be mapped.
        BadOwner = 10039,
        /// A character that is not supported.
        BadChar = 10040,
        /// A name that is not supported.
        BadName = 10041,
        /// A range that is not supported.
        BadRange = 10042,
        /// No atomic upgrade or downgrade of a lock.
        LockNotSupp = 10043,
        /// No such operation.
        OpIllegal = 10044,
        /// Locks would wait for each other.
        Deadlock = 10045,
        /// The file is open.
        FileOpen = 10046,
        /// Revoked by the administrator.
        AdminRevoked = 10047,
        /// No callback gets through.
        CbPathDown = 10048,
        /// `NFS4ERR_BADIOMODE`.
        BadIoMode = 10049,
        /// `NFS4ERR_BADLAYOUT`.
        BadLayout = 10050,
        /// `NFS4ERR_BAD_SESSION_DIGEST`.
        BadSessionDigest = 10051,
        /// `NFS4ERR_BADSESSION`.
        BadSession = 10052,
        /// `NFS4ERR_BADSLOT`.
        BadSlot = 10053,
        /// `NFS4ERR_COMPLETE_ALREADY`.
        CompleteAlready = 10054,
        /// `NFS4ERR_CONN_NOT_BOUND_TO_SESSION`.
        ConnNotBoundToSession = 10055,
        /// `NFS4ERR_DELEG_ALREADY_WANTED`.
        DelegAlreadyWanted = 10056,
        /// `NFS4ERR_BACK_CHAN_BUSY`.
        BackChanBusy = 10057,
        /// `NFS4ERR_LAYOUTTRYLATER`.
        LayoutTryLater = 10058,
        /// `NFS4ERR_LAYOUTUNAVAILABLE`.
        LayoutUnavailable = 10059,
        /// `NFS4ERR_NOMATCHING_LAYOUT`.
        NomatchingLayout = 10060,
        /// `NFS4ERR_RECALLCONFLICT`.
        RecallConflict = 10061,
        /// `NFS4ERR_UNKNOWN_LAYOUTTYPE`.
        UnknownLayoutType = 10062,
        /// `NFS4ERR_SEQ_MISORDERED`.
        SeqMisordered = 10063,
        /// `NFS4ERR_SEQUENCE_POS`.
        SequencePos = 10064,
        /// `NFS4ERR_REQ_TOO_BIG`.
        ReqTooBig = 10065,
        /// `NFS4ERR_REP_TOO_BIG`.
        RepTooBig = 10066,
        /// `NFS4ERR_REP_TOO_BIG_TO_CACHE`.
        RepTooBigToCache = 10067,
        /// `NFS4ERR_RETRY_UNCACHED_REP`.
        RetryUncachedRep = 10068,
        /// `NFS4ERR_UNSAFE_COMPOUND`.
        UnsafeCompound = 10069,
        /// `NFS4ERR_TOO_MANY_OPS`.
        TooManyOps = 10070,
        /// `NFS4ERR_OP_NOT_IN_SESSION`.
        OpNotInSession = 10071,
        /// `NFS4ERR_HASH_ALG_UNSUPP`.
        HashAlgUnsupp = 10072,
        /// `NFS4ERR_CLIENTID_BUSY`.
        ClientidBusy = 10074,
        /// `NFS4ERR_PNFS_IO_HOLE`.
        PnfsIoHole = 10075,
        /// `NFS4ERR_SEQ_FALSE_RETRY`.
        SeqFalseRetry = 10076,
        /// `NFS4ERR_BAD_HIGH_SLOT`.
        BadHighSlot = 10077,
        /// `NFS4ERR_DEADSESSION`.
        DeadSession = 10078,
        /// `NFS4ERR_ENCR_ALG_UNSUPP`.
        EncrAlgUnsupp = 10079,
        /// `NFS4ERR_PNFS_NO_LAYOUT`.
        PnfsNoLayout = 10080,
        /// `NFS4ERR_NOT_ONLY_OP`.
        NotOnlyOp = 10081,
        /// `NFS4ERR_WRONG_CRED`.
        WrongCred = 10082,
        /// `NFS4ERR_WRONG_TYPE`.
        WrongType = 10083,
        /// `NFS4ERR_DIRDELEG_UNAVAIL`.
        DirDelegUnavail = 10084,
        /// `NFS4ERR_REJECT_DELEG`.
        RejectDeleg = 10085,
        /// `NFS4ERR_RETURNCONFLICT`.
        ReturnConflict = 10086,
        /// `NFS4ERR_DELEG_REVOKED`.
        DelegRevoked = 10087,
        /// `NFS4ERR_PARTNER_NOTSUPP`.
        PartnerNotSupp = 10088,
        /// `NFS4ERR_PARTNER_NO_AUTH`.
        PartnerNoAuth = 10089,
        /// `NFS4ERR_UNION_NOTSUPP`.
        UnionNotSupp = 10090,
        /// `NFS4ERR_OFFLOAD_DENIED`.
        OffloadDenied = 10091,
        /// `NFS4ERR_WRONG_LFS`.
        WrongLfs = 10092,
        /// `NFS4ERR_BADLABEL`.
        BadLabel = 10093,
        /// `NFS4ERR_OFFLOAD_NO_REQS`.
        OffloadNoReqs = 10094,
        /// `NFS4ERR_NOXATTR`.
        NoXattr = 10095,
        /// `NFS4ERR_XATTR2BIG`.
        Xattr2Big = 10096,
    }
}
