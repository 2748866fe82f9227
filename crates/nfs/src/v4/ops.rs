//! The operations: one row each.

use super::frame::Frame;
use super::status::Failed;
use super::{
    access, close, commit, copy, create, delegation, exchange_id, filehandles, get_dir_delegation,
    getattr, link, lock, lookup, minor0, offload, open, read, read_plus, readdir, readlink, remove,
    rename, secinfo, sequence, session_ops, setattr, space, stateids, verify, write, xattrs,
};
use proto::nfs4::{op, op_info};
use xdr::{Reader, Writer};

/// Runs one operation: reads its arguments, does it, and appends its results. After an error, what was appended is
/// removed.
pub(super) type Run =
    for<'f> fn(&mut Frame<'f>, &mut Reader<'f>, &mut Writer) -> Result<(), Failed>;

/// Where in a COMPOUND an operation may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// At the beginning, and nowhere else.
    First,
    /// After SEQUENCE.
    Inside,
    /// After SEQUENCE, or as the only operation.
    InsideOrOnly,
    /// As the only operation.
    OnlyOperation,
}

/// One operation.
pub(super) struct OpRow {
    /// The number on the wire.
    pub number: u32,
    /// Where it may stand.
    pub position: Position,
    /// Bytes of its result at the most, as far as that does not depend on its arguments.
    pub most: u32,
    /// Its code.
    pub run: Run,
}

pub(super) const fn inside(number: u32, most: u32, run: Run) -> OpRow {
    OpRow { number, position: Position::Inside, most, run }
}

/// Bytes of the longest filehandle with its length.
const FH: u32 = 4 + 64;
/// Bytes of the most attributes that there are.
pub(super) const ATTRS: u32 = 640;
/// Bytes of `change_info4`.
const CINFO: u32 = 20;
pub(super) const STATEID: u32 = 16;
const BITMAP: u32 = 16;
/// Bytes of the longest `LOCK4denied`.
pub(super) const DENIED: u32 = 20 + 8 + 4 + 1024;

/// The operations that are served, rising.
static ROWS: [OpRow; 55] = [
    inside(op::ACCESS, 8, access::access),
    inside(op::CLOSE, STATEID, close::close),
    inside(op::COMMIT, 8, commit::commit),
    inside(op::CREATE, CINFO + BITMAP, create::create),
    inside(op::DELEGRETURN, 0, delegation::delegreturn),
    inside(op::GETATTR, ATTRS, getattr::getattr),
    inside(op::GETFH, FH, filehandles::getfh),
    inside(op::LINK, CINFO, link::link),
    inside(op::LOCK, DENIED, lock::lock),
    inside(op::LOCKT, DENIED, lock::lockt),
    inside(op::LOCKU, STATEID, lock::locku),
    inside(op::LOOKUP, 0, lookup::lookup),
    inside(op::LOOKUPP, 0, lookup::lookupp),
    inside(op::NVERIFY, 0, verify::nverify),
    inside(op::OPEN, STATEID + CINFO + 4 + BITMAP + delegation::DELEGATION_BYTES, open::open),
    inside(op::OPEN_DOWNGRADE, STATEID, close::open_downgrade),
    inside(op::PUTFH, 0, filehandles::putfh),
    inside(op::PUTPUBFH, 0, filehandles::putrootfh),
    inside(op::PUTROOTFH, 0, filehandles::putrootfh),
    inside(op::READ, 8, read::read),
    inside(op::READDIR, 8, readdir::readdir),
    inside(op::READLINK, 4, readlink::readlink),
    inside(op::REMOVE, CINFO, remove::remove),
    inside(op::RENAME, 2 * CINFO, rename::rename),
    inside(op::RESTOREFH, 0, filehandles::restorefh),
    inside(op::SAVEFH, 0, filehandles::savefh),
    inside(op::SECINFO, 12, secinfo::secinfo),
    inside(op::SETATTR, BITMAP, setattr::setattr),
    inside(op::VERIFY, 0, verify::verify),
    inside(op::WRITE, 16, write::write),
    inside(op::BACKCHANNEL_CTL, 0, session_ops::backchannel_ctl),
    OpRow {
        number: op::BIND_CONN_TO_SESSION,
        position: Position::OnlyOperation,
        most: 24,
        run: session_ops::bind_conn_to_session,
    },
    OpRow {
        number: op::EXCHANGE_ID,
        position: Position::InsideOrOnly,
        most: 512,
        run: exchange_id::exchange_id,
    },
    OpRow {
        number: op::CREATE_SESSION,
        position: Position::InsideOrOnly,
        most: 80,
        run: session_ops::create_session,
    },
    OpRow {
        number: op::DESTROY_SESSION,
        position: Position::InsideOrOnly,
        most: 0,
        run: session_ops::destroy_session,
    },
    inside(op::FREE_STATEID, 0, stateids::free_stateid),
    inside(
        op::GET_DIR_DELEGATION,
        get_dir_delegation::RESULT_BYTES,
        get_dir_delegation::get_dir_delegation,
    ),
    inside(op::SECINFO_NO_NAME, 12, secinfo::secinfo_no_name),
    OpRow { number: op::SEQUENCE, position: Position::First, most: 36, run: sequence::sequence },
    inside(op::TEST_STATEID, 4, stateids::test_stateid),
    OpRow {
        number: op::DESTROY_CLIENTID,
        position: Position::InsideOrOnly,
        most: 0,
        run: session_ops::destroy_clientid,
    },
    inside(op::RECLAIM_COMPLETE, 0, session_ops::reclaim_complete),
    inside(op::ALLOCATE, 0, space::allocate),
    inside(op::COPY, 4 + STATEID + 8 + 4 + 8 + 8, copy::copy),
    inside(op::DEALLOCATE, 0, space::deallocate),
    inside(op::IO_ADVISE, BITMAP, space::io_advise),
    inside(op::OFFLOAD_CANCEL, 0, offload::cancel),
    inside(op::OFFLOAD_STATUS, 8 + 8, offload::status),
    inside(op::READ_PLUS, 8, read_plus::read_plus),
    inside(op::SEEK, 12, space::seek),
    inside(op::CLONE, 0, copy::clone),
    inside(op::GETXATTR, 4, xattrs::getxattr),
    inside(op::SETXATTR, CINFO, xattrs::setxattr),
    inside(op::LISTXATTRS, 16, xattrs::listxattrs),
    inside(op::REMOVEXATTR, CINFO, xattrs::removexattr),
];

/// An operation's row; `None` if it is not served in this minor version.
pub(super) fn row(number: u32, minor: u32) -> Option<&'static OpRow> {
    let (since, until) = op_info(number).map(|info| (info.since, info.until))?;
    if !(since..=until).contains(&minor) {
        return None;
    }
    if minor == 0
        && let Some(row) = minor0::row(number)
    {
        return Some(row);
    }
    let at = usize::try_from(number).ok().and_then(|number| INDEX.get(number))?;
    ROWS.get(usize::from(*at))
}

/// The place in [`ROWS`] of each number.
static INDEX: [u8; 76] = index();

const fn index() -> [u8; 76] {
    let mut index = [u8::MAX; 76];
    let (mut at, mut rows) = (0, ROWS.as_slice());
    while let [row, rest @ ..] = rows {
        let mut number = 0;
        let mut places = index.as_mut_slice();
        while let [place, tail @ ..] = places {
            if number == row.number {
                *place = at;
            }
            number += 1;
            places = tail;
        }
        at += 1;
        rows = rest;
    }
    index
}

/// The place of an operation among [`OPERATIONS`].
pub(super) fn place_of(number: u32) -> Option<u16> {
    let place = number.checked_sub(op::ACCESS)?;
    let last = OPERATIONS.len().saturating_sub(1);
    u16::try_from(place).ok().filter(|place| usize::from(*place) <= last)
}

/// The names under which operations are counted, by their numbers from ACCESS on.
pub static OPERATIONS: [&str; 73] = names();

const fn names() -> [&'static str; 73] {
    let mut names = [""; 73];
    let (mut places, mut rows) = (names.as_mut_slice(), proto::nfs4::OPS.as_slice());
    while let ([place, tail @ ..], [row, rest @ ..]) = (places, rows) {
        *place = row.name;
        (places, rows) = (tail, rest);
    }
    names
}
