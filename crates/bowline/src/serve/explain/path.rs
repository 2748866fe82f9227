//! The steps of `bowline explain` below an export: each directory's right to search, and what the user may do with
//! the object.

use super::steps::{Steps, Stop};
use nfs::mount::components;
use vfs::acl::AclKind;
use vfs::{
    AccessMask, Attr, Backend, Component, Cred, Cx, Durability, Fid, FileType, IgnoreBlocking,
    Right, Status, Want,
};

/// Who calls act as.
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// The other groups.
    pub groups: Vec<u32>,
}

/// The server itself, which MNT looks paths up as.
const SERVER: Cred<'static> = Cred { uid: 0, gid: 0, groups: &[] };

const fn cx(cred: Cred<'_>) -> Cx<'_> {
    Cx {
        cred,
        blocking: &IgnoreBlocking,
        durability: Durability::Sync,
        right: Right::Check,
        attr_cache_ms: 0,
    }
}

/// Follows `below` from the export's root. Without a user only that the path can be mounted is asked.
pub fn walk(
    backend: &dyn Backend,
    below: &[u8],
    user: Option<&User>,
    read_only: bool,
    steps: &mut Steps,
) -> Result<(), Stop> {
    let server = cx(SERVER);
    let mut fid = backend.root();
    let mut shown = String::from("/");
    let mut attr = match backend.getattr(&server, &fid, Want::STAT) {
        Ok(attr) => attr,
        Err(status) => return Err(steps.no("path", format!("the export's root: {status}"))),
    };
    for name in components(below) {
        if let Some(user) = user {
            may_search(backend, &fid, &attr, user, &shown, steps)?;
        }
        let next = join(&shown, name);
        let found = Component::new(name).and_then(|name| backend.lookup(&server, &fid, name));
        let node = match found {
            Ok(found) => found.node,
            Err(status) => return Err(steps.no("path", not_found(&next, status))),
        };
        if node.attr.ftype == FileType::Symlink {
            let text = format!(
                "{next} in the export is a symbolic link, which clients follow themselves: explain the path that it leads to"
            );
            return Err(steps.no("path", text));
        }
        (fid, attr, shown) = (node.fid, node.attr, next);
    }
    if !matches!(attr.ftype, FileType::Directory | FileType::Regular) {
        steps.note("path", format!("{shown} in the export is neither a directory nor a regular file and cannot be mounted"));
    }
    match user {
        None => {
            steps.ok("path", format!("{shown} in the export: {}", mode_text(&attr)));
            Ok(())
        }
        Some(user) => object(backend, &fid, user, read_only, &shown, steps),
    }
}

fn join(dir: &str, name: &[u8]) -> String {
    let separator = if dir.ends_with('/') { "" } else { "/" };
    format!("{dir}{separator}{}", String::from_utf8_lossy(name))
}

fn not_found(path: &str, status: Status) -> String {
    match status {
        Status::Acces => format!(
            "{path} in the export: {status}; if another file system is mounted there, export it by a line of its own"
        ),
        status => format!("{path} in the export: {status}"),
    }
}

fn may_search(
    backend: &dyn Backend,
    dir: &Fid,
    attr: &Attr,
    user: &User,
    shown: &str,
    steps: &mut Steps,
) -> Result<(), Stop> {
    if attr.ftype != FileType::Directory {
        return Err(steps.no("path", format!("{shown} in the export is not a directory")));
    }
    let described =
        || format!("{shown} in the export: {}{}", mode_text(attr), acl_text(backend, dir));
    match backend.access(&cx(cred(user)), dir, AccessMask::LOOKUP) {
        Ok((granted, _)) if granted.has(AccessMask::LOOKUP) => {
            steps.ok("path", format!("{} may be searched", described()));
            Ok(())
        }
        Ok(_) => {
            let text =
                format!("{} gives {}:{} no right to search", described(), user.uid, user.gid);
            Err(steps.no("path", text))
        }
        Err(status) => Err(steps.no("path", format!("{shown} in the export: {status}"))),
    }
}

/// What the user may do with the object at the end.
fn object(
    backend: &dyn Backend,
    fid: &Fid,
    user: &User,
    read_only: bool,
    shown: &str,
    steps: &mut Steps,
) -> Result<(), Stop> {
    let asked = AccessMask::READ
        | AccessMask::LOOKUP
        | AccessMask::MODIFY
        | AccessMask::EXTEND
        | AccessMask::DELETE
        | AccessMask::EXECUTE;
    let (granted, attr) = match backend.access(&cx(cred(user)), fid, asked) {
        Ok(found) => found,
        Err(status) => return Err(steps.no("object", format!("{shown} in the export: {status}"))),
    };
    let words: &[(AccessMask, &str)] = if attr.ftype == FileType::Directory {
        &[
            (AccessMask::READ, "list"),
            (AccessMask::LOOKUP, "search"),
            (AccessMask::MODIFY, "create and remove"),
        ]
    } else {
        &[
            (AccessMask::READ, "read"),
            (AccessMask::MODIFY, "write"),
            (AccessMask::EXECUTE, "execute"),
        ]
    };
    let may = |mask: AccessMask| granted.has(mask) && !(read_only && mask == AccessMask::MODIFY);
    let allowed: Vec<&str> =
        words.iter().filter(|(mask, _)| may(*mask)).map(|(_, word)| *word).collect();
    let mut text = format!("{shown} in the export: {}{}", mode_text(&attr), acl_text(backend, fid));
    text += &match allowed.as_slice() {
        [] => format!(" gives {}:{} no right", user.uid, user.gid),
        some => format!(": {}:{} may {}", user.uid, user.gid, some.join(", ")),
    };
    if read_only && granted.has(AccessMask::MODIFY) {
        text += "; the export is read-only (ro): changes are refused, whatever the mode says";
    }
    if granted.has(AccessMask::READ) {
        steps.ok("object", text);
        Ok(())
    } else {
        Err(steps.no("object", text))
    }
}

fn cred(user: &User) -> Cred<'_> {
    Cred { uid: user.uid, gid: user.gid, groups: &user.groups }
}

/// Whether an ACL decides beside the mode.
fn acl_text(backend: &dyn Backend, fid: &Fid) -> &'static str {
    let acls = backend.acls();
    match acls.map(|acls| acls.acl(&cx(SERVER), fid, AclKind::Access)) {
        Some(Ok(Some(_))) => " with an ACL (getfacl)",
        Some(Ok(None) | Err(_)) | None => "",
    }
}

/// As `ls -l` shows mode and owner, by numbers.
fn mode_text(attr: &Attr) -> String {
    let kind = match attr.ftype {
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Block => 'b',
        FileType::Char => 'c',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::Regular => '-',
    };
    let bit = |bit: u16, letter: char| if attr.mode & bit == 0 { '-' } else { letter };
    let mut text = String::from(kind);
    for shift in [6, 3, 0] {
        text.extend(
            [(4, 'r'), (2, 'w'), (1, 'x')].map(|(mask, letter)| bit(mask << shift, letter)),
        );
    }
    for (mask, name) in [(0o4000, " setuid"), (0o2000, " setgid"), (0o1000, " sticky")] {
        if attr.mode & mask != 0 {
            text += name;
        }
    }
    format!("{text} {}:{}", attr.uid, attr.gid)
}

#[cfg(test)]
mod tests {
    use super::super::steps::Steps;
    use super::{User, walk};
    use vfs::{Backend, Create, Cred, Cx, Durability, IgnoreBlocking, Name, Right, SetAttr};
    use vfs_mem::{MemFs, MemOptions};

    const ROOT: Cx<'static> = Cx {
        cred: Cred { uid: 0, gid: 0, groups: &[] },
        blocking: &IgnoreBlocking,
        durability: Durability::Sync,
        right: Right::Check,
        attr_cache_ms: 0,
    };

    /// `/open/file` (0640, 5:6) and `/closed/file`, whose directory is root's alone.
    fn tree() -> MemFs {
        let fs = MemFs::new(MemOptions::default());
        let with_mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
        fs.setattr(&ROOT, &fs.root(), &with_mode(0o755), None).unwrap();
        for (name, mode) in [(&b"open"[..], 0o755), (b"closed", 0o700)] {
            let name = Name::new(name).unwrap();
            let made = fs.mkdir(&ROOT, &fs.root(), name, &with_mode(mode)).unwrap();
            let dir = made.node.unwrap().fid;
            let attr = SetAttr { uid: Some(5), gid: Some(6), ..with_mode(0o640) };
            fs.create(&ROOT, &dir, Name::new(b"file").unwrap(), Create::Guarded(attr)).unwrap();
        }
        fs
    }

    fn asked(path: &str, uid: u32, gid: u32, read_only: bool) -> (bool, String) {
        let mut steps = Steps::default();
        let user = User { uid, gid, groups: Vec::new() };
        let ended = walk(&tree(), path.as_bytes(), Some(&user), read_only, &mut steps);
        (ended.is_ok(), steps.last_text())
    }

    #[test]
    fn the_last_step_names_the_deciding_mode() {
        let (allowed, text) = asked("/open/file", 5, 1, false);
        assert!(allowed && text.ends_with("-rw-r----- 5:6: 5:1 may read, write"), "{text}");
        let (allowed, text) = asked("/open/file", 7, 6, false);
        assert!(allowed && text.ends_with("7:6 may read"), "{text}");
        let (allowed, text) = asked("/open/file", 5, 6, true);
        assert!(allowed && text.contains("5:6 may read; the export is read-only"), "{text}");
        let (allowed, text) = asked("/open/file", 8, 8, false);
        assert!(!allowed && text.ends_with("gives 8:8 no right"), "{text}");
        let (allowed, text) = asked("/closed/file", 5, 6, false);
        assert!(
            !allowed && text.ends_with("drwx------ 0:0 gives 5:6 no right to search"),
            "{text}"
        );
        let (allowed, text) = asked("/open/none", 5, 6, false);
        assert!(
            !allowed && text == "/open/none in the export: no such file or directory",
            "{text}"
        );
        let (allowed, text) = asked("/open/file/x", 5, 6, false);
        assert!(!allowed && text.ends_with("is not a directory"), "{text}");
    }
}
