//! The entry of an object in the table: its key and its directory entries.

/// Most names of one object; the newest are kept.
pub const DENTRIES_MAX: usize = 8;

/// The bytes that name an object for good.
#[derive(Clone, Copy)]
pub struct FileKey {
    pub(super) len: u8,
    bytes: [u8; Self::MAX],
}

impl FileKey {
    /// The most bytes of a key.
    pub const MAX: usize = 48;

    /// A key of these bytes, or `None` if there are too many.
    pub fn new(data: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(Self { len: u8::try_from(data.len()).ok()?, bytes })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl PartialEq for FileKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for FileKey {}

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

/// One of an object's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dentry {
    /// The directory's key.
    pub parent: FileKey,
    /// The name there.
    pub name: Vec<u8>,
}

impl Dentry {
    pub(super) fn is(&self, parent: &FileKey, name: &[u8]) -> bool {
        self.parent == *parent && self.name == name
    }
}
