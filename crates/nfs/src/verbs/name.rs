//! The names that verbs take.

use vfs::{Component, Name, Status};

/// The name of an entry to be made: `.` and `..` exist already (RFC 1813 §3.3.9).
///
/// # Errors
/// [`Status::NameTooLong`], [`Status::Acces`], [`Status::Exist`].
pub(super) fn to_make(name: &[u8]) -> vfs::Result<Name<'_>> {
    Name::new(name)
}

/// The name of an entry to be removed: `.` is [`Status::Inval`] and `..` is [`Status::Exist`]
/// (RFC 1813 §3.3.13).
///
/// # Errors
/// [`Status::NameTooLong`], [`Status::Acces`] and the above.
pub(super) fn to_remove(name: &[u8]) -> vfs::Result<Name<'_>> {
    match Component::new(name)? {
        Component::Name(name) => Ok(name),
        Component::Dot => Err(Status::Inval),
        Component::DotDot => Err(Status::Exist),
    }
}

/// A name of RENAME: `.` and `..` are [`Status::Inval`] (RFC 1813 §3.3.14).
///
/// # Errors
/// [`Status::NameTooLong`], [`Status::Acces`] and the above.
pub(super) fn to_rename(name: &[u8]) -> vfs::Result<Name<'_>> {
    match Component::new(name)? {
        Component::Name(name) => Ok(name),
        Component::Dot | Component::DotDot => Err(Status::Inval),
    }
}

#[cfg(test)]
mod tests {
    use super::{Status, to_make, to_remove, to_rename};

    #[test]
    fn dot_and_dot_dot_fail_with_the_status_of_rfc_1813() {
        assert_eq!(to_make(b".").unwrap_err(), Status::Exist);
        assert_eq!(to_remove(b".").unwrap_err(), Status::Inval);
        assert_eq!(to_remove(b"..").unwrap_err(), Status::Exist);
        assert_eq!(to_rename(b"..").unwrap_err(), Status::Inval);
        assert_eq!(to_rename(b"a").unwrap().bytes(), b"a");
        assert_eq!(to_remove(b"a/b").unwrap_err(), Status::Acces);
        assert_eq!(to_make(&[b'x'; 256]).unwrap_err(), Status::NameTooLong);
    }
}
