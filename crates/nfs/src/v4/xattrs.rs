//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276 §8.4).
//!
//! A list is in the order of the names' hashes, and the hash of a name is its cookie: names that come and go between two
//! calls move no other.

use super::attr::change_info;
use super::frame::Frame;
use super::status::Failed;
use crate::object::Object;
use crate::verbs;
use proto::nfs4::{ListxattrsArgs, Nfsstat4, SetxattrArgs, SetxattrOption4, XattrArgs};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use vfs::SetXattr;
use xdr::{Reader, Writer};

/// Bytes of a list without its names: cookie, number of names, eof.
const LIST: usize = 8 + 4 + 4;

pub(super) fn getxattr<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let XattrArgs { name } = args.get()?;
    let value = verbs::xattr(frame.object()?, name.0)?;
    let (room, too_big) = frame.room(reply);
    if room < padded(value.len()) {
        return Err(too_big.into());
    }
    reply.opaque(&value);
    Ok(())
}

pub(super) fn setxattr<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let SetxattrArgs { option, name, value } = args.get()?;
    let how = match option {
        SetxattrOption4::Either => SetXattr::Any,
        SetxattrOption4::Create => SetXattr::Create,
        SetxattrOption4::Replace => SetXattr::Replace,
    };
    let object = frame.object()?;
    frame.nfs.before_change(object, &object.fid, frame.client_id())?;
    let change = verbs::set_xattr(object, name.0, value.0, how)?;
    frame.changed = true;
    reply.put(&change_info(&change));
    Ok(())
}

pub(super) fn removexattr<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let XattrArgs { name } = args.get()?;
    let object = frame.object()?;
    frame.nfs.before_change(object, &object.fid, frame.client_id())?;
    let change = verbs::remove_xattr(object, name.0)?;
    frame.changed = true;
    reply.put(&change_info(&change));
    Ok(())
}

pub(super) fn listxattrs<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let ListxattrsArgs { cookie, maxcount } = args.get()?;
    let names = ordered_names(frame.object()?, cookie)?;
    let (room, too_big) = frame.room(reply);
    let most = room.min(maxcount as usize);
    let by_client = (maxcount as usize) <= room;
    let mut left = most.saturating_sub(LIST);
    let fits = |(_, name): &&(u64, Vec<u8>)| match left.checked_sub(padded(name.len())) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let listed = names.iter().take_while(fits).count();
    if most < LIST || listed == 0 && !names.is_empty() {
        return Err(if by_client { Nfsstat4::TooSmall } else { too_big }.into());
    }
    let (first, rest) = names.split_at_checked(listed).unwrap_or_default();
    reply.u64(first.last().map_or(cookie, |(hash, _)| *hash));
    reply.u32(u32::try_from(listed).unwrap_or(u32::MAX));
    for (_, name) in first {
        reply.opaque(name);
    }
    reply.bool(rest.is_empty());
    Ok(())
}

/// The names behind a cookie, each with its own.
fn ordered_names(object: &Object<'_>, cookie: u64) -> Result<Vec<(u64, Vec<u8>)>, Failed> {
    let names = verbs::xattr_names(object)?;
    let mut names: Vec<_> = names.into_iter().map(|name| (cookie_of(&name), name)).collect();
    names.retain(|(hash, _)| *hash > cookie);
    names.sort_unstable();
    Ok(names)
}

/// A name's cookie: never 0, which is the start.
fn cookie_of(name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(name);
    hasher.finish().max(1)
}

/// Bytes of a string on the wire.
const fn padded(len: usize) -> usize {
    4_usize.saturating_add(len.next_multiple_of(4))
}
