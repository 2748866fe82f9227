//! Whether the kernel takes over the records of TLS connections: the setting, what this kernel can do, and the hand-over of
//! a session after its handshake.
//!
//! What the kernel can do is found out at the start, and again when the setting is changed. A socket is made ready before
//! the session gives its keys away, so that a kernel without TLS leaves the session as it is. If the kernel refuses the keys
//! themselves, the connection is lost; the next ones are not handed over then.
//!
//! Both directions are handed over: received data is decrypted into the receiver's buffer by one system call, with no
//! session state of this process between the two, and a message that is not data is seen in its place among the data.
//!
//! Lock: guards what was found out; held to read or replace it.

use crate::conn::kernel_records::KernelRecords;
use crate::errors::SettingError;
use crate::sync::lock;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::str::FromStr;
use std::sync::Mutex;
use sys::kernel_tls::{self, Direction, Suite, TrafficKey};
use tls::Session;

/// Whether the kernel encrypts and decrypts TLS records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KernelTlsChoice {
    /// Where it can.
    #[default]
    Auto,
    /// Never.
    Off,
}

impl FromStr for KernelTlsChoice {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => Err(SettingError(format!("{text:?} is none of auto, off"))),
        }
    }
}

impl fmt::Display for KernelTlsChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Off => "off",
        })
    }
}

/// What the kernel can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelTlsState {
    /// The setting is off.
    Off,
    /// It takes connections with these cipher suites over.
    Ready(Vec<Suite>),
    /// It takes none over, for this reason.
    Unusable(String),
}

impl fmt::Display for KernelTlsState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Ready(suites) => {
                let names: Vec<String> = suites.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(", "))
            }
            Self::Unusable(why) => write!(f, "none: {why}"),
        }
    }
}

/// The system calls of a hand-over.
#[derive(Debug, Clone, Copy)]
struct Calls {
    is_available: fn() -> io::Result<()>,
    test: fn(Suite) -> io::Result<()>,
    attach: fn(&TcpStream) -> io::Result<()>,
    set_key: fn(&TcpStream, Direction, &TrafficKey) -> io::Result<()>,
}

const LINUX: Calls = Calls {
    is_available: kernel_tls::is_available,
    test: kernel_tls::test,
    attach: kernel_tls::attach,
    set_key: kernel_tls::set_key,
};

/// Hands sessions over to the kernel.
#[derive(Debug)]
pub(crate) struct KernelTls {
    calls: Calls,
    state: Mutex<KernelTlsState>,
}

/// What became of a session.
pub(crate) enum TakeOverOutcome {
    /// The kernel has it.
    Kernel(KernelRecords),
    /// It goes on in this process.
    Process(Session),
    /// It is lost, for this reason.
    Lost(String),
}

impl KernelTls {
    pub fn new(choice: KernelTlsChoice) -> Self {
        Self::with(choice, LINUX)
    }

    fn with(choice: KernelTlsChoice, calls: Calls) -> Self {
        let own = Self { calls, state: Mutex::new(KernelTlsState::Off) };
        own.set(choice);
        own
    }

    /// Changes the setting for new connections, and finds out again what the kernel can do.
    pub fn set(&self, choice: KernelTlsChoice) {
        let found = match choice {
            KernelTlsChoice::Off => KernelTlsState::Off,
            KernelTlsChoice::Auto => self.calls.look(),
        };
        match &found {
            KernelTlsState::Off => {}
            KernelTlsState::Ready(_) => tracing::info!("TLS records in the kernel: {found}"),
            KernelTlsState::Unusable(why) => {
                tracing::info!("TLS records in this process, not in the kernel: {why}");
            }
        }
        *lock(&self.state) = found;
    }

    /// What the kernel can do.
    pub fn state(&self) -> KernelTlsState {
        lock(&self.state).clone()
    }

    /// Hands a session over, if that is wanted and the kernel can.
    pub fn take_over(&self, tcp: &TcpStream, session: Session) -> TakeOverOutcome {
        let ready = session.kernel_suite().is_some_and(|suite| match &*lock(&self.state) {
            KernelTlsState::Ready(suites) => suites.contains(&suite),
            KernelTlsState::Off | KernelTlsState::Unusable(_) => false,
        });
        if !ready {
            return TakeOverOutcome::Process(session);
        }
        if let Err(error) = (self.calls.attach)(tcp) {
            self.failed(&error);
            return TakeOverOutcome::Process(session);
        }
        let (session, keys) = match session.into_kernel() {
            Ok(given) => given,
            Err(error) => return TakeOverOutcome::Lost(error.to_string()),
        };
        let set = |direction, key| (self.calls.set_key)(tcp, direction, key);
        let both =
            set(Direction::Receive, &keys.receive).and_then(|()| set(Direction::Send, &keys.send));
        if let Err(error) = both {
            self.failed(&error);
            return TakeOverOutcome::Lost(format!("the kernel did not take its keys: {error}"));
        }
        // before Linux 6.0 received data is copied once more
        let _ = kernel_tls::expect_no_padding(tcp);
        TakeOverOutcome::Kernel(KernelRecords::new(session))
    }

    /// Hands no more sessions over, unless the error is one of this connection or will pass.
    fn failed(&self, error: &io::Error) {
        if sys::socket::is_shortage(error) || error.kind() == ErrorKind::NotConnected {
            return;
        }
        let why = reason(error);
        tracing::warn!("TLS records in this process from now on, not in the kernel: {why}");
        *lock(&self.state) = KernelTlsState::Unusable(why);
    }
}

impl Calls {
    fn look(&self) -> KernelTlsState {
        if let Err(error) = (self.is_available)() {
            return KernelTlsState::Unusable(reason(&error));
        }
        let mut fault = None;
        let works = |suite: &Suite| match (self.test)(*suite) {
            Ok(()) => true,
            Err(error) => {
                fault = Some(format!("{suite} cannot be used: {error}"));
                false
            }
        };
        let suites: Vec<Suite> = Suite::ALL.into_iter().filter(works).collect();
        match fault {
            Some(why) if suites.is_empty() => KernelTlsState::Unusable(why),
            _ => KernelTlsState::Ready(suites),
        }
    }
}

/// Finds out what this kernel can do, whatever the setting.
pub fn kernel_tls_of_this_machine() -> KernelTlsState {
    LINUX.look()
}

/// Why the kernel has no TLS, and what can be done about it.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => {
            "its module tls is not loaded (modprobe tls; at each start by the line tls in a file of /etc/modules-load.d)".to_owned()
        }
        _ if sys::kernel_tls::is_unknown(error) => {
            "it is older than Linux 4.13, or a filter of system calls refuses TCP_ULP".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Calls, KernelTls, KernelTlsChoice, KernelTlsState, LINUX};
    use std::io;
    use sys::kernel_tls::Suite;

    const ENOENT: i32 = 2;
    const EINVAL: i32 = 22;
    const ENOPROTOOPT: i32 = 92;
    const EOPNOTSUPP: i32 = 95;
    const ENOTCONN: i32 = 107;
    const ENOMEM: i32 = 12;

    /// All works.
    const WORKS: Calls =
        Calls { is_available: || Ok(()), test: |_| Ok(()), attach: |_| Ok(()), ..LINUX };

    fn fails<const ERROR: i32>() -> io::Result<()> {
        Err(io::Error::from_raw_os_error(ERROR))
    }

    #[test]
    fn a_kernel_without_tls_is_said_with_its_remedy() {
        let state = |is_available| {
            KernelTls::with(KernelTlsChoice::Auto, Calls { is_available, ..WORKS })
                .state()
                .to_string()
        };
        assert!(state(fails::<ENOENT>).contains("modprobe tls"));
        assert!(state(fails::<ENOPROTOOPT>).contains("4.13"));
        assert!(state(fails::<EOPNOTSUPP>).contains("TCP_ULP"));
        assert!(state(fails::<ENOMEM>).contains("memory"));
    }

    #[test]
    fn suites_are_tested_one_by_one() {
        let test = |suite| match suite {
            Suite::Chacha20Poly1305 => fails::<ENOENT>(),
            Suite::Aes128Gcm | Suite::Aes256Gcm => Ok(()),
        };
        let some = KernelTls::with(KernelTlsChoice::Auto, Calls { test, ..WORKS });
        assert_eq!(some.state(), KernelTlsState::Ready(vec![Suite::Aes128Gcm, Suite::Aes256Gcm]));
        assert_eq!(some.state().to_string(), "AES-128-GCM, AES-256-GCM");
        some.set(KernelTlsChoice::Off);
        assert_eq!(some.state(), KernelTlsState::Off);
        let none = Calls { test: |_| fails::<EINVAL>(), ..WORKS };
        let none = KernelTls::with(KernelTlsChoice::Auto, none).state();
        assert!(matches!(none, KernelTlsState::Unusable(_)), "{none}");
    }

    #[test]
    fn a_refusal_that_will_not_pass_ends_hand_overs() {
        let tls = KernelTls::with(KernelTlsChoice::Auto, WORKS);
        let ready = tls.state();
        for passing in [ENOTCONN, ENOMEM] {
            tls.failed(&io::Error::from_raw_os_error(passing));
            assert_eq!(tls.state(), ready);
        }
        for lasting in [ENOENT, ENOPROTOOPT, EOPNOTSUPP, EINVAL] {
            tls.failed(&io::Error::from_raw_os_error(lasting));
            assert!(matches!(tls.state(), KernelTlsState::Unusable(_)));
            tls.set(KernelTlsChoice::Auto);
            assert_eq!(tls.state(), ready, "it is tried again when the setting is set");
        }
    }

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        for text in ["auto", "off"] {
            assert_eq!(text.parse::<KernelTlsChoice>().unwrap().to_string(), text);
        }
        assert!("on".parse::<KernelTlsChoice>().is_err());
    }
}
