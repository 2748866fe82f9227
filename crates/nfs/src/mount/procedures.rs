//! The tables of the procedures of MOUNT, a table for each version.

use super::{Mount, dump, export, mnt, umnt};
use proto::mount::PROGRAM;
use rpc::{Call, Fault, Plan, Row, Service, Version};
use std::sync::Arc;
use xdr::{Reader, Writer};

/// The program for the dispatcher.
pub fn mount_program(state: Arc<Mount>) -> Service<Mount> {
    Service { number: PROGRAM, name: "mount", versions: &VERSIONS, state }
}

static VERSIONS: [Version<Mount>; 3] =
    [Version::new(1, &V1), Version::new(2, &V2), Version::new(3, &V3)];

const NULL: Row<Mount> = Row::new("NULL", Plan::IDEMPOTENT.urgent(), null);
const DUMP: Row<Mount> = Row::new("DUMP", Plan::IDEMPOTENT.urgent(), dump::dump);
const UMNT: Row<Mount> = Row::new("UMNT", Plan::IDEMPOTENT.urgent(), umnt::umnt);
const UMNTALL: Row<Mount> = Row::new("UMNTALL", Plan::IDEMPOTENT.urgent(), umnt::umntall);
const EXPORT: Row<Mount> = Row::new("EXPORT", Plan::IDEMPOTENT.urgent(), export::export);
const EXPORTALL: Row<Mount> = Row { name: "EXPORTALL", ..EXPORT };

/// MNT reads directories that may not be in memory.
const fn mnt_row(run: rpc::Handler<Mount>) -> Row<Mount> {
    Row::new("MNT", Plan::IDEMPOTENT.blocking().urgent(), run)
}

static V1: [Row<Mount>; 7] = [NULL, mnt_row(mnt::mnt1), DUMP, UMNT, UMNTALL, EXPORT, EXPORTALL];
static V2: [Row<Mount>; 7] = [NULL, mnt_row(mnt::mnt2), DUMP, UMNT, UMNTALL, EXPORT, EXPORTALL];
static V3: [Row<Mount>; 6] = [NULL, mnt_row(mnt::mnt3), DUMP, UMNT, UMNTALL, EXPORT];

fn null(_: &Mount, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}
