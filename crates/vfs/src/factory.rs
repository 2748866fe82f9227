//! How the server creates back ends of kinds that it does not know: each kind has a scheme, as in
//! `mem:`.

use crate::Backend;
use std::sync::Arc;

/// Creates back ends of one kind.
pub trait BackendFactory: Send + Sync {
    /// The scheme: the part before the colon.
    fn scheme(&self) -> &'static str;

    /// Checks the part after the colon.
    ///
    /// # Errors
    /// What is wrong and what to write instead.
    fn check(&self, text: &str) -> Result<(), String>;

    /// Creates a back end. `owner` (user and group) owns its root, if it has no owner yet.
    ///
    /// # Errors
    /// What is wrong and what to do.
    fn open(&self, text: &str, owner: (u32, u32)) -> Result<Arc<dyn Backend>, String>;
}
