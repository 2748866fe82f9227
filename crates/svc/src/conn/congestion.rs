//! Which congestion control connections have.
//!
//! The system's own choice is right where connections share a link with others. Where both ends are on this
//! machine there is no link, and an algorithm that paces (BBR) has nothing to find out: its timers between sends
//! cost two and a half times the CPU of a READ of 1 MiB. [`Congestion::Auto`] gives local clients another.
//!
//! The kernel decides when the client's first packets come, before the connection is accepted, and a connection
//! that has begun to pace goes on with it whatever is set later. So the setting is made on listeners; a
//! connection from another machine that has what was meant for local ones gets the system's when it is
//! accepted. A route's own setting (`ip route ... congctl`) takes precedence, and is not changed.
//!
//! [`CongestionSetting::state`] is locked when a connection is accepted, for one or two socket options, and when
//! the setting changes.

use crate::conn::byte_stream::ByteStream;
use crate::errors::SettingError;
use crate::sync::lock;
use rpc::Peer;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Mutex;
use sys::tcp;

/// An algorithm that every kernel has and allows to everybody, and that does not pace.
const PLAIN: &str = "reno";
/// How the names of those begin that pace (`bbr`, `bbr2`).
const PACING: &str = "bbr";

/// The congestion control of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Congestion {
    /// The system's; for clients on this machine one that does not pace.
    Auto,
    /// The system's.
    System,
    /// One by its name.
    Named(String),
}

/// What is chosen now.
pub(crate) struct CongestionSetting {
    state: Mutex<State>,
}

struct State {
    wanted: Congestion,
    /// What was set on listeners last; `None`: nothing, so that they follow the system.
    listener_name: Option<String>,
}

impl CongestionSetting {
    pub const fn new(wanted: Congestion) -> Self {
        Self { state: Mutex::new(State { wanted, listener_name: None }) }
    }

    /// Sets listeners up before the first connection comes.
    ///
    /// # Errors
    /// As [`CongestionSetting::change`].
    pub fn prepare<'s>(
        &self,
        listeners: impl Iterator<Item = &'s TcpListener>,
    ) -> Result<(), SettingError> {
        let mut state = lock(&self.state);
        // Where the system's cannot be found out, it stays in force.
        if let Some(name) = for_listeners(&state.wanted).unwrap_or_default() {
            check_available(&name)?;
            listeners.for_each(|listener| _ = tcp::set_congestion(listener, &name));
            state.listener_name = Some(name);
        }
        Ok(())
    }

    /// Changes it for listeners; what open connections are to have. It has to be set on connections that are in the
    /// table when this returns; later ones get it by [`CongestionSetting::set_up`].
    ///
    /// # Errors
    /// The kernel has none of that name, or this process may not use it; nothing has changed then.
    pub fn change<'s>(
        &self,
        wanted: Congestion,
        listeners: impl Iterator<Item = &'s TcpListener>,
    ) -> Result<CongestionNames, SettingError> {
        let cannot = |error| SettingError(format!("which one is the system's? {error}"));
        let system = tcp::system_congestion().map_err(cannot)?;
        let listener_name = for_listeners(&wanted).map_err(cannot)?;
        let remote = match &wanted {
            Congestion::Named(name) => name.clone(),
            Congestion::Auto | Congestion::System => system.clone(),
        };
        check_available(&remote)?;
        let local = listener_name.clone().unwrap_or_else(|| remote.clone());
        let mut state = lock(&self.state);
        // Once it was set, they do not follow the system any more.
        if let Some(listener_name) =
            listener_name.or_else(|| state.listener_name.is_some().then_some(system))
        {
            listeners.for_each(|listener| _ = tcp::set_congestion(listener, &listener_name));
            state.listener_name = Some(listener_name);
        }
        state.wanted = wanted;
        Ok(CongestionNames { local, remote })
    }

    /// Gives a connection that was just accepted, and is in the table, what it is to have.
    pub fn set_up(&self, stream: &ByteStream, peer: Peer) {
        let state = lock(&self.state);
        // Whatever fails here, the connection has ended or has a working congestion control.
        let _ = match (&state.wanted, &state.listener_name) {
            (Congestion::Named(name), _) => tcp::set_congestion(stream.options(), name),
            (Congestion::Auto, Some(listener_name)) if listener_name == PLAIN && is_local(peer) => {
                Ok(())
            }
            (Congestion::Auto | Congestion::System, Some(listener_name)) => {
                as_system(stream.options(), listener_name)
            }
            (Congestion::Auto | Congestion::System, None) => Ok(()),
        };
    }
}

/// What connections that are open are to have after a change.
pub(crate) struct CongestionNames {
    local: String,
    remote: String,
}

impl CongestionNames {
    /// Sets it on a connection.
    pub fn apply(&self, stream: &ByteStream, peer: Peer) {
        // It may have ended.
        let _ = tcp::set_congestion(
            stream.options(),
            if is_local(peer) { &self.local } else { &self.remote },
        );
    }
}

/// Whether connections can have it.
fn check_available(name: &str) -> Result<(), SettingError> {
    tcp::try_congestion(name).map_err(|error| {
        let there = tcp::congestions();
        SettingError(format!("congestion control {name:?}: {error}; there are {there}"))
    })
}

/// What is to be set on listeners; `None`: nothing, they follow the system.
fn for_listeners(wanted: &Congestion) -> io::Result<Option<String>> {
    Ok(match wanted {
        Congestion::Named(name) => Some(name.clone()),
        Congestion::Auto if is_pacing(&tcp::system_congestion()?) => Some(PLAIN.to_owned()),
        Congestion::Auto | Congestion::System => None,
    })
}

fn is_pacing(name: &str) -> bool {
    name.starts_with(PACING)
}

/// Whether both ends are on this machine.
fn is_local(peer: Peer) -> bool {
    peer.addr.ip() == peer.local.ip() || peer.addr.ip().is_loopback()
}

/// Sets the system's congestion control on a connection that has what was set on its listener.
fn as_system(stream: impl AsFd, listener_name: &str) -> io::Result<()> {
    let system = tcp::system_congestion()?;
    if system != listener_name && tcp::congestion(&stream)? == listener_name {
        tcp::set_congestion(&stream, &system)?;
    }
    Ok(())
}
