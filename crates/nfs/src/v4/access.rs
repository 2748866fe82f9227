//! ACCESS (RFC 8881 §18.1).

use super::frame::Frame;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::{AccessArgs, Nfsstat4};
use vfs::{AccessMask, Attr, FileType};
use xdr::{Reader, Writer};

/// All permissions of version 4.1, which are those of version 3.
const ALL: u32 = 0x3f;
/// `ACCESS4_XAREAD`, `ACCESS4_XAWRITE`, `ACCESS4_XALIST` (RFC 8276 §8.5), since version 4.2.
const XAREAD: u32 = 0x40;
const XAWRITE: u32 = 0x80;
const XALIST: u32 = 0x100;
const XATTRS: u32 = XAREAD | XAWRITE | XALIST;

pub(super) fn access<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let AccessArgs { access } = args.get()?;
    let defined = if frame.minor >= 2 { ALL | XATTRS } else { ALL };
    if access & !defined != 0 {
        return Err(Nfsstat4::Inval.into());
    }
    let object = frame.object()?;
    let data = match access & XATTRS {
        0 => AccessMask::default(),
        _ => AccessMask::READ | AccessMask::MODIFY,
    };
    let asked = AccessMask(access & ALL) | data;
    let has_xattrs = access & XATTRS != 0 && object.backend().xattrs().is_some();
    let by_fetched = |attr: &Attr| Some((verbs::access_by(object, attr, asked)?, attr.ftype));
    let (granted, ftype) = match frame.fetched.as_ref().and_then(by_fetched) {
        Some(told) => told,
        None => {
            let (granted, attr) = verbs::access(object, asked)?;
            frame.fetched = Some(attr);
            (granted, attr.ftype)
        }
    };
    let common = AccessMask::READ | AccessMask::MODIFY | AccessMask::EXTEND;
    let known = match ftype {
        FileType::Directory => common | AccessMask::LOOKUP | AccessMask::DELETE,
        _ => common | AccessMask::EXECUTE,
    };
    let (mut supported, mut permitted) = (access & known.0, (granted & known).0 & access);
    if has_xattrs && matches!(ftype, FileType::Regular | FileType::Directory) {
        supported |= access & XATTRS;
        permitted |= access & by_data(granted);
    }
    reply.words([supported, permitted]);
    Ok(())
}

/// What the permissions to read and to write say of extended attributes.
const fn by_data(granted: AccessMask) -> u32 {
    let read = if granted.has(AccessMask::READ) { XAREAD | XALIST } else { 0 };
    let write = if granted.has(AccessMask::MODIFY) { XAWRITE } else { 0 };
    read | write
}
