//! Quotas, for back ends that support them.

use super::checks;
use super::fixture::{Fixture, refused};
use crate::{Cred, Fid, QuotaKind, Status};

checks! {
    root_may_query_every_quota,
}

/// Checks for back ends that act as their callers.
pub const BY_CALLERS: &[super::Check] =
    &[("others_may_query_their_own_quota_only", others_may_query_their_own_quota_only)];

const KINDS: [QuotaKind; 3] = [QuotaKind::User, QuotaKind::Group, QuotaKind::Project];

fn ask(
    fixture: &Fixture,
    who: Cred<'_>,
    fid: &Fid,
    kind: QuotaKind,
    id: u32,
) -> Result<(), Status> {
    fixture.backend.quotas().unwrap().quota(&fixture.by(who), fid, kind, id).map(drop)
}

fn root_may_query_every_quota(fixture: &Fixture) {
    let own = fixture.capabilities.own;
    for (kind, id) in KINDS.into_iter().zip([own.0, own.1, 0]) {
        if kind != QuotaKind::Project || fixture.capabilities.acts_as_callers {
            ask(fixture, super::fixture::ROOT, &fixture.root(), kind, id).unwrap();
        }
    }
}

fn others_may_query_their_own_quota_only(fixture: &Fixture) {
    let who = Cred { uid: 4001, gid: 4001, groups: &[4100] };
    let root = fixture.root();
    for (kind, id) in [(QuotaKind::User, 4001), (QuotaKind::Group, 4001), (QuotaKind::Group, 4100)]
    {
        assert_eq!(ask(fixture, who, &root, kind, id), Ok(()));
    }
    for (kind, id) in KINDS.into_iter().zip([4002, 4101, 4001]) {
        refused(ask(fixture, who, &root, kind, id), Status::Perm);
    }
}
