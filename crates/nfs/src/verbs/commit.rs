//! COMMIT (RFC 1813 §3.3.21).

use crate::object::Object;
use vfs::{Change, Verifier};

/// What COMMIT did.
pub struct Committed {
    /// The file around the call.
    pub file: Change,
    /// Unstable data that was written under this verifier is safe now.
    pub verifier: Verifier,
}

/// Puts unstable data of a range (`count` 0: to the end) on disk. No change in the sense of a
/// read-only export: data that was written before the export became read-only may still be made
/// safe.
///
/// # Errors
/// Those of the disk.
pub fn commit(file: &Object<'_>, offset: u64, count: u64) -> vfs::Result<Committed> {
    let backend = file.backend();
    let change = backend.commit(&file.cx(), &file.fid, offset, count)?;
    // After the commit: if another call has lost data meanwhile, this client must see it.
    Ok(Committed { file: change, verifier: backend.write_verifier() })
}
