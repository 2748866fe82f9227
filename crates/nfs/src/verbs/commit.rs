//! COMMIT (RFC 1813 §3.3.21).

use crate::object::Object;
use vfs::{Change, Verifier};

/// The result of COMMIT.
pub struct Committed {
    /// The file's attributes before and after.
    pub file: Change,
    /// Unstable data that was written with this verifier is on stable storage now.
    pub verifier: Verifier,
}

/// Writes unstable data of a range (`count` 0: to the end) to stable storage. A read-only export permits it: the data was
/// written before the export became read-only.
///
/// # Errors
/// Those of the disk.
pub fn commit(file: &Object<'_>, offset: u64, count: u64) -> vfs::Result<Committed> {
    let backend = file.backend();
    let change = backend.commit(&file.cx(), &file.fid, offset, count)?;
    // Read after the commit: if another call has lost data meanwhile, this client must see a new verifier.
    Ok(Committed { file: change, verifier: backend.write_verifier() })
}
