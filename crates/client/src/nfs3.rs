//! NFS version 3 (RFC 1813 §3.3) from the client's side: one method per procedure.
//!
//! Names and data are bytes; results are owned. Optional fields are an `Option`.

use crate::client::{Client, Nothing, Reply};
use crate::error::{Error, Result};
use crate::handle::Fh;
use crate::message::Target;
use proto::nfs3::{
    AccessArgs, AccessOk, CommitArgs, CommitOk, CreateArgs, CreateHow3, Data, DirOpArgs3, Fattr3,
    Filename3, FsinfoOk, FsstatOk, LinkArgs, LinkRes, LookupOk, MadeOk, MkdirArgs, MknodArgs,
    MknodData3, Nfsstat3, Nfstime3, NoBody, PROGRAM, Path3, PathconfOk, PostOpAttr, ReadArgs,
    ReadOk, ReaddirArgs, ReaddirOk, ReaddirplusArgs, ReaddirplusOk, ReadlinkOk, RenameArgs,
    RenameRes, Res, Sattr3, SetattrArgs, StableHow, SymlinkArgs, VERSION, Verf, WccData, WriteArgs,
    WriteOk, procedure as p,
};
use xdr::{Decode, Encode};

/// An object with its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its handle.
    pub handle: Fh,
    /// Its attributes.
    pub attr: Option<Fattr3>,
}

/// The result of CREATE, MKDIR, SYMLINK and MKNOD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// The new object's handle.
    pub handle: Option<Fh>,
    /// The new object's attributes.
    pub attr: Option<Fattr3>,
    /// The directory around the change.
    pub dir: WccData,
}

/// The result of READ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadDone {
    /// The data.
    pub data: Vec<u8>,
    /// Whether the end of the file was reached.
    pub eof: bool,
    /// The file's attributes.
    pub attr: Option<Fattr3>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// Inode number.
    pub fileid: u64,
    /// Cookie to continue after it.
    pub cookie: u64,
    /// Handle, from READDIRPLUS.
    pub handle: Option<Fh>,
    /// Attributes, from READDIRPLUS.
    pub attr: Option<Fattr3>,
}

/// The result of READDIR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Verifier to be sent with the next cookie.
    pub verf: Verf,
    /// Whether these are the last entries.
    pub eof: bool,
}

const fn target(procedure: u32) -> Target {
    Target { program: PROGRAM, version: VERSION, procedure }
}

fn wire(fh: &Fh) -> proto::nfs3::Fh<'_> {
    proto::nfs3::Fh { 0: fh.bytes() }
}

fn place<'a>(dir: &'a Fh, name: &'a [u8]) -> DirOpArgs3<'a> {
    DirOpArgs3 { dir: wire(dir), name: Filename3 { 0: name } }
}

fn owned(fh: proto::nfs3::Fh<'_>) -> Result<Fh> {
    Fh::new(fh.0).ok_or(Error::Unsendable("the server gave a handle over 64 bytes"))
}

fn failed(operation: &'static str, status: Nfsstat3) -> Error {
    Error::Nfs { operation, name: format!("{status:?}"), number: status.number() }
}

/// Decodes a result; `F` is the body of failure.
fn result<'a, T: Decode<'a>, F: Decode<'a>>(
    reply: &'a Reply,
    operation: &'static str,
) -> Result<T> {
    let result: Res<T, F> = reply.decode(operation)?;
    result.into_result().map_err(|status| failed(operation, status))
}

fn made(reply: &Reply, operation: &'static str) -> Result<Made> {
    let made: MadeOk<'_> = result::<_, WccData>(reply, operation)?;
    Ok(Made { handle: made.object.map(owned).transpose()?, attr: made.attr, dir: made.dir })
}

impl Client {
    fn nfs3(&mut self, procedure: u32, args: &impl Encode) -> Result<Reply> {
        self.call(target(procedure), args)
    }

    /// NULL.
    ///
    /// # Errors
    /// Any.
    pub fn null(&mut self) -> Result<()> {
        self.nfs3(p::NULL, &Nothing)?.decode::<Nothing>("NULL").map(|_| ())
    }

    /// GETATTR.
    ///
    /// # Errors
    /// [`Error::Nfs`] if the server refuses, as for all that follow.
    pub fn getattr(&mut self, object: &Fh) -> Result<Fattr3> {
        result::<_, NoBody>(&self.nfs3(p::GETATTR, &wire(object))?, "GETATTR")
    }

    /// SETATTR; with `guard`, only if the object's ctime is exactly that.
    ///
    /// # Errors
    /// Any.
    pub fn setattr(
        &mut self,
        object: &Fh,
        set: Sattr3,
        guard: Option<Nfstime3>,
    ) -> Result<WccData> {
        let args = SetattrArgs { object: wire(object), set, guard };
        result::<_, WccData>(&self.nfs3(p::SETATTR, &args)?, "SETATTR")
    }

    /// LOOKUP.
    ///
    /// # Errors
    /// Any.
    pub fn lookup(&mut self, dir: &Fh, name: &[u8]) -> Result<Found> {
        let reply = self.nfs3(p::LOOKUP, &place(dir, name))?;
        let found: LookupOk<'_> = result::<_, PostOpAttr>(&reply, "LOOKUP")?;
        Ok(Found { handle: owned(found.object)?, attr: found.attr })
    }

    /// ACCESS: the part of `mask` that is granted.
    ///
    /// # Errors
    /// Any.
    pub fn access(&mut self, object: &Fh, mask: u32) -> Result<u32> {
        let reply = self.nfs3(p::ACCESS, &AccessArgs { object: wire(object), access: mask })?;
        result::<AccessOk, PostOpAttr>(&reply, "ACCESS").map(|ok| ok.access)
    }

    /// READLINK.
    ///
    /// # Errors
    /// Any.
    pub fn readlink(&mut self, link: &Fh) -> Result<Vec<u8>> {
        let reply = self.nfs3(p::READLINK, &wire(link))?;
        let ok: ReadlinkOk<'_> = result::<_, PostOpAttr>(&reply, "READLINK")?;
        Ok(ok.target.0.to_vec())
    }

    /// READ.
    ///
    /// # Errors
    /// Any.
    pub fn read(&mut self, file: &Fh, offset: u64, count: u32) -> Result<ReadDone> {
        let xid = self.send_read(file, offset, count)?;
        self.recv_read(xid)
    }

    /// Sends a READ without waiting for its reply.
    ///
    /// # Errors
    /// Those of sending.
    pub fn send_read(&mut self, file: &Fh, offset: u64, count: u32) -> Result<u32> {
        self.send(target(p::READ), &ReadArgs { file: wire(file), offset, count })
    }

    /// Waits for the reply to a READ that was sent.
    ///
    /// # Errors
    /// Any.
    pub fn recv_read(&mut self, xid: u32) -> Result<ReadDone> {
        let reply = self.recv(xid)?;
        let ok: ReadOk<'_> = result::<_, PostOpAttr>(&reply, "READ")?;
        if ok.data.0.len() != ok.count as usize {
            let source = xdr::Error::Invalid("count is not the length of the data");
            return Err(Error::Garbled { operation: "READ", source });
        }
        Ok(ReadDone { data: ok.data.0.to_vec(), eof: ok.eof, attr: ok.attr })
    }

    /// WRITE.
    ///
    /// # Errors
    /// Any.
    pub fn write(
        &mut self,
        file: &Fh,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<WriteOk> {
        let xid = self.send_write(file, offset, data, stable)?;
        result::<_, WccData>(&self.recv(xid)?, "WRITE")
    }

    /// Sends a WRITE without waiting for its reply.
    ///
    /// # Errors
    /// Those of sending.
    pub fn send_write(
        &mut self,
        file: &Fh,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<u32> {
        let args = WriteArgs { file: wire(file), offset, stable, data: Data { 0: data } };
        self.send(target(p::WRITE), &args)
    }

    /// CREATE.
    ///
    /// # Errors
    /// Any.
    pub fn create(&mut self, dir: &Fh, name: &[u8], how: CreateHow3) -> Result<Made> {
        let args = CreateArgs { place: place(dir, name), how };
        made(&self.nfs3(p::CREATE, &args)?, "CREATE")
    }

    /// MKDIR.
    ///
    /// # Errors
    /// Any.
    pub fn mkdir(&mut self, dir: &Fh, name: &[u8], set: Sattr3) -> Result<Made> {
        let args = MkdirArgs { place: place(dir, name), set };
        made(&self.nfs3(p::MKDIR, &args)?, "MKDIR")
    }

    /// SYMLINK.
    ///
    /// # Errors
    /// Any.
    pub fn symlink(
        &mut self,
        dir: &Fh,
        name: &[u8],
        points_to: &[u8],
        set: Sattr3,
    ) -> Result<Made> {
        let args = SymlinkArgs { place: place(dir, name), set, target: Path3 { 0: points_to } };
        made(&self.nfs3(p::SYMLINK, &args)?, "SYMLINK")
    }

    /// MKNOD.
    ///
    /// # Errors
    /// Any.
    pub fn mknod(&mut self, dir: &Fh, name: &[u8], what: MknodData3) -> Result<Made> {
        let args = MknodArgs { place: place(dir, name), what };
        made(&self.nfs3(p::MKNOD, &args)?, "MKNOD")
    }

    /// REMOVE.
    ///
    /// # Errors
    /// Any.
    pub fn remove(&mut self, dir: &Fh, name: &[u8]) -> Result<WccData> {
        result::<_, WccData>(&self.nfs3(p::REMOVE, &place(dir, name))?, "REMOVE")
    }

    /// RMDIR.
    ///
    /// # Errors
    /// Any.
    pub fn rmdir(&mut self, dir: &Fh, name: &[u8]) -> Result<WccData> {
        result::<_, WccData>(&self.nfs3(p::RMDIR, &place(dir, name))?, "RMDIR")
    }

    /// RENAME.
    ///
    /// # Errors
    /// Any.
    pub fn rename(&mut self, from: (&Fh, &[u8]), to: (&Fh, &[u8])) -> Result<RenameRes> {
        let args = RenameArgs { from: place(from.0, from.1), to: place(to.0, to.1) };
        result::<_, RenameRes>(&self.nfs3(p::RENAME, &args)?, "RENAME")
    }

    /// LINK.
    ///
    /// # Errors
    /// Any.
    pub fn link(&mut self, file: &Fh, dir: &Fh, name: &[u8]) -> Result<LinkRes> {
        let args = LinkArgs { file: wire(file), link: place(dir, name) };
        result::<_, LinkRes>(&self.nfs3(p::LINK, &args)?, "LINK")
    }

    /// READDIR: entries of at most `count` bytes.
    ///
    /// # Errors
    /// Any.
    pub fn readdir(&mut self, dir: &Fh, cookie: u64, verf: Verf, count: u32) -> Result<Listing> {
        let args = ReaddirArgs { dir: wire(dir), cookie, verf, count };
        let reply = self.nfs3(p::READDIR, &args)?;
        let ok: ReaddirOk<'_> = result::<_, PostOpAttr>(&reply, "READDIR")?;
        let entry = |e: &proto::nfs3::Entry3<'_>| Entry {
            name: e.name.0.to_vec(),
            fileid: e.fileid,
            cookie: e.cookie,
            handle: None,
            attr: None,
        };
        Ok(Listing { entries: ok.entries.iter().map(entry).collect(), verf: ok.verf, eof: ok.eof })
    }

    /// READDIRPLUS: entries of at most `count` bytes.
    ///
    /// # Errors
    /// Any.
    pub fn readdirplus(
        &mut self,
        dir: &Fh,
        cookie: u64,
        verf: Verf,
        count: u32,
    ) -> Result<Listing> {
        let args =
            ReaddirplusArgs { dir: wire(dir), cookie, verf, dircount: count, maxcount: count };
        let reply = self.nfs3(p::READDIRPLUS, &args)?;
        let ok: ReaddirplusOk<'_> = result::<_, PostOpAttr>(&reply, "READDIRPLUS")?;
        let entry = |e: &proto::nfs3::EntryPlus3<'_>| {
            Ok(Entry {
                name: e.name.0.to_vec(),
                fileid: e.fileid,
                cookie: e.cookie,
                handle: e.handle.map(owned).transpose()?,
                attr: e.attr,
            })
        };
        let entries = ok.entries.iter().map(entry).collect::<Result<_>>()?;
        Ok(Listing { entries, verf: ok.verf, eof: ok.eof })
    }

    /// FSSTAT.
    ///
    /// # Errors
    /// Any.
    pub fn fsstat(&mut self, object: &Fh) -> Result<FsstatOk> {
        result::<_, PostOpAttr>(&self.nfs3(p::FSSTAT, &wire(object))?, "FSSTAT")
    }

    /// FSINFO.
    ///
    /// # Errors
    /// Any.
    pub fn fsinfo(&mut self, root: &Fh) -> Result<FsinfoOk> {
        result::<_, PostOpAttr>(&self.nfs3(p::FSINFO, &wire(root))?, "FSINFO")
    }

    /// PATHCONF.
    ///
    /// # Errors
    /// Any.
    pub fn pathconf(&mut self, object: &Fh) -> Result<PathconfOk> {
        result::<_, PostOpAttr>(&self.nfs3(p::PATHCONF, &wire(object))?, "PATHCONF")
    }

    /// COMMIT; a `count` of 0 means to the end of the file.
    ///
    /// # Errors
    /// Any.
    pub fn commit(&mut self, file: &Fh, offset: u64, count: u32) -> Result<CommitOk> {
        let args = CommitArgs { file: wire(file), offset, count };
        result::<_, WccData>(&self.nfs3(p::COMMIT, &args)?, "COMMIT")
    }
}
