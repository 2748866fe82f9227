//! The client of ESXi, version 4.1: it has no public sources, so this is what other servers' reports show of it.
//!
//! What is known: it names its COMPOUNDs after procedures; it looks a name up and opens the handle (CLAIM_FH); it replaces
//! a file by renaming over it while it is open, and closes the old one by its handle; it makes one datastore of all
//! addresses that show the same server owner and `fsid`, also after a restart; it says RECLAIM_COMPLETE for one file
//! system; it tries a sequence number of CREATE_SESSION again after NFS4ERR_SEQ_MISORDERED. What else it sends, such as
//! sizes and attributes, is assumed here and is no fact.

use super::answer::{Answer, Attrs, Known};
use super::wire::{
    ANONYMOUS, Args, Claim, How, Implementation, Locker, Made, Open, Range, Stateid, auth_sys,
    bits, close, create, create_session, exchange_id, getattr, lock_first, lookup, of_client, op,
    plain, putfh, read, remove, rename, setattr, sixteen, word, write,
};
use super::{
    Client, Dialect, FILEID, FSID, MODE, SIZE, TYPE, as_is, given, mode, server, size, status,
};
use crate::nlm::rig::Rig;

/// Attributes of a file as a virtual machine's disk needs them (assumed).
const ALL: &[u32] = &[1, 3, 4, 8, 20, 33, 35, 36, 37, 45, 47, 52, 53];
const DIALECT: Dialect = Dialect { tag: as_is, cached: |tag| tag != "NFS41ProcRead" };
const CHANNELS: [[u32; 6]; 2] =
    [[0, 1_049_620, 1_049_480, 6144, 16, 128], [0, 4096, 4096, 0, 2, 16]];
const NAME: &[u8] = b"Linux NFSv4.1 esxi.lab";
const OWNER: &[u8] = b"esxi-open";

struct Esxi<'r> {
    client: Client<'r>,
    root: Vec<u8>,
    fsid: Vec<u8>,
    known: Known,
}

fn exchange(client: &Client<'_>, verifier: u8) -> Known {
    let vmware = Implementation(b"vmware.com", b"ESXi", 0);
    let known =
        client.exchange("NFS41ProcExchangeID", exchange_id([verifier; 8], NAME, 0x1_0000, &vmware));
    assert_eq!(known.flags & 0x7_0000, 0x1_0000, "no pNFS server, and it says so");
    known
}

fn session(client: &Client<'_>, sequence: u32) -> Vec<u8> {
    let callbacks = auth_sys(0, b"esxi.lab", 0, 0, &[]);
    create_session((client.clientid.get(), sequence), 2, CHANNELS, 0x4000_0000, &[callbacks])
}

impl<'r> Esxi<'r> {
    fn mount(rig: &'r Rig) -> Self {
        let client = Client::new(rig, 1, DIALECT);
        let known = exchange(&client, 1);
        client.start("NFS41ProcCreateSession", session(&client, known.sequence));
        let mount = Self { client, root: vec![], fsid: vec![], known };
        let from_root = [plain(op::PUTROOTFH), plain(op::GETFH), getattr(&bits(ALL))];
        let pseudo = mount.client.done("NFS41ProcGetRootFH", &from_root).handle();
        let (root, attrs) = mount.look(&pseudo, "e").unwrap();
        assert_eq!(attrs.u32(TYPE), 2);
        mount.complete(&root);
        Self { root, fsid: attrs.raw(FSID).to_vec(), ..mount }
    }

    /// RECLAIM_COMPLETE of one file system, and then of all.
    fn complete(&self, root: &[u8]) {
        let one = [putfh(root), word(op::RECLAIM_COMPLETE, 1)];
        self.client.done("NFS41ProcReclaimComplete", &one);
        let all = [word(op::RECLAIM_COMPLETE, 0)];
        self.client.done("NFS41ProcReclaimComplete", &all);
    }

    fn look(&self, dir: &[u8], name: &str) -> Result<(Vec<u8>, Attrs), u32> {
        let compound = [putfh(dir), lookup(name), plain(op::GETFH), getattr(&bits(ALL))];
        let reply = self.client.call("NFS41ProcLookup", &compound);
        if reply.status != status::OK {
            return Err(reply.status);
        }
        given(reply.attrs()[0], &bits(ALL));
        Ok((reply.handle(), reply.attrs()[0].clone()))
    }

    fn open_args(&self, how: &How<'_>, claim: &Claim<'_>) -> Vec<u8> {
        let clientid = self.client.clientid.get();
        // reads and writes, and wants no delegation
        Open { seqid: 0, access: 0x403, deny: 0, clientid, owner: OWNER }.of(how, claim)
    }

    /// LOOKUP, then OPEN of what was found.
    fn open(&self, name: &str) -> (Vec<u8>, Stateid) {
        let (handle, _) = self.look(&self.root, name).unwrap();
        let open = self.open_args(&How::Existing, &Claim::Handle);
        let compound = [putfh(&handle), open, plain(op::GETFH), getattr(&bits(ALL))];
        let reply = self.client.done("NFS41ProcOpen", &compound);
        assert_eq!(reply.handle(), handle);
        assert!([0, 3].contains(&reply.opened().delegation));
        (handle, reply.opened().stateid)
    }

    fn make(&self, name: &str) -> (Vec<u8>, Stateid) {
        let (with_mode, values) = (bits(&[MODE]), mode(0o644));
        let open = self.open_args(&How::Guarded(&with_mode, &values), &Claim::Null(name));
        let compound = [putfh(&self.root), open, plain(op::GETFH), getattr(&bits(ALL))];
        let reply = self.client.done("NFS41ProcOpen", &compound);
        (reply.handle(), reply.opened().stateid)
    }

    fn close(&self, handle: &[u8], stateid: &Stateid) {
        self.client.done("NFS41ProcClose", &[putfh(handle), close(0, stateid)]);
    }
}

#[test]
fn looks_up_and_opens_by_handle() {
    let rig = server();
    let mount = Esxi::mount(&rig);
    let (handle, stateid) = mount.open("file");
    let data = [putfh(&handle), write(&stateid, 0, 2, b"vmdk"), getattr(&bits(ALL))];
    assert_eq!(mount.client.done("NFS41ProcWrite", &data).attrs()[0].u64(SIZE), 4);
    let reply = mount.client.done("NFS41ProcRead", &[putfh(&handle), read(&stateid, 0, 65536)]);
    assert_eq!(reply.data(), (true, &b"vmdk"[..]));
    let grow = setattr(&stateid, &bits(&[SIZE]), &size(1 << 20));
    mount.client.done("NFS41ProcSetattr", &[putfh(&handle), grow]);
    let range = Range { kind: 2, offset: 0, len: u64::MAX };
    let locker = Locker { clientid: mount.client.clientid.get(), owner: b"esxi-lock" };
    let lock = lock_first(range, false, (0, &stateid, 0), locker);
    mount.client.done("NFS41ProcLock", &[putfh(&handle), lock]);
    // the same names are looked up over and over
    for _ in 0..100 {
        assert_eq!(mount.look(&mount.root, "file").unwrap().0, handle);
        assert_eq!(mount.look(&mount.root, "file.lck").err(), Some(status::NOENT));
    }
}

/// A configuration file is replaced while it is open: the close that follows names a file without a name.
#[test]
fn renames_over_an_open_file_and_closes_it() {
    let rig = server();
    let mount = Esxi::mount(&rig);
    let (old, stateid) = mount.open("file");
    let (new, written) = mount.make("file~");
    mount.client.done("NFS41ProcWrite", &[putfh(&new), write(&written, 0, 2, b"new")]);
    mount.close(&new, &written);
    let swap = [putfh(&mount.root), plain(op::SAVEFH), putfh(&mount.root), rename("file~", "file")];
    mount.client.done("NFS41ProcRename", &swap);
    assert_eq!(mount.look(&mount.root, "file").unwrap().0, new);
    let reply = mount.client.done("NFS41ProcRead", &[putfh(&old), read(&stateid, 0, 8)]);
    assert_eq!(reply.data(), (true, &b""[..]), "of the file that was opened");
    mount.close(&old, &stateid);
    let gone = [putfh(&old), getattr(&bits(ALL))];
    mount.client.fails("NFS41ProcGetattr", &gone, status::STALE);
}

/// A virtual machine's directory is made, filled and removed.
#[test]
fn makes_and_removes_a_directory() {
    let rig = server();
    let mount = Esxi::mount(&rig);
    let made = create(&Made::Dir, "vm", &bits(&[MODE]), &mode(0o755));
    let compound = [putfh(&mount.root), made, plain(op::GETFH), getattr(&bits(ALL))];
    let dir = mount.client.done("NFS41ProcMkdir", &compound).handle();
    let (inside, stateid) = mount.make("disk");
    mount.close(&inside, &stateid);
    let moved = [putfh(&mount.root), plain(op::SAVEFH), putfh(&dir), rename("disk", "disk")];
    mount.client.done("NFS41ProcRename", &moved);
    let all = [putfh(&mount.root), remove("vm")];
    mount.client.fails("NFS41ProcRemove", &all, status::NOTEMPTY);
    mount.client.done("NFS41ProcRemove", &[putfh(&dir), remove("disk")]);
    mount.client.done("NFS41ProcRemove", &all);
}

/// The identity of a datastore: the server's owner and scope, `fsid` and the handle of its root.
#[test]
fn finds_the_same_server_and_file_system_after_a_restart() {
    let rig = server();
    let before = Esxi::mount(&rig);
    let (handle, attrs) = before.look(&before.root, "file").unwrap();
    let restarted = rig.restarted();
    let after = Esxi::mount(&restarted);
    let owner = |known: &Known| (known.minor_id, known.major_id.clone(), known.scope.clone());
    assert_eq!(owner(&before.known), owner(&after.known));
    assert_eq!((&before.fsid, &before.root), (&after.fsid, &after.root));
    let (again, same) = after.look(&after.root, "file").unwrap();
    assert_eq!((again, same.u64(FILEID)), (handle, attrs.u64(FILEID)));
    assert_eq!(same.raw(FSID), before.fsid, "one file system below the root");
}

#[test]
fn finds_the_sequence_number_of_its_next_session() {
    let rig = server();
    let client = Client::new(&rig, 1, DIALECT);
    let known = exchange(&client, 1);
    let tag = "NFS41ProcCreateSession";
    // told NFS4ERR_STALE_CLIENTID it would start anew, again and again
    for wrong in [known.sequence.wrapping_add(1), known.sequence.wrapping_add(7)] {
        client.fails(tag, &[session(&client, wrong)], status::SEQ_MISORDERED);
    }
    client.start(tag, session(&client, known.sequence));
    client.done("NFS41ProcReclaimComplete", &[word(op::RECLAIM_COMPLETE, 0)]);
}

/// A second connection to the same session, and a host that was switched off and comes with a new verifier.
#[test]
fn binds_connections_and_comes_back_with_a_new_verifier() {
    let rig = server();
    let mount = Esxi::mount(&rig);
    let session_id = mount.client.session.get().unwrap();
    // either channel, no RDMA
    let bind = Args::of(op::BIND_CONN).fixed(&session_id).u32(3).u32(0).end();
    let reply = mount.client.bare("NFS41ProcBindConn", &[bind]);
    assert_eq!((reply.status, reply.first(op::BIND_CONN)), (0, &Answer::Bound(session_id)));
    let (handle, _) = mount.open("file");
    let again = Client::new(&rig, 1, DIALECT);
    let known = exchange(&again, 2);
    assert_eq!(known.flags & 0x8000_0000, 0, "not confirmed: it is another run of the host");
    again.start("NFS41ProcCreateSession", session(&again, known.sequence));
    again.done("NFS41ProcReclaimComplete", &[word(op::RECLAIM_COMPLETE, 0)]);
    let lost = [putfh(&handle), read(&ANONYMOUS, 0, 8)];
    mount.client.fails("NFS41ProcRead", &lost, status::BADSESSION);
    again.done("NFS41ProcRead", &lost);
}

/// RECLAIM_COMPLETE of one file system says nothing about the others: what is not yet claimed still can be.
#[test]
fn reclaims_after_a_restart() {
    let rig = server();
    let mount = Esxi::mount(&rig);
    let (handle, stateid) = mount.open("file");
    let rig = rig.restarted();
    let client = Client { rig: &rig, ..mount.client };
    let lost = [putfh(&handle), read(&stateid, 0, 8)];
    client.fails("NFS41ProcRead", &lost, status::BADSESSION);
    client.session.set(None);
    let known = exchange(&client, 1);
    client.start("NFS41ProcCreateSession", session(&client, known.sequence));
    let mount = Esxi { client, known, ..mount };
    let one = [putfh(&mount.root), word(op::RECLAIM_COMPLETE, 1)];
    mount.client.done("NFS41ProcReclaimComplete", &one);
    let claim = [putfh(&handle), mount.open_args(&How::Existing, &Claim::Previous(0))];
    let reply = mount.client.done("NFS41ProcOpen", &claim);
    let stateid = reply.opened().stateid;
    mount.client.done("NFS41ProcReclaimComplete", &[word(op::RECLAIM_COMPLETE, 0)]);
    mount.client.done("NFS41ProcRead", &[putfh(&handle), read(&stateid, 0, 8)]);
}

#[test]
fn unmounts() {
    let rig = server();
    let mount = Esxi::mount(&rig);
    let session = mount.client.session.take().unwrap();
    let id = mount.client.clientid.get();
    mount.client.done("NFS41ProcDestroySession", &[sixteen(op::DESTROY_SESSION, &session)]);
    mount.client.done("NFS41ProcDestroyClientID", &[of_client(op::DESTROY_CLIENTID, id)]);
}
