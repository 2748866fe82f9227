//! The table of the procedures of version 4.

use super::{compound, write_ahead};
use crate::Nfs;
use rpc::{Call, Fault, Plan, Row};
use xdr::{Reader, Writer};

/// The procedures, by number.
pub static ROWS: [Row<Nfs>; 2] = [
    Row::new("NULL", Plan::IDEMPOTENT, null),
    Row::new("COMPOUND", compound::PLAN, compound::compound)
        .planned_by(compound::plan)
        .beginning_with(write_ahead::begin),
];

fn null(_: &Nfs, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}
