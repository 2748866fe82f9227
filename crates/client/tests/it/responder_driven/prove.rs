//! The self-proof against a server of one directory, correct and faulty.

use super::responder::{marked, reply_to, tcp};
use bowline_client::Client;
use bowline_client::prove::{self, Proof, ProveError};
use proto::layout::Bytes;
use proto::mount::{self, Flavors, Mount3Result, MountError, Mounted3};
use proto::nfs3::{
    DirOpArgs3, EntryPlus3, Fattr3, Fh, FileType3, FsinfoOk, LookupOk, Nfsstat3, Nfstime3, NoBody,
    PostOpAttr, ReadArgs, ReadOk, ReaddirplusOk, Res, procedure as p,
};
use proto::rpc::CallHeader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use xdr::{Encode, Reader, Writer};

/// The files of the export: name and contents.
type Files = Vec<(&'static str, Vec<u8>)>;

fn attr(ftype: FileType3, size: usize) -> Fattr3 {
    let time = Nfstime3::default();
    Fattr3 {
        ftype,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: u64::try_from(size).unwrap(),
        used: 0,
        rdev: proto::nfs3::Specdata3::default(),
        fsid: 1,
        fileid: 2,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

/// Serves `files`; READs return at most `short` bytes. Handles are the file's name.
fn server(files: Files, short: usize) -> SocketAddr {
    tcp(move |record| {
        let mut r = Reader::new(record);
        let call: CallHeader<'_> = r.get().unwrap();
        let mut w = Writer::new();
        match (call.program, call.procedure) {
            (mount::PROGRAM, mount::procedure::MNT) => {
                let flavors = Flavors::new(&[1]).unwrap();
                w.put(&Mount3Result::Ok(Mounted3 { handle: b"/", flavors }));
            }
            (mount::PROGRAM, _) => {}
            (_, number) => nfs(&files, short, number, &mut r, &mut w),
        }
        marked(&reply_to(record, w.bytes()))
    })
}

fn nfs(files: &Files, short: usize, number: u32, r: &mut Reader<'_>, w: &mut Writer) {
    let contents = |name: &[u8]| &files.iter().find(|f| f.0.as_bytes() == name).unwrap().1;
    match number {
        p::FSINFO => ok(w, &fsinfo()),
        p::GETATTR => {
            let fh: Fh<'_> = r.get().unwrap();
            ok(w, &attr(FileType3::Reg, contents(fh.0).len()));
        }
        p::LOOKUP => {
            let args: DirOpArgs3<'_> = r.get().unwrap();
            ok(w, &LookupOk { object: Bytes(args.name.0), attr: None, dir: None });
        }
        p::READ => {
            let args: ReadArgs<'_> = r.get().unwrap();
            if args.file.0 == b"private" {
                return w.put(&Res::<NoBody, PostOpAttr>::Fail(Nfsstat3::Acces, None));
            }
            let all = contents(args.file.0);
            let start = usize::try_from(args.offset).unwrap().min(all.len());
            let end = all.len().min(start + short.min(args.count as usize));
            let count = u32::try_from(end - start).unwrap();
            let data = Bytes(&all[start..end]);
            ok(w, &ReadOk { attr: None, count, eof: end == all.len(), data });
        }
        p::READDIRPLUS => ok(w, &listing(files)),
        other => panic!("procedure {other}"),
    }
}

fn ok(w: &mut Writer, result: &impl Encode) {
    w.put(&Nfsstat3::Ok);
    w.put(result);
}

fn fsinfo() -> FsinfoOk {
    FsinfoOk {
        attr: None,
        rtmax: 1024,
        rtpref: 1024,
        rtmult: 1,
        wtmax: 1024,
        wtpref: 1024,
        wtmult: 1,
        dtpref: 1024,
        maxfilesize: 1 << 40,
        time_delta: Nfstime3::default(),
        properties: 0,
    }
}

fn listing(files: &Files) -> ReaddirplusOk<'_> {
    let dot = |name: &'static [u8]| EntryPlus3 {
        fileid: 1,
        name: Bytes(name),
        cookie: 1,
        attr: Some(attr(FileType3::Dir, 9)),
        handle: None,
    };
    let mut entries = vec![dot(b"."), dot(b"..")];
    entries.extend(files.iter().map(|(name, data)| EntryPlus3 {
        fileid: 2,
        name: Bytes(name.as_bytes()),
        cookie: 2,
        attr: Some(attr(FileType3::Reg, data.len())),
        handle: None,
    }));
    ReaddirplusOk { dir: None, verf: [0; 8], entries, eof: true }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

fn prove(addr: SocketAddr, path: &[u8], dir: Option<&Path>) -> Result<Proof, ProveError> {
    prove::prove(Client::tcp(addr, prove::TIMEOUT).unwrap(), path, dir)
}

/// A new directory with one file.
fn local(name: &str, data: &[u8]) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("bowline-prove-{}-{number}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join(name), data).unwrap();
    dir
}

#[test]
fn a_whole_file_is_read_and_compared() {
    let data = pattern(10_000);
    let dir = local("big", &data);
    let files = vec![("empty", Vec::new()), ("private", vec![1]), ("big", data)];
    // Short reads leave gaps between the calls in flight, which must be filled.
    for short in [1024, 700, 1] {
        let proof = prove(server(files.clone(), short), b"/x", Some(&dir)).unwrap();
        assert_eq!((proof.entries, proof.bytes, proof.compared), (3, 10_000, true));
        assert_eq!(proof.file.as_deref(), Some("big"));
        assert!(proof.elapsed_us > 0);
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_wrong_byte_is_found() {
    let mut data = pattern(5000);
    let dir = local("f", &data);
    data[4321] ^= 1;
    let error = prove(server(vec![("f", data)], 1024), b"/x", Some(&dir)).unwrap_err();
    assert!(matches!(error, ProveError::Differs { offset: 4321, .. }), "{error:?}");
    std::fs::write(dir.join("f"), pattern(4000)).unwrap();
    let error = prove(server(vec![("f", pattern(5000))], 1024), b"/x", Some(&dir)).unwrap_err();
    assert!(matches!(error, ProveError::Differs { offset: 4000, .. }), "{error:?}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_directory_without_files_proves_the_listing() {
    let proof = prove(server(Vec::new(), 1024), b"/x", None).unwrap();
    assert_eq!((proof.entries, proof.file, proof.compared), (0, None, false));
    let proof = prove(server(vec![("private", vec![1])], 1024), b"/x", None).unwrap();
    assert_eq!((proof.entries, proof.file), (1, None));
}

#[test]
fn a_file_that_is_only_served_cannot_be_compared() {
    let dir = local("other", b"x");
    let error = prove(server(vec![("f", vec![1])], 1024), b"/x", Some(&dir)).unwrap_err();
    assert!(matches!(error, ProveError::Local { .. }), "{error:?}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_refused_mount_is_reported_as_such() {
    let addr = tcp(|record| {
        let mut w = Writer::new();
        w.put(&Mount3Result::Err(MountError::NoEnt));
        marked(&reply_to(record, w.bytes()))
    });
    let error = prove(addr, b"/x", None).unwrap_err();
    assert!(matches!(error, ProveError::Call { step: "mounting", .. }), "{error:?}");
}
