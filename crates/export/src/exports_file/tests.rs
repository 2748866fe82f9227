//! Lines as administrators write them, valid and invalid.

use super::{DIAGNOSTICS_MAX, ENTRIES_MAX, EXPORT_OPTIONS, parse, print};
use crate::buffer_options::{BUFFER_MAX, BUFFER_MIN, BufferSize, BufferSizes};
use crate::client_rules::Rule;
use crate::clients::Client;
use crate::delegate::Delegate;
use crate::export::{ExportSpec, Fsid, Source};
use crate::fs_locations::{FsLocations, LocationKind};
use crate::options::{Options, Squash};
use crate::xprtsec::{CertificatePattern, XprtsecModes};
use proptest::prelude::*;
use rpc::{AuthSys, Credential};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use vfs::Durability;

#[test]
fn a_typical_file_is_parsed() {
    let parsed = parse(
        b"# comment\n\
        /srv/a  10.0.0.0/8(rw,no_root_squash) *.lan(ro,async) @trusted(rw) # all\n\
        \"/srv/with space\" -rw,anonuid=7 host1 host2(insecure) \\\n   192.168.1.0/255.255.255.0\n\
        /srv/oct\\040al *(all_squash)#end\r\n",
    );
    assert_eq!(parsed.errors, []);
    assert_eq!(parsed.notes, []);
    let [a, spaced, octal] = parsed.entries.as_slice() else { panic!("{:?}", parsed.entries) };
    assert_eq!(a.path, b"/srv/a");
    assert_eq!(a.source, Source::Directory("/srv/a".into()));
    assert_eq!(a.rules.len(), 3);
    let rw = Options { read_only: false, squash: Squash::None, ..Options::default() };
    assert_eq!(a.rules[0].options, rw);
    assert_eq!(a.rules[1].options.durability, Durability::Async);
    assert_eq!(a.rules[2].client, Client::Netgroup("trusted".into()));
    assert_eq!(spaced.path, b"/srv/with space");
    assert_eq!(spaced.rules.len(), 3);
    assert!(spaced.rules.iter().all(|r| r.options.anonuid == 7 && !r.options.read_only));
    assert!(spaced.rules[0].options.secure && !spaced.rules[1].options.secure);
    assert_eq!(spaced.rules[2].client.to_string(), "192.168.1.0/24");
    assert_eq!(octal.path, b"/srv/oct al");
    assert_eq!(octal.rules[0].options.squash, Squash::All);
}

#[test]
fn every_error_has_line_and_column() {
    let source = b"/a *(rw,frobnicate)\n  srv *(rw)\n/b *(anonuid=x,sec=lkey)\n\
        /c \"open\n/d h(rw, sync) g(ro)\n/e a/b\n/f h (rw)\n/g a(ro)b(rw)\n/h a a(rw)\n/i/../k\n";
    let parsed = parse(source);
    let places: Vec<_> = parsed.errors.iter().map(|e| (e.line, e.column)).collect();
    let wanted =
        [(1, 9), (2, 3), (3, 6), (3, 16), (4, 4), (5, 5), (6, 4), (7, 6), (8, 8), (9, 6), (10, 1)];
    assert_eq!(places, wanted, "{:?}", parsed.errors);
    let shown = parsed.errors[0].shown("exports", source);
    assert_eq!(shown, "exports:1:9: unknown option frobnicate\n  /a *(rw,frobnicate)\n          ^");
}

#[test]
fn every_option_of_the_table_is_parsed_as_documented() {
    let mut names = std::collections::BTreeSet::new();
    for option in &EXPORT_OPTIONS {
        assert!(names.insert(option.name), "{} twice", option.name);
        let shown = match option.value {
            None => option.name.to_owned(),
            Some(value) if value.contains("SIZE") => format!("{}=16M", option.name),
            Some("PATH") => format!("{}=/mnt", option.name),
            Some(value) if value.contains("FLAVOUR") => format!("{}=sys", option.name),
            Some("strict|any") => format!("{}=strict", option.name),
            Some(value) if value.contains("PATH@HOST") => {
                format!("{}=/a@b+c:/d@[::1]", option.name)
            }
            Some("off|read|write") => format!("{}=read", option.name),
            Some("on|off") => format!("{}=on", option.name),
            Some("none:tls:mtls") => format!("{}=mtls:tls", option.name),
            Some("sha256:DIGITS") => format!("{}=sha256:{}", option.name, "5a".repeat(32)),
            Some(_) => format!("{}=7", option.name),
        };
        let parsed = parse(format!("/a *({shown})\n").as_bytes());
        assert_eq!(parsed.errors, [], "{shown}");
        assert!(parsed.notes.is_empty() || !option.has_effect(), "{:?}", parsed.notes);
        let wrong = match option.value {
            Some(_) if option.value_is_optional() => format!("{}=mnt", option.name),
            None => format!("{}=7", option.name),
            Some(_) => option.name.to_owned(),
        };
        let parsed = parse(format!("/a *({wrong})\n").as_bytes());
        assert_eq!(parsed.errors.len(), 1, "{wrong}");
    }
}

#[test]
fn kept_attributes_have_an_age_in_milliseconds() {
    for (written, age_ms) in [("0", 0), ("1", 1), ("60000", 60_000)] {
        let parsed = parse(format!("/a *(attr-cache={written})\n").as_bytes());
        assert_eq!(parsed.errors, [], "{written}");
        assert_eq!(parsed.entries[0].rules[0].options.attr_cache_ms, age_ms);
    }
    for wrong in ["", "60001", "-1", "1s", "4294967296"] {
        let parsed = parse(format!("/a *(attr-cache={wrong})\n").as_bytes());
        assert!(parsed.errors[0].text.contains("0 to 60000"), "{wrong}: {:?}", parsed.errors);
    }
}

#[test]
fn certificate_options_require_a_client_by_address() {
    let parsed = parse(
        b"/a 10.0.0.0/8(ro) 10.0.0.0/8(rw,tls-name=a) 10.0.0.0/8(rw,tls-name=b) *(tls-name=a)\n",
    );
    assert_eq!((parsed.errors.as_slice(), parsed.entries[0].rules.len()), (&[][..], 4));
    for (client, told) in [
        ("host(tls-name=a)", "write an address"),
        ("*(tls-name=a) *(rw,tls-name=a)", "listed twice"),
    ] {
        let parsed = parse(format!("/a {client}\n").as_bytes());
        assert_eq!(parsed.errors.len(), 1, "{client}");
        assert!(parsed.errors[0].text.contains(told), "{}", parsed.errors[0]);
    }
}

#[test]
fn locations_hold_for_all_clients_of_an_export() {
    let parsed =
        parse(b"/a h1(ro,refer=/x@s) h2(refer=/x@s)\n/b -replicas=/b@s+t * h3(rw)\n/c *\n");
    assert_eq!(parsed.errors, []);
    let shared: Vec<String> = parsed.entries.iter().map(ExportSpec::shared_options).collect();
    assert_eq!(shared, [",refer=/x@s", ",replicas=/b@s+t", ""]);
    let parsed =
        parse(b"/a h1(refer=/x@s) h2(ro)\n/b * h(refer=/x@s)\n/c h(refer=/x@s) *(refer=/x@t)\n");
    let places: Vec<_> = parsed.errors.iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, [(1, 19), (2, 6), (3, 18)]);
    assert!(parsed.errors.iter().all(|error| error.text.contains("the whole export")));
}

#[test]
fn unsupported_options_are_errors_with_the_reason() {
    for (option, told) in [
        ("sec=spkm3", "none of these security flavours is served"),
        ("sec=kerberos", "not a security flavour"),
        ("sec=", "not a security flavour"),
        ("sec", "requires a value"),
        ("xprtsec=kerberos", "not one of none, tls, mtls"),
        ("xprtsec=", "not one of none, tls, mtls"),
        ("tls-name", "requires a value"),
        ("tls-fingerprint=ab", "sha256:"),
        ("mp=x", "full path"),
        ("no_rootsquash", "did you mean no_root_squash?"),
        ("refer=b:/a", "PATH@HOST"),
        ("refer=/a@b,replicas=/a@b", "either refer or replicas"),
        ("replicas=/a", "PATH@HOST"),
        ("pnfs", "not supported by this version"),
        ("anonuid", "requires a value"),
        ("anonuid=-1", "not a user id"),
        ("anongid=4294967295", "not a group id"),
        ("fsid=x", "UUID"),
        ("tcp-rcvbuf", "requires a value"),
        ("tcp-rcvbuf=big", "not a buffer size"),
        ("tcp-sndbuf=1G", "4K to 512M"),
        ("RO", "unknown option RO"),
        ("ro=x", "unknown option ro=x"),
    ] {
        let parsed = parse(format!("/a *({option})\n").as_bytes());
        assert_eq!(parsed.errors.len(), 1, "{option}");
        assert!(parsed.errors[0].text.contains(told), "{}", parsed.errors[0]);
    }
}

#[test]
fn options_without_effect_are_noted_once() {
    let parsed = parse(b"/a *(rw,subtree_check,no_wdelay)\n/b\n/c (wdelay)\n/d h(no_wdelay)\n");
    assert_eq!(parsed.errors, []);
    let places: Vec<_> = parsed.notes.iter().map(|n| (n.line, n.column)).collect();
    assert_eq!(places, [(1, 9), (1, 23), (2, 1), (3, 5), (3, 4)]);
    assert_eq!(parsed.entries[1].rules[0].client, Client::Anyone);
    assert!(parsed.entries[1].rules[0].options.read_only);
}

#[test]
fn squash_switches_are_independent() {
    let squash = |options: &str| {
        parse(format!("/a *({options})").as_bytes()).entries[0].rules[0].options.squash
    };
    assert_eq!(squash("all_squash,no_root_squash"), Squash::All);
    assert_eq!(squash("all_squash,no_all_squash"), Squash::Root);
    assert_eq!(squash("no_root_squash,all_squash,no_all_squash"), Squash::None);
    assert_eq!(squash("no_root_squash,root_squash"), Squash::Root);
}

#[test]
fn sec_lists_the_flavors_that_are_served() {
    let parsed = |options: &str| parse(format!("/a -{options} *\n").as_bytes());
    let text = |options: &str| {
        let parsed = parsed(options);
        assert_eq!(parsed.errors, [], "{options}");
        parsed.entries[0].rules[0].options.text()
    };
    let squashed = |access| format!("{access},sync,secure,root_squash");
    assert_eq!(text("rw"), squashed("rw"));
    assert_eq!(text("sec=sys:none,rw"), squashed("rw"), "as without it");
    assert_eq!(text("sec=unix,rw"), squashed("rw") + ",sec=sys");
    assert_eq!(text("rw,sec=null"), squashed("rw") + ",sec=none");
    assert_eq!(text("sec=none:sys"), squashed("ro") + ",sec=none:sys");
    // options after a flavour that is not served apply to that flavour only
    assert_eq!(text("sec=lkey,rw,no_root_squash,sec=sys"), squashed("ro") + ",sec=sys");
    assert_eq!(text("sec=sys,rw,sec=lkey:lkeyi,ro"), squashed("rw") + ",sec=sys");
    assert_eq!(text("sec=krb5p:krb5i:krb5,rw"), squashed("rw") + ",sec=krb5p:krb5i:krb5");
    let notes: Vec<String> =
        parsed("sec=lkey:sys,rw,sec=lkeyp,ro").notes.into_iter().map(|note| note.text).collect();
    assert_eq!(
        notes,
        [
            "sec=lkey:sys: lkey is not supported by this version; ignored",
            "sec=lkeyp: lkeyp is not supported by this version; ignored",
            "ro is ignored together with the sec= before it",
        ]
    );
    assert_eq!(text("sec=sys,rw,sec=none,rw"), squashed("rw"));
}

/// As the manual of exports(5) has it. `exportfs` of nfs-utils 2.6.2 makes the same of those without a note.
#[test]
fn options_after_a_sec_are_for_its_flavors_only() {
    let parsed = |options: &str| {
        let parsed = parse(format!("/a *({options})\n").as_bytes());
        assert_eq!(parsed.errors, [], "{options}");
        parsed
    };
    for (options, wanted, noted) in [
        (
            "sec=sys,ro,sec=krb5i,rw,no_root_squash",
            "sec=sys,ro,root_squash,sec=krb5i,rw,no_root_squash",
            "",
        ),
        ("sec=krb5,sec=sys,rw", "sec=krb5,ro,root_squash,sec=sys,rw,root_squash", ""),
        // flavours with the same options after one with others keep their place in the order of preference
        (
            "rw,sec=krb5p,sec=krb5:sys,ro,sec=none,rw",
            "sec=krb5p,rw,root_squash,sec=krb5:sys,ro,root_squash,sec=none,rw,root_squash",
            "",
        ),
        // named again: what follows is added
        (
            "sec=sys:krb5,rw,sec=sys,ro,all_squash",
            "sec=sys,ro,all_squash,sec=krb5,rw,root_squash,no_all_squash",
            "",
        ),
        ("sec=krb5,rw,sec=krb5i:krb5,ro", "sec=krb5:krb5i", ""),
        ("sec=sys,rw,sec=krb5", "sec=sys,rw,root_squash,sec=krb5,ro,root_squash", "krb5"),
        ("rw,sec=sys,ro,sec=krb5", "sec=sys,ro,root_squash,sec=krb5,rw,root_squash", "krb5"),
        (
            "sec=krb5,no_root_squash,sec=sys:none",
            "sec=krb5,ro,no_root_squash,sec=sys:none,ro,root_squash",
            "sys, none",
        ),
    ] {
        let parsed = parsed(options);
        let text = parsed.entries[0].rules[0].options_text();
        let groups = text.split_once(",sec=").map(|(_, groups)| format!("sec={groups}"));
        assert_eq!(groups.as_deref(), Some(wanted), "{options}");
        let notes: Vec<&str> = parsed.notes.iter().map(|note| note.text.as_str()).collect();
        match notes[..] {
            [] => assert_eq!(noted, "", "{options}"),
            [note] => {
                assert!(note.starts_with(&format!("for {noted} exportfs")), "{options}: {note}");
            }
            _ => panic!("{options}: {notes:?}"),
        }
    }
}

#[test]
fn a_rule_with_options_by_flavor_has_them_by_credential() {
    let parsed = parse(b"/a *(anonuid=7,sec=sys,ro,sec=none,rw,all_squash)");
    let rule = &parsed.entries[0].rules[0];
    let sys = Credential::Sys(AuthSys::new(b"", 5, 5, &[]).unwrap());
    let by_sys = rule.options_for(&sys).unwrap();
    let by_none = rule.options_for(&Credential::Anonymous).unwrap();
    assert!(by_sys.read_only && !by_none.read_only);
    assert_eq!((by_sys.squash, by_none.squash), (Squash::Root, Squash::All));
    assert_eq!((by_sys.anonuid, by_none.anonuid), (7, 7), "the others are the same");
    assert_eq!(rule.flavors().to_string(), "sys:none");
    let other = parse(b"/a *(sec=sys,ro,sec=krb5,rw)");
    assert_eq!(other.entries[0].rules[0].options_for(&Credential::Anonymous), None);
}

#[test]
fn sec_of_a_client_adds_to_that_of_the_defaults() {
    let options = |line: &str| {
        let parsed = parse(line.as_bytes());
        assert_eq!(parsed.errors, [], "{line}");
        parsed.entries[0].rules[0].options_text()
    };
    assert_eq!(options("/a -sec=none h(rw)"), "rw,sync,secure,root_squash,sec=none");
    assert_eq!(options("/a -sec=none,rw h(sec=sys)"), "rw,sync,secure,root_squash,sec=none:sys");
    assert_eq!(
        options("/a -sec=none,ro h(sec=sys,rw)"),
        "ro,sync,secure,root_squash,sec=none,ro,root_squash,sec=sys,rw,root_squash"
    );
    // as for all flavours without a sec= before; `exportfs` leaves those of the defaults out, which is noted
    let notes = |line: &[u8]| parse(line).notes.len();
    assert_eq!(notes(b"/a -sec=none h(rw)"), 1);
    assert_eq!(notes(b"/a -sec=none,rw h(sec=sys) g"), 0);
}

#[test]
fn mountpoint_is_the_export_or_another_directory() {
    let mount_point = |line: &str| {
        let parsed = parse(line.as_bytes());
        assert_eq!((parsed.errors, parsed.notes), (vec![], vec![]), "{line}");
        parsed.entries[0].mount_point.clone()
    };
    let at = |path: &str| Some(std::path::PathBuf::from(path));
    assert_eq!(mount_point("/a *(rw)"), None);
    assert_eq!(mount_point("/a *(rw,mp)"), at("/a"));
    assert_eq!(mount_point("/a -mountpoint=/tank *(rw)"), at("/tank"));
    assert_eq!(mount_point("/a h(rw) g(mp=/a)"), at("/a"));
    // as zfs(8) writes it for sharenfs=on
    let zfs = "/tank/data *(sec=sys,rw,no_subtree_check,mountpoint,crossmnt)";
    let parsed = parse(zfs.as_bytes());
    assert_eq!(parsed.errors, []);
    assert_eq!(parsed.entries[0].mount_point, at("/tank/data"));
    assert_eq!(parsed.notes, []);
    assert!(parsed.entries[0].rules[0].options.crossmnt);
    let two = parse(b"/a h(mp=/x) g(mp=/y)");
    assert_eq!(two.errors.len(), 1, "{:?}", two.errors);
}

#[test]
fn options_of_crossing_and_of_names() {
    let options = |text: &str| parse(text.as_bytes()).entries[0].rules[0].options;
    assert!(!options("/a *(rw)").crossmnt);
    assert!(options("/a *(nohide)").nohide);
    assert!(!options("/a *(nohide,hide)").nohide);
    assert!(options("/a *(utf8=strict)").utf8_names);
    assert!(!options("/a *(utf8=strict,utf8=any)").utf8_names);
    assert_eq!(parse(b"/a *(utf8=yes)").errors.len(), 1);
}

#[test]
fn a_configuration_of_ganesha_is_one_error() {
    let parsed = parse(b"# x\nEXPORT\n{\n  Export_Id = 1;\n  Path = /srv;\n}\n");
    assert_eq!(parsed.errors.len(), 1, "{:?}", parsed.errors);
    assert_eq!((parsed.errors[0].line, parsed.errors[0].column), (2, 1));
    assert!(parsed.errors[0].text.contains("Ganesha"), "{}", parsed.errors[0]);
}

#[test]
fn lines_of_one_path_are_merged() {
    let parsed = parse(b"/a x(rw)\n/b *\n/c *\n/a/ y(ro)\n//a *(fsid=0)\n/a z(fsid=1)\n/a x\n");
    let paths: Vec<_> = parsed.entries.iter().map(|e| e.path.as_slice()).collect();
    assert_eq!(paths, [b"/a", b"/b", b"/c"]);
    let texts: Vec<_> =
        parsed.entries[0].rules.iter().map(|rule| rule.client.to_string()).collect();
    assert_eq!(texts, ["x", "y", "*", "z"]);
    assert_eq!(parsed.entries[0].fsid, Some(Fsid::Number(0)));
    let lines: Vec<_> = parsed.errors.iter().map(|e| e.line).collect();
    assert_eq!(lines, [6, 7]);
}

#[test]
fn ids_and_fsids() {
    let parsed = parse(b"/a *(anonuid=-2,anongid=0,fsid=01234567-89ab-cdef-0123-456789abcdef)");
    let options = parsed.entries[0].rules[0].options;
    assert_eq!((options.anonuid, options.anongid), (u32::MAX - 1, 0));
    let Some(Fsid::Uuid(uuid)) = parsed.entries[0].fsid else { panic!() };
    assert_eq!(uuid[..3], [0x01, 0x23, 0x45]);
    assert_eq!(parse(b"/a *(fsid=root)").entries[0].fsid, Some(Fsid::Number(0)));
}

#[test]
fn buffer_sizes_are_options_of_a_client() {
    let parsed = parse(b"/a 10.0.0.0/8(rw,tcp-rcvbuf=16M,tcp-sndbuf=auto) *(ro,tcp-rcvbuf=0)");
    assert_eq!(parsed.errors, []);
    let [far, all] = parsed.entries[0].rules.as_slice() else { panic!() };
    let sizes = BufferSizes { receive: BufferSize::Bytes(16 << 20), send: BufferSize::Auto };
    assert_eq!(far.options.buffers, sizes);
    assert_eq!(all.options.buffers, BufferSizes::default());
    assert!(far.options.text().ends_with("tcp-rcvbuf=16M,tcp-sndbuf=auto"));
}

#[test]
fn comments_can_be_continued_and_quotes_keep_blanks() {
    let parsed = parse(b"# /a *(rw) \\\n/b *(rw)\n\"/c \\\nd\" \"h\"(ro)\n/e\\q #x\n");
    assert_eq!(parsed.errors, []);
    let paths: Vec<_> = parsed.entries.iter().map(|e| e.path.as_slice()).collect();
    assert_eq!(paths, [b"/c  d".as_slice(), b"/e\\q"]);
}

#[test]
fn limits_are_enforced() {
    let many: String = (0..=ENTRIES_MAX).map(|n| format!("/{n} *\n")).collect();
    let parsed = parse(many.as_bytes());
    assert_eq!((parsed.entries.len(), parsed.errors.len()), (ENTRIES_MAX, 1));
    let parsed = parse("x\n".repeat(1000).as_bytes());
    assert_eq!(parsed.errors.len(), DIAGNOSTICS_MAX);
    let long = [b"/a *(".as_slice(), &b"ro,".repeat(1000), b"oops,", &b"ro,".repeat(1000), b")"];
    let long = long.concat();
    let shown = parse(&long).errors[0].shown("f", &long);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[1].len() < 200);
    assert!(lines[1].get(lines[2].len() - 1..).unwrap().starts_with("oops"));
}

#[test]
fn the_example_file_of_the_repository_parses() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../exports.example");
    let parsed = parse(&std::fs::read(path).unwrap());
    assert_eq!(parsed.errors, []);
    assert!(parsed.entries.len() >= 3);
}

fn any_client() -> impl Strategy<Value = Client> {
    let text = prop_oneof![
        Just("*".to_owned()),
        "@[a-z0-9._-]{1,9}",
        "[a-z][a-z0-9-]{0,9}(\\.[a-z]{1,3}){0,2}",
        "\\*\\.[a-z]{1,9}",
        "h\\[[a-z]-z\\]\\?",
        any::<std::net::IpAddr>().prop_map(|ip| ip.to_string()),
        (any::<std::net::Ipv4Addr>(), 0..=32u8).prop_map(|(ip, bits)| format!("{ip}/{bits}")),
        (any::<std::net::Ipv6Addr>(), 0..=128u8).prop_map(|(ip, bits)| format!("{ip}/{bits}")),
    ];
    text.prop_filter_map("not a client", |text| Client::parse(&text).ok())
}

fn any_options() -> impl Strategy<Value = Options> {
    let squash = prop_oneof![Just(Squash::None), Just(Squash::Root), Just(Squash::All)];
    let ids = (0..u32::MAX, 0..u32::MAX);
    let sizes = (any_size(), any_size());
    let flags = any::<[bool; 9]>();
    let xprtsec = prop_oneof![Just("none:tls:mtls"), Just("mtls"), Just("tls:none")];
    let flavors = prop_oneof![Just("sys"), Just("none"), Just("sys:none"), Just("none:sys")];
    let all = (flags, squash, ids, sizes, flavors, xprtsec);
    all.prop_map(|(flags, squash, ids, sizes, flavors, xprtsec)| {
        let [read_only, sync, secure, manage_gids, acl, auth_nlm, crossmnt, nohide, utf8_names] =
            flags;
        Options {
            read_only,
            squash,
            anonuid: ids.0,
            anongid: ids.1,
            durability: if sync { Durability::Sync } else { Durability::Async },
            secure,
            manage_gids,
            acl,
            auth_nlm,
            crossmnt,
            nohide,
            utf8_names,
            attr_cache_ms: ids.0 % 60_001,
            delegations: nohide.then_some(if acl { Delegate::Read } else { Delegate::Off }),
            preserve_unlinked: crossmnt.then_some(auth_nlm),
            flavors: parse(format!("/a *(sec={flavors})").as_bytes()).entries[0].rules[0]
                .options
                .flavors,
            rule_flavors: None,
            xprtsec: XprtsecModes::parse(xprtsec.as_bytes()).unwrap(),
            buffers: BufferSizes { receive: sizes.0, send: sizes.1 },
        }
    })
}

/// `ro` or `rw`, and squashing, of flavours after the first ones.
fn any_other_flavors() -> impl Strategy<Value = Vec<(bool, Squash)>> {
    let squash = prop_oneof![Just(Squash::None), Just(Squash::Root), Just(Squash::All)];
    proptest::collection::vec((any::<bool>(), squash), 0..3)
}

/// A rule with these options for its first flavour, and others for krb5, krb5i and so on.
fn rule(client: Client, options: Options, others: &[(bool, Squash)]) -> Rule {
    let mut last = (options.read_only, options.squash);
    let mut groups = vec![(options.flavors, last)];
    let names = ["krb5", "krb5i"];
    for (name, access) in names.iter().zip(others.iter().copied()) {
        if access == last {
            continue;
        }
        let parsed = parse(format!("/a *(sec={name})").as_bytes());
        groups.push((parsed.entries[0].rules[0].options.flavors, access));
        last = access;
    }
    let mut rule = Rule::new(client, options);
    if groups.len() > 1 {
        let all: Vec<String> = groups.iter().map(|(list, _)| list.to_string()).collect();
        let all = parse(format!("/a *(sec={})", all.join(":")).as_bytes());
        let rule_flavors = Some(all.entries[0].rules[0].options.flavors);
        rule.options.rule_flavors = rule_flavors;
        let others = groups[1..].iter().map(|(flavors, (read_only, squash))| Options {
            flavors: *flavors,
            read_only: *read_only,
            squash: *squash,
            ..rule.options
        });
        rule.other_flavors = others.collect();
    }
    rule
}

fn any_size() -> impl Strategy<Value = BufferSize> {
    prop_oneof![
        Just(BufferSize::Unset),
        Just(BufferSize::Auto),
        (BUFFER_MIN..=BUFFER_MAX).prop_map(BufferSize::Bytes),
    ]
}

fn any_mount_point() -> impl Strategy<Value = Option<std::path::PathBuf>> {
    proptest::option::of(r#"/[a-z \\#\"]{0,9}"#.prop_map(std::path::PathBuf::from))
}

fn any_locations() -> impl Strategy<Value = Option<Arc<FsLocations>>> {
    let kind = prop_oneof![Just(LocationKind::Referral), Just(LocationKind::Replicas)];
    let some =
        (kind, "/([a-z @#]{0,4}/){0,2}[a-z]@(s[12]|10[.]0[.]0[.]1|\\[::1\\])([+]t){0,2}(:/a@b)?")
            .prop_map(|(kind, text)| FsLocations::parse(kind, text.as_bytes()).unwrap());
    proptest::option::of(some.prop_map(Arc::new))
}

fn any_spec() -> impl Strategy<Value = ExportSpec> {
    let name = proptest::collection::vec(1u8.., 1..9);
    let name = name
        .prop_filter("no component", |name| !name.contains(&b'/') && name != b"." && name != b"..");
    let path = proptest::collection::vec(name, 1..4)
        .prop_map(|names| names.iter().flat_map(|n| [b"/".as_slice(), n].concat()).collect());
    let rules = proptest::collection::vec(
        (any_client(), any_options(), any_other_flavors(), any::<bool>()),
        1..5,
    );
    let fsid = prop_oneof![
        Just(None),
        any::<u32>().prop_map(|n| Some(Fsid::Number(n))),
        any::<[u8; 16]>().prop_map(|uuid| Some(Fsid::Uuid(uuid))),
    ];
    (path, rules, fsid, any_mount_point(), any_locations()).prop_map(|row| {
        let (path, rules, fsid, mount_point, locations) = row;
        let path: Vec<u8> = path;
        let mut spec = ExportSpec {
            source: Source::Directory(std::ffi::OsString::from_vec(path.clone()).into()),
            path,
            fsid,
            rules: Vec::new(),
            mount_point,
            locations,
            crossed: false,
        };
        for (client, options, others, is_certified) in rules {
            if spec.rules.iter().all(|rule| rule.client != client) {
                let mut certificate = CertificatePattern::default();
                let by_address = client.matches_address([0, 0, 0, 0].into()).is_some();
                if is_certified && by_address {
                    certificate.add_name(b"*.lab").unwrap();
                    let text = format!("sha256:{}", "5a".repeat(32));
                    certificate.add_fingerprint(text.as_bytes()).unwrap();
                }
                spec.rules.push(Rule { certificate, ..rule(client, options, &others) });
            }
        }
        spec
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse(&bytes);
    }

    #[test]
    fn arbitrary_words_do_not_panic(
        text in r#"(/[a-z]{0,3}|[ \t\n"\\#]|-rw|\*|@g|[0-9./]{1,9}|\((rw|ro|,|=|fsid=0|sec=|sys|krb5|:|x){0,5}\)?){0,40}"#,
    ) {
        let parsed = parse(text.as_bytes());
        let lines = text.split('\n').count();
        for remark in parsed.errors.iter().chain(&parsed.notes) {
            prop_assert!((1..=lines).contains(&remark.line) && remark.column >= 1);
            remark.shown("f", text.as_bytes());
        }
    }

    #[test]
    fn a_printed_export_parses_as_the_same(spec in any_spec()) {
        let parsed = parse(&print(&spec));
        prop_assert_eq!(parsed.errors, []);
        prop_assert_eq!(parsed.entries, [spec]);
    }
}
