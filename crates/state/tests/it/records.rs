//! The recovery records: what is stored comes back, a torn end is cut and said, and rewriting changes nothing.

use crate::model::Random;
use crate::world::{address, name};
use bowline_state::v4::Principal;
use bowline_state::{
    ClientName, HostName, MonitoredHost, Record, RecordedClient, Records, Recovery, TornRecord,
    Transport,
};

fn host(random: &mut Random) -> MonitoredHost {
    let number = random.below(6) as u8;
    MonitoredHost {
        addr: if number == 5 { "fe80::5".parse().unwrap() } else { address(number) },
        name: if number == 4 { vec![b'n'; 1024].into() } else { name(number).into() },
        local: address(200),
        nlm_version: [1, 3, 4][random.below(3) as usize],
        transport: if random.below(2) == 0 { Transport::Tcp } else { Transport::Udp },
        nsm_state: random.next() as i32,
    }
}

fn client(random: &mut Random) -> RecordedClient {
    let number = random.below(4) as u8;
    let owner = if number == 3 { vec![b'o'; 1024].into() } else { name(number).into() };
    let principal = Principal { flavor: 1, user: random.below(2) };
    RecordedClient {
        name: ClientName { minor: random.below(2) as u8, principal, owner },
        life: random.below(1 << 40),
        address: address(number),
    }
}

fn record(random: &mut Random, instance: &mut u32) -> Record {
    match random.below(14) {
        10..=12 => Record::Client(client(random)),
        13 => Record::ClientGone(client(random).name, random.below(1 << 40)),
        0 => {
            *instance += 1;
            Record::Instance(*instance)
        }
        1 => Record::GraceBegan(*instance),
        2 => Record::GraceEnded(*instance - random.below(2).min(u64::from(*instance)) as u32),
        3 => Record::NsmGone(host(random).host_name()),
        4 => Record::NsmState(host(random).host_name(), random.next() as i32),
        _ => Record::NsmHost(host(random)),
    }
}

fn encoded(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    for record in records {
        record.encode(&mut bytes);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

#[test]
fn a_record_has_the_documented_layout() {
    let mut bytes = Vec::new();
    Record::Instance(7).encode(&mut bytes);
    assert_eq!(bytes[..4], [5, 0, 0, 0]);
    assert_eq!(bytes[8..], [1, 7, 0, 0, 0]);
    // CRC-32C of 05 00 00 00 01 07 00 00 00
    let crc = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let mut bitwise = !0_u32;
    for byte in [5, 0, 0, 0, 1, 7, 0, 0, 0_u8] {
        bitwise ^= u32::from(byte);
        for _ in 0..8 {
            bitwise = (bitwise >> 1) ^ if bitwise & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    assert_eq!(crc, !bitwise);
}

#[test]
fn a_truncated_store_yields_the_records_before_the_cut() {
    let mut random = Random(3);
    for _ in 0..40 {
        let mut instance = 1;
        let records: Vec<Record> = (0..12).map(|_| record(&mut random, &mut instance)).collect();
        let (bytes, ends) = encoded(&records);
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            let mut read = Records::new(&bytes[..cut]);
            let found: Vec<Record> = read.by_ref().collect();
            assert_eq!(found, records[..whole]);
            assert_eq!(read.good_len(), ends[whole]);
            assert_eq!(read.torn().is_some(), cut != ends[whole], "said if and only if torn");
        }
    }
}

#[test]
fn a_corrupt_record_ends_the_store() {
    let mut random = Random(4);
    let mut instance = 1;
    let records: Vec<Record> = (0..6).map(|_| record(&mut random, &mut instance)).collect();
    let (bytes, ends) = encoded(&records);
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 1 << random.below(8);
        let mut read = Records::new(&broken);
        let found: Vec<Record> = read.by_ref().collect();
        let whole = ends.iter().filter(|end| **end <= at).count() - 1;
        assert_eq!(found, records[..whole], "byte {at}");
        assert!(read.torn().is_some());
    }
}

#[test]
fn unknown_records_are_skipped_and_counted() {
    let (mut bytes, _) = encoded(&[Record::Instance(1)]);
    let len = bytes.len();
    Record::GraceBegan(1).encode(&mut bytes);
    bytes[len + 8] = 200;
    let body = bytes[len..len + 4].iter().chain(&bytes[len + 8..]).copied().collect::<Vec<u8>>();
    let mut crc = !0_u32;
    for byte in body {
        crc ^= u32::from(byte);
        (0..8).for_each(|_| crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 });
    }
    bytes[len + 4..len + 8].copy_from_slice(&(!crc).to_le_bytes());
    Record::Instance(2).encode(&mut bytes);
    let mut read = Records::new(&bytes);
    let found: Vec<Record> = read.by_ref().collect();
    assert_eq!(found, [Record::Instance(1), Record::Instance(2)]);
    assert_eq!((read.unknown(), read.torn()), (1, None));
    // a length that no record has is no reason to read on
    let read = Records::new(&[0, 0, 0, 0, 1, 2, 3, 4]);
    let mut read = read;
    assert_eq!((read.next(), read.torn()), (None, Some(TornRecord::Length)));
}

/// Rewritten at any moment, the store says the same now and after whatever follows.
#[test]
fn a_rewritten_store_has_the_same_meaning() {
    let mut random = Random(5);
    for _ in 0..2000 {
        let mut instance = 1;
        let records: Vec<Record> =
            (0..random.below(30)).map(|_| record(&mut random, &mut instance)).collect();
        let mut recovery = Recovery::default();
        records.iter().for_each(|record| recovery.apply(record));
        let rewritten = Recovery::of(recovery.records());
        assert_eq!(rewritten, recovery);
        assert!(recovery.records().len() <= 2 + 12 + 32);
    }
}

#[test]
fn a_grace_period_drops_hosts_that_did_not_reclaim() {
    let host = |number: u8| MonitoredHost {
        addr: address(number),
        name: name(number).into(),
        local: address(200),
        nlm_version: 4,
        transport: Transport::Udp,
        nsm_state: 1,
    };
    let named = |number: u8| HostName::new(address(number), &name(number));
    let mut recovery =
        Recovery::of([Record::Instance(1), Record::NsmHost(host(1)), Record::NsmHost(host(2))]);
    assert_eq!(recovery.start_records(), [Record::Instance(2), Record::GraceBegan(2)]);
    for record in recovery.start_records() {
        recovery.apply(&record);
    }
    recovery.apply(&Record::NsmHost(host(1)));
    // a crash in the middle keeps both
    let mut crashed = recovery.clone();
    for record in crashed.start_records() {
        crashed.apply(&record);
    }
    assert_eq!(crashed.boot_list().into_keys().collect::<Vec<_>>(), [named(1), named(2)]);
    // the end of another instance's grace period is not this one's
    recovery.apply(&Record::GraceEnded(1));
    assert_eq!(recovery.boot_list().len(), 2);
    recovery.apply(&Record::GraceEnded(2));
    assert_eq!(recovery.boot_list().into_keys().collect::<Vec<_>>(), [named(1)]);
    recovery.apply(&Record::NsmGone(named(1)));
    assert!(recovery.is_empty());
    assert_eq!(recovery.start_records(), [Record::Instance(3)]);
}

#[test]
fn a_client_that_is_gone_is_forgotten_unless_it_lives_again() {
    let client = |life| RecordedClient { life, ..client(&mut Random(9)) };
    let of = |records: &[Record]| Recovery::of(records.iter().cloned()).boot_clients();
    let name = client(1).name;
    let gone = |life| Record::ClientGone(name.clone(), life);
    assert!(of(&[Record::Client(client(5)), gone(5)]).is_empty());
    assert!(of(&[Record::Client(client(5)), gone(7)]).is_empty(), "a later life of it");
    assert_eq!(of(&[Record::Client(client(5)), gone(4)]).len(), 1, "an earlier life of it");
    // in a grace period both generations forget it
    let (began, again) = (Record::GraceBegan(2), Record::Client(client(8)));
    assert!(of(&[Record::Client(client(5)), began.clone(), again.clone(), gone(8)]).is_empty());
    // who is not done when it ends may not reclaim after the next restart
    let ended = Record::GraceEnded(2);
    assert!(of(&[Record::Client(client(5)), began.clone(), ended.clone()]).is_empty());
    assert_eq!(of(&[Record::Client(client(5)), began.clone(), again, ended]).len(), 1);
    assert_eq!(of(&[Record::Client(client(5)), began]).len(), 1, "a crash keeps the list");
}
