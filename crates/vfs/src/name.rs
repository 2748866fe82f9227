//! Validated names: a directory component exists only in valid form.

use crate::Status;

/// The longest component that any Linux file system accepts, in bytes (`NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// An entry of a directory: 1 to 255 bytes, neither `.` nor `..`, with no `/` and no NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Parses a component that must name an entry.
    ///
    /// # Errors
    /// [`Status::NameTooLong`]; [`Status::Acces`] for an empty name or one with `/` or NUL;
    /// [`Status::Exist`] for `.` and `..` (the caller picks the status that its RFC wants there).
    pub fn new(bytes: &'a [u8]) -> Result<Self, Status> {
        match Component::new(bytes)? {
            Component::Name(name) => Ok(name),
            Component::Dot | Component::DotDot => Err(Status::Exist),
        }
    }

    /// The bytes of the name.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// The argument of LOOKUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component<'a> {
    /// An entry.
    Name(Name<'a>),
    /// The directory itself.
    Dot,
    /// Its parent; the parent of an export's root is that root.
    DotDot,
}

impl<'a> Component<'a> {
    /// Parses a component of a path.
    ///
    /// # Errors
    /// [`Status::NameTooLong`]; [`Status::Acces`] for an empty name or one with `/` or NUL.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Status> {
        match bytes {
            b"." => Ok(Self::Dot),
            b".." => Ok(Self::DotDot),
            b"" => Err(Status::Acces),
            long if long.len() > NAME_MAX => Err(Status::NameTooLong),
            other if other.iter().any(|b| matches!(b, b'/' | 0)) => Err(Status::Acces),
            name => Ok(Self::Name(Name(name))),
        }
    }
}
