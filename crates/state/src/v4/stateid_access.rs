//! What a stateid gives the right to, in all minor versions.

use crate::principal::Principal;
use crate::share::ShareBits;

/// What a stateid gives the right to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateidAccess {
    /// What the file is open for.
    pub access: ShareBits,
    /// Who has opened it, who need not be who uses the stateid; `None` if several have as one owner.
    pub user: Option<Principal>,
}
