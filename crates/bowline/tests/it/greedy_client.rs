//! A server with 64 MiB, and a client that takes all that it gets of sessions, opens and locks: another one mounts, opens
//! and locks meanwhile, at its first try. `LOCKS=50000` for as many locks as a client gets in a file.

use crate::many_lock_hosts::count;
use crate::resource_limits::{Group, LIMIT};
use client::nfs4::{Operations, Session, results_inside};
use client::{Client, Identity};
use proto::layout::Bytes;
use proto::nfs4::{
    LockArgs, LockOwner4, LockType4, Locker4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, Stateid4,
    op,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// The most that the other client waits for its mount, its open and its lock: they need milliseconds.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Locks that the client asks for, unless `LOCKS` says otherwise, and the most that it gets.
const LOCKS: u32 = 2000;
const LOCKS_OF_A_FILE: u32 = 49_151;
/// More than a server of this size has of anything.
const MORE_THAN_THERE_IS: u32 = 100_000;

struct Machine {
    client: Client,
    name: Vec<u8>,
    session: Session,
}

impl Machine {
    fn mount(port: u16, name: &str) -> Self {
        let mut client = Client::tcp(([127, 0, 0, 1], port).into(), PATIENCE).unwrap();
        client.set_identity(Some(Identity::new(65_534, 65_534)));
        let session = client.open_session(name.as_bytes(), 4).unwrap();
        Self { client, name: name.into(), session }
    }

    /// Whether there is one more session.
    fn another_session(&mut self) -> bool {
        self.client.open_reading_session(1, &self.name, 64).is_ok()
    }

    /// OPEN of the file by an owner of this number.
    fn open(&mut self, owner: u32) -> Option<Stateid4> {
        let owner = owner.to_be_bytes();
        let args = OpenArgs {
            seqid: 0,
            share_access: 3,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(&owner) },
            how: OpenHow4::NoCreate,
            claim: OpenClaim4::Null(Bytes(b"file")),
        };
        self.opened_with(&Operations::new().bare(op::PUTROOTFH).with(op::OPEN, &args), 2)
    }

    /// LOCK of one byte of the file by an owner of this number.
    fn lock(&mut self, open: Stateid4, owner: u32, offset: u64) -> Option<Stateid4> {
        let name = owner.to_be_bytes();
        let owner = LockOwner4 { clientid: 0, owner: Bytes(&name) };
        let args = LockArgs {
            kind: LockType4::Write,
            reclaim: false,
            offset,
            length: 1,
            locker: Locker4::by_open(open, owner),
        };
        let file = Operations::new().bare(op::PUTROOTFH);
        let file = file.with(op::LOOKUP, &Bytes::<255>(b"file"));
        self.opened_with(&file.with(op::LOCK, &args), 3)
    }

    /// The stateid of the last of so many operations, those before which have no results.
    fn opened_with(&mut self, operations: &Operations, count: usize) -> Option<Stateid4> {
        let reply = self.client.compound(&mut self.session, operations).unwrap();
        let mut r = results_inside(&reply).ok()?;
        r.opaque_fixed(8 * count).unwrap();
        Some(r.get().unwrap())
    }
}

/// Takes one more until that is refused; how many there are.
fn until_refused(mut take: impl FnMut(u32) -> bool) -> u32 {
    (0..MORE_THAN_THERE_IS).find(|number| !take(*number)).expect("a limit")
}

#[test]
fn a_client_that_takes_all_in_a_small_cgroup_leaves_room_for_another() {
    let files = ["memory.limit_in_bytes", "memory.max"];
    let Some((group, limit)) = Group::make("memory", files) else { return };
    fs::write(limit, LIMIT.to_string()).unwrap();
    let base = tempfile::tempdir().unwrap();
    let served = base.path().join("served");
    fs::create_dir(&served).unwrap();
    fs::write(served.join("file"), b"data").unwrap();
    for path in [base.path(), &served, &served.join("file")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let exports = base.path().join("exports");
    fs::write(&exports, format!("{} *(rw,insecure,async,fsid=0)\n", served.display())).unwrap();
    let mut server = group.start(&["--exports", exports.to_str().unwrap()], None);
    let mut greedy = Machine::mount(server.port, "greedy");
    let sessions = until_refused(|_| greedy.another_session());
    let mut opened = Vec::new();
    let opens = until_refused(|owner| {
        opened.extend(greedy.open(owner));
        opened.len() > owner as usize
    });
    let most = count("LOCKS", LOCKS);
    let locks = until_refused(|number| {
        let byte = u64::from(number) * 2;
        number < most && greedy.lock(opened[0], number / 8192, byte).is_some()
    });
    let begun = Instant::now();
    let mut other = Machine::mount(server.port, "other");
    let open = other.open(1).expect("an open");
    other.lock(open, 1, 1 << 40).expect("a lock in the same file");
    let took = begun.elapsed();
    println!(
        "one client has {sessions} more sessions, {opens} opens and {locks} locks; another mounts, opens and \
         locks in {took:?}"
    );
    assert!(took < AT_ONCE, "{took:?}");
    // half of the opens that an eighth of 64 MiB has room for
    assert_eq!((sessions, opens), (63, 4096));
    assert_eq!(locks, most.min(LOCKS_OF_A_FILE));
    assert!(greedy.open(MORE_THAN_THERE_IS).is_none(), "it still has all that it gets");
    server.kill();
}
