//! The table of the procedures of version 2 (RFC 1094 §2.2).

use super::{
    create, getattr, link, lookup, mkdir, read, readdir, readlink, remove, rename, rmdir, setattr,
    statfs, symlink, write,
};
use crate::Nfs;
use rpc::{Call, Fault, Plan, Row};
use xdr::{Reader, Writer};

const LOOK: Plan = Plan::IDEMPOTENT.restartable();
const NAMES: Plan = Plan::NON_IDEMPOTENT.restartable();
/// Always on disk before the answer (RFC 1094 §2.1), but safe to run twice until another has written there.
const DATA: Plan = Plan::REPLAY_UNSAFE.restartable();

/// The procedures, by number.
pub static ROWS: [Row<Nfs>; 18] = [
    Row::new("NULL", LOOK, void),
    Row::new("GETATTR", LOOK, getattr::getattr),
    Row::new("SETATTR", NAMES, setattr::setattr),
    Row::new("ROOT", LOOK, void),
    Row::new("LOOKUP", LOOK, lookup::lookup),
    Row::new("READLINK", LOOK, readlink::readlink),
    Row::new("READ", LOOK, read::read),
    Row::new("WRITECACHE", LOOK, void),
    Row::new("WRITE", DATA, write::write),
    Row::new("CREATE", NAMES, create::create),
    Row::new("REMOVE", NAMES, remove::remove),
    Row::new("RENAME", NAMES, rename::rename),
    Row::new("LINK", NAMES, link::link),
    Row::new("SYMLINK", NAMES, symlink::symlink),
    Row::new("MKDIR", NAMES, mkdir::mkdir),
    Row::new("RMDIR", NAMES, rmdir::rmdir),
    Row::new("READDIR", LOOK, readdir::readdir),
    Row::new("STATFS", LOOK, statfs::statfs),
];

fn void(_: &Nfs, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}
