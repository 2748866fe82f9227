//! What an administrator can change while the server runs.
//!
//! Each value is read once per call, relaxed: a change counts for the calls that come after it.

use rpc::Transport;
use std::sync::atomic::{AtomicU32, Ordering};

/// Sizes that FSINFO advises should be multiples of this; also the least that can be set.
pub const BLOCK: u32 = 4096;
/// The most that READ or WRITE moves in a datagram, which holds less than 64 KiB with its headers;
/// what is left of it holds the longest credential and every attribute.
pub const DATAGRAM_MAX: u32 = 60 * 1024;
/// The preferred size of a READDIR: as many entries as are worth one round trip.
pub const LISTING: u32 = 64 * 1024;
/// The default of both settings: what the Linux client asks for at most.
const TRANSFER: u32 = 1024 * 1024;

/// The live settings.
#[derive(Debug)]
pub struct NfsSettings {
    /// The most bytes of a READ's data or of a directory listing (`max-read`).
    pub max_read: AtomicU32,
    /// The most bytes of a WRITE's data (`max-write`); what is longer is written in part.
    pub max_write: AtomicU32,
}

impl Default for NfsSettings {
    fn default() -> Self {
        Self { max_read: AtomicU32::new(TRANSFER), max_write: AtomicU32::new(TRANSFER) }
    }
}

/// A setting as it counts for a call that came this way.
fn bounded(setting: &AtomicU32, transport: Transport) -> u32 {
    let most = match transport {
        Transport::Tcp => u32::try_from(proto::nfs3::DATA_MAX).unwrap_or(u32::MAX),
        Transport::Udp => DATAGRAM_MAX,
    };
    let set = setting.load(Ordering::Relaxed).clamp(BLOCK, most);
    set - set % BLOCK
}

impl NfsSettings {
    /// The most bytes that a READ may give: a multiple of [`BLOCK`].
    pub fn read_max(&self, transport: Transport) -> u32 {
        bounded(&self.max_read, transport)
    }

    /// The most bytes that a WRITE may take: a multiple of [`BLOCK`].
    pub fn write_max(&self, transport: Transport) -> u32 {
        bounded(&self.max_write, transport)
    }
}

#[cfg(test)]
mod tests {
    use super::{AtomicU32, DATAGRAM_MAX, NfsSettings, Transport};

    #[test]
    fn sizes_are_whole_blocks_within_what_the_transport_carries() {
        let settings =
            NfsSettings { max_read: AtomicU32::new(70_000), max_write: AtomicU32::new(u32::MAX) };
        assert_eq!(settings.read_max(Transport::Tcp), 69_632);
        assert_eq!(settings.read_max(Transport::Udp), DATAGRAM_MAX);
        assert_eq!(settings.write_max(Transport::Tcp), 16 * 1024 * 1024);
        settings.max_read.store(0, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(settings.read_max(Transport::Udp), 4096);
    }
}
