//! NFS version 3 (RFC 1813): wire arguments to verb to wire result, one file per procedure.
//!
//! A procedure decodes its arguments, runs a verb on the object of its filehandle
//! (`Nfs::on_object_v3`), and encodes the result, with attributes also in failures ([`failed`]).
//!
//! Invariant: every procedure decodes its arguments to the last byte before anything is done
//! (of a large WRITE those before the data, and that these fill the record exactly), and ends in
//! [`finish`], which also tells the statistics the status.

mod access;
pub(crate) mod attr;
mod commit;
mod create;
mod failed;
mod fsinfo;
mod fsstat;
mod getattr;
mod link;
mod listing;
mod lookup;
mod mkdir;
mod mknod;
mod pathconf;
mod procedures;
mod read;
mod readdir;
mod readdirplus;
mod readlink;
mod remove;
mod rename;
mod rmdir;
mod setattr;
mod status;
mod symlink;
mod write;

pub use procedures::ROWS;
pub use status::nfsstat3;

use crate::Nfs;
use crate::object::Object;
use proto::nfs3::{Bytes, MadeOk, Nfsstat3, Res, WccData};
use rpc::{Call, Fault};
use vfs::Created;
use xdr::{Decode, Encode, Reader, Writer};

/// Decodes the arguments of a procedure as the server does; for tests that feed arbitrary bytes.
///
/// # Errors
/// What the server answers with GARBAGE_ARGS.
pub fn decode_all_args(procedure: u32, bytes: &[u8]) -> Result<(), xdr::Error> {
    proto::nfs3::decode_args(procedure, bytes)
}

/// All arguments of a call.
pub(crate) fn arguments<'a, T: Decode<'a>>(args: &mut Reader<'a>) -> Result<T, Fault> {
    let all = args.get()?;
    args.end()?;
    Ok(all)
}

/// Writes the result and notes its status.
pub(crate) fn finish<T: Encode, F: Encode>(
    call: &mut Call<'_>,
    reply: &mut Writer,
    result: &Res<T, F>,
) -> Result<(), Fault> {
    // only a failure can be one of the transport security (`xprtsec`), which has no status of its own
    if result.status() == Nfsstat3::Acces && call.outcome.too_weak {
        return Err(Fault::TooWeak);
    }
    call.outcome.status = result.status().number();
    reply.put(result);
    Ok(())
}

/// The same where the result of a success is in the reply already, encoded while the attributes were at hand: they are
/// not copied out first.
pub(crate) fn finish_encoded<T: Encode, F: Encode>(
    call: &mut Call<'_>,
    reply: &mut Writer,
    encoded: Result<(), Res<T, F>>,
) -> Result<(), Fault> {
    match encoded {
        Ok(()) => {
            call.outcome.status = Nfsstat3::Ok.number();
            Ok(())
        }
        Err(failed) => finish(call, reply, &failed),
    }
}

/// A procedure that makes an object in the directory `dir` by `make`. The result is encoded while the objects are
/// at hand: handle and attributes are not copied out first.
fn create_object(
    nfs: &Nfs,
    call: &mut Call<'_>,
    reply: &mut Writer,
    dir: &[u8],
    make: impl FnOnce(&Object<'_>) -> vfs::Result<Created>,
) -> Result<(), Fault> {
    let made = nfs.on_object_v3(call, dir, |dir| {
        let made = make(dir)?;
        let handle = made.node.as_ref().map(|node| dir.seal(&node.fid));
        reply.put(&Res::<_, WccData>::Ok(MadeOk {
            object: handle.as_ref().map(|handle| Bytes(handle.bytes())),
            attr: made.node.as_ref().map(|node| attr::fattr3(&node.attr)),
            dir: attr::wcc(&made.dir),
        }));
        Ok(())
    });
    finish_encoded(call, reply, made.map_err(|failed| failed.wcc::<MadeOk<'_>>()))
}
