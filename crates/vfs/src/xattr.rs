//! Extended attributes of files and directories (RFC 8276): names and values that programs choose.
//!
//! Only those of users are visible; on Linux their names begin with `user.`, which is added and removed by the back end.

use crate::{Change, Cx, Fid, Result, Status};

/// The longest value in bytes (Linux's `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_MAX: usize = 64 * 1024;
/// The longest name in bytes: Linux's `XATTR_NAME_MAX` without `user.`.
pub const XATTR_NAME_MAX: usize = 250;

/// The name of an extended attribute of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XattrName<'a>(&'a [u8]);

impl<'a> XattrName<'a> {
    /// Checks a name.
    ///
    /// # Errors
    /// [`Status::Inval`] if it is empty or has a zero in it; [`Status::NameTooLong`].
    pub fn new(name: &'a [u8]) -> Result<Self> {
        if name.is_empty() || name.contains(&0) {
            return Err(Status::Inval);
        }
        if name.len() > XATTR_NAME_MAX { Err(Status::NameTooLong) } else { Ok(Self(name)) }
    }

    /// The bytes.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Whether the attribute that is set must, or must not, be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Either.
    Any,
    /// It must not: [`Status::Exist`].
    Create,
    /// It must: [`Status::NoXattr`].
    Replace,
}

/// Back ends that support extended attributes. Objects of other types than files and directories have none:
/// [`Status::WrongType`].
pub trait Xattrs: Send + Sync {
    /// The value of an attribute; needs the permission to read.
    ///
    /// # Errors
    /// [`Status::NoXattr`], [`Status::Acces`]; [`Status::NotSupp`] if the file system has none.
    fn xattr(&self, cx: &Cx<'_>, fid: &Fid, name: XattrName<'_>) -> Result<Vec<u8>>;

    /// Sets an attribute; needs the permission to write. Durable when it returns.
    ///
    /// # Errors
    /// As [`Xattrs::xattr`], and [`Status::XattrTooBig`].
    fn set_xattr(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
    ) -> Result<Change>;

    /// The names of all attributes, in any order.
    ///
    /// # Errors
    /// As [`Xattrs::xattr`].
    fn xattr_names(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Vec<Vec<u8>>>;

    /// Removes an attribute; needs the permission to write. Durable when it returns.
    ///
    /// # Errors
    /// As [`Xattrs::xattr`].
    fn remove_xattr(&self, cx: &Cx<'_>, fid: &Fid, name: XattrName<'_>) -> Result<Change>;
}
