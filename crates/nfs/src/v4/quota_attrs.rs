//! What quotas leave to an object (RFC 8881 §5.8.2.28 to §5.8.2.30).
//!
//! Of the quotas of the object's owner and of its group the one with the least left before writing fails
//! counts. Whoever may not see a quota (its subject and root may) does not have it as an attribute.

use super::status::Failed;
use crate::object::Object;
use proto::nfs4::{Bitmap4, attr as a};
use vfs::{Attr, Quota, QuotaKind, Status};

/// The attributes.
pub(super) static QUOTAS: Bitmap4 =
    Bitmap4::of(&[a::QUOTA_AVAIL_HARD, a::QUOTA_AVAIL_SOFT, a::QUOTA_USED]);

/// What quotas leave, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct QuotaSpace {
    /// What may be added before writing fails.
    pub avail_hard: Option<u64>,
    /// What may be added before the user is warned.
    pub avail_soft: Option<u64>,
    /// What is used by all that counts for the quota.
    pub used: Option<u64>,
}

/// What quotas leave to an object, if that is among the attributes that are given; those that there are not are taken
/// out.
///
/// # Errors
/// Those of asking, except that a caller who may not ask has none.
#[inline]
pub(super) fn of(
    object: &Object<'_>,
    attr: &Attr,
    given: &mut Bitmap4,
) -> Result<QuotaSpace, Failed> {
    if !given.intersects(&QUOTAS) {
        return Ok(QuotaSpace::default());
    }
    let space = ask(object, attr)?;
    let has = [
        (a::QUOTA_AVAIL_HARD, space.avail_hard),
        (a::QUOTA_AVAIL_SOFT, space.avail_soft),
        (a::QUOTA_USED, space.used),
    ];
    for (number, value) in has {
        if value.is_none() {
            *given = given.without(&Bitmap4::of(&[number]));
        }
    }
    Ok(space)
}

fn ask(object: &Object<'_>, attr: &Attr) -> Result<QuotaSpace, Failed> {
    let Some(quotas) = object.backend().quotas() else { return Ok(QuotaSpace::default()) };
    let mut tightest: Option<Quota> = None;
    for (kind, id) in [(QuotaKind::User, attr.uid), (QuotaKind::Group, attr.gid)] {
        let found = match quotas.quota(&object.cx(), &object.fid, kind, id) {
            Ok(found) => found,
            Err(Status::Perm | Status::Acces) => None,
            Err(status) => return Err(status.into()),
        };
        let left = |quota: &Quota| space_of(quota).avail_hard.unwrap_or(u64::MAX);
        let limits = |quota: &Quota| quota.bytes.hard.is_some() || quota.bytes.soft.is_some();
        if let Some(quota) = found.filter(limits)
            && tightest.as_ref().is_none_or(|before| left(&quota) < left(before))
        {
            tightest = Some(quota);
        }
    }
    Ok(tightest.as_ref().map(space_of).unwrap_or_default())
}

fn space_of(quota: &Quota) -> QuotaSpace {
    let bytes = &quota.bytes;
    let left = |limit: Option<u64>| limit.map(|limit| limit.saturating_sub(bytes.used));
    QuotaSpace {
        avail_hard: left(bytes.hard),
        avail_soft: left(bytes.soft),
        used: Some(bytes.used),
    }
}

#[cfg(test)]
mod tests {
    use super::{QuotaSpace, space_of};
    use vfs::{Quota, QuotaUsage};

    #[test]
    fn what_is_left_is_never_below_zero() {
        let of = |hard, soft, used| {
            let bytes = QuotaUsage { hard, soft, used, grace_ends_s: None };
            space_of(&Quota { bytes, files: QuotaUsage::default() })
        };
        let space = |avail_hard, avail_soft, used| QuotaSpace { avail_hard, avail_soft, used };
        assert_eq!(of(Some(100), Some(50), 70), space(Some(30), Some(0), Some(70)));
        assert_eq!(of(None, Some(50), 20), space(None, Some(30), Some(20)));
        assert_eq!(of(Some(10), None, 20), space(Some(0), None, Some(20)));
    }
}
