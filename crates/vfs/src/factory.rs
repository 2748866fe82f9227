//! How the server makes back ends of kinds that it does not know: each kind has a scheme, as in `mem:`.

use crate::Backend;
use std::sync::Arc;

/// Makes back ends of one kind.
pub trait BackendFactory: Send + Sync {
    /// What stands before the colon where such a back end is asked for.
    fn scheme(&self) -> &'static str;

    /// Checks what stands behind the colon.
    ///
    /// # Errors
    /// What is wrong and what to write instead.
    fn check(&self, text: &str) -> Result<(), String>;

    /// Makes a back end. `owner` (user and group) is to own its root, if nobody owns it yet.
    ///
    /// # Errors
    /// What is wrong and what to do.
    fn open(&self, text: &str, owner: (u32, u32)) -> Result<Arc<dyn Backend>, String>;
}
