//! A WRITE whose record arrives in pieces, and the files that it changes, for the tests of each version: data of it goes to
//! the file before the record is whole.

use crate::support::dispatched::Dispatched;
use crate::support::{at, wire};
use proto::nfs3::{
    Bytes, CreateArgs, CreateHow3, MadeOk, PostOpAttr, ReadArgs, ReadOk, Res, Sattr3, WccData,
    procedure as p,
};
use rpc::{LargeArgument, Reply};
use std::sync::Arc;
use vfs_mem::{MemFs, MemOptions};
use xdr::Decode;

/// Bytes of a page: what goes ahead ends at a multiple of it in the file.
pub const PAGE: usize = 4096;

/// A server of an empty file system in memory.
pub fn mem() -> Dispatched {
    Dispatched::over(Arc::new(MemFs::new(MemOptions::default())))
}

/// The results of a reply to a call of version 3, to the last byte.
pub fn decoded<T: Decode<'static>>(reply: Vec<u8>) -> T {
    let mut r = Reply::parse(reply.leak()).unwrap().results.unwrap();
    let result = r.get().unwrap();
    r.end().unwrap();
    result
}

/// Makes an empty file in the root: its handle.
pub fn make(server: &Dispatched, name: &[u8]) -> Vec<u8> {
    let set = Sattr3 { mode: Some(0o644), ..Sattr3::default() };
    let args = CreateArgs { place: at(&server.root, name), how: CreateHow3::Unchecked(set) };
    let made: Res<MadeOk<'_>, WccData> = decoded(server.call(p::CREATE, &wire(&args)));
    made.into_result().unwrap().object.unwrap().0.to_vec()
}

/// All of a file of at most a mebibyte.
pub fn contents(server: &Dispatched, file: &[u8]) -> Vec<u8> {
    let args = ReadArgs { file: Bytes(file), offset: 0, count: 1 << 20 };
    let read: Res<ReadOk<'_>, PostOpAttr> = decoded(server.call(p::READ, &wire(&args)));
    read.into_result().unwrap().data.0.to_vec()
}

/// So many bytes, in an order that has no period of a page.
pub fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// A record that arrives in pieces, and what is left of it.
pub struct Arriving<'s> {
    server: &'s Dispatched,
    pub record: Vec<u8>,
    /// Bytes that have arrived.
    pub at: usize,
    /// What has arrived and was not taken.
    pub kept: Vec<u8>,
    pub large: LargeArgument,
    /// Once some was taken, more comes in a pipe.
    piped: bool,
}

impl<'s> Arriving<'s> {
    pub fn new(server: &'s Dispatched, record: Vec<u8>) -> Self {
        let large = LargeArgument::default();
        Self { server, record, at: 0, kept: Vec::new(), large, piped: false }
    }

    pub fn piped(self, piped: bool) -> Self {
        Self { piped, ..self }
    }

    /// So many more bytes arrive; whether data of this record may ever go ahead.
    pub fn arrive(&mut self, bytes: usize) -> bool {
        let end = (self.at + bytes).min(self.record.len() - 1);
        let new = &self.record[self.at..end];
        self.at = end;
        if self.piped && !self.large.is_empty() && !self.large.is_over() {
            let missing = self.record.len() - end;
            return self.server.take_piped(&mut self.kept, new, missing, &mut self.large);
        }
        self.kept.extend_from_slice(new);
        self.server.take(&mut self.kept, self.record.len() - end, &mut self.large)
    }

    /// The rest arrives: the reply.
    pub fn reply(mut self) -> Vec<u8> {
        self.kept.extend_from_slice(&self.record[self.at..]);
        self.server.finish(&self.kept, self.large)
    }
}
