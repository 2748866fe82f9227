//! The tables of the program.
//!
//! All that changes something is kept in the reply cache, over both transports: a LOCK that arrives once more after
//! its UNLOCK would leave a lock for ever.

use super::{Nlm, cancel, free_all, granted, lock, share, test, unlock};
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

static V1: [Row<Nlm>; 6] = basic::<1>();
static V3: [Row<Nlm>; 24] = full::<3>();
static V4: [Row<Nlm>; 24] = full::<4>();

const fn basic<const VERSION: u32>() -> [Row<Nlm>; 6] {
    [
        Row::new("NULL", LOOK, null),
        Row::new("TEST", LOOK, test::test::<VERSION>),
        Row::new("LOCK", CHANGE, lock::lock::<VERSION>),
        Row::new("CANCEL", CHANGE, cancel::cancel::<VERSION>),
        Row::new("UNLOCK", CHANGE, unlock::unlock::<VERSION>),
        Row::new("GRANTED", LOOK, granted::granted::<VERSION>),
    ]
}

const fn full<const VERSION: u32>() -> [Row<Nlm>; 24] {
    let [null, test, lock, cancel, unlock, granted] = basic::<VERSION>();
    [
        null,
        test,
        lock,
        cancel,
        unlock,
        granted,
        missing("TEST_MSG"),
        missing("LOCK_MSG"),
        missing("CANCEL_MSG"),
        missing("UNLOCK_MSG"),
        missing("GRANTED_MSG"),
        missing("TEST_RES"),
        missing("LOCK_RES"),
        missing("CANCEL_RES"),
        missing("UNLOCK_RES"),
        missing("GRANTED_RES"),
        missing("SM_NOTIFY"),
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
