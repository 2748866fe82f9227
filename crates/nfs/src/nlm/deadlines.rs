//! What happens by time and not by a call: requests are tried again that local programs held up, clients are called
//! again, the grace period ends. One thread, the lock timer, calls [`Nlm::tick`]; whatever makes something due earlier than
//! it knows wakes it.

use super::Nlm;
use super::answers::Waker;
use crate::v4::Ended;
use rpc::{Blocking, IgnoreBlocking};
use state::{Now, Reboot};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

/// Files whose requests are tried again in one tick.
const RETRIES_PER_TICK: usize = 256;
/// How often the leases of clients are looked at for whose locks somebody waits, in milliseconds.
const EXPIRY_MS: u64 = 1000;
/// How often entries of requests are looked for that have ended, in milliseconds.
const SWEEP_MS: u64 = 60_000;
/// Hosts that are forgotten in one sweep because they hold nothing and have been silent.
const IDLE_HOSTS_PER_SWEEP: usize = 64;

impl Nlm {
    /// Has the lock timer woken by `waker` from now on; the first one stays.
    pub fn set_waker(&self, waker: Waker) {
        self.answers.set_waker(waker);
        let answers = Arc::clone(&self.answers);
        self.nfs.v4.callbacks.set_waker(Box::new(move || answers.wake()));
        let answers = Arc::clone(&self.answers);
        self.nfs.delegations.set_waker(Box::new(move || answers.wake()));
        let answers = Arc::clone(&self.answers);
        self.nfs.v4.copies.set_waker(Box::new(move || answers.wake()));
    }

    pub(super) fn wake(&self) {
        self.answers.wake();
    }

    /// Does what is due, and gives the time by which it is to be called again, in milliseconds of [`Nlm::now`]. May
    /// block; never called by two threads at once.
    pub fn tick(&self) -> Option<u64> {
        let blocking = &IgnoreBlocking;
        self.run_answers(blocking);
        let now = self.now();
        let (record, effects) = self.state().tick(now, RETRIES_PER_TICK);
        self.run(blocking, effects);
        // a record that cannot be stored is tried again with the next lock
        if let Some(record) = record
            && self.nfs.store.append(&record).is_ok()
        {
            let effects = self.state().persisted(now, &record);
            self.run(blocking, effects);
        }
        self.call_again(blocking, now);
        self.end_waits_v4(blocking, now, false);
        let callback_ms = self.nfs.v4.callbacks.tick().map(|after| now.0.saturating_add(after));
        let recall_ms = self.nfs.tick_delegations(blocking);
        let copies_ms = self.nfs.tick_copies();
        self.nfs.discard_left_over();
        let expiry_ms = self.end_expired(blocking, now);
        let sweep_ms = self.sweep_if_due(blocking);
        let idle_ms = self.idle_files.close_expired(now.0);
        let monitor_ms = self.machine_monitor.tick(now.0);
        let due = [
            self.state().next_deadline_ms(),
            self.waiting.next_due_ms(),
            self.waits_v4.next_due_ms(),
            callback_ms,
            recall_ms,
            copies_ms,
            expiry_ms,
            monitor_ms,
            idle_ms,
            Some(sweep_ms),
        ];
        due.into_iter().flatten().min()
    }

    /// Ends the clients of version 4 whose lease is over and whose locks somebody waits for; when to look again, if
    /// one of them lives.
    fn end_expired(&self, blocking: &dyn Blocking, now: Now) -> Option<u64> {
        let clients: Vec<u64> = self.state().clients_waited_for().into_iter().collect();
        let all_gone = self.nfs.end_expired(blocking, &clients) == Ended::All;
        (!all_gone).then(|| now.0.saturating_add(EXPIRY_MS))
    }

    fn sweep_if_due(&self, blocking: &dyn Blocking) -> u64 {
        let now = self.now();
        let mut next = self.next_sweep_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if now.0 < *next {
            return *next;
        }
        *next = now.0.saturating_add(SWEEP_MS);
        let due = *next;
        drop(next);
        for (tag, file) in self.waiting.old(now) {
            if !self.state().is_waiting(&file, tag) {
                self.waiting.remove(tag);
            }
        }
        self.end_waits_v4(blocking, now, true);
        self.nfs.sweep_clients(blocking);
        for host in self.state().idle_hosts(now, IDLE_HOSTS_PER_SWEEP) {
            self.release(blocking, host);
        }
        due
    }

    /// Has rpc.statd watch the hosts that are and that come, or no longer.
    pub fn watch_by_machine(&self, on: bool) {
        self.machine_monitor.set_on(on, || self.state().recorded_hosts());
    }

    /// SM_NOTIFY: the host of this name, from whose address the notification came, has rebooted. How many locks it
    /// held; `None` if it is not believed.
    pub fn client_rebooted(&self, from: IpAddr, name: &[u8], nsm_state: i32) -> Option<usize> {
        match self.state().client_rebooted(self.now(), from, name, nsm_state) {
            Reboot::Ignored => None,
            Reboot::Dropped { record, ranges, effects } => {
                self.run(&IgnoreBlocking, effects);
                // one that is lost costs a notification that is believed twice, of a host that has nothing
                let _stored = self.nfs.store.append(&record);
                Some(ranges)
            }
        }
    }

    /// A host of the boot list answered SM_NOTIFY.
    pub fn notify_answered(&self, addr: IpAddr, name: &[u8]) {
        self.state().notify_answered(self.now(), addr, name);
        self.wake();
    }
}
