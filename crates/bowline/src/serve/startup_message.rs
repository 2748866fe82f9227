//! The lines that `bowline serve` begins with: what is served to whom, how to mount it, what is
//! different here, where to ask. Pure text.

use super::listen_addresses::ListenAddresses;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// All that the lines tell.
#[derive(Debug, Clone)]
pub struct StartupMessage {
    /// Where the server listens.
    pub listen: ListenAddresses,
    /// The exports, each with its rules.
    pub exports: Vec<ExportLine>,
    /// What was done about the portmapper.
    pub portmap: String,
    /// Where the control socket is, and whether it is the default.
    pub control: String,
    /// What the operator should know.
    pub notes: Vec<String>,
}

/// An export as the operator sees it.
#[derive(Debug, Clone)]
pub struct ExportLine {
    /// The path that clients mount.
    pub path: String,
    /// Where its files are.
    pub directory: String,
    /// Who may mount it and how: clients, options.
    pub rules: Vec<(String, String)>,
}

/// Most exports that are listed; the rest is `bowline exports`.
const LISTED_MAX: usize = 20;

impl StartupMessage {
    /// The text, line by line; clients reach the server `at` this address.
    pub fn text(&self, at: Option<SocketAddr>) -> String {
        let mut text = String::new();
        let version = env!("CARGO_PKG_VERSION");
        let _ =
            writeln!(text, "bowline {version} serves NFSv3 and NFSv2 on {}", self.listen.text());
        if self.exports.is_empty() {
            text.push_str("  nothing is exported\n");
        }
        for offer in self.exports.iter().take(LISTED_MAX) {
            let _ = write!(text, "  {}", offer.path);
            if offer.directory != offer.path {
                let _ = write!(text, " ({})", offer.directory);
            }
            for (place, (clients, options)) in offer.rules.iter().enumerate() {
                let mark = if place == 0 { " to " } else { "; to " };
                let _ = write!(text, "{mark}{clients} ({options})");
            }
            text.push('\n');
        }
        if let Some(more) = self.exports.len().checked_sub(LISTED_MAX).filter(|n| *n > 0) {
            let _ = writeln!(text, "  and {more} more: bowline exports");
        }
        if let (Some(offer), Some(at)) = (self.exports.first(), at) {
            let proto = if self.listen.tcp.is_empty() { "udp" } else { "tcp" };
            let _ = writeln!(text, "mount it:");
            let _ = writeln!(text, "  {}", mount_command(proto, at, &offer.path));
        }
        let _ = writeln!(text, "portmapper: {}", self.portmap);
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "control: {}", self.control);
        text
    }
}

/// The command that mounts `path`, without a portmapper and without a lock manager.
pub fn mount_command(proto: &str, server: SocketAddr, path: &str) -> String {
    let (port, family) = (server.port(), if server.is_ipv6() { "6" } else { "" });
    let server = match server.ip() {
        IpAddr::V4(addr) => addr.to_string(),
        IpAddr::V6(addr) => format!("[{addr}]"),
    };
    let options = format!(
        "vers=3,proto={proto}{family},port={port},mountproto={proto}{family},mountport={port},nolock"
    );
    format!("mount -t nfs -o {options} {} /mnt", quoted(&format!("{server}:{path}")))
}

/// Fit for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-:+,=@%[]".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{ExportLine, ListenAddresses, StartupMessage, mount_command};
    use std::net::SocketAddr;

    #[test]
    fn the_mount_command_names_all_that_a_client_cannot_find_out() {
        let v4: SocketAddr = "127.0.0.1:20049".parse().unwrap();
        assert_eq!(
            mount_command("tcp", v4, "/srv/a"),
            "mount -t nfs -o vers=3,proto=tcp,port=20049,mountproto=tcp,mountport=20049,nolock \
             127.0.0.1:/srv/a /mnt"
        );
        let v6: SocketAddr = "[::1]:2049".parse().unwrap();
        let command = mount_command("tcp", v6, "/it's here");
        assert!(command.ends_with(r"'[::1]:/it'\''s here' /mnt"), "{command}");
        assert!(command.contains("proto=tcp6,"), "{command}");
    }

    #[test]
    fn the_lines_say_what_who_how_and_where() {
        let at = "10.1.2.3:2049".parse().ok();
        let announcement = StartupMessage {
            listen: ListenAddresses::both(&["0.0.0.0:2049".parse().unwrap()]),
            exports: vec![ExportLine {
                path: "/x".into(),
                directory: "/srv/x".into(),
                rules: vec![("*".into(), "ro".into()), ("10.0.0.1".into(), "rw".into())],
            }],
            portmap: "none".into(),
            control: "/run/c.sock".into(),
            notes: vec!["mind the gap".into()],
        };
        let text = announcement.text(at);
        for part in [
            "0.0.0.0:2049\n",
            "  /x (/srv/x) to * (ro); to 10.0.0.1 (rw)\n",
            "10.1.2.3:/x /mnt\n",
            "note: mind the gap\n",
            "control: /run/c.sock\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let nothing = StartupMessage { exports: Vec::new(), ..announcement };
        let text = nothing.text(at);
        assert!(text.contains("\n  nothing is exported\n") && !text.contains("mount -t"));
    }
}
