//! A file handle stored inline: opaque bytes from the server.

use std::fmt;

/// A handle: of version 4 at most 128 bytes (RFC 8881 §3.2, `NFS4_FHSIZE`), of version 3 at most 64 (RFC 1813 §2.4), of version 2
/// always 32.
#[derive(Clone, Copy)]
pub struct Fh {
    len: u8,
    bytes: [u8; Self::MAX],
}

impl Fh {
    /// The longest handle.
    pub const MAX: usize = 128;

    /// No bytes: no server returns this one.
    pub const EMPTY: Self = Self { len: 0, bytes: [0; Self::MAX] };

    /// A handle of these bytes, or `None` if there are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut fh = Self { len: u8::try_from(bytes.len()).ok()?, bytes: [0; Self::MAX] };
        fh.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(fh)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl PartialEq for Fh {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Fh {}

impl std::hash::Hash for Fh {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl fmt::Debug for Fh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fh:")?;
        self.bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
