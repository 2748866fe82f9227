//! The client of macOS, by the sources of its NFS kernel extension: versions 4.0 and 4.1.
//!
//! Tags have twelve bytes. Bitmaps have three words, also when the last ones are 0. Almost every COMPOUND ends with
//! attributes of what it changed.

use super::answer::{Answer, Attrs, Reply, numbers};
use super::wire::{
    ANONYMOUS, Args, Claim, How, Implementation, Locker, Made, Open, Range, Stateid, auth_sys,
    close, commit, create, create_session, exchange_id, getattr, lock_again, lock_first, lockt,
    locku, lookup, masked, named, of_client, op, open_confirm, open_downgrade, plain, putfh, read,
    readdir, remove, rename, setattr, setclientid, sixteen, word, words, write,
};
use super::{
    CHANGE, Client, Dialect, EXCLUSIVE, FILEID, FSID, HANDLE, LEASE, MODE, MOUNTED_ON, SIZE,
    SUPPORTED, TYPE, client_time, given, mode, server, size, status, twelve,
};
use crate::nlm::rig::Rig;
use std::cell::Cell;

/// What it asks for of files and directories; 75 (`suppattr_exclcreat`) in version 4.1 only.
const DEFAULT: &[u32] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 16, 17, 18, 20, 21, 22, 23, 25, 26, 27, 28, 29, 30,
    31, 33, 34, 35, 36, 37, 41, 42, 43, 44, 45, 47, 49, 50, 52, 53, 55,
];
/// What it asks for once of a file system.
const OF_FILE_SYSTEM: &[u32] = &[
    0, 2, 5, 6, 9, 10, 13, 15, 16, 17, 18, 21, 22, 23, 24, 26, 27, 29, 30, 31, 34, 42, 43, 44, 51,
];
const AFTER_WRITE: &[u32] = &[1, 3, 4, 52, 53];
const STATFS: &[u32] = &[21, 22, 23, 42, 43, 44];
const PATHCONF: &[u32] = &[16, 17, 18, 28, 29, 34];
const OF_ENTRIES: &[u32] = &[1, 11, 20, 55];
/// The rights that it asks for of a file.
const RIGHTS: u32 = 0x3f;

/// The tags of those COMPOUNDs whose replies are to be kept.
fn cached(tag: &str) -> bool {
    !matches!(
        tag,
        "access"
            | "getattr"
            | "readlink"
            | "read"
            | "write"
            | "readdir"
            | "lookup"
            | "pathconf"
            | "reclaim_comp"
            | "secinfo"
            | "secinfo_no_name"
            | "setclid_attr"
            | "sequence"
            | "statfs"
            | "mount"
    )
}

const DIALECT: Dialect = Dialect { tag: twelve, cached };

/// What the client calls itself: bytes of its own, and addresses, not text.
const NAME: &[u8] =
    b"\x5f\0\0\x01\0\x1c\x42\0\0\x18\x10\x02\x08\x01\x7f\0\0\x01\0\0\0\0\0\0\0\0/e\0/mnt\0";
/// `NFS4_CALLBACK_PROG`.
const CALLBACK: u32 = 0x4e46_5343;
const CHANNELS: [[u32; 6]; 2] = [[0, 67584, 67584, 8192, 20, 64], [0, 10000, 10000, 4096, 4, 8]];

/// The client with a mount.
struct Mac<'r> {
    client: Client<'r>,
    root: Vec<u8>,
    /// The attributes that the server has, of those that the client asks for.
    default: Vec<u32>,
    supported: Vec<u32>,
    exclusive: Vec<u32>,
    /// The open owner's seqid of version 4.0.
    seqid: Cell<u32>,
}

/// A file that is open.
struct File {
    handle: Vec<u8>,
    stateid: Stateid,
}

/// Makes itself known to the server.
fn known(client: &Client<'_>, verifier: u8) {
    let verifier = [0x65, 0x5a, 0, 0, 0, 0, 0, verifier];
    if client.minor == 0 {
        let callback = (CALLBACK, "tcp", "127.0.0.1.192.7", 1);
        let args = setclientid(verifier, NAME, callback);
        return client.confirm(["setclid", "setclid_conf"], &[], args);
    }
    let kernel = Implementation(b"apple.com", b"Darwin Kernel Version 24.0.0\0", 0);
    let exchange = exchange_id(verifier, NAME, 0x1_0000, &kernel);
    let known = client.exchange("exchangeid", exchange);
    // one role of the three, and whether the client is known
    assert_eq!(known.flags & 0x7_0000, 0x1_0000);
    assert_eq!(known.flags & !0x8007_0103, 0);
    let callbacks = auth_sys(0x655a, b"mac.local", 0, 0, &[0, 1, 2]);
    let sequence = known.sequence;
    let args = create_session((known.clientid, sequence), 3, CHANNELS, CALLBACK, &[callbacks]);
    let session = client.start("createsession", args);
    assert_eq!(session.sequence, sequence);
    assert_eq!(session.flags & !3, 0, "nothing that was not asked for");
    let [fore, back] = session.channels;
    for (granted, asked) in fore.iter().zip(CHANNELS[0]).skip(1) {
        assert!(granted <= &asked, "{fore:?}");
    }
    assert!(fore[4] >= 8 && fore[5] >= 1 && back[5] >= 1, "{fore:?} {back:?}");
}

impl<'r> Mac<'r> {
    fn asked(&self, attributes: &[u32]) -> Vec<u32> {
        asked(self.client.minor, attributes)
    }

    /// The default attributes and the filehandle.
    fn with_handle(&self) -> Vec<u32> {
        masked(&self.asked(&[DEFAULT, &[HANDLE]].concat()), &self.supported)
    }

    fn mount(rig: &'r Rig, minor: u32) -> Self {
        let client = Client::new(rig, minor, DIALECT);
        known(&client, 1);
        Self::of(client)
    }

    /// Walks to the export.
    fn of(client: Client<'r>) -> Self {
        let minor = client.minor;
        if minor == 1 {
            client.done("reclaim_comp", &[word(op::RECLAIM_COMPLETE, 0)]);
            let reply = client
                .done("secinfo_no_name", &[plain(op::PUTROOTFH), word(op::SECINFO_NO_NAME, 0)]);
            assert!(
                matches!(reply.first(op::SECINFO_NO_NAME), Answer::Flavors(f) if f.contains(&1))
            );
        }
        let whole = asked(minor, &[DEFAULT, &[HANDLE]].concat());
        let reply = client.done("mount", &[plain(op::PUTROOTFH), getattr(&whole)]);
        let pseudo = reply.attrs()[0].clone();
        assert_eq!(pseudo.u32(TYPE), 2);
        let step =
            [plain(op::PUTROOTFH), lookup("e"), plain(op::GETFH), getattr(&asked(minor, DEFAULT))];
        let reply = client.done("mount", &step);
        let (root, attrs) = (reply.handle(), reply.attrs()[0].clone());
        assert_ne!(attrs.raw(FSID), pseudo.raw(FSID), "it notices that it crosses");
        if minor == 0 {
            let args = [putfh(&pseudo.opaque(HANDLE)), named(op::SECINFO, b"e")];
            let reply = client.done("secinfo", &args);
            assert!(matches!(reply.first(op::SECINFO), Answer::Flavors(f) if f.contains(&1)));
        }
        let supported = attrs.bitmap(SUPPORTED);
        let exclusive = if minor == 0 { vec![] } else { attrs.bitmap(EXCLUSIVE) };
        let default = masked(&asked(minor, DEFAULT), &supported);
        let seqid = Cell::new(0);
        let mac = Self { client, root, default, supported, exclusive, seqid };
        mac.probe();
        mac
    }

    /// The end of a mount: the root's attributes, and whether there are named attributes.
    fn probe(&self) {
        let whole = asked(self.client.minor, DEFAULT);
        let probe = [putfh(&self.root), getattr(&whole), word(op::OPENATTR, 0)];
        let reply = self.client.fails("mount", &probe, status::NOTSUPP);
        let attrs = reply.attrs()[0].clone();
        assert_eq!(attrs.u32(TYPE), 2);
        assert_eq!(attrs.u32(2), 0, "filehandles that expire are not liked");
        assert!(attrs.u32(LEASE) > 0 && attrs.u64(30) > 0 && attrs.u64(31) > 0);
        assert_eq!(attrs.u32(7), 0, "as OPENATTR says");
        let file_system = asked(self.client.minor, OF_FILE_SYSTEM);
        let reply = self.client.done("setclid_attr", &[putfh(&self.root), getattr(&file_system)]);
        given(reply.attrs()[0], &masked(&file_system, &self.supported));
        for (tag, attributes) in [("statfs", STATFS), ("pathconf", PATHCONF)] {
            let bitmap = masked(&self.asked(attributes), &self.supported);
            assert_eq!(numbers(&bitmap), attributes, "{tag}");
            let reply = self.client.done(tag, &[putfh(&self.root), getattr(&bitmap)]);
            given(reply.attrs()[0], &bitmap);
        }
    }

    /// LOOKUP with the directory's attributes in front.
    fn look(&self, dir: &[u8], step: Vec<u8>) -> Result<(Vec<u8>, Attrs), u32> {
        let all = getattr(&self.default);
        let compound = [putfh(dir), all.clone(), step, plain(op::GETFH), all];
        let reply = self.client.call("lookup", &compound);
        assert_eq!(
            reply.attrs()[0].u32(TYPE),
            2,
            "of the directory, also if there is no such name"
        );
        if reply.status != status::OK {
            return Err(reply.status);
        }
        given(reply.attrs()[1], &self.default);
        Ok((reply.handle(), reply.attrs()[1].clone()))
    }

    fn next_seqid(&self) -> u32 {
        let seqid = self.seqid.get();
        if self.client.minor == 0 {
            self.seqid.set(seqid + 1);
        }
        seqid
    }

    /// The share access: version 4.1 also says that it wants no delegation.
    fn access(&self, access: u32) -> u32 {
        if self.client.minor == 0 { access } else { access | 0x400 }
    }

    fn open_args(&self, access: u32, how: &How<'_>, claim: &Claim<'_>) -> Vec<u8> {
        let wants = !matches!(claim, Claim::Previous(_));
        let access = if wants { self.access(access) } else { access };
        let seqid = self.next_seqid();
        let clientid = self.client.clientid.get();
        let owner = &501_u32.to_be_bytes();
        Open { seqid, access, deny: 0, clientid, owner }.of(how, claim)
    }

    /// OPEN between SAVEFH and RESTOREFH.
    fn open(&self, access: u32, how: &How<'_>, name: &str) -> Result<(File, Reply), u32> {
        let open = self.open_args(access, how, &Claim::Null(name));
        let compound = [
            putfh(&self.root),
            plain(op::SAVEFH),
            open,
            getattr(&self.with_handle()),
            plain(op::RESTOREFH),
            getattr(&self.default),
        ];
        let tag = if matches!(how, How::Existing) { "open" } else { "create" };
        let reply = self.client.call(tag, &compound);
        if reply.status != status::OK {
            return Err(reply.status);
        }
        let (attrs, opened) = (reply.attrs()[0].clone(), reply.opened().clone());
        given(&attrs, &self.with_handle());
        assert_eq!(reply.attrs()[1].u32(TYPE), 2, "the directory's");
        let may = if self.client.minor == 0 { [0, 0] } else { [0, 3] };
        assert!(may.contains(&opened.delegation), "{opened:?}");
        let file = File { handle: attrs.opaque(HANDLE), stateid: opened.stateid };
        Ok((self.confirmed(file, opened.flags), reply))
    }

    /// OPEN_CONFIRM if the server wants it.
    fn confirmed(&self, file: File, flags: u32) -> File {
        if flags & 2 == 0 {
            return file;
        }
        assert_eq!(self.client.minor, 0);
        let confirm = open_confirm(&file.stateid, self.next_seqid());
        let reply = self
            .client
            .done("open_confirm", &[putfh(&file.handle), confirm, getattr(&self.default)]);
        File { stateid: reply.stateid(op::OPEN_CONFIRM), ..file }
    }

    fn close(&self, file: &File) {
        let close = close(self.next_seqid(), &file.stateid);
        let reply =
            self.client.done("close", &[putfh(&file.handle), close, getattr(&self.default)]);
        given(reply.attrs()[0], &self.default);
    }

    /// A COMPOUND about one object, with its attributes at the end.
    fn about(&self, tag: &str, handle: &[u8], operation: Vec<u8>) -> Reply {
        let reply = self.client.done(tag, &[putfh(handle), operation, getattr(&self.default)]);
        given(reply.attrs()[0], &self.default);
        reply
    }
}

/// The bitmap in this minor version: also in version 4.0 of three words.
fn asked(minor: u32, attributes: &[u32]) -> Vec<u32> {
    let more: &[u32] =
        if minor == 0 || !attributes.contains(&SUPPORTED) { &[] } else { &[EXCLUSIVE] };
    words(&[attributes, more].concat(), 3)
}

const MINORS: [u32; 2] = [0, 1];

#[test]
fn mounts_and_looks_around() {
    for minor in MINORS {
        let rig = server();
        let mac = Mac::mount(&rig, minor);
        let root = &mac.root;
        let (handle, attrs) = mac.look(root, lookup("file")).unwrap();
        assert_eq!((attrs.u32(TYPE), attrs.u64(SIZE)), (1, 0));
        assert_eq!(attrs.raw(MOUNTED_ON), attrs.raw(FILEID));
        assert_eq!(mac.look(root, lookup("missing")).err(), Some(status::NOENT));
        let reply = mac.about("access", &handle, word(op::ACCESS, RIGHTS));
        let Answer::Access { supported, granted } = *reply.first(op::ACCESS) else { panic!() };
        assert_eq!((supported & !RIGHTS, granted & !supported), (0, 0));
        let reply = mac.client.done("getattr", &[putfh(&handle), getattr(&mac.default)]);
        assert_eq!(reply.attrs()[0], &attrs);
        // the way up leads to another file system, which has other attributes
        let whole = getattr(&mac.default);
        let up = [putfh(root), whole.clone(), plain(op::LOOKUPP), plain(op::GETFH), whole];
        let reply = mac.client.done("lookup", &up);
        assert_ne!(reply.attrs()[0].raw(FSID), reply.attrs()[1].raw(FSID));
        let locations = words(&[24], 3);
        let step = [putfh(root), lookup("file"), getattr(&locations)];
        mac.client.done("fs_locations", &step);
        let tag = if minor == 0 { "renew" } else { "sequence" };
        let renew = of_client(op::RENEW, mac.client.clientid.get());
        let renewals = if minor == 0 { vec![renew] } else { vec![] };
        mac.client.done(tag, &renewals);
    }
}

#[test]
fn creates_writes_and_reads() {
    for minor in MINORS {
        let rig = server();
        let mac = Mac::mount(&rig, minor);
        let with_mode = words(&[MODE], 3);
        let how = How::Unchecked(&with_mode, &mode(0o644));
        let (file, reply) = mac.open(3, &how, "made").unwrap();
        assert_eq!(reply.attrs()[0].u32(MODE), 0o644);
        assert_eq!(numbers(&reply.opened().set), [MODE]);
        let bitmap = masked(&words(AFTER_WRITE, 3), &mac.supported);
        let written = [putfh(&file.handle), write(&file.stateid, 0, 0, b"hello"), getattr(&bitmap)];
        let reply = mac.client.done("write", &written);
        given(reply.attrs()[0], &bitmap);
        assert_eq!(reply.attrs()[0].u64(SIZE), 5);
        let Answer::Written { count: 5, committed: 0..=2, verifier } = *reply.first(op::WRITE)
        else {
            panic!("{reply:?}")
        };
        let reply = mac.about("commit", &file.handle, commit(0, 5));
        assert_eq!(reply.first(op::COMMIT), &Answer::Verifier(verifier));
        for stateid in [&file.stateid, &ANONYMOUS] {
            let reply = mac.client.done("read", &[putfh(&file.handle), read(stateid, 0, 65536)]);
            assert_eq!(reply.data(), (true, &b"hello"[..]));
        }
        for (attributes, values) in [
            (&[SIZE][..], size(2)),
            (&[MODE], mode(0o600)),
            (&[48, 54], [client_time(1, 2), client_time(3, 4)].concat()),
        ] {
            let bitmap = words(attributes, 3);
            let stateid = if attributes == [SIZE] { &file.stateid } else { &ANONYMOUS };
            let reply = mac.about("setattr", &file.handle, setattr(stateid, &bitmap, &values));
            let Answer::Bits(set) = reply.first(op::SETATTR) else { panic!() };
            assert_eq!(numbers(set), attributes);
        }
        // every open is told to the server, also one that adds nothing, so that a part of them can be closed
        let (file, _) = mac.open(1, &How::Existing, "made").unwrap();
        let narrower = open_downgrade(&file.stateid, mac.next_seqid(), 1, 0);
        let reply = mac.about("open_downgrd", &file.handle, narrower);
        let file = File { stateid: reply.stateid(op::OPEN_DOWNGRADE), ..file };
        mac.close(&file);
        // again by name, and in version 4.1 by the handle
        let (again, _) = mac.open(1, &How::Existing, "made").unwrap();
        assert_eq!(again.handle, file.handle);
        mac.close(&again);
        if minor == 1 {
            let open = mac.open_args(1, &How::Existing, &Claim::Handle);
            let (whole, default) = (getattr(&mac.with_handle()), getattr(&mac.default));
            let root = [putfh(&mac.root), plain(op::SAVEFH), putfh(&file.handle), open];
            let reply = mac
                .client
                .done("open", &[&root[..], &[whole, plain(op::RESTOREFH), default]].concat());
            assert_eq!(reply.attrs()[1].u32(TYPE), 2, "the directory again");
            mac.close(&File { stateid: reply.opened().stateid, handle: file.handle });
        }
    }
}

#[test]
fn creates_exclusively() {
    for minor in MINORS {
        let rig = server();
        let mac = Mac::mount(&rig, minor);
        // only what the server sets with EXCLUSIVE4_1; the rest by SETATTR
        let wanted = masked(&words(&[MODE], 3), &mac.exclusive);
        let values = mode(0o640);
        let how = if minor == 0 {
            How::Exclusive([7; 8])
        } else {
            How::ExclusiveWith([7; 8], &wanted, &values)
        };
        let (file, reply) = mac.open(3, &how, "once").unwrap();
        if minor == 1 {
            assert_eq!(reply.attrs()[0].u32(MODE), 0o640, "in one step");
        }
        let rest = words(&[MODE, 48, 54], 3);
        let times = [mode(0o640), client_time(5, 0), client_time(5, 0)].concat();
        mac.about("setattr", &file.handle, setattr(&file.stateid, &rest, &times));
        let other = match how {
            How::Exclusive(_) => How::Exclusive([8; 8]),
            _ => How::ExclusiveWith([8; 8], &wanted, &values),
        };
        assert_eq!(mac.open(3, &other, "once").err(), Some(status::EXIST));
        mac.close(&file);
    }
}

#[test]
fn makes_renames_and_removes_names() {
    for minor in MINORS {
        let rig = server();
        let mac = Mac::mount(&rig, minor);
        let (root, default) = (&mac.root, getattr(&mac.default));
        let with_mode = words(&[MODE], 3);
        for (tag, kind, made, name) in [
            ("mkdir", 2, Made::Dir, "d"),
            ("symlink", 5, Made::Symlink("d/x"), "s"),
            ("mknod", 7, Made::Fifo, "p"),
        ] {
            let reply = mac.client.done(
                tag,
                &[
                    putfh(root),
                    plain(op::SAVEFH),
                    create(&made, name, &with_mode, &mode(0o755)),
                    getattr(&mac.with_handle()),
                    plain(op::RESTOREFH),
                    default.clone(),
                ],
            );
            let [object, dir] = reply.attrs()[..] else { panic!() };
            assert_eq!((object.u32(TYPE), dir.u32(TYPE)), (kind, 2));
            let Answer::Created { change: (_, before, after), .. } = reply.first(op::CREATE) else {
                panic!()
            };
            assert_ne!(before, after);
            assert_eq!(dir.u64(CHANGE), *after);
        }
        let (link, _) = mac.look(root, lookup("s")).unwrap();
        let compound = [putfh(&link), default.clone(), plain(op::READLINK)];
        let reply = mac.client.done("readlink", &compound);
        assert_eq!(reply.first(op::READLINK), &Answer::Target(b"d/x".to_vec()));
        let (dir, _) = mac.look(root, lookup("d")).unwrap();
        let (file, _) = mac.look(root, lookup("file")).unwrap();
        // both changes name two directories in turn, and attributes of both
        for (tag, from, to, change) in [
            ("rename", root, &dir, rename("file", "moved")),
            ("link", &file, root, named(op::LINK, b"linked")),
        ] {
            let reply = mac.client.done(
                tag,
                &[
                    putfh(from),
                    plain(op::SAVEFH),
                    putfh(to),
                    change,
                    default.clone(),
                    plain(op::RESTOREFH),
                    default.clone(),
                ],
            );
            assert_eq!(reply.attrs().len(), 2, "{tag}");
        }
        let full = [putfh(root), remove("d"), default.clone()];
        mac.client.fails("remove", &full, status::NOTEMPTY);
        for (dir, name) in [(&dir, "moved"), (root, "d"), (root, "s"), (root, "p")] {
            mac.about("remove", dir, remove(name));
        }
        mac.client.fails("getattr", &[putfh(&dir), default], status::STALE);
    }
}

#[test]
fn lists_directories() {
    for minor in MINORS {
        let rig = server();
        let mac = Mac::mount(&rig, minor);
        for at in 0..40 {
            let how = How::Unchecked(&[0, 0, 0], &[]);
            let (file, _) = mac.open(2, &how, &format!("name-{at:04}")).unwrap();
            mac.close(&file);
        }
        let every = masked(&mac.asked(&[DEFAULT, &[11, HANDLE]].concat()), &mac.supported);
        for (tag, bitmap) in [("readdir", words(OF_ENTRIES, 3)), ("readdirplus", every)] {
            let (mut from, mut names) = ((0, [0; 8]), Vec::new());
            loop {
                let compound =
                    [putfh(&mac.root), getattr(&mac.default), readdir(from, 512, 4096, &bitmap)];
                let reply = mac.client.done(tag, &compound);
                let (verifier, entries, eof) = reply.dir();
                for entry in entries {
                    // rdattr_error is there to be 0
                    given(&entry.attrs, &bitmap);
                    assert_eq!(entry.attrs.u32(11), 0);
                    assert_ne!(entry.attrs.u64(FILEID), 0);
                }
                names.extend(entries.iter().map(|entry| entry.name.clone()));
                if eof {
                    break;
                }
                from = (entries.last().expect("not an empty page").cookie, verifier);
            }
            names.sort();
            names.dedup();
            assert_eq!(names.len(), 41, "{tag}: without . and ..");
        }
    }
}

#[test]
fn locks_and_unlocks() {
    for minor in MINORS {
        let rig = server();
        let mac = Mac::mount(&rig, minor);
        let (file, _) = mac.open(3, &How::Existing, "file").unwrap();
        let range = Range { kind: 2, offset: 10, len: 20 };
        // a name, a process, when it began
        let clientid = mac.client.clientid.get();
        let locker =
            Locker { clientid, owner: b"\0\0\0\x01\0\0\x01\0\0\0\0\0\x65\x5a\0\0\0\0\0\x09" };
        let other =
            Locker { owner: b"\0\0\0\x02\0\0\x01\0\0\0\0\0\x65\x5a\0\0\0\0\0\x0a", ..locker };
        let on = |tag: &str, operation: Vec<u8>| {
            mac.client.call(tag, &[putfh(&file.handle), getattr(&mac.default), operation])
        };
        let first = lock_first(range, false, (mac.next_seqid(), &file.stateid, 0), locker);
        let reply = on("lock", first);
        assert_eq!(reply.status, status::OK, "{reply:?}");
        let stateid = reply.stateid(op::LOCK);
        let wider = Range { kind: 1, offset: 100, len: u64::MAX };
        let reply = on("lock", lock_again(wider, &stateid, 1));
        let stateid = reply.stateid(op::LOCK);
        assert_eq!(on("locktest", lockt(range, locker)).status, status::OK, "its own");
        let reply = on("locktest", lockt(range, other));
        let Answer::Denied(denied) = reply.first(op::LOCKT) else { panic!("{reply:?}") };
        assert_eq!((denied.offset, denied.len, denied.kind), (10, 20, 2));
        assert_eq!(denied.owner, locker.owner);
        let reply =
            on("lock", lock_first(range, false, (mac.next_seqid(), &file.stateid, 0), other));
        assert_eq!(reply.status, status::DENIED);
        let all = Range { kind: 2, offset: 0, len: u64::MAX };
        let reply = on("unlock", locku(all, 2, &stateid));
        assert_eq!(reply.status, status::OK, "{reply:?}");
        let stateid = reply.stateid(op::LOCKU);
        if minor == 0 {
            let release = Args::of(op::RELEASE_LOCKOWNER).u64(clientid).opaque(locker.owner).end();
            mac.client.done("release lockowner", &[putfh(&file.handle), release]);
        } else {
            mac.client.done("free_stateid", &[sixteen(op::FREE_STATEID, &stateid)]);
        }
        mac.close(&file);
    }
}

#[test]
fn comes_back_and_reclaims_after_a_restart() {
    for minor in MINORS {
        let rig = server();
        let mac = Mac::mount(&rig, minor);
        let (file, _) = mac.open(3, &How::Existing, "file").unwrap();
        let locker = Locker { clientid: mac.client.clientid.get(), owner: b"twenty bytes, binary" };
        let range = Range { kind: 2, offset: 0, len: u64::MAX };
        let lock = lock_first(range, false, (mac.next_seqid(), &file.stateid, 0), locker);
        mac.client.done("lock", &[putfh(&file.handle), getattr(&mac.default), lock]);
        let rig = rig.restarted();
        let client = Client { rig: &rig, ..mac.client };
        let refused = if minor == 0 { status::STALE_STATEID } else { status::BADSESSION };
        client.fails("read", &[putfh(&file.handle), read(&file.stateid, 0, 8)], refused);
        if minor == 0 {
            let renew = of_client(op::RENEW, client.clientid.get());
            client.fails("renew", &[renew], status::STALE_CLIENTID);
        }
        client.session.set(None);
        known(&client, 1);
        let mac = Mac { client, seqid: Cell::new(0), ..mac };
        let open = mac.open_args(3, &How::Existing, &Claim::Previous(0));
        let compound = [putfh(&file.handle), open, getattr(&mac.with_handle())];
        let reply = mac.client.done("open_reclaim", &compound);
        assert_eq!(reply.attrs()[0].opaque(HANDLE), file.handle);
        let opened = reply.opened();
        assert_eq!(opened.delegation, 0, "no other type is known to it here");
        let file = mac.confirmed(File { stateid: opened.stateid, ..file }, opened.flags);
        let locker = Locker { clientid: mac.client.clientid.get(), ..locker };
        let lock = lock_first(range, true, (mac.next_seqid(), &file.stateid, 0), locker);
        mac.client.done("lock", &[putfh(&file.handle), getattr(&mac.default), lock]);
        if minor == 1 {
            mac.client.done("reclaim_comp", &[word(op::RECLAIM_COMPLETE, 0)]);
        }
        mac.close_with_lock(&file);
    }
}

impl Mac<'_> {
    /// The last close is allowed with locks: the server drops them.
    fn close_with_lock(&self, file: &File) {
        let close = close(self.next_seqid(), &file.stateid);
        let compound = [putfh(&file.handle), close, getattr(&self.default)];
        let reply = self.client.call("close", &compound);
        assert!([status::OK, 10037].contains(&reply.status), "{reply:?}");
    }
}

#[test]
fn unmounts() {
    let rig = server();
    let mac = Mac::mount(&rig, 1);
    let session = mac.client.session.take().unwrap();
    let id = mac.client.clientid.get();
    mac.client.done("destroy_session", &[sixteen(op::DESTROY_SESSION, &session)]);
    mac.client.done("destroyclientid", &[of_client(op::DESTROY_CLIENTID, id)]);
}
