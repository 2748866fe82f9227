//! RPC with TLS of a running server: its certificates, which are read again on a reload and when their files change,
//! and the warnings before they expire.
//!
//! The lock guards what was last seen of the files, and what was last said; nothing but a look at the files is done
//! under it, by one thread.

use super::control::ServerControl;
use anyhow::{Context, anyhow};
use export::Exports;
use rpc::Dispatcher;
use rpc::auth::AuthTls;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use svc::TlsConfig;
use tls::{FileError, Loaded, ServerTls};

use crate::config::ServeConfig;
use crate::settings::TlsDemand;

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Days before its end at which a certificate is warned of.
const WARN_DAYS: [i64; 5] = [30, 14, 7, 3, 1];
const DAY_S: i64 = 24 * 60 * 60;

/// Certificates of a running server.
pub struct TlsService {
    pub tls: Arc<ServerTls>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// What the files were when they were last read.
    read: Vec<FileState>,
    /// What they were at the last look.
    last: Vec<FileState>,
    /// Why they could not be read again.
    fault: Option<String>,
    /// The smallest of [`WARN_DAYS`] that was warned of for the certificate with this end.
    warned: Option<(i64, i64)>,
}

/// What tells one state of a file from another.
type FileState = Option<(u64, u64, i64, i64, u64)>;

impl TlsService {
    /// Reads the certificates, and offers TLS to clients.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub fn open(
        config: &ServeConfig,
        exports: &Exports,
        dispatcher: &Dispatcher,
    ) -> anyhow::Result<Option<Self>> {
        let demand = config.values.tls;
        let Some(files) = &config.tls else {
            return match demand {
                TlsDemand::Allow => Ok(None),
                TlsDemand::Require => Err(anyhow!(
                    "tls=require needs a certificate: name it with --tls-cert and --tls-key; `bowline tls init` makes one"
                )),
            };
        };
        let tls = ServerTls::open(files.clone(), Arc::clone(exports.certificates()))?;
        let auth = dispatcher.auth();
        auth.add(Box::new(AuthTls)).context("cannot offer TLS")?;
        if demand == TlsDemand::Require {
            auth.demand_tls().context("cannot demand TLS")?;
        }
        let read = states(&tls);
        let seen = Seen { last: read.clone(), read, ..Seen::default() };
        Ok(Some(Self { tls: Arc::new(tls), seen: Mutex::new(seen) }))
    }

    /// What the server is started with.
    pub fn config(&self, config: &ServeConfig) -> TlsConfig {
        TlsConfig {
            server: Arc::clone(&self.tls),
            kernel: config.values.ktls,
            threads: config.values.tls_handshake_threads.0,
            handshake_max: HANDSHAKE_MAX,
        }
    }

    /// Reads the files again, and closes connections whose certificates are not accepted any more; notes about it.
    ///
    /// # Errors
    /// Why they cannot be used; those that were read before stay in force.
    pub fn reload(&self, control: &ServerControl) -> Result<Vec<String>, FileError> {
        let (before, now) = (self.tls.current(), states(&self.tls));
        let loaded = self.tls.reload();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.read, seen.last) = (now.clone(), now);
        seen.fault = loaded.as_ref().err().map(ToString::to_string);
        drop(seen);
        let loaded = loaded?;
        let mut notes = Vec::new();
        if before.certificate.fingerprint != loaded.certificate.fingerprint {
            notes.push(format!("the certificate is now {}", described(&loaded)));
        }
        let closed = control.server(|server| server.recheck_certificates(&self.tls));
        if closed > 0 {
            notes.push(format!(
                "{closed} connections were closed because their certificates are no longer accepted"
            ));
        }
        Ok(notes)
    }

    /// Whether the files have changed and are quiet: at two looks the same, and not what was read.
    fn have_changed(&self) -> bool {
        let now = states(&self.tls);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = seen.last == now;
        let changed = seen.read != now;
        seen.last = now;
        quiet && changed
    }

    /// Looks at the files and at the certificate's end; called every few seconds.
    pub fn look(&self, control: &ServerControl) {
        if self.have_changed() {
            match self.reload(control) {
                Ok(notes) => {
                    tracing::info!("TLS files reloaded after a change");
                    notes.iter().for_each(|note| tracing::info!("{note}"));
                }
                Err(error) => tracing::error!(
                    "the changed TLS files cannot be used; the previous certificates stay in use: {error}"
                ),
            }
        }
        let current = self.tls.current();
        let (end, days) = (current.certificate.not_after, self.days_left());
        let Some(step) = WARN_DAYS.iter().rev().copied().find(|step| days < *step) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.warned.is_none_or(|(of, at)| of != end || step < at) {
            seen.warned = Some((end, step));
            drop(seen);
            tracing::warn!("{}", expiry(days));
        }
    }

    /// Whole days until the certificate ends; negative after it.
    pub fn days_left(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let end = self.tls.current().certificate.not_after;
        end.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX)).div_euclid(DAY_S)
    }

    /// When the certificate ends, in seconds since 1970.
    pub fn end(&self) -> i64 {
        self.tls.current().certificate.not_after
    }

    /// What is wrong now.
    pub fn warnings(&self) -> Vec<String> {
        let days = self.days_left();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = seen.fault.iter().map(|why| {
            format!("the TLS files cannot be used; the previous certificates stay in use: {why}")
        });
        let first = WARN_DAYS.first().copied().unwrap_or_default();
        fault.chain((days < first).then(|| expiry(days))).collect()
    }
}

/// The certificate for people.
fn described(loaded: &Loaded) -> String {
    let names = loaded.certificate.names.join(", ");
    format!("that of {names}, serial number {}", loaded.certificate.serial)
}

fn expiry(days: i64) -> String {
    let renew = "create a new one (`bowline tls init` with the same names, or the tool that created it); it is read without \
                 a restart";
    match days {
        i64::MIN..0 => format!("the TLS certificate has expired, and clients refuse it: {renew}"),
        0 => format!("the TLS certificate expires within a day: {renew}"),
        days => format!("the TLS certificate expires in {days} days: {renew}"),
    }
}

/// What the files are now; of a directory, itself and what is in it.
fn states(tls: &ServerTls) -> Vec<FileState> {
    let mut all = Vec::new();
    for path in tls.files().all() {
        all.push(state(path));
        let mut inside: Vec<_> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        inside.sort();
        all.extend(inside.iter().map(|path| state(path)));
    }
    all
}

fn state(path: &Path) -> FileState {
    let seen = std::fs::metadata(path).ok()?;
    Some((seen.dev(), seen.ino(), seen.mtime(), seen.mtime_nsec(), seen.size()))
}
