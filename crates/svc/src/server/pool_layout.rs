//! How many pools there are, and the change to another number while the server runs.
//!
//! New pools are made complete, with their threads, before the old ones are told to send their connections over
//! (`pools.rs`); if that fails, nothing has changed.
//!
//! [`PoolSettings`] are locked for a whole change, so that there is one at a time.

use crate::errors::{SettingError, StartError};
use crate::pool::inbox::Message;
use crate::pool::shared::Shared;
use crate::pool::worker_pool::{Pool, PoolPlan};
use crate::server::state::{PoolSettings, State};
use crate::settings::PoolMode;
use crate::worker::thread;
use std::io;
use std::sync::Arc;

/// Replaces the pools, as `change` sets them.
///
/// # Errors
/// [`SettingError`]: fewer threads than pools, or the kernel refuses threads or descriptors;
/// nothing has changed then.
pub(crate) fn replace_pools(
    state: &State,
    set: &mut PoolSettings,
    change: impl FnOnce(PoolSettings) -> PoolSettings,
) -> Result<(), SettingError> {
    let new = change(*set);
    let refused = |error: StartError| {
        SettingError(format!("cannot change to pool-mode={}: {error}", new.pool_mode))
    };
    let pools = make_pools(&state.shared, &new).map_err(refused)?;
    for pool in &pools {
        if let Err(error) = pool.start_min_threads() {
            for pool in &pools {
                pool.post(Message::Drain);
            }
            forget_pools(&state.shared, &pools);
            return Err(cannot_start(error));
        }
    }
    for pool in state.pools.replace(pools).iter() {
        pool.post(Message::Drain);
    }
    *set = new;
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "a function for map_err")]
pub(crate) fn cannot_start(error: io::Error) -> SettingError {
    SettingError(format!("cannot start threads: {error}"))
}

/// Pools by these settings, with no threads yet.
///
/// # Errors
/// [`StartError`]: fewer threads than pools, or no descriptors.
pub(crate) fn make_pools(
    shared: &Arc<Shared>,
    set: &PoolSettings,
) -> Result<Vec<Arc<Pool>>, StartError> {
    let layout = layout(set)?;
    let threads = split_threads(set.threads, layout.len())?;
    let mut pools = Vec::with_capacity(layout.len());
    for (index, (cpus, threads)) in layout.into_iter().zip(threads).enumerate() {
        let wake_policy = set.wake_policy;
        let plan = PoolPlan { index, cpus, threads, wake_policy, worker_body: thread::run };
        let pool = Pool::new(plan, Arc::clone(shared));
        let pool = pool.inspect_err(|_| forget_pools(shared, &pools))?;
        pools.push(Arc::new(pool));
    }
    Ok(pools)
}

fn forget_pools(shared: &Shared, pools: &[Arc<Pool>]) {
    for pool in pools {
        shared.datagram_sockets.remove_pool(&pool.epoll);
    }
}

/// The CPUs of each pool; an empty list is any CPU.
fn layout(set: &PoolSettings) -> io::Result<Vec<Vec<usize>>> {
    let mut pools = match set.pool_mode {
        PoolMode::Auto => vec![Vec::new(); set.auto_pools],
        PoolMode::Global => vec![Vec::new()],
        PoolMode::PerCpu => vec![Vec::new(); sys::thread::allowed_cpus()?.len()],
        PoolMode::PerNode => {
            let allowed = sys::thread::allowed_cpus()?;
            let mut nodes = sys::thread::nodes();
            for node in &mut nodes {
                node.retain(|cpu| allowed.contains(cpu));
            }
            nodes.retain(|node| !node.is_empty());
            nodes
        }
    };
    pools.truncate(set.threads.1);
    if pools.is_empty() {
        pools.push(Vec::new());
    }
    Ok(pools)
}

/// Each pool's fewest and most threads: the sums are those that are set, but each pool has one thread at least.
pub(crate) fn split_threads(
    (min, max): (usize, usize),
    pools: usize,
) -> Result<Vec<(usize, usize)>, SettingError> {
    if max < pools || min > max {
        return Err(SettingError(format!(
            "threads={min}..{max} does not fit: at least one thread for each of {pools} pools, \
             and no more at the least than at the most"
        )));
    }
    let part = |all: usize, index: usize| {
        let extra = usize::from(index < all.checked_rem(pools).unwrap_or(0));
        all.checked_div(pools).unwrap_or(all).saturating_add(extra).max(1)
    };
    Ok((0..pools).map(|index| (part(min, index), part(max, index))).collect())
}

#[cfg(test)]
mod tests {
    use super::split_threads;

    #[test]
    fn all_threads_are_distributed_among_pools() {
        assert_eq!(split_threads((3, 9), 2).unwrap(), [(2, 5), (1, 4)]);
        assert_eq!(split_threads((1, 2), 2).unwrap(), [(1, 1), (1, 1)]);
        assert!(split_threads((1, 1), 2).is_err() && split_threads((3, 2), 1).is_err());
    }
}
