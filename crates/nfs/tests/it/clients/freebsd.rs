//! The client of FreeBSD, by its sources: versions 4.0 and 4.1.
//!
//! Bitmaps have as few words as they need. In front of a change stands GETATTR of `time_modify` alone, so that the client
//! sees whether what it has cached is of just before. Stateids of version 4.1 are sent with seqid 0.

use super::answer::{Answer, Attrs, Reply};
use super::wire::{
    Args, Claim, How, Implementation, Locker, Made, Open, Range, Stateid, auth_sys, bits, close,
    commit, create, create_session, exchange_id, getattr, lock_again, lock_first, lockt, locku,
    lookup, named, of_client, op, open_confirm, open_downgrade, plain, putfh, read, readdir,
    remove, rename, setattr, setclientid, sixteen, word, write,
};
use super::{
    CHANGE, Client, Dialect, FILEID, HANDLE, LEASE, MODE, MOUNTED_ON, SIZE, TYPE, as_is,
    client_time, given, mode, server, size, status,
};
use crate::nlm::rig::Rig;
use std::cell::Cell;

/// What it asks for of an object.
const ALL: &[u32] = &[0, 1, 3, 4, 8, 20, 30, 33, 35, 36, 37, 41, 45, 47, 52, 53];
/// The same after WRITE and COMMIT: without the owners.
const AFTER_WRITE: &[u32] = &[0, 1, 3, 4, 8, 20, 30, 33, 35, 41, 45, 47, 52, 53];
const STATFS: &[u32] = &[5, 6, 15, 22, 23, 26, 27, 29, 30, 31, 42, 43, 44, 51];
const PATHCONF: &[u32] = &[16, 17, 18, 28, 29, 34];
/// In front of a change.
const BEFORE: &[u32] = &[53];
const OF_ENTRIES: &[u32] = &[1, 11, 20, 55];

/// All replies are to be kept but those that may be long.
fn cached(tag: &str) -> bool {
    !matches!(tag, "Lookup" | "Readlink" | "Read" | "Readdir")
}

const DIALECT: Dialect = Dialect { tag: as_is, cached };
const CHANNELS: [[u32; 6]; 2] =
    [[0, 132_096, 132_096, 4096, 20, 64], [0, 10000, 10000, 4096, 4, 4]];
/// What the client calls itself: the UUID of the machine and the mount.
const NAME: &[u8] = b"fbsd.lab0123456789abcdef0123456789abcdef\x01\x02";
const OWNER: &[u8] = b"\0\0\x03\xe8\x65\x5a\0\0\0\0\0\x01";

struct FreeBsd<'r> {
    client: Client<'r>,
    root: Vec<u8>,
    seqid: Cell<u32>,
}

struct File {
    handle: Vec<u8>,
    stateid: Stateid,
}

/// Makes itself known to the server.
fn known(client: &Client<'_>, boot: u32) {
    let verifier = u64::from(boot) << 32 | 1;
    let verifier = verifier.to_be_bytes();
    if client.minor == 0 {
        // without callbacks there is nobody at this address
        let args = setclientid(verifier, NAME, (0xee00, "tcp", "0.0.0.0.0.0", 0xee00));
        return client.confirm(["SetClientID", "SetClientIDConfirm"], &[], args);
    }
    let release = Implementation(b"freebsd.org", b"FreeBSD 15.0", 1_293_840_000);
    // either kind of server will do: USE_PNFS_MDS and USE_NON_PNFS
    let known = client.exchange("ExchangeID", exchange_id(verifier, NAME, 0x3_0000, &release));
    assert_ne!(known.flags & 0x7_0000, 0);
    let sequence = (known.clientid, known.sequence);
    let callbacks = auth_sys(0x655a, b"", 0, 0, &[]);
    // PERSIST, and no channel for callbacks
    let args = create_session(sequence, 1, CHANNELS, 0xee00, &[callbacks]);
    let session = client.start("CreateSession", args);
    assert_eq!((session.sequence, session.flags & !1), (known.sequence, 0));
    let [fore, _] = session.channels;
    assert!(fore[1] >= 8192 && fore[2] >= 8192 && fore[4] >= 10 && fore[5] >= 1, "{fore:?}");
}

impl<'r> FreeBsd<'r> {
    fn mount(rig: &'r Rig, minor: u32) -> Self {
        let client = Client::new(rig, minor, DIALECT);
        known(&client, 1);
        if minor == 1 {
            client.done("ReclaimComplete", &[word(op::RECLAIM_COMPLETE, 0)]);
            // a second one is no mistake to this client
            let again = [word(op::RECLAIM_COMPLETE, 0)];
            client.fails("ReclaimComplete", &again, status::COMPLETE_ALREADY);
        }
        let path = [plain(op::PUTROOTFH), lookup("e"), plain(op::GETFH)];
        let root = client.done("Dirpath", &path).handle();
        let bitmap = bits(&[ALL, &[LEASE]].concat());
        let reply = client.done("Getattr", &[putfh(&root), getattr(&bitmap)]);
        given(reply.attrs()[0], &bitmap);
        assert_eq!((reply.attrs()[0].u32(TYPE), reply.attrs()[0].u32(LEASE)), (2, 60));
        Self { client, root, seqid: Cell::new(0) }
    }

    /// The compound of one change between two sights of the object.
    fn change(&self, tag: &str, handle: &[u8], operation: Vec<u8>, after: &[u32]) -> Reply {
        let after = bits(after);
        let compound = [putfh(handle), getattr(&bits(BEFORE)), operation, getattr(&after)];
        let reply = self.client.done(tag, &compound);
        assert_eq!(reply.attrs()[0].numbers(), BEFORE);
        given(reply.attrs()[1], &after);
        reply
    }

    fn look(&self, dir: &[u8], tag: &str, step: Vec<u8>) -> Result<(Vec<u8>, Attrs), u32> {
        let all = getattr(&bits(ALL));
        let compound = [putfh(dir), all.clone(), step, plain(op::GETFH), all];
        let reply = self.client.call(tag, &compound);
        given(reply.attrs()[0], &bits(ALL));
        if reply.status != status::OK {
            return Err(reply.status);
        }
        Ok((reply.handle(), reply.attrs()[1].clone()))
    }

    fn next_seqid(&self) -> u32 {
        let seqid = self.seqid.get();
        if self.client.minor == 0 {
            self.seqid.set(seqid + 1);
        }
        seqid
    }

    /// A stateid as it is sent.
    fn sent(&self, stateid: Stateid) -> Stateid {
        let mut sent = stateid;
        if self.client.minor == 1 {
            sent[..4].fill(0);
        }
        sent
    }

    fn open_args(&self, access: u32, how: &How<'_>, claim: &Claim<'_>) -> Vec<u8> {
        let clientid = self.client.clientid.get();
        let seqid = self.next_seqid();
        Open { seqid, access, deny: 0, clientid, owner: OWNER }.of(how, claim)
    }

    /// What OPEN has granted, confirmed if the server wants it.
    fn opened(&self, reply: &Reply, handle: Vec<u8>) -> File {
        let opened = reply.opened();
        // it knows no delegation of type "none, and why": it has not asked for that
        assert!(opened.delegation <= 2, "{opened:?}");
        let mut stateid = opened.stateid;
        if opened.flags & 2 != 0 {
            let confirm = open_confirm(&stateid, self.next_seqid());
            let reply = self.client.done("Openconfirm", &[putfh(&handle), confirm]);
            stateid = reply.stateid(op::OPEN_CONFIRM);
        }
        File { handle, stateid: self.sent(stateid) }
    }

    /// OPEN of a file that it has looked up.
    fn open(&self, access: u32, name: &str) -> File {
        let (handle, _) = self.look(&self.root, "Lookup", lookup(name)).unwrap();
        let open = self.open_args(access, &How::Existing, &Claim::Null(name));
        let compound = [putfh(&self.root), open, getattr(&bits(&[CHANGE, 53]))];
        let reply = self.client.done("Open", &compound);
        self.opened(&reply, handle)
    }

    fn create(&self, how: &How<'_>, name: &str) -> Result<File, u32> {
        let open = self.open_args(3, how, &Claim::Null(name));
        let all = getattr(&bits(ALL));
        let compound =
            [putfh(&self.root), open, plain(op::GETFH), all.clone(), putfh(&self.root), all];
        let reply = self.client.call("Create", &compound);
        if reply.status != status::OK {
            return Err(reply.status);
        }
        let [object, dir] = reply.attrs()[..] else { panic!() };
        assert_eq!((object.u32(TYPE), dir.u32(TYPE)), (1, 2));
        Ok(self.opened(&reply, reply.handle()))
    }

    fn close(&self, file: &File) {
        let close = close(self.next_seqid(), &file.stateid);
        self.client.done("Close", &[putfh(&file.handle), close]);
    }
}

const MINORS: [u32; 2] = [0, 1];

#[test]
fn mounts_and_looks_around() {
    for minor in MINORS {
        let rig = server();
        let mount = FreeBsd::mount(&rig, minor);
        let (client, root) = (&mount.client, &mount.root);
        let (handle, attrs) = mount.look(root, "Lookup", lookup("file")).unwrap();
        assert_eq!((attrs.u32(TYPE), attrs.u64(SIZE)), (1, 0));
        let missing = mount.look(root, "Lookup", lookup("missing"));
        assert_eq!(missing.err(), Some(status::NOENT));
        let all = bits(ALL);
        let reply = client.done("Getattr", &[putfh(&handle), getattr(&all)]);
        given(reply.attrs()[0], &all);
        let access = [putfh(&handle), word(op::ACCESS, 0x2d), getattr(&all)];
        let reply = client.done("Access", &access);
        assert!(matches!(reply.first(op::ACCESS), Answer::Access { supported: 0x2d, .. }));
        for (tag, attributes) in [("Statfs", STATFS), ("Pathconf", PATHCONF)] {
            let bitmap = bits(&[ALL, attributes].concat());
            let reply = client.done(tag, &[putfh(root), getattr(&bitmap)]);
            given(reply.attrs()[0], &bitmap);
        }
        // the way up ends somewhere, and it does not mind where
        let mut dir = root.clone();
        let ended = (0..3).find_map(|_| match mount.look(&dir, "Lookupp", plain(op::LOOKUPP)) {
            Ok((up, _)) => {
                dir = up;
                None
            }
            Err(status) => Some(status),
        });
        assert_eq!(ended, Some(status::NOENT));
        let renewals =
            if minor == 0 { vec![of_client(op::RENEW, client.clientid.get())] } else { vec![] };
        client.done("Renew", &renewals);
    }
}

#[test]
fn creates_writes_and_reads() {
    for minor in MINORS {
        let rig = server();
        let mount = FreeBsd::mount(&rig, minor);
        let client = &mount.client;
        let (with_mode, values) = (bits(&[MODE]), mode(0o644));
        let file = mount.create(&How::Unchecked(&with_mode, &values), "made").unwrap();
        let written = write(&file.stateid, 0, 0, b"hello");
        let reply = mount.change("Write", &file.handle, written, AFTER_WRITE);
        assert_eq!(reply.attrs()[1].u64(SIZE), 5);
        let Answer::Written { count: 5, committed: 0..=2, verifier } = *reply.first(op::WRITE)
        else {
            panic!("{reply:?}")
        };
        let reply = mount.change("Commit", &file.handle, commit(0, 5), AFTER_WRITE);
        assert_eq!(reply.first(op::COMMIT), &Answer::Verifier(verifier));
        let reply = client.done("Read", &[putfh(&file.handle), read(&file.stateid, 0, 65536)]);
        assert_eq!(reply.data(), (true, &b"hello"[..]));
        for (attributes, values) in [
            (&[SIZE][..], size(2)),
            (&[MODE], mode(0o600)),
            (&[48, 54], [client_time(1, 2), client_time(3, 4)].concat()),
        ] {
            let args = setattr(&file.stateid, &bits(attributes), &values);
            mount.change("Setattr", &file.handle, args, ALL);
        }
        let file = mount.open(1, "made");
        let narrower = open_downgrade(&file.stateid, mount.next_seqid(), 1, 0);
        let reply = client.done("Opendowngrade", &[putfh(&file.handle), narrower]);
        let stateid = mount.sent(reply.stateid(op::OPEN_DOWNGRADE));
        mount.close(&File { stateid, ..file });
        let file = mount.open(1, "made");
        let reply = client.done("Read", &[putfh(&file.handle), read(&file.stateid, 0, 65536)]);
        assert_eq!(reply.data(), (true, &b"he"[..]));
        mount.close(&file);
    }
}

#[test]
fn creates_exclusively() {
    for minor in MINORS {
        let rig = server();
        let mount = FreeBsd::mount(&rig, minor);
        let (with_mode, values) = (bits(&[MODE]), mode(0o640));
        let how = |verifier| match minor {
            0 => How::Exclusive([verifier; 8]),
            _ => How::ExclusiveWith([verifier; 8], &with_mode, &values),
        };
        let file = mount.create(&how(1), "once").unwrap();
        let rest = setattr(&file.stateid, &with_mode, &values);
        let reply = mount.change("Setattr", &file.handle, rest, ALL);
        assert_eq!(reply.attrs()[1].u32(MODE), 0o640);
        assert_eq!(mount.create(&how(2), "once").err(), Some(status::EXIST));
        // the way of a persistent session
        let guarded = How::Guarded(&with_mode, &values);
        assert_eq!(mount.create(&guarded, "once").err(), Some(status::EXIST));
        mount.close(&file);
    }
}

#[test]
fn makes_renames_and_removes_names() {
    for minor in MINORS {
        let rig = server();
        let mount = FreeBsd::mount(&rig, minor);
        let (client, root) = (&mount.client, &mount.root);
        let (before, all) = (getattr(&bits(BEFORE)), getattr(&bits(ALL)));
        let (with_mode, values) = (bits(&[MODE]), mode(0o755));
        for (tag, kind, made, name) in [
            ("Mkdir", 2, Made::Dir, "d"),
            ("Symlink", 5, Made::Symlink("d/x"), "s"),
            ("Mknod", 7, Made::Fifo, "p"),
        ] {
            let create = create(&made, name, &with_mode, &values);
            let shown = [plain(op::GETFH), all.clone(), putfh(root), all.clone()];
            let change = [putfh(root), before.clone(), create];
            let reply = client.done(tag, &[&change[..], &shown].concat());
            assert_eq!(reply.attrs()[1].u32(TYPE), kind, "{tag}");
            assert_eq!(reply.attrs()[2].u32(TYPE), 2, "{tag}");
        }
        let (link, _) = mount.look(root, "Lookup", lookup("s")).unwrap();
        let reply = client.done("Readlink", &[putfh(&link), plain(op::READLINK), all.clone()]);
        assert_eq!(reply.first(op::READLINK), &Answer::Target(b"d/x".to_vec()));
        let (dir, _) = mount.look(root, "Lookup", lookup("d")).unwrap();
        let (file, _) = mount.look(root, "Lookup", lookup("file")).unwrap();
        client.done(
            "Rename",
            &[
                putfh(root),
                plain(op::SAVEFH),
                before.clone(),
                putfh(&dir),
                before.clone(),
                rename("file", "moved"),
            ],
        );
        let linked = [putfh(&file), plain(op::SAVEFH), putfh(root), before.clone()];
        client.done("Link", &[&linked[..], &[named(op::LINK, b"linked")]].concat());
        let full = [putfh(root), before, remove("d")];
        client.fails("Rmdir", &full, status::NOTEMPTY);
        for (tag, dir, name) in
            [("Remove", &dir, "moved"), ("Rmdir", root, "d"), ("Remove", root, "s")]
        {
            let reply = mount.change(tag, dir, remove(name), ALL);
            let Answer::Change((_, before, after)) = *reply.first(op::REMOVE) else { panic!() };
            assert_ne!(before, after);
        }
    }
}

#[test]
fn lists_directories() {
    for minor in MINORS {
        let rig = server();
        let mount = FreeBsd::mount(&rig, minor);
        for at in 0..40 {
            let file = mount.create(&How::Unchecked(&[], &[]), &format!("name-{at:04}")).unwrap();
            mount.close(&file);
        }
        for attributes in [OF_ENTRIES.to_vec(), [ALL, &[11, HANDLE, MOUNTED_ON]].concat()] {
            let bitmap = bits(&attributes);
            let (mut from, mut names) = ((0, [0; 8]), Vec::new());
            loop {
                let list = readdir(from, 4096, 4096, &bitmap);
                let compound = [putfh(&mount.root), list, getattr(&bits(ALL))];
                let reply = mount.client.done("Readdir", &compound);
                let (verifier, entries, eof) = reply.dir();
                for entry in entries {
                    given(&entry.attrs, &bitmap);
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
            assert_eq!(names.len(), 41, "without . and ..");
        }
    }
}

/// A lock owner of this client: twelve bytes of a process, then the file's handle.
fn locker(process: u8, file: &File) -> Vec<u8> {
    [b"\0\0\x03\xe8\x65\x5a\0\0\0\0\0", &[process][..], &file.handle].concat()
}

#[test]
fn locks_and_unlocks() {
    for minor in MINORS {
        let rig = server();
        let mount = FreeBsd::mount(&rig, minor);
        let file = mount.open(3, "file");
        let clientid = mount.client.clientid.get();
        let (one, two) = (locker(1, &file), locker(2, &file));
        let [one, two] = [&one, &two].map(|owner| Locker { clientid, owner });
        let on = |tag: &str, operation| mount.client.call(tag, &[putfh(&file.handle), operation]);
        let range = Range { kind: 2, offset: 10, len: 20 };
        let first = lock_first(range, false, (mount.next_seqid(), &file.stateid, 0), one);
        let stateid = mount.sent(on("Lock", first).stateid(op::LOCK));
        let wider = Range { kind: 2, offset: 25, len: 50 };
        let stateid = mount.sent(on("Lock", lock_again(wider, &stateid, 1)).stateid(op::LOCK));
        let reply = on("LockT", lockt(range, two));
        let Answer::Denied(denied) = reply.first(op::LOCKT) else { panic!("{reply:?}") };
        assert_eq!((denied.kind, &denied.owner[..]), (2, one.owner));
        let refused = lock_first(range, false, (mount.next_seqid(), &file.stateid, 0), two);
        assert_eq!(on("Lock", refused).status, status::DENIED);
        let all = Range { kind: 1, offset: 0, len: u64::MAX };
        let reply = on("LockU", locku(all, 2, &stateid));
        let stateid = mount.sent(reply.stateid(op::LOCKU));
        if minor == 0 {
            let release = Args::of(op::RELEASE_LOCKOWNER).u64(clientid).opaque(one.owner).end();
            mount.client.done("Rellckown", &[release]);
        } else {
            mount.client.done("FreeStateID", &[sixteen(op::FREE_STATEID, &stateid)]);
        }
        mount.close(&file);
    }
}

#[test]
fn comes_back_and_reclaims_after_a_restart() {
    for minor in MINORS {
        let rig = server();
        let mount = FreeBsd::mount(&rig, minor);
        let file = mount.open(3, "file");
        let owner = locker(1, &file);
        let range = Range { kind: 2, offset: 0, len: u64::MAX };
        let lock = |mount: &FreeBsd<'_>, file: &File, reclaim| {
            let locker = Locker { clientid: mount.client.clientid.get(), owner: &owner };
            let from = (mount.next_seqid(), &file.stateid, 0);
            let lock = lock_first(range, reclaim, from, locker);
            mount.client.done("Lock", &[putfh(&file.handle), lock]);
        };
        lock(&mount, &file, false);
        let rig = rig.restarted();
        let client = Client { rig: &rig, ..mount.client };
        let (tag, probe, refused) = if minor == 0 {
            ("Renew", of_client(op::RENEW, client.clientid.get()), status::STALE_CLIENTID)
        } else {
            ("Read", read(&file.stateid, 0, 8), status::BADSESSION)
        };
        client.fails(tag, &[probe], refused);
        client.session.set(None);
        known(&client, 1);
        let mount = FreeBsd { client, seqid: Cell::new(0), ..mount };
        let open = mount.open_args(3, &How::Existing, &Claim::Previous(0));
        let compound = [putfh(&file.handle), open, getattr(&bits(&[CHANGE, 53]))];
        let reply = mount.client.done("Open", &compound);
        let file = mount.opened(&reply, file.handle);
        lock(&mount, &file, true);
        if minor == 1 {
            mount.client.done("ReclaimComplete", &[word(op::RECLAIM_COMPLETE, 0)]);
        }
        mount.client.done("Read", &[putfh(&file.handle), read(&file.stateid, 0, 8)]);
    }
}

#[test]
fn unmounts() {
    let rig = server();
    let mount = FreeBsd::mount(&rig, 1);
    let session = mount.client.session.take().unwrap();
    let id = mount.client.clientid.get();
    mount.client.done("DestroySession", &[sixteen(op::DESTROY_SESSION, &session)]);
    mount.client.done("DestroyClient", &[of_client(op::DESTROY_CLIENTID, id)]);
}
