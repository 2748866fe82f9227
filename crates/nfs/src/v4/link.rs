//! LINK (RFC 8881 §18.9): of the saved file, into the current directory.

use super::attr::change_info;
use super::frame::Frame;
use super::name;
use super::status::Failed;
use crate::object::Object;
use crate::verbs;
use proto::nfs4::{LinkArgs, Nfsstat4};
use vfs::FileType;
use xdr::{Reader, Writer};

pub(super) fn link<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let LinkArgs { name } = args.get()?;
    let (file, dir) = (frame.saved_object()?, frame.object()?);
    name::check(name.0, frame.object()?)?;
    if is_directory(file) {
        return Err(Nfsstat4::IsDir.into());
    }
    frame.nfs.before_change(file, &file.fid, frame.client_id())?;
    let mut entry = frame.nfs.begin_new_entry(dir, name.0, frame.client_id())?;
    let linked = verbs::link(file, (dir, name.0))?;
    reply.put(&entry.made(&linked.dir, change_info(&linked.dir)));
    drop(entry);
    frame.changed = true;
    Ok(())
}

/// Whether an object is a directory, of which there are no links.
fn is_directory(object: &Object<'_>) -> bool {
    object.attributes().is_some_and(|attr| attr.ftype == FileType::Directory)
}
