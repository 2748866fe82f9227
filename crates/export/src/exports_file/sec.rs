//! `sec=` and the options that may follow it for its flavours only.
//!
//! exports(5) lets `ro`, `rw` and the squash options differ between flavours: after a `sec=` they
//! apply to its flavours until the next one. Here one client rule has one access for all its
//! flavours, so that options for flavours which are not served are ignored, and different options
//! for served flavours are an error: one of them would get the options of another.

use crate::flavors::{FlavorList, FlavorName};

/// What may differ between flavours. `root_squash` and `all_squash` are switches of their own in
/// exports(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub read_only: bool,
    pub root_squash: bool,
    pub all_squash: bool,
}

impl Access {
    const DEFAULT: Self = Self { read_only: true, root_squash: true, all_squash: false };
}

/// The options after one `sec=`, or those before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Before the first `sec=`: they apply to all flavours.
    BeforeSec,
    /// After one with a served flavour.
    Served,
    /// After one without a served flavour.
    NotServed,
}

/// The `sec=` options of one client rule, in the order written.
#[derive(Debug, Clone, Copy)]
pub(super) struct SecGroups {
    /// The access of the current group, if it is served; else of the one before.
    pub access: Access,
    /// The initial access of each group.
    base: Access,
    group: Group,
    /// The access of the served groups that have ended.
    ended: Option<Access>,
    list: FlavorList,
    /// Whether there was a `sec=`.
    given: bool,
}

impl Default for SecGroups {
    fn default() -> Self {
        Self {
            access: Access::DEFAULT,
            base: Access::DEFAULT,
            group: Group::BeforeSec,
            ended: None,
            list: FlavorList::EMPTY,
            given: false,
        }
    }
}

impl SecGroups {
    /// These as the defaults of options that follow, which apply to all flavours up to a `sec=`.
    pub fn as_defaults(self) -> Self {
        let ended = if self.list.is_empty() { None } else { Some(self.access) };
        Self { group: Group::BeforeSec, base: self.access, ended, ..self }
    }

    /// The flavours that are accepted.
    pub const fn flavors(&self) -> FlavorList {
        if self.given { self.list } else { FlavorList::DEFAULT }
    }

    /// The target of an option; `None` if it is for flavours that are not served.
    pub const fn served_access(&mut self) -> Option<&mut Access> {
        match self.group {
            Group::BeforeSec | Group::Served => Some(&mut self.access),
            Group::NotServed => None,
        }
    }

    /// Begins a group with the flavours of a `sec=`; returns the names that are not served.
    ///
    /// # Errors
    /// The error in the value, or in the group before.
    pub fn begin(&mut self, value: &[u8]) -> Result<String, String> {
        self.end_group()?;
        let mut not_served = Vec::new();
        let mut served = false;
        for name in value.split(|b| *b == b':') {
            match FlavorName::of(name) {
                FlavorName::Served(flavor) => {
                    self.list.add(flavor);
                    served = true;
                }
                FlavorName::NotServed => not_served.push(name.escape_ascii().to_string()),
                FlavorName::Unknown => {
                    let name = name.escape_ascii();
                    return Err(format!(
                        "{name:?} is not a security flavour: write sys, none, krb5, krb5i or krb5p"
                    ));
                }
            }
        }
        self.given = true;
        if served {
            self.group = Group::Served;
            self.access = self.base;
        } else {
            self.group = Group::NotServed;
        }
        Ok(not_served.join(", "))
    }

    /// Ends the last group.
    ///
    /// # Errors
    /// No flavour is left, or groups differ.
    pub fn end(&mut self) -> Result<(), String> {
        self.end_group()?;
        if self.given && self.list.is_empty() {
            return Err(
                "none of these security flavours is served: add sys, none, krb5, krb5i or krb5p"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), String> {
        match self.group {
            // options before the first `sec=` apply to flavours of the defaults, too
            Group::BeforeSec => {
                self.base = self.access;
                self.ended = self.ended.map(|_| self.access);
            }
            Group::NotServed => {}
            Group::Served => match self.ended {
                Some(ended) if ended != self.access => {
                    return Err(
                        "ro, rw and squash options that differ between security flavours are \
                                not in this version: write them before the first sec="
                            .to_owned(),
                    );
                }
                Some(_) | None => self.ended = Some(self.access),
            },
        }
        Ok(())
    }
}
