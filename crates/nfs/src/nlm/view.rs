//! The operator's view of locks, and releasing them.

use super::Nlm;
use crate::file_key::export_of;
use crate::object::Object;
use crate::v4::Ended;
use rpc::IgnoreBlocking;
use state::{ByteRange, FileKey, Holder, HostId, Mode, ShareBits, Who};
use std::collections::HashMap;
use std::net::IpAddr;

/// What somebody has, or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldKind {
    /// A lock.
    Lock(Mode),
    /// A request that waits; `local` if only a lock of a local program, or a limit, is in the way.
    Waiting {
        /// How the range is to be held.
        mode: Mode,
        /// Nobody's lock that the server knows is in the way.
        local: bool,
        /// For how long, in milliseconds.
        waiting_ms: u64,
    },
    /// A share reservation.
    Share {
        /// What the client wants to do.
        access: ShareBits,
        /// What others may not do.
        deny: ShareBits,
    },
}

/// One lock, request or share reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRow {
    /// The client's address.
    pub addr: IpAddr,
    /// What the client calls itself.
    pub client: Vec<u8>,
    /// The process on the client; `None` for shares and owners of version 4, which name none.
    pub svid: Option<i32>,
    /// The owner handle.
    pub oh: Vec<u8>,
    /// The path of the export; `None` if it is not served any more.
    pub export: Option<String>,
    /// Where the file is on this machine, if that can be found out.
    pub path: Option<String>,
    /// The file, as the core names it.
    pub file: FileKey,
    /// The bytes.
    pub range: ByteRange,
    /// What it is.
    pub kind: HeldKind,
}

/// What was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// Hosts that lost everything.
    pub hosts: usize,
    /// Files that nobody has locked any more.
    pub files: usize,
    /// Locks.
    pub locks: usize,
}

impl Nlm {
    /// All locks, requests that wait and share reservations, file by file. Finding the files' paths may wait.
    pub fn held(&self) -> Vec<HeldRow> {
        let now = self.now();
        let hosts = self.state().host_rows(now);
        let hosts: HashMap<HostId, _> = hosts.into_iter().map(|row| (row.id, row.info)).collect();
        let mut rows = Vec::new();
        for file in self.state().file_rows(now) {
            let (export, path) = (self.export_path(&file.file), self.local_path(&file.file));
            let mut add = |host: HostId, svid, oh: &[u8], range, kind| {
                let Some(info) = hosts.get(&host) else { return };
                rows.push(HeldRow {
                    addr: info.addr,
                    client: info.name.to_vec(),
                    svid,
                    oh: oh.to_vec(),
                    export: export.clone(),
                    path: path.clone(),
                    file: file.file,
                    range,
                    kind,
                });
            };
            for lock in file.locks.iter().filter(|lock| lock.tentative_ms.is_none()) {
                let (svid, oh) = owner(&lock.holder);
                let host = lock.holder.host();
                add(host, svid, oh, lock.range, HeldKind::Lock(lock.mode));
            }
            for waiter in &file.waiters {
                let (svid, oh) = owner(&waiter.holder);
                let since = self.waiting.since(waiter.tag).unwrap_or(now);
                let waiting_ms = now.0.saturating_sub(since.0);
                let kind = HeldKind::Waiting { mode: waiter.mode, local: waiter.local, waiting_ms };
                add(waiter.holder.host(), svid, oh, waiter.range, kind);
            }
            for share in &file.shares {
                let kind = HeldKind::Share { access: share.mode.access, deny: share.mode.deny };
                add(share.host, None, &share.oh, ByteRange::ALL, kind);
            }
        }
        rows
    }

    fn export_path(&self, file: &FileKey) -> Option<String> {
        let table = self.nfs.exports.load();
        Some(table.by_id(export_of(file)?)?.path_text())
    }

    fn local_path(&self, file: &FileKey) -> Option<String> {
        let file = self.files.find(file)?;
        let object: Object<'_> = file.object.as_object(&IgnoreBlocking);
        let path = object.backend().local_path(&object.cx(), &object.fid)?;
        Some(path.to_string_lossy().into_owned())
    }

    /// Takes everything from the hosts of this address or name. `None` if there is none.
    pub fn release_hosts(&self, name: &str) -> Option<Taken> {
        let hosts = self.state().host_rows(self.now());
        let named = |addr: IpAddr, own: &[u8]| {
            own == name.as_bytes() || name.parse().is_ok_and(|ip: IpAddr| ip == addr)
        };
        let mut taken = Taken::default();
        let clients = self.nfs.v4.state.client_rows(self.now());
        for host in hosts.iter().filter(|host| named(host.info.addr, &host.info.name)) {
            let client = self.state().client_of(host.id);
            if client.is_none() {
                self.release(&IgnoreBlocking, host.id);
                taken.hosts = taken.hosts.saturating_add(1);
            } else if !clients.iter().any(|row| Some(row.id) == client) {
                // it has just ended
                continue;
            }
            taken.locks = taken.locks.saturating_add(host.ranges);
        }
        for client in clients.iter().filter(|row| named(row.address, &row.owner)) {
            if self.nfs.release_client(&IgnoreBlocking, client.id) == Ended::All {
                taken.hosts = taken.hosts.saturating_add(1);
            }
        }
        (taken.hosts > 0).then_some(taken)
    }

    /// Takes all locks of the file at this path of this machine. `None` if it has none.
    pub fn release_path(&self, path: &str) -> Option<Taken> {
        let rows = self.state().file_rows(self.now());
        let at_path = |file: &FileKey| self.local_path(file).is_some_and(|found| found == path);
        let files: Vec<FileKey> =
            rows.iter().map(|row| row.file).filter(|file| at_path(file)).collect();
        (!files.is_empty()).then(|| self.release_files(&files))
    }

    /// Takes all locks of files whose export is not served any more.
    pub fn release_removed_exports(&self) -> Taken {
        // a file system must not be busy because of them
        self.idle_files.clear();
        let rows = self.state().file_rows(self.now());
        let files: Vec<FileKey> = {
            let table = self.nfs.exports.load();
            let served = |file: &FileKey| {
                export_of(file).is_some_and(|export| table.by_id(export).is_some())
            };
            rows.iter().map(|row| row.file).filter(|file| !served(file)).collect()
        };
        if files.is_empty() { Taken::default() } else { self.release_files(&files) }
    }

    fn release_files(&self, files: &[FileKey]) -> Taken {
        let (locks, effects) = self.state().release_files(self.now(), |file| files.contains(file));
        self.run(&IgnoreBlocking, effects);
        Taken { hosts: 0, files: files.len(), locks }
    }
}

fn owner(holder: &Holder) -> (Option<i32>, &[u8]) {
    match holder.who() {
        Who::Nlm { svid, oh, .. } => (Some(svid), oh),
        Who::V4 { owner, .. } => (None, owner),
    }
}
