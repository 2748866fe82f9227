//! MOUNT's rows, called as the dispatcher calls them.

mod setting;
mod tree;

use bowline_nfs::mount::{MountEntry, RefusalReason};
use bowline_nfs::object::ClientRefused;
use proto::mount::{
    AUTH_NONE, AUTH_SYS, DirPath, ExportRow, Group, Mount1Result, Mount3Result, MountError,
    MountRow, decode_dump, decode_exports, procedure as p,
};
use rpc::{Fault, Program, Transport};
use setting::{Caller, MountServer};
use xdr::{Encode, Reader, Writer};

fn wire(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

/// MNT of version 3: the name of the object whose handle came, or the refusal.
fn mnt(server: &MountServer, caller: &Caller<'_>, path: &str) -> Result<&'static str, MountError> {
    let reply = server.ask(caller, 3, p::MNT, &wire(&DirPath(path.as_bytes()))).unwrap();
    match Reader::new(&reply).get::<Mount3Result<'_>>().unwrap() {
        Mount3Result::Ok(mounted) => {
            assert_eq!(mounted.flavors.list(), [AUTH_SYS, AUTH_NONE]);
            Ok(server.name_of(mounted.handle))
        }
        Mount3Result::Err(error) => Err(error),
    }
}

/// MNT of version 1 or 2.
fn mnt_old(server: &MountServer, caller: &Caller<'_>, version: u32, path: &str) -> Mount1Result {
    let reply = server.ask(caller, version, p::MNT, &wire(&DirPath(path.as_bytes()))).unwrap();
    Reader::new(&reply).get().unwrap()
}

fn paths(server: &MountServer) -> Vec<String> {
    server.mount.mounted().into_iter().map(|row| row.path).collect()
}

#[test]
fn a_path_below_an_export_becomes_a_handle() {
    let server = MountServer::new(16);
    let allowed = Caller::allowed();
    for (path, name) in [
        ("/srv/x", ""),
        ("//srv/x/", ""),
        ("/srv/./y/../x", ""),
        ("/srv/x/sub", "sub"),
        ("/srv/x//sub/deep/", "deep"),
        ("/srv/x/sub/../file", "file"),
        ("/srv/x/file", "file"),
    ] {
        assert_eq!(mnt(&server, &allowed, path), Ok(name), "{path}");
    }
}

#[test]
fn mnt_fails_with_the_status_of_the_cause() {
    let server = MountServer::new(16);
    let allowed = Caller::allowed();
    for (path, error) in [
        ("/srv/x/none", MountError::NoEnt),
        ("/srv/x/sub/none/deep", MountError::NoEnt),
        ("/srv", MountError::NoEnt),
        ("/srv/xy", MountError::NoEnt),
        ("/srv/x/../../etc", MountError::NoEnt),
        ("/srv/x/file/below", MountError::NotDir),
        ("/srv/x/link", MountError::NotDir),
        ("/srv/x/link/deep", MountError::NotDir),
        ("/srv/x/pipe", MountError::NotDir),
        ("srv/x", MountError::Inval),
        ("", MountError::Inval),
        ("/srv/x/\0", MountError::Inval),
    ] {
        assert_eq!(mnt(&server, &allowed, path), Err(error), "{path:?}");
    }
    let long = format!("/srv/x/{}", "n".repeat(256));
    assert_eq!(mnt(&server, &allowed, &long), Err(MountError::NameTooLong));
    assert_eq!(paths(&server), Vec::<String>::new());
}

#[test]
fn mnt_without_access_does_not_reveal_which_paths_exist() {
    let server = MountServer::new(16);
    for path in ["/srv/x", "/srv/x/sub", "/srv/x/none", "/srv/x/file/below"] {
        assert_eq!(mnt(&server, &Caller::denied(), path), Err(MountError::Acces), "{path}");
    }
    assert_eq!(server.sleeps(), 0);
    assert_eq!(mnt(&server, &Caller::denied(), "/srv/none"), Err(MountError::NoEnt));
}

#[test]
fn a_secure_export_requires_a_reserved_port() {
    let server = MountServer::new(16);
    let high = Caller { port: 1024, ..Caller::allowed() };
    assert_eq!(mnt(&server, &high, "/srv/x"), Err(MountError::Acces));
    assert_eq!(mnt(&server, &Caller { port: 1023, ..high }, "/srv/x"), Ok(""));
}

#[test]
fn the_reason_of_a_refused_mount_is_reported() {
    let (server, heard) = MountServer::new(16).with_refusals();
    let allowed = Caller::allowed();
    for (caller, path, why) in [
        (allowed, "srv/x", RefusalReason::NoPath),
        (allowed, "/srv", RefusalReason::NoExport),
        (allowed, "/srv/x/none", RefusalReason::Tree(vfs::Status::NoEnt)),
        (Caller { port: 1024, ..allowed }, "/srv/x", RefusalReason::Client(ClientRefused::Port)),
        (
            Caller { port: 1024, ..Caller::denied() },
            "/srv/x",
            RefusalReason::Client(ClientRefused::NotForClient),
        ),
        (Caller::denied(), "/named", RefusalReason::Client(ClientRefused::NotForClient)),
    ] {
        mnt(&server, &caller, path).unwrap_err();
        assert_eq!(heard.lock().unwrap().take(), Some(why), "{path}");
    }
    mnt_old(&server, &allowed, 1, "/srv");
    assert_eq!(heard.lock().unwrap().take(), Some(RefusalReason::NoExport));
    mnt(&server, &allowed, "/srv/x").unwrap();
    assert_eq!(heard.lock().unwrap().take(), None);
}

#[test]
fn a_client_allowed_by_name_is_looked_up() {
    let server = MountServer::new(16);
    let asked = |ip| {
        let caller = Caller { ip, ..Caller::allowed() };
        let args = wire(&DirPath(b"/named"));
        let reply = server.ask(&caller, 3, p::MNT, &args).unwrap();
        Reader::new(&reply).u32().unwrap()
    };
    assert_eq!(asked("127.0.0.1"), 0);
    assert_eq!(asked("192.0.2.1"), MountError::Acces.number());
    // The name service may take its time, so the worker was told, once for each client.
    assert_eq!(server.sleeps(), 2);
    assert_eq!(asked("127.0.0.1"), 0);
    assert_eq!(server.sleeps(), 2);
}

#[test]
fn mnt_of_versions_1_and_2_returns_32_byte_handles() {
    let server = MountServer::new(16);
    let allowed = Caller::allowed();
    for version in [1, 2] {
        let Mount1Result::Ok(handle) = mnt_old(&server, &allowed, version, "/srv/x/sub") else {
            panic!("refused");
        };
        assert_eq!(server.name_of_old(&handle), "sub");
        assert_eq!(mnt_old(&server, &allowed, version, "/srv/x/none"), Mount1Result::Err(2));
        assert_eq!(mnt_old(&server, &allowed, version, "/srv/x/link"), Mount1Result::Err(20));
        let stranger = Caller::denied();
        assert_eq!(mnt_old(&server, &stranger, version, "/srv/x"), Mount1Result::Err(13));
    }
}

#[test]
fn mnt_of_version_2_needs_aliases_for_long_handles() {
    let allowed = Caller::allowed();
    let without = MountServer::new(40);
    assert_eq!(mnt_old(&without, &allowed, 1, "/srv/x/sub"), Mount1Result::Err(95));
    assert_eq!(mnt(&without, &allowed, "/srv/x/sub"), Ok("sub"));
    let with = MountServer::new(40).with_nfs();
    let Mount1Result::Ok(handle) = mnt_old(&with, &allowed, 1, "/srv/x/sub") else {
        panic!("refused");
    };
    assert_eq!(with.name_of_old(&handle), "sub");
}

#[test]
fn dump_lists_host_path_and_time_of_each_mount() {
    let server = MountServer::new(16);
    let allowed = Caller { machine: Some("web-1"), ..Caller::allowed() };
    mnt(&server, &allowed, "/srv/x/").unwrap();
    let nameless = Caller { transport: Transport::Udp, machine: None, ..Caller::allowed() };
    mnt_old(&server, &nameless, 1, "/srv/x/sub");
    let row = |name: &str, path: &str, version, transport| MountEntry {
        client: nameless.ip.parse().unwrap(),
        name: name.to_owned(),
        path: path.to_owned(),
        version,
        transport,
        since_unix_s: 1_700_000_000,
    };
    let wanted = [row("web-1", "/srv/x", 3, "tcp"), row(nameless.ip, "/srv/x/sub", 1, "udp")];
    assert_eq!(server.mount.mounted(), wanted);

    let reply = server.ask(&Caller::denied(), 3, p::DUMP, b"").unwrap();
    let newest_first = [
        MountRow { host: nameless.ip.as_bytes(), path: b"/srv/x/sub" },
        MountRow { host: b"web-1", path: b"/srv/x" },
    ];
    assert_eq!(decode_dump(&mut Reader::new(&reply)).unwrap(), newest_first);
}

#[test]
fn umnt_removes_only_entries_of_the_calling_client() {
    let server = MountServer::new(16);
    let (allowed, other) = (Caller::allowed(), Caller { ip: "10.0.0.9", ..Caller::allowed() });
    for path in ["/srv/x", "/srv/x/sub"] {
        mnt(&server, &allowed, path).unwrap();
        mnt(&server, &other, path).unwrap();
    }
    let umnt = |caller: &Caller<'_>, path: &str| {
        let reply = server.ask(caller, 3, p::UMNT, &wire(&DirPath(path.as_bytes())));
        assert_eq!(reply, Ok(Vec::new()));
        paths(&server).len()
    };
    assert_eq!(umnt(&Caller::denied(), "/srv/x"), 4);
    assert_eq!(umnt(&allowed, "/srv//x/"), 3);
    assert_eq!(umnt(&allowed, "not a path"), 3);
    assert_eq!(server.ask(&other, 1, p::UMNTALL, b""), Ok(Vec::new()));
    assert_eq!(paths(&server), ["/srv/x/sub"]);
}

#[test]
fn exports_are_listed_with_their_clients() {
    let server = MountServer::new(16);
    let wanted = [
        ExportRow { path: b"/srv/x", groups: vec![Group(b"10.0.0.0/8"), Group(b"192.168.7.7")] },
        ExportRow { path: b"/open", groups: vec![] },
        ExportRow { path: b"/named", groups: vec![Group(b"localhost")] },
    ];
    for (version, procedure) in [(1, p::EXPORT), (2, p::EXPORTALL), (3, p::EXPORT)] {
        let reply = server.ask(&Caller::denied(), version, procedure, b"").unwrap();
        assert_eq!(decode_exports(&mut Reader::new(&reply)).unwrap(), wanted);
    }
}

#[test]
fn dump_over_udp_is_bounded() {
    let server = MountServer::new(16);
    for n in 0..900 {
        let ip = format!("10.1.{}.{}", n / 250, n % 250);
        mnt(&server, &Caller { ip: &ip, ..Caller::allowed() }, "/srv/x/sub").unwrap();
    }
    let rows = |transport| {
        let caller = Caller { ip: "127.0.0.1", transport, ..Caller::allowed() };
        let reply = server.ask(&caller, 3, p::DUMP, b"").unwrap();
        let rows = decode_dump(&mut Reader::new(&reply)).unwrap().len();
        (rows, reply.len())
    };
    assert_eq!(rows(Transport::Tcp).0, 900);
    let (some, len) = rows(Transport::Udp);
    assert!(some > 100 && len <= 8196, "{some} rows in {len} bytes");
    // and goes to this machine only: whoever seems to have sent the call may not have
    let far = Caller { transport: Transport::Udp, ..Caller::allowed() };
    for procedure in [p::DUMP, p::EXPORT] {
        assert_eq!(server.ask(&far, 3, procedure, b""), Err(Fault::Silence));
    }
}

#[test]
fn the_table_of_procedures_is_complete() {
    let server = MountServer::new(16);
    let program = server.program();
    assert_eq!((program.number(), program.versions()), (100_005, vec![1, 2, 3]));
    let program = &program;
    let rows = |version| (0..).map_while(move |n| program.row(version, n));
    assert_eq!([1, 2, 3].map(|v| rows(v).count()), [7, 7, 6]);
    for version in [1, 2, 3] {
        assert!(rows(version).all(|row| row.plan.blocks() == (row.name == "MNT")));
        assert!(rows(version).all(|row| row.plan.is_urgent()));
        assert_eq!(server.ask(&Caller::denied(), version, p::NULL, b""), Ok(Vec::new()));
    }
}

#[test]
fn truncated_and_trailing_mount_arguments_are_garbage_args() {
    let server = MountServer::new(16);
    let mut args = wire(&DirPath(b"/srv/x"));
    for cut in [0, 3, 7, args.len() - 1] {
        let reply = server.ask(&Caller::allowed(), 3, p::MNT, &args[..cut]);
        assert!(matches!(reply, Err(Fault::GarbageArgs(_))), "{cut}");
    }
    args.extend([0; 4]);
    let reply = server.ask(&Caller::allowed(), 3, p::MNT, &args);
    assert_eq!(reply, Err(Fault::GarbageArgs(xdr::Error::Trailing(4))));
    // a procedure that takes none does not look for any
    for procedure in [p::DUMP, p::EXPORT, p::UMNTALL] {
        let plain = server.ask(&Caller::allowed(), 3, procedure, b"");
        assert!(plain.is_ok());
        assert_eq!(server.ask(&Caller::allowed(), 3, procedure, &args), plain);
    }
    let long = wire(&DirPath(&[b'/'; 1025]));
    let reply = server.ask(&Caller::allowed(), 3, p::MNT, &long);
    assert!(matches!(reply, Err(Fault::GarbageArgs(xdr::Error::TooLong { .. }))));
    assert_eq!(paths(&server), Vec::<String>::new());
}
