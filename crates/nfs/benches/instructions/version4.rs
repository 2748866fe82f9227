//! The COMPOUNDs of version 4.1 that are counted, as the Linux client makes them, but that each does one thing only.

use super::support::compounds::{Session, operation, plain, putfh};
use super::{Calls, Served};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CloseArgs, Createhow4, Fattr4, LINUX_CACHE_CONSISTENCY, LINUX_GETATTR, OpenArgs,
    OpenHow4, OpenOwner4, ReadArgs, ReaddirArgs, StableHow4, Stateid4, WriteArgs, attr, op,
};

/// Owners that have a file open as well.
const OTHERS: u32 = 700;

/// The same operations again and again, each time by a request of its own.
fn repeated(served: &Served, session: &Session, operations: &[Vec<u8>]) -> Calls {
    let record = || session.record(&served.server, operations);
    Calls { before: vec![record(), record()], counted: record(), range_min: None }
}

/// The same on the file.
fn on_file(served: &Served, operations: &[Vec<u8>]) -> Calls {
    let session = Session::new(&served.server);
    repeated(served, &session, &[&[putfh(&served.file)], operations].concat())
}

pub fn sequence(served: &Served) -> Calls {
    repeated(served, &Session::new(&served.server), &[])
}

pub fn getattr(served: &Served) -> Calls {
    on_file(served, &[operation(op::GETATTR, &LINUX_GETATTR)])
}

pub fn lookup(served: &Served) -> Calls {
    let name = operation(op::LOOKUP, &Bytes::<255>(b"file"));
    let attributes = operation(op::GETATTR, &LINUX_GETATTR);
    let session = Session::new(&served.server);
    let operations = [putfh(&served.server.root), name, plain(op::GETFH), attributes];
    repeated(served, &session, &operations)
}

pub fn access(served: &Served) -> Calls {
    on_file(served, &[operation(op::ACCESS, &0x3f_u32)])
}

/// On a file that is open.
fn opened(served: &Served, operation: impl Fn(Stateid4) -> Vec<u8>) -> Calls {
    let session = Session::new(&served.server);
    let stateid = session.open(&served.server, b"file");
    repeated(served, &session, &[putfh(&served.file), operation(stateid)])
}

/// 4 KiB, copied.
pub fn read(served: &Served) -> Calls {
    opened(served, |stateid| operation(op::READ, &ReadArgs { stateid, offset: 4096, count: 4096 }))
}

/// 8 KiB, as a range of the file.
pub fn read_range(served: &Served) -> Calls {
    let calls = opened(served, |stateid| {
        operation(op::READ, &ReadArgs { stateid, offset: 4096, count: 8192 })
    });
    Calls { range_min: Some(1), ..calls }
}

/// 512 bytes, of which the disk need not know yet.
pub fn write(served: &Served) -> Calls {
    opened(served, |stateid| {
        let data = Bytes(&[1; 512][..]);
        let args = WriteArgs { stateid, offset: 0, stable: StableHow4::Unstable, data };
        operation(op::WRITE, &args)
    })
}

/// A file that is there, opened and closed by one request.
pub fn open_close(served: &Served) -> Calls {
    let session = Session::new(&served.server);
    let open = operation(op::OPEN, &session.open_args(b"file"));
    let close = operation(op::CLOSE, &CloseArgs { seqid: 0, stateid: Stateid4::CURRENT });
    repeated(served, &session, &[putfh(&served.server.root), open, close])
}

/// A file that is created, as the Linux client does it.
pub fn create(served: &Served) -> Calls {
    let session = Session::new(&served.server);
    let record = |name: &[u8]| {
        let open = creating(&session, name);
        let (access, attrs) =
            (operation(op::ACCESS, &0x3f_u32), operation(op::GETATTR, &LINUX_GETATTR));
        let operations = [putfh(&served.server.root), open, plain(op::GETFH), access, attrs];
        session.record(&served.server, &operations)
    };
    Calls { before: vec![record(b"one"), record(b"two")], counted: record(b"six"), range_min: None }
}

fn creating(session: &Session, name: &[u8]) -> Vec<u8> {
    let attrs = Fattr4 { mask: Bitmap4::of(&[attr::MODE]), values: Bytes(&[0, 0, 1, 0xa4]) };
    let how = OpenHow4::Create(Createhow4::Unchecked(attrs));
    operation(op::OPEN, &OpenArgs { how, ..session.open_args(name) })
}

/// Closes files that were created, and then removes them.
fn created(served: &Served, removes: bool) -> Calls {
    let session = Session::new(&served.server);
    let root = || putfh(&served.server.root);
    let [one, two, six] = [b"one", b"two", b"six"].map(|name| {
        session.run(&served.server, &[root(), creating(&session, name)]);
        let (handle, stateid) = session.open_with_handle(&served.server, name);
        let close = operation(op::CLOSE, &CloseArgs { seqid: 0, stateid });
        if removes {
            session.run(&served.server, &[putfh(&handle), close]);
            return vec![root(), operation(op::REMOVE, &Bytes::<255>(name))];
        }
        vec![putfh(&handle), close]
    });
    let record = |operations: &[Vec<u8>]| session.record(&served.server, operations);
    Calls { before: vec![record(&one), record(&two)], counted: record(&six), range_min: None }
}

pub fn close(served: &Served) -> Calls {
    created(served, false)
}

pub fn remove(served: &Served) -> Calls {
    created(served, true)
}

/// The same of a file that other owners have open already.
pub fn open_close_shared(served: &Served) -> Calls {
    let session = Session::new(&served.server);
    for owner in 0..OTHERS {
        let owner = owner.to_be_bytes();
        let args = OpenArgs {
            owner: OpenOwner4 { clientid: 0, owner: Bytes(&owner) },
            ..session.open_args(b"file")
        };
        session.run(&served.server, &[putfh(&served.server.root), operation(op::OPEN, &args)]);
    }
    let open = operation(op::OPEN, &session.open_args(b"file"));
    let close = operation(op::CLOSE, &CloseArgs { seqid: 0, stateid: Stateid4::CURRENT });
    repeated(served, &session, &[putfh(&served.server.root), open, close])
}

/// As the Linux client asks whether it may open a file.
pub fn access_getattr(served: &Served) -> Calls {
    let access = operation(op::ACCESS, &0x3f_u32);
    on_file(served, &[access, operation(op::GETATTR, &LINUX_CACHE_CONSISTENCY)])
}

pub fn readdir(served: &Served) -> Calls {
    listed(served, LINUX_GETATTR)
}

/// With handles, and errors in the place of attributes, as the Linux client asks for entries.
pub fn readdir_whole(served: &Served) -> Calls {
    listed(served, LINUX_GETATTR.or(&Bitmap4::of(&[attr::RDATTR_ERROR, attr::FILEHANDLE])))
}

fn listed(served: &Served, attrs: Bitmap4) -> Calls {
    served.fill_directory();
    std::thread::sleep(super::OLD);
    let (cookieverf, dircount, maxcount) = ([0; 8], 8192, 32_768);
    let args = ReaddirArgs { cookie: 0, cookieverf, dircount, maxcount, attrs };
    let session = Session::new(&served.server);
    repeated(served, &session, &[putfh(&served.server.root), operation(op::READDIR, &args)])
}
