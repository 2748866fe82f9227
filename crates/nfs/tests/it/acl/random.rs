//! Random lists, and what the wire and getfacl make of them. Nothing of the server is used.

use proto::nfsacl::{AclEntry, kind};

/// Users and groups that lists name; callers have both ids the same.
pub const IDS: [u32; 5] = [4001, 4002, 4003, 4004, 4005];

/// xorshift64.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// One list: permissions of each tag.
#[derive(Debug, Clone)]
pub struct List {
    owner: u32,
    users: Vec<(u32, u32)>,
    group: u32,
    groups: Vec<(u32, u32)>,
    mask: Option<u32>,
    other: u32,
}

impl List {
    fn random(random: &mut Random) -> Self {
        let mut bits = || random.below(8) as u32;
        let (owner, group, other, mask, choice) = (bits(), bits(), bits(), bits(), bits());
        let mut named = |least: u64| -> Vec<(u32, u32)> {
            IDS.into_iter()
                .filter_map(|id| {
                    let bits = random.below(8) as u32;
                    (random.below(3) >= least).then_some((id, bits))
                })
                .collect()
        };
        // some lists name nobody, with a mask or without
        let least = if choice < 2 { 3 } else { 1 };
        let (users, groups) = (named(least), named(least));
        let mask = (choice != 0 || !users.is_empty() || !groups.is_empty()).then_some(mask);
        let list = Self { owner, users, group, groups, mask, other };
        // four entries whose mask is the group's are the three of a mode
        let is_mode = list.users.is_empty() && list.groups.is_empty() && list.mask == Some(group);
        if is_mode { Self { mask: None, ..list } } else { list }
    }

    /// As getfacl has it.
    fn text(&self, prefix: &str) -> Vec<String> {
        let rwx = |bits: u32| {
            let letter = |bit, letter| if bits & bit == 0 { '-' } else { letter };
            format!("{}{}{}", letter(4, 'r'), letter(2, 'w'), letter(1, 'x'))
        };
        let line = |tag: &str, id: &str, bits| format!("{prefix}{tag}:{id}:{}", rwx(bits));
        let named = |tag, list: &[(u32, u32)]| -> Vec<String> {
            list.iter().map(|(id, bits)| line(tag, &id.to_string(), *bits)).collect()
        };
        let mut lines = vec![line("user", "", self.owner)];
        lines.extend(named("user", &self.users));
        lines.push(line("group", "", self.group));
        lines.extend(named("group", &self.groups));
        lines.extend(self.mask.map(|bits| line("mask", "", bits)));
        lines.push(line("other", "", self.other));
        lines
    }

    /// As GETACL has it, of an object of root's: with a mask always.
    fn wire(&self, flag: u32) -> Vec<AclEntry> {
        let entry = |kind, id, permissions| AclEntry { kind: kind | flag, id, permissions };
        let named = |kind, list: &[(u32, u32)]| -> Vec<AclEntry> {
            list.iter().map(|(id, bits)| entry(kind, *id, *bits)).collect()
        };
        let mut list = vec![entry(kind::USER_OBJ, 0, self.owner)];
        list.extend(named(kind::USER, &self.users));
        list.push(entry(kind::GROUP_OBJ, 0, self.group));
        list.extend(named(kind::GROUP, &self.groups));
        list.push(entry(kind::CLASS_OBJ, 0, self.mask.unwrap_or(self.group)));
        list.push(entry(kind::OTHER_OBJ, 0, self.other));
        list
    }
}

/// Both lists of an object.
#[derive(Debug, Clone)]
pub struct Lists {
    access: List,
    default: Option<List>,
}

impl Lists {
    pub fn random(random: &mut Random, is_dir: bool) -> Self {
        let access = List::random(random);
        let has_default = is_dir && random.below(3) != 0;
        Self { access, default: has_default.then(|| List::random(random)) }
    }

    /// As getfacl has them.
    pub fn text(&self) -> Vec<String> {
        let default = self.default.as_ref().map(|list| list.text("default:"));
        let mut lines = self.access.text("");
        lines.extend(default.unwrap_or_default());
        lines
    }

    /// As GETACL has them.
    pub fn shown(&self) -> (Vec<AclEntry>, Vec<AclEntry>) {
        let default = self.default.as_ref().map(|list| list.wire(kind::DEFAULT));
        (self.access.wire(0), default.unwrap_or_default())
    }

    /// For SETACL: in an order that depends on `seed`, and with ids where they mean nothing.
    pub fn wire(&self, seed: u64) -> (Vec<AclEntry>, Vec<AclEntry>) {
        let mut random = Random::new(seed);
        let mut mixed = |mut list: Vec<AclEntry>| {
            for at in (1..list.len()).rev() {
                list.swap(at, random.below(at as u64 + 1) as usize);
            }
            for entry in &mut list {
                if entry.kind & (kind::USER | kind::GROUP) == 0 {
                    entry.id = random.below(9) as u32;
                }
            }
            list
        };
        let (access, default) = self.shown();
        (mixed(access), mixed(default))
    }

    /// The permission bits of the object's mode.
    pub fn mode(&self) -> u32 {
        let List { owner, group, mask, other, .. } = self.access;
        owner << 6 | mask.unwrap_or(group) << 3 | other
    }
}
