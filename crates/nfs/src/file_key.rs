//! What the state core calls a file.

use export::ExportId;
use state::FileKey;
use vfs::Fid;

/// The core's name for a file of an export; `None` if there were no room for it, which there is.
pub fn file_key(export: ExportId, fid: &Fid) -> Option<FileKey> {
    let mut key = [0; FileKey::MAX];
    let number = export.0.to_be_bytes();
    let len = number.len().checked_add(fid.bytes().len())?;
    let whole = key.get_mut(..len)?;
    let (first, second) = whole.split_at_mut_checked(number.len())?;
    first.copy_from_slice(&number);
    second.copy_from_slice(fid.bytes());
    FileKey::new(whole)
}

/// The export in a key.
pub fn export_of(key: &FileKey) -> Option<ExportId> {
    key.bytes().first_chunk().map(|number| ExportId(u32::from_be_bytes(*number)))
}
