//! The calls of the proof in version 3.

use super::{ENTRIES_MAX, FILE_MAX, LIST_BYTES, Listed, Mounted, READ_MAX};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::handle::Fh;
use crate::nfs3::Entry;
use proto::nfs3::FileType3;
use std::collections::VecDeque;

/// READs in flight.
const WINDOW: usize = 4;

/// An export that is mounted.
pub(super) struct Tree<'c> {
    client: &'c mut Client,
    root: Fh,
    read_size: u32,
}

impl<'c> Tree<'c> {
    /// The export of this root.
    pub fn new(client: &'c mut Client, root: Fh) -> Result<Self> {
        let info = client.fsinfo(&root)?;
        let read_size = info.rtpref.min(info.rtmax).clamp(512, READ_MAX);
        Ok(Self { client, root, read_size })
    }
}

fn listed(entry: Entry) -> Option<Listed> {
    let file_bytes = entry.attr.filter(|attr| attr.ftype == FileType3::Reg).map(|attr| attr.size);
    let itself = entry.name == b"." || entry.name == b"..";
    (!itself).then_some(Listed { name: entry.name, file_bytes })
}

impl Mounted for Tree<'_> {
    fn list(&mut self) -> Result<Vec<Listed>> {
        let mut entries = Vec::new();
        let (mut cookie, mut verf) = (0, [0; 8]);
        loop {
            let piece = self.client.readdirplus(&self.root, cookie, verf, LIST_BYTES)?;
            let last = piece.entries.last().map(|entry| entry.cookie);
            entries.extend(piece.entries.into_iter().filter_map(listed));
            match last {
                Some(last) if !piece.eof && entries.len() < ENTRIES_MAX => cookie = last,
                Some(_) | None => return Ok(entries),
            }
            verf = piece.verf;
        }
    }

    fn read(&mut self, name: &[u8]) -> Result<Vec<u8>> {
        let found = self.client.lookup(&self.root, name)?;
        read_whole(self.client, &found.handle, self.read_size)
    }
}

/// Reads a file from start to end, with several calls in flight; no more than [`FILE_MAX`].
fn read_whole(client: &mut Client, file: &Fh, read_size: u32) -> Result<Vec<u8>> {
    let size = client.getattr(file)?.size.min(FILE_MAX);
    let mut data = Vec::new();
    let mut under_way: VecDeque<(u64, u32, u32)> = VecDeque::new();
    let mut next = 0u64;
    loop {
        while next < size && under_way.len() < WINDOW {
            let count = u32::try_from(size.saturating_sub(next)).unwrap_or(u32::MAX).min(read_size);
            under_way.push_back((next, count, client.send_read(file, next, count)?));
            next = next.saturating_add(u64::from(count));
        }
        let Some((offset, count, xid)) = under_way.pop_front() else { return Ok(data) };
        let mut got = client.recv_read(xid)?;
        data.append(&mut got.data);
        // A READ may be short (RFC 1813 §3.3.6): the rest is requested separately.
        let end = offset.saturating_add(u64::from(count));
        while !got.eof {
            let at = u64::try_from(data.len()).unwrap_or(u64::MAX);
            let Some(left) = end.checked_sub(at).filter(|left| *left > 0) else { break };
            got = client.read(file, at, u32::try_from(left).unwrap_or(read_size))?;
            if got.data.is_empty() && !got.eof {
                let source = xdr::Error::Invalid("no data before the end of the file");
                return Err(Error::Garbled { operation: "READ", source });
            }
            data.append(&mut got.data);
        }
    }
}
