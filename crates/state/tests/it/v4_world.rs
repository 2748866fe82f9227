//! What the tests of version 4 share: who calls, what they ask for, and a server of version 4.1 with its store, which can be
//! killed at any time.

use bowline_state::v4::{
    ChannelLimits, CreateSession, ExchangeId, Expiry, OpenError, OpenRequest, Principal, SessionId,
    Stateid, V4Limits, V4State,
};
use bowline_state::{
    Admission, Caller, FileKey, HostId, Limits, Now, Phase, Plan, Record, Recovery, ShareBits,
    ShareMode, ShareOwner, ShareRequest, State, Transport,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const LEASE: u64 = 60_000;
pub const GRACE: u64 = 60_000;
pub const ALICE: Principal = Principal { flavor: 1, user: 0 };
pub const BOB: Principal = Principal { flavor: 1, user: 1000 };
pub const READ: ShareMode = ShareMode { access: ShareBits::READ, deny: ShareBits::NONE };
pub const WRITE: ShareMode = ShareMode { access: ShareBits::WRITE, deny: ShareBits::NONE };
pub const EXCLUSIVE: ShareMode = ShareMode { access: ShareBits::BOTH, deny: ShareBits::BOTH };

/// Where clients are.
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// What they ask of a session.
pub const CHANNEL: ChannelLimits = ChannelLimits {
    request_bytes: 4096,
    response_bytes: 4096,
    cached_bytes: 1024,
    operations: 16,
    slots: 4,
};

/// Numbers that are not the same twice.
pub fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The EXCHANGE_ID of a client that asks for nothing special.
pub const fn exchange_id_of(owner: &[u8], verifier: u8, principal: Principal) -> ExchangeId<'_> {
    ExchangeId {
        owner,
        verifier: [verifier; 8],
        principal,
        address: HERE,
        machine: None,
        is_signed: false,
        update: false,
    }
}

/// The state of a server on which nobody has been before, to which that of version 4 belongs.
pub fn core() -> Arc<State> {
    Arc::new(State::new(&Recovery::default(), Now(0), Limits::default(), 1))
}

/// Whether one open denies what the other wants.
pub const fn conflict(a: ShareMode, b: ShareMode) -> bool {
    (a.access.number() & b.deny.number()) | (a.deny.number() & b.access.number()) != 0
}

/// A server with its store, which can be killed at any time.
pub struct Server {
    pub locks: Arc<State>,
    pub v4: V4State,
    pub stored: Vec<Record>,
    /// It is killed while it stores so many records from now on, and whether the record is stored.
    pub killed_after: Option<(usize, bool)>,
    /// It was killed: nothing that it does counts any more.
    pub killed: bool,
    /// The stateid of the last open that was granted.
    pub opened: Option<Stateid>,
}

impl Server {
    pub fn first() -> Self {
        Self::start(Vec::new())
    }

    fn start(mut stored: Vec<Record>) -> Self {
        let recovery = Recovery::of(stored.iter().cloned());
        stored.extend(recovery.start_records());
        let limits = Limits { grace_ms: GRACE, ..Limits::default() };
        let locks = Arc::new(State::new(&recovery, Now(0), limits, 1));
        let limits = V4Limits::default();
        let v4 = V4State::new(Arc::clone(&locks), random() as u32, random, limits);
        let v4 = v4.with_epoch(recovery.instance() + 1);
        Self { locks, v4, stored, killed_after: None, killed: false, opened: None }
    }

    /// Killed, and started again.
    pub fn restart(&mut self) {
        *self = Self::start(std::mem::take(&mut self.stored));
    }

    pub fn store(&mut self, record: Record) {
        if let Some((left, stored)) = &mut self.killed_after {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => {
                    if *stored && !self.killed {
                        self.stored.push(record);
                    }
                    self.killed = true;
                    return;
                }
            }
        }
        let _nothing = self.locks.persisted(Now(0), &record);
        self.stored.push(record);
    }

    /// The same for a record that a client waits for.
    pub fn store_client(&mut self, client: &Client, record: Record) {
        self.store(record.clone());
        if let Record::Client(recorded) = record
            && !self.killed
        {
            let reading = self.v4.read();
            let session = reading.session(&client.session).unwrap();
            self.v4.client_recorded(session.requester(), &recorded);
        }
    }

    pub fn phase(&self, now: u64) -> Phase {
        self.locks.grace_period(Now(now)).0
    }

    /// A client with a session that has said nothing yet.
    pub fn client(&self, now: u64, name: &[u8], verifier: u8, principal: Principal) -> Client {
        let known =
            self.v4.exchange_id(Now(now), &exchange_id_of(name, verifier, principal)).unwrap();
        let (client_id, sequence) = (known.client_id, known.sequence);
        let (limits, back_channel) = (CHANNEL, false);
        let want = CreateSession { client_id, sequence, principal, limits, back_channel };
        let session = self.v4.create_session(Now(now), &want).unwrap().session;
        Client { id: client_id, session, file: FileKey::new(b"file").unwrap(), owner: b"owner" }
    }

    /// RECLAIM_COMPLETE: false if it had been sent before.
    pub fn complete(&mut self, now: u64, client: &Client) -> bool {
        let (record, before) = {
            let reading = self.v4.read();
            let session = reading.session(&client.session).unwrap();
            (session.requester().completion_record(), session.requester().has_reclaimed())
        };
        if let Some(record) = record.filter(|_| !before) {
            self.store_client(client, record);
        }
        let reading = self.v4.read();
        let session = reading.session(&client.session).unwrap();
        session.requester().complete_reclaim(Now(now), &self.locks)
    }

    /// OPEN as the server does it: records first.
    pub fn open(&mut self, now: u64, client: &Client, reclaim: bool, mode: ShareMode) -> Answer {
        for _ in 0..8 {
            if self.killed {
                return Answer::Killed;
            }
            let admitted = {
                let reading = self.v4.read();
                let Some(session) = reading.session(&client.session) else {
                    return Answer::BadSession;
                };
                session.requester().admit(Now(now), &self.locks, reclaim)
            };
            match admitted {
                Admission::Grace => return Answer::Grace,
                Admission::NoGrace => return Answer::NoGrace,
                Admission::Store(record) => self.store_client(client, record),
                Admission::Go => match self.share(now, client, reclaim, mode) {
                    Ok(stateid) => {
                        self.opened = Some(stateid);
                        return Answer::Open;
                    }
                    Err(OpenError::Expired(clients)) => {
                        clients.into_iter().for_each(|other| self.expire(now, other));
                    }
                    Err(OpenError::ShareDenied) => return Answer::Denied,
                    Err(other) => panic!("{other:?}"),
                },
            }
        }
        panic!("no answer")
    }

    pub fn share(
        &self,
        now: u64,
        client: &Client,
        reclaim: bool,
        mode: ShareMode,
    ) -> Result<Stateid, OpenError> {
        let may_reclaim = || self.locks.may_reclaim();
        let reading = self.v4.read();
        let session = reading.session(&client.session).unwrap();
        let reclaimed: Option<&dyn Fn() -> bool> = if reclaim { Some(&may_reclaim) } else { None };
        let Client { file, owner, .. } = *client;
        let request = OpenRequest { file, owner, user: ALICE, mode, reclaim: reclaimed };
        let opened = self.v4.open(Now(now), session, &request, &mut Some(Box::new(())))?;
        if reclaim {
            session.requester().reclaimed(Now(now), &self.locks);
        }
        Ok(opened.stateid)
    }

    /// A client of version 3 as the server knows it.
    pub fn host(&self, now: u64, client: &NlmClient) -> HostId {
        let caller = Caller {
            addr: client.addr,
            name: client.name,
            local: HERE,
            nlm_version: 4,
            transport: Transport::Tcp,
            nsm_state: 1,
        };
        self.locks.identify(Now(now), &caller).unwrap()
    }

    /// SHARE as the server does it: records first.
    pub fn reserve(
        &mut self,
        now: u64,
        (client, file): (&NlmClient, FileKey),
        reclaim: bool,
        mode: ShareMode,
    ) -> Answer {
        for _ in 0..8 {
            if self.killed {
                return Answer::Killed;
            }
            let owner = ShareOwner { host: self.host(now, client), oh: client.name };
            let (addr, monitored, kept) = (client.addr, true, None);
            let request = ShareRequest { owner, addr, mode, reclaim, monitored, kept };
            match self.v4.share(Now(now), &file, &request).map(|(plan, _)| plan) {
                Ok(Plan::Granted) => return Answer::Open,
                Ok(Plan::Record(record)) => self.store(record),
                Ok(Plan::Grace) => return Answer::Grace,
                Ok(Plan::NoGrace) => return Answer::NoGrace,
                Ok(Plan::Denied(_)) | Err(OpenError::ShareDenied) => return Answer::Denied,
                Err(OpenError::Expired(clients)) => {
                    clients.into_iter().for_each(|other| self.expire(now, other));
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("no answer")
    }

    /// UNSHARE.
    pub fn unreserve(&self, now: u64, (client, file): (&NlmClient, FileKey), mode: ShareMode) {
        let owner = ShareOwner { host: self.host(now, client), oh: client.name };
        let _nothing = self.locks.unshare(Now(now), &file, &owner, mode);
    }

    /// Opens the file, and closes it.
    pub fn open_and_close(&mut self, now: u64, client: &Client) {
        assert_eq!(self.open(now, client, false, READ), Answer::Open);
        let opened = self.share(now, client, false, READ).unwrap();
        self.v4.close(&self.v4.read(), client.id, opened, &client.file).unwrap();
    }

    pub fn expire(&mut self, now: u64, client: u64) {
        match self.v4.begin_expiry(Now(now), client) {
            Expiry::Store(record) => {
                self.store(record);
                if !self.killed {
                    self.v4.finish_expiry(client);
                }
            }
            Expiry::Ended | Expiry::Lives => {}
        }
    }

    pub fn forget(&mut self) {
        self.v4.take_forgotten().into_iter().for_each(|record| self.store(record));
    }
}

/// A client of version 3, which reserves files by SHARE.
#[derive(Clone, Copy)]
pub struct NlmClient {
    pub addr: IpAddr,
    pub name: &'static [u8],
}

#[derive(Clone, Copy)]
pub struct Client {
    pub id: u64,
    pub session: SessionId,
    /// What it opens.
    pub file: FileKey,
    /// Who opens it.
    pub owner: &'static [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Open,
    Grace,
    NoGrace,
    Denied,
    BadSession,
    /// The server was killed.
    Killed,
}
