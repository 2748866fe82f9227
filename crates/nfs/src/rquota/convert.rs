//! Quotas in 32 bits: blocks grow until all numbers fit.

use proto::rquota::{Quota as WireQuota, QuotaResult};
use vfs::{Quota, QuotaUsage};

/// The block size that clients know: that of Linux's quotas.
const BLOCK_MIN: u64 = 1024;
/// The largest, a signed number on the wire. With blocks of this size 32 bits reach beyond the 63 of a file system.
const BLOCK_MAX: u64 = 1 << 30;

/// `getquota_rslt` of a quota, at this time in seconds since 1970.
pub(super) fn quota_result(quota: &Quota, now_s: u64) -> QuotaResult {
    let Quota { bytes, files } = quota;
    let largest = [bytes.hard, bytes.soft, Some(bytes.used)].into_iter().flatten().max();
    let block = block_size(largest.unwrap_or_default());
    QuotaResult::Ok(WireQuota {
        block_size: clamp(block),
        active: true,
        block_hard_limit: limit(bytes.hard, block),
        block_soft_limit: limit(bytes.soft, block),
        blocks: clamp(bytes.used.div_ceil(block)),
        file_hard_limit: limit(files.hard, 1),
        file_soft_limit: limit(files.soft, 1),
        files: clamp(files.used),
        block_seconds_left: seconds_left(bytes, now_s),
        file_seconds_left: seconds_left(files, now_s),
    })
}

/// The smallest block in which so many bytes can be counted.
fn block_size(bytes: u64) -> u64 {
    let mut block = BLOCK_MIN;
    while block < BLOCK_MAX && bytes.div_ceil(block) > u64::from(u32::MAX) {
        block = block.saturating_mul(2);
    }
    block
}

/// A limit in units; 0 is none, so one of less than a unit is one unit.
fn limit(limit: Option<u64>, unit: u64) -> u32 {
    limit.map_or(0, |limit| clamp((limit / unit).max(1)))
}

/// 0 where the soft limit is not exceeded, and when the time is over: clients show both as no time.
fn seconds_left(usage: &QuotaUsage, now_s: u64) -> u32 {
    clamp(usage.grace_ends_s.unwrap_or_default().saturating_sub(now_s))
}

fn clamp(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{QuotaResult, WireQuota, quota_result};
    use vfs::{Quota, QuotaUsage};

    fn wire(bytes: QuotaUsage, files: QuotaUsage) -> WireQuota {
        match quota_result(&Quota { bytes, files }, 1_000) {
            QuotaResult::Ok(quota) => quota,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn small_quotas_are_counted_in_kibibytes() {
        let bytes = QuotaUsage {
            hard: Some(1 << 20),
            soft: Some(1 << 19),
            used: 1025,
            grace_ends_s: Some(1_060),
        };
        let files = QuotaUsage { hard: Some(7), used: 3, ..QuotaUsage::default() };
        let quota = wire(bytes, files);
        assert_eq!((quota.block_size, quota.active), (1024, true));
        assert_eq!((quota.block_hard_limit, quota.block_soft_limit, quota.blocks), (1024, 512, 2));
        assert_eq!((quota.file_hard_limit, quota.file_soft_limit, quota.files), (7, 0, 3));
        assert_eq!((quota.block_seconds_left, quota.file_seconds_left), (60, 0));
    }

    #[test]
    fn blocks_grow_until_everything_fits() {
        for shift in 0..64 {
            let used = (1u64 << shift) | 1;
            let quota = wire(QuotaUsage { used, ..QuotaUsage::default() }, QuotaUsage::default());
            let (block, blocks) = (u64::from(quota.block_size), u64::from(quota.blocks));
            assert!(i32::try_from(quota.block_size).is_ok() && block.is_power_of_two());
            let shown = u128::from(block) * u128::from(blocks);
            let exceeds = shown.checked_sub(u128::from(used));
            assert!(shift >= 62 || exceeds.is_some_and(|by| by < u128::from(block)), "{shift}");
        }
    }

    #[test]
    fn a_limit_is_never_rounded_to_none_and_a_time_never_below_zero() {
        let bytes = QuotaUsage { hard: Some(1), used: 1 << 50, soft: None, grace_ends_s: Some(5) };
        let files = QuotaUsage { hard: Some(u64::MAX), used: u64::MAX, ..QuotaUsage::default() };
        let quota = wire(bytes, files);
        assert_eq!((quota.block_hard_limit, quota.block_seconds_left), (1, 0));
        assert_eq!((quota.file_hard_limit, quota.files), (u32::MAX, u32::MAX));
    }
}
