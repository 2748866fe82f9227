//! What the explorer's world consists of, and each step that can happen in it.

use crate::world::{address, file, name};
use bowline_state::{
    ByteRange, Caller, Cancelled, Effect, Effects, HostId, HostName, HostRemoval, How, Limits,
    LocalAnswer, LocalConflict, LocalOp, LockRequest, Mode, Now, Plan, Reboot, Record, Recovery,
    State, Tag, Ticket, Transport, Who,
};
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hash, Hasher};

/// What can happen: a part of everything goes deeper in as many states.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    pub name: &'static str,
    pub files: u8,
    /// The first of [`RANGES`] that is asked for; from there on all are.
    pub first_range: u8,
    /// Requests that do not wait.
    pub tries: bool,
    /// What the local program locks.
    pub local: &'static [Mode],
    /// How often the server may crash on one path.
    pub crashes: u8,
    /// Clients reboot, and the operator releases them.
    pub leave: bool,
    /// Both hosts are recorded at the start.
    pub recorded: bool,
    /// No client asks for more while so much is under way.
    pub flights_max: usize,
    /// How many states are looked at.
    pub states: usize,
}

/// A step of time. Retries are due after one, a grace period is over after two.
const TICK_MS: u64 = 1000;

/// Byte 0, or both; the second stands for the rest of the file.
const RANGES: [(u64, u64); 2] = [(0, 0), (0, u64::MAX)];

pub fn range(number: u8) -> ByteRange {
    let (start, end) = RANGES[usize::from(number)];
    ByteRange::new(start, end).unwrap()
}

pub fn bytes(range: ByteRange) -> std::ops::Range<usize> {
    usize::from(range.start() != 0)..usize::from(range.end() != 0) + 1
}

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client asks for a lock: owner, file, range, mode, whether it waits.
    Ask(u8, u8, u8, Mode, bool),
    /// A client whose request waits asks again.
    AskAgain(u8, u8),
    /// A client gives a range back.
    Unlock(u8, u8, u8),
    /// A client takes its request back.
    Cancel(u8, u8),
    /// A client takes a byte back that it held before the crash.
    Reclaim(u8, u8, u8),
    /// What is under way goes a step further: the kernel answers, the answer is entered, a record is stored, a request
    /// is made again.
    Step(u8),
    /// A client is told of a grant.
    Tell(u8),
    /// The local program locks or unlocks a file.
    Local(u8, Option<Mode>),
    /// Time passes.
    Tick,
    /// The server crashes and starts again.
    Crash,
    /// A client reboots, and says so.
    Reboot(u8),
    /// The operator releases a host.
    Release(u8),
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    pub owner: u8,
    pub file: u8,
    pub range: ByteRange,
    pub mode: Mode,
    pub how: How,
    pub host: HostId,
}

/// What a client waits for on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Open {
    Nothing,
    /// An answer.
    Answer(Request),
    /// A grant.
    Grant(Request),
}

/// What a client thinks of a file.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// What it holds.
    pub held: [Option<Mode>; 2],
    /// It must take that back first: the server crashed.
    pub lost: [bool; 2],
    pub open: Open,
}

/// What the server does besides.
#[derive(Debug, Clone)]
pub enum Flight {
    Kernel(Ticket, LocalOp, Option<Request>),
    Answered(Ticket, LocalAnswer, Option<Request>),
    Store(Record, Option<Request>),
    Retry(Request),
}

/// The whole.
#[derive(Clone)]
pub struct Env {
    pub state: State,
    pub now: Now,
    pub recovery: Recovery,
    pub flights: Vec<Flight>,
    pub tells: Vec<(Tag, u8)>,
    pub told: Vec<Tag>,
    pub clients: [[Client; 2]; 2],
    /// Per file and byte.
    pub shown: [[Option<Mode>; 2]; 2],
    pub local: [Option<Mode>; 2],
    pub crashes: u8,
    pub nsm_states: [i32; 2],
    pub deadlock: bool,
    scope: Scope,
    next_tag: u64,
    /// Steps of time since the start and since the last reclaim, as far as they matter.
    age: [u8; 2],
}

fn limits() -> Limits {
    Limits {
        grace_ms: 2 * TICK_MS,
        grace_quiet_ms: TICK_MS,
        retry_min_ms: TICK_MS,
        retry_max_ms: TICK_MS,
        silent_ms: 0,
        ..Limits::default()
    }
}

impl Env {
    pub fn new(scope: Scope) -> Self {
        let nothing = Client { held: [None; 2], lost: [false; 2], open: Open::Nothing };
        let mut env = Self {
            state: State::new(&Recovery::default(), Now(0), limits(), 1),
            now: Now(0),
            recovery: Recovery::default(),
            flights: Vec::new(),
            tells: Vec::new(),
            told: Vec::new(),
            clients: [[nothing; 2]; 2],
            shown: [[None; 2]; 2],
            local: [None; 2],
            crashes: 0,
            nsm_states: [1; 2],
            deadlock: false,
            scope,
            next_tag: 0,
            age: [9; 2],
        };
        let records = env.recovery.start_records();
        records.iter().for_each(|record| env.recovery.apply(record));
        (0..2).filter(|_| scope.recorded).for_each(|owner| env.visit(owner));
        env
    }

    /// A client locks and unlocks, and nothing else happens meanwhile.
    fn visit(&mut self, owner: u8) {
        for action in [Action::Ask(owner, 0, 1, Mode::Read, false), Action::Unlock(owner, 0, 1)] {
            self.act(action);
            while !self.flights.is_empty() {
                self.act(Action::Step(0));
            }
        }
    }

    pub fn host(&self, owner: u8) -> Option<HostId> {
        let name = name(owner);
        let caller = Caller {
            addr: address(owner),
            name: &name,
            local: address(200),
            nlm_version: 4,
            transport: Transport::Udp,
            nsm_state: 1,
        };
        self.state.identify(self.now, &caller).ok()
    }

    pub fn host_name(owner: u8) -> HostName {
        HostName::new(address(owner), &name(owner))
    }

    pub fn client(&mut self, owner: u8, file: u8) -> &mut Client {
        &mut self.clients[usize::from(owner)][usize::from(file)]
    }

    /// Everything that can happen now.
    pub fn actions(&self) -> Vec<Action> {
        let scope = self.scope;
        let mut actions = vec![Action::Tick];
        for owner in 0..2 {
            (0..scope.files).for_each(|file| self.client_actions(owner, file, &mut actions));
            if scope.leave {
                actions.extend([Action::Reboot(owner), Action::Release(owner)]);
            }
        }
        for number in 0..scope.files {
            let ours = self.shown[usize::from(number)].iter().max().copied().flatten();
            let free = |mode: Mode| ours.is_none_or(|ours| !ours.conflicts(mode));
            for to in scope.local.iter().copied().map(Some).chain([None]) {
                if to != self.local[usize::from(number)] && to.is_none_or(free) {
                    actions.push(Action::Local(number, to));
                }
            }
        }
        actions.extend((0..self.flights.len() as u8).map(Action::Step));
        actions.extend((0..self.tells.len() as u8).map(Action::Tell));
        if self.crashes < scope.crashes {
            actions.push(Action::Crash);
        }
        actions
    }

    fn client_actions(&self, owner: u8, file: u8, actions: &mut Vec<Action>) {
        let client = &self.clients[usize::from(owner)][usize::from(file)];
        match client.open {
            Open::Answer(request) if matches!(request.how, How::Wait(_)) => {
                actions.push(Action::Cancel(owner, file));
            }
            Open::Answer(_) => {}
            Open::Grant(_) => {
                actions.extend([Action::Cancel(owner, file), Action::AskAgain(owner, file)]);
            }
            Open::Nothing if self.flights.len() >= self.scope.flights_max => {}
            Open::Nothing => {
                for byte in 0..2 {
                    if client.lost[usize::from(byte)] {
                        actions.push(Action::Reclaim(owner, file, byte));
                    }
                }
                for range in self.scope.first_range..2 {
                    if client.held.iter().any(Option::is_some) {
                        actions.push(Action::Unlock(owner, file, range));
                    }
                    for mode in [Mode::Read, Mode::Write] {
                        if self.scope.tries {
                            actions.push(Action::Ask(owner, file, range, mode, false));
                        }
                        actions.push(Action::Ask(owner, file, range, mode, true));
                    }
                }
            }
        }
    }

    /// Takes a step.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Ask(owner, number, of, mode, waits) => {
                self.next_tag += 1;
                let how = if waits { How::Wait(Tag(self.next_tag)) } else { How::Try };
                self.ask(owner, number, range(of), mode, how);
            }
            Action::AskAgain(owner, number) => self.ask_again(owner, number),
            Action::Unlock(owner, number, of) => self.unlock(owner, number, range(of)),
            Action::Cancel(owner, number) => self.cancel(owner, number),
            Action::Reclaim(owner, number, byte) => {
                let mode = self.client(owner, number).held[usize::from(byte)].unwrap();
                let range = match byte {
                    0 => ByteRange::new(0, 0),
                    _ => ByteRange::new(1, u64::MAX),
                };
                self.ask(owner, number, range.unwrap(), mode, How::Reclaim);
            }
            Action::Step(at) => self.step(usize::from(at)),
            Action::Tell(at) => self.tell(usize::from(at)),
            Action::Local(number, to) => self.local[usize::from(number)] = to,
            Action::Tick => self.tick(),
            Action::Crash => self.crash(),
            Action::Reboot(owner) => self.reboot(owner),
            Action::Release(owner) => self.release(owner),
        }
        // maps of the core have no order
        if self.flights.len() > 1 {
            let mut flights = std::mem::take(&mut self.flights);
            flights.sort_by_cached_key(|flight| self.flight_digest(flight));
            self.flights = flights;
        }
        self.tells.sort();
    }

    fn ask(&mut self, owner: u8, file: u8, range: ByteRange, mode: Mode, how: How) {
        let Some(host) = self.host(owner) else { return };
        let request = Request { owner, file, range, mode, how, host };
        self.client(owner, file).open = Open::Answer(request);
        self.make(request);
    }

    fn ask_again(&mut self, owner: u8, number: u8) {
        let Open::Grant(request) = self.client(owner, number).open else { return };
        self.next_tag += 1;
        let again = Request { how: How::Wait(Tag(self.next_tag)), ..request };
        self.client(owner, number).open = Open::Answer(again);
        self.make(again);
    }

    /// Makes a request of the state.
    fn make(&mut self, request: Request) {
        let oh = crate::world::oh((request.owner, 7));
        let who = Who::Nlm { host: request.host, svid: 7, oh: &oh };
        let Request { range, mode, how, .. } = request;
        let asked = LockRequest { who, range, mode, how, local: true, monitored: true, kept: None };
        let (plan, effects) = self.state.lock(self.now, &file(request.file), &asked);
        self.run(effects);
        self.enter(plan, request);
    }

    /// What the answer means to the client.
    fn enter(&mut self, plan: Plan, request: Request) {
        let Request { owner, file, range, mode, how, .. } = request;
        if how == How::Reclaim {
            let refused = matches!(plan, Plan::Denied(_) | Plan::NoGrace);
            let nfs = matches!(plan, Plan::Denied(bowline_state::Conflict::Lock { .. }));
            assert!(!nfs, "somebody got what another may still reclaim");
            if matches!(plan, Plan::Granted) {
                self.age[1] = 0;
                let list = self.recovery.boot_list();
                assert!(list.contains_key(&Self::host_name(owner)), "it was not recorded");
            }
            for byte in bytes(range).filter(|_| refused || matches!(plan, Plan::Granted)) {
                let client = self.client(owner, file);
                client.lost[byte] = false;
                client.held[byte] = client.held[byte].filter(|_| !refused);
            }
        }
        self.deadlock |= matches!(plan, Plan::Deadlock);
        let client = self.client(owner, file);
        client.open = match plan {
            Plan::Local(ticket, op) => {
                self.flights.push(Flight::Kernel(ticket, op, Some(request)));
                return;
            }
            Plan::Record(record) => {
                self.flights.push(Flight::Store(record, Some(request)));
                return;
            }
            Plan::Blocked(tag) => Open::Grant(Request { how: How::Wait(tag), ..request }),
            Plan::Granted => {
                client.held[bytes(range)].fill(Some(mode));
                client.lost[bytes(range)].fill(false);
                Open::Nothing
            }
            Plan::Silent(_) | Plan::NoRoom => panic!("nobody is silent and there is room"),
            _ => Open::Nothing,
        };
    }

    fn unlock(&mut self, owner: u8, number: u8, range: ByteRange) {
        let client = self.client(owner, number);
        client.held[bytes(range)].fill(None);
        client.lost[bytes(range)].fill(false);
        let Some(host) = self.host(owner) else { return };
        let oh = crate::world::oh((owner, 7));
        let who = Who::Nlm { host, svid: 7, oh: &oh };
        let (plan, effects) = self.state.unlock(self.now, &file(number), &who, range);
        assert!(matches!(plan, Plan::Granted), "{plan:?}");
        self.run(effects);
    }

    fn cancel(&mut self, owner: u8, number: u8) {
        let (Open::Answer(request) | Open::Grant(request)) = self.client(owner, number).open else {
            return;
        };
        let waited = matches!(self.client(owner, number).open, Open::Grant(_));
        let oh = crate::world::oh((owner, 7));
        let who = Who::Nlm { host: request.host, svid: 7, oh: &oh };
        let (now, Request { range, mode, .. }) = (self.now, request);
        let (found, effects) = self.state.cancel(now, &file(number), &who, range, mode);
        self.run(effects);
        match found {
            Cancelled::Removed(tag) => {
                assert!(How::Wait(tag) == request.how, "another request was removed");
                if waited {
                    self.client(owner, number).open = Open::Nothing;
                }
            }
            Cancelled::Held => {
                // the grant is under way, or a stronger lock is held: the client gives up the range
                if waited {
                    self.client(owner, number).open = Open::Nothing;
                    self.unlock(owner, number, range);
                }
            }
            Cancelled::Unknown => assert!(!waited, "a request that waits is known"),
        }
    }

    fn step(&mut self, at: usize) {
        match self.flights.remove(at) {
            Flight::Kernel(ticket, op, request) => {
                let answer = self.kernel(&op);
                self.flights.push(Flight::Answered(ticket, answer, request));
            }
            Flight::Answered(ticket, answer, request) => {
                let (plan, effects) = self.state.settle(self.now, &ticket, answer);
                let (again, none) = self.state.settle(self.now, &ticket, answer);
                assert!(matches!(again, Plan::Gone) && none.is_empty(), "settled twice");
                self.run(effects);
                if let Some(request) = request {
                    let open = self.client(request.owner, request.file).open;
                    match open == Open::Answer(request) {
                        true => self.enter(plan, request),
                        false => assert!(!matches!(plan, Plan::Granted), "granted to nobody"),
                    }
                }
            }
            Flight::Store(record, request) => {
                self.recovery.apply(&record);
                if let Record::NsmGone(name) = &record {
                    let owner = (0..2).find(|owner| Self::host_name(*owner) == *name).unwrap();
                    self.forget(owner);
                }
                if let Record::GraceEnded(_) = &record
                    && self.state.totals().grace != bowline_state::Phase::Over
                {
                    self.end_of_grace();
                }
                let effects = self.state.persisted(self.now, &record);
                self.run(effects);
                let wanted = request.filter(|request| {
                    self.client(request.owner, request.file).open == Open::Answer(*request)
                });
                self.flights.extend(wanted.map(Flight::Retry));
            }
            Flight::Retry(request) => {
                if self.client(request.owner, request.file).open == Open::Answer(request) {
                    self.make(request);
                }
            }
        }
    }

    /// A client that did not come back in time has lost what it held.
    fn end_of_grace(&mut self) {
        for client in self.clients.iter_mut().flatten() {
            for byte in 0..2 {
                client.held[byte] = client.held[byte].filter(|_| !client.lost[byte]);
                client.lost[byte] = false;
            }
        }
    }

    /// The kernel sets the pieces, or undoes them at the first conflict.
    fn kernel(&mut self, op: &LocalOp) -> LocalAnswer {
        let number = usize::from(*op.file.bytes().last().unwrap());
        let local = self.local[number];
        for (done, piece) in op.pieces.iter().enumerate() {
            for byte in bytes(piece.range) {
                assert_eq!(self.shown[number][byte], piece.from, "what the kernel shows");
            }
            if let (Some(held), Some(to)) = (local, piece.to)
                && piece.to > piece.from
                && held.conflicts(to)
            {
                for undo in op.undo(done) {
                    self.shown[number][bytes(undo.range)].fill(undo.to);
                }
                let conflict = LocalConflict { range: ByteRange::ALL, mode: held, pid: 1 };
                return LocalAnswer::Conflict(conflict);
            }
            self.shown[number][bytes(piece.range)].fill(piece.to);
        }
        if op.last {
            assert_eq!(self.shown[number], [None; 2], "closed with locks");
        }
        LocalAnswer::Done
    }

    fn tell(&mut self, at: usize) {
        let (tag, number) = self.tells.remove(at);
        let waits = |client: &&mut Client| matches!(client.open, Open::Grant(request) if request.how == How::Wait(tag));
        let clients = self.clients.iter_mut().map(|files| &mut files[usize::from(number)]);
        let waiting = clients.into_iter().find(waits);
        if let Some(client) = waiting {
            let Open::Grant(request) = client.open else { return };
            client.held[bytes(request.range)].fill(Some(request.mode));
            client.lost[bytes(request.range)].fill(false);
            client.open = Open::Nothing;
            self.state.confirm(&file(number), tag);
        } else {
            let (_went, effects) = self.state.withdraw(self.now, &file(number), tag);
            self.run(effects);
        }
    }

    fn tick(&mut self) {
        self.now = Now(self.now.0 + TICK_MS);
        self.age.iter_mut().for_each(|age| *age = (*age + 1).min(9));
        let (record, effects) = self.state.tick(self.now, 9);
        if let Some(record) = record {
            let under_way = self
                .flights
                .iter()
                .any(|flight| matches!(flight, Flight::Store(other, None) if *other == record));
            if !under_way {
                self.flights.push(Flight::Store(record, None));
            }
        }
        self.run(effects);
    }

    fn crash(&mut self) {
        self.crashes += 1;
        self.flights.clear();
        self.tells.clear();
        self.shown = [[None; 2]; 2];
        self.state = State::new(&self.recovery, self.now, limits(), 1);
        for record in self.recovery.start_records() {
            self.recovery.apply(&record);
        }
        let list = self.recovery.boot_list();
        for (owner, files) in (0..2).zip(self.clients.iter_mut()) {
            for client in files {
                let holds = client.held.iter().any(Option::is_some);
                assert!(!holds || list.contains_key(&Self::host_name(owner)), "not recorded");
                client.lost = client.held.map(|held| held.is_some());
                client.open = Open::Nothing;
            }
        }
        self.age = [0; 2];
    }

    fn forget(&mut self, owner: u8) {
        for client in &mut self.clients[usize::from(owner)] {
            *client = Client { held: [None; 2], lost: [false; 2], open: Open::Nothing };
        }
    }

    fn reboot(&mut self, owner: u8) {
        self.forget(owner);
        let state = &mut self.nsm_states[usize::from(owner)];
        *state += 2;
        let (from, name) = (address(owner), name(owner));
        let reboot = self.state.client_rebooted(self.now, from, &name, *state);
        if let Reboot::Dropped { effects, record, .. } = reboot {
            self.recovery.apply(&record);
            self.run(effects);
            self.assert_nothing_of(owner);
        }
    }

    fn release(&mut self, owner: u8) {
        let Some(host) = self.host(owner) else { return };
        match self.state.release_host(self.now, host) {
            HostRemoval::Record(record) => self.flights.push(Flight::Store(record, None)),
            HostRemoval::Gone(_, effects) => {
                // it was never recorded in this life of the server and holds nothing here
                self.run(effects);
                self.assert_nothing_of(owner);
                for client in &mut self.clients[usize::from(owner)] {
                    client.open = Open::Nothing;
                }
            }
            HostRemoval::Unknown => {}
        }
    }

    fn assert_nothing_of(&self, owner: u8) {
        let rows = self.state.host_rows(self.now);
        let row = rows.iter().find(|row| row.info.addr == address(owner));
        assert!(row.is_none_or(|row| (row.files, row.ranges, row.waiters) == (0, 0, 0)));
        let oh = crate::world::oh((owner, 7));
        for row in self.state.file_rows(self.now) {
            let of = |who: Who<'_>| {
                let other = who.name();
                other == oh
            };
            assert!(!row.locks.iter().any(|lock| of(lock.holder.who())), "a lock is left");
            assert!(!row.waiters.iter().any(|waiter| of(waiter.holder.who())), "one waits");
        }
    }

    /// Notes what is to be done.
    fn run(&mut self, effects: Effects) {
        for effect in effects {
            match effect {
                Effect::Granted(granted) => {
                    assert!(!self.told.contains(&granted.tag), "told twice");
                    self.told.push(granted.tag);
                    let number = *granted.file.bytes().last().unwrap();
                    self.tells.push((granted.tag, number));
                }
                Effect::Local(ticket, op) => self.flights.push(Flight::Kernel(ticket, op, None)),
                Effect::LetGo(_) => panic!("nothing was kept"),
            }
        }
    }

    /// A request without the numbers that only tell things apart.
    fn request_digest(&self, request: &Request) -> impl Hash + use<> {
        let waits = matches!(request.how, How::Wait(_));
        let reclaims = request.how == How::Reclaim;
        let live = self.state.host_name(request.host).is_some();
        (request.owner, request.file, request.range, request.mode, waits, reclaims, live)
    }

    fn flight_digest(&self, flight: &Flight) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        std::mem::discriminant(flight).hash(&mut hasher);
        let request = match flight {
            Flight::Kernel(_, op, request) => {
                op.hash(&mut hasher);
                *request
            }
            Flight::Answered(ticket, answer, request) => {
                answer.hash(&mut hasher);
                ticket.file().hash(&mut hasher);
                *request
            }
            Flight::Store(Record::GraceEnded(n), request) => {
                (*n == self.recovery.instance()).hash(&mut hasher);
                *request
            }
            Flight::Store(record, request) => {
                record.hash(&mut hasher);
                *request
            }
            Flight::Retry(request) => Some(*request),
        };
        request.map(|request| self.request_digest(&request)).hash(&mut hasher);
        hasher.finish()
    }

    /// All of the state but the numbers that only tell things apart.
    pub fn digest(&self) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        for row in self.state.file_rows(self.now) {
            row.file.hash(&mut hasher);
            for lock in &row.locks {
                let oh = lock.holder.who().name();
                (oh, lock.range, lock.mode, lock.tentative_ms.is_some()).hash(&mut hasher);
            }
            for waiter in &row.waiters {
                let oh = waiter.holder.who().name();
                (oh, waiter.range, waiter.mode, waiter.local).hash(&mut hasher);
            }
            (row.locks.len(), row.waiters.len(), row.shown, row.asked).hash(&mut hasher);
        }
        for host in self.state.host_rows(self.now) {
            (host.info.addr, host.recorded, host.leaving).hash(&mut hasher);
        }
        for client in self.clients.iter().flatten() {
            (client.held, client.lost).hash(&mut hasher);
            match &client.open {
                Open::Nothing => 0.hash(&mut hasher),
                Open::Answer(request) => (1, self.request_digest(request)).hash(&mut hasher),
                Open::Grant(request) => (2, self.request_digest(request)).hash(&mut hasher),
            }
        }
        self.flights.iter().for_each(|flight| self.flight_digest(flight).hash(&mut hasher));
        for (tag, file) in &self.tells {
            let waits = self.clients.iter().flatten().position(|client| {
                matches!(client.open, Open::Grant(request) if request.how == How::Wait(*tag))
            });
            (waits, file).hash(&mut hasher);
        }
        (self.shown, self.local, self.crashes, self.age).hash(&mut hasher);
        // the numbers of the instances only tell crashes apart
        self.recovery.records().iter().skip(1).for_each(|record| match record {
            Record::GraceBegan(_) => 0.hash(&mut hasher),
            record => record.hash(&mut hasher),
        });
        self.state.totals().grace.hash(&mut hasher);
        hasher.finish()
    }
}

/// What the explorer has seen happen at all, so that it does not prove things of an empty room.
#[derive(Debug, Default)]
pub struct Reached {
    pub told: bool,
    pub both_wait: bool,
    pub deadlock: bool,
    pub local_conflict: bool,
    pub local_conflict_after_some: bool,
    pub reclaimed: bool,
    pub crashed_twice: bool,
    pub leaving: bool,
    pub told_and_not_wanted: bool,
}

impl Reached {
    pub fn note(&mut self, env: &Env, action: Action) {
        let clients = || env.clients.iter().flatten();
        self.told |= !env.told.is_empty();
        self.both_wait |= clients().filter(|c| matches!(c.open, Open::Grant(_))).count() > 1;
        self.deadlock |= env.deadlock;
        for flight in &env.flights {
            let Flight::Answered(_, LocalAnswer::Conflict(_), _) = flight else { continue };
            self.local_conflict = true;
            self.local_conflict_after_some = self.local_conflict_after_some
                || env.state.file_rows(env.now).iter().any(|row| !row.shown.is_empty());
        }
        self.reclaimed |=
            env.crashes > 0 && clients().any(|client| client.held[0].is_some() && !client.lost[0]);
        self.crashed_twice |= env.crashes > 1;
        self.leaving = self.leaving || env.state.host_rows(env.now).iter().any(|host| host.leaving);
        self.told_and_not_wanted |= matches!(action, Action::Cancel(..)) && !env.tells.is_empty();
    }

    pub fn assert_all(&self) {
        let text = format!("{self:?}");
        assert!(!text.contains("false"), "{text}");
    }
}
