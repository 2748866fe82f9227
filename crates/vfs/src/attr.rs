//! Attributes of an object, independent of the protocol.
//!
//! They are passed by value through every layer, in results and beside statuses. Values of 128 bytes or less are copied
//! by inline instructions, larger ones by a call of memcpy, so their sizes are checked below ([`Attr`] fits with a status
//! beside it): times are packed to twelve bytes, the mode has two bytes, and an absent time of creation is encoded in its
//! nanoseconds.

use std::num::NonZeroU32;
use std::time::{SystemTime, UNIX_EPOCH};

/// What kind of object a file id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// An ordinary file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link; the server never follows one.
    Symlink,
    /// A block device node.
    Block,
    /// A character device node.
    Char,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// A moment: seconds since 1970 (negative before) and nanoseconds below one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(C, packed(4))]
pub struct Time {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nsec: u32,
}

impl Time {
    /// The clock of this machine.
    pub fn now() -> Self {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let sec = i64::try_from(clock.as_secs()).unwrap_or(i64::MAX);
        Self { sec, nsec: clock.subsec_nanos() }
    }
}

/// A time that may be unknown, in the same size as a known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct MaybeTime {
    sec: i64,
    /// One more than the nanoseconds.
    nsec_and_one: Option<NonZeroU32>,
}

impl MaybeTime {
    /// Not known.
    pub const UNKNOWN: Self = Self { sec: 0, nsec_and_one: None };

    /// The time, if it is known.
    pub fn known(self) -> Option<Time> {
        let nsec = self.nsec_and_one?.get().wrapping_sub(1);
        Some(Time { sec: self.sec, nsec })
    }
}

impl From<Time> for MaybeTime {
    fn from(Time { sec, nsec }: Time) -> Self {
        Self { sec, nsec_and_one: NonZeroU32::MIN.checked_add(nsec) }
    }
}

impl From<Option<Time>> for MaybeTime {
    fn from(time: Option<Time>) -> Self {
        time.map_or(Self::UNKNOWN, Self::from)
    }
}

/// All attributes that every protocol version needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The kind of object.
    pub ftype: FileType,
    /// The twelve permission bits (07777), never the type bits.
    pub mode: u16,
    /// Number of hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Bytes of storage in use.
    pub used: u64,
    /// Major and minor number of a device node, else zero.
    pub rdev: (u32, u32),
    /// The file system that the object is on, as the backend numbers them.
    pub fsid: u64,
    /// Inode number.
    pub fileid: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
    /// The change attribute (RFC 8881 §5.8.1.4): differs whenever data or attributes differ;
    /// [`crate::Limits::change_kind`] defines the meaning of a difference.
    pub change: u64,
    /// Creation, where the file system records it and [`crate::Want::BIRTH`] asked for it.
    pub birth: MaybeTime,
}

// Together with a status or an enum discriminant they are still copied inline.
const _: () = assert!(size_of::<Attr>() <= 112 && size_of::<Option<Attr>>() == size_of::<Attr>());
const _: () = assert!(size_of::<Result<Attr, crate::Status>>() == size_of::<Attr>());

/// The twelve permission bits of a `mode_t`, or of what a client sent as one; other bits are dropped.
pub const fn permission_bits(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// The attributes with which a client checks whether its cached data is still valid (`wcc_attr`,
/// RFC 1813 §2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WccAttr {
    /// Size in bytes.
    pub size: u64,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
    /// The change attribute, see [`Attr::change`].
    pub change: u64,
}

impl WccAttr {
    /// Whether size and times are the same, which is all that version 3 compares. The change attribute may differ
    /// nevertheless: see [`ChangeKind::Undefined`].
    pub fn same_size_and_times(&self, other: &Self) -> bool {
        (self.size, self.mtime, self.ctime) == (other.size, other.mtime, other.ctime)
    }
}

/// The semantics of a change attribute (`change_attr_type4`, RFC 7862 §12.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// A number that increases with each change.
    MonotonicIncrement,
    /// The time of the last change of the attributes, fine enough to differ after each change.
    TimeMetadata,
    /// Only equality is meaningful. It may also differ without a change.
    Undefined,
}

impl Attr {
    /// The part that weak cache consistency needs.
    pub const fn wcc(&self) -> WccAttr {
        WccAttr { size: self.size, mtime: self.mtime, ctime: self.ctime, change: self.change }
    }
}

/// How a time is to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// Unchanged.
    #[default]
    Keep,
    /// To the server's clock.
    Now,
    /// To this moment.
    To(Time),
    /// To this moment, by whoever keeps the file's times under a delegation (RFC 9754): whoever it is owned by.
    Delegated(Time),
}

/// The attributes to be set; `None` leaves one unchanged (`sattr3`, RFC 1813 §2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission bits (07777).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: a smaller one truncates, a larger one extends with zeros.
    pub size: Option<u64>,
    /// Last access.
    pub atime: SetTime,
    /// Last change of the data.
    pub mtime: SetTime,
}

impl SetAttr {
    /// Whether nothing is to be set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
