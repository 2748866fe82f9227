//! What `doctor` asks of the network of this machine: the port, the port mapper, other lock managers, the firewall,
//! the memory of TCP.

use super::finding::{Finding, within};
use crate::serve::port_owner;
use client::Client;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The network lock manager (RFC 1057's number of it).
const NLM: u32 = 100_021;
/// TCP's memory, in pages, below which a few hundred busy connections are slowed down: 64 MiB of pages of 4 KiB.
const TCP_PAGES_FEW: u64 = 16_384;
/// How long rpcbind may take.
const RPCBIND_PATIENCE: Duration = Duration::from_secs(1);

/// All of them; `server` is the process of a running server.
pub fn findings(port: u16, server: Option<u32>) -> Vec<Finding> {
    vec![port_is_free(port, server), kernel_server(), port_mapper(), firewall(port), tcp_memory()]
}

/// `server` is the process of a server of ours, whatever its name is.
fn port_is_free(port: u16, server: Option<u32>) -> Finding {
    const ABOUT: &str = "port";
    let is_ours = |owner: &String| {
        let is_server = |pid| owner.ends_with(&format!(" (process {pid})"));
        owner.starts_with("bowline ") || server.is_some_and(is_server)
    };
    match port_owner::owner_of(port) {
        None => Finding::ok(ABOUT, format!("{port} is free")),
        Some(owner) if is_ours(&owner) => {
            Finding::ok(ABOUT, format!("{port} is served by {owner}"))
        }
        Some(owner) => Finding::problem(
            ABOUT,
            format!("{port} is used by {owner}"),
            "stop that (systemctl disable --now nfs-server), or choose another with --port",
        ),
    }
}

fn kernel_server() -> Finding {
    const ABOUT: &str = "kernel's server";
    let threads = fs::read_to_string("/proc/fs/nfsd/threads").unwrap_or_default();
    match threads.trim().parse::<u32>() {
        Ok(running) if running > 0 => Finding::problem(
            ABOUT,
            format!("runs with {running} threads"),
            "two NFS servers cannot share the port: systemctl disable --now nfs-server",
        ),
        Ok(_) | Err(_) => Finding::ok(ABOUT, "does not run"),
    }
}

/// Version 3's clients find the lock manager by it.
fn port_mapper() -> Finding {
    const ABOUT: &str = "port mapper";
    let socket = Path::new("/run/rpcbind.sock");
    let asked = within(|| {
        Client::unix(Path::new("/run/rpcbind.sock"), RPCBIND_PATIENCE)
            .and_then(|mut rpcbind| rpcbind.registrations())
    });
    match asked {
        _ if !socket.exists() => match port_owner::owner_of(111) {
            None => Finding::ok(ABOUT, "none runs: --portmap auto answers its port itself"),
            Some(owner) if owner.starts_with("bowline ") => {
                Finding::ok(ABOUT, "is the server's own")
            }
            Some(owner) => Finding::note(
                ABOUT,
                format!("port 111 is used by {owner}, which is not rpcbind"),
                "clients of version 3 then need the option nolock, those of version 4 nothing: start rpcbind, or free the port",
            ),
        },
        Some(Ok(listed)) => match listed.iter().any(|service| service.program == NLM) {
            true if port_owner::owner_of(2049)
                .is_none_or(|owner| !owner.starts_with("bowline ")) =>
            {
                Finding::note(
                    ABOUT,
                    "another lock manager is registered with rpcbind: this machine mounts from NFS servers",
                    "NFSv3 clients of this server then cannot lock: on this machine, mount with version 4 or nolock",
                )
            }
            _ => Finding::ok(ABOUT, "rpcbind answers"),
        },
        Some(Err(_)) | None => Finding::problem(
            ABOUT,
            "rpcbind does not answer on its socket",
            "systemctl restart rpcbind",
        ),
    }
}

/// What nft(8) says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rules {
    /// The program is not there.
    NoProgram,
    /// It gives no rules, with this reason.
    NotTold(String),
    Are(String),
}

/// As far as nft(8) tells root: whether what arrives is dropped unless a rule names the port.
fn firewall(port: u16) -> Finding {
    let asked = within(|| match Command::new("nft").args(["list", "ruleset"]).output() {
        Ok(output) if output.status.success() => {
            Rules::Are(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            Rules::NotTold(told.lines().next().unwrap_or("no reason given").to_owned())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Rules::NoProgram,
        Err(error) => Rules::NotTold(error.to_string()),
    });
    judged(port, asked.unwrap_or_else(|| Rules::NotTold("nft does not answer".to_owned())))
}

fn judged(port: u16, rules: Rules) -> Finding {
    const ABOUT: &str = "firewall";
    match rules {
        Rules::NoProgram => Finding::note(
            ABOUT,
            "not checked: its rules are read with nft, which is not installed",
            format!(
                "apt install nftables (it changes no rules) and run this again as root, or make sure that packets to port {port} arrive"
            ),
        ),
        Rules::NotTold(why) => Finding::note(
            ABOUT,
            format!("not checked: nft did not list the rules: {why}"),
            format!("run this as root, or make sure that packets to port {port} arrive"),
        ),
        Rules::Are(rules) if drops(&rules, port) => Finding::problem(
            ABOUT,
            format!(
                "incoming packets are dropped by default, and no nftables rule names port {port}"
            ),
            format!(
                "firewall-cmd --add-port={port}/tcp --permanent, ufw allow {port}/tcp, or a rule of nft: tcp dport {port} accept"
            ),
        ),
        Rules::Are(_) => Finding::ok(ABOUT, format!("nftables does not block port {port}")),
    }
}

/// Whether a chain of arriving packets drops what no rule accepts, while no rule is about the port.
fn drops(rules: &str, port: u16) -> bool {
    let input = |line: &str| line.contains("hook input") && line.contains("policy drop");
    let names_port = |line: &str| {
        let port = port.to_string();
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
        line.contains("dport") && words.any(|word| word == port || word == "nfs")
    };
    rules.lines().any(input) && !rules.lines().any(names_port)
}

fn tcp_memory() -> Finding {
    const ABOUT: &str = "tcp_mem";
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").unwrap_or_default();
    match text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()) {
        Some(pages) if pages < TCP_PAGES_FEW => Finding::note(
            ABOUT,
            format!("TCP on this machine is throttled above {pages} pages of memory"),
            "raise net.ipv4.tcp_mem if many clients write at once",
        ),
        Some(pages) => Finding::ok(ABOUT, format!("{pages} pages before TCP is throttled")),
        None => Finding::ok(ABOUT, "unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::{Rules, drops, judged};

    #[test]
    fn a_firewall_that_was_not_looked_at_is_not_ok() {
        let found = |rules| judged(2049, rules);
        let missing = found(Rules::NoProgram);
        assert_eq!(missing.level, Level::Note);
        assert!(missing.text.contains("not checked") && missing.remedy.contains("nftables"));
        let refused = found(Rules::NotTold("Operation not permitted".to_owned()));
        assert_eq!(refused.level, Level::Note);
        assert!(refused.text.contains("not permitted") && refused.remedy.contains("as root"));
        assert_eq!(found(Rules::Are(String::new())).level, Level::Ok);
    }

    #[test]
    fn a_firewall_that_drops_what_it_does_not_name_is_recognised() {
        let chain = |policy: &str, rule: &str| {
            format!(
                "table inet f {{\n chain in {{\n  type filter hook input priority filter; policy {policy};\n  {rule}\n }}\n}}\n"
            )
        };
        assert!(drops(&chain("drop", "tcp dport 22 accept"), 2049));
        assert!(!drops(&chain("accept", "tcp dport 22 accept"), 2049));
        assert!(!drops(&chain("drop", "tcp dport { 22, 2049 } accept"), 2049));
        assert!(!drops(&chain("drop", "tcp dport nfs accept"), 2049));
        assert!(drops(&chain("drop", "tcp dport 20490 accept"), 2049));
        assert!(!drops("", 2049));
    }
}
