//! Names off the wire (RFC 8881 §14.5). They need not be UTF-8: what a local program has called a file must be found. Only
//! an export with `utf8=strict` refuses others.

use super::status::Failed;
use crate::object::Object;
use proto::nfs4::Nfsstat4;

/// Refuses a name that cannot be that of an entry.
///
/// # Errors
/// NFS4ERR_INVAL for none and for what is not UTF-8 where it must be, NFS4ERR_NAMETOOLONG, NFS4ERR_BADCHAR for a NUL, NFS4ERR_BADNAME for a slash, `.` and `..`.
pub(super) fn check(name: &[u8], dir: &Object<'_>) -> Result<(), Failed> {
    check_form(name)?;
    if dir.needs_utf8_names() && !is_utf8(name) { Err(Nfsstat4::Inval.into()) } else { Ok(()) }
}

/// Whether text is UTF-8 of characters that can be interchanged: not U+FFFE and U+FFFF.
pub(super) fn is_utf8(text: &[u8]) -> bool {
    let is_character = |c: char| !matches!(c, '\u{fffe}' | '\u{ffff}');
    std::str::from_utf8(text).is_ok_and(|text| text.is_ascii() || text.chars().all(is_character))
}

fn check_form(name: &[u8]) -> Result<(), Failed> {
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
    use super::{Failed, Nfsstat4, check_form, is_utf8};

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
            assert_eq!(check_form(name), expected.map_err(Failed::from));
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_told() {
        for good in [&b""[..], b"lookup", "ä€𝄞".as_bytes(), b"a\0"] {
            assert!(is_utf8(good), "{good:?}");
        }
        // overlong forms, halves of surrogate pairs, U+FFFE, cut and lone bytes
        for bad in [
            &b"\xc0\xaf"[..],
            b"\xed\xa0\x80",
            b"\xef\xbf\xbe",
            b"\xe0\x8a",
            b"\x80",
            b"\xfc\x80\x80\x80\x80\xaf",
            b"\xfd ",
        ] {
            assert!(!is_utf8(bad), "{bad:?}");
        }
    }
}
