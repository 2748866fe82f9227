//! The servers that are measured: started as children of this process, known by address and pid,
//! ended with it.
//!
//! ```text
//!   bowline   this very binary, or another build of it, with any settings
//!   ganesha   Debian's nfs-ganesha with a configuration made here
//!   knfsd     the kernel's server, where there is one
//!   command   any command line with {DIR} and {PORT} in it
//! ```
//!
//! Each `start` returns when the server answers NULL of NFS and of MOUNT, or returns a one-line error.
//! Invariant: a server lives as long as its [`TestServer`] at most, and never longer than this process,
//! even after SIGKILL.

pub mod bowline;
pub mod command;
mod error;
pub mod ganesha;
mod isolated;
pub mod knfsd;
mod ports;
mod process;
mod ready;
mod scratch_dir;
pub mod usage;

pub use error::ServerError;
pub use process::Placement;
pub use scratch_dir::{ScratchDir, remove_own as remove_scratch_dirs};

use crate::lab::Namespace;
use admin::api::{Changed, Request};
use process::Process;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use usage::UsageSample;

/// A running server under test; stopped when dropped.
#[derive(Debug)]
pub struct TestServer {
    name: String,
    addr: IpAddr,
    port: u16,
    mount_port: u16,
    /// `None`: that of NFS, or what a port mapper says.
    lock_port: Option<u16>,
    export: String,
    command: String,
    control: Option<PathBuf>,
    /// Processes that work for the server.
    pids: Vec<u32>,
    process: Process,
    place: Placement,
    // after the process: it must have ended before its files are removed
    _scratch: ScratchDir,
}

impl TestServer {
    /// Its name in tables: `bowline`, `ganesha`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its NFS address, as seen from its own network.
    pub fn nfs(&self) -> SocketAddr {
        SocketAddr::new(self.addr, self.port)
    }

    /// Its NFS address at another of its addresses.
    pub fn nfs_at(&self, addr: IpAddr) -> SocketAddr {
        SocketAddr::new(addr, self.port)
    }

    /// The port of MOUNT.
    pub fn mount_port(&self) -> u16 {
        self.mount_port
    }

    /// The port of the lock manager, if it is known and not that of NFS.
    pub fn lock_port(&self) -> Option<u16> {
        self.lock_port
    }

    /// The path that is mounted.
    pub fn export(&self) -> &str {
        &self.export
    }

    /// The command line that started it, to be repeated by hand.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Its process id; the first, if it has several.
    pub fn pid(&self) -> u32 {
        self.pids.first().copied().unwrap_or_else(|| self.process.pid())
    }

    /// Its network; `None`: that of the thread that started it.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.place.namespace.as_ref()
    }

    /// Its control socket; only Bowline has one.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    /// Its usage so far.
    ///
    /// # Errors
    /// [`ServerError::Died`].
    pub fn reading(&mut self) -> Result<UsageSample, ServerError> {
        self.check()?;
        UsageSample::of(&self.pids).ok_or_else(|| self.process.died(&self.name))
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`ServerError::Died`], with its last output.
    pub fn check(&mut self) -> Result<(), ServerError> {
        if self.process.is_alive() { Ok(()) } else { Err(self.process.died(&self.name)) }
    }

    /// Changes a run-time setting of the running server and gives the value now in force.
    ///
    /// # Errors
    /// [`ServerError::Refused`]: it has no such setting or refuses the value, or is not Bowline.
    pub fn set(&self, key: &str, value: &str) -> Result<String, ServerError> {
        let request = Request::Set { key: key.to_owned(), value: value.to_owned() };
        self.ask::<Changed>(&request).map(|changed| changed.value)
    }

    /// Queries the control socket.
    ///
    /// # Errors
    /// As [`TestServer::set`].
    pub fn ask<T: serde::de::DeserializeOwned>(&self, request: &Request) -> Result<T, ServerError> {
        let refused = |why: String| ServerError::Refused { name: self.name.clone(), why };
        let Some(path) = &self.control else {
            return Err(refused("it has no control socket".into()));
        };
        let client = admin::Client::connect(path);
        client
            .and_then(|mut client| client.ask(request))
            .map_err(|error| refused(error.to_string()))
    }

    /// Stops it: SIGTERM, and SIGKILL after `patience`. Dropping does the same with a patience of a
    /// few seconds.
    ///
    /// # Errors
    /// [`ServerError::Died`] if it had ended already.
    pub fn stop(mut self, patience: Duration) -> Result<(), ServerError> {
        self.check()?;
        self.process.stop(patience);
        Ok(())
    }
}
