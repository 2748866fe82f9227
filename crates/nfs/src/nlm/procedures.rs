//! The tables of the program.
//!
//! All that changes something is kept in the reply cache, over both transports: a LOCK that arrives once more after
//! its UNLOCK would leave a lock for ever.

use super::{Nlm, cancel, free_all, granted, lock, message, share, sm_notify, test, unlock};
use rpc::{Call, Fault, Plan, Row, Service, Version};
use std::sync::Arc;
use xdr::{Reader, Writer};

/// Asks only.
const LOOK: Plan = Plan::IDEMPOTENT;
/// Changes something.
const CHANGE: Plan = Plan::NON_IDEMPOTENT;

/// The program for the dispatcher.
pub fn nlm_program(state: Arc<Nlm>) -> Service<Nlm> {
    Service { number: proto::nlm::PROGRAM, name: "nlm", versions: &VERSIONS, state }
}

/// Version 2 was never one of this protocol.
static VERSIONS: [Version<Nlm>; 3] =
    [Version::new(1, &V1), Version::new(3, &V3), Version::new(4, &V4)];

static V1: [Row<Nlm>; 16] = basic::<1>();
static V3: [Row<Nlm>; 24] = full::<3>();
static V4: [Row<Nlm>; 24] = full::<4>();

const fn basic<const VERSION: u32>() -> [Row<Nlm>; 16] {
    [
        Row::new("NULL", LOOK, null),
        Row::new("TEST", LOOK, test::test::<VERSION>),
        Row::new("LOCK", CHANGE, lock::lock::<VERSION>),
        Row::new("CANCEL", CHANGE, cancel::cancel::<VERSION>),
        Row::new("UNLOCK", CHANGE, unlock::unlock::<VERSION>),
        Row::new("GRANTED", LOOK, granted::granted::<VERSION>),
        Row::new("TEST_MSG", LOOK, message::test_msg::<VERSION>),
        Row::new("LOCK_MSG", CHANGE, message::lock_msg::<VERSION>),
        Row::new("CANCEL_MSG", CHANGE, message::cancel_msg::<VERSION>),
        Row::new("UNLOCK_MSG", CHANGE, message::unlock_msg::<VERSION>),
        Row::new("GRANTED_MSG", LOOK, message::granted_msg::<VERSION>),
        Row::new("TEST_RES", LOOK, message::test_res::<VERSION>),
        Row::new("LOCK_RES", LOOK, message::other_res::<VERSION>),
        Row::new("CANCEL_RES", LOOK, message::other_res::<VERSION>),
        Row::new("UNLOCK_RES", LOOK, message::other_res::<VERSION>),
        Row::new("GRANTED_RES", LOOK, granted::granted_res::<VERSION>),
    ]
}

const fn full<const VERSION: u32>() -> [Row<Nlm>; 24] {
    let [n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15] = basic::<VERSION>();
    [
        n0,
        n1,
        n2,
        n3,
        n4,
        n5,
        n6,
        n7,
        n8,
        n9,
        n10,
        n11,
        n12,
        n13,
        n14,
        n15,
        Row::new("SM_NOTIFY", CHANGE, sm_notify::sm_notify::<VERSION>),
        missing("17"),
        missing("18"),
        missing("19"),
        Row::new("SHARE", CHANGE, share::share::<VERSION>),
        Row::new("UNSHARE", CHANGE, share::unshare::<VERSION>),
        Row::new("NM_LOCK", CHANGE, lock::nm_lock::<VERSION>),
        Row::new("FREE_ALL", CHANGE, free_all::free_all::<VERSION>),
    ]
}

/// A number that has no procedure here.
const fn missing(name: &'static str) -> Row<Nlm> {
    Row::new(name, LOOK, unavailable)
}

fn unavailable(_: &Nlm, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Err(Fault::ProcUnavail)
}

fn null(_: &Nlm, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}
