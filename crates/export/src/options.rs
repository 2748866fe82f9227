//! The options of a client for an export.

use crate::buffer_options::{BufferSize, BufferSizes};
use crate::delegate::Delegate;
use crate::flavors::FlavorList;
use crate::xprtsec::XprtsecModes;
use vfs::Durability;

/// `nobody` and `nogroup` on Linux: the default anonymous user and group.
pub const ANONYMOUS_ID: u32 = 65534;

/// The users that are mapped to the anonymous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Squash {
    /// None (`no_root_squash`).
    None,
    /// Root (`root_squash`, the default).
    Root,
    /// All (`all_squash`).
    All,
}

/// The options of one client rule, with exports(5)'s defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// Read-only (`ro`, the default).
    pub read_only: bool,
    /// The users that are mapped to the anonymous user.
    pub squash: Squash,
    /// The anonymous user.
    pub anonuid: u32,
    /// The anonymous group.
    pub anongid: u32,
    /// Whether changes are on disk before they are answered (`sync`, the default).
    pub durability: Durability,
    /// Whether the client must use a port below 1024 (`secure`, the default of exports(5)).
    pub secure: bool,
    /// Whether the groups of a user are looked up on this machine instead of taken from the call
    /// (`manage-gids`).
    pub manage_gids: bool,
    /// Whether clients may see and set ACLs (`acl`, the default); they apply to every check anyway.
    pub acl: bool,
    /// Whether locking a file requires read permission or ownership (`auth_nlm`, `secure_locks`, the default).
    pub auth_nlm: bool,
    /// Whether file systems that are mounted below the export are part of it (`crossmnt`).
    pub crossmnt: bool,
    /// Whether the export is part of the one around it for clients of versions 2 and 3 too (`nohide`).
    pub nohide: bool,
    /// Whether version 4 refuses names that are not UTF-8 (`utf8=strict`).
    pub utf8_names: bool,
    /// How old attributes and names may be that the server has read before, in ms; 0, the default, is not at all
    /// (`attr-cache=`).
    pub attr_cache_ms: u32,
    /// Which delegations clients of version 4 get, if not those of the setting (`delegations=`).
    pub delegations: Option<Delegate>,
    /// Whether files that are open outlive their last name and a restart of the server, if it is not as the setting says
    /// (`preserve-unlinked=`).
    pub preserve_unlinked: Option<bool>,
    /// The accepted security flavours of calls (`sec=`).
    pub flavors: FlavorList,
    /// All flavours of the rule, if some have other options than these ([`Rule::other_flavors`](crate::Rule)).
    pub rule_flavors: Option<FlavorList>,
    /// The accepted transport security of calls (`xprtsec=`).
    pub xprtsec: XprtsecModes,
    /// Buffer sizes of the connections over which the client uses the export (`tcp-rcvbuf=`,
    /// `tcp-sndbuf=`).
    pub buffers: BufferSizes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: true,
            squash: Squash::Root,
            anonuid: ANONYMOUS_ID,
            anongid: ANONYMOUS_ID,
            durability: Durability::Sync,
            secure: true,
            manage_gids: false,
            acl: true,
            auth_nlm: true,
            crossmnt: false,
            nohide: false,
            utf8_names: false,
            attr_cache_ms: 0,
            delegations: None,
            preserve_unlinked: None,
            flavors: FlavorList::DEFAULT,
            rule_flavors: None,
            xprtsec: XprtsecModes::ALL,
            buffers: BufferSizes::default(),
        }
    }
}

impl Squash {
    /// As exports(5) writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "no_root_squash",
            Self::Root => "root_squash",
            Self::All => "all_squash",
        }
    }
}

impl Options {
    /// `ro` or `rw`.
    pub const fn access_word(&self) -> &'static str {
        if self.read_only { "ro" } else { "rw" }
    }

    /// The options as exports(5) writes them: those that always have a value, and those that differ from
    /// the default. Without `sec=` if other options apply to some flavours of the rule.
    pub fn text(&self) -> String {
        let mut words = vec![self.access_word().to_owned()];
        words.push(if self.durability == Durability::Sync { "sync" } else { "async" }.to_owned());
        words.push(if self.secure { "secure" } else { "insecure" }.to_owned());
        words.push(self.squash.word().to_owned());
        if self.manage_gids {
            words.push("manage-gids".to_owned());
        }
        if !self.acl {
            words.push("no_acl".to_owned());
        }
        if !self.auth_nlm {
            words.push("no_auth_nlm".to_owned());
        }
        for (is_set, word) in
            [(self.crossmnt, "crossmnt"), (self.nohide, "nohide"), (self.utf8_names, "utf8=strict")]
        {
            if is_set {
                words.push(word.to_owned());
            }
        }
        if self.attr_cache_ms > 0 {
            words.push(format!("attr-cache={}", self.attr_cache_ms));
        }
        if let Some(delegations) = self.delegations {
            words.push(format!("delegations={delegations}"));
        }
        if let Some(preserves) = self.preserve_unlinked {
            words.push(format!("preserve-unlinked={}", if preserves { "on" } else { "off" }));
        }
        if self.flavors != FlavorList::DEFAULT && self.rule_flavors.is_none() {
            words.push(format!("sec={}", self.flavors));
        }
        if self.xprtsec != XprtsecModes::ALL {
            words.push(format!("xprtsec={}", self.xprtsec));
        }
        if (self.anonuid, self.anongid) != (ANONYMOUS_ID, ANONYMOUS_ID) {
            words.push(format!("anonuid={},anongid={}", self.anonuid, self.anongid));
        }
        let BufferSizes { receive, send } = self.buffers;
        for (name, size) in [("tcp-rcvbuf", receive), ("tcp-sndbuf", send)] {
            if size != BufferSize::Unset {
                words.push(format!("{name}={size}"));
            }
        }
        words.join(",")
    }
}
