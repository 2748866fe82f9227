//! The server is killed and started again, over and over, under two clients of version 4.1 that take byte ranges of one file
//! from one another and hold a file each that nobody else may open: after each kill both get back all that they had, and
//! nobody ever has what another has. Over plain TCP and over TLS. `KILLS=1000` for more kills, `SEED` for the same choices.

use crate::lock_recovery::alone;
use crate::many_lock_hosts::count;
use crate::rig::Server;
use crate::rig::channel::Channel;
use crate::rig::random::{Xorshift, seed};
use client::nfs4::{Operations, Session, results_inside, succeeded};
use client::{Client, Error, Identity};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, Createhow4, Fattr4, LockArgs, LockOwner4, LockType4, Locker4, LockuArgs, Nfsstat4,
    OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, Stateid4, op,
};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Times that the server is killed, unless `KILLS` says otherwise.
const KILLS: u32 = 20;
const KILLS_UNDER_TLS: u32 = 10;
/// Milliseconds for which it may live once both clients are back.
const LIFE_MS: u64 = 30;
/// Bytes of the file that both lock.
const BYTES: u64 = 64;
/// A limit on waiting that keeps a failure from hanging.
const PATIENCE: Duration = Duration::from_secs(60);
const BOTH: u32 = 3;
const NONE: Fattr4<'static> = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };

/// What all threads know.
struct Shared {
    port: u16,
    channel: Channel,
    /// Who has each byte; 0 for nobody.
    holders: Vec<AtomicU8>,
    stop: AtomicBool,
    /// How often each client has got everything back.
    returns: [AtomicU64; 2],
    reclaimed: AtomicU64,
    taken: AtomicU64,
}

fn open_args<'a>(how: OpenHow4<'a>, claim: OpenClaim4<'a>, deny: u32) -> OpenArgs<'a> {
    let owner = OpenOwner4 { clientid: 0, owner: Bytes(b"owner") };
    OpenArgs { seqid: 0, share_access: BOTH, share_deny: deny, owner, how, claim }
}

fn connection(shared: &Shared) -> client::Result<Client> {
    let mut client = shared.channel.connect(([127, 0, 0, 1], shared.port).into(), PATIENCE)?;
    client.set_identity(Some(Identity::new(65_534, 65_534)));
    Ok(client)
}

/// What came of a request: its status, or the server is gone.
type Answered = Result<(), Nfsstat4>;

struct Holder<'s> {
    shared: &'s Shared,
    number: u8,
    client: Client,
    session: Session,
    /// The file that both lock, and the one that is its own.
    handles: [Vec<u8>; 2],
    open: Stateid4,
    lock: Option<Stateid4>,
    held: BTreeSet<u64>,
    random: Xorshift,
}

impl<'s> Holder<'s> {
    fn new(shared: &'s Shared, number: u8) -> Self {
        let mut client = connection(shared).unwrap();
        let mut session = client.open_session(&[b'm', number], 4).unwrap();
        let (open, file) = open(&mut client, &mut session, b"shared", 0).unwrap();
        let own = [b'o', number];
        let (_, own) = self::open(&mut client, &mut session, &own, BOTH).unwrap();
        let handles = [file, own];
        let (lock, held) = (None, BTreeSet::new());
        let random = Xorshift(seed() + u64::from(number));
        Self { shared, number, client, session, handles, open, lock, held, random }
    }

    /// Takes and gives back bytes until it is told to stop.
    fn work(mut self) -> BTreeSet<u64> {
        while !self.shared.stop.load(SeqCst) {
            if self.step().is_err() {
                self.come_back();
            }
        }
        self.held
    }

    fn step(&mut self) -> client::Result<()> {
        let byte = self.random.below(BYTES);
        let place = &self.shared.holders[byte as usize];
        if self.held.remove(&byte) {
            // from now on somebody else may have it
            assert_eq!(place.swap(0, SeqCst), self.number);
            return self.unlock(byte)?.map_err(|status| unexpected("LOCKU", status));
        }
        match self.lock(byte, false)? {
            Ok(()) => {
                let before = place.swap(self.number, SeqCst);
                assert_eq!(before, 0, "byte {byte} is granted twice");
                self.held.insert(byte);
                self.shared.taken.fetch_add(1, SeqCst);
                Ok(())
            }
            Err(Nfsstat4::Denied) => Ok(()),
            Err(Nfsstat4::Grace) => {
                std::thread::sleep(Duration::from_millis(2));
                Ok(())
            }
            Err(status) => Err(unexpected("LOCK", status)),
        }
    }

    /// Connects to the server that was started again, and gets everything back.
    fn come_back(&mut self) {
        let begun = Instant::now();
        while let Err(error) = self.reclaim() {
            assert!(begun.elapsed() < PATIENCE, "client {} is not back: {error}", self.number);
            std::thread::sleep(Duration::from_millis(2));
        }
        self.shared.returns[usize::from(self.number) - 1].fetch_add(1, SeqCst);
    }

    fn reclaim(&mut self) -> client::Result<()> {
        self.client = connection(self.shared)?;
        self.session = self.client.open_reading_session(1, &[b'm', self.number], 4)?;
        self.lock = None;
        for (at, deny) in [(0, 0), (1, BOTH)] {
            let claim = open_args(OpenHow4::NoCreate, OpenClaim4::Previous(0), deny);
            let operations = Operations::new().at(&self.handles[at]).with(op::OPEN, &claim);
            let reply = self.client.compound(&mut self.session, &operations)?;
            let status = status_of(&reply);
            assert_eq!(status, Nfsstat4::Ok, "client {} loses an open", self.number);
            if at == 0 {
                let mut r = results_inside(&reply)?;
                succeeded(&mut r, op::PUTFH)?;
                succeeded(&mut r, op::OPEN)?;
                self.open = r.get().unwrap();
            }
        }
        for byte in self.held.clone() {
            let lost = self.lock(byte, true)?;
            assert_eq!(lost, Ok(()), "client {} loses byte {byte}", self.number);
            self.shared.reclaimed.fetch_add(1, SeqCst);
        }
        let done = Operations::new().with(op::RECLAIM_COMPLETE, &false);
        let reply = self.client.compound(&mut self.session, &done)?;
        assert_eq!(status_of(&reply), Nfsstat4::Ok);
        Ok(())
    }

    fn lock(&mut self, byte: u64, reclaim: bool) -> client::Result<Answered> {
        let owner = LockOwner4 { clientid: 0, owner: Bytes(b"owner") };
        let locker = self.lock.map_or(Locker4::by_open(self.open, owner), Locker4::by_lock);
        let args = LockArgs { kind: LockType4::Write, reclaim, offset: byte, length: 1, locker };
        let operations = Operations::new().at(&self.handles[0]).with(op::LOCK, &args);
        self.locked(&operations, op::LOCK)
    }

    fn unlock(&mut self, byte: u64) -> client::Result<Answered> {
        let stateid = self.lock.unwrap();
        let (kind, offset) = (LockType4::Write, byte);
        let args = LockuArgs { kind, seqid: 0, stateid, offset, length: 1 };
        let operations = Operations::new().at(&self.handles[0]).with(op::LOCKU, &args);
        self.locked(&operations, op::LOCKU)
    }

    /// Sends a request whose result is the stateid of the owner's locks.
    fn locked(&mut self, operations: &Operations, number: u32) -> client::Result<Answered> {
        let reply = self.client.compound(&mut self.session, operations)?;
        let status = status_of(&reply);
        if status != Nfsstat4::Ok {
            return Ok(Err(status));
        }
        let mut r = results_inside(&reply)?;
        succeeded(&mut r, op::PUTFH)?;
        succeeded(&mut r, number)?;
        self.lock = Some(r.get().unwrap());
        Ok(Ok(()))
    }
}

fn unexpected(operation: &'static str, status: Nfsstat4) -> Error {
    panic!("{operation}: {status:?}")
}

fn status_of(reply: &client::Reply) -> Nfsstat4 {
    xdr::Reader::new(reply.body()).get().unwrap()
}

/// Opens a file of the root, which is made; its stateid and handle.
pub fn open(
    client: &mut Client,
    session: &mut Session,
    name: &[u8],
    deny: u32,
) -> client::Result<(Stateid4, Vec<u8>)> {
    let how = OpenHow4::Create(Createhow4::Unchecked(NONE));
    let operations = Operations::new()
        .bare(op::PUTROOTFH)
        .with(op::OPEN, &open_args(how, OpenClaim4::Null(Bytes(name)), deny))
        .bare(op::GETFH);
    let reply = client.compound(session, &operations)?;
    let mut r = results_inside(&reply)?;
    succeeded(&mut r, op::PUTROOTFH)?;
    succeeded(&mut r, op::OPEN)?;
    let stateid = r.get().unwrap();
    // change_info4, flags, no attributes, no delegation
    r.opaque_fixed(24).unwrap();
    let _set: Bitmap4 = r.get().unwrap();
    r.u32().unwrap();
    succeeded(&mut r, op::GETFH)?;
    Ok((stateid, r.opaque(128).unwrap().to_vec()))
}

/// Tries to open what the two have for themselves, until it is told to stop; how often it was refused.
fn intrude(shared: &Shared) -> u64 {
    let mut refused = 0;
    while !shared.stop.load(SeqCst) {
        let tried = connection(shared).and_then(|mut client| {
            let mut session = client.open_session(b"intruder", 4)?;
            loop {
                for number in [1, 2] {
                    match open(&mut client, &mut session, &[b'o', number], 0) {
                        Ok(_) => panic!("what client {number} has for itself is opened"),
                        Err(error) => {
                            let status = error.status().ok_or(error)?;
                            let expected =
                                [Nfsstat4::ShareDenied, Nfsstat4::Grace, Nfsstat4::Delay];
                            assert!(expected.iter().any(|one| one.number() == status), "{status}");
                            refused += 1;
                        }
                    }
                }
                if shared.stop.load(SeqCst) {
                    return Ok(());
                }
            }
        });
        if tried.is_err() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    refused
}

/// Kills the server over and over, each time once both clients are back.
fn kill(server: &mut Server, shared: &Shared, kills: u32, is_over: impl Fn() -> bool) {
    let mut random = Xorshift(seed() + 100);
    for done in 0..u64::from(kills) {
        let begun = Instant::now();
        while shared.returns.iter().any(|returns| returns.load(SeqCst) < done) {
            if is_over() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "a client does not come back after kill {done}");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(random.below(LIFE_MS)));
        server.kill();
        // now and then it is killed while it starts, or while clients reclaim
        while random.below(4) == 0 {
            server.begin_again();
            std::thread::sleep(Duration::from_millis(random.below(2 * LIFE_MS)));
            server.kill();
        }
        server.start_again();
    }
}

#[test]
fn nothing_is_lost_or_granted_twice_when_the_server_is_killed_over_and_over() {
    killed_over_and_over(Channel::Plain, count("KILLS", KILLS));
}

#[test]
fn nothing_is_lost_or_granted_twice_over_tls_when_the_server_is_killed_over_and_over() {
    killed_over_and_over(Channel::tls(), count("KILLS", KILLS_UNDER_TLS));
}

fn killed_over_and_over(channel: Channel, kills: u32) {
    alone(move || {
        let base = tempfile::tempdir().unwrap();
        let served = base.path().join("served");
        std::fs::create_dir(&served).unwrap();
        for path in [base.path(), &served] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let exports = base.path().join("exports");
        let options = format!("rw,insecure,fsid=0{}", channel.demanded());
        std::fs::write(&exports, format!("{} *({options})\n", served.display())).unwrap();
        let mut args = channel.options();
        args.extend(["--exports".to_owned(), exports.display().to_string()]);
        let mut server = Server::start(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let shared = Shared {
            port: server.port,
            channel,
            holders: (0..BYTES).map(|_| AtomicU8::new(0)).collect(),
            stop: AtomicBool::new(false),
            returns: [const { AtomicU64::new(0) }; 2],
            reclaimed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        };
        let begun = Instant::now();
        let refused = std::thread::scope(|scope| {
            let holders: Vec<Holder<'_>> = [1, 2].map(|number| Holder::new(&shared, number)).into();
            let workers: Vec<_> =
                holders.into_iter().map(|holder| scope.spawn(|| holder.work())).collect();
            let intruder = scope.spawn(|| intrude(&shared));
            let is_over =
                || workers.iter().any(|worker| worker.is_finished()) || intruder.is_finished();
            kill(&mut server, &shared, kills, is_over);
            shared.stop.store(true, SeqCst);
            let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            let refused = intruder.join();
            let held: usize = ended.into_iter().map(|held| held.unwrap().len()).sum();
            let marked = shared.holders.iter().filter(|holder| holder.load(SeqCst) != 0).count();
            assert_eq!(held, marked);
            refused.unwrap()
        });
        let (reclaimed, taken) = (shared.reclaimed.load(SeqCst), shared.taken.load(SeqCst));
        println!(
            "{kills} kills in {:.1} s: {taken} locks granted, {reclaimed} reclaimed, {refused} opens refused",
            begun.elapsed().as_secs_f64()
        );
        assert!(reclaimed > u64::from(kills) && taken > u64::from(kills) && refused > 0);
    });
}
