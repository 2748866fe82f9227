//! The beginning and the end of a simulated client of version 4, in blocking calls over the connection of its load, or of
//! one beside it where that is sealed by TLS: its session, the files that its load reads and writes, and, before version
//! 4.1, its slots' owners, confirmed so that the load need not do it.

use super::admission::{retry_while_delayed, unique_name};
use super::state::{OpenFile, SlotState, State4};
use crate::load::call::LOCK_BYTES;
use crate::load::error::LoadError;
use crate::load::file_set::FileSet;
use crate::load::plan::{Plan, Workload};
use crate::load::sec::Sec;
use crate::load::setup::connect_sealed;
use client::nfs4::{ClientRecord, OpenOwner, Operations, succeeded};
use client::{Client, Fh, Identity};
use proto::layout::Bytes;
use proto::nfs4::{
    LockArgs, LockOwner4, LockType4, Locker4, LockuArgs, OpenToLockOwner4, Stateid4, op, share,
};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The most files that one client opens to read them; more are read without an open.
const FILES_MAX: usize = 64;
/// How long a call may take that gives something back.
const RETURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes client number `client` known by calls of `over`, with what the load needs open.
///
/// # Errors
/// A refusal of the server; fewer slots than the load has calls under way.
pub(crate) fn set_up(
    plan: &Plan,
    file_set: &FileSet,
    client: usize,
    server: SocketAddr,
    mut over: Client,
    identity: Identity,
) -> Result<State4, LoadError> {
    let refused = |source| LoadError::SetUp { client: client + 1, server, source };
    let minor = plan.version.minor().unwrap_or(0);
    over.set_identity(Some(identity.clone()));
    let deadline = Instant::now() + plan.timeout;
    let slots = u32::try_from(plan.depth).unwrap_or(u32::MAX);
    let name = unique_name(&client);
    let record = retry_while_delayed(deadline, || {
        ClientRecord::establish(&mut over, minor, name.as_bytes(), slots)
    });
    let record = record.map_err(refused)?;
    let granted = record.session.as_ref().map_or(plan.depth, client::nfs4::Session::slots);
    if granted < plan.depth {
        return Err(LoadError::Slots { server, granted, depth: plan.depth });
    }
    let state = State4 {
        identity,
        record,
        owner: OpenOwner::new(b"from beginning to end"),
        files: Vec::new(),
        own: None,
        slots: (0..plan.depth).map(SlotState::new).collect(),
    };
    let mut setting_up = SetUp { over, state, deadline };
    setting_up.open_all(plan, file_set, client).map_err(refused)?;
    Ok(setting_up.state)
}

struct SetUp {
    over: Client,
    state: State4,
    deadline: Instant,
}

impl SetUp {
    fn open_all(&mut self, plan: &Plan, file_set: &FileSet, client: usize) -> client::Result<()> {
        let (reads, writes) = match plan.workload {
            Workload::Read => (true, false),
            Workload::Write | Workload::Lock => (false, true),
            Workload::Mixed => (true, true),
            _ => (false, false),
        };
        if reads {
            for file in file_set.files.iter().take(FILES_MAX) {
                let opened = self.open((&file.dir, &file.name), share::ACCESS_READ)?;
                self.state.files.push(opened);
            }
        }
        let Some(own) = file_set.own_place(client) else { return Ok(()) };
        if writes {
            self.state.own = Some(self.open(own, share::ACCESS_READ | share::ACCESS_WRITE)?);
        }
        let opens = matches!(
            plan.workload,
            Workload::OpenClose
                | Workload::Create
                | Workload::Untar
                | Workload::Mixed
                | Workload::Replay(_)
        );
        for slot in 0..plan.depth {
            if opens && self.state.minor() == 0 {
                self.confirm_owner(slot, own)?;
            }
            if plan.workload == Workload::Lock {
                self.first_lock(slot)?;
            }
        }
        Ok(())
    }

    /// Opens a name by the owner of what stays open.
    fn open(&mut self, place: (&Fh, &[u8]), access: u32) -> client::Result<OpenFile> {
        let (over, State4 { record, owner, .. }) = (&mut self.over, &mut self.state);
        retry_while_delayed(self.deadline, || record.open(over, owner, place, access, None))
    }

    /// Opens and closes a file by a slot's owner: the first time the server wants OPEN_CONFIRM.
    fn confirm_owner(&mut self, slot: usize, place: (&Fh, &[u8])) -> client::Result<()> {
        let (over, State4 { record, slots, .. }) = (&mut self.over, &mut self.state);
        let Some(slot) = slots.get_mut(slot) else { return Ok(()) };
        let mut owner = OpenOwner { name: slot.name.to_vec(), seqid: slot.open_seqid };
        let done = retry_while_delayed(self.deadline, || {
            let access = share::ACCESS_READ;
            let (file, stateid) = record.open(over, &mut owner, place, access, None)?;
            record.close(over, &mut owner, &file, stateid)
        });
        slot.open_seqid = owner.seqid;
        done
    }

    /// Takes and gives back the slot's lock, so that its lock owner has a stateid. In version 4.0 all slots' first locks
    /// have numbers of the one open owner, which must be in order.
    fn first_lock(&mut self, slot: usize) -> client::Result<()> {
        let (over, State4 { record, slots, own, owner, .. }) = (&mut self.over, &mut self.state);
        let (Some(held), Some((file, open))) = (slots.get_mut(slot), own) else { return Ok(()) };
        let offset = u64::try_from(slot).unwrap_or(0) * LOCK_BYTES;
        let (kind, length) = (LockType4::Write, LOCK_BYTES);
        let stateid = retry_while_delayed(self.deadline, || {
            let lock_owner = LockOwner4 { clientid: record.client_id, owner: Bytes(&held.name) };
            let locker = Locker4::New(OpenToLockOwner4 {
                open_seqid: owner.seqid,
                open: *open,
                lock_seqid: held.lock_seqid,
                owner: lock_owner,
            });
            owner.seqid = owner.seqid.wrapping_add(1);
            held.lock_seqid = held.lock_seqid.wrapping_add(1);
            let args = LockArgs { kind, reclaim: false, offset, length, locker };
            let operations = Operations::new().at(file.bytes()).with(op::LOCK, &args);
            stateid_of(record, over, &operations, op::LOCK)
        })?;
        held.lock = stateid;
        held.lock = unlock(record, over, (file, stateid, held.lock_seqid), offset)?;
        held.lock_seqid = held.lock_seqid.wrapping_add(1);
        Ok(())
    }
}

/// The stateid that is the result of an operation behind PUTFH.
fn stateid_of(
    record: &mut ClientRecord,
    over: &mut Client,
    operations: &Operations,
    number: u32,
) -> client::Result<Stateid4> {
    let reply = record.compound(over, operations)?;
    let mut r = record.results(&reply)?;
    succeeded(&mut r, op::PUTFH)?;
    succeeded(&mut r, number)?;
    let garbled = |source| client::Error::Garbled { operation: "LOCK", source };
    r.get().map_err(garbled)
}

fn unlock(
    record: &mut ClientRecord,
    over: &mut Client,
    (file, stateid, seqid): (&Fh, Stateid4, u32),
    offset: u64,
) -> client::Result<Stateid4> {
    let kind = LockType4::Write;
    let args = LockuArgs { kind, seqid, stateid, offset, length: LOCK_BYTES };
    let operations = Operations::new().at(file.bytes()).with(op::LOCKU, &args);
    stateid_of(record, over, &operations, op::LOCKU)
}

/// The clients of a load that has ended. Dropped, each closes what it has open and has the server forget it, so that the
/// next load finds the server as this one did; one whose server does not answer leaves that to its lease.
pub(crate) struct StateReturn {
    all: Vec<(TcpStream, State4)>,
    /// What connections beside sealed ones are made for.
    sealed: Option<Plan>,
}

impl std::fmt::Debug for StateReturn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} clients", self.all.len())
    }
}

impl StateReturn {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { all: Vec::new(), sealed: (plan.sec == Sec::Tls).then(|| plan.clone()) }
    }

    /// Adds a client, whose connection blocks.
    pub(crate) fn add(&mut self, stream: TcpStream, state: State4) {
        self.all.push((stream, state));
    }
}

impl Drop for StateReturn {
    fn drop(&mut self) {
        for (stream, state) in self.all.drain(..) {
            let over = match &self.sealed {
                None => Client::over_tcp(stream, RETURN_TIMEOUT).ok(),
                Some(plan) => {
                    stream.peer_addr().ok().and_then(|server| connect_sealed(server, plan).ok())
                }
            };
            let Some(mut over) = over else { continue };
            over.set_identity(Some(state.identity.clone()));
            // the lease ends what cannot be given back
            let _ = give_back(&mut over, state);
        }
    }
}

fn give_back(over: &mut Client, state: State4) -> client::Result<()> {
    let State4 { mut record, mut owner, files, own, slots, .. } = state;
    for (number, slot) in slots.into_iter().enumerate() {
        if let (true, Some((file, _))) = (slot.is_locked, &own) {
            let offset = u64::try_from(number).unwrap_or(0) * LOCK_BYTES;
            unlock(&mut record, over, (file, slot.lock, slot.lock_seqid), offset)?;
        }
        if let Some((file, stateid)) = slot.opened {
            let mut owner = OpenOwner { name: slot.name.to_vec(), seqid: slot.open_seqid };
            record.close(over, &mut owner, &file, stateid)?;
        }
    }
    for (file, stateid) in files.into_iter().chain(own) {
        record.close(over, &mut owner, &file, stateid)?;
    }
    record.destroy(over)
}
