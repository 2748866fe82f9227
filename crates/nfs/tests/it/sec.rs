//! `sec=`: which security flavours an export accepts, and what MNT lists of them.

use crate::support::exports::{RW, mem, of};
use crate::support::{Awake, wire};
use bowline_nfs::mount::{Mount, mount_program};
use bowline_nfs::{Nfs, NfsSettings, nfs_program};
use export::exports_file::parse;
use export::{Exports, Options};
use proto::mount::{AUTH_NONE, AUTH_SYS, DirPath, Mount3Result, procedure as mount};
use proto::nfs2::{self, Nfsstat2};
use proto::nfs3::{Bytes, Fh, Nfsstat3, procedure as p};
use rpc::{AuthSys, Call, Credential, Fault, Peer, Program, Transport, TransportSecurity};
use std::sync::Arc;
use xdr::{Reader, Writer};

/// An export with this `sec=`; without one if it is empty.
fn exports(sec: &str) -> Arc<Exports> {
    let parsed = parse(format!("/mem *({sec})").as_bytes());
    assert_eq!(parsed.errors, [], "{sec}");
    let options = Options { flavors: parsed.entries[0].rules[0].options.flavors, ..RW };
    Arc::new(of(&[("/mem", mem(), options)]))
}

fn peer() -> Peer {
    Peer {
        addr: "127.0.0.1:700".parse().unwrap(),
        local: "127.0.0.1:2049".parse().unwrap(),
        transport: Transport::Tcp,
        security: TransportSecurity::PLAIN,
    }
}

/// The reply's result of a call of a program.
fn ask(
    program: &impl Program,
    credential: Credential<'_>,
    (version, procedure): (u32, u32),
    args: &[u8],
) -> Vec<u8> {
    let peer = peer();
    let mut call = Call::new(1, &peer, credential, &Awake);
    let mut reply = Writer::new();
    let row = program.row(version, procedure).unwrap().id;
    program.run(row, &mut call, &mut Reader::new(args), &mut reply).unwrap();
    reply.bytes().to_vec()
}

fn sys() -> Credential<'static> {
    Credential::Sys(AuthSys::new(b"test", 0, 0, &[]).unwrap())
}

fn status(reply: &[u8]) -> u32 {
    Reader::new(reply).u32().unwrap()
}

#[test]
fn calls_of_other_flavors_are_refused_in_both_versions() {
    for (sec, accepts_sys, accepts_none) in [
        ("", true, true),
        ("sec=sys", true, false),
        ("sec=none", false, true),
        ("sec=krb5:sys", true, false),
        ("sec=none:sys", true, true),
    ] {
        let exports = exports(sec);
        let table = exports.load();
        let export = &table.exports()[0];
        let root = export.seal(&export.backend.root());
        let program = nfs_program(Arc::new(Nfs::new(exports.clone(), NfsSettings::default())));
        let mut short = [0; nfs2::FHSIZE];
        short[..root.bytes().len()].copy_from_slice(root.bytes());
        let long: Fh<'_> = Bytes(root.bytes());
        for (credential, accepted) in [(sys(), accepts_sys), (Credential::Anonymous, accepts_none)]
        {
            let v3 = status(&ask(&program, credential, (3, p::GETATTR), &wire(&long)));
            let v2 = status(&ask(&program, credential, (2, p::GETATTR), &short));
            let wanted = if accepted { Nfsstat3::Ok } else { Nfsstat3::Acces };
            assert_eq!(v3, wanted.number(), "{sec} {credential:?}");
            let wanted = if accepted { Nfsstat2::Ok } else { Nfsstat2::Acces };
            assert_eq!(v2, wanted.number(), "{sec} {credential:?}");
        }
    }
}

#[test]
fn mnt_lists_the_flavors_of_the_export_for_any_credential() {
    for (sec, flavors) in [
        ("", &[AUTH_SYS, AUTH_NONE][..]),
        ("sec=sys", &[AUTH_SYS]),
        ("sec=null:krb5", &[AUTH_NONE, 390_003]),
        ("sec=krb5p:krb5i:krb5:sys:none", &[390_005, 390_004, 390_003, AUTH_SYS, AUTH_NONE]),
        ("sec=none:unix", &[AUTH_NONE, AUTH_SYS]),
    ] {
        let program = mount_program(Arc::new(Mount::new(exports(sec))));
        for credential in [sys(), Credential::Anonymous] {
            let reply = ask(&program, credential, (3, mount::MNT), &wire(&DirPath(b"/mem")));
            let Mount3Result::Ok(mounted) = Reader::new(&reply).get().unwrap() else {
                panic!("{sec}: refused");
            };
            assert_eq!(mounted.flavors.list(), flavors, "{sec}");
        }
    }
}

#[test]
fn calls_by_a_channel_that_is_not_accepted_are_too_weak_and_mnt_is_answered() {
    let parsed = parse(b"/mem *(insecure,xprtsec=tls:mtls)");
    assert_eq!(parsed.errors, []);
    let options = Options { xprtsec: parsed.entries[0].rules[0].options.xprtsec, ..RW };
    let exports = Arc::new(of(&[("/mem", mem(), options)]));
    let table = exports.load();
    let export = &table.exports()[0];
    let root = export.seal(&export.backend.root());
    let program = nfs_program(Arc::new(Nfs::new(exports.clone(), NfsSettings::default())));
    let mut short = [0; nfs2::FHSIZE];
    short[..root.bytes().len()].copy_from_slice(root.bytes());
    let long: Fh<'_> = Bytes(root.bytes());
    let run = |security, row: (u32, u32), args: &[u8]| {
        let peer = Peer { security, ..peer() };
        let mut call = Call::new(1, &peer, sys(), &Awake);
        let row = program.row(row.0, row.1).unwrap().id;
        let mut reply = Writer::new();
        program.run(row, &mut call, &mut Reader::new(args), &mut reply)?;
        Ok(status(reply.bytes()))
    };
    for (security, wanted) in
        [(TransportSecurity::PLAIN, Err(Fault::TooWeak)), (TransportSecurity::TLS, Ok(0))]
    {
        assert_eq!(run(security, (3, p::GETATTR), &wire(&long)), wanted);
        assert_eq!(run(security, (3, p::FSINFO), &wire(&long)), wanted);
        assert_eq!(run(security, (2, p::GETATTR), &short), wanted);
    }
    let program = mount_program(Arc::new(Mount::new(exports.clone())));
    let reply = ask(&program, sys(), (3, mount::MNT), &wire(&DirPath(b"/mem")));
    assert_eq!(status(&reply), 0, "MNT comes in the clear");
}
