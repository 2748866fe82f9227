//! rquota (program 100011), versions 1 and 2: what users may still store in an export, for the command `quota` of
//! clients. Version 2 has the quotas of groups and projects besides.
//!
//! A path is one that a client has mounted, or anything below: the innermost export that it is in counts, and of that
//! the file system. Nothing below the export is looked up.
//!
//! Everybody may ask for their own quota, root for all where it is not squashed. Ordinary users of a client run `quota`
//! without a reserved port, so `secure` counts for root only. SETQUOTA and SETACTIVEQUOTA are always answered Q_EPERM.

mod convert;

use crate::Nfs;
use crate::mount::path::normalise;
use crate::object::Caller;
use convert::quota_result;
use proto::rquota::{GetQuotaArgs, PROGRAM, QuotaResult, SetQuotaArgs, kind};
use rpc::{Call, Fault, Plan, Row, Service, Version};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::{Quota, QuotaKind, Status};
use xdr::{Reader, Writer};

/// The program for the dispatcher.
pub fn rquota_program(state: Arc<Nfs>) -> Service<Nfs> {
    Service { number: PROGRAM, name: "rquota", versions: &VERSIONS, state }
}

static VERSIONS: [Version<Nfs>; 2] = [Version::new(1, &V1), Version::new(2, &V2)];

const LOOK: Plan = Plan::IDEMPOTENT;

static V1: [Row<Nfs>; 5] = [
    Row::new("NULL", LOOK, null),
    Row::new("GETQUOTA", LOOK, getquota::<1>),
    Row::new("GETACTIVEQUOTA", LOOK, getquota::<1>),
    Row::new("SETQUOTA", LOOK, setquota::<1>),
    Row::new("SETACTIVEQUOTA", LOOK, setquota::<1>),
];

static V2: [Row<Nfs>; 5] = [
    Row::new("NULL", LOOK, null),
    Row::new("GETQUOTA", LOOK, getquota::<2>),
    Row::new("GETACTIVEQUOTA", LOOK, getquota::<2>),
    Row::new("SETQUOTA", LOOK, setquota::<2>),
    Row::new("SETACTIVEQUOTA", LOOK, setquota::<2>),
];

fn null(_: &Nfs, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}

/// GETQUOTA, and GETACTIVEQUOTA, which is the same here: a quota that is not enforced is none.
fn getquota<const VERSION: u32>(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let asked = GetQuotaArgs::decode(args, VERSION)?;
    args.end()?;
    let result = match find(nfs, call, &asked) {
        Ok(Some(quota)) => quota_result(&quota, now_s()),
        Ok(None) => QuotaResult::NoQuota,
        // there is no code for a failure that passes: the client asks again
        Err(Status::Jukebox) => return Err(Fault::Silence),
        Err(Status::Perm | Status::Acces) => QuotaResult::Perm,
        Err(_) => QuotaResult::NoQuota,
    };
    finish(call, reply, &result)
}

fn setquota<const VERSION: u32>(
    _: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    SetQuotaArgs::decode(args, VERSION)?;
    args.end()?;
    finish(call, reply, &QuotaResult::Perm)
}

fn find(nfs: &Nfs, call: &mut Call<'_>, asked: &GetQuotaArgs<'_>) -> vfs::Result<Option<Quota>> {
    let kind = match asked.kind {
        kind::USER => QuotaKind::User,
        kind::GROUP => QuotaKind::Group,
        kind::PROJECT => QuotaKind::Project,
        _ => return Ok(None),
    };
    let Some(path) = normalise(asked.path) else { return Ok(None) };
    let caller = Caller::new(&nfs.exports, call);
    let Ok((export, _)) = caller.table().by_path(&path) else { return Ok(None) };
    let root = caller.open_for_quota(export)?;
    match root.backend().quotas() {
        Some(quotas) => quotas.quota(&root.cx(), &root.fid, kind, asked.id),
        None => Ok(None),
    }
}

fn finish(call: &mut Call<'_>, reply: &mut Writer, result: &QuotaResult) -> Result<(), Fault> {
    call.outcome.status = match result {
        QuotaResult::Ok(_) => 0,
        QuotaResult::NoQuota => 2,
        QuotaResult::Perm => 3,
    };
    reply.put(result);
    Ok(())
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
