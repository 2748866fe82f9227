//! LOOKUP (RFC 1813 §3.3.3).

use super::{arguments, attr, finish_encoded};
use crate::junction::Crossing;
use crate::{Nfs, verbs};
use export::Handle;
use proto::nfs3::{Bytes, DirOpArgs3, Fattr3, LookupOk, Res};
use rpc::{Call, Fault};
use vfs::Found;
use xdr::{Reader, Writer};

pub(super) fn lookup(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: DirOpArgs3<'_> = arguments(args)?;
    let found = nfs.on_walk_v3(call, a.dir.0, |caller, dir| {
        if let Some(inner) = caller.junction(dir, a.name.0, Crossing::Marked)? {
            let (handle, found) = verbs::lookup_root(caller, dir, inner)?;
            put_found(reply, &handle, &found);
            return Ok(());
        }
        let found = verbs::lookup(dir, a.name.0)?;
        let handle = dir.seal(&found.node.fid);
        if nfs.is_written_by_other(dir, &found.node.fid, None) {
            put_without_attr(reply, &handle, &found);
        } else {
            put_found(reply, &handle, &found);
        }
        Ok(())
    });
    finish_encoded(call, reply, found.map_err(|failed| failed.post_op::<LookupOk<'_>>()))
}

/// The client asks for the attributes if it needs them: another client has a write delegation of the file.
#[cold]
fn put_without_attr(reply: &mut Writer, handle: &Handle, found: &Found) {
    reply.put(&Res::<_, Option<Fattr3>>::Ok(LookupOk {
        object: Bytes(handle.bytes()),
        attr: None,
        dir: Some(attr::fattr3(&found.dir)),
    }));
}

#[inline]
fn put_found(reply: &mut Writer, handle: &Handle, found: &Found) {
    reply.put(&Res::<_, Option<Fattr3>>::Ok(LookupOk {
        object: Bytes(handle.bytes()),
        attr: Some(attr::fattr3(&found.node.attr)),
        dir: Some(attr::fattr3(&found.dir)),
    }));
}
