//! File ids: one byte of kind and the object's key.
//!
//! The key is the kernel's handle where the file system has handles (kind: the handle's type), else
//! inode number and time of creation (kind 255).

use crate::errno;
use crate::naming::inode_table::dentry::{Dentry, FileKey};
use std::os::fd::BorrowedFd;
use sys::file_handle::{self, KernelHandle};
use vfs::{Fid, Result, Status};

/// The kind of ids made of inode number and time of creation.
const KIND_INODE: u8 = 255;

/// The id of an open object.
///
/// # Errors
/// The kernel's error.
pub fn fid_of(fd: BorrowedFd<'_>) -> Result<Fid> {
    match file_handle::of_fd(fd) {
        Ok(handle) if fits(&handle) => Ok(from_handle(&handle)?),
        Ok(_) => from_inode(fd),
        Err(e) if errno::status(&e) == Status::NotSupp => from_inode(fd),
        Err(e) => Err(errno::from(e)),
    }
}

/// The id of an entry that is not opened; `None` if it cannot be determined without an open.
///
/// # Errors
/// The kernel's error.
pub fn fid_of_entry(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<Option<Fid>> {
    match file_handle::of_entry(dir, name) {
        Ok(handle) if fits(&handle) => from_handle(&handle).map(Some),
        Ok(_) => Ok(None),
        Err(e) if errno::status(&e) == Status::NotSupp => Ok(None),
        Err(e) => Err(errno::from(e)),
    }
}

fn fits(handle: &KernelHandle) -> bool {
    handle.kind != KIND_INODE && handle.bytes().len() < Fid::MAX
}

fn from_handle(handle: &KernelHandle) -> Result<Fid> {
    let mut bytes = [0; Fid::MAX];
    let data = handle.bytes();
    let whole = bytes.get_mut(..=data.len()).ok_or(Status::ServerFault)?;
    if let Some((kind, rest)) = whole.split_first_mut() {
        *kind = handle.kind;
        rest.copy_from_slice(data);
    }
    Fid::new(whole).ok_or(Status::ServerFault)
}

fn from_inode(fd: BorrowedFd<'_>) -> Result<Fid> {
    let stat = sys::stat::of_fd(fd).map_err(errno::from)?;
    let (sec, nsec) = stat.btime.unwrap_or_default();
    let mut bytes = vec![KIND_INODE];
    bytes.extend(stat.ino.to_be_bytes());
    bytes.extend(sec.to_be_bytes());
    bytes.extend(nsec.to_be_bytes());
    Fid::new(&bytes).ok_or(Status::ServerFault)
}

/// The key of a file id in the table of names.
///
/// # Errors
/// [`Status::BadHandle`].
pub fn file_key(fid: &Fid) -> Result<FileKey> {
    FileKey::new(fid.bytes()).ok_or(Status::BadHandle)
}

/// An entry of a directory, as the table of names has it.
///
/// # Errors
/// [`Status::BadHandle`].
pub fn dentry(dir: &Fid, name: &[u8]) -> Result<Dentry> {
    Ok(Dentry { parent: file_key(dir)?, name: name.to_vec() })
}

/// The kernel's handle in a file id, if it has one.
pub fn kernel_handle(fid: &Fid) -> Option<KernelHandle> {
    let (kind, data) = fid.bytes().split_first()?;
    (*kind != KIND_INODE).then(|| KernelHandle::new(*kind, data))?
}

/// The inode number in an id, where the layout is known: ours, and the kernel's generic one.
pub fn inode_in(fid: &Fid) -> Option<u64> {
    let (kind, data) = fid.bytes().split_first()?;
    match (kind, data.len()) {
        (&KIND_INODE, _) => data.first_chunk().map(|b| u64::from_be_bytes(*b)),
        // other lengths of these types are a file system's own: tmpfs begins with the generation
        (1, 8) | (2, 16) => data.first_chunk().map(|b| u64::from(u32::from_ne_bytes(*b))),
        _ => None,
    }
}
