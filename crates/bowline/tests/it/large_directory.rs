//! A directory of 300,000 entries, listed over the wire while others come and go: everything that stays is seen exactly once,
//! and the server's memory does not follow the directory's size. `ENTRIES=1000000` for a million.

use crate::rig::{NOBODY, Server, is_root};
use client::Client;
use client::nfs4::{Operations, Session, results_inside, succeeded};
use proto::layout::Bytes;
use proto::nfs4::{Bitmap4, LINUX_GETATTR, ReaddirArgs, attr, op};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Entries that stay, unless the environment says otherwise.
const ENTRIES: usize = 300_000;
/// Processor time of the server for the first reply of a listing: a few milliseconds, whatever the size of
/// the directory.
const FIRST_REPLY_MAX: Duration = Duration::from_millis(60);
/// Growth of the server's memory that a listing may cause, in KiB: 14 bytes for each entry would be more.
const GROWTH_KIB_MAX: u64 = 4 * 1024;

fn entries() -> usize {
    std::env::var("ENTRIES").map_or(ENTRIES, |entries| entries.parse().unwrap())
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn each_of_many_entries_is_listed_once_in_bounded_memory() {
    // in memory: making so many names on a disk is a test of the disk
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = place.path().join("big");
    std::fs::create_dir(&dir).unwrap();
    let entries = entries();
    let one = dir.join("0");
    std::fs::write(&one, b"").unwrap();
    for n in 1..entries {
        // links to one inode: names are what is listed
        std::fs::hard_link(&one, dir.join(n.to_string())).unwrap();
    }
    let served = format!("big={}", dir.display());
    let user = is_root().then_some(NOBODY);
    for path in [place.path(), &dir] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, mode).unwrap();
    }
    let server = Server::start_as(user, &[&served]);
    let addr = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut client = Client::tcp(addr, Duration::from_secs(30)).unwrap();
    let root = client.mount(b"/big").unwrap();
    let used = || sys::thread::process_cpu_time(server.child.id()).unwrap();
    let begun = used();
    let first = client.readdirplus(&root, 0, [0; 8], 65_536).unwrap();
    let plus = used().saturating_sub(begun);
    assert!(first.entries.len() > 100 && !first.eof);
    let before = resident_kib(server.child.id());
    let mut seen = vec![false; entries];
    let (mut cookie, mut verf, mut calls) = (0, [0; 8], 0);
    let mut plain = None;
    loop {
        let begun = used();
        let list = client.readdir(&root, cookie, verf, 65_536).unwrap();
        plain.get_or_insert(used().saturating_sub(begun));
        verf = list.verf;
        for entry in &list.entries {
            cookie = entry.cookie;
            note(&mut seen, std::str::from_utf8(&entry.name).unwrap());
        }
        calls += 1;
        change(&dir, calls);
        if list.eof {
            break;
        }
    }
    println!("processor time of the first reply: READDIRPLUS {plus:?}, READDIR {plain:?}");
    assert!(plus < FIRST_REPLY_MAX && plain.unwrap() < FIRST_REPLY_MAX);
    let missing = seen.iter().filter(|seen| !**seen).count();
    assert_eq!(missing, 0, "{missing} of {entries} were not listed");
    let growth_kib = resident_kib(server.child.id()).saturating_sub(before);
    println!("{entries} entries in {calls} calls; the server grew by {growth_kib} KiB");
    assert!(growth_kib < GROWTH_KIB_MAX, "{growth_kib} KiB");
    list_by_version_4(&server, &dir, entries);
}

/// An entry was listed, which may be one of those that come and go.
fn note(seen: &mut [bool], name: &str) {
    if let Ok(n) = name.parse::<usize>() {
        assert!(!seen[n], "{n} was listed twice");
        seen[n] = true;
    }
}

/// Makes an entry between two calls, and removes every second one again.
fn change(dir: &Path, calls: u32) {
    let passing = dir.join(format!("passing{calls}"));
    std::fs::write(&passing, b"").unwrap();
    if calls.is_multiple_of(2) {
        std::fs::remove_file(&passing).unwrap();
    }
}

/// What the Linux client asks for of each entry.
const ATTRS: Bitmap4 = LINUX_GETATTR.or(&Bitmap4::of(&[attr::RDATTR_ERROR, attr::FILEHANDLE]));

/// The same over version 4.1: names only, and with the attributes that the Linux client asks for.
fn list_by_version_4(server: &Server, dir: &Path, entries: usize) {
    let addr = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut client = Client::tcp(addr, Duration::from_secs(30)).unwrap();
    let mut session = client.open_session(b"lister", 4).unwrap();
    let used = || sys::thread::process_cpu_time(server.child.id()).unwrap();
    for attrs in [Bitmap4::NONE, ATTRS] {
        let (begun, before) = (used(), resident_kib(server.child.id()));
        let mut seen = vec![false; entries];
        let (mut cookie, mut calls, mut first) = (0, 0_u32, None);
        loop {
            let (names, last, eof) = page(&mut client, &mut session, attrs, cookie);
            cookie = last;
            first.get_or_insert(used().saturating_sub(begun));
            for name in names {
                note(&mut seen, &name);
            }
            calls += 1;
            change(dir, calls);
            if eof {
                break;
            }
        }
        let missing = seen.iter().filter(|seen| !**seen).count();
        assert_eq!(missing, 0, "{missing} of {entries} were not listed");
        let growth_kib = resident_kib(server.child.id()).saturating_sub(before);
        println!(
            "4.1, {} attributes: {calls} calls, the first took {first:?} of processor time, all {:?}; \
             the server grew by {growth_kib} KiB",
            attrs.iter().count(),
            used().saturating_sub(begun),
        );
        assert!(first.unwrap() < FIRST_REPLY_MAX);
        assert!(growth_kib < GROWTH_KIB_MAX, "{growth_kib} KiB");
    }
}

/// The names from a cookie on, the cookie behind them, and whether they are the last.
fn page(
    client: &mut Client,
    session: &mut Session,
    attrs: Bitmap4,
    cookie: u64,
) -> (Vec<String>, u64, bool) {
    let (cookieverf, dircount, maxcount) = ([0; 8], 0, 65_536);
    let args = ReaddirArgs { cookie, cookieverf, dircount, maxcount, attrs };
    let operations = Operations::new()
        .bare(op::PUTROOTFH)
        .with(op::LOOKUP, &Bytes::<255>(b"big"))
        .with(op::READDIR, &args);
    let reply = client.compound(session, &operations).unwrap();
    let mut r = results_inside(&reply).unwrap();
    succeeded(&mut r, op::PUTROOTFH).unwrap();
    succeeded(&mut r, op::LOOKUP).unwrap();
    succeeded(&mut r, op::READDIR).unwrap();
    r.u64().unwrap();
    let (mut names, mut last) = (Vec::new(), cookie);
    while r.bool().unwrap() {
        last = r.u64().unwrap();
        names.push(String::from_utf8(r.opaque(255).unwrap().to_vec()).unwrap());
        let mask: Bitmap4 = r.get().unwrap();
        assert_eq!(mask, attrs);
        r.opaque(1024).unwrap();
    }
    (names, last, r.bool().unwrap())
}
