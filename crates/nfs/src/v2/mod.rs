//! NFS version 2 (RFC 1094) over the same verbs as version 3, for boot loaders and old machines.
//!
//! Owns: what is narrower in version 2: 32-byte handles ([`handle`]), 32-bit cookies
//! ([`cookies`]), 32-bit sizes, 8 KiB transfers, no status for "try again later". One file per
//! procedure.

pub(crate) mod attr;
pub mod cookies;
mod create;
mod fifo_map;
mod getattr;
pub mod handle;
mod link;
mod lookup;
mod mkdir;
mod procedures;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod rmdir;
mod setattr;
mod state;
mod statfs;
mod status;
mod symlink;
mod write;

pub use procedures::ROWS;
pub use state::State;
pub use status::nfsstat2;

use crate::Nfs;
use crate::object::Object;
use crate::verbs;
use export::Handle;
use proto::nfs2::{DirOpOk2, Fattr2, Fh2, Nfsstat2};
use rpc::{Call, Fault};
use vfs::{Change, Created};
use xdr::{Decode, Encode, Reader, Writer};

/// Decodes the arguments of a procedure as the server does; for tests that feed arbitrary bytes.
///
/// # Errors
/// What the server answers with GARBAGE_ARGS.
pub fn decode_all_args(procedure: u32, bytes: &[u8]) -> Result<(), xdr::Error> {
    proto::nfs2::decode_args(procedure, bytes)
}

/// All arguments of a call.
pub(crate) fn arguments<'a, T: Decode<'a>>(args: &mut Reader<'a>) -> Result<T, Fault> {
    let all = args.get()?;
    args.end()?;
    Ok(all)
}

/// Writes a result and notes its status. After a temporary failure, for which version 2 has no status, the
/// client is made to send the call again.
pub(crate) fn finish<T: Encode>(
    call: &mut Call<'_>,
    reply: &mut Writer,
    answer: &vfs::Result<T>,
) -> Result<(), Fault> {
    if matches!(answer, Err(vfs::Status::Acces)) && call.outcome.too_weak {
        return Err(Fault::TooWeak);
    }
    let status = match answer {
        Ok(_) => Nfsstat2::Ok,
        Err(status) => nfsstat2(*status).ok_or(Fault::NotNow)?,
    };
    call.outcome.status = status.number();
    reply.put(&status);
    if let Ok(body) = answer {
        reply.put(body);
    }
    Ok(())
}

/// A procedure: arguments, `run`, result.
pub(crate) fn serve<'a, A: Decode<'a>, T: Encode>(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'a>,
    reply: &mut Writer,
    run: impl FnOnce(&Nfs, &mut Call<'_>, A) -> vfs::Result<T>,
) -> Result<(), Fault> {
    let arguments = arguments(args)?;
    let answer = run(nfs, call, arguments);
    finish(call, reply, &answer)
}

/// The attributes after a change, which version 2 cannot leave out: they are fetched where the change
/// did not give them.
fn after(file: &Object<'_>, change: &Change) -> vfs::Result<Fattr2> {
    match &change.after {
        Some(after) => Ok(attr::fattr2(after)),
        None => Ok(attr::fattr2(&verbs::getattr(file)?)),
    }
}

/// The result of CREATE and MKDIR, which needs a handle: if the new object has been moved or removed
/// meanwhile, it is that of the object that has the name now, which a client would look up next.
fn created(nfs: &Nfs, (dir, name): (&Object<'_>, &[u8]), made: &Created) -> vfs::Result<DirOpOk2> {
    let node = match made.node {
        Some(node) => node,
        None => verbs::lookup(dir, name)?.node,
    };
    Ok(DirOpOk2 { file: nfs.short(&dir.seal(&node.fid)), attr: attr::fattr2(&node.attr) })
}

impl Nfs {
    /// Does `work` on the object of a handle of version 2.
    pub(crate) fn on_object_v2<T>(
        &self,
        call: &mut Call<'_>,
        short: &Fh2,
        work: impl FnOnce(&Object<'_>) -> vfs::Result<T>,
    ) -> vfs::Result<T> {
        self.on_object(call, self.long(short)?.bytes(), work)
    }

    /// Does `work` on the objects of two handles of version 2.
    fn on_two_objects_v2<T>(
        &self,
        call: &mut Call<'_>,
        (first, second): (&Fh2, &Fh2),
        work: impl FnOnce(&Object<'_>, &Object<'_>) -> vfs::Result<T>,
    ) -> vfs::Result<T> {
        let (first, second) = (self.long(first)?, self.long(second)?);
        self.on_two_objects(call, (first.bytes(), second.bytes()), work)
    }

    /// The handle behind one of version 2.
    fn long(&self, short: &Fh2) -> vfs::Result<handle::FullHandle> {
        self.v2.aliases.resolve(&self.exports, short)
    }

    /// A handle for version 2; its alias is stored if it needs one.
    fn short(&self, long: &Handle) -> Fh2 {
        self.v2.aliases.shorten(long.bytes())
    }
}
