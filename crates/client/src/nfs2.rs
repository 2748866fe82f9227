//! NFS version 2 (RFC 1094 §2.2) from the client's side: the parts that tests and boot loaders use.

use crate::client::{Client, Nothing, Reply};
use crate::error::{Error, Result};
use crate::message::Target;
use proto::nfs2::{
    AttrStat, CreateArgs2, Data2, DirOpArgs2, DirOpOk2, Fattr2, Fh2, Filename2, Nfsstat2, PROGRAM,
    Path2, ReadArgs2, ReadOk2, ReaddirArgs2, ReaddirOk2, RenameArgs2, Res2, Sattr2, SetattrArgs2,
    StatfsOk2, VERSION, WriteArgs2, procedure as p,
};
use xdr::{Decode, Encode};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry2 {
    /// The name.
    pub name: Vec<u8>,
    /// Inode number.
    pub fileid: u32,
    /// Cookie to continue after it.
    pub cookie: u32,
}

fn failed(operation: &'static str, status: Nfsstat2) -> Error {
    Error::Nfs { operation, name: format!("{status:?}"), number: status.number() }
}

fn result<'a, T: Decode<'a>>(reply: &'a Reply, operation: &'static str) -> Result<T> {
    match reply.decode::<Res2<T>>(operation)? {
        Res2::Ok(ok) => Ok(ok),
        Res2::Fail(status) => Err(failed(operation, status)),
    }
}

/// The result of a procedure that returns a status only.
fn status(reply: &Reply, operation: &'static str) -> Result<()> {
    match reply.decode::<Nfsstat2>(operation)? {
        Nfsstat2::Ok => Ok(()),
        status => Err(failed(operation, status)),
    }
}

fn place<'a>(dir: &Fh2, name: &'a [u8]) -> DirOpArgs2<'a> {
    DirOpArgs2 { dir: *dir, name: Filename2 { 0: name } }
}

impl Client {
    fn nfs2(&mut self, procedure: u32, args: &impl Encode) -> Result<Reply> {
        self.call(Target { program: PROGRAM, version: VERSION, procedure }, args)
    }

    /// NULL.
    ///
    /// # Errors
    /// Any.
    pub fn null2(&mut self) -> Result<()> {
        self.nfs2(p::NULL, &Nothing)?.decode::<Nothing>("NULL").map(|_| ())
    }

    /// GETATTR.
    ///
    /// # Errors
    /// [`Error::Nfs`] if the server refuses, as for all that follow.
    pub fn getattr2(&mut self, file: &Fh2) -> Result<Fattr2> {
        result(&self.nfs2(p::GETATTR, file)?, "GETATTR")
    }

    /// SETATTR.
    ///
    /// # Errors
    /// Any.
    pub fn setattr2(&mut self, file: &Fh2, set: Sattr2) -> Result<Fattr2> {
        result(&self.nfs2(p::SETATTR, &SetattrArgs2 { file: *file, set })?, "SETATTR")
    }

    /// LOOKUP.
    ///
    /// # Errors
    /// Any.
    pub fn lookup2(&mut self, dir: &Fh2, name: &[u8]) -> Result<DirOpOk2> {
        result(&self.nfs2(p::LOOKUP, &place(dir, name))?, "LOOKUP")
    }

    /// READLINK.
    ///
    /// # Errors
    /// Any.
    pub fn readlink2(&mut self, link: &Fh2) -> Result<Vec<u8>> {
        let reply = self.nfs2(p::READLINK, link)?;
        result::<Path2<'_>>(&reply, "READLINK").map(|path| path.0.to_vec())
    }

    /// READ.
    ///
    /// # Errors
    /// Any.
    pub fn read2(&mut self, file: &Fh2, offset: u32, count: u32) -> Result<(Fattr2, Vec<u8>)> {
        let args = ReadArgs2 { file: *file, offset, count, totalcount: 0 };
        let reply = self.nfs2(p::READ, &args)?;
        result::<ReadOk2<'_>>(&reply, "READ").map(|ok| (ok.attr, ok.data.0.to_vec()))
    }

    /// WRITE.
    ///
    /// # Errors
    /// Any.
    pub fn write2(&mut self, file: &Fh2, offset: u32, data: &[u8]) -> Result<Fattr2> {
        let data = Data2 { 0: data };
        let args = WriteArgs2 { file: *file, beginoffset: 0, offset, totalcount: 0, data };
        let reply = self.nfs2(p::WRITE, &args)?;
        match reply.decode::<AttrStat>("WRITE")? {
            Res2::Ok(attr) => Ok(attr),
            Res2::Fail(status) => Err(failed("WRITE", status)),
        }
    }

    /// CREATE.
    ///
    /// # Errors
    /// Any.
    pub fn create2(&mut self, dir: &Fh2, name: &[u8], set: Sattr2) -> Result<DirOpOk2> {
        let args = CreateArgs2 { place: place(dir, name), set };
        result(&self.nfs2(p::CREATE, &args)?, "CREATE")
    }

    /// MKDIR.
    ///
    /// # Errors
    /// Any.
    pub fn mkdir2(&mut self, dir: &Fh2, name: &[u8], set: Sattr2) -> Result<DirOpOk2> {
        let args = CreateArgs2 { place: place(dir, name), set };
        result(&self.nfs2(p::MKDIR, &args)?, "MKDIR")
    }

    /// REMOVE.
    ///
    /// # Errors
    /// Any.
    pub fn remove2(&mut self, dir: &Fh2, name: &[u8]) -> Result<()> {
        status(&self.nfs2(p::REMOVE, &place(dir, name))?, "REMOVE")
    }

    /// RMDIR.
    ///
    /// # Errors
    /// Any.
    pub fn rmdir2(&mut self, dir: &Fh2, name: &[u8]) -> Result<()> {
        status(&self.nfs2(p::RMDIR, &place(dir, name))?, "RMDIR")
    }

    /// RENAME.
    ///
    /// # Errors
    /// Any.
    pub fn rename2(&mut self, from: (&Fh2, &[u8]), to: (&Fh2, &[u8])) -> Result<()> {
        let args = RenameArgs2 { from: place(from.0, from.1), to: place(to.0, to.1) };
        status(&self.nfs2(p::RENAME, &args)?, "RENAME")
    }

    /// READDIR: entries of at most `count` bytes, and whether they are the last.
    ///
    /// # Errors
    /// Any.
    pub fn readdir2(&mut self, dir: &Fh2, cookie: u32, count: u32) -> Result<(Vec<Entry2>, bool)> {
        let reply = self.nfs2(p::READDIR, &ReaddirArgs2 { dir: *dir, cookie, count })?;
        let ok: ReaddirOk2<'_> = result(&reply, "READDIR")?;
        let entry = |e: &proto::nfs2::Entry2<'_>| Entry2 {
            name: e.name.0.to_vec(),
            fileid: e.fileid,
            cookie: e.cookie,
        };
        Ok((ok.entries.iter().map(entry).collect(), ok.eof))
    }

    /// STATFS.
    ///
    /// # Errors
    /// Any.
    pub fn statfs2(&mut self, file: &Fh2) -> Result<StatfsOk2> {
        result(&self.nfs2(p::STATFS, file)?, "STATFS")
    }
}
