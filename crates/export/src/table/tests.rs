//! Tables over backends that are never called.

use super::{BuildError, Exports, NotServed, Opened, Table, WaitReason};
use crate::client_rules::Rule;
use crate::clients::Client;
use crate::export::{ClientAccess, ExportId, ExportSpec, Fsid, Requester, Source};
use crate::exports_file;
use crate::identity::Identity;
use crate::options::Options;
use crate::table_changes::table_changes;
use rpc::{Certificate, Certificates, TransportSecurity};
use std::cell::Cell;
use std::sync::Arc;
use vfs::{Backend, Fid, Status};

#[path = "../../../../fuzz/entry/nowhere.rs"]
mod nowhere;

fn spec(path: &str, clients: &[&str]) -> ExportSpec {
    let options = Options { secure: false, ..Options::default() };
    let rule = |text: &&str| Rule::new(Client::parse(text).unwrap(), options);
    ExportSpec {
        path: path.into(),
        source: Source::scheme("mem", ""),
        fsid: None,
        mount_point: None,
        locations: None,
        crossed: false,
        rules: clients.iter().map(rule).collect(),
    }
}

fn open(_: &ExportSpec) -> Result<Arc<dyn Backend>, &'static str> {
    Ok(Arc::new(nowhere::Nowhere))
}

fn build(specs: &[ExportSpec], identity: &Identity, previous: Option<&Table>) -> Table {
    Table::build(specs, identity, &open, previous).unwrap()
}

fn identity() -> Identity {
    Identity::ephemeral().unwrap()
}

#[test]
fn a_path_belongs_to_the_innermost_export() {
    let specs = ["/srv", "/srv/a/b", "/srv/a"].map(|path| spec(path, &["*"]));
    let table = build(&specs, &identity(), None);
    let find = |path: &'static str| {
        let (export, rest) = table.by_path(path.as_bytes()).ok()?;
        Some((export.path_text(), std::str::from_utf8(rest).unwrap()))
    };
    let found = |path: &str, rest| Some((path.to_owned(), rest));
    assert_eq!(find("/srv"), found("/srv", ""));
    assert_eq!(find("/srv/ax/y"), found("/srv", "ax/y"));
    assert_eq!(find("/srv/a/b/c"), found("/srv/a/b", "c"));
    assert_eq!(find("/srv/a"), found("/srv/a", ""));
    assert_eq!(find("/srvx"), None);
    assert_eq!(find("/"), None);
    let table = build(&[spec("/", &["*"])], &identity(), None);
    assert_eq!(table.by_path(b"/etc/x").unwrap().1, b"etc/x");
    assert_eq!(table.by_path(b"/").unwrap().1, b"");
}

#[test]
fn mountpoint_requires_a_mounted_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let checked = |path: &std::path::Path| {
        let spec = ExportSpec { mount_point: Some(path.to_owned()), ..spec("/a", &["*"]) };
        spec.check_mount_point()
    };
    assert!(checked("/proc".as_ref()).is_ok());
    for path in [dir.path(), &dir.path().join("missing")] {
        let error = checked(path).unwrap_err();
        assert!(error.to_string().contains("is not a mount point"), "{error}");
    }
}

#[test]
fn an_export_that_waits_keeps_its_handles_and_its_path() {
    let identity = identity();
    let specs = [spec("/srv", &["*"]), spec("/srv/a", &["*"]), spec("/b", &["*"])];
    let whole = build(&specs, &identity, None);
    let handle = whole.exports()[1].seal(&Fid::new(b"file").unwrap());
    let waiting = || Opened::Waiting(WaitReason::NoAnswer);
    let serve = |spec: &ExportSpec| match &*spec.path {
        b"/srv/a" | b"/b" => (spec.clone(), waiting()),
        _ => (spec.clone(), Opened::Backend(open(spec).unwrap())),
    };
    let assemble = |opened, previous| {
        let (table, errors) = Table::assemble::<&str>(opened, &identity, previous);
        assert!(errors.is_empty(), "{errors:?}");
        table
    };
    let table = assemble(specs.iter().map(serve).collect(), Some(&whole));
    assert_eq!(table.open(handle.bytes()).err(), Some(Status::Jukebox));
    assert_eq!(table.by_path(b"/srv/a/x").err(), Some(NotServed::Waiting));
    assert_eq!(table.by_path(b"/b").err(), Some(NotServed::Waiting));
    assert_eq!(table.by_path(b"/c").err(), Some(NotServed::NoExport));
    assert_eq!(table.by_path(b"/srv/b").unwrap().0.path, b"/srv");
    assert_eq!(table.waiting().len(), 2);
    // it is finally served, with the same handles and the same index in the statistics
    let opened = |spec: &ExportSpec| (spec.clone(), Opened::Backend(open(spec).unwrap()));
    let table = assemble(specs.iter().map(opened).collect(), Some(&table));
    assert!(table.open(handle.bytes()).is_ok() && table.waiting().is_empty());
    assert_eq!(table.exports()[1].index, whole.exports()[1].index);
    // waiting exports conflict like served ones
    let twice = vec![(specs[2].clone(), waiting()), opened(&specs[2])];
    let (table, errors) = Table::assemble::<&str>(twice, &identity, None);
    assert!(matches!(errors[..], [BuildError::SamePath { .. }]) && table.exports().is_empty());
}

#[test]
fn a_handle_opens_in_its_own_export_only() {
    let identity = identity();
    let table = build(&[spec("/a", &[]), spec("/b", &[])], &identity, None);
    let exports = Exports::new(table);
    let table = exports.load();
    let fid = Fid::new(b"file").unwrap();
    for export in table.exports() {
        let handle = export.seal(&fid);
        let (found, opened) = table.open(handle.bytes()).unwrap();
        assert_eq!((found.id, opened), (export.id, fid));
    }
    let a = table.exports()[0].seal(&fid);
    let less = build(&[spec("/b", &[])], &identity, Some(&table));
    assert_eq!(less.open(a.bytes()).err(), Some(Status::Stale));
    let mut forged = a.bytes().to_vec();
    forged[7] ^= 1;
    assert_eq!(table.open(&forged).err(), Some(Status::BadHandle));
    assert_eq!(table.open(b"").err(), Some(Status::BadHandle));
    assert_eq!(table.open(a.bytes()).unwrap().1, fid);
}

#[test]
fn a_handle_of_another_server_does_not_open() {
    let same = || ExportSpec { fsid: Some(Fsid::Number(7)), ..spec("/a", &[]) };
    let [one, other] =
        [1, 2].map(|key| build(&[same()], &Identity::of(crate::Key([key; 16])), None));
    let handle = one.exports()[0].seal(&Fid::new(b"file").unwrap());
    assert!(one.open(handle.bytes()).is_ok());
    assert_eq!(other.open(handle.bytes()).err(), Some(Status::BadHandle));
}

#[test]
fn a_reload_keeps_unchanged_exports() {
    let identity = identity();
    let first = build(&[spec("/a", &["*"]), spec("/b", &["*"])], &identity, None);
    let opened = Cell::new(0);
    let counting = |spec: &ExportSpec| {
        opened.set(opened.get() + 1);
        open(spec)
    };
    let next = [spec("/c", &["*"]), spec("/b", &["10.0.0.1"]), spec("/a", &["*"])];
    let second = Table::build(&next, &identity, &counting, Some(&first)).unwrap();
    assert_eq!(opened.get(), 1, "only the new one");
    let [c, b, a] = second.exports() else { panic!() };
    assert!(Arc::ptr_eq(a, &first.exports()[0]));
    assert!(Arc::ptr_eq(&b.backend, &first.exports()[1].backend));
    assert_eq!([a.index, b.index, c.index], [0, 1, 2]);
    let third = build(&next[..1], &identity, Some(&second));
    let fourth = build(&[spec("/a", &["*"]), spec("/d", &[])], &identity, Some(&third));
    let indices: Vec<_> = fourth.exports().iter().map(|export| export.index).collect();
    assert_eq!(indices, [0, 3], "no index comes to mean another export");
}

#[test]
fn build_reports_all_errors() {
    let mut same =
        [spec("/a", &[]), spec("/a", &[]), spec("/b", &[]), spec("/c", &[]), spec("/d", &[])];
    same[2].fsid = Some(Fsid::Number(1));
    same[3].fsid = Some(Fsid::Number(1));
    let open = |spec: &ExportSpec| if spec.path == b"/d" { Err("no disk") } else { open(spec) };
    let errors = Table::build(&same, &identity(), &open, None).err().unwrap();
    let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(matches!(errors[0], BuildError::SamePath { .. }), "{told:?}");
    assert!(told[1].starts_with("/c and /b have the same identity"), "{told:?}");
    assert_eq!(told[2], "/d: no disk");
    assert_eq!(told.len(), 3);
}

#[test]
fn an_fsid_is_the_same_on_every_server() {
    let mut one = spec("/a", &[]);
    one.fsid = Some(Fsid::Number(7));
    let ids = [identity(), identity()].map(|identity| {
        let table = build(std::slice::from_ref(&one), &identity, None);
        (table.exports()[0].id, table.exports()[0].uuid)
    });
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0].0, ExportId::of(&Fsid::Number(8).uuid()));
}

fn requester<'r>(ip: &str, port: u16, certificates: &'r Certificates) -> Requester<'r> {
    Requester {
        address: ip.parse().unwrap(),
        port,
        security: TransportSecurity::PLAIN,
        certificates,
    }
}

#[test]
fn access_depends_on_transport_security_and_certificate() {
    let certificates = Arc::new(Certificates::default());
    let certificate = |name: &str, byte| Certificate {
        subject: format!("CN={name}"),
        common_name: None,
        issuer: String::new(),
        serial: String::new(),
        names: vec![name.to_owned()],
        fingerprint: [byte; 32],
        not_after: 0,
    };
    let backup = certificates.hold(certificate("backup.lab", 1)).unwrap();
    let other = certificates.hold(certificate("other.lab", 2)).unwrap();
    let securities = [
        TransportSecurity::PLAIN,
        TransportSecurity::TLS,
        TransportSecurity::of_certificate(other.id()),
        TransportSecurity::of_certificate(backup.id()),
    ];
    let text = "/a 10.0.0.0/8(insecure,xprtsec=tls:mtls) \
                10.0.0.0/8(insecure,rw,xprtsec=mtls,tls-name=backup.*,all_squash,anonuid=900)\n\
                /b *(secure,tls-fingerprint=sha256:0101010101010101010101010101010101010101010101010101010101010101)\n";
    let parsed = exports_file::parse(text.as_bytes());
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    let table = build(&parsed.entries, &identity(), None);
    let access = |export: usize, security, address: &str| {
        let who = Requester { security, ..requester(address, 2000, &certificates) };
        let export = &table.exports()[export];
        // twice: the second answer is out of the cache
        let (first, second) = (export.access_for(&who), export.access_for(&who));
        assert_eq!(first, second);
        match first {
            ClientAccess::Allowed(rule) => format!("{}", rule.options.anonuid),
            refused => format!("{refused:?}"),
        }
    };
    let of = |export, address| securities.map(|security| access(export, security, address));
    assert_eq!(of(0, "10.1.1.1"), ["TransportSecurityTooWeak", "65534", "65534", "900"]);
    assert_eq!(of(0, "11.1.1.1"), ["NoRule"; 4]);
    // a certificate stands for a privileged port
    assert_eq!(of(1, "11.1.1.1"), ["NoRule", "NoRule", "NoRule", "65534"]);
    // MNT comes in the clear
    let mounts = |export: usize, port| {
        let who = requester("10.1.1.1", port, &certificates);
        matches!(table.exports()[export].access_to_mount(&who), ClientAccess::Allowed(_))
    };
    assert_eq!([mounts(0, 2000), mounts(1, 2000), mounts(1, 700)], [true, false, true]);
}

#[test]
fn access_depends_on_address_and_port() {
    let mut one = spec("/a", &["10.0.0.0/8"]);
    let certificates = Certificates::default();
    let from = |ip: &str, port| requester(ip, port, &certificates);
    let allowed = |table: &Table, ip: &str, port| {
        matches!(table.exports()[0].access_for(&from(ip, port)), ClientAccess::Allowed(_))
    };
    let table = build(std::slice::from_ref(&one), &identity(), None);
    assert!(allowed(&table, "10.1.1.1", 40000) && allowed(&table, "::ffff:10.1.1.1", 1));
    let other = table.exports()[0].access_for(&from("11.1.1.1", 1));
    assert_eq!(other, ClientAccess::NoRule);
    one.rules[0].options.secure = true;
    let table = build(&[one], &identity(), None);
    assert!(allowed(&table, "10.1.1.1", 1023));
    let high = table.exports()[0].access_for(&from("10.1.1.1", 1024));
    assert_eq!(high, ClientAccess::PortNotReserved);
}

#[test]
fn access_of_a_client_by_name_is_known_after_resolve_blocking() {
    let table = build(&[spec("/a", &["localhost"])], &identity(), None);
    let certificates = Certificates::default();
    let (export, local) = (&table.exports()[0], requester("127.0.0.1", 1, &certificates));
    assert_eq!(export.access_for(&local), ClientAccess::Unresolved);
    assert!(export.resolve_blocking(local.address));
    assert!(matches!(export.access_for(&local), ClientAccess::Allowed(_)));
    assert_eq!(export.client_names(), ["localhost"]);
}

#[test]
fn table_changes_has_a_line_for_each_change() {
    let identity = identity();
    let a = [spec("/a", &["h", "10.0.0.0/8"]), spec("/b", &["*"]), spec("/c", &["*"])];
    let mut b = [spec("/a", &["*", "10.0.0.0/8"]), spec("/c", &["*"]), spec("/d", &["x"])];
    b[0].rules[1].options.read_only = false;
    b[1].fsid = Some(Fsid::Number(3));
    let old = build(&a, &identity, None);
    let new = build(&b, &identity, Some(&old));
    assert_eq!(table_changes(&old, &old), [""; 0]);
    assert_eq!(
        table_changes(&old, &new),
        [
            "/b: no longer exported",
            "/a: no longer for h",
            "/a: now also for *(ro,sync,insecure,root_squash)",
            "/a: 10.0.0.0/8(rw,sync,insecure,root_squash) instead of (ro,sync,insecure,root_squash)",
            "/c: the fsid changed; clients have to mount it again",
            "/d: exported to x(ro,sync,insecure,root_squash)",
        ]
    );
}
