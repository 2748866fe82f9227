//! What costs no memory: a test, a request that is denied, and one for what is held already.

use crate::world::{World, file, oh, range};
use allocation_counter::measure;
use bowline_state::{ByteRange, Conflict, How, LockRequest, Mode, Plan, TestAnswer, Who};

#[test]
fn requests_that_change_nothing_do_not_allocate() {
    for (local, many) in [(false, 0), (true, 0), (false, 100)] {
        let mut world = World::new(local);
        let plan = world.lock((1, 10), file(0), range(0, 9), Mode::Write, How::Try);
        assert!(matches!(plan, Plan::Granted));
        for n in 0..many {
            let at = range(100 + n * 2, 100 + n * 2);
            let plan = world.lock((1, 10), file(0), at, Mode::Read, How::Try);
            assert!(matches!(plan, Plan::Granted));
        }
        let plan = world.lock((2, 20), file(1), range(0, 0), Mode::Write, How::Try);
        assert!(matches!(plan, Plan::Granted));
        let (ours, theirs) = (oh((1, 10)), oh((2, 20)));
        let (one, other) = (world.host(1), world.host(2));
        let holder = Who::Nlm { host: one, svid: 10, oh: &ours };
        let asker = Who::Nlm { host: other, svid: 20, oh: &theirs };
        let (state, now) = (&world.state, world.now);
        let request = |who, range| LockRequest {
            who,
            range,
            mode: Mode::Write,
            how: How::Try,
            local,
            monitored: true,
            kept: None,
        };
        let allocated = measure(|| {
            assert!(world.host(1) == one);
        });
        assert!(allocated.count_total <= 1, "the name is made by the test: {allocated:?}");
        let allocated = measure(|| {
            let test = state.test(&file(0), &asker, ByteRange::ALL, Mode::Read);
            assert!(matches!(test, TestAnswer::Held(Conflict::Lock { .. })));
            let test = state.test(&file(0), &asker, range(20, 30), Mode::Write);
            assert!(matches!(test, TestAnswer::Free));
            let (plan, effects) = state.lock(now, &file(0), &request(asker, range(5, 20)));
            assert!(matches!(plan, Plan::Denied(_)) && effects.is_empty());
            let (plan, effects) = state.lock(now, &file(0), &request(holder, range(0, 9)));
            assert!(matches!(plan, Plan::Granted) && effects.is_empty());
            let (plan, effects) = state.lock(now, &file(0), &request(holder, range(3, 4)));
            assert!(matches!(plan, Plan::Granted) && effects.is_empty());
            let (plan, effects) = state.unlock(now, &file(0), &asker, ByteRange::ALL);
            assert!(matches!(plan, Plan::Granted) && effects.is_empty());
            assert!(!state.has_denials());
            state.confirm(&file(0), bowline_state::Tag(9));
            assert!(!state.withdraw(now, &file(0), bowline_state::Tag(9)).0);
            let _none = state.next_deadline_ms();
        });
        assert_eq!(allocated.count_total, 0, "{allocated:?}");
    }
}
