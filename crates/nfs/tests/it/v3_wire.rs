//! What version 3 puts on the wire, byte by byte and limit by limit, over a backend whose every
//! answer is known.

use crate::support::fixed::{CONTENTS, COOKIES, Fixed, VERIFIER};
use crate::support::{TestServer, at, decoded, exports, wire};
use proto::nfs3::{
    AccessArgs, AccessOk, Bytes, CommitArgs, CommitOk, CreateArgs, CreateHow3, Fattr3, FsinfoOk,
    FsstatOk, LinkArgs, LinkRes, LookupOk, MadeOk, MkdirArgs, MknodArgs, MknodData3, Nfsstat3,
    NoBody, PathconfOk, PostOpAttr, ReadArgs, ReadOk, ReaddirArgs, ReaddirOk, ReaddirplusArgs,
    ReaddirplusOk, RenameArgs, RenameRes, Res, Sattr3, SetTime3, SetattrArgs, StableHow,
    SymlinkArgs, WccData, WriteArgs, WriteOk, fsf, procedure as p,
};
use rpc::{Fault, KeepReply, Program, Transport};
use std::sync::Arc;

fn server() -> TestServer {
    TestServer::new(exports::of(&[("/fixed", Arc::new(Fixed { long: false }), exports::RW)]))
}

fn file(server: &TestServer) -> Vec<u8> {
    let seen: Res<LookupOk<'_>, PostOpAttr> = server.v3(p::LOOKUP, &at(&server.root(), b"file"));
    seen.into_result().unwrap().object.0.to_vec()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// `fattr3` of the fixed file.
fn file_attr() -> Vec<u8> {
    words(&[1, 0o644, 1, 1000, 100, 0, 12, 0, 4096, 0, 0, 0, 0x55, 0, 2, 1, 2, 3, 4, 5, 6])
}

/// `fattr3` of the fixed directory.
fn dir_attr() -> Vec<u8> {
    words(&[2, 0o755, 2, 1000, 100, 0, 12, 0, 4096, 0, 0, 0, 0x55, 0, 1, 1, 2, 3, 4, 5, 6])
}

#[test]
fn getattr_is_status_and_attributes() {
    let server = server();
    let reply = server.try_call(3, p::GETATTR, &wire(&Bytes::<64>(&file(&server)))).unwrap();
    assert_eq!(reply.bytes, [words(&[0]), file_attr()].concat());
    assert_eq!(reply.outcome.export, Some(0));
    assert_eq!(reply.outcome.status, 0);
}

#[test]
fn a_failed_lookup_has_the_attributes_of_the_directory() {
    let server = server();
    let reply = server.try_call(3, p::LOOKUP, &wire(&at(&server.root(), b"none"))).unwrap();
    assert_eq!(reply.bytes, [words(&[2, 1]), dir_attr()].concat());
    assert_eq!(reply.outcome.status, 2);
}

#[test]
fn read_encodes_attributes_before_data() {
    let server = server();
    let args = ReadArgs { file: Bytes(&file(&server)), offset: 7, count: 100 };
    let reply = server.try_call(3, p::READ, &wire(&args)).unwrap();
    let expected =
        [words(&[0, 1]), file_attr(), words(&[5, 1, 5]), b"world\0\0\0".to_vec()].concat();
    assert_eq!(reply.bytes, expected);
    assert_eq!(reply.outcome.bytes_read, 5);
}

#[test]
fn a_short_read_is_not_the_end() {
    let server = server();
    let file = file(&server);
    let read = |offset, count| -> ReadOk<'_> {
        let args = ReadArgs { file: Bytes(&file), offset, count };
        server.v3::<Res<ReadOk<'_>, PostOpAttr>>(p::READ, &args).into_result().unwrap()
    };
    assert_eq!((read(0, 5).data.0, read(0, 5).eof), (&CONTENTS[..5], false));
    assert_eq!((read(0, 12).data.0, read(0, 12).eof), (CONTENTS, true));
    assert_eq!((read(99, 12).count, read(99, 12).eof), (0, true));
}

#[test]
fn data_procedures_on_a_directory_are_invalid() {
    let server = server();
    let root = server.root();
    let args = ReadArgs { file: Bytes(&root), offset: 0, count: 1 };
    let reply = server.try_call(3, p::READ, &wire(&args)).unwrap();
    assert_eq!(reply.bytes, [words(&[22, 1]), dir_attr()].concat());
    let args =
        WriteArgs { file: Bytes(&root), offset: 0, stable: StableHow::FileSync, data: Bytes(b"x") };
    let result: Res<WriteOk, WccData> = server.v3(p::WRITE, &args);
    assert_eq!(result.status(), Nfsstat3::Inval);
}

#[test]
fn reads_beyond_the_largest_offset_are_empty_and_writes_are_too_big() {
    let server = server();
    let file = file(&server);
    for offset in [(1 << 63) - 1, 1 << 63, u64::MAX] {
        let args = ReadArgs { file: Bytes(&file), offset, count: 4096 };
        let read: Res<ReadOk<'_>, PostOpAttr> = server.v3(p::READ, &args);
        let read = read.into_result().unwrap();
        assert_eq!((read.count, read.eof, read.data.0), (0, true, &b""[..]));
    }
    for offset in [u64::MAX, (1 << 63) - 1] {
        let args = WriteArgs {
            file: Bytes(&file),
            offset,
            stable: StableHow::Unstable,
            data: Bytes(b"xx"),
        };
        let write: Res<WriteOk, WccData> = server.v3(p::WRITE, &args);
        assert_eq!(write.status(), Nfsstat3::FBig);
    }
}

#[test]
fn transfers_over_udp_are_smaller() {
    let mut server = server();
    let info = |server: &TestServer| {
        let root = server.root();
        let info: Res<FsinfoOk, PostOpAttr> = server.v3(p::FSINFO, &Bytes::<64>(&root));
        info.into_result().unwrap()
    };
    let tcp = info(&server);
    assert_eq!((tcp.rtmax, tcp.wtmax, tcp.dtpref), (1 << 20, 1 << 20, 1 << 16));
    assert_eq!((tcp.rtmult, tcp.maxfilesize), (4096, 1 << 44));
    assert_eq!(tcp.properties, fsf::LINK | fsf::SYMLINK | fsf::HOMOGENEOUS | fsf::CANSETTIME);
    assert_eq!(tcp.time_delta.nseconds, 1);
    server.transport = Transport::Udp;
    let udp = info(&server);
    assert_eq!((udp.rtmax, udp.rtpref, udp.wtmax, udp.dtpref), (61_440, 61_440, 61_440, 61_440));
    let args = WriteArgs {
        file: Bytes(&file(&server)),
        offset: 0,
        stable: StableHow::DataSync,
        data: Bytes(&[7; 62_000]),
    };
    let reply = server.try_call(3, p::WRITE, &wire(&args)).unwrap();
    assert_eq!(reply.outcome.bytes_written, 61_440);
    let written: Res<WriteOk, WccData> = decoded(reply.bytes);
    let written = written.into_result().unwrap();
    assert_eq!((written.count, written.committed), (61_440, StableHow::DataSync));
    assert_eq!(written.verf, VERIFIER);
    assert!(written.file.before.is_some() && written.file.after.is_some());
}

#[test]
fn readdir_respects_count() {
    let server = server();
    let root = server.root();
    let list = |cookie, count| -> Res<ReaddirOk<'_>, PostOpAttr> {
        let args = ReaddirArgs { dir: Bytes(&root), cookie, verf: [0; 8], count };
        let reply = server.try_call(3, p::READDIR, &wire(&args)).unwrap();
        assert!(reply.bytes.len() <= count as usize + 4 || reply.bytes[3] != 0);
        decoded(reply.bytes)
    };
    let all = list(0, 4096).into_result().unwrap();
    let names: Vec<&[u8]> = all.entries.iter().map(|e| e.name.0).collect();
    assert_eq!((names, all.eof), (vec![b".".as_slice(), b"..", b"file"], true));
    assert_eq!(all.entries[2].cookie, COOKIES + 3);
    // attributes 88, verifier 8, three entries of 28, the end 8
    let exact = list(0, 88 + 8 + 3 * 28 + 8).into_result().unwrap();
    assert_eq!((exact.entries.len(), exact.eof), (3, true));
    let less = list(0, 88 + 8 + 3 * 28 + 7).into_result().unwrap();
    assert_eq!((less.entries.len(), less.eof), (2, false));
    let rest = list(less.entries[1].cookie, 4096).into_result().unwrap();
    assert_eq!((rest.entries.len(), rest.eof), (1, true));
    assert_eq!(list(0, 88 + 8 + 27 + 8).status(), Nfsstat3::TooSmall);
    assert_eq!(list(0, 0).status(), Nfsstat3::TooSmall);
    let nothing = list(COOKIES + 3, 104).into_result().unwrap();
    assert_eq!((nothing.entries.len(), nothing.eof), (0, true));
}

#[test]
fn readdirplus_respects_dircount_and_maxcount() {
    let server = server();
    let root = server.root();
    let list = |dircount, maxcount| -> Res<ReaddirplusOk<'_>, PostOpAttr> {
        let dir = Bytes(root.as_slice());
        let args = ReaddirplusArgs { dir, cookie: 0, verf: [0; 8], dircount, maxcount };
        server.v3(p::READDIRPLUS, &args)
    };
    let all = list(4096, 4096).into_result().unwrap();
    assert_eq!((all.entries.len(), all.eof), (3, true));
    assert_eq!(all.entries[0].handle.unwrap().0, root);
    assert_eq!((all.entries[1].handle, all.entries[1].attr), (None, None));
    assert_eq!(all.entries[2].handle.unwrap().0, file(&server));
    assert_eq!(wire(&all.entries[2].attr.unwrap()), file_attr());
    // 24 bytes of a name, a file id and a cookie each
    assert_eq!(list(48, 4096).into_result().unwrap().entries.len(), 2);
    assert_eq!(list(1, 4096).into_result().unwrap().entries.len(), 1);
    assert_eq!(list(4096, 110).status(), Nfsstat3::TooSmall);
}

#[test]
fn every_failure_has_its_body() {
    let server = server();
    let root = server.root();
    let file = file(&server);
    let place = at(&root, b"new");
    let wcc = |procedure, args: &[u8]| -> Nfsstat3 {
        let reply = server.try_call(3, procedure, args).unwrap();
        let result: Res<NoBody, WccData> = decoded(reply.bytes);
        let Res::Fail(status, WccData { before: None, after: Some(_) }) = result else {
            panic!("{result:?}");
        };
        assert_eq!(reply.outcome.status, status.number());
        status
    };
    let set = Sattr3::default();
    let args = SetattrArgs { object: Bytes(&file), set, guard: None };
    assert_eq!(wcc(p::SETATTR, &wire(&args)), Nfsstat3::Jukebox);
    let args = CreateArgs { place, how: CreateHow3::Guarded(set) };
    assert_eq!(wcc(p::CREATE, &wire(&args)), Nfsstat3::NoSpc);
    assert_eq!(wcc(p::MKDIR, &wire(&MkdirArgs { place, set })), Nfsstat3::DQuot);
    let args = SymlinkArgs { place, set, target: Bytes(b"x") };
    assert_eq!(wcc(p::SYMLINK, &wire(&args)), Nfsstat3::NotSupp);
    let args = MknodArgs { place, what: MknodData3::Fifo(set) };
    assert_eq!(wcc(p::MKNOD, &wire(&args)), Nfsstat3::Perm);
    let args = MknodArgs { place, what: MknodData3::Reg };
    assert_eq!(wcc(p::MKNOD, &wire(&args)), Nfsstat3::BadType);
    assert_eq!(wcc(p::REMOVE, &wire(&place)), Nfsstat3::Acces);
    assert_eq!(wcc(p::RMDIR, &wire(&place)), Nfsstat3::NotEmpty);
    let renamed: Res<NoBody, RenameRes> =
        server.v3(p::RENAME, &RenameArgs { from: place, to: at(&root, b"to") });
    assert!(matches!(renamed, Res::Fail(Nfsstat3::XDev, r) if r.to.after.is_some()));
    let linked: Res<NoBody, LinkRes> =
        server.v3(p::LINK, &LinkArgs { file: Bytes(&file), link: place });
    assert!(matches!(linked, Res::Fail(Nfsstat3::MLink, r) if r.dir.after.is_some()));
    let stat: Res<FsstatOk, PostOpAttr> = server.v3(p::FSSTAT, &Bytes::<64>(&root));
    assert!(matches!(stat, Res::Fail(Nfsstat3::Io, Some(_))));
}

#[test]
fn a_created_object_that_is_already_removed_has_no_handle_in_the_result() {
    let server = server();
    let root = server.root();
    for name in [b"file", b"gone"] {
        let args = MkdirArgs { place: at(&root, name), set: Sattr3::default() };
        let reply = server.try_call(3, p::MKDIR, &wire(&args)).unwrap();
        // success, no handle, no attributes; of the directory those after it
        assert_eq!(reply.bytes, [words(&[0, 0, 0, 0, 1]), dir_attr()].concat());
    }
}

#[test]
fn invalid_names_fail_with_the_status_of_rfc_1813() {
    let server = server();
    let root = server.root();
    let status = |procedure, name: &[u8]| {
        let result: Res<NoBody, WccData> = server.v3(procedure, &at(&root, name));
        result.status()
    };
    assert_eq!(status(p::RMDIR, b"."), Nfsstat3::Inval);
    assert_eq!(status(p::RMDIR, b".."), Nfsstat3::Exist);
    assert_eq!(status(p::REMOVE, b""), Nfsstat3::Acces);
    assert_eq!(status(p::REMOVE, b"a/b"), Nfsstat3::Acces);
    assert_eq!(status(p::REMOVE, &[b'x'; 256]), Nfsstat3::NameTooLong);
    let place = at(&root, b"..");
    let made: Res<MadeOk<'_>, WccData> =
        server.v3(p::MKDIR, &MkdirArgs { place, set: Sattr3::default() });
    assert_eq!(made.status(), Nfsstat3::Exist);
}

#[test]
fn invalid_attributes_are_refused_before_the_backend_is_called() {
    let server = server();
    let file = file(&server);
    let late = SetTime3::Client(proto::nfs3::Nfstime3 { seconds: 1, nseconds: 1_000_000_000 });
    let status = |set| {
        let args = SetattrArgs { object: Bytes(&file), set, guard: None };
        server.v3::<Res<WccData, WccData>>(p::SETATTR, &args).status()
    };
    assert_eq!(status(Sattr3 { atime: late, ..Sattr3::default() }), Nfsstat3::Inval);
    assert_eq!(status(Sattr3 { size: Some(u64::MAX), ..Sattr3::default() }), Nfsstat3::FBig);
}

#[test]
fn truncated_and_trailing_arguments_are_garbage_args() {
    let server = server();
    let mut args = wire(&Bytes::<64>(&server.root()));
    args.extend([0; 4]);
    assert!(matches!(server.try_call(3, p::GETATTR, &args), Err(Fault::GarbageArgs(_))));
    let long = wire(&Bytes::<99>(&[1; 65]));
    assert!(matches!(server.try_call(3, p::GETATTR, &long), Err(Fault::GarbageArgs(_))));
    for procedure in 1..22 {
        assert!(server.try_call(3, procedure, &[0, 0, 0]).is_err(), "{procedure}");
        assert!(bowline_nfs::v3::decode_all_args(procedure, &[0, 0, 0]).is_err(), "{procedure}");
    }
    // what follows where no arguments are is nothing to the call
    for version in [2, 3] {
        for args in [&[][..], &[0; 8]] {
            assert!(server.try_call(version, p::NULL, args).unwrap().bytes.is_empty());
        }
    }
    assert_eq!(bowline_nfs::v3::decode_all_args(p::NULL, &[0; 8]), Ok(()));
    assert_eq!(bowline_nfs::v2::decode_all_args(p::NULL, &[0; 8]), Ok(()));
}

#[test]
fn forged_handles_are_bad_and_handles_of_removed_exports_stale() {
    let server = server();
    let status = |handle: &[u8]| -> Nfsstat3 {
        server.v3::<Res<Fattr3, NoBody>>(p::GETATTR, &Bytes::<64>(handle)).status()
    };
    assert_eq!(status(&[]), Nfsstat3::BadHandle);
    assert_eq!(status(&[9; 64]), Nfsstat3::BadHandle);
    let exports = &server.nfs().exports;
    let gone = vfs::Fid::new(b"gone").unwrap();
    let table = exports.load();
    let gone = table.exports()[0].seal(&gone);
    assert_eq!(status(gone.bytes()), Nfsstat3::Stale);
}

#[test]
fn other_clients_are_refused() {
    let mut server = server();
    server.client = "192.0.2.1:700";
    let root = server.root();
    let result: Res<Fattr3, NoBody> = server.v3(p::GETATTR, &Bytes::<64>(&root));
    assert_eq!(result.status(), Nfsstat3::Acces);
}

#[test]
fn a_read_only_export_grants_no_write_permission_and_refuses_changes() {
    let server =
        TestServer::new(exports::of(&[("/fixed", Arc::new(Fixed { long: false }), exports::RO)]));
    let root = server.root();
    let place = at(&root, b"new");
    let removed: Res<WccData, WccData> = server.v3(p::REMOVE, &place);
    assert!(matches!(removed, Res::Fail(Nfsstat3::RoFs, wcc) if wcc.after.is_some()));
    let args = AccessArgs { object: Bytes(&root), access: 0xffff_ffff };
    let granted: Res<AccessOk, PostOpAttr> = server.v3(p::ACCESS, &args);
    assert_eq!(granted.into_result().unwrap().access, 0x23);
    let args = WriteArgs {
        file: Bytes(&file(&server)),
        offset: 0,
        stable: StableHow::Unstable,
        data: Bytes(b""),
    };
    assert_eq!(server.v3::<Res<WriteOk, WccData>>(p::WRITE, &args).status(), Nfsstat3::RoFs);
}

#[test]
fn two_exports_are_two_file_systems() {
    let of = |path| (path, Arc::new(Fixed { long: false }) as Arc<dyn vfs::Backend>, exports::RW);
    let server = TestServer::new(exports::of(&[of("/a"), of("/b")]));
    let (a, b) = (server.root_of(0), server.root_of(1));
    let args = RenameArgs { from: at(&a, b"x"), to: at(&b, b"x") };
    let renamed: Res<RenameRes, RenameRes> = server.v3(p::RENAME, &args);
    assert_eq!(renamed.status(), Nfsstat3::XDev);
    let args = LinkArgs { file: Bytes(&a), link: at(&b, b"x") };
    assert_eq!(server.v3::<Res<LinkRes, LinkRes>>(p::LINK, &args).status(), Nfsstat3::XDev);
    let reply = server.try_call(3, p::GETATTR, &wire(&Bytes::<64>(&b))).unwrap();
    assert_eq!(reply.outcome.export, Some(1));
}

#[test]
fn results_of_small_procedures_are_byte_exact() {
    let server = server();
    let (root, file) = (server.root(), file(&server));
    let args = AccessArgs { object: Bytes(&root), access: 0x1f };
    let granted: Res<AccessOk, PostOpAttr> = server.v3(p::ACCESS, &args);
    assert_eq!(granted.into_result().unwrap().access, 0x1f);
    let conf: Res<PathconfOk, PostOpAttr> = server.v3(p::PATHCONF, &Bytes::<64>(&root));
    let conf = conf.into_result().unwrap();
    assert_eq!((conf.linkmax, conf.name_max), (32_000, 255));
    assert!(conf.no_trunc && conf.chown_restricted && conf.case_preserving);
    assert!(!conf.case_insensitive);
    let args = CommitArgs { file: Bytes(&file), offset: 0, count: 0 };
    let done: Res<CommitOk, WccData> = server.v3(p::COMMIT, &args);
    assert_eq!(done.into_result().unwrap().verf, VERIFIER);
}

#[test]
fn every_procedure_has_its_plan() {
    let server = server();
    let program = &server.program;
    let rows = |version| (0..).map_while(move |n| program.row(version, n));
    let kept = |keep: KeepReply| -> Vec<&'static str> {
        rows(3).filter(|row| row.plan.keep() == keep).map(|row| row.name).collect()
    };
    let names =
        ["SETATTR", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK"];
    assert_eq!(kept(KeepReply::Always), names);
    assert_eq!(kept(KeepReply::OverUdp), ["WRITE"]);
    assert!(rows(3).all(|row| !row.plan.blocks()), "the backend knows better");
    assert!(rows(3).all(|row| !row.plan.is_urgent()));
    assert_eq!((rows(3).count(), rows(2).count()), (22, 18));
}
