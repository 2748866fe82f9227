//! The recovery store over a simulated disk, which is cut off at every byte and fails, and over a real directory.

use super::disk::Disk;
use super::{NotStored, RecoveryStore};
use state::v4::Principal;
use state::{
    ClientName, HostName, MonitoredHost, Record, RecordedClient, Records, Recovery, Transport,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

fn host(number: u8) -> MonitoredHost {
    MonitoredHost {
        addr: [10, 0, 0, number].into(),
        name: format!("host{number}").into_bytes().into(),
        local: [10, 0, 0, 250].into(),
        nlm_version: 4,
        transport: Transport::Tcp,
        nsm_state: 1,
    }
}

fn client(number: u8, life: u64) -> RecordedClient {
    let owner = format!("Linux NFSv4.1 machine{number}").into_bytes().into();
    let principal = Principal { flavor: 1, user: 0 };
    let name = ClientName { minor: 1, principal, owner };
    RecordedClient { name, life, address: [10, 0, 0, number].into() }
}

fn name(number: u8) -> HostName {
    host(number).host_name()
}

/// What may be on a disk after a power cut.
#[derive(Clone, Default)]
struct Content {
    /// Survives.
    durable: Vec<u8>,
    /// Every content that there may be instead, while something is not synced.
    possible: Vec<Vec<u8>>,
}

/// A disk that remembers what a power cut could have left after each step, and fails when it is told to.
#[derive(Default)]
struct Simulated {
    content: Mutex<Content>,
    /// What was seen at each moment, with the number of records that were acknowledged then.
    cuts: Mutex<Vec<(usize, Vec<u8>)>>,
    acknowledged: AtomicUsize,
    /// Steps that go well before all others fail.
    good_steps: AtomicUsize,
    syncs: AtomicUsize,
}

impl Simulated {
    fn endless() -> Arc<Self> {
        Arc::new(Self { good_steps: AtomicUsize::new(usize::MAX), ..Self::default() })
    }

    fn step(&self) -> Result<(), NotStored> {
        let left = self.good_steps.load(SeqCst);
        if left == 0 {
            return Err(NotStored("the disk is full".into()));
        }
        self.good_steps.store(left - 1, SeqCst);
        Ok(())
    }

    /// Notes every content that a power cut may leave now.
    fn note(&self, content: &Content) {
        let acknowledged = self.acknowledged.load(SeqCst);
        let mut cuts = self.cuts.lock().unwrap();
        cuts.push((acknowledged, content.durable.clone()));
        cuts.extend(content.possible.iter().map(|bytes| (acknowledged, bytes.clone())));
    }
}

impl Disk for Arc<Simulated> {
    fn read(&self) -> Result<Vec<u8>, NotStored> {
        self.step()?;
        Ok(self.content.lock().unwrap().durable.clone())
    }

    fn append(&self, bytes: &[u8]) -> Result<(), NotStored> {
        let mut content = self.content.lock().unwrap();
        // any part of it may be there, and so may its length without its data
        for cut in 0..=bytes.len() {
            let mut part = content.durable.clone();
            part.extend_from_slice(&bytes[..cut]);
            content.possible.push(part.clone());
            part.resize(content.durable.len() + bytes.len(), 0);
            content.possible.push(part);
        }
        self.note(&content);
        self.step()?;
        content.durable.extend_from_slice(bytes);
        content.possible.clear();
        self.syncs.fetch_add(1, SeqCst);
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<(), NotStored> {
        self.step()?;
        let mut content = self.content.lock().unwrap();
        content.durable.truncate(len as usize);
        content.possible.clear();
        self.note(&content);
        Ok(())
    }

    fn replace(&self, bytes: &[u8]) -> Result<(), NotStored> {
        let mut content = self.content.lock().unwrap();
        // before the directory is synced it is the one file or the other
        content.possible.push(bytes.to_vec());
        self.note(&content);
        self.step()?;
        *content = Content { durable: bytes.to_vec(), possible: Vec::new() };
        self.note(&content);
        Ok(())
    }
}

fn recovery_of(bytes: &[u8]) -> Recovery {
    Recovery::of(Records::new(bytes))
}

/// The power is cut at every byte of every write, replacements included: what was acknowledged is there, and what is
/// there beyond it is what was being written.
#[test]
fn a_power_cut_at_any_byte_loses_no_acknowledged_record() {
    let disk = Simulated::endless();
    let (store, _) = RecoveryStore::open_on(Box::new(Arc::clone(&disk)));
    // so that the file is replaced now and then
    store.lock().file.replace_at = 300;
    let mut prefixes = vec![Recovery::default(), store.stored()];
    disk.acknowledged.store(1, SeqCst);
    for step in 0..96_u8 {
        let record = match step % 8 {
            7 => Record::GraceBegan(step.into()),
            6 => Record::GraceEnded((step - 7 * (step / 8 % 2)).into()),
            5 => Record::ClientGone(client(step % 3, 0).name, step.into()),
            4 => Record::NsmGone(name(step / 5 % 3)),
            3 => Record::NsmState(name(step % 7), step.into()),
            2 => Record::Client(client(step % 5, step.into())),
            _ => Record::NsmHost(host(step % 7)),
        };
        store.append(&record).unwrap();
        if store.lock().file.replace_at > 300 {
            store.lock().file.replace_at = 300;
        }
        prefixes.push(store.stored());
        disk.acknowledged.fetch_add(1, SeqCst);
    }
    let cuts = disk.cuts.lock().unwrap();
    assert!(cuts.len() > 5000, "{} cuts", cuts.len());
    for (acknowledged, bytes) in cuts.iter() {
        let recovered = recovery_of(bytes);
        let right = &prefixes[*acknowledged];
        let next = prefixes.get(acknowledged + 1);
        // the two records of a start are written together and may be cut between
        let starting = *acknowledged == 0;
        assert!(recovered == *right || Some(&recovered) == next || starting, "{recovered:?}");
    }
}

/// Clients get something and have nothing again, and their records are taken back, some of them only after the next one
/// is stored: whenever the power is cut, who holds something may reclaim it.
#[test]
fn a_power_cut_at_any_byte_forgets_no_client_that_holds_something() {
    let disk = Simulated::endless();
    let (store, _) = RecoveryStore::open_on(Box::new(Arc::clone(&disk)));
    let mut holding = BTreeMap::new();
    // who holds something while so many records are acknowledged
    let mut held: Vec<Vec<u8>> = vec![Vec::new()];
    disk.acknowledged.store(1, SeqCst);
    let mut late = Vec::new();
    for step in 0..115_u8 {
        let number = step % 5;
        let mut append = |record: &Record, holding: &BTreeMap<u8, u64>| {
            held.push(holding.keys().copied().collect());
            store.lock().file.replace_at = 300;
            store.append(record).unwrap();
            disk.acknowledged.fetch_add(1, SeqCst);
        };
        if let Some(life) = holding.remove(&number) {
            let gone = Record::ClientGone(client(number, 0).name, life);
            match step % 3 {
                0 => late.push(gone),
                _ => append(&gone, &holding),
            }
        } else {
            let life = u64::from(step) + 1;
            append(&Record::Client(client(number, life)), &holding);
            holding.insert(number, life);
            late.drain(..).for_each(|gone| append(&gone, &holding));
        }
    }
    let cuts = disk.cuts.lock().unwrap();
    assert!(cuts.len() > 5000, "{} cuts", cuts.len());
    for (acknowledged, bytes) in cuts.iter() {
        let clients = recovery_of(bytes).boot_clients();
        for number in &held[*acknowledged] {
            assert!(clients.contains_key(&client(*number, 0).name), "{number} of {clients:?}");
        }
    }
    let left: Vec<_> = store.stored().boot_clients().into_keys().collect();
    let names: Vec<_> = holding.keys().map(|number| client(*number, 0).name).collect();
    assert!(late.is_empty() && left == names, "nobody else is waited for: {left:?}");
}

#[test]
fn records_of_the_first_start_are_read_by_the_second() {
    let dir = tempfile::tempdir().unwrap();
    let (store, before) = RecoveryStore::open(dir.path());
    assert_eq!((before, store.failure()), (Recovery::default(), None));
    store.append(&Record::NsmHost(host(1))).unwrap();
    store.append(&Record::NsmHost(host(2))).unwrap();
    store.append(&Record::NsmGone(name(1))).unwrap();
    drop(store);
    let (store, recovery) = RecoveryStore::open(dir.path());
    assert_eq!(recovery.boot_list().into_keys().collect::<Vec<_>>(), [name(2)]);
    assert_eq!((recovery.instance(), store.stored().instance()), (1, 2));
    // the start within a grace period keeps the list
    drop(store);
    let (_store, recovery) = RecoveryStore::open(dir.path());
    assert_eq!(recovery.boot_list().into_keys().collect::<Vec<_>>(), [name(2)]);
}

#[test]
fn a_torn_tail_is_truncated_and_earlier_records_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = RecoveryStore::open(dir.path());
    store.append(&Record::NsmHost(host(1))).unwrap();
    drop(store);
    let path = dir.path().join("recovery");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[40, 0, 0, 0, 1, 2, 3]);
    std::fs::write(&path, &bytes).unwrap();
    let (store, recovery) = RecoveryStore::open(dir.path());
    assert_eq!(recovery.boot_list().into_keys().collect::<Vec<_>>(), [name(1)]);
    store.append(&Record::NsmHost(host(3))).unwrap();
    drop(store);
    let (_store, recovery) = RecoveryStore::open(dir.path());
    assert_eq!(recovery.boot_list().len(), 2, "what follows the cut is read");
}

#[test]
fn concurrent_records_share_syncs_and_none_is_lost() {
    let disk = Simulated::endless();
    let (store, _) = RecoveryStore::open_on(Box::new(Arc::clone(&disk)));
    std::thread::scope(|scope| {
        for number in 0..16 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let gone = Record::NsmGone(name(number));
                    let came = Record::NsmHost(host(number));
                    store.append(if round % 2 == 1 { &gone } else { &came }).unwrap();
                }
                store.append(&Record::NsmHost(host(number))).unwrap();
            });
        }
    });
    assert_eq!(store.stored().boot_list().len(), 16);
    let durable = disk.content.lock().unwrap().durable.clone();
    assert_eq!(recovery_of(&durable), store.stored());
    let syncs = disk.syncs.load(SeqCst);
    assert!(syncs <= 16 * 51 + 1, "{syncs} syncs");
}

#[test]
fn after_an_error_records_are_refused_until_the_disk_works_again() {
    let disk = Simulated::endless();
    let (store, _) = RecoveryStore::open_on(Box::new(Arc::clone(&disk)));
    store.append(&Record::NsmHost(host(1))).unwrap();
    disk.good_steps.store(0, SeqCst);
    assert!(store.append(&Record::NsmHost(host(2))).is_err());
    assert!(store.failure().is_some());
    disk.good_steps.store(usize::MAX, SeqCst);
    assert!(store.append(&Record::NsmHost(host(2))).is_err(), "not asked again at once");
    std::thread::sleep(super::RETRY);
    store.append(&Record::NsmHost(host(3))).unwrap();
    assert_eq!(store.failure(), None);
    let durable = disk.content.lock().unwrap().durable.clone();
    assert_eq!(recovery_of(&durable), store.stored());
    assert_eq!(
        store.stored().boot_list().into_keys().collect::<Vec<_>>(),
        [name(1), name(3)],
        "what was refused is not there"
    );
}

#[test]
fn a_long_file_is_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = RecoveryStore::open(dir.path());
    store.append(&Record::NsmHost(host(9))).unwrap();
    let long = MonitoredHost { name: vec![b'n'; 1000].into(), ..host(8) };
    for number in 0..200 {
        let state = MonitoredHost { nsm_state: number, ..long.clone() };
        store.append(&Record::NsmHost(state)).unwrap();
    }
    let len = std::fs::metadata(dir.path().join("recovery")).unwrap().len();
    assert!(len <= super::REPLACE_MIN_BYTES + 1100, "{len} bytes for two hosts");
    drop(store);
    let (_store, recovery) = RecoveryStore::open(dir.path());
    assert_eq!(recovery.boot_list()[&long.host_name()].nsm_state, 199);
    assert_eq!(recovery.boot_list()[&name(9)].nsm_state, 1);
}

#[test]
fn an_unusable_directory_refuses_records_with_the_reason() {
    let (store, recovery) = RecoveryStore::open(std::path::Path::new("/nowhere/at/all"));
    assert_eq!(recovery, Recovery::default());
    let refused = store.append(&Record::NsmHost(host(1))).unwrap_err();
    assert!(refused.0.contains("/nowhere/at/all/recovery"), "{refused}");
    assert_eq!(store.failure(), Some(refused));
}

#[test]
fn a_start_that_could_not_be_stored_is_stored_before_anything_else() {
    let disk = Simulated::endless();
    let (store, _) = RecoveryStore::open_on(Box::new(Arc::clone(&disk)));
    store.append(&Record::Client(client(1, 1 << 32))).unwrap();
    drop(store);
    // the second start reads the records, and finds the disk full
    disk.good_steps.store(1, SeqCst);
    let (store, recovery) = RecoveryStore::open_on(Box::new(Arc::clone(&disk)));
    assert_eq!((recovery.instance(), recovery.boot_clients().len()), (1, 1));
    assert!(store.failure().is_some());
    disk.good_steps.store(usize::MAX, SeqCst);
    std::thread::sleep(super::RETRY);
    store.append(&Record::Client(client(2, 2 << 32))).unwrap();
    let durable = recovery_of(&disk.content.lock().unwrap().durable);
    assert_eq!(durable.instance(), 2);
    let mut after = durable.clone();
    after.apply(&Record::GraceEnded(2));
    let names: Vec<_> = after.boot_clients().into_keys().collect();
    assert_eq!(names, [client(2, 0).name], "the first client is of before the grace period");
}

/// A disk that takes everything and keeps nothing.
struct Nothing;

impl Disk for Nothing {
    fn read(&self) -> Result<Vec<u8>, NotStored> {
        Ok(Vec::new())
    }

    fn append(&self, _: &[u8]) -> Result<(), NotStored> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> Result<(), NotStored> {
        Ok(())
    }

    fn replace(&self, _: &[u8]) -> Result<(), NotStored> {
        Ok(())
    }
}

#[test]
fn a_record_costs_the_same_however_many_hosts_there_are() {
    let of = |number: u32| {
        let name = format!("host{number}").into_bytes().into();
        Record::NsmHost(MonitoredHost { name, ..host(1) })
    };
    // the fastest of many: a busy machine holds up some
    let fastest = |hosts: u32| {
        let (store, _) = RecoveryStore::open_on(Box::new(Nothing));
        store.store(&(0..hosts).map(of).collect::<Vec<_>>()).unwrap();
        let one = |number| {
            let begun = std::time::Instant::now();
            store.append(&of(number)).unwrap();
            begun.elapsed()
        };
        (0..50).map(one).min().unwrap()
    };
    let (few, many) = (fastest(50), fastest(20_000));
    assert!(many < few * 20, "{many:?} with many hosts, {few:?} with few");
}
