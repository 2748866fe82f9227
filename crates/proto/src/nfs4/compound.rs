//! The frame of a COMPOUND (RFC 8881 §16.2), and a decoder of single operations for tests that feed arbitrary bytes.

use super::{
    AccessArgs, BackchannelCtlArgs, BindConnArgs, CloneArgs, CloseArgs, CommitArgs, CopyArgs,
    CreateArgs, CreateSessionArgs, DelegpurgeArgs, ExchangeIdArgs, Fattr4, FreeStateidArgs,
    GetattrArgs, IoAdviseArgs, LinkArgs, ListxattrsArgs, LockArgs, LocktArgs, LockuArgs,
    LookupArgs, OpenArgs, OpenConfirmArgs, OpenDowngradeArgs, PutfhArgs, RangeArgs, ReadArgs,
    ReaddirArgs, ReclaimCompleteArgs, ReleaseLockownerArgs, RemoveArgs, RenameArgs, RenewArgs,
    SecinfoArgs, SecinfoNoNameArgs, SeekArgs, SequenceArgs, SessionId, SetattrArgs,
    SetclientidArgs, SetclientidConfirmArgs, SetxattrArgs, Stateid4, TAG_MAX, TestStateidArgs,
    WriteArgs, XattrArgs, op,
};
use xdr::{Decode, Encode, Error, Reader, Writer};

/// What stands before the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompoundHead<'a> {
    /// Any bytes; the reply has them again.
    pub tag: &'a [u8],
    /// The minor version.
    pub minor: u32,
    /// How many operations follow.
    pub count: u32,
}

impl<'a> Decode<'a> for CompoundHead<'a> {
    #[inline(always)]
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let tag = r.opaque(TAG_MAX)?;
        let [minor, count] = r.words()?;
        Ok(Self { tag, minor, count })
    }
}

impl Encode for CompoundHead<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.tag);
        w.words([self.minor, self.count]);
    }
}

/// Decodes the arguments of an operation as a server does. `None`: the server has no decoder for it.
///
/// # Errors
/// What a server answers with NFS4ERR_BADXDR.
pub fn decode_op_args(number: u32, r: &mut Reader<'_>) -> Option<Result<(), Error>> {
    fn all<'a, T: Decode<'a>>(r: &mut Reader<'a>) -> Result<(), Error> {
        T::decode(r).map(drop)
    }
    Some(match number {
        op::ACCESS => all::<AccessArgs>(r),
        op::CLOSE => all::<CloseArgs>(r),
        op::COMMIT => all::<CommitArgs>(r),
        op::CREATE => all::<CreateArgs<'_>>(r),
        op::GETATTR => all::<GetattrArgs>(r),
        op::LINK => all::<LinkArgs<'_>>(r),
        op::LOCK => all::<LockArgs<'_>>(r),
        op::LOCKT => all::<LocktArgs<'_>>(r),
        op::LOCKU => all::<LockuArgs>(r),
        op::DELEGPURGE => all::<DelegpurgeArgs>(r),
        op::DELEGRETURN => all::<Stateid4>(r),
        op::OPEN_CONFIRM => all::<OpenConfirmArgs>(r),
        op::RENEW => all::<RenewArgs>(r),
        op::SETCLIENTID => all::<SetclientidArgs<'_>>(r),
        op::SETCLIENTID_CONFIRM => all::<SetclientidConfirmArgs>(r),
        op::RELEASE_LOCKOWNER => all::<ReleaseLockownerArgs<'_>>(r),
        op::LOOKUP => all::<LookupArgs<'_>>(r),
        op::VERIFY | op::NVERIFY => all::<Fattr4<'_>>(r),
        op::OPEN => all::<OpenArgs<'_>>(r),
        op::OPEN_DOWNGRADE => all::<OpenDowngradeArgs>(r),
        op::PUTFH => all::<PutfhArgs<'_>>(r),
        op::READ => all::<ReadArgs>(r),
        op::READDIR => all::<ReaddirArgs>(r),
        op::REMOVE => all::<RemoveArgs<'_>>(r),
        op::RENAME => all::<RenameArgs<'_>>(r),
        op::SECINFO => all::<SecinfoArgs<'_>>(r),
        op::SECINFO_NO_NAME => all::<SecinfoNoNameArgs>(r),
        op::SETATTR => all::<SetattrArgs<'_>>(r),
        op::WRITE => all::<WriteArgs<'_>>(r),
        op::BACKCHANNEL_CTL => all::<BackchannelCtlArgs<'_>>(r),
        op::BIND_CONN_TO_SESSION => all::<BindConnArgs>(r),
        op::EXCHANGE_ID => all::<ExchangeIdArgs<'_>>(r),
        op::CREATE_SESSION => all::<CreateSessionArgs<'_>>(r),
        op::DESTROY_SESSION => all::<SessionId>(r),
        op::DESTROY_CLIENTID => all::<u64>(r),
        op::FREE_STATEID => all::<FreeStateidArgs>(r),
        op::SEQUENCE => all::<SequenceArgs>(r),
        op::ALLOCATE | op::DEALLOCATE => all::<RangeArgs>(r),
        op::SEEK => all::<SeekArgs>(r),
        op::READ_PLUS => all::<ReadArgs>(r),
        op::CLONE => all::<CloneArgs>(r),
        op::COPY => all::<CopyArgs>(r),
        op::OFFLOAD_CANCEL | op::OFFLOAD_STATUS => all::<Stateid4>(r),
        op::IO_ADVISE => all::<IoAdviseArgs>(r),
        op::GETXATTR | op::REMOVEXATTR => all::<XattrArgs<'_>>(r),
        op::SETXATTR => all::<SetxattrArgs<'_>>(r),
        op::LISTXATTRS => all::<ListxattrsArgs>(r),
        op::TEST_STATEID => all::<TestStateidArgs<'_>>(r),
        op::RECLAIM_COMPLETE => all::<ReclaimCompleteArgs>(r),
        op::GETFH
        | op::LOOKUPP
        | op::PUTROOTFH
        | op::PUTPUBFH
        | op::READLINK
        | op::RESTOREFH
        | op::SAVEFH => Ok(()),
        _ => return None,
    })
}
