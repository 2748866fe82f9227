//! RPCSEC_GSS while an export names a Kerberos flavour: adds the flavour to the dispatcher, replaces it when keytab or
//! principals change, and removes it.
//!
//! Lock: `state`, taken by the start, reloads, and who changes or asks for settings; calls never take it. Files are read
//! while it is held.

use super::line_limiter::LineLimiter;
use crate::settings::Values;
use export::Exports;
use gss::krb5::{Keytab, Krb5, Principals, PrincipalsFile, Sealing};
use gss::{GssCounts, GssRefusal, RpcsecGss};
use rpc::Dispatcher;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The flavour's switch.
pub struct Kerberos {
    dispatcher: Arc<Dispatcher>,
    exports: Arc<Exports>,
    state: Mutex<State>,
}

struct State {
    keytab: Keytab,
    principals: PrincipalsFile,
    sealing: Sealing,
    in_force: Option<InForce>,
    /// Why exports that name Kerberos cannot be used with it.
    problem: Option<String>,
}

/// What the flavour in the dispatcher was made of.
struct InForce {
    keytab: PathBuf,
    principals: Principals,
    sealing: Sealing,
    counts: Box<dyn Fn() -> GssCounts + Send + Sync>,
    /// Who has contexts from where.
    holders: Box<dyn Fn() -> Vec<(IpAddr, String)> + Send + Sync>,
}

impl Kerberos {
    /// Adds the flavour, if an export names it.
    pub fn start(dispatcher: &Arc<Dispatcher>, exports: &Arc<Exports>, values: &Values) -> Self {
        let (keytab, principals) = (values.keytab.clone(), values.principals.clone());
        let sealing = values.gss_sealing;
        let state =
            Mutex::new(State { keytab, principals, sealing, in_force: None, problem: None });
        let (dispatcher, exports) = (Arc::clone(dispatcher), Arc::clone(exports));
        let kerberos = Self { dispatcher, exports, state };
        kerberos.refresh();
        kerberos
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at exports and files again; to be called when they may have changed.
    pub fn refresh(&self) {
        let mut state = self.lock();
        let before = state.problem.take();
        if let Err(problem) = self.apply(&mut state) {
            if before.as_ref() != Some(&problem) {
                tracing::error!("{problem}");
            }
            state.problem = Some(problem);
        }
    }

    /// Takes another keytab; notes for who has set it.
    pub fn set_keytab(&self, keytab: &Keytab) -> Vec<String> {
        self.lock().keytab = keytab.clone();
        self.refresh();
        self.problem().into_iter().collect()
    }

    /// Takes another table of principals; notes for who has set it.
    pub fn set_principals(&self, file: &PrincipalsFile) -> Vec<String> {
        self.lock().principals = file.clone();
        self.refresh();
        self.problem().into_iter().collect()
    }

    /// Has messages protected by another; clients establish their contexts anew. Notes for who has set it.
    pub fn set_sealing(&self, sealing: Sealing) -> Vec<String> {
        self.lock().sealing = sealing;
        self.refresh();
        self.problem().into_iter().collect()
    }

    /// Why Kerberos does not work, though an export names it.
    pub fn problem(&self) -> Option<String> {
        self.lock().problem.clone()
    }

    /// The counts, while the flavour is in force.
    pub fn counts(&self) -> Option<GssCounts> {
        self.lock().in_force.as_ref().map(|in_force| (in_force.counts)())
    }

    /// The principals that have contexts, with the addresses of their clients.
    pub fn holders(&self) -> Vec<(IpAddr, String)> {
        self.lock().in_force.as_ref().map(|in_force| (in_force.holders)()).unwrap_or_default()
    }

    /// The table of principals in force; `None` if Kerberos is not served.
    pub fn principals(&self) -> Option<Principals> {
        self.lock().in_force.as_ref().map(|in_force| in_force.principals.clone())
    }

    /// Adds, replaces or removes the flavour.
    fn apply(&self, state: &mut State) -> Result<(), String> {
        let wanted = self.exports_name_kerberos();
        let Some(keytab) = state.keytab.path().filter(|_| wanted) else {
            self.remove(state);
            let off =
                "exports name krb5, krb5i or krb5p, but Kerberos is off: bowline set keytab=auto";
            return if wanted { Err(off.into()) } else { Ok(()) };
        };
        let principals = match &state.principals {
            PrincipalsFile::Off => Principals::default(),
            PrincipalsFile::File(path) => Principals::read(path)
                .map_err(|error| format!("Kerberos: principals {}: {error}", path.display()))?,
        };
        let sealing = state.sealing;
        let same = |in_force: &InForce| {
            (&in_force.keytab, &in_force.principals, in_force.sealing)
                == (&keytab, &principals, sealing)
        };
        if state.in_force.as_ref().is_some_and(same) {
            return Ok(());
        }
        let krb5 = Krb5::new(&keytab, principals.clone(), sealing).map_err(|error| {
            format!(
                "exports name krb5, krb5i or krb5p, but the keytab {} cannot be used: {error}. Make one with the key \
                 of nfs/NAME, by which clients know this server, and run bowline reload",
                keytab.display()
            )
        })?;
        let flavor = RpcsecGss::new(Box::new(krb5), Arc::new(log_refusals()))
            .map_err(|error| format!("Kerberos: no thread can be started: {error}"))?;
        let (counts, holders) = (Box::new(flavor.counts()), Box::new(flavor.principals()));
        self.remove(state);
        self.dispatcher.auth().add(Box::new(flavor)).map_err(|error| error.to_string())?;
        state.in_force = Some(InForce { keytab, principals, sealing, counts, holders });
        Ok(())
    }

    fn remove(&self, state: &mut State) {
        if state.in_force.take().is_some() {
            drop(self.dispatcher.auth().remove(proto::rpc::flavor::RPCSEC_GSS));
        }
    }

    /// Whether any rule of any export lists a flavour of Kerberos.
    fn exports_name_kerberos(&self) -> bool {
        let table = self.exports.load();
        let named = |export: &Arc<export::Export>| {
            export.rules().iter().any(|rule| rule.flavors().has_kerberos())
        };
        table.exports().iter().any(named)
    }
}

/// Returns a function that logs refusals, at most one line a minute for each client and reason.
fn log_refusals() -> impl Fn(&GssRefusal) + Send + Sync {
    let limiter = LineLimiter::default();
    move |refusal| {
        let GssRefusal { client, of_message, reason } = refusal;
        let Some(left_out) = limiter.due((*client, reason.clone()), Instant::now()) else { return };
        let what = if *of_message { "call dropped" } else { "context refused" };
        tracing::warn!("Kerberos: {client}: {what}: {reason}{left_out}");
    }
}
