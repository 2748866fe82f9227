//! Files that lose their last name while a client of version 4.1 has them open (`preserve-unlinked`): the server is killed and
//! started again, the client reclaims its open and its lock and goes on; a file that nobody reclaims is gone after the
//! grace period. Clients of all versions do not see where the files are.

use crate::callbacks::until;
use crate::operator_tables::connect;
use crate::rig::{Server, is_root};
use client::nfs4::{Operations, Session, results_inside, succeeded};
use client::{Client, Fh, Identity};
use proto::layout::Bytes;
use proto::nfs3::CreateHow3;
use proto::nfs4::{
    Bitmap4, CloseArgs, Createhow4, Fattr4, LockArgs, LockOwner4, LockType4, Locker4, Nfsstat4,
    OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, ReadArgs, RenameArgs, StableHow4, Stateid4,
    WriteArgs, attr, op,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use xdr::Reader;

/// `OPEN4_RESULT_PRESERVE_UNLINKED`.
const PRESERVE_UNLINKED: u32 = 8;
const HIDDEN: &str = ".bowline-open";
const NONE: Fattr4<'static> = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };

struct Rig {
    _dir: TempDir,
    tree: PathBuf,
    server: Server,
}

/// A server of one export, which is the root of version 4.
fn rig(options: &str, args: &[&str]) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for path in [dir.path(), &tree] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let exports = dir.path().join("exports");
    let line = format!("{} *(rw,insecure,fsid=0{options})\n", tree.display());
    std::fs::write(&exports, line).unwrap();
    let common = ["--exports", exports.to_str().unwrap(), "--set", "grace=10", "--set", "lease=10"];
    let server = Server::start(&[&common, args].concat());
    Rig { _dir: dir, tree, server }
}

impl Rig {
    /// The names in the hidden directory.
    fn hidden(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.tree.join(HIDDEN)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    /// How many files `status` says there are.
    fn shown(&self) -> u64 {
        self.server.json("status")["unlinked_files"].as_u64().unwrap()
    }

    fn kill_and_start(&mut self) {
        self.server.kill();
        self.server.start_again();
    }
}

/// A client's machine with a session.
struct Machine {
    client: Client,
    session: Session,
}

/// A file that is open.
struct Opened {
    handle: Vec<u8>,
    stateid: Stateid4,
    flags: u32,
}

impl Machine {
    fn new(server: &Server, name: &[u8]) -> Self {
        let mut client = connected(server);
        let session = client.open_session(name, 4).unwrap();
        Self { client, session }
    }

    /// After a restart: it may reclaim.
    fn again(server: &Server, name: &[u8]) -> Self {
        let mut client = connected(server);
        let session = client.open_reading_session(1, name, 4).unwrap();
        Self { client, session }
    }

    /// Runs operations; the results of those behind SEQUENCE, if all succeed.
    fn run<T>(
        &mut self,
        operations: &Operations,
        results: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Result<T, Nfsstat4> {
        loop {
            let reply = self.client.compound(&mut self.session, operations).unwrap();
            match Reader::new(reply.body()).get().unwrap() {
                Nfsstat4::Ok => return Ok(results(&mut results_inside(&reply).unwrap())),
                Nfsstat4::Delay | Nfsstat4::Grace => {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
                failed => return Err(failed),
            }
        }
    }

    fn open(
        &mut self,
        before: Operations,
        passed: u32,
        how: OpenHow4<'_>,
        claim: OpenClaim4<'_>,
    ) -> Opened {
        let owner = OpenOwner4 { clientid: 0, owner: Bytes(b"owner") };
        let args = OpenArgs { seqid: 0, share_access: 3, share_deny: 0, owner, how, claim };
        let operations = before.with(op::OPEN, &args).bare(op::GETFH);
        self.run(&operations, |r| {
            succeeded(r, passed).unwrap();
            succeeded(r, op::OPEN).unwrap();
            let stateid = r.get().unwrap();
            r.opaque_fixed(20).unwrap();
            let flags = r.u32().unwrap();
            let _set: Bitmap4 = r.get().unwrap();
            assert_eq!(r.u32().unwrap(), 0, "no delegation");
            succeeded(r, op::GETFH).unwrap();
            Opened { handle: r.opaque(128).unwrap().to_vec(), stateid, flags }
        })
        .unwrap()
    }

    fn create(&mut self, name: &[u8]) -> Opened {
        let how = OpenHow4::Create(Createhow4::Unchecked(NONE));
        let root = Operations::new().bare(op::PUTROOTFH);
        self.open(root, op::PUTROOTFH, how, OpenClaim4::Null(Bytes(name)))
    }

    fn reclaim(&mut self, file: &Opened) -> Opened {
        let at = Operations::new().at(&file.handle);
        self.open(at, op::PUTFH, OpenHow4::NoCreate, OpenClaim4::Previous(0))
    }

    fn reclaim_complete(&mut self) {
        self.run(&Operations::new().with(op::RECLAIM_COMPLETE, &false), |_| ()).unwrap();
    }

    fn lock(&mut self, file: &Opened, reclaim: bool) -> Result<(), Nfsstat4> {
        let owner = LockOwner4 { clientid: 0, owner: Bytes(b"owner") };
        let locker = Locker4::by_open(file.stateid, owner);
        let args = LockArgs { kind: LockType4::Write, reclaim, offset: 0, length: 1, locker };
        self.run(&Operations::new().at(&file.handle).with(op::LOCK, &args), |_| ())
    }

    fn write(&mut self, file: &Opened, data: &[u8]) {
        let (stateid, data) = (file.stateid, Bytes(data));
        let args = WriteArgs { stateid, offset: 0, stable: StableHow4::FileSync, data };
        self.run(&Operations::new().at(&file.handle).with(op::WRITE, &args), |_| ()).unwrap();
    }

    fn read(&mut self, file: &Opened) -> Vec<u8> {
        let args = ReadArgs { stateid: file.stateid, offset: 0, count: 100 };
        let operations = Operations::new().at(&file.handle).with(op::READ, &args);
        let data = |r: &mut Reader<'_>| {
            succeeded(r, op::PUTFH).unwrap();
            succeeded(r, op::READ).unwrap();
            r.bool().unwrap();
            r.opaque(100).unwrap().to_vec()
        };
        self.run(&operations, data).unwrap()
    }

    fn numlinks(&mut self, file: &Opened) -> Result<u32, Nfsstat4> {
        let wanted = Bitmap4::of(&[attr::NUMLINKS]);
        let operations = Operations::new().at(&file.handle).with(op::GETATTR, &wanted);
        self.run(&operations, |r| {
            succeeded(r, op::PUTFH).unwrap();
            succeeded(r, op::GETATTR).unwrap();
            let attrs: Fattr4<'_> = r.get().unwrap();
            Reader::new(attrs.values.0).u32().unwrap()
        })
    }

    fn remove(&mut self, name: &[u8]) -> Result<(), Nfsstat4> {
        let root = Operations::new().bare(op::PUTROOTFH);
        self.run(&root.with(op::REMOVE, &Bytes::<255>(name)), |_| ())
    }

    fn rename(&mut self, old: &[u8], new: &[u8]) {
        let root = Operations::new().bare(op::PUTROOTFH).bare(op::SAVEFH);
        let names = RenameArgs { old: Bytes(old), new: Bytes(new) };
        self.run(&root.with(op::RENAME, &names), |_| ()).unwrap();
    }

    fn close(&mut self, file: &Opened) {
        let args = CloseArgs { seqid: 0, stateid: file.stateid };
        self.run(&Operations::new().at(&file.handle).with(op::CLOSE, &args), |_| ()).unwrap();
    }
}

fn connected(server: &Server) -> Client {
    let mut client = connect(server);
    client.set_identity(Some(Identity::new(65_534, 65_534)));
    client
}

/// What versions 2 and 3 see at the root.
fn is_hidden_from_older_versions(server: &Server, tree: &Path) {
    let mut client = connected(server);
    let root: Fh = client.mount(tree.as_os_str().as_encoded_bytes()).unwrap();
    assert!(client.lookup(&root, HIDDEN.as_bytes()).is_err());
    assert!(
        client.create(&root, HIDDEN.as_bytes(), CreateHow3::Unchecked(Default::default())).is_err()
    );
    assert!(client.rename((&root, b"other"), (&root, HIDDEN.as_bytes())).is_err());
    assert!(client.rename((&root, HIDDEN.as_bytes()), (&root, b"found")).is_err());
    assert!(client.rmdir(&root, HIDDEN.as_bytes()).is_err());
    let listed = client.readdir(&root, 0, [0; 8], 8192).unwrap();
    let names: Vec<_> = listed.entries.iter().map(|entry| entry.name.clone()).collect();
    assert!(names.iter().any(|name| name == b"other"), "{names:?}");
    assert!(!names.iter().any(|name| name == HIDDEN.as_bytes()), "{names:?}");
    let mut old = connected(server);
    let root = old.mount_old(1, tree.as_os_str().as_encoded_bytes()).unwrap();
    assert!(old.lookup2(&root, b"other").is_ok());
    assert!(old.lookup2(&root, HIDDEN.as_bytes()).is_err());
}

#[test]
fn an_open_file_without_a_name_outlives_a_killed_server() {
    let mut rig = rig("", &["--set", "preserve-unlinked=on"]);
    let mut one = Machine::new(&rig.server, b"one");
    let file = one.create(b"file");
    let over = one.create(b"over");
    assert_eq!((file.flags & PRESERVE_UNLINKED, over.flags & PRESERVE_UNLINKED), (8, 8));
    let other = one.create(b"other");
    one.close(&other);
    one.write(&file, b"first");
    one.write(&over, b"replaced");
    one.lock(&file, false).unwrap();
    one.remove(b"file").unwrap();
    one.rename(b"other", b"over");
    let other = one.create(b"other");
    one.close(&other);
    assert_eq!((one.numlinks(&file), one.numlinks(&over)), (Ok(0), Ok(0)));
    assert_eq!((rig.hidden().len(), rig.shown()), (2, 2));
    is_hidden_from_older_versions(&rig.server, &rig.tree);
    for _ in 0..2 {
        rig.kill_and_start();
        let mut one = Machine::again(&rig.server, b"one");
        let again = [one.reclaim(&file), one.reclaim(&over)];
        assert_eq!(again[0].flags & PRESERVE_UNLINKED, PRESERVE_UNLINKED);
        one.lock(&again[0], true).unwrap();
        one.reclaim_complete();
        assert_eq!(one.read(&again[0]), b"first");
        assert_eq!(one.read(&again[1]), b"replaced");
        assert_eq!(one.numlinks(&again[0]), Ok(0));
    }
    // the last client that came goes on behind the grace period
    rig.kill_and_start();
    let mut one = Machine::again(&rig.server, b"one");
    let (file, over) = (one.reclaim(&file), one.reclaim(&over));
    one.reclaim_complete();
    // whoever is new gets something when the grace period is over
    let mut two = Machine::new(&rig.server, b"two");
    let probe = two.create(b"probe");
    two.close(&probe);
    one.write(&file, b"after");
    assert_eq!((one.read(&file), one.read(&over)), (b"after".to_vec(), b"replaced".to_vec()));
    assert_eq!(rig.hidden().len(), 2);
    one.close(&file);
    until(|| rig.hidden().len() == 1);
    assert_eq!(one.numlinks(&file), Err(Nfsstat4::Stale));
    one.close(&over);
    until(|| rig.hidden().is_empty() && rig.shown() == 0);
    // not kept any more by the next server
    rig.kill_and_start();
    assert!(!rig.tree.join(HIDDEN).exists());
}

#[test]
fn a_file_that_its_client_does_not_reclaim_is_gone_after_the_grace_period() {
    let mut rig = rig(",preserve-unlinked=on", &[]);
    let mut one = Machine::new(&rig.server, b"one");
    let file = one.create(b"file");
    assert_eq!(file.flags & PRESERVE_UNLINKED, PRESERVE_UNLINKED);
    one.remove(b"file").unwrap();
    rig.kill_and_start();
    // nobody else has anything meanwhile, and the file is there
    let mut two = Machine::again(&rig.server, b"two");
    assert_eq!((rig.hidden().len(), two.numlinks(&file)), (1, Ok(0)));
    assert!(rig.server.ask(&["grace", "end"]).status.success());
    until(|| rig.hidden().is_empty());
    assert_eq!(two.numlinks(&file), Err(Nfsstat4::Stale));
}

#[test]
fn without_the_setting_nothing_is_promised_and_nothing_made() {
    for (options, args) in
        [("", &[][..]), (",preserve-unlinked=off", &["--set", "preserve-unlinked=on"][..])]
    {
        let rig = rig(options, args);
        let mut one = Machine::new(&rig.server, b"one");
        let file = one.create(b"file");
        assert_eq!(file.flags & PRESERVE_UNLINKED, 0);
        one.write(&file, b"data");
        one.remove(b"file").unwrap();
        assert_eq!((one.read(&file), one.numlinks(&file)), (b"data".to_vec(), Ok(0)));
        assert!(!rig.tree.join(HIDDEN).exists());
        if options.is_empty() {
            // live
            assert!(rig.server.ask(&["set", "preserve-unlinked=on"]).status.success());
            let file = one.create(b"file");
            assert_eq!(file.flags & PRESERVE_UNLINKED, PRESERVE_UNLINKED);
        }
    }
}

#[test]
fn an_ordinary_users_server_keeps_its_own_files() {
    if !is_root() {
        return testing::skip(testing::Missing::Root, "another user's server");
    }
    let mut server =
        Server::start_as(Some(65_534), &["--set", "preserve-unlinked=on", "--set", "grace=10"]);
    let tree = server.served();
    let export = tree.as_os_str().as_encoded_bytes().to_vec();
    let mut one = Machine::new(&server, b"one");
    let mut place = Operations::new().bare(op::PUTROOTFH);
    let mut passed = vec![op::PUTROOTFH];
    for part in export.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        place = place.with(op::LOOKUP, &Bytes::<255>(part));
        passed.push(op::LOOKUP);
    }
    let root = one
        .run(&place.bare(op::GETFH), |r| {
            for number in &passed {
                succeeded(r, *number).unwrap();
            }
            succeeded(r, op::GETFH).unwrap();
            r.opaque(128).unwrap().to_vec()
        })
        .unwrap();
    let how = OpenHow4::NoCreate;
    let claim = OpenClaim4::Null(Bytes(b"hello.txt"));
    let file = one.open(Operations::new().at(&root), op::PUTFH, how, claim);
    assert_eq!(file.flags & PRESERVE_UNLINKED, PRESERVE_UNLINKED);
    let remove = Operations::new().at(&root).with(op::REMOVE, &Bytes::<255>(b"hello.txt"));
    one.run(&remove, |_| ()).unwrap();
    assert!(!tree.join("hello.txt").exists());
    server.kill();
    server.start_again();
    let mut one = Machine::again(&server, b"one");
    let file = one.reclaim(&file);
    one.reclaim_complete();
    assert_eq!(one.read(&file), b"hello, world\n");
    one.close(&file);
    until(|| std::fs::read_dir(tree.join(HIDDEN)).unwrap().count() == 0);
}
