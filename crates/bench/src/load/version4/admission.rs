//! How a client gets in: by a name that no other has, and with patience for servers that do not take it at once.

use proto::nfs4::Nfsstat4;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Pause before a call is repeated that the server does not take yet.
const PAUSE: Duration = Duration::from_millis(50);

/// A name that no other client has, of this run or another.
pub(crate) fn unique_name(client: &dyn std::fmt::Display) -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("bowline bench {} {:x} {client}", std::process::id(), since_epoch.as_nanos())
}

/// Tries again while the server says DELAY or, after its restart, GRACE, until the deadline.
pub(crate) fn retry_while_delayed<T>(
    deadline: Instant,
    mut call: impl FnMut() -> client::Result<T>,
) -> client::Result<T> {
    let later = [Nfsstat4::Delay.number(), Nfsstat4::Grace.number()];
    loop {
        match call() {
            Err(client::Error::Nfs { number, .. })
                if later.contains(&number) && Instant::now() < deadline =>
            {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}
