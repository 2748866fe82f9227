//! The suite that every backend passes: the contract of the trait, call by call.
//!
//! A backend's own tests call [`run`] with a function that creates fresh, empty backends; each
//! check gets one of its own. A check that fails panics with its name and the observed result.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::needless_pass_by_value,
    reason = "test support: a failed check ends the test"
)]

mod acls;
mod data;
mod directories;
mod fixture;
mod links;
mod listing;
mod locks;
mod names;
mod objects;
mod opens;
mod permissions;
mod quotas;
mod spaces;
mod xattrs;

pub use fixture::Capabilities;
use fixture::{Check, Fixture};

use crate::Backend;

/// Runs every check that the capabilities allow; returns their names.
pub fn run(fresh: &dyn Fn() -> Box<dyn Backend>, capabilities: Capabilities) -> Vec<&'static str> {
    let mut all: Vec<Check> = Vec::new();
    for group in [
        objects::CHECKS,
        data::CHECKS,
        names::CHECKS,
        links::CHECKS,
        listing::CHECKS,
        opens::CHECKS,
    ] {
        all.extend_from_slice(group);
    }
    if capabilities.acts_as_callers {
        all.extend_from_slice(permissions::CHECKS);
        all.extend_from_slice(opens::BY_CALLERS);
    }
    let optional = fresh();
    if optional.locks().is_some() {
        all.extend_from_slice(locks::CHECKS);
    }
    if optional.leases().is_some_and(crate::Leases::holds_directories) {
        all.extend_from_slice(directories::CHECKS);
    }
    if optional.acls().is_some() {
        all.extend_from_slice(acls::CHECKS);
        if capabilities.acts_as_callers {
            all.extend_from_slice(acls::BY_CALLERS);
        }
    }
    if optional.quotas().is_some() {
        all.extend_from_slice(quotas::CHECKS);
        if capabilities.acts_as_callers {
            all.extend_from_slice(quotas::BY_CALLERS);
        }
    }
    if optional.space().is_some() {
        all.extend_from_slice(spaces::CHECKS);
        if capabilities.acts_as_callers {
            all.extend_from_slice(spaces::BY_CALLERS);
        }
        if optional.limits().clone_block.is_some() {
            all.extend_from_slice(spaces::OF_CLONES);
        }
    }
    if optional.xattrs().is_some() {
        all.extend_from_slice(xattrs::CHECKS);
        if capabilities.acts_as_callers {
            all.extend_from_slice(xattrs::BY_CALLERS);
        }
    }
    drop(optional);
    for (name, check) in &all {
        let fixture = Fixture::new(fresh(), capabilities);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&fixture)));
        if let Err(cause) = result {
            eprintln!("conformance: {name} failed");
            std::panic::resume_unwind(cause);
        }
    }
    all.into_iter().map(|(name, _)| name).collect()
}

/// Names each function of a list.
macro_rules! checks {
    ($($name:ident,)*) => {
        /// The checks of this file.
        pub const CHECKS: &[super::Check] = &[$((stringify!($name), $name),)*];
    };
}
pub(crate) use checks;
