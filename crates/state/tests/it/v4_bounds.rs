//! What very many opens of version 4 cost.

use crate::v4_world::{ALICE, CHANNEL, READ, core, exchange_id_of, random};
use allocation_counter::measure;
use bowline_state::v4::{
    ChannelLimits, CreateSession, CreateSessionError, Created, ExchangeId, OpenError, OpenRequest,
    SessionId, Started, V4Limits, V4State,
};
use bowline_state::{FileKey, Now, ShareBits, ShareMode};

/// What an open may take: `v4_opens` of the server's shares of memory counts on it, with some room for what the back end
/// notes of a file that is kept.
const OPEN_BYTES: i64 = 1024 - 128;

fn session(state: &V4State, name: &[u8]) -> SessionId {
    try_session(state, name, 4).unwrap().session
}

fn try_session(state: &V4State, name: &[u8], slots: u32) -> Result<Created, CreateSessionError> {
    // from a few hosts, each of which gets no more than a part
    let address = [192, 0, 2, name.last().unwrap() % 4].into();
    let who = ExchangeId { address, ..exchange_id_of(name, 1, ALICE) };
    let known = state.exchange_id(Now(0), &who).unwrap();
    let limits = ChannelLimits { cached_bytes: 8192, slots, ..CHANNEL };
    let (client_id, sequence, back_channel) = (known.client_id, known.sequence, false);
    let want = CreateSession { client_id, sequence, principal: ALICE, limits, back_channel };
    state.create_session(Now(0), &want)
}

/// Opens of files of their own, with owners as a Linux client names them. `OPENS=870000` for about as many as few clients may have.
#[test]
fn an_open_takes_less_than_its_share_of_memory() {
    let count: u32 = std::env::var("OPENS").map_or(50_000, |count| count.parse().unwrap());
    let state = V4State::new(core(), 7, random, V4Limits::default());
    let sessions: Vec<_> = (0..8_u8).map(|name| session(&state, &[name])).collect();
    let mode = ShareMode { access: ShareBits::BOTH, deny: ShareBits::NONE };
    let taken = measure(|| {
        for number in 0..count {
            let reading = state.read();
            let id = &sessions[number as usize % sessions.len()];
            let session = reading.session(id).unwrap();
            let mut file = [0; 32];
            file[..4].copy_from_slice(&number.to_be_bytes());
            let mut owner = *b"open id:\0\0\0\x30\0\0\0\0\0\0\0\x01\0\0\0\0";
            owner[20..].copy_from_slice(&number.to_be_bytes());
            let file = FileKey::new(&file).unwrap();
            let request = OpenRequest { file, owner: &owner, user: ALICE, mode, reclaim: None };
            state.open(Now(0), session, &request, &mut Some(Box::new([0_u8; 32]))).unwrap();
        }
    });
    assert_eq!(state.open_count(), count as usize);
    let each = taken.bytes_current / i64::from(count);
    println!("{each} bytes for each of {count} opens");
    assert!(each <= OPEN_BYTES, "{each}");
}

/// Many clients that use all slots that they get, and have each reply kept that is as long as it may be: where memory is
/// small, what there may be of sessions and slots fits into their share, and whoever had a session before goes on.
#[test]
fn sessions_and_kept_replies_fit_into_their_share_of_memory() {
    // as on a machine with 64 MiB: a sixteenth for slots, a thirty-second for sessions
    let limits = V4Limits { slots_in_all: 512, sessions: 292, ..V4Limits::default() };
    let share: i64 = (4 << 20) + (2 << 20);
    let state = V4State::new(core(), 7, random, limits);
    let mut sessions: Vec<Created> = Vec::new();
    let taken = measure(|| {
        loop {
            let name = sessions.len().to_be_bytes();
            match try_session(&state, &name, 64) {
                Ok(made) => sessions.push(made),
                Err(why) => {
                    assert_eq!(why, CreateSessionError::Full);
                    break;
                }
            }
        }
        let reading = state.read();
        for made in &sessions {
            let session = reading.session(&made.session).unwrap();
            let kept = vec![7; session.limits().cached_bytes as usize];
            let mut slot = 0;
            // growing as they are used
            while slot <= session.highest_slot() {
                let started = session.sequence(Now(0), (slot, 1), slot, 9).unwrap();
                let Started::Run(ticket) = started else { panic!("it has not run before") };
                ticket.finish(Some(&kept));
                slot += 1;
            }
        }
    });
    assert_eq!(sessions.len(), 292);
    assert!(sessions.iter().all(|made| made.limits.slots >= 4));
    let bytes: Vec<u32> = sessions.iter().map(|made| made.limits.cached_bytes).collect();
    assert!(bytes.first() == Some(&8192) && bytes.last() == Some(&1024), "{bytes:?}");
    println!("{} bytes for {} sessions", taken.bytes_current, sessions.len());
    assert!(taken.bytes_current <= share, "{} of {share}", taken.bytes_current);
    // a session that ends makes room for another
    state.destroy_session(&sessions[0].session).unwrap();
    assert!(try_session(&state, b"late", 64).is_ok());
    assert_eq!(try_session(&state, b"later", 64), Err(CreateSessionError::Full));
    // those that there are go on
    let reading = state.read();
    let session = reading.session(&sessions[1].session).unwrap();
    assert!(matches!(session.sequence(Now(1), (0, 2), 0, 8), Ok(Started::Run(_))));
}

/// A session of a client of this name that calls from this address.
fn session_from(state: &V4State, address: &str, name: &[u8]) -> Result<SessionId, String> {
    let address = address.parse().unwrap();
    let who = ExchangeId { address, ..exchange_id_of(name, 1, ALICE) };
    let known = state.exchange_id(Now(0), &who).map_err(|why| format!("{why:?}"))?;
    let (client_id, sequence, back_channel) = (known.client_id, known.sequence, false);
    let want =
        CreateSession { client_id, sequence, principal: ALICE, limits: CHANNEL, back_channel };
    let made = state.create_session(Now(0), &want).map_err(|why| format!("{why:?}"))?;
    Ok(made.session)
}

/// How many clients a host has when the next one is refused, and why that is.
fn clients_until_refused(state: &V4State, address: impl Fn(u32) -> String) -> (u32, String) {
    let refused = |n: u32| {
        let name = format!("{} {n}", address(0));
        session_from(state, &address(n), name.as_bytes()).err().map(|why| (n, why))
    };
    (0..100).find_map(refused).expect("a limit")
}

#[test]
fn a_host_of_many_names_leaves_clients_and_sessions_to_others() {
    let state = V4State::new(core(), 7, random, V4Limits { clients: 16, ..V4Limits::default() });
    let one = clients_until_refused(&state, |_| "192.0.2.1".into());
    assert_eq!(one, (12, "NoRoom".into()));
    let other = clients_until_refused(&state, |_| "192.0.2.2".into());
    assert_eq!(other, (4, "NoRoom".into()), "what the first has left");
    // the addresses of a network are one host
    let state = V4State::new(core(), 7, random, V4Limits { sessions: 16, ..V4Limits::default() });
    let one = clients_until_refused(&state, |n| format!("2001:db8::{n:x}"));
    assert_eq!(one, (12, "Full".into()));
    assert!(session_from(&state, "2001:db8:0:1::1", b"other").is_ok());
    // what has ended is given back: unconfirmed records are the first to go, sessions count until they are destroyed
    let state = V4State::new(core(), 7, random, V4Limits { sessions: 4, ..V4Limits::default() });
    let made = [1, 2, 3].map(|n| session_from(&state, "192.0.2.1", &[n]).unwrap());
    assert_eq!(session_from(&state, "192.0.2.1", b"more"), Err("Full".into()));
    state.destroy_session(&made[2]).unwrap();
    assert!(session_from(&state, "192.0.2.1", b"more").is_ok());
    state.sweep(Now(200_000));
    let one = clients_until_refused(&state, |_| "192.0.2.1".into());
    assert_eq!(one, (3, "Full".into()), "all have ended");
}

#[test]
fn a_host_of_many_names_leaves_opens_to_others() {
    let limits = V4Limits { opens: 64, opens_when_scarce: 8, ..V4Limits::default() };
    let state = V4State::new(core(), 7, random, limits);
    let open = |session: &SessionId, n: u8| {
        let reading = state.read();
        let session = reading.session(session).unwrap();
        let file = FileKey::new(&[n; 32]).unwrap();
        let request = OpenRequest { file, owner: b"o", user: ALICE, mode: READ, reclaim: None };
        state.open(Now(0), session, &request, &mut Some(Box::new(()))).map(|opened| opened.stateid)
    };
    let names: Vec<_> = (0..20).map(|n| session_from(&state, "192.0.2.1", &[n]).unwrap()).collect();
    let (mut opened, mut last) = (0, None);
    for (n, session) in (0_u8..).zip(names.iter().flat_map(|session| [session; 4])) {
        match open(session, n) {
            Ok(stateid) => (opened, last) = (opened + 1, Some((stateid, session))),
            Err(why) => {
                assert_eq!(why, OpenError::Full);
                break;
            }
        }
    }
    assert_eq!(opened, 60);
    let other = session_from(&state, "192.0.2.2", b"other").unwrap();
    assert!((200..204).all(|n| open(&other, n).is_ok()));
    // what is closed is given back
    let (stateid, session) = last.unwrap();
    let reading = state.read();
    let client = reading.session(session).unwrap().client_id();
    state.close(&reading, client, stateid, &FileKey::new(&[59; 32]).unwrap()).unwrap();
    drop(reading);
    assert!(open(&names[19], 210).is_ok());
    assert_eq!(open(&names[19], 211), Err(OpenError::Full));
}
