//! What very many opens of version 4 cost.

use allocation_counter::measure;
use bowline_state::v4::{
    ChannelLimits, CreateSession, ExchangeId, OpenRequest, Principal, SessionId, V4Limits, V4State,
};
use bowline_state::{FileKey, Now, ShareBits, ShareMode};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What an open may take: `v4_opens` of the server's shares of memory counts on it, with some room for what the back end
/// notes of a file that is kept.
const OPEN_BYTES: i64 = 1024 - 128;

fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn session(state: &V4State, name: &[u8]) -> SessionId {
    let principal = Principal { flavor: 1, user: 0 };
    let address = "127.0.0.1".parse().unwrap();
    let who = ExchangeId {
        owner: name,
        verifier: [1; 8],
        principal,
        address,
        machine: None,
        is_signed: false,
        update: false,
    };
    let known = state.exchange_id(Now(0), &who).unwrap();
    let limits = ChannelLimits {
        request_bytes: 4096,
        response_bytes: 4096,
        cached_bytes: 1024,
        operations: 16,
        slots: 4,
    };
    let (client_id, sequence, back_channel) = (known.client_id, known.sequence, false);
    let want = CreateSession { client_id, sequence, principal, limits, back_channel };
    state.create_session(Now(0), &want).unwrap().session
}

/// Opens of files of their own, with owners as a Linux client names them. `OPENS=870000` for about as many as few clients may have.
#[test]
fn an_open_takes_less_than_its_share_of_memory() {
    let count: u32 = std::env::var("OPENS").map_or(50_000, |count| count.parse().unwrap());
    let state = V4State::new(7, random, V4Limits::default());
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
            let request = OpenRequest {
                file,
                owner: &owner,
                user: Principal { flavor: 1, user: 0 },
                mode,
                reclaim: None,
            };
            state.open(Now(0), session, &request, &mut Some(Box::new([0_u8; 32]))).unwrap();
        }
    });
    assert_eq!(state.open_count(), count as usize);
    let each = taken.bytes_current / i64::from(count);
    println!("{each} bytes for each of {count} opens");
    assert!(each <= OPEN_BYTES, "{each}");
}
