//! CREATE (RFC 8881 §18.4): everything but regular files.

use super::acl;
use super::attr::change_info;
use super::frame::Frame;
use super::name;
use super::settable_attrs;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::{CreateArgs, CreateType4, Nfsstat4};
use vfs::{FileType, NodeKind};
use xdr::{Reader, Writer};

pub(super) fn create<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let CreateArgs { what, name, attrs } = args.get()?;
    let dir = frame.object()?;
    if let CreateType4::Other(_) = what {
        return Err(Nfsstat4::BadType.into());
    }
    name::check(name.0, frame.object()?)?;
    let wanted = settable_attrs::parse(frame, &attrs)?.of_new(dir)?;
    let acls = acl::of_new(dir, wanted.acl(), file_type(&what))?;
    let set = wanted.set;
    let name = name.0;
    let mut entry = frame.nfs.begin_new_entry(dir, name, frame.client_id())?;
    let special = |kind| verbs::mknod(dir, name, Ok((kind, set)));
    let made = match what {
        CreateType4::Dir => verbs::mkdir(dir, name, Ok(set)),
        CreateType4::Lnk(target) => verbs::symlink(dir, name, target.0, Ok(set)),
        CreateType4::Blk(device) => special(NodeKind::Block(device.major, device.minor)),
        CreateType4::Chr(device) => special(NodeKind::Char(device.major, device.minor)),
        CreateType4::Fifo => special(NodeKind::Fifo),
        CreateType4::Sock => special(NodeKind::Socket),
        CreateType4::Other(_) => return Err(Nfsstat4::BadType.into()),
    }?;
    let info = entry.made(&made.dir, change_info(&made.dir));
    drop(entry);
    frame.changed = true;
    // somebody else may have removed it already
    let node = made.node.ok_or(Nfsstat4::Delay)?;
    acl::apply_to_new(frame.object()?, node.fid, acls.as_ref())?;
    frame.move_to(node.fid);
    if acls.is_none() {
        frame.fetched = Some(node.attr);
    }
    reply.put(&info);
    reply.put(&wanted.mask());
    Ok(())
}

const fn file_type(what: &CreateType4<'_>) -> FileType {
    match what {
        CreateType4::Dir => FileType::Directory,
        CreateType4::Lnk(_) => FileType::Symlink,
        CreateType4::Blk(_) => FileType::Block,
        CreateType4::Chr(_) => FileType::Char,
        CreateType4::Fifo => FileType::Fifo,
        CreateType4::Sock => FileType::Socket,
        CreateType4::Other(_) => FileType::Regular,
    }
}
