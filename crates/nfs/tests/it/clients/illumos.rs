//! The client of illumos, by its sources: version 4.0 only.
//!
//! Every LOOKUP and OPEN ends in the directory again. LOOKUP there asks with NVERIFY whether the directory has changed:
//! NFS4ERR_SAME ends the COMPOUND and is what it expects.

use super::answer::{Answer, Attrs, Reply};
use super::wire::{
    ANONYMOUS, Args, Claim, How, Locker, Made, Open, Range, Stateid, bits, close, commit, create,
    getattr, lock_again, lock_first, lockt, locku, lookup, named, nverify, of_client, op,
    open_confirm, open_downgrade, plain, putfh, read, readdir, remove, rename, setattr,
    setclientid, word, write,
};
use super::{
    CHANGE, Client, Dialect, FILEID, HANDLE, LEASE, MODE, MOUNTED_ON, SIZE, TYPE, client_time,
    given, mode, server, size, status, twelve,
};
use crate::nlm::rig::Rig;
use std::cell::Cell;

/// What it asks for of an object.
const ALL: &[u32] = &[1, 3, 4, 8, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53, 55];
/// What it asks for on the way to a file system.
const OF_FILE_SYSTEM: &[u32] = &[0, 1, 2, 5, 6, 8, 27, 30, 31];
const STATFS: &[u32] = &[21, 22, 23, 29, 42, 43, 44];
/// Read, look up, modify, extend, delete, execute.
const RIGHTS: u32 = 0x3f;
const OWNER: &[u8] = b"\0\0\0\0\0\0\0\x07";

const DIALECT: Dialect = Dialect { tag: twelve, cached: |_| false };

struct Illumos<'r> {
    client: Client<'r>,
    root: Vec<u8>,
    seqid: Cell<u32>,
}

struct File {
    handle: Vec<u8>,
    stateid: Stateid,
}

/// Makes itself known to the server; in the same COMPOUND it asks for the time of a lease.
fn known(client: &Client<'_>) {
    let lease = [plain(op::PUTROOTFH), getattr(&bits(&[LEASE]))];
    let name = b"\0\0\x65\x5a\0\0\0\x01illumos.lab";
    let args = setclientid([0x65; 8], name, (0x4000_0000, "tcp", "127.0.0.1.128.9", 1));
    client.confirm(["setclientid", "setclientidc"], &lease, args);
}

impl<'r> Illumos<'r> {
    fn mount(rig: &'r Rig) -> Self {
        let client = Client::new(rig, 0, DIALECT);
        let root = client.done("mount", &[plain(op::PUTROOTFH), plain(op::GETFH)]).handle();
        let about = bits(OF_FILE_SYSTEM);
        let step = |name: &str| [lookup(name), plain(op::GETFH), getattr(&about)];
        let start = [plain(op::PUTROOTFH), plain(op::GETFH), getattr(&about)];
        let reply = client.done("mount", &[&start[..], &step("e")].concat());
        for attrs in reply.attrs() {
            given(attrs, &about);
            assert_eq!(attrs.u32(TYPE), 2);
            assert_eq!(attrs.u32(2), 0, "filehandles that expire are not supported");
        }
        let handle = reply.handle();
        assert_ne!(handle, root);
        let reply = client.done("secinfo", &[putfh(&root), named(op::SECINFO, b"e")]);
        assert!(matches!(reply.first(op::SECINFO), Answer::Flavors(f) if f.contains(&1)));
        known(&client);
        Self { client, root: handle, seqid: Cell::new(0) }
    }

    fn next_seqid(&self) -> u32 {
        self.seqid.set(self.seqid.get() + 1);
        self.seqid.get()
    }

    /// LOOKUP, and whether the directory still has this change number.
    fn look(&self, dir: &[u8], name: &str, change: u64) -> Reply {
        let all = getattr(&bits(ALL));
        let looked = [putfh(dir), plain(op::SAVEFH), lookup(name), plain(op::GETFH), all.clone()];
        let back = plain(op::RESTOREFH);
        let verify = nverify(&bits(&[CHANGE]), &change.to_be_bytes());
        let rest = [back, verify, all, word(op::ACCESS, RIGHTS)];
        self.client.call("lookup", &[&looked[..], &rest].concat())
    }

    /// An entry of the root, whose attributes are known.
    fn found(&self, name: &str) -> (Vec<u8>, Attrs) {
        let reply = self.client.done("getattr", &[putfh(&self.root), getattr(&bits(ALL))]);
        let change = reply.attrs()[0].u64(CHANGE);
        let reply = self.look(&self.root, name, change);
        assert_eq!(reply.status, status::SAME, "{reply:?}");
        given(reply.attrs()[0], &bits(ALL));
        (reply.handle(), reply.attrs()[0].clone())
    }

    fn open_args(&self, access: u32, how: &How<'_>, claim: &Claim<'_>) -> Vec<u8> {
        let (seqid, clientid) = (self.next_seqid(), self.client.clientid.get());
        Open { seqid, access, deny: 0, clientid, owner: OWNER }.of(how, claim)
    }

    fn open(&self, access: u32, how: &How<'_>, name: &str) -> Result<File, u32> {
        let open = self.open_args(access, how, &Claim::Null(name));
        let all = getattr(&bits(ALL));
        let mut compound = vec![putfh(&self.root)];
        if matches!(how, How::Existing) {
            compound.extend([open, plain(op::GETFH), all]);
        } else {
            compound.extend([plain(op::SAVEFH), open, plain(op::GETFH), all.clone()]);
            compound.extend([plain(op::RESTOREFH), all]);
        }
        let reply = self.client.call("open", &compound);
        if reply.status != status::OK {
            return Err(reply.status);
        }
        given(reply.attrs()[0], &bits(ALL));
        assert_eq!(reply.opened().delegation, 0);
        Ok(self.confirmed(reply.handle(), &reply))
    }

    fn confirmed(&self, handle: Vec<u8>, reply: &Reply) -> File {
        let opened = reply.opened();
        let mut stateid = opened.stateid;
        if opened.flags & 2 != 0 {
            let confirm = open_confirm(&stateid, self.next_seqid());
            let reply = self.client.done("open confirm", &[putfh(&handle), confirm]);
            stateid = reply.stateid(op::OPEN_CONFIRM);
        }
        File { handle, stateid }
    }

    fn close(&self, file: &File) {
        let close = close(self.next_seqid(), &file.stateid);
        let reply = self.client.done("close", &[putfh(&file.handle), getattr(&bits(ALL)), close]);
        given(reply.attrs()[0], &bits(ALL));
    }
}

#[test]
fn mounts_and_looks_around() {
    let rig = server();
    let mount = Illumos::mount(&rig);
    let (client, root) = (&mount.client, &mount.root);
    let (handle, attrs) = mount.found("file");
    assert_eq!((attrs.u32(TYPE), attrs.u64(SIZE)), (1, 0));
    assert_eq!(attrs.raw(MOUNTED_ON), attrs.raw(FILEID));
    // the directory has another change number than the client believes: all of the COMPOUND runs
    let reply = mount.look(root, "file", 1);
    assert_eq!(reply.status, status::OK);
    assert_eq!(reply.attrs()[1].u32(TYPE), 2);
    assert!(matches!(reply.first(op::ACCESS), Answer::Access { .. }));
    assert_eq!(mount.look(root, "missing", 1).status, status::NOENT);
    let all = getattr(&bits(ALL));
    let compound = [putfh(&handle), word(op::ACCESS, RIGHTS), all];
    assert_eq!(client.done("access", &compound).attrs()[0], &attrs);
    let bitmap = bits(STATFS);
    let reply = client.done("statfs", &[putfh(root), getattr(&bitmap)]);
    given(reply.attrs()[0], &bitmap);
    let locations = [putfh(root), lookup("file"), getattr(&bits(&[8, 24, MOUNTED_ON]))];
    client.done("fslocations", &locations);
    client.done("renew", &[of_client(op::RENEW, client.clientid.get())]);
}

#[test]
fn creates_writes_and_reads() {
    let rig = server();
    let mount = Illumos::mount(&rig);
    let client = &mount.client;
    let (with_mode, values) = (bits(&[MODE]), mode(0o644));
    let guarded = How::Guarded(&with_mode, &values);
    let file = mount.open(3, &guarded, "made").unwrap();
    assert_eq!(mount.open(3, &guarded, "made").err(), Some(status::EXIST));
    let written = [putfh(&file.handle), write(&file.stateid, 0, 0, b"hello")];
    let reply = client.done("write", &written);
    let Answer::Written { count: 5, committed: 0..=2, verifier } = *reply.first(op::WRITE) else {
        panic!("{reply:?}")
    };
    let reply = client.done("commit", &[putfh(&file.handle), commit(0, 5)]);
    assert_eq!(reply.first(op::COMMIT), &Answer::Verifier(verifier));
    for stateid in [&file.stateid, &ANONYMOUS] {
        let reply = client.done("read", &[putfh(&file.handle), read(stateid, 0, 32768)]);
        assert_eq!(reply.data(), (true, &b"hello"[..]));
    }
    for (attributes, values) in [
        (&[SIZE][..], size(2)),
        (&[MODE], mode(0o600)),
        (&[48, 54], [client_time(1, 2), client_time(3, 4)].concat()),
    ] {
        let args = setattr(&file.stateid, &bits(attributes), &values);
        let reply = client.done("setattr", &[putfh(&file.handle), args, getattr(&bits(ALL))]);
        given(reply.attrs()[0], &bits(ALL));
    }
    let file = mount.open(1, &How::Existing, "made").unwrap();
    let narrower = open_downgrade(&file.stateid, mount.next_seqid(), 1, 0);
    let compound = [putfh(&file.handle), getattr(&bits(ALL)), narrower];
    let stateid = client.done("open downgrade", &compound).stateid(op::OPEN_DOWNGRADE);
    mount.close(&File { stateid, ..file });
}

#[test]
fn creates_exclusively() {
    let rig = server();
    let mount = Illumos::mount(&rig);
    let file = mount.open(3, &How::Exclusive([1; 8]), "once").unwrap();
    // in this client SETATTR has to follow: the verifier is stored in the times
    let bitmap = bits(&[MODE, 48, 54]);
    let values = [mode(0o640), client_time(9, 0), client_time(9, 0)].concat();
    let args = setattr(&file.stateid, &bitmap, &values);
    let reply = mount.client.done("setattr", &[putfh(&file.handle), args, getattr(&bits(ALL))]);
    assert_eq!(reply.attrs()[0].u32(MODE), 0o640);
    assert_eq!(mount.open(3, &How::Exclusive([2; 8]), "once").err(), Some(status::EXIST));
    mount.close(&file);
}

/// A directory whose set-group-ID bit gives its group to what is created in it: the client looks whether the server did so
/// and sets the group itself if it did not.
#[test]
fn looks_whether_a_new_file_has_the_directory_s_group() {
    let rig = server();
    let mount = Illumos::mount(&rig);
    let (client, root) = (&mount.client, &mount.root);
    let (with_mode, values) = (bits(&[MODE]), mode(0o644));
    let how = How::Guarded(&with_mode, &values);
    let open = mount.open_args(3, &how, &Claim::Null("grouped"));
    let (all, group) = (getattr(&bits(ALL)), bits(&[37]));
    let owner_group =
        client.done("getattr", &[putfh(root), all.clone()]).attrs()[0].raw(37).to_vec();
    let compound = [
        vec![putfh(root), open, plain(op::GETFH), all.clone(), plain(op::SAVEFH)],
        vec![putfh(root), all, plain(op::RESTOREFH), nverify(&group, &owner_group)],
        vec![setattr(&ANONYMOUS, &group, &owner_group)],
    ];
    let reply = client.call("open", &compound.concat());
    assert_eq!(reply.status, status::SAME, "it has the group already: {reply:?}");
    let file = mount.confirmed(reply.handle(), &reply);
    mount.close(&file);
}

#[test]
fn makes_renames_and_removes_names() {
    let rig = server();
    let mount = Illumos::mount(&rig);
    let (client, root) = (&mount.client, &mount.root);
    let all = getattr(&bits(ALL));
    let (with_mode, values) = (bits(&[MODE]), mode(0o755));
    for (tag, kind, made, name) in [
        ("mkdir", 2, Made::Dir, "d"),
        ("symlink", 5, Made::Symlink("d/x"), "s"),
        ("mknod", 7, Made::Fifo, "p"),
    ] {
        let create = create(&made, name, &with_mode, &values);
        let made = [putfh(root), plain(op::SAVEFH), create, plain(op::GETFH), all.clone()];
        let back = [plain(op::RESTOREFH), all.clone()];
        let reply = client.done(tag, &[&made[..], &back].concat());
        let [object, dir] = reply.attrs()[..] else { panic!() };
        assert_eq!((object.u32(TYPE), dir.u32(TYPE)), (kind, 2));
    }
    let (link, _) = mount.found("s");
    let reply = client.done("readlink", &[putfh(&link), plain(op::READLINK), all.clone()]);
    assert_eq!(reply.first(op::READLINK), &Answer::Target(b"d/x".to_vec()));
    let (dir, _) = mount.found("d");
    let (file, _) = mount.found("file");
    let renamed = [
        vec![putfh(root), plain(op::SAVEFH), putfh(&dir), rename("file", "moved"), all.clone()],
        vec![putfh(root), all.clone(), putfh(&file), all.clone()],
    ];
    assert_eq!(client.done("rename", &renamed.concat()).attrs().len(), 3);
    let linked = [putfh(&file), plain(op::SAVEFH), putfh(root), named(op::LINK, b"linked")];
    let back = [all.clone(), plain(op::RESTOREFH), all.clone()];
    client.done("link", &[&linked[..], &back].concat());
    let full = [putfh(root), remove("d"), all.clone()];
    client.fails("rmdir", &full, status::NOTEMPTY);
    for (tag, dir, name) in [("remove", &dir, "moved"), ("rmdir", root, "d"), ("remove", root, "s")]
    {
        client.done(tag, &[putfh(dir), remove(name), all.clone()]);
    }
}

#[test]
fn lists_directories() {
    let rig = server();
    let mount = Illumos::mount(&rig);
    for at in 0..40 {
        let how = How::Guarded(&[], &[]);
        let file = mount.open(3, &how, &format!("name-{at:04}")).unwrap();
        mount.close(&file);
    }
    // the names with all attributes, or so much that entries can be told apart
    let every = [ALL, &[11, HANDLE]].concat();
    for attributes in [every, vec![11, MOUNTED_ON]] {
        let bitmap = bits(&attributes);
        let (mut from, mut names) = ((0, [0; 8]), Vec::new());
        loop {
            let list = readdir(from, 8192, 8192, &bitmap);
            let start = [putfh(&mount.root), list];
            // the first time it also asks for "..", which does not come with READDIR
            let up = [plain(op::LOOKUPP), plain(op::GETFH), getattr(&bits(ALL))];
            let up = if from.0 == 0 { &up[..] } else { &[] };
            let reply = mount.client.done("readdir", &[&start[..], up].concat());
            let (verifier, entries, eof) = reply.dir();
            for entry in entries {
                given(&entry.attrs, &bitmap);
                assert_eq!(entry.attrs.u32(11), 0);
                assert_ne!(entry.attrs.u64(MOUNTED_ON), 0);
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

#[test]
fn locks_and_unlocks() {
    let rig = server();
    let mount = Illumos::mount(&rig);
    let file = mount.open(3, &How::Existing, "file").unwrap();
    let clientid = mount.client.clientid.get();
    let [one, two] =
        [&b"\0\0\0\x01pid1"[..], b"\0\0\0\x01pid2"].map(|owner| Locker { clientid, owner });
    let on = |tag: &str, operation| mount.client.call(tag, &[putfh(&file.handle), operation]);
    let range = Range { kind: 2, offset: 10, len: 20 };
    let first = lock_first(range, false, (mount.next_seqid(), &file.stateid, 1), one);
    let stateid = on("lock", first).stateid(op::LOCK);
    let wider = Range { kind: 1, offset: 100, len: u64::MAX };
    let stateid = on("lock", lock_again(wider, &stateid, 2)).stateid(op::LOCK);
    let reply = on("lockt", lockt(range, two));
    let Answer::Denied(denied) = reply.first(op::LOCKT) else { panic!("{reply:?}") };
    assert_eq!((denied.offset, denied.len, &denied.owner[..]), (10, 20, one.owner));
    // it is also ready to wait
    let waits = Range { kind: 4, ..range };
    let refused = lock_first(waits, false, (mount.next_seqid(), &file.stateid, 1), two);
    assert_eq!(on("lock", refused).status, status::DENIED);
    let all = Range { kind: 1, offset: 0, len: u64::MAX };
    assert_eq!(on("locku", locku(all, 3, &stateid)).status, status::OK);
    let release = Args::of(op::RELEASE_LOCKOWNER).u64(clientid).opaque(one.owner).end();
    mount.client.done("rel lock own", &[release]);
    mount.close(&file);
}

#[test]
fn comes_back_and_reclaims_after_a_restart() {
    let rig = server();
    let mount = Illumos::mount(&rig);
    let file = mount.open(3, &How::Existing, "file").unwrap();
    let range = Range { kind: 2, offset: 0, len: u64::MAX };
    let owner = b"\0\0\0\x01pid1";
    let lock = |mount: &Illumos<'_>, file: &File, reclaim| {
        let locker = Locker { clientid: mount.client.clientid.get(), owner };
        let from = (mount.next_seqid(), &file.stateid, 1);
        let lock = lock_first(range, reclaim, from, locker);
        mount.client.done("lock", &[putfh(&file.handle), lock]);
    };
    lock(&mount, &file, false);
    let rig = rig.restarted();
    let client = Client { rig: &rig, ..mount.client };
    let renew = of_client(op::RENEW, client.clientid.get());
    client.fails("renew", &[renew], status::STALE_CLIENTID);
    let stale = [putfh(&file.handle), read(&file.stateid, 0, 8)];
    client.fails("read", &stale, status::STALE_STATEID);
    known(&client);
    let mount = Illumos { client, seqid: Cell::new(0), ..mount };
    // an open of something new has to wait until all have reclaimed
    assert_eq!(mount.open(3, &How::Existing, "file").err(), Some(status::GRACE));
    let open = mount.open_args(3, &How::Existing, &Claim::Previous(0));
    let compound = [putfh(&file.handle), open, plain(op::GETFH), getattr(&bits(ALL))];
    let reply = mount.client.done("reopen", &compound);
    assert_eq!(reply.handle(), file.handle, "it forgets a file whose handle is another");
    let file = mount.confirmed(file.handle, &reply);
    lock(&mount, &file, true);
    let data = [putfh(&file.handle), read(&file.stateid, 0, 8)];
    mount.client.done("read", &data);
}
