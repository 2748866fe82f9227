//! Who makes a client of version 4 known.

/// Who sends a request, as far as client ids are concerned: the flavour, and the user that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    /// The number of the flavour.
    pub flavor: u32,
    /// The user's number, or a hash of the proven name.
    pub user: u64,
}
