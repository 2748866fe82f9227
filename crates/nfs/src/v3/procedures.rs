//! The table of the procedures of version 3 (RFC 1813 §3).

use super::{
    access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod, pathconf, read,
    readdir, readdirplus, readlink, remove, rename, rmdir, setattr, symlink, write,
};
use crate::Nfs;
use rpc::{Call, Fault, Plan, Row};
use xdr::{Reader, Writer};

const LOOK: Plan = Plan::IDEMPOTENT.restartable();
/// A change of the name space: not to be run twice. Whether it waits for a disk depends on the export
/// and its file system, and the backend says so.
const NAMES: Plan = Plan::NON_IDEMPOTENT.restartable();
/// May be run twice, but not after another has written there; whether it waits depends on `stable` as well.
const DATA: Plan = Plan::REPLAY_UNSAFE.restartable();

/// The procedures, by number.
pub static ROWS: [Row<Nfs>; 22] = [
    Row::new("NULL", LOOK, null),
    Row::new("GETATTR", LOOK, getattr::getattr),
    Row::new("SETATTR", NAMES, setattr::setattr),
    Row::new("LOOKUP", LOOK, lookup::lookup),
    Row::new("ACCESS", LOOK, access::access),
    Row::new("READLINK", LOOK, readlink::readlink),
    Row::new("READ", LOOK, read::read),
    Row::new("WRITE", DATA, write::write).beginning_with(write::begin),
    Row::new("CREATE", NAMES, create::create),
    Row::new("MKDIR", NAMES, mkdir::mkdir),
    Row::new("SYMLINK", NAMES, symlink::symlink),
    Row::new("MKNOD", NAMES, mknod::mknod),
    Row::new("REMOVE", NAMES, remove::remove),
    Row::new("RMDIR", NAMES, rmdir::rmdir),
    Row::new("RENAME", NAMES, rename::rename),
    Row::new("LINK", NAMES, link::link),
    Row::new("READDIR", LOOK, readdir::readdir),
    Row::new("READDIRPLUS", LOOK, readdirplus::readdirplus),
    Row::new("FSSTAT", LOOK, fsstat::fsstat),
    Row::new("FSINFO", LOOK, fsinfo::fsinfo),
    Row::new("PATHCONF", LOOK, pathconf::pathconf),
    Row::new("COMMIT", LOOK, commit::commit),
];

fn null(_: &Nfs, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}
