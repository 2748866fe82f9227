//! The port mapper and rpcbind (program 100000, versions 2, 3 and 4; RFC 1833) for machines that
//! run none: it answers for this server's own programs only.
//!
//! Owns: the list of registrations, filled once at start, so that no lock is needed. SET and UNSET are
//! refused with FALSE. Calls are never passed on to other programs (CALLIT, BCAST, INDIRECT): a
//! datagram with a forged source address must not make this server attack others.

mod rpcbind;
mod table;
mod v2;

use proto::portmap::PROGRAM;
use rpc::{Call, Fault, Plan, Row, Service, Version};
use std::sync::Arc;
use xdr::{Reader, Writer};

pub use proto::portmap::Registration;
pub use table::Portmap;
pub(crate) use table::may_list;

const fn row(name: &'static str, run: rpc::Handler<Portmap>) -> Row<Portmap> {
    Row::new(name, Plan::IDEMPOTENT.urgent(), run)
}

static VERSIONS: [Version<Portmap>; 3] =
    [Version::new(2, &V2), Version::new(3, &V3), Version::new(4, &V4)];

static V2: [Row<Portmap>; 6] = [
    row("NULL", null),
    row("SET", v2::set),
    row("UNSET", v2::set),
    row("GETPORT", v2::getport),
    row("DUMP", v2::dump),
    row("CALLIT", silent),
];

static V3: [Row<Portmap>; 9] = [
    row("NULL", null),
    row("SET", rpcbind::set),
    row("UNSET", rpcbind::set),
    row("GETADDR", rpcbind::getaddr),
    row("DUMP", rpcbind::dump),
    row("CALLIT", silent),
    row("GETTIME", rpcbind::gettime),
    row("UADDR2TADDR", rpcbind::uaddr2taddr),
    row("TADDR2UADDR", rpcbind::taddr2uaddr),
];

/// Without GETSTAT (12): this program keeps no statistics of its own, and says PROC_UNAVAIL.
static V4: [Row<Portmap>; 12] = [
    row("NULL", null),
    row("SET", rpcbind::set),
    row("UNSET", rpcbind::set),
    row("GETADDR", rpcbind::getaddr),
    row("DUMP", rpcbind::dump),
    row("BCAST", silent),
    row("GETTIME", rpcbind::gettime),
    row("UADDR2TADDR", rpcbind::uaddr2taddr),
    row("TADDR2UADDR", rpcbind::taddr2uaddr),
    row("GETVERSADDR", rpcbind::getversaddr),
    row("INDIRECT", refuse),
    row("GETADDRLIST", rpcbind::getaddrlist),
];

/// The program for the dispatcher.
pub fn portmap_program(state: Arc<Portmap>) -> Service<Portmap> {
    Service { number: PROGRAM, name: "portmap", versions: &VERSIONS, state }
}

fn null(_: &Portmap, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}

/// CALLIT and BCAST answer only if the call was carried out (RFC 1833 §2.2.1, §3.2), and none is.
fn silent(_: &Portmap, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Err(Fault::Silence)
}

/// INDIRECT returns errors (RFC 1833 §2.2.2), and no call is carried out.
fn refuse(_: &Portmap, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Err(Fault::SystemErr)
}
