//! What an administrator can change while the server runs.
//!
//! Each value is read once per call, relaxed: a change counts for the calls that come after it.

use crate::on_off::OnOff;
use export::Delegate;
use rpc::{ServedVersions, Transport};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

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

/// A version of NFS as operators write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NfsVersion {
    V2,
    V3,
    V40,
    V41,
    V42,
}

/// Every version, and how it is written.
const VERSIONS: [(NfsVersion, &str); 5] = [
    (NfsVersion::V2, "2"),
    (NfsVersion::V3, "3"),
    (NfsVersion::V40, "4.0"),
    (NfsVersion::V41, "4.1"),
    (NfsVersion::V42, "4.2"),
];

/// The versions that are served (`versions`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsVersions(Vec<NfsVersion>);

/// A text that [`NfsVersions`] does not understand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsVersionsError {
    unknown: String,
}

impl fmt::Display for NfsVersionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unknown.as_str() {
            "" => f.write_str("write at least one version: 2, 3, 4.0, 4.1, 4.2"),
            other => write!(f, "{other} is not a version of NFS: choose from 2, 3, 4.0, 4.1, 4.2"),
        }
    }
}

impl std::error::Error for NfsVersionsError {}

impl Default for NfsVersions {
    /// All.
    fn default() -> Self {
        Self(VERSIONS.map(|(version, _)| version).to_vec())
    }
}

impl FromStr for NfsVersions {
    type Err = NfsVersionsError;

    fn from_str(text: &str) -> Result<Self, NfsVersionsError> {
        let mut versions = Vec::new();
        for word in text.split(',').map(str::trim) {
            let known = VERSIONS.iter().find(|(_, name)| *name == word);
            let (version, _) =
                known.ok_or_else(|| NfsVersionsError { unknown: word.to_owned() })?;
            versions.push(*version);
        }
        versions.sort_unstable();
        versions.dedup();
        Ok(Self(versions))
    }
}

impl fmt::Display for NfsVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |version: &NfsVersion| VERSIONS.iter().find(|(known, _)| known == version);
        let names = self.0.iter().filter_map(name).map(|(_, name)| *name);
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

impl NfsVersions {
    /// The version numbers of the program; version 4 is not for UDP (RFC 8881 §2.9.1).
    fn numbers(&self, transport: Transport) -> Vec<u32> {
        let number = |version: &NfsVersion| match version {
            NfsVersion::V2 => Some(2),
            NfsVersion::V3 => Some(3),
            NfsVersion::V40 | NfsVersion::V41 | NfsVersion::V42 => {
                (transport == Transport::Tcp).then_some(4)
            }
        };
        let mut numbers: Vec<_> = self.0.iter().filter_map(number).collect();
        numbers.dedup();
        numbers
    }

    /// The minor versions of version 4: bit N for version 4.N.
    fn minors(&self) -> u32 {
        let bit = |version: &NfsVersion| match version {
            NfsVersion::V2 | NfsVersion::V3 => 0,
            NfsVersion::V40 => 1,
            NfsVersion::V41 => 1 << 1,
            NfsVersion::V42 => 1 << 2,
        };
        self.0.iter().map(bit).fold(0, |minors, minor| minors | minor)
    }

    /// Whether version 3 is among them.
    pub fn has_v3(&self) -> bool {
        self.0.contains(&NfsVersion::V3)
    }

    /// Whether version 4 is among them.
    pub fn has_v4(&self) -> bool {
        self.minors() != 0
    }

    /// The newest minor version of version 4 among them.
    pub fn newest_minor(&self) -> Option<u32> {
        self.minors().checked_ilog2()
    }
}

/// When COPY of version 4.2 is answered (`copy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyMode {
    /// When it is done, or after a second, with what is copied by then.
    #[default]
    Sync,
    /// At once, if the client permits it: a callback tells that it is done.
    Async,
}

/// A text that [`CopyMode`] does not understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyModeError;

impl fmt::Display for CopyModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write sync or async")
    }
}

impl std::error::Error for CopyModeError {}

impl FromStr for CopyMode {
    type Err = CopyModeError;

    fn from_str(text: &str) -> Result<Self, CopyModeError> {
        match text {
            "sync" => Ok(Self::Sync),
            "async" => Ok(Self::Async),
            _ => Err(CopyModeError),
        }
    }
}

impl fmt::Display for CopyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "sync",
            Self::Async => "async",
        })
    }
}

/// The live settings.
#[derive(Debug)]
pub struct NfsSettings {
    /// Which versions are served; the dispatcher looks at it.
    pub served: Arc<ServedVersions>,
    /// Which minor versions of version 4 are served, where that is: bit N for version 4.N.
    minors: AtomicU32,
    /// Which delegations clients of version 4 get where the export does not say it (`delegations`).
    delegations: AtomicU8,
    /// Whether COPY may be answered before it is done (`copy`).
    copies_async: AtomicBool,
    /// Whether open files outlive the server without a name where the export does not say it (`preserve-unlinked`).
    preserves_unlinked: AtomicBool,
    /// The most bytes of a READ's data or of a directory listing (`max-read`).
    pub max_read: AtomicU32,
    /// The most bytes of a WRITE's data (`max-write`); what is longer is written in part.
    pub max_write: AtomicU32,
}

impl Default for NfsSettings {
    fn default() -> Self {
        Self {
            served: Arc::new(ServedVersions::new(&[2, 3, 4], &[2, 3])),
            minors: AtomicU32::new(1 | 1 << 1 | 1 << 2),
            delegations: AtomicU8::new(Delegate::Off.number()),
            copies_async: AtomicBool::new(false),
            preserves_unlinked: AtomicBool::new(false),
            max_read: AtomicU32::new(TRANSFER),
            max_write: AtomicU32::new(TRANSFER),
        }
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
    /// Changes which versions are served; counts from the next call on.
    pub fn set_versions(&self, versions: &NfsVersions) {
        self.minors.store(versions.minors(), Ordering::Relaxed);
        self.served.set(&versions.numbers(Transport::Tcp), &versions.numbers(Transport::Udp));
    }

    /// The versions that are served.
    pub fn versions(&self) -> NfsVersions {
        let is_served = |version: &NfsVersion| match version {
            NfsVersion::V2 => self.served.has(2, Transport::Tcp),
            NfsVersion::V3 => self.served.has(3, Transport::Tcp),
            NfsVersion::V40 => self.serves_minor(0),
            NfsVersion::V41 => self.serves_minor(1),
            NfsVersion::V42 => self.serves_minor(2),
        };
        NfsVersions(VERSIONS.map(|(version, _)| version).into_iter().filter(is_served).collect())
    }

    /// Whether a minor version of version 4 is served, if that is served at all.
    pub fn serves_minor(&self, minor: u32) -> bool {
        self.minors.load(Ordering::Relaxed).checked_shr(minor).is_some_and(|bits| bits & 1 != 0)
    }

    /// Changes which delegations are given from now on; those that were given stay.
    pub fn set_delegations(&self, delegate: Delegate) {
        self.delegations.store(delegate.number(), Ordering::Relaxed);
    }

    /// Which delegations are given where the export does not say it.
    pub fn delegations(&self) -> Delegate {
        Delegate::from_number(self.delegations.load(Ordering::Relaxed))
    }

    /// Changes when COPY is answered, from the next one on.
    pub fn set_copy(&self, mode: CopyMode) {
        self.copies_async.store(mode == CopyMode::Async, Ordering::Relaxed);
    }

    /// Changes whether open files outlive the server without a name, for those that are opened from now on.
    pub fn set_preserve_unlinked(&self, choice: OnOff) {
        self.preserves_unlinked.store(choice == OnOff::On, Ordering::Relaxed);
    }

    /// Whether they do where the export does not say it.
    pub fn preserves_unlinked(&self) -> bool {
        self.preserves_unlinked.load(Ordering::Relaxed)
    }

    /// When COPY is answered.
    pub fn copy(&self) -> CopyMode {
        if self.copies_async.load(Ordering::Relaxed) { CopyMode::Async } else { CopyMode::Sync }
    }

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
    use super::{AtomicU32, DATAGRAM_MAX, NfsSettings, NfsVersions, TransferSize, Transport};

    #[test]
    fn versions_are_a_list() {
        let versions: NfsVersions = "4.2,4.1, 3,3".parse().unwrap();
        assert_eq!(versions.to_string(), "3,4.1,4.2");
        assert_eq!(versions.newest_minor(), Some(2));
        let three: NfsVersions = "3".parse().unwrap();
        assert!(versions.has_v4() && !three.has_v4() && three.newest_minor().is_none());
        assert_eq!(NfsVersions::default().to_string(), "2,3,4.0,4.1,4.2");
        for (text, problem) in
            [("", "at least one"), ("4", "not a version"), ("5", "not a version")]
        {
            let error = text.parse::<NfsVersions>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let settings = NfsSettings::default();
        assert_eq!(settings.versions(), NfsVersions::default());
        settings.set_versions(&three);
        assert!(!settings.served.has(4, Transport::Tcp));
        assert_eq!(settings.versions(), three);
        settings.set_versions(&versions);
        assert_eq!(settings.versions(), versions);
        let served = |transport| [2, 3, 4].map(|version| settings.served.has(version, transport));
        assert_eq!(served(Transport::Tcp), [false, true, true]);
        assert_eq!(served(Transport::Udp), [false, true, false]);
        let minors = || [0, 1, 2, 3, 32, u32::MAX].map(|minor| settings.serves_minor(minor));
        assert_eq!(minors(), [false, true, true, false, false, false]);
        settings.set_versions(&"3,4.2".parse().unwrap());
        assert_eq!(minors(), [false, false, true, false, false, false]);
    }

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
        let settings = NfsSettings {
            max_read: AtomicU32::new(70_000),
            max_write: AtomicU32::new(u32::MAX),
            ..NfsSettings::default()
        };
        assert_eq!(settings.read_max(Transport::Tcp), 69_632);
        assert_eq!(settings.read_max(Transport::Udp), DATAGRAM_MAX);
        assert_eq!(settings.write_max(Transport::Tcp), 16 * 1024 * 1024);
        settings.max_read.store(0, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(settings.read_max(Transport::Udp), 4096);
    }
}
