//! NLM, the network lock manager, versions 1, 3 (with NFS version 2) and 4 (with NFS version 3): arguments and results
//! of all procedures, in both directions.
//!
//! Described in X/Open C702 (XNFS), chapter 10; RFC 1813 §6.3 lists what version 4 changed. Versions 1 and 3 carry
//! offsets and lengths in 32 bits, version 4 in 64: each type is one struct with 64 bits in memory, and
//! [`Versioned`] writes and reads it in the [`Width`] of a version. Version 2 is no version of this protocol: Sun's
//! status monitor used it for callbacks.
//!
//! Invariants: everything of variable length is borrowed and has its limit here; values that were decoded from 32 bits
//! fit into 32 bits again when they are encoded.

use crate::layout::Bytes;
use xdr::{Error, Reader, Writer};

/// The program's number.
pub const PROGRAM: u32 = 100_021;
/// The longest caller name in bytes (`LM_MAXSTRLEN`).
pub const NAME_MAX: usize = 1024;
/// The longest cookie or owner handle in bytes (`MAXNETOBJ_SZ`).
pub const NETOBJ_MAX: usize = 1024;
/// The longest file handle in bytes: that of NFS version 3 (RFC 1813 §2.4).
pub const HANDLE_MAX: usize = 64;
/// Bytes of private data that a status monitor sends back (`SM_PRIV_SIZE`).
pub const PRIVATE_LEN: usize = 16;

/// Procedure numbers, the same in all versions; SHARE and what follows only in versions 3 and 4.
pub mod procedure {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Returns the conflicting lock.
    pub const TEST: u32 = 1;
    /// Asks for a lock.
    pub const LOCK: u32 = 2;
    /// Cancels a waiting request.
    pub const CANCEL: u32 = 3;
    /// Releases a lock.
    pub const UNLOCK: u32 = 4;
    /// From the server: a waiting request was granted.
    pub const GRANTED: u32 = 5;
    /// TEST whose answer is a call of its own.
    pub const TEST_MSG: u32 = 6;
    /// LOCK whose answer is a call of its own.
    pub const LOCK_MSG: u32 = 7;
    /// CANCEL whose answer is a call of its own.
    pub const CANCEL_MSG: u32 = 8;
    /// UNLOCK whose answer is a call of its own.
    pub const UNLOCK_MSG: u32 = 9;
    /// GRANTED whose answer is a call of its own.
    pub const GRANTED_MSG: u32 = 10;
    /// The answer to TEST_MSG.
    pub const TEST_RES: u32 = 11;
    /// The answer to LOCK_MSG.
    pub const LOCK_RES: u32 = 12;
    /// The answer to CANCEL_MSG.
    pub const CANCEL_RES: u32 = 13;
    /// The answer to UNLOCK_MSG.
    pub const UNLOCK_RES: u32 = 14;
    /// The answer to GRANTED_MSG.
    pub const GRANTED_RES: u32 = 15;
    /// Linux: the machine's own status monitor reports that a host rebooted. Not in C702.
    pub const SM_NOTIFY: u32 = 16;
    /// Requests a DOS share reservation.
    pub const SHARE: u32 = 20;
    /// Releases a share reservation.
    pub const UNSHARE: u32 = 21;
    /// LOCK of a client that is not to be monitored.
    pub const NM_LOCK: u32 = 22;
    /// Releases everything that a host holds.
    pub const FREE_ALL: u32 = 23;
}

/// The width of offsets and lengths on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// Versions 1 and 3.
    Bits32,
    /// Version 4.
    Bits64,
}

impl Width {
    /// That of a version, if it is one of this protocol.
    pub const fn of_version(version: u32) -> Option<Self> {
        match version {
            1 | 3 => Some(Self::Bits32),
            4 => Some(Self::Bits64),
            _ => None,
        }
    }

    fn decode(self, r: &mut Reader<'_>) -> Result<u64, Error> {
        match self {
            Self::Bits32 => r.u32().map(u64::from),
            Self::Bits64 => r.u64(),
        }
    }

    /// An offset that does not fit becomes the largest: a lock of NFSv4 beyond the offsets of version 1.
    fn encode(self, w: &mut Writer, value: u64) {
        match self {
            Self::Bits32 => w.u32(u32::try_from(value).unwrap_or(u32::MAX)),
            Self::Bits64 => w.u64(value),
        }
    }
}

/// A type whose wire form depends on the version.
pub trait Versioned<'a>: Sized {
    /// Reads one value.
    ///
    /// # Errors
    /// See [`Error`].
    fn decode(r: &mut Reader<'a>, width: Width) -> Result<Self, Error>;

    /// Appends the value.
    fn encode(&self, w: &mut Writer, width: Width);
}

crate::layout::numbers! {
    /// `nlm4_stats`; versions 1 and 3 end at [`Deadlock`](Self::Deadlock).
    Status as "nlm4_stats" {
        /// NLM4_GRANTED.
        Granted = 0,
        /// NLM4_DENIED: another owner holds a lock.
        Denied = 1,
        /// NLM4_DENIED_NOLOCKS: the server has no resources, or cannot lock.
        DeniedNoLocks = 2,
        /// NLM4_BLOCKED: the request waits, GRANTED will follow.
        Blocked = 3,
        /// NLM4_DENIED_GRACE_PERIOD: only reclaims are granted.
        DeniedGracePeriod = 4,
        /// NLM4_DEADLCK: waiting would be a deadlock.
        Deadlock = 5,
        /// NLM4_ROFS: the file system is read-only.
        ReadOnly = 6,
        /// NLM4_STALE_FH: there is no such file.
        StaleHandle = 7,
        /// NLM4_FBIG: the range ends beyond the largest offset.
        TooBig = 8,
        /// NLM4_FAILED: another error.
        Failed = 9,
    }
}

impl Status {
    /// The status in a version: those that versions 1 and 3 lack are DENIED_NOLOCKS there.
    pub const fn in_width(self, width: Width) -> Self {
        match (width, self) {
            (Width::Bits32, Self::ReadOnly | Self::StaleHandle | Self::TooBig | Self::Failed) => {
                Self::DeniedNoLocks
            }
            _ => self,
        }
    }
}

impl<'a> Versioned<'a> for Status {
    fn decode(r: &mut Reader<'a>, width: Width) -> Result<Self, Error> {
        let status: Self = r.get()?;
        if status.in_width(width) == status {
            return Ok(status);
        }
        Err(Error::NotMember { what: "nlm_stats", value: status.number() })
    }

    fn encode(&self, w: &mut Writer, width: Width) {
        w.put(&self.in_width(width));
    }
}

/// `netobj`: a cookie or an owner handle.
pub type Netobj<'a> = Bytes<'a, NETOBJ_MAX>;

/// `nlm_lock`, `nlm4_lock`: a range of a file and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock<'a> {
    /// The client's host name.
    pub caller_name: &'a [u8],
    /// The file.
    pub handle: &'a [u8],
    /// The owner handle.
    pub oh: &'a [u8],
    /// The process on the client (`svid`, `uppid`).
    pub svid: i32,
    /// The first byte.
    pub offset: u64,
    /// How many bytes; 0: to the end of the file.
    pub len: u64,
}

impl<'a> Versioned<'a> for Lock<'a> {
    fn decode(r: &mut Reader<'a>, width: Width) -> Result<Self, Error> {
        Ok(Self {
            caller_name: r.opaque(NAME_MAX)?,
            handle: r.opaque(HANDLE_MAX)?,
            oh: r.opaque(NETOBJ_MAX)?,
            svid: r.i32()?,
            offset: width.decode(r)?,
            len: width.decode(r)?,
        })
    }

    fn encode(&self, w: &mut Writer, width: Width) {
        w.opaque(self.caller_name);
        w.opaque(self.handle);
        w.opaque(self.oh);
        w.i32(self.svid);
        width.encode(w, self.offset);
        width.encode(w, self.len);
    }
}

/// `nlm_holder`, `nlm4_holder`: the holder of the conflicting lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder<'a> {
    /// A write lock.
    pub exclusive: bool,
    /// The process.
    pub svid: i32,
    /// The owner handle.
    pub oh: &'a [u8],
    /// The first byte.
    pub offset: u64,
    /// How many bytes; 0: to the end of the file.
    pub len: u64,
}

impl<'a> Versioned<'a> for Holder<'a> {
    fn decode(r: &mut Reader<'a>, width: Width) -> Result<Self, Error> {
        Ok(Self {
            exclusive: r.bool()?,
            svid: r.i32()?,
            oh: r.opaque(NETOBJ_MAX)?,
            offset: width.decode(r)?,
            len: width.decode(r)?,
        })
    }

    fn encode(&self, w: &mut Writer, width: Width) {
        w.bool(self.exclusive);
        w.i32(self.svid);
        w.opaque(self.oh);
        width.encode(w, self.offset);
        width.encode(w, self.len);
    }
}

/// A struct of a cookie and fields, in their order on the wire.
macro_rules! versioned {
    ($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident: $kind:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<'a> {
            /// The client's cookie; returned with the answer.
            pub cookie: &'a [u8],
            $($(#[$fmeta])* pub $field: versioned!(@type $kind),)*
        }

        impl<'a> Versioned<'a> for $name<'a> {
            fn decode(r: &mut Reader<'a>, width: Width) -> Result<Self, Error> {
                let cookie = r.opaque(NETOBJ_MAX)?;
                $(let $field = versioned!(@decode r, width, $kind);)*
                Ok(Self { cookie, $($field,)* })
            }

            fn encode(&self, w: &mut Writer, width: Width) {
                w.opaque(self.cookie);
                $(versioned!(@encode w, width, self.$field, $kind);)*
            }
        }
    };
    (@type flag) => { bool };
    (@type int) => { i32 };
    (@type lock) => { Lock<'a> };
    (@type status) => { Status };
    (@decode $r:ident, $width:ident, flag) => { $r.bool()? };
    (@decode $r:ident, $width:ident, int) => { $r.i32()? };
    (@decode $r:ident, $width:ident, lock) => { Lock::decode($r, $width)? };
    (@decode $r:ident, $width:ident, status) => { <Status as Versioned<'_>>::decode($r, $width)? };
    (@encode $w:ident, $width:ident, $value:expr, flag) => { $w.bool($value) };
    (@encode $w:ident, $width:ident, $value:expr, int) => { $w.i32($value) };
    (@encode $w:ident, $width:ident, $value:expr, lock) => { $value.encode($w, $width) };
    (@encode $w:ident, $width:ident, $value:expr, status) => {
        Versioned::encode(&$value, $w, $width)
    };
}

versioned! {
    /// `nlm_testargs`: the arguments of TEST, TEST_MSG, GRANTED and GRANTED_MSG.
    TestArgs {
        /// A write lock.
        exclusive: flag,
        /// The lock.
        lock: lock,
    }
}

versioned! {
    /// `nlm_lockargs`: the arguments of LOCK, LOCK_MSG and NM_LOCK.
    LockArgs {
        /// The request may wait.
        block: flag,
        /// A write lock.
        exclusive: flag,
        /// The lock.
        lock: lock,
        /// The client held it before the server restarted.
        reclaim: flag,
        /// The state number of the client's status monitor.
        state: int,
    }
}

versioned! {
    /// `nlm_cancargs`: the arguments of CANCEL and CANCEL_MSG.
    CancelArgs {
        /// As in the request.
        block: flag,
        /// As in the request.
        exclusive: flag,
        /// As in the request.
        lock: lock,
    }
}

versioned! {
    /// `nlm_unlockargs`: the arguments of UNLOCK and UNLOCK_MSG.
    UnlockArgs {
        /// The range.
        lock: lock,
    }
}

versioned! {
    /// `nlm_res`: the answer to all but TEST, SHARE and UNSHARE; also the arguments of the `_RES` procedures.
    Answer {
        /// The status.
        status: status,
    }
}

versioned! {
    /// `nlm_shareres`: the answer to SHARE and UNSHARE.
    ShareAnswer {
        /// The status.
        status: status,
        /// A number without a use in C702; 0.
        sequence: int,
    }
}

/// `nlm_testres`: the answer to TEST; also the arguments of TEST_RES. The holder is there if and only if the status is
/// DENIED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestAnswer<'a> {
    /// The client's cookie.
    pub cookie: &'a [u8],
    /// The status.
    pub result: TestResult<'a>,
}

/// `nlm_testrply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestResult<'a> {
    /// DENIED: the conflicting lock.
    Denied(Holder<'a>),
    /// Any other status.
    Other(Status),
}

impl<'a> Versioned<'a> for TestAnswer<'a> {
    fn decode(r: &mut Reader<'a>, width: Width) -> Result<Self, Error> {
        let cookie = r.opaque(NETOBJ_MAX)?;
        let result = match <Status as Versioned<'_>>::decode(r, width)? {
            Status::Denied => TestResult::Denied(Holder::decode(r, width)?),
            status => TestResult::Other(status),
        };
        Ok(Self { cookie, result })
    }

    fn encode(&self, w: &mut Writer, width: Width) {
        w.opaque(self.cookie);
        match &self.result {
            TestResult::Denied(holder) => {
                w.put(&Status::Denied);
                holder.encode(w, width);
            }
            TestResult::Other(status) => Versioned::encode(status, w, width),
        }
    }
}

crate::layout::numbers! {
    /// `fsh_mode`: what a share reservation denies others.
    ShareDeny as "fsh_mode" {
        /// Nothing.
        None = 0,
        /// Reading.
        Read = 1,
        /// Writing.
        Write = 2,
        /// Both.
        Both = 3,
    }
}

crate::layout::numbers! {
    /// `fsh_access`: what a share reservation is for.
    ShareAccess as "fsh_access" {
        /// Nothing.
        None = 0,
        /// Reading.
        Read = 1,
        /// Writing.
        Write = 2,
        /// Both.
        Both = 3,
    }
}

/// `nlm_shareargs`: the arguments of SHARE and UNSHARE, the same in versions 3 and 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareArgs<'a> {
    /// The client's cookie.
    pub cookie: &'a [u8],
    /// The client's host name.
    pub caller_name: &'a [u8],
    /// The file.
    pub handle: &'a [u8],
    /// The owner handle.
    pub oh: &'a [u8],
    /// The access denied to others.
    pub deny: ShareDeny,
    /// The access of the client.
    pub access: ShareAccess,
    /// The client had it before the server restarted.
    pub reclaim: bool,
}

impl<'a> Versioned<'a> for ShareArgs<'a> {
    fn decode(r: &mut Reader<'a>, _width: Width) -> Result<Self, Error> {
        Ok(Self {
            cookie: r.opaque(NETOBJ_MAX)?,
            caller_name: r.opaque(NAME_MAX)?,
            handle: r.opaque(HANDLE_MAX)?,
            oh: r.opaque(NETOBJ_MAX)?,
            deny: r.get()?,
            access: r.get()?,
            reclaim: r.bool()?,
        })
    }

    fn encode(&self, w: &mut Writer, _width: Width) {
        w.opaque(self.cookie);
        w.opaque(self.caller_name);
        w.opaque(self.handle);
        w.opaque(self.oh);
        w.put(&self.deny);
        w.put(&self.access);
        w.bool(self.reclaim);
    }
}

/// `nlm_notify`: the arguments of FREE_ALL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeAllArgs<'a> {
    /// The host, as its calls name it.
    pub name: &'a [u8],
    /// The state number of its status monitor.
    pub state: i32,
}

impl<'a> Versioned<'a> for FreeAllArgs<'a> {
    fn decode(r: &mut Reader<'a>, _width: Width) -> Result<Self, Error> {
        Ok(Self { name: r.opaque(NAME_MAX)?, state: r.i32()? })
    }

    fn encode(&self, w: &mut Writer, _width: Width) {
        w.opaque(self.name);
        w.i32(self.state);
    }
}

/// The arguments of [`procedure::SM_NOTIFY`]: `sm_status`, as SM_MON asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmNotifyArgs<'a> {
    /// The host that was monitored.
    pub name: &'a [u8],
    /// Its new state number.
    pub state: i32,
    /// The private data that SM_MON passed to the status monitor.
    pub private: [u8; PRIVATE_LEN],
}

impl<'a> Versioned<'a> for SmNotifyArgs<'a> {
    fn decode(r: &mut Reader<'a>, _width: Width) -> Result<Self, Error> {
        Ok(Self { name: r.opaque(NAME_MAX)?, state: r.i32()?, private: r.array()? })
    }

    fn encode(&self, w: &mut Writer, _width: Width) {
        w.opaque(self.name);
        w.i32(self.state);
        w.opaque_fixed(&self.private);
    }
}

fn whole<'a, T: Versioned<'a>>(r: &mut Reader<'a>, width: Width) -> Result<(), Error> {
    T::decode(r, width).map(drop)
}

/// Decodes the arguments of one procedure and checks that nothing follows them; for tests with arbitrary bytes.
///
/// # Errors
/// [`Error`]: what the server would answer with GARBAGE_ARGS; [`Error::NotMember`] for a procedure that the version
/// does not have.
pub fn decode_all_args(version: u32, number: u32, bytes: &[u8]) -> Result<(), Error> {
    use procedure as p;
    let unknown = Error::NotMember { what: "a procedure of NLM", value: number };
    let Some(width) = Width::of_version(version) else { return Err(unknown) };
    let r = &mut Reader::new(bytes);
    match number {
        p::NULL => return Ok(()),
        p::TEST | p::TEST_MSG | p::GRANTED | p::GRANTED_MSG => whole::<TestArgs<'_>>(r, width)?,
        p::LOCK | p::LOCK_MSG => whole::<LockArgs<'_>>(r, width)?,
        p::CANCEL | p::CANCEL_MSG => whole::<CancelArgs<'_>>(r, width)?,
        p::UNLOCK | p::UNLOCK_MSG => whole::<UnlockArgs<'_>>(r, width)?,
        p::TEST_RES => whole::<TestAnswer<'_>>(r, width)?,
        p::LOCK_RES | p::CANCEL_RES | p::UNLOCK_RES | p::GRANTED_RES => {
            whole::<Answer<'_>>(r, width)?;
        }
        p::SM_NOTIFY => whole::<SmNotifyArgs<'_>>(r, width)?,
        p::SHARE | p::UNSHARE if version > 1 => whole::<ShareArgs<'_>>(r, width)?,
        p::NM_LOCK if version > 1 => whole::<LockArgs<'_>>(r, width)?,
        p::FREE_ALL if version > 1 => whole::<FreeAllArgs<'_>>(r, width)?,
        _ => return Err(unknown),
    }
    r.end()
}

#[cfg(test)]
mod tests;
