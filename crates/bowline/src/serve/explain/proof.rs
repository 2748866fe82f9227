//! The steps of an explanation that look at what the client proves: its certificate, the transport, the flavour, and the
//! principal of the user.

use super::path::User;
use super::steps::{Steps, Stop};
use crate::serve::kerberos::Kerberos;
use admin::api::ExplainQuestion;
use export::{Flavor, Options, Rule, XprtsecModes};
use rpc::{Certificate, Credential, Principal, XprtsecMode};

/// The modes, named as in `xprtsec=`.
const MODES: [XprtsecMode; 3] = [XprtsecMode::None, XprtsecMode::Tls, XprtsecMode::Mtls];
/// The flavours, in the words of `sec=`.
const FLAVORS: [Flavor; 5] =
    [Flavor::Sys, Flavor::None, Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p];

/// A certificate with the name that was asked about, and nothing else.
pub fn certificate(question: &ExplainQuestion) -> Option<Certificate> {
    let name = question.certificate.as_ref()?;
    Some(Certificate {
        subject: format!("CN={name}"),
        common_name: Some(name.clone()),
        issuer: String::new(),
        serial: String::new(),
        names: vec![name.clone()],
        fingerprint: [0; 32],
        not_after: i64::MAX,
    })
}

/// The mode that was asked about.
fn mode(question: &ExplainQuestion) -> Option<XprtsecMode> {
    let named = MODES.into_iter().find(|mode| mode.name() == question.channel);
    named.or_else(|| question.certificate.as_ref().map(|_| XprtsecMode::Mtls))
}

/// Whether the client has shown a certificate, so that its port does not matter.
pub fn is_certified(question: &ExplainQuestion) -> bool {
    mode(question) == Some(XprtsecMode::Mtls)
}

pub fn check_transport(
    options: &Options,
    question: &ExplainQuestion,
    steps: &mut Steps,
) -> Result<(), Stop> {
    let demand = options.xprtsec;
    let mounts = || demand.to_string().replace(':', " or xprtsec=");
    match mode(question) {
        Some(mode) if demand.accepts(mode) => {
            steps.ok("transport", format!("{}, of xprtsec={demand}", mode.name()));
        }
        Some(mode) => {
            let text = format!(
                "{} is not in xprtsec={demand}: mount with -o xprtsec={}, or add it to the rule",
                mode.name(),
                mounts()
            );
            return Err(steps.no("transport", text));
        }
        None if demand == XprtsecModes::ALL => {}
        None if demand.accepts_plain() => {
            steps.ok("transport", format!("any of xprtsec={demand}"));
        }
        None => {
            let text = format!(
                "xprtsec={demand}: only mounts with -o xprtsec={} are answered; `bowline conns` shows what each \
                 connection has",
                mounts()
            );
            steps.note("transport", text);
        }
    }
    Ok(())
}

/// The flavour of the calls, and the options of the rule for it.
pub fn check_flavour<'r>(
    rule: &'r Rule,
    question: &ExplainQuestion,
    kerberos: &Kerberos,
    steps: &mut Steps,
) -> Result<(Flavor, &'r Options), Stop> {
    let flavors = rule.flavors();
    let named = FLAVORS.into_iter().find(|flavor| flavor.to_string() == question.flavor);
    let wanted = named.unwrap_or_else(|| match question.principal {
        Some(_) => flavors.iter().find(|flavor| flavor.is_kerberos()).unwrap_or(Flavor::Krb5),
        None => Flavor::Sys,
    });
    let accepts = |options: &&Options| options.flavors.iter().any(|flavor| flavor == wanted);
    let Some(options) = rule.all_options().find(accepts) else {
        let text = match named {
            None if wanted == Flavor::Sys => {
                format!("sec={flavors}: clients that mount with sec=sys, the default, are refused")
            }
            _ => format!(
                "{wanted} is not in sec={flavors}: mount with one of these, or add it to the rule"
            ),
        };
        return Err(steps.no("flavour", text));
    };
    if let Some(problem) = kerberos.problem().filter(|_| wanted.is_kerberos()) {
        return Err(steps.no("flavour", format!("{problem}; `bowline doctor krb5` looks closer")));
    }
    steps.ok("flavour", format!("{wanted}, of {flavors}{}", access_of(rule, options)));
    Ok((wanted, options))
}

/// What applies to the flavour, where something else applies to others.
fn access_of(rule: &Rule, options: &Options) -> String {
    if rule.other_flavors.is_empty() {
        return String::new();
    }
    format!("; with it {} and {} apply", options.access_word(), options.squash.word())
}

/// The user and groups that the calls of a principal act as.
pub fn user_of_principal(
    options: &Options,
    (name, flavor): (&str, Flavor),
    kerberos: &Kerberos,
    steps: &mut Steps,
) -> Result<User, Stop> {
    if !flavor.is_kerberos() {
        let text = format!("{flavor} proves no principal: ask with --sec krb5, krb5i or krb5p");
        return Err(steps.no("user", text));
    }
    let principals = kerberos.principals().unwrap_or_default();
    let local = sys::gssapi::local_user_of(name)
        .map_err(|error| steps.no("user", format!("{name}: {error}")))?;
    let user = principals.user(name, local.as_deref()).map_err(|error| {
        steps.no("user", format!("the user database does not answer for {name}: {error}"))
    })?;
    let known = user.as_ref().map(|user| (user.uid, user.gid));
    let principal = Principal { flavor: flavor.number(), name: name.as_bytes().into(), user };
    let credential = Credential::Principal(&principal);
    let squashed = options.squash(&credential, None);
    let cred = squashed.cred();
    let acts = User { uid: cred.uid, gid: cred.gid, groups: cred.groups.to_vec() };
    let groups = acts.groups.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let shown = format!("acts as {}:{} with groups {groups}", acts.uid, acts.gid);
    match known {
        None => steps.note(
            "user",
            format!(
                "{name} is nobody on this machine and {shown}: add the user, auth_to_local to krb5.conf, or a row to \
                 the table of principals; root needs a row"
            ),
        ),
        Some(ids) if ids == (acts.uid, acts.gid) => steps.ok("user", format!("{name} {shown}")),
        Some((uid, gid)) => {
            steps.note("user", format!("{name} is {uid}:{gid} and {shown} (squashed)"));
        }
    }
    Ok(acts)
}
