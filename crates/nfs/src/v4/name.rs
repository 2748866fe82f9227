//! Names off the wire (RFC 8881 §14.5). They need not be UTF-8: what a local program has called a file must be found.

use super::status::Failed;
use proto::nfs4::Nfsstat4;

/// Refuses a name that cannot be that of an entry.
///
/// # Errors
/// NFS4ERR_INVAL for none, NFS4ERR_NAMETOOLONG, NFS4ERR_BADCHAR for a NUL, NFS4ERR_BADNAME for a slash, `.` and `..`.
pub(super) fn check(name: &[u8]) -> Result<(), Failed> {
    match name {
        b"" => Err(Nfsstat4::Inval.into()),
        b"." | b".." => Err(Nfsstat4::BadName.into()),
        long if long.len() > vfs::NAME_MAX => Err(Nfsstat4::NameTooLong.into()),
        name if name.contains(&0) => Err(Nfsstat4::BadChar.into()),
        name if name.contains(&b'/') => Err(Nfsstat4::BadName.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Failed, Nfsstat4, check};

    #[test]
    fn invalid_names_fail_as_the_rfc_requires() {
        let cases: [(&[u8], Result<(), Nfsstat4>); 7] = [
            (b"a", Ok(())),
            (b"\xff\xfe", Ok(())),
            (b"", Err(Nfsstat4::Inval)),
            (b"..", Err(Nfsstat4::BadName)),
            (b"a/b", Err(Nfsstat4::BadName)),
            (b"a\0", Err(Nfsstat4::BadChar)),
            (&[b'x'; 256], Err(Nfsstat4::NameTooLong)),
        ];
        for (name, expected) in cases {
            assert_eq!(check(name), expected.map_err(Failed::from));
        }
    }
}
