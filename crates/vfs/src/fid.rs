//! The backend's own name for an object: opaque bytes that stay valid for its whole life.

use std::fmt;

/// A backend's file id, at most [`Fid::MAX`] bytes; only the backend knows its meaning.
///
/// It must stay the same for the life of the object (also over a restart of the server) and must
/// never be reused for another object.
#[derive(Clone, Copy)]
pub struct Fid {
    len: u8,
    bytes: [u8; Self::MAX],
}

impl Fid {
    /// The most bytes that a file id may have: 64 of a v3 handle (RFC 1813 §2.4) less the envelope.
    pub const MAX: usize = 48;

    /// A file id of these bytes, or `None` if there are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut fid = Self { len: u8::try_from(bytes.len()).ok()?, bytes: [0; Self::MAX] };
        fid.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(fid)
    }

    /// A file id of eight bytes: for backends that number their objects.
    pub fn from_u64(number: u64) -> Self {
        let mut bytes = [0; Self::MAX];
        if let Some(place) = bytes.first_chunk_mut::<8>() {
            *place = number.to_be_bytes();
        }
        Self { len: 8, bytes }
    }

    /// A file id of the first `len` of these bytes, or `None` if there are fewer.
    pub fn from_padded(bytes: [u8; Self::MAX], len: usize) -> Option<Self> {
        let len = u8::try_from(len).ok().filter(|len| usize::from(*len) <= Self::MAX)?;
        Some(Self { len, bytes })
    }

    /// The bytes followed by unused ones: to be copied in one piece.
    pub const fn padded(&self) -> &[u8; Self::MAX] {
        &self.bytes
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl PartialEq for Fid {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Fid {}

impl std::hash::Hash for Fid {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write(self.bytes());
    }
}

impl fmt::Debug for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fid:")?;
        self.bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
