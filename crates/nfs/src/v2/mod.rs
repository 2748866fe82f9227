//! NFS version 2 (RFC 1094): a translation onto the verbs, for boot loaders and old machines.
//!
//! Owns: what is narrower in version 2: 32-byte handles ([`handle`]), 32-bit cookies
//! ([`cookies`]), 32-bit sizes, 8 KiB transfers, no "try again later". Procedures that belong
//! together share a file.

mod attr;
mod attributes;
pub mod cookies;
mod fifo_map;
pub mod handle;
mod lookup;
mod make;
mod read;
mod readdir;
mod remove;
mod status;
mod write;

pub use status::nfsstat2;

use crate::Nfs;
use crate::object::Object;
use export::Handle;
use proto::nfs2::{Fh2, Nfsstat2};
use rpc::{Call, Fault, Plan, Row};
use xdr::{Decode, Encode, Reader, Writer};

/// What version 2 has to remember from call to call.
#[derive(Debug, Default)]
pub struct State {
    /// FullHandle handles by their aliases; MOUNT gives some out as well.
    pub aliases: handle::Aliases,
    /// FullHandle cookies by their short forms.
    pub cookies: cookies::Cookies,
}

const LOOK: Plan = Plan::IDEMPOTENT;
const NAMES: Plan = Plan::NON_IDEMPOTENT;
/// Always on disk before the answer (RFC 1094 §2.1), but safe to run twice until another has written there.
const DATA: Plan = Plan::REPLAY_UNSAFE;

/// The procedures, by number.
pub static ROWS: [Row<Nfs>; 18] = [
    Row::new("NULL", LOOK, void),
    Row::new("GETATTR", LOOK, attributes::getattr),
    Row::new("SETATTR", NAMES, attributes::setattr),
    Row::new("ROOT", LOOK, void),
    Row::new("LOOKUP", LOOK, lookup::lookup),
    Row::new("READLINK", LOOK, read::readlink),
    Row::new("READ", LOOK, read::read),
    Row::new("WRITECACHE", LOOK, void),
    Row::new("WRITE", DATA, write::write),
    Row::new("CREATE", NAMES, make::create),
    Row::new("REMOVE", NAMES, remove::remove),
    Row::new("RENAME", NAMES, remove::rename),
    Row::new("LINK", NAMES, make::link),
    Row::new("SYMLINK", NAMES, make::symlink),
    Row::new("MKDIR", NAMES, make::mkdir),
    Row::new("RMDIR", NAMES, remove::rmdir),
    Row::new("READDIR", LOOK, readdir::readdir),
    Row::new("STATFS", LOOK, attributes::statfs),
];

/// Decodes the arguments of a procedure as the server does; for tests that feed arbitrary bytes.
///
/// # Errors
/// What the server answers with GARBAGE_ARGS.
pub fn decode_all_args(procedure: u32, bytes: &[u8]) -> Result<(), xdr::Error> {
    proto::nfs2::decode_args(procedure, bytes)
}

fn void(_: &Nfs, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}

/// All arguments of a call.
fn arguments<'a, T: Decode<'a>>(args: &mut Reader<'a>) -> Result<T, Fault> {
    let all = args.get()?;
    args.end()?;
    Ok(all)
}

/// Writes a result and notes its status. A failure that version 2 has no word for and that will
/// pass is not answered: the client asks again by itself.
fn finish<T: Encode>(
    call: &mut Call<'_>,
    reply: &mut Writer,
    answer: &vfs::Result<T>,
) -> Result<(), Fault> {
    let status = match answer {
        Ok(_) => Nfsstat2::Ok,
        Err(status) => nfsstat2(*status).ok_or(Fault::Silence)?,
    };
    call.outcome.status = status.number();
    reply.put(&status);
    if let Ok(body) = answer {
        reply.put(body);
    }
    Ok(())
}

/// A procedure: arguments, `run`, result.
fn serve<'a, A: Decode<'a>, T: Encode>(
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

impl Nfs {
    /// Does `work` on the object of a handle of version 2.
    fn on_object_v2<T>(
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

    /// A handle for version 2, remembered if that is needed.
    fn short(&self, long: &Handle) -> Fh2 {
        self.v2.aliases.shorten(long.bytes())
    }
}
