//! What an administrator can change while the server runs.
//!
//! Each value is read once per call, relaxed: a change counts for the calls that come after it.

use rpc::Transport;
use std::fmt;
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

/// The largest READ or WRITE that is offered, in bytes: whole [`BLOCK`]s, up to 4 MiB, for which the
/// record limit and the buffers are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferSize(u32);

/// The largest value of [`TransferSize`], in bytes.
const TRANSFER_MAX: u64 = 4 << 20;

/// A number of bytes that [`TransferSize`] does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferSizeError;

impl fmt::Display for TransferSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of range: 4K to 4M, in steps of 4K")
    }
}

impl std::error::Error for TransferSizeError {}

impl TransferSize {
    /// What the Linux client asks for at most.
    pub const DEFAULT: Self = Self(TRANSFER);

    /// Bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }
}

impl TryFrom<u64> for TransferSize {
    type Error = TransferSizeError;

    fn try_from(bytes: u64) -> Result<Self, TransferSizeError> {
        let block = u64::from(BLOCK);
        let valid = (block..=TRANSFER_MAX).contains(&bytes) && bytes.is_multiple_of(block);
        let bytes = u32::try_from(bytes).ok().filter(|_| valid);
        bytes.map(Self).ok_or(TransferSizeError)
    }
}

impl From<TransferSize> for u64 {
    fn from(size: TransferSize) -> Self {
        size.0.into()
    }
}

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
    use super::{AtomicU32, DATAGRAM_MAX, NfsSettings, TransferSize, Transport};

    #[test]
    fn transfer_sizes_are_whole_blocks_up_to_4_mib() {
        for bytes in [4096, 64 << 10, 4 << 20] {
            assert_eq!(TransferSize::try_from(bytes).map(u64::from), Ok(bytes));
        }
        for bytes in [0, 1024, 5000, (4 << 20) + 4096, u64::MAX] {
            assert!(TransferSize::try_from(bytes).is_err(), "{bytes}");
        }
    }

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
