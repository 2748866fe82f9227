//! COMMIT (RFC 1813 §3.3.21).

use super::{Answer, Door, Intent};
use crate::Nfs;
use rpc::Call;
use vfs::{Change, Verifier};

/// What COMMIT did.
pub struct Committed {
    /// The file around the call.
    pub file: Change,
    /// Unstable data that was written under this verifier is safe now.
    pub verifier: Verifier,
}

/// Puts unstable data of a range (`count` 0: to the end) on disk.
///
/// # Errors
/// [`super::Failed`].
pub fn commit(
    nfs: &Nfs,
    call: &mut Call<'_>,
    handle: &[u8],
    offset: u64,
    count: u64,
) -> Answer<Committed> {
    let mut door = Door::new(nfs, call);
    // No change in the sense of a read-only export: data that was written before the export
    // became read-only may still be made safe.
    let at = door.open(handle, Intent::Look)?;
    at.run(|backend| {
        let file = backend.commit(&at.cx, &at.fid, offset, count)?;
        // After the commit: if another call has lost data meanwhile, this client must see it.
        Ok(Committed { file, verifier: backend.write_verifier() })
    })
}
