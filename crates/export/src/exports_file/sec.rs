//! `sec=` and the options that may follow it for its flavours only.
//!
//! exports(5) lets `ro`, `rw` and the squash options differ between flavours: after a `sec=` they apply to its flavours
//! until the next one, and those before the first to all. A flavour that is named again gets the further options.
//!
//! `exportfs` differs from that manual in two ways: a flavour begins with what was written last for any flavour, and an
//! option of a client does not reach the flavours of its line's defaults. [`SecGroups`] computes that as well, so that the
//! operator is told where a file means something else there. Options for flavours that are not served are ignored.

use crate::flavors::{Flavor, FlavorList, FlavorName};
use crate::options::{Options, Squash};

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

    const fn squash(self) -> Squash {
        match (self.all_squash, self.root_squash) {
            (true, _) => Squash::All,
            (false, true) => Squash::Root,
            (false, false) => Squash::None,
        }
    }

    /// Whether both have the same effect.
    fn equals(self, other: Self) -> bool {
        (self.read_only, self.squash()) == (other.read_only, other.squash())
    }
}

/// The position in a list of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListPosition {
    /// Before its first `sec=`: options apply to all flavours.
    BeforeSec,
    /// After one with a served flavour: they apply to the flavours that are marked.
    Served,
    /// After one without a served flavour.
    NotServed,
}

/// A flavour of the list, and what applies to it.
#[derive(Debug, Clone, Copy)]
struct FlavorAccess {
    flavor: Flavor,
    access: Access,
    /// What `exportfs` makes of the same options.
    by_exportfs: Access,
    /// Whether the last `sec=` names it.
    is_marked: bool,
}

/// The `sec=` options of one client rule, in the order written.
#[derive(Debug, Clone)]
pub(super) struct SecGroups {
    position: ListPosition,
    /// What was written before the first `sec=`: what a flavour begins with.
    base: Access,
    /// What was written last: what a flavour begins with by `exportfs`.
    last: Access,
    flavors: Vec<FlavorAccess>,
    /// Whether there was a `sec=`.
    given: bool,
}

impl Default for SecGroups {
    fn default() -> Self {
        Self {
            position: ListPosition::BeforeSec,
            base: Access::DEFAULT,
            last: Access::DEFAULT,
            flavors: Vec::new(),
            given: false,
        }
    }
}

impl SecGroups {
    /// These as the defaults of options that follow, which apply to all flavours up to a `sec=`. What the defaults say last
    /// is what the flavours of a client begin with.
    pub fn into_defaults(mut self) -> Self {
        (self.position, self.base) = (ListPosition::BeforeSec, self.last);
        self
    }

    /// Applies an option; false if it is for flavours that are not served.
    pub fn apply(&mut self, change: fn(&mut Access)) -> bool {
        match self.position {
            ListPosition::NotServed => return false,
            ListPosition::BeforeSec => {
                change(&mut self.base);
                self.flavors.iter_mut().for_each(|flavor| change(&mut flavor.access));
            }
            ListPosition::Served => {
                for flavor in self.flavors.iter_mut().filter(|flavor| flavor.is_marked) {
                    change(&mut flavor.access);
                    change(&mut flavor.by_exportfs);
                }
            }
        }
        change(&mut self.last);
        true
    }

    /// Begins a group with the flavours of a `sec=`; returns the names that are not served.
    ///
    /// # Errors
    /// The error in the value.
    pub fn begin(&mut self, value: &[u8]) -> Result<String, String> {
        let mut not_served = Vec::new();
        self.position = ListPosition::NotServed;
        self.flavors.iter_mut().for_each(|flavor| flavor.is_marked = false);
        for name in value.split(|b| *b == b':') {
            match FlavorName::of(name) {
                FlavorName::Served(flavor) => {
                    self.mark(flavor);
                    self.position = ListPosition::Served;
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
        Ok(not_served.join(", "))
    }

    /// Marks a flavour, which is added if it is not in the list.
    fn mark(&mut self, flavor: Flavor) {
        match self.flavors.iter_mut().find(|known| known.flavor == flavor) {
            Some(known) => known.is_marked = true,
            None => self.flavors.push(FlavorAccess {
                flavor,
                access: self.base,
                by_exportfs: self.last,
                is_marked: true,
            }),
        }
    }

    /// Checks the whole list; returns a note if `exportfs` understands it otherwise.
    ///
    /// # Errors
    /// No flavour is left.
    pub fn end(&self) -> Result<Option<String>, String> {
        if self.given && self.flavors.is_empty() {
            return Err(
                "none of these security flavours is served: add sys, none, krb5, krb5i or krb5p"
                    .to_owned(),
            );
        }
        let differs = |flavor: &&FlavorAccess| !flavor.access.equals(flavor.by_exportfs);
        let names: Vec<String> =
            self.flavors.iter().filter(differs).map(|flavor| flavor.flavor.to_string()).collect();
        Ok((!names.is_empty()).then(|| {
            format!(
                "for {} exportfs understands ro, rw and the squash options otherwise (what was written for other \
                 flavours last); write all of them behind each sec=",
                names.join(", ")
            )
        }))
    }

    /// The options of the rule, whose other options are these: of the first flavours, and of flavours after them with
    /// another access.
    pub fn options(&self, common: Options) -> (Options, Vec<Options>) {
        let with = |access: Access, flavors: FlavorList| Options {
            read_only: access.read_only,
            squash: access.squash(),
            flavors,
            rule_flavors: None,
            ..common
        };
        let mut all = FlavorList::EMPTY;
        let mut runs: Vec<(Access, FlavorList)> = Vec::new();
        for FlavorAccess { flavor, access, .. } in &self.flavors {
            all.add(*flavor);
            match runs.last_mut().filter(|(last, _)| last.equals(*access)) {
                Some((_, list)) => list.add(*flavor),
                None => {
                    let mut list = FlavorList::EMPTY;
                    list.add(*flavor);
                    runs.push((*access, list));
                }
            }
        }
        match runs.split_first() {
            None => (with(self.base, FlavorList::DEFAULT), Vec::new()),
            Some(((access, flavors), [])) => (with(*access, *flavors), Vec::new()),
            Some(((access, flavors), others)) => {
                let rule_flavors = Some(all);
                let first = Options { rule_flavors, ..with(*access, *flavors) };
                let of = |(access, flavors): &(Access, FlavorList)| Options {
                    rule_flavors,
                    ..with(*access, *flavors)
                };
                (first, others.iter().map(of).collect())
            }
        }
    }
}
