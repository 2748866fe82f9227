//! CREATE (RFC 8881 §18.4): everything but regular files.

use super::attr::change_info;
use super::frame::Frame;
use super::name;
use super::settable_attrs;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::{CreateArgs, CreateType4, Nfsstat4};
use vfs::NodeKind;
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
    let set = settable_attrs::parse(frame.minor, &attrs)?;
    let name = name.0;
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
    frame.changed = true;
    // somebody else may have removed it already
    let node = made.node.ok_or(Nfsstat4::Delay)?;
    frame.move_to(node.fid);
    reply.put(&change_info(&made.dir));
    reply.put(&settable_attrs::mask_of(&set));
    Ok(())
}
