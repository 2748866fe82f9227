//! The principal that owns a version 4 client.

/// The sender of a request, as far as client ids are concerned: the flavour, and the user that it states or proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    /// The number of the flavour.
    pub flavor: u32,
    /// The user's number, or a hash of the principal name.
    pub user: u64,
}
