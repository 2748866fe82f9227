//! NFS version 4: minor versions 0 (RFC 7530), 1 (RFC 8881) and 2 (RFC 7862; its XDR, RFC 7863, is all of theirs): what a
//! COMPOUND is made of.
//!
//! Owns: the layouts and their limits, the numbers of operations, attributes and status codes. Everything of variable
//! length is borrowed from the record. An operation is decoded when it runs, so there is no list of decoded
//! operations; results are encoded by the server in place.

mod acl;
mod args;
mod attrs;
mod bitmap;
mod cb_compound;
mod compound;
mod data;
mod locks;
mod minor0;
mod open;
mod ops;
mod session;
mod status;
mod values;

pub use acl::{ACES_MAX, AclValue, Nfsace4, acetype};
pub use args::{
    AccessArgs, CloseArgs, CommitArgs, CreateArgs, CreateType4, FreeStateidArgs,
    GetDirDelegationArgs, GetattrArgs, LinkArgs, LookupArgs, OpenDowngradeArgs, PutfhArgs,
    ReadArgs, ReaddirArgs, RemoveArgs, RenameArgs, SecinfoArgs, SecinfoNoNameArgs, SetattrArgs,
    StableHow4, TestStateidArgs, WriteArgs, WriteHead,
};
pub use attrs::{ATTRS, AttrInfo, LINUX_CACHE_CONSISTENCY, LINUX_GETATTR, attr};
pub use bitmap::Bitmap4;
pub use cb_compound::{
    CbCompoundHead, CbCompoundResult, CbGetattrArgs, CbNotifyLockArgs, CbOffloadArgs,
    CbRecallAnyArgs, CbRecallArgs, CbRecallSlotArgs, CbSequenceArgs, CbSequenceResult,
    OffloadInfo4, cb_op,
};
pub use compound::{CompoundHead, decode_op_args};
pub use data::{
    CloneArgs, CopyArgs, IoAdviseArgs, ListxattrsArgs, RangeArgs, SeekArgs, SetxattrArgs,
    SetxattrOption4, XattrArgs, content,
};
pub use locks::{
    ExistLockOwner4, LockArgs, LockDenied, LockOwner4, LockType4, Locker4, LocktArgs, LockuArgs,
    OpenToLockOwner4,
};
pub use minor0::{
    ClientAddr4, DelegpurgeArgs, OpenConfirmArgs, ReleaseLockownerArgs, RenewArgs, SetclientidArgs,
    SetclientidConfirmArgs, callback,
};
pub use open::{Createhow4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, share};
pub use ops::{OPS, OpInfo, op, op_info};
pub use session::{
    BackchannelCtlArgs, BindConnArgs, CallbackSecParms, CallbackUser, ChannelAttrs,
    CreateSessionArgs, ExchangeIdArgs, ImplId, ReclaimCompleteArgs, SequenceArgs, SessionId,
    StateProtectHow, create_session, exchange_id,
};
pub use status::Nfsstat4;
pub use values::{ChangeInfo4, Fattr4, FileType4, Nfstime4, Specdata4, Stateid4};

use crate::layout::Bytes;

/// This version.
pub const VERSION: u32 = 4;
/// The longest filehandle in bytes (`NFS4_FHSIZE`).
pub const FHSIZE: usize = 128;
/// The size of a verifier (`NFS4_VERIFIER_SIZE`).
pub const VERIFIER_SIZE: usize = 8;
/// The longest opaque of a client owner, open owner or server owner (`NFS4_OPAQUE_LIMIT`).
pub const OPAQUE_LIMIT: usize = 1024;
/// The size of a session id (`NFS4_SESSIONID_SIZE`).
pub const SESSIONID_SIZE: usize = 16;
/// The longest tag of a COMPOUND that is taken; it is echoed.
pub const TAG_MAX: usize = 1024;
/// The most operations of a COMPOUND that are looked at.
pub const OPS_MAX: u32 = 128;
/// The longest name or link target that is taken off the wire.
pub const STRING_MAX: usize = 64 * 1024;
/// The most data in one WRITE, whatever a server's settings are.
pub const DATA_MAX: usize = 16 * 1024 * 1024;
/// The longest list of attribute values that is taken off the wire.
pub const ATTRLIST_MAX: usize = 64 * 1024;
/// The most stateids of one TEST_STATEID.
pub const STATEIDS_MAX: usize = 4096;

/// Procedure numbers.
pub mod procedure {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Runs operations one after the other until one fails.
    pub const COMPOUND: u32 = 1;
}

/// `nfs_fh4`.
pub type Fh<'a> = Bytes<'a, FHSIZE>;
/// `component4`, unchecked.
pub type Component4<'a> = Bytes<'a, STRING_MAX>;
/// `linktext4`.
pub type Linktext4<'a> = Bytes<'a, STRING_MAX>;
/// `verifier4`.
pub type Verifier4 = [u8; VERIFIER_SIZE];

#[cfg(test)]
mod tests;
