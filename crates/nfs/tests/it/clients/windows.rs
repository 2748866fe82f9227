//! ms-nfs41-client, the client of Windows, by its sources: version 4.2, or 4.1 where a server has no other.
//!
//! It walks a whole path in one COMPOUND, and needs `fileid` and `fsid` of each step. Its decoders have fixed sizes: three
//! words of a bitmap, 8192 bytes of attributes, 1024 bytes of an entry's attributes.

use super::answer::{Answer, Attrs, Reply, numbers};
use super::wire::{
    ANONYMOUS, Args, Claim, How, Implementation, Locker, Made, Open, Range, Stateid, auth_none,
    auth_sys, bits, close, commit, create, create_session, exchange_id, getattr, lock_again,
    lock_first, locku, lookup, masked, named, of_client, op, plain, putfh, read, readdir, remove,
    rename, setattr, sixteen, word, words, write,
};
use super::{
    Client, Dialect, EXCLUSIVE, FILEID, FSID, LEASE, MODE, SIZE, SUPPORTED, TYPE, as_is,
    client_time, given, mode, server, size, status,
};
use crate::nlm::rig::Rig;

/// What it asks for of an object; the bit of `FATTR4_OFFLINE` is asked for in version 4.2 too, where it is known.
const ALL: &[u32] = &[1, 3, 4, 8, 14, 20, 25, 33, 35, 36, 37, 45, 46, 47, 50, 53];
/// What it asks for once of a file system.
const OF_FILE_SYSTEM: &[u32] = &[0, 5, 6, 13, 15, 16, 17, 30, 31, 51, 62, 75];
const VOLUME: &[u32] = &[42, 43, 44];

/// The tags of those COMPOUNDs whose replies are to be kept.
fn cached(tag: &str) -> bool {
    matches!(tag, "open" | "create" | "close" | "remove" | "rename" | "link" | "write" | "commit")
}

const DIALECT: Dialect = Dialect { tag: as_is, cached };
const CHANNELS: [[u32; 6]; 2] =
    [[0, 132_140, 131_584, 1024, 16384, 128], [0, 132_140, 131_584, 1024, 16384, 1]];
const NAME: &[u8] = b"0\0w\0i\0n\0.\0l\0a\0b\0-Administrator";
const OWNER: &[u8] = b"1836";

struct Windows<'r> {
    client: Client<'r>,
    root: Vec<u8>,
    supported: Vec<u32>,
    exclusive: Vec<u32>,
}

struct File {
    handle: Vec<u8>,
    stateid: Stateid,
}

/// Makes itself known to the server.
fn known(client: &Client<'_>, verifier: u8) {
    let client_software = Implementation(b"msnfs41client.org", b"NFSv4.1 client for Windows", 0);
    let known = client
        .exchange("exchange_id", exchange_id([verifier; 8], NAME, 0x1_0000, &client_software));
    assert_ne!(known.flags & 0x3_0000, 0, "it uses no server that is only for data");
    let callbacks = [auth_none(), auth_sys(0x655a, b"win", 0, 0, &[])];
    let sequence = (known.clientid, known.sequence);
    let session =
        client.start("create_session", create_session(sequence, 3, CHANNELS, 0x2358, &callbacks));
    assert_eq!(session.sequence, known.sequence);
    assert_eq!(session.flags & !3, 0);
    assert!(session.channels[0][4] >= 64, "it warns of fewer operations");
}

impl<'r> Windows<'r> {
    fn mount(rig: &'r Rig, minor: u32) -> Self {
        let client = Client::new(rig, minor, DIALECT);
        known(&client, 1);
        client.done("reclaim_complete", &[word(op::RECLAIM_COMPLETE, 0)]);
        let lease = [plain(op::PUTROOTFH), getattr(&bits(&[LEASE]))];
        assert_eq!(client.done("getattr", &lease).attrs()[0].u32(LEASE), 60);
        let mount = Self { client, root: vec![], supported: vec![], exclusive: vec![] };
        let (root, _) = mount.walk(&["e"]).unwrap();
        let about = words(OF_FILE_SYSTEM, 3);
        let probe = [putfh(&root), getattr(&about), word(op::OPENATTR, 0)];
        let reply = mount.client.fails("getfsattr", &probe, status::NOTSUPP);
        let attrs = reply.attrs()[0].clone();
        let (supported, exclusive) = (attrs.bitmap(SUPPORTED), attrs.bitmap(EXCLUSIVE));
        assert!(attrs.u64(30) > 0 && attrs.u64(31) > 0);
        let needed = [TYPE, 3, SIZE, FSID, FILEID, MODE];
        assert!(needed.iter().all(|number| numbers(&supported).contains(number)));
        Self { root, supported, exclusive, ..mount }
    }

    /// What it asks for: from the start all, later what the file system has.
    fn asked(&self, attributes: &[u32]) -> Vec<u32> {
        let all = words(attributes, 2);
        if self.supported.is_empty() { all } else { masked(&all, &self.supported) }
    }

    /// A whole path from the server's root.
    fn walk(&self, path: &[&str]) -> Result<(Vec<u8>, Attrs), u32> {
        let asked = getattr(&self.asked(ALL));
        let mut compound = vec![plain(op::PUTROOTFH), plain(op::GETFH), asked.clone()];
        for name in path {
            compound.extend([lookup(name), plain(op::GETFH), asked.clone()]);
        }
        let reply = self.client.call("lookup", &compound);
        for attrs in reply.attrs() {
            assert!(attrs.has(FILEID) && attrs.has(FSID), "it crashes without them");
            for owner in [36, 37].map(|number| attrs.opaque(number)) {
                assert!((1..=256).contains(&owner.len()));
            }
        }
        if reply.status != status::OK {
            return Err(reply.status);
        }
        Ok((reply.handle(), reply.attrs().last().map(|attrs| (*attrs).clone()).unwrap()))
    }

    fn found(&self, name: &str) -> (Vec<u8>, Attrs) {
        self.walk(&["e", name]).unwrap()
    }

    fn open_args(&self, access: u32, deny: u32, how: &How<'_>, claim: &Claim<'_>) -> Vec<u8> {
        // the session says who the client is
        Open { seqid: 0, access, deny, clientid: 0, owner: OWNER }.of(how, claim)
    }

    fn open(&self, access: u32, deny: u32, how: &How<'_>, name: &str) -> Result<File, u32> {
        let asked = self.asked(ALL);
        let compound = [
            putfh(&self.root),
            plain(op::SAVEFH),
            self.open_args(access, deny, how, &Claim::Null(name)),
            plain(op::GETFH),
            getattr(&asked),
            plain(op::RESTOREFH),
            getattr(&asked),
        ];
        let reply = self.client.call("open", &compound);
        if reply.status != status::OK {
            return Err(reply.status);
        }
        given(reply.attrs()[0], &asked);
        assert_eq!((reply.attrs()[0].u32(TYPE), reply.attrs()[1].u32(TYPE)), (1, 2));
        Ok(File { handle: reply.handle(), stateid: reply.opened().stateid })
    }

    fn close(&self, file: &File) {
        self.about("close", &file.handle, close(0, &file.stateid));
    }

    /// A COMPOUND about one object, with its attributes at the end.
    fn about(&self, tag: &str, handle: &[u8], operation: Vec<u8>) -> Reply {
        let asked = self.asked(ALL);
        let reply = self.client.done(tag, &[putfh(handle), operation, getattr(&asked)]);
        given(reply.attrs()[0], &asked);
        reply
    }
}

const MINORS: [u32; 2] = [1, 2];

#[test]
fn mounts_and_looks_around() {
    for minor in MINORS {
        let rig = server();
        let mount = Windows::mount(&rig, minor);
        let (handle, attrs) = mount.found("file");
        assert_eq!((attrs.u32(TYPE), attrs.u64(SIZE)), (1, 0));
        assert_eq!(mount.walk(&["e", "missing", "x"]).err(), Some(status::NOENT));
        let reply = mount.client.done("access", &[putfh(&handle), word(op::ACCESS, 0x3f)]);
        assert!(matches!(reply.first(op::ACCESS), Answer::Access { granted: 1.., .. }));
        let reply = mount.client.done("getattr", &[putfh(&mount.root), getattr(&words(VOLUME, 2))]);
        given(reply.attrs()[0], &words(VOLUME, 2));
        for args in [
            vec![putfh(&mount.root), named(op::SECINFO, b"file")],
            vec![putfh(&mount.root), word(op::SECINFO_NO_NAME, 0)],
        ] {
            let reply = mount.client.done("secinfo", &args);
            let (_, _, Answer::Flavors(flavors)) = reply.results.last().unwrap() else { panic!() };
            assert!(flavors.contains(&1));
        }
        let locations = [putfh(&mount.root), lookup("file"), getattr(&bits(&[24]))];
        mount.client.done("fs_locations", &locations);
        mount.client.done("sequence", &[]);
    }
}

/// What Windows calls hidden, archived and system files is only asked for and set where a server has such attributes.
#[test]
fn asks_only_for_attributes_that_the_server_has() {
    let rig = server();
    let mount = Windows::mount(&rig, 2);
    let asked = numbers(&mount.asked(ALL));
    assert!([14, 25, 46].iter().all(|number| !asked.contains(number)));
    assert!([MODE, 36, 37, 45, 47, 53].iter().all(|number| asked.contains(number)));
}

#[test]
fn creates_writes_and_reads() {
    for minor in MINORS {
        let rig = server();
        let mount = Windows::mount(&rig, minor);
        let client = &mount.client;
        // SIZE and MODE: a file that is there is cut to nothing
        let (bitmap, values) = (bits(&[SIZE, MODE]), [size(0), mode(0o755)].concat());
        let how = How::Unchecked(&bitmap, &values);
        let file = mount.open(3, 0, &how, "made").unwrap();
        let asked = mount.asked(ALL);
        let stable = write(&file.stateid, 0, 2, b"hello");
        let reply = client.done("write", &[putfh(&file.handle), stable, getattr(&asked)]);
        assert_eq!(reply.attrs()[0].u64(SIZE), 5);
        let unstable = [putfh(&file.handle), write(&file.stateid, 5, 0, b" world")];
        let reply = client.done("write", &unstable);
        let Answer::Written { count: 6, verifier, .. } = *reply.first(op::WRITE) else { panic!() };
        let reply = mount.about("commit", &file.handle, commit(0, 11));
        assert_eq!(reply.first(op::COMMIT), &Answer::Verifier(verifier));
        let reply = client.done("read", &[putfh(&file.handle), read(&file.stateid, 0, 65536)]);
        assert_eq!(reply.data(), (true, &b"hello world"[..]));
        // nothing and not the end would be a mistake
        let reply = client.done("read", &[putfh(&file.handle), read(&file.stateid, 11, 8)]);
        assert_eq!(reply.data(), (true, &b""[..]));
        for (attributes, values) in [
            (&[SIZE][..], size(2)),
            (&[MODE], mode(0o600)),
            (&[48, 54], [client_time(1, 2), client_time(3, 4)].concat()),
        ] {
            let args = setattr(&file.stateid, &bits(attributes), &values);
            let reply = mount.about("setattr", &file.handle, args);
            let Answer::Bits(set) = reply.first(op::SETATTR) else { panic!() };
            assert_eq!(numbers(set), attributes);
        }
        // share modes are those of Windows: nobody else may write
        let denied = mount.open(1, 2, &How::Existing, "made");
        assert_eq!(denied.err(), Some(status::SHARE_DENIED));
        mount.close(&file);
        let again = mount.open(3, 0, &how, "made").unwrap();
        let reply = client.done("read", &[putfh(&again.handle), read(&again.stateid, 0, 8)]);
        assert_eq!(reply.data(), (true, &b""[..]));
        mount.close(&again);
    }
}

#[test]
fn creates_exclusively() {
    for minor in MINORS {
        let rig = server();
        let mount = Windows::mount(&rig, minor);
        let wanted = masked(&words(&[MODE], 2), &mount.exclusive);
        assert_eq!(numbers(&wanted), [MODE]);
        let values = mode(0o640);
        let file = mount.open(3, 0, &How::ExclusiveWith([1; 8], &wanted, &values), "once").unwrap();
        let other = How::ExclusiveWith([2; 8], &wanted, &values);
        assert_eq!(mount.open(3, 0, &other, "once").err(), Some(status::EXIST));
        let guarded = How::Guarded(&wanted, &values);
        assert_eq!(mount.open(3, 0, &guarded, "once").err(), Some(status::EXIST));
        mount.close(&file);
    }
}

#[test]
fn makes_renames_and_removes_names() {
    for minor in MINORS {
        let rig = server();
        let mount = Windows::mount(&rig, minor);
        let (client, root) = (&mount.client, &mount.root);
        let asked = getattr(&mount.asked(ALL));
        for (kind, made, name) in [(2, Made::Dir, "d"), (5, Made::Symlink("d/x"), "s")] {
            let create = create(&made, name, &bits(&[MODE]), &mode(0o755));
            let made = [putfh(root), plain(op::SAVEFH), create, plain(op::GETFH), asked.clone()];
            let back = [plain(op::RESTOREFH), asked.clone()];
            let reply = client.done("create", &[&made[..], &back].concat());
            let [object, dir] = reply.attrs()[..] else { panic!() };
            assert_eq!((object.u32(TYPE), dir.u32(TYPE)), (kind, 2));
        }
        let (link, _) = mount.found("s");
        let reply = client.done("readlink", &[putfh(&link), plain(op::READLINK)]);
        assert_eq!(reply.first(op::READLINK), &Answer::Target(b"d/x".to_vec()));
        let (dir, _) = mount.found("d");
        let (file, _) = mount.found("file");
        let renamed = [
            vec![putfh(root), plain(op::SAVEFH), putfh(&dir), rename("file", "moved")],
            vec![putfh(&dir), asked.clone(), putfh(root), asked.clone()],
        ];
        assert_eq!(client.done("rename", &renamed.concat()).attrs().len(), 2);
        let linked = [
            vec![putfh(&file), plain(op::SAVEFH), putfh(root), named(op::LINK, b"linked")],
            vec![asked.clone(), lookup("linked"), asked.clone(), plain(op::GETFH)],
        ];
        let reply = client.done("link", &linked.concat());
        assert_eq!((reply.attrs()[1].u32(35), reply.handle()), (2, file));
        let full = [putfh(root), remove("d"), asked];
        client.fails("remove", &full, status::NOTEMPTY);
        for (dir, name) in [(&dir, "moved"), (root, "d"), (root, "s")] {
            mount.about("remove", dir, remove(name));
        }
    }
}

#[test]
fn lists_directories() {
    for minor in MINORS {
        let rig = server();
        let mount = Windows::mount(&rig, minor);
        for at in 0..40 {
            let how = How::Unchecked(&[], &[]);
            let file = mount.open(2, 0, &how, &format!("name-{at:04}")).unwrap();
            mount.close(&file);
        }
        let bitmap = mount.asked(&[ALL, &[11]].concat());
        let (mut from, mut names) = ((0, [0; 8]), Vec::new());
        loop {
            let list = readdir(from, 4096, 4160, &bitmap);
            let reply = mount.client.done("readdir", &[putfh(&mount.root), list]);
            let (verifier, entries, eof) = reply.dir();
            for entry in entries {
                given(&entry.attrs, &bitmap);
                let len: usize =
                    entry.attrs.numbers().iter().map(|n| entry.attrs.raw(*n).len()).sum();
                assert!(len <= 1024, "its buffer for an entry");
            }
            names.extend(entries.iter().map(|entry| entry.name.clone()));
            if eof {
                break;
            }
            from = (entries.last().expect("not an empty page").cookie, verifier);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 41);
    }
}

#[test]
fn locks_and_unlocks() {
    for minor in MINORS {
        let rig = server();
        let mount = Windows::mount(&rig, minor);
        let file = mount.open(3, 0, &How::Existing, "file").unwrap();
        let [one, two] = [&b"1836"[..], b"1837"].map(|owner| Locker { clientid: 0, owner });
        let on = |tag: &str, operation| mount.client.call(tag, &[putfh(&file.handle), operation]);
        let range = Range { kind: 2, offset: 10, len: 20 };
        let stateid = on("lock", lock_first(range, false, (0, &file.stateid, 0), one));
        let stateid = stateid.stateid(op::LOCK);
        // a lock that waits: LK WRITEW
        let more = Range { kind: 4, offset: 100, len: 10 };
        let stateid = on("lock", lock_again(more, &stateid, 0)).stateid(op::LOCK);
        let reply = on("lock", lock_first(range, false, (0, &file.stateid, 0), two));
        assert_eq!(reply.status, status::DENIED);
        let reply = on("unlock", locku(range, 0, &stateid));
        let stateid = reply.stateid(op::LOCKU);
        let tested = Args::of(op::TEST_STATEID).u32(2).fixed(&file.stateid).fixed(&stateid).end();
        let reply = mount.client.done("test_stateid", &[tested]);
        assert_eq!(reply.first(op::TEST_STATEID), &Answer::States(vec![0, 0]));
        let reply = on("unlock", locku(more, 0, &stateid));
        let stateid = reply.stateid(op::LOCKU);
        mount.client.done("free_stateid", &[sixteen(op::FREE_STATEID, &stateid)]);
        mount.close(&file);
    }
}

/// The operations of version 4.2 that it has.
#[test]
fn copies_and_finds_holes() {
    let rig = server();
    let mount = Windows::mount(&rig, 2);
    let client = &mount.client;
    let file = mount.open(3, 0, &How::Existing, "file").unwrap();
    let other = mount.open(3, 0, &How::Unchecked(&[], &[]), "other").unwrap();
    client.done("write", &[putfh(&file.handle), write(&file.stateid, 0, 2, b"data")]);
    let asked = getattr(&mount.asked(ALL));
    for (tag, number) in [("allocate", op::ALLOCATE), ("deallocate", op::DEALLOCATE)] {
        let range = Args::of(number).fixed(&file.stateid).u64(65536).u64(65536).end();
        let reply = client.call(tag, &[putfh(&file.handle), range, asked.clone()]);
        assert!([status::OK, status::NOTSUPP].contains(&reply.status), "{reply:?}");
    }
    let seek = Args::of(op::SEEK).fixed(&file.stateid).u64(0).u32(0).end();
    let reply = client.done("seek", &[putfh(&file.handle), seek]);
    assert!(matches!(reply.first(op::SEEK), Answer::Found { offset: 0, .. }));
    let plus = Args::of(op::READ_PLUS).fixed(&file.stateid).u64(0).u32(4).end();
    let reply = client.done("read_plus", &[putfh(&file.handle), plus]);
    assert_eq!(reply.data().1, b"data");
    let copied = |number, len, rest: &[u8]| {
        let args = Args::of(number).fixed(&file.stateid).fixed(&other.stateid);
        let args = args.u64(0).u64(0).u64(len).fixed(rest).end();
        let compound =
            [putfh(&file.handle), plain(op::SAVEFH), putfh(&other.handle), args, asked.clone()];
        client.call("copy", &compound)
    };
    // ca_consecutive, ca_synchronous, no source servers
    let reply = copied(op::COPY, 4, &Args::default().u32(1).u32(1).u32(0).end());
    assert!(matches!(reply.first(op::COPY), Answer::Written { count: 4, .. }), "{reply:?}");
    let reply = copied(op::CLONE, 65536, &[]);
    assert!([status::OK, status::NOTSUPP].contains(&reply.status), "{reply:?}");
    let reply = client.done("read", &[putfh(&other.handle), read(&ANONYMOUS, 0, 4)]);
    assert_eq!(reply.data().1, b"data");
}

#[test]
fn comes_back_and_reclaims_after_a_restart() {
    for minor in MINORS {
        let rig = server();
        let mount = Windows::mount(&rig, minor);
        let file = mount.open(3, 0, &How::Existing, "file").unwrap();
        let range = Range { kind: 2, offset: 0, len: 10 };
        let locker = Locker { clientid: 0, owner: OWNER };
        let lock = lock_first(range, false, (0, &file.stateid, 0), locker);
        mount.client.done("lock", &[putfh(&file.handle), lock]);
        let rig = rig.restarted();
        let client = Client { rig: &rig, ..mount.client };
        let lost = [putfh(&file.handle), read(&file.stateid, 0, 8)];
        client.fails("read", &lost, status::BADSESSION);
        client.session.set(None);
        known(&client, 1);
        let mount = Windows { client, ..mount };
        let asked = getattr(&mount.asked(ALL));
        let claimed = |claim| {
            let open = mount.open_args(3, 0, &How::Existing, &claim);
            let both = [open, asked.clone(), putfh(&mount.root), asked.clone()];
            mount.client.call("open", &[&[putfh(&file.handle)], &both[..]].concat())
        };
        let reply = claimed(Claim::Previous(0));
        assert_eq!(reply.status, status::OK, "{reply:?}");
        let stateid = reply.opened().stateid;
        let lock = lock_first(range, true, (0, &stateid, 0), locker);
        mount.client.done("lock", &[putfh(&file.handle), lock]);
        mount.client.done("reclaim_complete", &[word(op::RECLAIM_COMPLETE, 0)]);
        // what it could not claim any more it opens by name
        assert_eq!(claimed(Claim::Previous(0)).status, status::NO_GRACE);
        mount.client.done("read", &[putfh(&file.handle), read(&stateid, 0, 8)]);
    }
}

#[test]
fn unmounts() {
    let rig = server();
    let mount = Windows::mount(&rig, 1);
    let session = mount.client.session.take().unwrap();
    let id = mount.client.clientid.get();
    mount.client.done("destroy_session", &[sixteen(op::DESTROY_SESSION, &session)]);
    mount.client.done("destroy_clientid", &[of_client(op::DESTROY_CLIENTID, id)]);
}
