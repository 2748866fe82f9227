//! Who watches the clients that hold locks (`nsm`): the server itself, or rpc.statd of its machine as well.
//!
//! With `auto` that follows from who has the status monitor's number at the port mapper, which is looked at every few
//! seconds.
//!
//! Lock: what was asked for, and whether another server has the number; held while the parts are told, which does not
//! block.

use nfs::nlm::Nlm;
use nfs::nsm::{Nsm, NsmMode};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone, Copy)]
struct Wanted {
    mode: NsmMode,
    /// Another server of this machine, which answers, is registered for the status monitor's number.
    other: bool,
}

impl Wanted {
    fn by_machine(self) -> bool {
        self.mode == NsmMode::Statd || self.mode == NsmMode::Auto && self.other
    }
}

/// Tells the parts who watches.
pub struct StatusMonitor {
    nlm: Arc<Nlm>,
    nsm: Arc<Nsm>,
    wanted: Mutex<Wanted>,
}

impl StatusMonitor {
    /// As `mode` says, where another server has the status monitor's number or not.
    pub fn new(nlm: &Arc<Nlm>, nsm: &Arc<Nsm>, mode: NsmMode, other: bool) -> Arc<Self> {
        let wanted = Mutex::new(Wanted { mode, other });
        let new = Self { nlm: Arc::clone(nlm), nsm: Arc::clone(nsm), wanted };
        new.change(|_| ());
        Arc::new(new)
    }

    fn change(&self, change: impl FnOnce(&mut Wanted)) {
        let (before, now) = {
            let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            let before = wanted.by_machine();
            change(&mut wanted);
            self.nsm.set_mode(wanted.mode);
            self.nlm.watch_by_machine(wanted.by_machine());
            (before, wanted.by_machine())
        };
        match (before, now) {
            (false, true) => tracing::info!("rpc.statd of this machine is asked to watch clients"),
            (true, false) => tracing::info!("rpc.statd of this machine watches clients no longer"),
            (true, true) | (false, false) => {}
        }
    }

    /// Sets what was asked for.
    pub fn set_mode(&self, mode: NsmMode) {
        self.change(|wanted| wanted.mode = mode);
    }

    /// Sets whether another server has the status monitor's number.
    pub fn set_other(&self, other: bool) {
        self.change(|wanted| wanted.other = other);
    }

    /// Who watches, in a word: `own`, `statd` or `off`.
    pub fn who(&self) -> NsmMode {
        let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        match wanted.mode {
            NsmMode::Auto if wanted.other => NsmMode::Statd,
            NsmMode::Auto => NsmMode::Own,
            mode => mode,
        }
    }

    /// What is wrong with rpc.statd, and what that means.
    pub fn warning(&self) -> Option<String> {
        let progress = self.nlm.machine_monitor.progress();
        progress.failure.map(|why| unwatched(&why, progress.unwatched))
    }
}

/// That rpc.statd does not watch what it should: so many addresses.
pub fn unwatched(why: &str, addresses: usize) -> String {
    let whose = match addresses {
        0 => "of a client that gets a lock and reboots".to_owned(),
        1 => "of 1 client that it does not watch, should it reboot,".to_owned(),
        more => format!("of {more} clients that it does not watch, should they reboot,"),
    };
    format!(
        "rpc.statd of this machine cannot be asked to watch clients ({why}): the locks {whose} stay until `bowline \
         release`; start rpc.statd, or set nsm=own where this machine needs none"
    )
}
