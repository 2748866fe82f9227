//! Arguments and results of the calls of a [`Backend`](crate::Backend): the caller, changes, data read.

use crate::attr::{Attr, ChangeKind, FileType, SetAttr, WccAttr};
use crate::fid::Fid;
use crate::status::{Result, Status};
use std::any::Any;
use std::fmt;
use std::ops::{BitAnd, BitOr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The invalid id: system calls interpret it as "leave unchanged".
pub const NO_ID: u32 = u32::MAX;

/// The caller, after squashing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cred<'a> {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'a [u32],
}

impl Cred<'_> {
    /// Whether the caller is in group `gid`.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// How a backend tells the thread that runs a call that it will block, so that other calls can go on.
pub trait Blocking {
    /// Called before anything that may wait for a disk; after it the calling thread may block
    /// without delaying other calls. Cheap to call twice.
    ///
    /// # Errors
    /// [`Status::Jukebox`]: the limit of blocked calls in this file system is reached, and none of them
    /// ends. Returned only the first time in a call, before which a backend makes no change that it would
    /// have to undo.
    fn will_block(&self) -> Result<()>;
}

/// For callers without a thread pool: tests and tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreBlocking;

impl Blocking for IgnoreBlocking {
    fn will_block(&self) -> Result<()> {
        Ok(())
    }
}

/// When a change of the name space or of attributes may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// After it is on disk (`sync`, the default; required by RFC 1813 §4.8).
    #[default]
    Sync,
    /// At once (`async`): a power cut may lose answered changes.
    Async,
}

/// A set of open modes of a file (`OPEN4_SHARE_ACCESS`, RFC 8881 §18.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenAccess(u8);

impl OpenAccess {
    /// For reading data.
    pub const READ: Self = Self(1);
    /// For writing data.
    pub const WRITE: Self = Self(2);
    /// For both.
    pub const BOTH: Self = Self(3);

    /// Whether all of `other` is in the set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The permissions that decide about it ([`is_permitted_by`](Self::is_permitted_by)).
    pub const fn deciding(self) -> AccessMask {
        let read =
            if self.has(Self::READ) { AccessMask::READ.0 | AccessMask::EXECUTE.0 } else { 0 };
        let write = if self.has(Self::WRITE) { AccessMask::MODIFY.0 } else { 0 };
        AccessMask(read | write)
    }

    /// Whether a caller with these permissions may open a file so. The right to execute includes that to read, as nothing
    /// can be executed that is not read (RFC 8881 §6.2.1.3.1); a client tells the two apart by ACCESS.
    pub const fn is_permitted_by(self, granted: AccessMask) -> bool {
        let reads = granted.has(AccessMask::READ) || granted.has(AccessMask::EXECUTE);
        (!self.has(Self::READ) || reads)
            && (!self.has(Self::WRITE) || granted.has(AccessMask::MODIFY))
    }
}

/// The basis of the right to read or write a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Right {
    /// The current mode and ACL of the file: calls of versions 2 and 3, and of version 4 with a
    /// special stateid.
    #[default]
    Check,
    /// Checked when the file was opened ([`may_open`](crate::Backend::may_open)); the mode may have changed since. Modes
    /// that are not in the set are checked.
    Opened(OpenAccess),
}

/// The context of every call.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    /// The caller.
    pub cred: Cred<'a>,
    /// Announces that this call will block.
    pub blocking: &'a dyn Blocking,
    /// The guarantee of a successful reply.
    pub durability: Durability,
    /// The basis of the right to data.
    pub right: Right,
    /// How old the attributes and names of an answer may be that a backend has read before, in ms (`attr-cache`); 0: they
    /// are those of the moment. Changes by other calls are in them in any case.
    pub attr_cache_ms: u32,
}

/// The optional attributes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Want(u32);

impl Want {
    /// The attributes of `stat`.
    pub const STAT: Self = Self(0);
    /// The time of creation.
    pub const BIRTH: Self = Self(1);
    /// The change attribute of each entry of a listing; what is not listed has it always.
    pub const CHANGE: Self = Self(2);

    /// Whether all of `other` is wanted.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Want {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A set of permissions to ask for or to grant (RFC 1813 §3.3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessMask(pub u32);

impl AccessMask {
    /// Read data or list a directory.
    pub const READ: Self = Self(0x01);
    /// Look up a name in a directory.
    pub const LOOKUP: Self = Self(0x02);
    /// Change existing data or entries.
    pub const MODIFY: Self = Self(0x04);
    /// Write new data or add entries.
    pub const EXTEND: Self = Self(0x08);
    /// Delete an entry of a directory.
    pub const DELETE: Self = Self(0x10);
    /// Execute a file.
    pub const EXECUTE: Self = Self(0x20);

    /// Whether all of `other` is in the set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for AccessMask {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for AccessMask {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// An object with its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub fid: Fid,
    /// Its attributes.
    pub attr: Attr,
}

/// The result of LOOKUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub node: Node,
    /// The directory's attributes after the look-up.
    pub dir: Attr,
}

/// The state of an object around a change (`wcc_data`, RFC 1813 §2.6). `before` is present only
/// if nothing else can have changed the object in between, or the race is one that RFC 1813 §3.3
/// allows a server to ignore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// Just before.
    pub before: Option<WccAttr>,
    /// Just after.
    pub after: Option<Attr>,
}

/// The result of creating an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The new object; none if it was created and no longer exists under its name: another caller has
    /// renamed or removed it.
    pub node: Option<Node>,
    /// The directory in which it was created.
    pub dir: Change,
}

/// The result of READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadDone {
    /// Bytes read, at the front of the buffer.
    pub count: usize,
    /// Whether the end of the file was reached.
    pub eof: bool,
    /// The file's attributes after the read.
    pub attr: Attr,
}

/// The result of READ for a caller that can send a file's pages itself.
#[derive(Debug)]
pub enum ReadRange {
    /// The data is `done.count` bytes of this file, from the requested offset. All of it was in
    /// memory a moment ago.
    File {
        /// The file, open for reading.
        file: Arc<OwnedFd>,
        /// The result.
        done: ReadDone,
    },
    /// The data must be copied.
    Copy(CopyReason),
}

/// Why data must be copied although the caller accepts a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyReason {
    /// There is no file behind it, or not one that can be sent.
    NoFile,
    /// Fewer bytes than the minimum of a range.
    Short,
    /// It must be read from the disk, and the sender must not wait for that.
    Cold,
}

/// Stability of written data (`stable_how`, RFC 1813 §3.3.7), in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// In memory; a COMMIT must follow.
    Unstable,
    /// The data, and what is needed to read it back, is on disk.
    DataSync,
    /// Data and all attributes are on disk.
    FileSync,
}

/// The result of WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteDone {
    /// Bytes written, from the front of the data.
    pub count: usize,
    /// Their stability: at least the requested one.
    pub committed: Stability,
    /// The file around the write.
    pub file: Change,
    /// The number of this change of the file, if the backend counts them.
    pub change_number: Option<ChangeNumber>,
}

/// The number of a change of an object. Attributes alone do not show whether there was another between two: changes
/// within a tick of the clock have the same times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeNumber {
    /// The counter: unique among those that exist at the same time.
    pub counter: usize,
    /// Number of changes before it.
    pub number: u64,
}

impl ChangeNumber {
    /// Whether nothing has changed the object through this server since `earlier`.
    pub const fn follows(self, earlier: Self) -> bool {
        self.counter == earlier.counter && self.number == earlier.number.wrapping_add(1)
    }
}

/// How CREATE handles an existing name (RFC 1813 §3.3.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// Use it, and set the given attributes (in practice: the size).
    Unchecked(SetAttr),
    /// Fail with [`Status::Exist`].
    Guarded(SetAttr),
    /// Fail unless it was created with the same verifier; the verifier survives a restart.
    Exclusive([u8; 8]),
}

/// The type of object for MKNOD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A block device with these major and minor numbers.
    Block(u32, u32),
    /// A character device with these major and minor numbers.
    Char(u32, u32),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// One entry of a directory, as passed to the sink.
#[derive(Debug, Clone, Copy)]
pub struct DirEntry<'a> {
    /// The name; `.` and `..` are entries as well.
    pub name: &'a [u8],
    /// Inode number.
    pub fileid: u64,
    /// Cookie to continue after this entry; never 0, the same for the life of the entry.
    pub cookie: u64,
    /// Id and attributes, if requested and available (not for `..` of the root, not for an entry
    /// that was just removed, not for a mount point).
    pub node: Option<&'a Node>,
}

/// The parameters of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListArgs {
    /// Cookie of the entry after which to begin; 0: at the start.
    pub cookie: u64,
    /// Whether entries carry id and attributes.
    pub nodes: bool,
    /// Which of their optional attributes are used; others may be there.
    pub want: Want,
    /// Estimate of the bytes of entries that will be used, as READDIR encodes them (RFC 1813 §3.3.16
    /// `entry3`): more is fetched in vain. Only the sink ends the listing.
    pub room: usize,
}

impl ListArgs {
    /// All entries after a cookie.
    pub const fn all(cookie: u64, nodes: bool) -> Self {
        Self { cookie, nodes, want: Want::CHANGE, room: usize::MAX }
    }
}

/// The result of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// Whether the last entry was passed to the sink and accepted.
    pub eof: bool,
    /// The directory's attributes when the listing began: whoever has changed it since has changed these as well, so that a
    /// list that lacks the change is not taken for one that has it.
    pub dir: Attr,
}

/// Space and inodes of the file system (`FSSTAT`, RFC 1813 §3.3.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Bytes free for an ordinary user.
    pub avail_bytes: u64,
    /// Inodes in all.
    pub total_files: u64,
    /// Inodes free.
    pub free_files: u64,
    /// Inodes free for an ordinary user.
    pub avail_files: u64,
    /// Attributes of the object of the call.
    pub attr: Attr,
}

/// The capabilities of the file system (`FSINFO` and `PATHCONF`, RFC 1813 §3.3.19, §3.3.20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest name in bytes.
    pub name_max: u32,
    /// Most hard links to a file.
    pub link_max: u32,
    /// Largest file in bytes.
    pub file_size_max: u64,
    /// Granularity of times in nanoseconds.
    pub time_delta_ns: u32,
    /// Whether hard links can be made.
    pub hard_links: bool,
    /// Whether symbolic links can be made.
    pub symlinks: bool,
    /// Whether names that differ only in case are the same.
    pub case_insensitive: bool,
    /// Whether only a privileged user may change the owner of a file.
    pub chown_restricted: bool,
    /// The semantics of the change attribute.
    pub change_kind: ChangeKind,
    /// Bytes of the blocks that two files can share ([`Space::clone_range`](crate::Space::clone_range)); `None` if they
    /// cannot.
    pub clone_block: Option<u32>,
}

/// Changes whenever unstable data may have been lost (RFC 1813 §3.3.7 `verf`).
pub type Verifier = [u8; 8];

/// Keeps an open file: see [`keep`](crate::Backend::keep). Dropping it never waits for a disk, but takes a lock.
#[must_use = "the file is kept only as long as this lives"]
pub struct Kept(Box<dyn Any + Send + Sync>);

impl Kept {
    /// Made of a value that releases the file when it is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }

    /// For owners that hold it beside other guards.
    pub fn into_guard(self) -> Box<dyn Any + Send + Sync> {
        self.0
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

/// The error of an operation on data for an object that is not a regular file.
///
/// # Errors
/// [`Status::IsDir`], [`Status::Symlink`] or [`Status::WrongType`].
pub const fn need_regular(ftype: FileType) -> Result<()> {
    match ftype {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(Status::IsDir),
        FileType::Symlink => Err(Status::Symlink),
        FileType::Block | FileType::Char | FileType::Fifo | FileType::Socket => {
            Err(Status::WrongType)
        }
    }
}
