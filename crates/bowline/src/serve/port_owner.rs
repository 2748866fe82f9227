//! Finds the process that uses a port, through `/proc`.

use std::fs;
use std::sync::OnceLock;

/// What was found while the process could still look at others.
static FOUND: OnceLock<Vec<(u16, String)>> = OnceLock::new();

/// Looks who uses ports that the server wants, to be called before it gives up the right to look at other processes:
/// [`owner_of`] then knows these.
pub fn look_ahead(ports: &[u16]) {
    let found = ports.iter().filter_map(|port| Some((*port, owner_of(*port)?)));
    // nothing was found before
    let _first = FOUND.set(found.collect());
}

fn found_ahead(port: u16) -> Option<String> {
    let found = FOUND.get()?.iter().find(|(known, _)| *known == port);
    found.map(|(_, owner)| owner.clone())
}

/// The name and id of the process with a socket bound to `port`, as far as this user may see it.
pub fn owner_of(port: u16) -> Option<String> {
    let tables = ["tcp", "tcp6", "udp", "udp6"];
    let inode = tables.iter().find_map(|table| {
        let text = fs::read_to_string(format!("/proc/net/{table}")).ok()?;
        let tcp = table.starts_with("tcp");
        text.lines().skip(1).find_map(|line| bound(line, port, tcp))
    })?;
    if inode == 0 {
        return Some("the kernel (perhaps its NFS server)".into());
    }
    process_with(inode)
        .or_else(|| found_ahead(port))
        .or_else(|| Some("a process of another user".into()))
}

/// The socket inode of a table's line if it is bound to `port` and, for TCP, listening.
fn bound(line: &str, port: u16, tcp: bool) -> Option<u64> {
    const LISTEN: &str = "0A";
    let mut words = line.split_whitespace();
    let (_, local_port) = words.nth(1)?.rsplit_once(':')?;
    let state = words.nth(1)?;
    if u16::from_str_radix(local_port, 16).ok()? != port || (tcp && state != LISTEN) {
        return None;
    }
    words.nth(5)?.parse().ok()
}

/// The process with a descriptor of this socket.
fn process_with(inode: u64) -> Option<String> {
    let target = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            if fs::read_link(descriptor.path()).is_ok_and(|to| to.as_os_str() == target.as_str()) {
                let comm = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Some(format!("{} (process {pid})", comm.trim_end()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{bound, owner_of};

    #[test]
    fn a_line_of_the_table_is_parsed() {
        let line = "   1: 0100007F:0801 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                    0        0 4711 1 0000000000000000 100 0 0 10 0";
        assert_eq!(bound(line, 2049, true), Some(4711));
        assert_eq!(bound(line, 2050, true), None);
        assert_eq!(bound(&line.replace(" 0A ", " 01 "), 2049, true), None);
        assert_eq!(bound("nonsense", 2049, true), None);
    }

    #[test]
    fn the_owner_of_a_port_is_this_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let owner = owner_of(port).unwrap();
        assert!(owner.contains(&format!("process {}", std::process::id())), "{owner}");
    }
}
