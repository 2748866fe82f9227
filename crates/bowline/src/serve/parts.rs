//! The parts of a running server that a setting can change.
//!
//! `server` stays until the process ends, also when it has been stopped. Its lock is held for reading while
//! an operator's request asks or changes the server, and by the stop; calls never take it.

use super::audit::AuditLog;
use super::kerberos::Kerberos;
use super::lock_timer::LockTimer;
use super::portmap::PortmapService;
use super::recovery::RecoveryStore;
use super::status_monitor::StatusMonitor;
use crate::logging::LogHandle;
use crate::memory_shares::MemoryShares;
use crate::output::error_text;
use export::Exports;
use nfs::Nfs;
use nfs::nlm::Nlm;
use nfs::nsm::{Nsm, NsmMode};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use svc::{MemoryLimit, OutboundCalls, Server, SettingError, UdpSockets};
use vfs_local::OpenFiles;

/// Notes about a new value that was applied, or why it was not.
pub type Applied = Result<Vec<String>, String>;

/// What settings are applied to.
pub struct ServerParts {
    /// The exports in force.
    pub exports: Arc<Exports>,
    /// The open files of all exports, and what is kept of them.
    pub open_files: Arc<OpenFiles>,
    /// The NFS programs, with their live settings.
    pub nfs: Arc<Nfs>,
    /// The record of removes, renames and changed attributes.
    pub audit: AuditLog,
    /// The lock manager.
    pub nlm: Arc<Nlm>,
    /// The status monitor.
    pub nsm: Arc<Nsm>,
    /// Who watches clients that hold locks.
    pub monitor: Arc<StatusMonitor>,
    /// Where it is stored who may reclaim after a restart.
    pub recovery: Arc<RecoveryStore>,
    /// Does for locks what time asks for.
    pub lock_timer: LockTimer,
    /// How portmappers know the server.
    pub portmap: PortmapService,
    /// RPCSEC_GSS, while an export names it.
    pub kerberos: Kerberos,
    /// The log's level.
    pub log: LogHandle,
    /// Calls to clients' machines.
    pub outbound: Arc<OutboundCalls>,
    /// Sockets and threads.
    pub server: RwLock<Option<Server>>,
}

impl ServerParts {
    /// Asks the server; `None` once it has been stopped.
    pub fn with_server<T>(&self, ask: impl FnOnce(&Server) -> T) -> Option<T> {
        self.server.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(ask)
    }

    /// The path of an export, by its index.
    pub fn export_path(&self, index: u16) -> String {
        let table = self.exports.load();
        let export = table.exports().iter().find(|export| export.index == index);
        export.map_or_else(|| "(removed)".to_owned(), |export| export.path_text())
    }

    /// Changes the server; there are no notes about it.
    ///
    /// # Errors
    /// The server's reason.
    pub fn change_server(
        &self,
        change: impl FnOnce(&Server) -> Result<(), SettingError>,
    ) -> Applied {
        match self.with_server(change) {
            Some(Err(error)) => Err(error.to_string()),
            Some(Ok(())) | None => Ok(Vec::new()),
        }
    }

    /// Changes how much memory calls and replies may take.
    ///
    /// # Errors
    /// None.
    pub fn set_memory(&self, limit: MemoryLimit) -> Applied {
        let (bytes, note) = MemoryShares::of_this_process().memory_in_force(limit);
        self.with_server(|server| server.set_memory(bytes));
        Ok(note.into_iter().collect())
    }

    /// Changes the layout of UDP sockets. Portmappers must not announce UDP while it is not served: they
    /// are told after UDP is switched on, and before it is switched off.
    ///
    /// # Errors
    /// The kernel refuses the sockets.
    pub fn set_udp_sockets(&self, layout: UdpSockets) -> Applied {
        let served = layout != UdpSockets::Off;
        let announce = || self.portmap.set_udp(served).err().map(|error| error_text(&error));
        let before = if served { None } else { announce() };
        self.change_server(|server| server.set_udp_sockets(layout))?;
        let after = if served { announce() } else { None };
        Ok(before.into_iter().chain(after).collect())
    }

    /// Changes who watches clients that hold locks. With `statd` the number is left to rpc.statd.
    ///
    /// # Errors
    /// None: what rpcbind refuses is noted.
    pub fn set_nsm(&self, mode: NsmMode) -> Applied {
        let announced = self.portmap.set_monitor(mode != NsmMode::Statd);
        self.monitor.set_mode(mode);
        Ok(announced.err().map(|error| error_text(&error)).into_iter().collect())
    }

    /// Ends the service: no new calls; those in progress have `timeout` to finish. Whether they have.
    pub fn stop(&self, timeout: Duration) -> bool {
        // asked for reading only: those who ask what goes on may hold it, and go on while the server stops
        let done = self.with_server(|server| server.stop(timeout)).unwrap_or(true);
        self.nfs.v4.copies.stop();
        self.lock_timer.stop();
        self.outbound.stop();
        done
    }
}
