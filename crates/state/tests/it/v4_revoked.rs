//! What a client is told of what was taken from it.

use crate::v4_delegations::{RECALL, World, file};
use crate::v4_world::LEASE;
use bowline_state::Now;
use bowline_state::v4::status_flags;

/// Linux 6.1 begins its search anew with each answer that says so, whatever it was the answer to.
#[test]
fn a_client_that_searches_for_what_was_revoked_is_told_again_after_a_pause() {
    let world = World::new(2);
    let reading = world.state.read();
    let session = reading.session(&world.sessions[0]).unwrap();
    let revoke = |n: u8, now: u64| {
        world.renew(0, now);
        let held = world.delegate(0, n, now).unwrap();
        assert_eq!(world.state.recall_file(Now(now), &file(n)).len(), 1);
        world.renew(0, now + RECALL);
        world.state.sweep_delegations(Now(now + RECALL));
        held
    };
    let is_told = |now: u64| session.status(Now(now)) & status_flags::RECALLABLE_STATE_REVOKED != 0;
    let search = |now: u64| session.note_search(Now(now), LEASE);
    search(5);
    let first = revoke(1, 10);
    let mut now = 10 + RECALL;
    assert!(is_told(now) && is_told(now), "as long as it does nothing");
    // while it tests, and the pause behind that
    for _ in 0..100 {
        search(now);
        assert!(!is_told(now) && !is_told(now + 999));
        now += 500;
    }
    now += 500;
    assert!(is_told(now) && is_told(now + 10));
    // another search that does not find it, and one more: the pauses grow, to a lease at the most
    for pause in [2000, 4000, 8000, 16_000, 32_000, LEASE, LEASE, LEASE] {
        search(now);
        assert!(!is_told(now + pause - 1) && is_told(now + pause), "{pause}");
        now += pause;
    }
    // of what is revoked meanwhile it is told at once, and anew
    search(now);
    assert!(!is_told(now));
    let second = revoke(2, now);
    now += RECALL;
    assert!(is_told(now));
    search(now);
    assert!(!is_told(now + 999) && is_told(now + 1000));
    for held in [first, second] {
        assert!(is_told(now + 1000));
        assert!(world.state.free_revoked(session, &held.other));
    }
    assert!(!is_told(now + 1000));
}
