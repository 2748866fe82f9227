//! NFSACL (program 100227), versions 2 and 3: POSIX ACLs beside NFS of the same version, on the same port.
//!
//! Owns: nothing. A procedure decodes its arguments, runs a verb on the object of its filehandle, and encodes the result
//! with the types of its NFS version. Version 3 has GETACL and SETACL, version 2 GETATTR and ACCESS besides, for clients
//! of NFS version 2, which has no ACCESS (Sun's nfs_acl.x; Linux's linux/nfsacl.h). GETXATTRDIR is Solaris's alone and
//! answered PROC_UNAVAIL, as by Linux.
//!
//! What differs between servers is done as Linux's does it, since clients were tried with that one:
//!
//! - An object without an ACL has the entries of its mode.
//! - A list of three entries is sent as four, with a mask that has the group's permissions, and a list of such four
//!   entries that is set is taken for the three: a mode, and not an ACL. Solaris knows no list without a mask.
//! - SETACL replaces both lists: a directory loses a default ACL that the call does not name. The access ACL stays where
//!   it is not named.

mod lists;
mod v2;
mod v3;

use crate::Nfs;
use proto::nfsacl::PROGRAM;
use rpc::{Call, Fault, Plan, Row, Service, Version};
use std::sync::Arc;
use xdr::{Reader, Writer};

/// The program for the dispatcher.
pub fn acl_program(state: Arc<Nfs>) -> Service<Nfs> {
    Service { number: PROGRAM, name: "nfsacl", versions: &VERSIONS, state }
}

static VERSIONS: [Version<Nfs>; 2] = [Version::new(2, &V2), Version::new(3, &V3)];

const LOOK: Plan = Plan::IDEMPOTENT.restartable();
/// SETACL gives the same result when it runs again, but not after another has set an ACL.
const SET: Plan = Plan::NON_IDEMPOTENT.restartable();

static V2: [Row<Nfs>; 5] = [
    Row::new("NULL", LOOK, null),
    Row::new("GETACL", LOOK, v2::getacl),
    Row::new("SETACL", SET, v2::setacl),
    Row::new("GETATTR", LOOK, v2::getattr),
    Row::new("ACCESS", LOOK, v2::access),
];

static V3: [Row<Nfs>; 3] = [
    Row::new("NULL", LOOK, null),
    Row::new("GETACL", LOOK, v3::getacl),
    Row::new("SETACL", SET, v3::setacl),
];

fn null(_: &Nfs, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}
