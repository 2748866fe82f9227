//! PATHCONF (RFC 1813 §3.3.20).

use super::{Answer, Facts, fsinfo};
use crate::Nfs;
use rpc::Call;

/// What names and links of an object's file system may be like: the same facts as FSINFO's, of
/// which the two procedures show different ones.
///
/// # Errors
/// [`super::Failed`].
pub fn pathconf(nfs: &Nfs, call: &mut Call<'_>, handle: &[u8]) -> Answer<Facts> {
    fsinfo(nfs, call, handle)
}
