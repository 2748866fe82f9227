//! The remote quota protocol, versions 1 and 2: arguments and results of all procedures, in both directions.
//!
//! No RFC describes it; the layout is the one that all clients use. Version 2 adds the kind of quota: version 1 has
//! user quotas only. Times and counts have 32 bits.

use xdr::{Decode, Encode, Error, Reader, Writer};

/// The program's number.
pub const PROGRAM: u32 = 100_011;
/// The longest path in bytes (`RQ_PATHLEN`).
pub const PATH_MAX: usize = 1024;

/// Procedure numbers.
pub mod procedure {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// The quota of a user, group or project.
    pub const GETQUOTA: u32 = 1;
    /// The quota of a user, group or project, if quotas are enforced.
    pub const GETACTIVEQUOTA: u32 = 2;
    /// Sets a quota.
    pub const SETQUOTA: u32 = 3;
    /// Sets a quota if quotas are enforced.
    pub const SETACTIVEQUOTA: u32 = 4;
}

/// The kinds of quota, as version 2 numbers them (`quotactl(2)`).
pub mod kind {
    /// A user's.
    pub const USER: u32 = 0;
    /// A group's.
    pub const GROUP: u32 = 1;
    /// A project's; Linux only.
    pub const PROJECT: u32 = 2;
}

/// `getquota_args` and `ext_getquota_args`: the arguments of GETQUOTA and GETACTIVEQUOTA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetQuotaArgs<'a> {
    /// A path in the file system.
    pub path: &'a [u8],
    /// One of [`kind`]; version 1 has [`kind::USER`] only.
    pub kind: u32,
    /// Whose quota.
    pub id: u32,
}

impl<'a> GetQuotaArgs<'a> {
    /// Decodes the arguments of a version.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn decode(r: &mut Reader<'a>, version: u32) -> Result<Self, Error> {
        let path = r.opaque(PATH_MAX)?;
        let kind = if version == 1 { kind::USER } else { r.u32()? };
        Ok(Self { path, kind, id: r.u32()? })
    }

    /// Encodes the arguments of a version.
    pub fn encode(&self, w: &mut Writer, version: u32) {
        w.opaque(self.path);
        if version != 1 {
            w.u32(self.kind);
        }
        w.u32(self.id);
    }
}

crate::layout::fields! {
    /// `sq_dqblk`: a quota to be set.
    SetLimits {
        /// Blocks that cannot be exceeded.
        block_hard_limit: u32,
        /// Blocks that can be exceeded for the grace time.
        block_soft_limit: u32,
        /// Blocks in use.
        blocks: u32,
        /// Files that cannot be exceeded.
        file_hard_limit: u32,
        /// Files that can be exceeded for the grace time.
        file_soft_limit: u32,
        /// Files in use.
        files: u32,
        /// Seconds for which the soft limit of blocks can be exceeded.
        block_seconds_left: u32,
        /// Seconds for which the soft limit of files can be exceeded.
        file_seconds_left: u32,
    }
}

/// `setquota_args` and `ext_setquota_args`: the arguments of SETQUOTA and SETACTIVEQUOTA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetQuotaArgs<'a> {
    /// The command of `quotactl(2)`.
    pub command: u32,
    /// A path in the file system.
    pub path: &'a [u8],
    /// Whose quota.
    pub id: u32,
    /// One of [`kind`]; version 1 has [`kind::USER`] only.
    pub kind: u32,
    /// The quota.
    pub limits: SetLimits,
}

impl<'a> SetQuotaArgs<'a> {
    /// Decodes the arguments of a version.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn decode(r: &mut Reader<'a>, version: u32) -> Result<Self, Error> {
        let (command, path, id) = (r.u32()?, r.opaque(PATH_MAX)?, r.u32()?);
        let kind = if version == 1 { kind::USER } else { r.u32()? };
        Ok(Self { command, path, id, kind, limits: r.get()? })
    }

    /// Encodes the arguments of a version.
    pub fn encode(&self, w: &mut Writer, version: u32) {
        w.u32(self.command);
        w.opaque(self.path);
        w.u32(self.id);
        if version != 1 {
            w.u32(self.kind);
        }
        w.put(&self.limits);
    }
}

crate::layout::fields! {
    /// `rquota`: a quota and its usage.
    Quota {
        /// Bytes of a block, the unit of the counts.
        block_size: u32,
        /// Quotas are enforced.
        active: bool,
        /// Blocks that cannot be exceeded.
        block_hard_limit: u32,
        /// Blocks that can be exceeded for the grace time.
        block_soft_limit: u32,
        /// Blocks in use.
        blocks: u32,
        /// Files that cannot be exceeded.
        file_hard_limit: u32,
        /// Files that can be exceeded for the grace time.
        file_soft_limit: u32,
        /// Files in use.
        files: u32,
        /// Seconds for which the soft limit of blocks can still be exceeded.
        block_seconds_left: u32,
        /// Seconds for which the soft limit of files can still be exceeded.
        file_seconds_left: u32,
    }
}

/// `getquota_rslt` and `setquota_rslt`: the result of every procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaResult {
    /// Q_OK.
    Ok(Quota),
    /// Q_NOQUOTA: no quota.
    NoQuota,
    /// Q_EPERM: the caller may not read or set it.
    Perm,
}

impl<'a> Decode<'a> for QuotaResult {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        match r.u32()? {
            1 => r.get().map(Self::Ok),
            2 => Ok(Self::NoQuota),
            3 => Ok(Self::Perm),
            value => Err(Error::NotMember { what: "qr_status", value }),
        }
    }
}

impl Encode for QuotaResult {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Ok(quota) => {
                w.u32(1);
                w.put(quota);
            }
            Self::NoQuota => w.u32(2),
            Self::Perm => w.u32(3),
        }
    }
}

/// Decodes the arguments of one procedure and checks that nothing follows them; for tests with arbitrary bytes.
///
/// # Errors
/// [`Error`]: what the server would answer with GARBAGE_ARGS; [`Error::NotMember`] for a procedure that the version
/// does not have.
pub fn decode_all_args(version: u32, number: u32, bytes: &[u8]) -> Result<(), Error> {
    let r = &mut Reader::new(bytes);
    match (version, number) {
        (1 | 2, procedure::NULL) => return Ok(()),
        (1 | 2, procedure::GETQUOTA | procedure::GETACTIVEQUOTA) => {
            GetQuotaArgs::decode(r, version).map(drop)?;
        }
        (1 | 2, procedure::SETQUOTA | procedure::SETACTIVEQUOTA) => {
            SetQuotaArgs::decode(r, version).map(drop)?;
        }
        _ => return Err(Error::NotMember { what: "a procedure of rquota", value: number }),
    }
    r.end()
}

#[cfg(test)]
mod tests;
