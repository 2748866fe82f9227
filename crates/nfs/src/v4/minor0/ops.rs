//! The operations that only version 4.0 has, or that differ in it: one row each.

use super::super::delegation::DELEGATION_BYTES;
use super::super::ops::{DENIED, OpRow, STATEID, inside};
use super::{
    close, lock, lockt, locku, open, open_confirm, open_downgrade, release_lockowner, renew,
    restorefh, secinfo, set_client_id,
};
use proto::nfs4::op;

/// Bytes of the longest result of OPEN: stateid, `change_info4`, flags, attributes, delegation.
const OPEN: u32 = STATEID + 20 + 4 + 16 + DELEGATION_BYTES;

/// Rising by number.
static ROWS: [OpRow; 13] = [
    inside(op::CLOSE, STATEID, close::close),
    inside(op::LOCK, DENIED, lock::lock),
    inside(op::LOCKT, DENIED, lockt::lockt),
    inside(op::LOCKU, STATEID, locku::locku),
    inside(op::OPEN, OPEN, open::open),
    inside(op::OPEN_CONFIRM, STATEID, open_confirm::open_confirm),
    inside(op::OPEN_DOWNGRADE, STATEID, open_downgrade::open_downgrade),
    inside(op::RENEW, 0, renew::renew),
    inside(op::RESTOREFH, 0, restorefh::restorefh),
    inside(op::SECINFO, 12, secinfo::secinfo),
    inside(op::SETCLIENTID, 16, set_client_id::setclientid),
    inside(op::SETCLIENTID_CONFIRM, 0, set_client_id::setclientid_confirm),
    inside(op::RELEASE_LOCKOWNER, 0, release_lockowner::release_lockowner),
];

/// The row of an operation that only version 4.0 has, or that differs in it.
pub(in super::super) fn row(number: u32) -> Option<&'static OpRow> {
    let at = ROWS.binary_search_by_key(&number, |row| row.number);
    at.ok().and_then(|at| ROWS.get(at))
}

#[cfg(test)]
mod tests {
    use super::ROWS;

    #[test]
    fn rows_rise_by_number() {
        assert!(ROWS.is_sorted_by_key(|row| row.number));
    }
}
