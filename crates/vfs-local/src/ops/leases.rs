//! Holding local programs back: see [`vfs::Leases`] and [`crate::cache::leases`].
//!
//! A read lease cannot be had while anybody has the file open for writing, the server included: its own descriptor for
//! writing is closed first, unless data written through it is not known to be on disk.

use crate::errno;
use crate::fs::LocalFs;
use std::io;
use sys::errno::Errno;
use sys::open::How;
use vfs::{Cx, Fid, Kept, LeaseBreakCallback, Leases, Result, Status, need_regular};

/// The part of the open files that may have a lease besides: one of this many.
const LEASED_SHARE: usize = 4;

impl Leases for LocalFs {
    fn hold_back_writers(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        // what other machines and processes do with the files of these is not seen here
        if self.warm_backend != self.backend {
            return Err(Status::NotSupp);
        }
        let (file, attr) = self.hold(cx, fid)?;
        need_regular(attr.ftype)?;
        if self.files.leases.len() >= self.files.limit() / LEASED_SHARE {
            return Err(Status::Jukebox);
        }
        self.will_block(cx)?;
        if file.writer().is_some() {
            drop(file);
            if !self.files.close_writer(&self.key(fid)) {
                return Ok(None);
            }
        }
        let (file, _) = self.hold(cx, fid)?;
        let fd = self.open_data(fid, &file, How::Read).map_err(errno::from)?;
        let taken = self.files.leases.take((self.key(fid), fd), &self.closing, on_break);
        let lease = taken.map_err(|error| lease_status(&error))?;
        // names that went before the watch began are told by nobody
        let alone = self.hold(cx, fid)?.1.nlink > 0;
        Ok(lease.filter(|_| alone).map(Kept::new))
    }
}

fn lease_status(error: &io::Error) -> Status {
    match sys::errno::of(error) {
        Some(Errno::INVAL | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOENT) => Status::NotSupp,
        Some(Errno::NOSPC) => Status::Jukebox,
        _ if error.kind() == io::ErrorKind::Unsupported => Status::NotSupp,
        _ => errno::status(error),
    }
}
