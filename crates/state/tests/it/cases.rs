//! What has gone wrong in the field, one test each.

use crate::world::{Owner, World, address, file, name, range};
use bowline_state::{
    ByteRange, Cancelled, Conflict, Effect, HostRemoval, How, Limits, LocalAnswer, LockRequest,
    Mode, Now, Phase, Plan, Reboot, Record, Tag, TestAnswer, Who,
};

const A: Owner = (1, 10);
const B: Owner = (2, 20);
const C: Owner = (3, 30);
const ALL: ByteRange = ByteRange::ALL;

pub fn granted(plan: &Plan) {
    assert!(matches!(plan, Plan::Granted), "{plan:?}");
}

pub fn denied(plan: &Plan) {
    assert!(matches!(plan, Plan::Denied(_)), "{plan:?}");
}

fn blocked(plan: &Plan, tag: u64) {
    assert!(matches!(plan, Plan::Blocked(own) if *own == Tag(tag)), "{plan:?}");
}

fn test(world: &World, owner: Owner, mode: Mode) -> TestAnswer {
    let oh = crate::world::oh(owner);
    let who = Who::Nlm { host: world.host(owner.0), svid: owner.1, oh: &oh };
    world.state.test(&file(0), &who, ALL, mode)
}

#[test]
fn a_read_lock_can_be_upgraded() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Read, How::Try));
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    denied(&world.lock(B, file(0), ALL, Mode::Read, How::Try));
    assert!(world.held(A, file(0)).iter().all(|held| *held == Some(Mode::Write)));
}

#[test]
fn a_failed_upgrade_keeps_the_old_lock() {
    for local in [false, true] {
        let mut world = World::new(local);
        granted(&world.lock(A, file(0), range(0, 9), Mode::Read, How::Try));
        granted(&world.lock(B, file(0), range(5, 5), Mode::Read, How::Try));
        denied(&world.lock(A, file(0), range(0, 9), Mode::Write, How::Try));
        denied(&world.lock(C, file(0), range(0, 0), Mode::Write, How::Try));
        // a local reader, where local programs are excluded
        granted(&world.unlock(B, file(0), ALL));
        let local_lock = world.kernel.local.entry(file(0)).or_insert_with(|| vec![None; 64]);
        local_lock[3] = Some(Mode::Read);
        let plan = world.lock(A, file(0), range(0, 9), Mode::Write, How::Try);
        if local {
            assert!(matches!(plan, Plan::Denied(Conflict::Local(found)) if found.pid == 4711));
            assert!(world.held(A, file(0))[..10].iter().all(|held| *held == Some(Mode::Read)));
            let shown = &world.kernel.ours[&file(0)];
            assert!(shown[..10].iter().all(|held| *held == Some(Mode::Read)), "undone");
        } else {
            granted(&plan);
        }
    }
}

#[test]
fn a_downgrade_grants_the_readers_that_wait() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    blocked(&world.lock(B, file(0), range(0, 4), Mode::Read, How::Wait(Tag(1))), 1);
    blocked(&world.lock(C, file(0), range(2, 9), Mode::Read, How::Wait(Tag(2))), 2);
    granted(&world.lock(A, file(0), range(0, 9), Mode::Read, How::Try));
    assert_eq!(world.told, [Tag(1), Tag(2)]);
}

#[test]
fn adjacent_readers_are_granted_together_but_not_past_a_writer() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    for (tag, owner, mode) in [
        (1, (1, 11), Mode::Read),
        (2, B, Mode::Read),
        (3, C, Mode::Write),
        (4, (4, 40), Mode::Read),
    ] {
        blocked(&world.lock(owner, file(0), ALL, mode, How::Wait(Tag(tag))), tag);
    }
    granted(&world.unlock(A, file(0), ALL));
    assert_eq!(world.told, [Tag(1), Tag(2)]);
    granted(&world.unlock(B, file(0), ALL));
    granted(&world.unlock((1, 11), file(0), ALL));
    assert_eq!(world.told, [Tag(1), Tag(2), Tag(3)]);
    // a writer that goes away lets those behind it pass
    blocked(&world.lock(A, file(0), ALL, Mode::Write, How::Wait(Tag(5))), 5);
    granted(&world.unlock(C, file(0), ALL));
    assert_eq!(world.told.last(), Some(&Tag(4)));
}

#[test]
fn a_cancel_after_the_grant_keeps_the_lock() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    blocked(&world.lock(B, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    granted(&world.unlock(A, file(0), ALL));
    assert_eq!(world.told, [Tag(1)]);
    assert_eq!(world.cancel(B, file(0), ALL, Mode::Write), Cancelled::Held);
    denied(&world.lock(A, file(0), ALL, Mode::Read, How::Try));
    granted(&world.unlock(B, file(0), ALL));
    assert_eq!(world.cancel(B, file(0), ALL, Mode::Write), Cancelled::Unknown);
    assert_eq!(world.state.totals().files, 0);
}

#[test]
fn a_grant_that_the_client_refuses_goes_to_the_next() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    blocked(&world.lock(B, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    blocked(&world.lock(C, file(0), ALL, Mode::Write, How::Wait(Tag(2))), 2);
    granted(&world.unlock(A, file(0), ALL));
    let (went, effects) = world.state.withdraw(world.now, &file(0), Tag(1));
    world.run(effects);
    assert!(went);
    assert_eq!(world.told, [Tag(1), Tag(2)]);
    // C asks again, as clients do that hear nothing: then it knows, and a late refusal does nothing
    granted(&world.lock(C, file(0), ALL, Mode::Write, How::Wait(Tag(3))));
    assert!(!world.state.withdraw(world.now, &file(0), Tag(2)).0);
    denied(&world.lock(A, file(0), ALL, Mode::Read, How::Try));
}

#[test]
fn a_withdrawn_grant_leaves_what_was_held_before() {
    let mut world = World::new(true);
    let half = range(0, 31);
    granted(&world.lock(A, file(0), ALL, Mode::Read, How::Try));
    granted(&world.lock(B, file(0), half, Mode::Read, How::Try));
    blocked(&world.lock(B, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    granted(&world.unlock(A, file(0), ALL));
    assert_eq!(world.told, [Tag(1)]);
    denied(&world.lock(A, file(0), ALL, Mode::Read, How::Try));
    let (went, effects) = world.state.withdraw(world.now, &file(0), Tag(1));
    world.run(effects);
    assert!(went);
    let held = world.held(B, file(0));
    assert!(held[..32].iter().all(|mode| *mode == Some(Mode::Read)), "{held:?}");
    assert!(held[32..].iter().all(Option::is_none), "{held:?}");
    granted(&world.lock(A, file(0), ALL, Mode::Read, How::Try));
    denied(&world.lock(C, file(0), half, Mode::Write, How::Try));
}

#[test]
fn a_grant_that_was_confirmed_is_not_withdrawn() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    blocked(&world.lock(B, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    granted(&world.unlock(A, file(0), ALL));
    world.state.confirm(&file(0), Tag(1));
    assert!(!world.state.withdraw(world.now, &file(0), Tag(1)).0);
}

#[test]
fn a_repeated_waiting_request_is_one_request() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    blocked(&world.lock(B, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    blocked(&world.lock(B, file(0), ALL, Mode::Write, How::Wait(Tag(2))), 1);
    assert_eq!(world.state.totals().waiters, 1);
    granted(&world.unlock(A, file(0), ALL));
    assert_eq!(world.told, [Tag(1)]);
}

#[test]
fn a_request_granted_on_retry_no_longer_waits() {
    let mut world = World::new(true);
    world.kernel.local.entry(file(0)).or_insert_with(|| vec![None; 64])[3] = Some(Mode::Write);
    blocked(&world.lock(A, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    world.kernel.local.remove(&file(0));
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    granted(&world.unlock(A, file(0), ALL));
    assert!(world.told.is_empty(), "nobody waits");
    assert_eq!(world.state.totals().files, 0);
}

#[test]
fn two_readers_upgrading_are_a_deadlock() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Read, How::Try));
    granted(&world.lock(B, file(0), ALL, Mode::Read, How::Try));
    blocked(&world.lock(A, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    let plan = world.lock(B, file(0), ALL, Mode::Write, How::Wait(Tag(2)));
    assert!(matches!(plan, Plan::Deadlock), "{plan:?}");
    assert_eq!(world.state.totals().waiters, 1);
}

#[test]
fn a_deadlock_over_two_files_is_found() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    granted(&world.lock(B, file(1), ALL, Mode::Write, How::Try));
    blocked(&world.lock(A, file(1), ALL, Mode::Read, How::Wait(Tag(1))), 1);
    let plan = world.lock(B, file(0), range(7, 7), Mode::Read, How::Wait(Tag(2)));
    assert!(matches!(plan, Plan::Deadlock), "{plan:?}");
}

#[test]
fn a_chain_of_waiting_owners_without_a_cycle_is_not_a_deadlock() {
    let mut world = World::new(false);
    for number in 0..20_u8 {
        let owner = (number + 1, 1);
        granted(&world.lock(owner, file(number), ALL, Mode::Write, How::Try));
    }
    for number in 0..19_u8 {
        let owner = (number + 1, 1);
        let how = How::Wait(Tag(u64::from(number)));
        blocked(&world.lock(owner, file(number + 1), ALL, Mode::Write, how), u64::from(number));
    }
    let plan = world.lock((20, 1), file(0), ALL, Mode::Write, How::Wait(Tag(99)));
    assert!(matches!(plan, Plan::Deadlock), "{plan:?}");
}

#[test]
fn a_forged_or_repeated_notification_drops_nothing() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    let now = world.now;
    let rebooted = |world: &World, from, host, state| {
        world.state.client_rebooted(now, address(from), &name(host), state)
    };
    // from another address; under another name; with the number that is known
    assert!(matches!(rebooted(&world, 9, 1, 5), Reboot::Ignored));
    assert!(matches!(rebooted(&world, 1, 2, 5), Reboot::Ignored));
    assert!(matches!(rebooted(&world, 1, 1, 0), Reboot::Ignored));
    denied(&world.lock(B, file(0), ALL, Mode::Read, How::Try));
    let reboot = rebooted(&world, 1, 1, 5);
    assert!(matches!(reboot, Reboot::Dropped { ranges: 1, .. }), "{reboot:?}");
    granted(&world.lock(B, file(0), ALL, Mode::Read, How::Try));
    // a host that holds a lock again is not dropped by the same notification, sent again
    granted(&world.lock(A, file(1), ALL, Mode::Write, How::Try));
    assert!(matches!(rebooted(&world, 1, 1, 5), Reboot::Ignored));
    denied(&world.lock(B, file(1), ALL, Mode::Read, How::Try));
    // nor after a restart of ours
    let Reboot::Dropped { record, .. } = rebooted(&world, 1, 1, 7) else { panic!("it is news") };
    world.stored.push(record);
    granted(&world.lock(A, file(1), ALL, Mode::Write, How::Try));
    world.restart();
    granted(&world.lock(A, file(1), ALL, Mode::Write, How::Reclaim));
    assert!(matches!(rebooted(&world, 1, 1, 7), Reboot::Ignored));
    assert!(matches!(rebooted(&world, 1, 1, 9), Reboot::Dropped { ranges: 1, .. }));
}

#[test]
fn a_reboot_drops_only_the_host_that_it_names() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), range(0, 9), Mode::Write, How::Try));
    granted(&world.lock(B, file(0), range(10, 19), Mode::Write, How::Try));
    blocked(&world.lock(C, file(0), range(0, 19), Mode::Write, How::Wait(Tag(1))), 1);
    let reboot = world.state.client_rebooted(world.now, address(1), &name(1), 7);
    let Reboot::Dropped { effects, ranges: 1, .. } = reboot else { panic!("{reboot:?}") };
    world.run(effects);
    assert!(world.told.is_empty());
    assert!(world.held(B, file(0))[10..20].iter().all(|held| *held == Some(Mode::Write)));
    granted(&world.unlock(B, file(0), ALL));
    assert_eq!(world.told, [Tag(1)]);
}

#[test]
fn a_host_is_not_recorded_for_a_denied_lock() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    let stored = world.stored.len();
    let plan = world.lock(B, file(0), range(0, 3), Mode::Read, How::Try);
    assert!(matches!(plan, Plan::Denied(_)), "{plan:?}");
    assert_eq!(world.stored.len(), stored, "it may not reclaim after a restart");
    granted(&world.unlock(A, file(0), ALL));
    granted(&world.lock(B, file(0), range(0, 3), Mode::Read, How::Try));
    assert_eq!(world.stored.len(), stored + 1);
}

/// A client closes a file: it unlocks all bytes, about some of which the kernel is being asked for somebody else.
#[test]
fn an_unlock_applies_while_a_kernel_request_of_another_owner_runs() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), range(0, 3), Mode::Write, How::Try));
    granted(&world.lock(A, file(0), range(8, 11), Mode::Write, How::Try));
    granted(&world.lock(B, file(0), range(20, 20), Mode::Write, How::Try));
    let oh = crate::world::oh(B);
    let request = LockRequest {
        who: Who::Nlm { host: world.host(2), svid: 20, oh: &oh },
        range: range(5, 6),
        mode: Mode::Write,
        how: How::Try,
        local: true,
        monitored: true,
        kept: None,
    };
    let (plan, effects) = world.state.lock(world.now, &file(0), &request);
    world.run(effects);
    let Plan::Local(ticket, op) = plan else { panic!("{plan:?}") };
    granted(&world.unlock(A, file(0), ALL));
    let shown = &world.kernel.ours[&file(0)];
    assert!(shown[..20].iter().all(Option::is_none), "the kernel has let it go: {shown:?}");
    let answer = world.kernel.run(&op);
    let (plan, effects) = world.state.settle(world.now, &ticket, answer);
    world.run(effects);
    granted(&plan);
    assert_eq!(world.kernel.ours[&file(0)][5], Some(Mode::Write));
}

#[test]
fn a_host_is_recorded_before_it_holds_or_waits() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    let oh = crate::world::oh(B);
    for how in [How::Try, How::Wait(Tag(1))] {
        let who = Who::Nlm { host: world.host(2), svid: 20, oh: &oh };
        let request = LockRequest {
            who,
            range: ALL,
            mode: Mode::Read,
            how,
            local: false,
            monitored: true,
            kept: None,
        };
        let (plan, _) = world.state.lock(world.now, &file(1), &request);
        assert!(matches!(plan, Plan::Record(Record::NsmHost(host)) if *host.name == *b"host2"));
        assert_eq!(world.state.totals().files, 1);
    }
    // NM_LOCK: nobody is monitored
    let who = Who::Nlm { host: world.host(2), svid: 20, oh: &oh };
    let request = LockRequest {
        who,
        range: ALL,
        mode: Mode::Read,
        how: How::Try,
        local: false,
        monitored: false,
        kept: None,
    };
    granted(&world.state.lock(world.now, &file(1), &request).0);
}

#[test]
fn only_reclaims_are_granted_until_all_hosts_have_reclaimed() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    granted(&world.lock(B, file(1), ALL, Mode::Write, How::Try));
    world.restart();
    assert_eq!(world.state.nsm_state(), 5);
    assert_eq!(world.state.hosts_to_notify().len(), 2);
    let grace = |plan: Plan| assert!(matches!(plan, Plan::Grace), "{plan:?}");
    grace(world.lock(A, file(0), ALL, Mode::Write, How::Try));
    grace(world.lock(C, file(2), ALL, Mode::Read, How::Wait(Tag(1))));
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Reclaim));
    // who held nothing reclaims nothing
    let plan = world.lock(C, file(0), ALL, Mode::Write, How::Reclaim);
    assert!(matches!(plan, Plan::NoGrace), "{plan:?}");
    world.tick(20_000);
    assert_eq!(world.state.totals().grace, Phase::Reclaiming, "B is not back");
    world.state.notify_answered(world.now, address(2), &name(2));
    world.tick(9_999);
    grace(world.lock(C, file(2), ALL, Mode::Read, How::Try));
    world.tick(1);
    assert_eq!(world.state.totals().grace, Phase::Over);
    granted(&world.lock(C, file(2), ALL, Mode::Read, How::Try));
    denied(&world.lock(C, file(0), ALL, Mode::Read, How::Try));
    let plan = world.lock(B, file(1), ALL, Mode::Write, How::Reclaim);
    assert!(matches!(plan, Plan::NoGrace), "{plan:?}");
}

#[test]
fn a_first_start_has_no_grace_and_a_long_one_ends() {
    let mut world = World::new(false);
    assert_eq!(world.state.totals().grace, Phase::Over);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    world.restart();
    world.tick(59_999);
    assert_eq!(world.state.totals().grace, Phase::Reclaiming);
    world.tick(1);
    assert_eq!(world.state.totals().grace, Phase::Over);
    world.restart();
    assert_eq!(world.state.totals().grace, Phase::Over, "nobody came back, nobody may reclaim");
}

#[test]
fn the_end_of_grace_is_stored_before_anything_new_is_granted() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    world.restart();
    world.now = Now(60_000);
    let before = world.stored.len();
    granted(&world.lock(C, file(0), ALL, Mode::Write, How::Try));
    assert!(matches!(world.stored[before], Record::GraceEnded(2)));
    assert!(matches!(world.stored[before + 1], Record::NsmHost(_)));
}

#[test]
fn a_reclaim_confirmed_by_the_kernel_after_grace_fails() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    world.restart();
    let who = Who::Nlm { host: world.host(1), svid: 10, oh: &crate::world::oh(A) };
    let request = LockRequest {
        who,
        range: ALL,
        mode: Mode::Write,
        how: How::Reclaim,
        local: true,
        monitored: true,
        kept: None,
    };
    let (plan, _) = world.state.lock(world.now, &file(0), &request);
    let Plan::Record(record) = plan else { panic!("{plan:?}") };
    world.store(&record);
    let (plan, _) = world.state.lock(world.now, &file(0), &request);
    let Plan::Local(ticket, op) = plan else { panic!("{plan:?}") };
    let answer = world.kernel.run(&op);
    world.tick(60_000);
    let (plan, effects) = world.state.settle(world.now, &ticket, answer);
    world.run(effects);
    assert!(matches!(plan, Plan::NoGrace), "{plan:?}");
    assert!(world.kernel.ours.is_empty());
    granted(&world.lock(B, file(0), ALL, Mode::Write, How::Try));
}

#[test]
fn a_second_crash_within_grace_keeps_the_list_of_hosts() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    granted(&world.lock(B, file(1), ALL, Mode::Write, How::Try));
    world.restart();
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Reclaim));
    world.restart();
    granted(&world.lock(B, file(1), ALL, Mode::Write, How::Reclaim));
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Reclaim));
}

#[test]
fn a_host_that_missed_a_grace_period_cannot_reclaim_later() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    granted(&world.lock(B, file(1), ALL, Mode::Write, How::Try));
    world.restart();
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Reclaim));
    world.tick(60_000);
    // C takes and gives back what B held: B's data is no longer protected
    granted(&world.lock(C, file(1), ALL, Mode::Write, How::Try));
    granted(&world.unlock(C, file(1), ALL));
    world.restart();
    let plan = world.lock(B, file(1), ALL, Mode::Write, How::Reclaim);
    assert!(matches!(plan, Plan::NoGrace), "{plan:?}");
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Reclaim));
}

#[test]
fn a_host_is_released_after_its_record_and_cannot_reclaim() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    blocked(&world.lock(B, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    let leaving = world.state.release_host(world.now, world.host(1));
    let HostRemoval::Record(record) = leaving else { panic!("{leaving:?}") };
    assert!(world.told.is_empty(), "nothing is granted before the record is stored");
    world.store(&record);
    assert_eq!(world.told, [Tag(1)]);
    world.restart();
    let plan = world.lock(A, file(0), ALL, Mode::Write, How::Reclaim);
    assert!(matches!(plan, Plan::NoGrace), "{plan:?}");
    granted(&world.lock(B, file(0), ALL, Mode::Write, How::Reclaim));
}

#[test]
fn a_host_whose_release_cannot_be_stored_keeps_its_locks() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    let HostRemoval::Record(record) = world.state.release_host(world.now, world.host(1)) else {
        panic!("it is recorded");
    };
    assert!(world.try_host(1).is_err());
    world.state.not_persisted(&record);
    granted(&world.lock(A, file(1), ALL, Mode::Write, How::Try));
    denied(&world.lock(B, file(0), ALL, Mode::Write, How::Try));
}

#[test]
fn a_host_that_reboots_while_it_is_released_loses_its_locks_at_once() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    let HostRemoval::Record(record) = world.state.release_host(world.now, world.host(1)) else {
        panic!("it is recorded");
    };
    let reboot = world.state.client_rebooted(world.now, address(1), &name(1), 3);
    assert!(matches!(reboot, Reboot::Dropped { ranges: 1, .. }), "{reboot:?}");
    assert!(world.try_host(1).is_err());
    world.state.not_persisted(&record);
    granted(&world.lock(B, file(0), ALL, Mode::Write, How::Try));
    granted(&world.lock(A, file(1), ALL, Mode::Write, How::Try));
}

#[test]
fn a_silent_host_loses_its_locks_only_on_conflict() {
    let mut world = World::new(true);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    let silent = world.host(1);
    world.now = Now(24 * 3_600_000 - 1);
    denied(&world.lock(B, file(0), ALL, Mode::Read, How::Try));
    world.now = Now(24 * 3_600_000);
    let rows = world.state.host_rows(world.now);
    assert_eq!(rows[0].ranges, 1, "nobody wanted it so far");
    let plan = world.lock(B, file(0), ALL, Mode::Read, How::Try);
    assert!(matches!(plan, Plan::Silent(host) if host == silent), "{plan:?}");
    let HostRemoval::Record(record) = world.state.release_host(world.now, silent) else {
        panic!("it is recorded");
    };
    world.store(&record);
    granted(&world.lock(B, file(0), ALL, Mode::Read, How::Try));
}

#[test]
fn a_monitored_host_without_locks_is_removed_after_an_hour() {
    let mut world = World::new(false);
    granted(&world.lock(A, file(0), ALL, Mode::Write, How::Try));
    granted(&world.lock(B, file(1), ALL, Mode::Write, How::Try));
    granted(&world.unlock(A, file(0), ALL));
    assert!(world.state.idle_hosts(Now(3_599_999), 9).is_empty());
    let idle = world.state.idle_hosts(Now(3_600_000), 9);
    assert_eq!(idle, [world.host(1)]);
    let HostRemoval::Record(record) = world.state.release_host(world.now, idle[0]) else {
        panic!("it is recorded");
    };
    world.store(&record);
    assert_eq!(world.state.totals().hosts, 1);
}

#[test]
fn a_waiting_request_is_granted_after_a_local_unlock() {
    let mut world = World::new(true);
    world.kernel.local.insert(file(0), vec![Some(Mode::Write); 64]);
    blocked(&world.lock(A, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    assert_eq!(world.state.next_deadline_ms(), Some(50));
    let mut tries = Vec::new();
    while tries.len() < 7 {
        let next = world.state.next_deadline_ms().unwrap();
        tries.push(next - world.now.0);
        world.tick(next - world.now.0);
    }
    assert_eq!(tries, [50, 100, 200, 400, 800, 1000, 1000]);
    world.kernel.local.clear();
    world.tick(1000);
    assert_eq!(world.told, [Tag(1)]);
    assert_eq!(world.state.next_deadline_ms(), None);
}

#[test]
fn a_request_is_not_retried_while_nfs_owners_conflict() {
    let mut world = World::new(true);
    world.kernel.local.insert(file(0), vec![Some(Mode::Read); 64]);
    blocked(&world.lock(A, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    granted(&world.lock(B, file(0), ALL, Mode::Read, How::Try));
    world.tick(50);
    assert_eq!(world.state.next_deadline_ms(), None, "only the end of B's lock can help");
    granted(&world.unlock(B, file(0), ALL));
    assert_eq!(world.state.next_deadline_ms(), Some(100));
    world.kernel.local.clear();
    world.tick(50);
    assert_eq!(world.told, [Tag(1)]);
}

#[test]
fn a_request_blocked_by_a_limit_is_granted_when_there_is_room() {
    let limits = Limits { ranges_per_host: 3, ..Limits::default() };
    let mut world = World::with_limits(false, limits);
    granted(&world.lock(B, file(0), ALL, Mode::Write, How::Try));
    blocked(&world.lock(A, file(0), ALL, Mode::Write, How::Wait(Tag(1))), 1);
    granted(&world.lock(A, file(1), range(0, 0), Mode::Write, How::Try));
    granted(&world.lock(A, file(1), range(2, 2), Mode::Write, How::Try));
    granted(&world.unlock(B, file(0), ALL));
    assert!(world.told.is_empty(), "there is no room");
    granted(&world.unlock(A, file(1), ALL));
    let next = world.state.next_deadline_ms().unwrap();
    world.tick(next - world.now.0);
    assert_eq!(world.told, [Tag(1)]);
}

/// LOCK asks the kernel; meanwhile the client unlocks, cancels, or goes.
#[test]
fn changes_during_the_kernel_request_take_effect() {
    type Meanwhile = fn(&mut World);
    let unlock: Meanwhile = |world| granted(&world.unlock(A, file(0), range(4, 5)));
    let cancel: Meanwhile = |world| {
        let found = world.cancel(A, file(0), range(0, 9), Mode::Write);
        assert_eq!(found, Cancelled::Removed(Tag(1)));
    };
    let reboot: Meanwhile = |world| {
        let reboot = world.state.client_rebooted(world.now, address(1), &name(1), 7);
        assert!(matches!(reboot, Reboot::Dropped { .. }));
    };
    for (meanwhile, left) in [(unlock, 8), (cancel, 0), (reboot, 0)] {
        let mut world = World::new(true);
        granted(&world.lock(A, file(1), ALL, Mode::Read, How::Try));
        let oh = crate::world::oh(A);
        let who = Who::Nlm { host: world.host(1), svid: 10, oh: &oh };
        let request = LockRequest {
            who,
            range: range(0, 9),
            mode: Mode::Write,
            how: How::Wait(Tag(1)),
            local: true,
            monitored: true,
            kept: None,
        };
        let (plan, _) = world.state.lock(world.now, &file(0), &request);
        let Plan::Local(ticket, op) = plan else { panic!("{plan:?}") };
        let again = world.lock(B, file(0), range(9, 9), Mode::Read, How::Try);
        assert!(matches!(again, Plan::Again), "neither granted nor denied: {again:?}");
        assert!(matches!(test(&world, B, Mode::Read), TestAnswer::Again));
        meanwhile(&mut world);
        let answer = world.kernel.run(&op);
        let (plan, effects) = world.state.settle(world.now, &ticket, answer);
        world.run(effects);
        assert_eq!(matches!(plan, Plan::Granted), left > 0, "{plan:?}");
        let row = world.state.file_row(world.now, &file(0));
        assert_eq!(row.is_some(), left > 0, "nothing tentative is left");
        let shown = world.kernel.ours.get(&file(0));
        let shown = shown.map_or(0, |bytes| bytes.iter().flatten().count());
        assert_eq!(shown, left, "the kernel shows what is held");
        let (stale, effects) = world.state.settle(world.now, &ticket, LocalAnswer::Done);
        assert!(matches!(stale, Plan::Gone) && effects.is_empty(), "settled once");
    }
}

#[test]
fn locks_that_the_kernel_cannot_hold_are_in_the_table_only() {
    let mut world = World::new(true);
    granted(&world.lock(B, file(1), ALL, Mode::Read, How::Try));
    let oh = crate::world::oh(A);
    granted(&world.lock(A, file(1), ALL, Mode::Read, How::Try));
    for (answer, held) in [(LocalAnswer::NotShown, true), (LocalAnswer::Failed, false)] {
        let who = Who::Nlm { host: world.host(1), svid: 10, oh: &oh };
        let request = LockRequest {
            who,
            range: ALL,
            mode: Mode::Write,
            how: How::Try,
            local: true,
            monitored: true,
            kept: None,
        };
        let (plan, _) = world.state.lock(world.now, &file(0), &request);
        let Plan::Local(ticket, _) = plan else { panic!("{plan:?}") };
        let (plan, effects) = world.state.settle(world.now, &ticket, answer);
        let closes =
            effects.clone().into_iter().any(|e| matches!(e, Effect::Local(_, op) if op.last));
        assert_eq!(closes, !held, "a description that nobody needs is closed");
        world.run(effects);
        assert_eq!(matches!(plan, Plan::Granted), held, "{plan:?}");
        assert_eq!(matches!(test(&world, B, Mode::Read), TestAnswer::Held(_)), held);
        granted(&world.unlock(A, file(0), ALL));
        assert!(world.state.file_row(world.now, &file(0)).is_none());
    }
}

#[test]
fn the_guard_of_a_file_is_returned_with_its_last_lock() {
    let world = World::new(false);
    let kept: bowline_state::Kept = std::sync::Arc::new("open");
    let oh = b"x";
    let who = Who::Nlm { host: world.host(1), svid: 1, oh };
    let request = LockRequest {
        who,
        range: range(0, 9),
        mode: Mode::Write,
        how: How::Try,
        local: false,
        monitored: false,
        kept: Some(std::sync::Arc::clone(&kept)),
    };
    granted(&world.state.lock(Now(0), &file(0), &request).0);
    assert_eq!(std::sync::Arc::strong_count(&kept), 3);
    drop(request);
    let (_, effects) = world.state.unlock(Now(0), &file(0), &who, range(0, 4));
    assert!(effects.is_empty());
    let (_, effects) = world.state.unlock(Now(0), &file(0), &who, range(5, 9));
    let effects: Vec<_> = effects.into_iter().collect();
    assert!(matches!(&effects[..], [Effect::LetGo(_)]));
    drop(effects);
    assert_eq!(std::sync::Arc::strong_count(&kept), 1);
}

#[test]
fn ranges_are_converted_from_offset_and_length() {
    let max64 = u64::MAX;
    let max31 = (1 << 31) - 1;
    for (offset, len, max, expected) in [
        (0, 0, max64, Some((0, max64))),
        (5, 0, max64, Some((5, max64))),
        (0, 1, max64, Some((0, 0))),
        (0, max64, max64, Some((0, max64 - 1))),
        (1, max64, max64, Some((1, max64))),
        (2, max64, max64, None),
        (max64, 1, max64, Some((max64, max64))),
        (max64, 2, max64, None),
        (0, 1 << 31, max31, Some((0, max31))),
        (1, 1 << 31, max31, None),
        (1 << 31, 0, max31, None),
        (max31, 0, max31, Some((max31, max64))),
    ] {
        let found = ByteRange::from_offset_len(offset, len, max).ok();
        assert_eq!(found.map(|r| (r.start(), r.end())), expected, "{offset} {len}");
    }
    assert_eq!(range(3, max64).wire_len(), 0);
    assert_eq!(range(3, 3).wire_len(), 1);
}

#[test]
fn locks_of_a_removed_export_are_released() {
    let mut world = World::new(true);
    for number in 0..4 {
        granted(&world.lock(A, file(number), ALL, Mode::Write, How::Try));
    }
    let (ranges, effects) =
        world.state.release_files(world.now, |key| key.bytes().last().is_some_and(|n| *n < 2));
    world.run(effects);
    assert_eq!(ranges, 2);
    assert_eq!(world.state.totals().files, 2);
    assert_eq!(world.kernel.ours.len(), 2);
}
