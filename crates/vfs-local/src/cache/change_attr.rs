//! The change attribute of version 4 (RFC 8881 §5.8.1.4), which the kernel does not give to programs.
//!
//! Where the kernel's ctime is fine enough to differ after every change that has been observed
//! (multigrain times, Linux 6.13 on ext4, xfs and btrfs; [`sys::stat::ctime_is_fine`] tests it), it is
//! the ctime in nanoseconds. On tmpfs this applies to files and not to directories: unlink(2) gives a
//! directory the ctime of the removed object. Elsewhere ctime advances in ticks of 1 to 10 ms, and it
//! is
//!
//! ```text
//! ctime in ns + 2 * (count mod 400,000) + settled
//! ```
//!
//! - `count`: beginnings and endings of changes of the object through this server while it was open
//!   in the cache, so a change through the server always shows.
//! - `settled`: 1 once ctime is older than a tick can be. A change by another program in the tick
//!   that a client has already seen shows then; so does one more, where nothing changed.
//!
//! The value added to ctime is below the shortest tick, so values of different ctimes are never the same.
//! When an object leaves the cache its count restarts: then the value differs, or it is the same for the
//! rest of the tick.

use vfs::{ChangeKind, Time};

/// The count wraps at this value: the added value stays below 1 ms, less the adjustment of clocks.
const COUNTS: u64 = 400_000;
/// Twice the coarsest tick of the kernel's file times (10 ms at 100 Hz), in ns.
const TICK_NS: i64 = 20_000_000;
/// The same where times are whole seconds or two (ext3, small inodes of ext4, FAT), as one without
/// nanoseconds may be.
const COARSE_TICK_NS: i64 = 2_020_000_000;
/// Seconds after which every ctime is settled.
pub const SETTLED_S: i64 = 3;

/// The source of change attributes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeSource {
    /// ctime, which is fine enough.
    Ctime,
    /// ctime, the count, and whether ctime is settled.
    CountedCtime,
}

impl ChangeSource {
    /// The value that is reported to clients.
    pub const fn kind(self) -> ChangeKind {
        match self {
            Self::Ctime => ChangeKind::TimeMetadata,
            Self::CountedCtime => ChangeKind::Undefined,
        }
    }
}

/// ctime in ns; it wraps in the year 2554.
pub const fn ctime_ns(ctime: Time) -> u64 {
    ctime.sec.wrapping_mul(1_000_000_000).wrapping_add(ctime.nsec as i64).cast_unsigned()
}

/// The change attribute where ctime is not fine enough.
pub const fn counted(ctime: Time, count: u64, settled: bool) -> u64 {
    ctime_ns(ctime).wrapping_add(2 * (count % COUNTS)).wrapping_add(settled as u64)
}

/// Whether a change at `now` would have a different ctime.
pub const fn is_settled(ctime: Time, now: Time) -> bool {
    let age_ns = ctime_ns(now).wrapping_sub(ctime_ns(ctime)).cast_signed();
    age_ns > if ctime.nsec == 0 { COARSE_TICK_NS } else { TICK_NS }
}

#[cfg(test)]
mod tests {
    use super::{counted, is_settled};
    use proptest::prelude::*;
    use vfs::Time;

    /// An event of a file whose times advance in ticks.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        /// Time passes, in µs.
        Wait(u32),
        /// A change through the server; whether a client asks for the attributes in the middle, before or
        /// after the kernel has made it.
        Change(Option<bool>),
        /// A change by another program.
        LocalChange,
        /// A client asks for the attributes.
        Getattr,
        /// The object leaves the cache.
        Evict,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => (1_u32..30_000).prop_map(Event::Wait),
            4 => prop::option::of(any::<bool>()).prop_map(Event::Change),
            2 => Just(Event::LocalChange),
            4 => Just(Event::Getattr),
            1 => Just(Event::Evict),
        ]
    }

    #[derive(Default)]
    struct File {
        now_us: i64,
        tick_us: i64,
        ctime_us: i64,
        count: u64,
        /// Number of changes of its contents.
        version: u64,
    }

    fn time(us: i64) -> Time {
        Time { sec: us / 1_000_000, nsec: u32::try_from(us % 1_000_000 * 1000).unwrap() }
    }

    impl File {
        fn change(&mut self) {
            self.ctime_us = self.now_us - self.now_us % self.tick_us;
            self.version += 1;
        }

        fn attr(&self) -> u64 {
            let ctime = time(self.ctime_us);
            counted(ctime, self.count, is_settled(ctime, time(self.now_us)))
        }
    }

    proptest! {
        /// A client that saw the file with some change attribute sees a different one if the file has
        /// changed since: at once if it changed through the server and stayed in the cache, else when
        /// ctime has settled.
        #[test]
        fn a_change_always_changes_the_change_attribute(
            events in prop::collection::vec(event(), 1..120),
            tick_ms in prop::sample::select(vec![1_i64, 4, 10]),
        ) {
            let mut file = File { tick_us: tick_ms * 1000, now_us: 1_000_000_500, ..File::default() };
            file.change();
            // change attribute, version, and whether all changes since are the server's own and
            // counted
            let mut seen: Vec<(u64, u64, bool)> = Vec::new();
            let look = |file: &File, seen: &mut Vec<(u64, u64, bool)>| {
                let attr = file.attr();
                for (old, version, counted) in seen.iter() {
                    prop_assert!(
                        !(counted & (*version != file.version) & (*old == attr)),
                        "the same at once"
                    );
                }
                seen.push((attr, file.version, true));
                Ok(())
            };
            for event in events {
                match event {
                    Event::Wait(us) => file.now_us += i64::from(us),
                    Event::Change(middle) => {
                        file.count += 1;
                        if middle == Some(false) {
                            // in doubt until it ends
                            seen.push((file.attr(), file.version, false));
                        }
                        file.change();
                        if middle == Some(true) {
                            seen.push((file.attr(), file.version, false));
                        }
                        file.count += 1;
                    }
                    Event::LocalChange => {
                        file.change();
                        seen.iter_mut().for_each(|seen| seen.2 = false);
                    }
                    Event::Getattr => look(&file, &mut seen)?,
                    Event::Evict => {
                        file.count = 0;
                        seen.iter_mut().for_each(|seen| seen.2 = false);
                    }
                }
            }
            // longer than the tick of a file system that keeps whole seconds
            file.now_us += 2_100_000;
            let settled = file.attr();
            for (old, version, _) in seen {
                prop_assert!(version == file.version || old != settled, "the same for ever");
            }
        }
    }

    #[test]
    fn whole_seconds_take_longer_to_settle() {
        let at = |sec, nsec| Time { sec, nsec };
        assert!(!is_settled(at(100, 5), at(100, 20_000_005)));
        assert!(is_settled(at(100, 5), at(100, 20_000_006)));
        assert!(!is_settled(at(100, 0), at(102, 0)) && is_settled(at(100, 0), at(103, 0)));
        assert!(!is_settled(at(100, 5), at(99, 0)), "a clock that was set back");
    }
}
