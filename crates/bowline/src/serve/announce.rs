//! The lines that `bowline serve` begins with: what is served to whom, how to mount it, what is
//! different here, where to ask. Pure text.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// All that the lines tell.
#[derive(Debug, Clone)]
pub struct Announcement {
    /// Where the server listens.
    pub listen: Vec<SocketAddr>,
    /// The exports, each with its rules.
    pub exports: Vec<Offer>,
    /// What was done about the portmapper.
    pub portmap: String,
    /// Where the control socket is, and whether it is the default.
    pub control: String,
    /// What the operator should know.
    pub notes: Vec<String>,
}

/// An export as the operator sees it.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The path that clients mount.
    pub path: String,
    /// Where its files are.
    pub directory: String,
    /// Who may mount it and how: clients, options.
    pub rules: Vec<(String, String)>,
}

/// Most exports that are listed; the rest is `bowline exports`.
const LISTED_MAX: usize = 20;

impl Announcement {
    /// The text, line by line.
    pub fn text(&self, reachable: IpAddr) -> String {
        let mut text = String::new();
        let at: Vec<String> = self.listen.iter().map(ToString::to_string).collect();
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(text, "bowline {version} serves NFSv3 and NFSv2 on {}", at.join(", "));
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
        if let (Some(offer), Some(at)) = (self.exports.first(), self.listen.first()) {
            let server = server_address(at.ip(), reachable);
            let _ = writeln!(text, "mount it:");
            let _ = writeln!(text, "  {}", mount_command(server, at.port(), &offer.path));
        }
        let _ = writeln!(text, "portmapper: {}", self.portmap);
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "control: {}", self.control);
        text
    }
}

/// The address that a client would use.
const fn server_address(listen: IpAddr, reachable: IpAddr) -> IpAddr {
    if listen.is_unspecified() { reachable } else { listen }
}

/// The address of this machine that others see: that of the way to the world, else loopback.
/// Sends nothing.
pub fn reachable(listen: IpAddr) -> IpAddr {
    // addresses for documentation: never ours, routed like any other (RFC 5737, RFC 3849)
    let (own, far): (IpAddr, IpAddr) = match listen {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        IpAddr::V6(_) => {
            let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
            (Ipv6Addr::UNSPECIFIED.into(), far.into())
        }
    };
    let found = std::net::UdpSocket::bind((own, 0))
        .and_then(|socket| socket.connect((far, 9)).and_then(|()| socket.local_addr()));
    match (found, listen) {
        (Ok(addr), _) => addr.ip(),
        (Err(_), IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
        (Err(_), IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// The command that mounts `path`, without a portmapper and without a lock manager.
pub fn mount_command(server: IpAddr, port: u16, path: &str) -> String {
    let server = match server {
        IpAddr::V4(addr) => addr.to_string(),
        IpAddr::V6(addr) => format!("[{addr}]"),
    };
    let family = if server.starts_with('[') { "6" } else { "" };
    let options = format!(
        "vers=3,proto=tcp{family},port={port},mountproto=tcp{family},mountport={port},nolock"
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
    use super::{Announcement, Offer, mount_command, reachable};
    use std::net::IpAddr;

    #[test]
    fn the_mount_command_names_all_that_a_client_cannot_find_out() {
        let v4: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(
            mount_command(v4, 20049, "/srv/a"),
            "mount -t nfs -o vers=3,proto=tcp,port=20049,mountproto=tcp,mountport=20049,nolock \
             127.0.0.1:/srv/a /mnt"
        );
        let v6: IpAddr = "::1".parse().unwrap();
        let command = mount_command(v6, 2049, "/it's here");
        assert!(command.ends_with(r"'[::1]:/it'\''s here' /mnt"), "{command}");
        assert!(command.contains("proto=tcp6,"), "{command}");
    }

    #[test]
    fn an_address_for_others_is_never_the_wildcard() {
        for any in ["0.0.0.0", "::"] {
            assert!(!reachable(any.parse().unwrap()).is_unspecified());
        }
    }

    #[test]
    fn the_lines_say_what_who_how_and_where() {
        let announcement = Announcement {
            listen: vec!["0.0.0.0:2049".parse().unwrap()],
            exports: vec![Offer {
                path: "/x".into(),
                directory: "/srv/x".into(),
                rules: vec![("*".into(), "ro".into()), ("10.0.0.1".into(), "rw".into())],
            }],
            portmap: "none".into(),
            control: "/run/c.sock".into(),
            notes: vec!["mind the gap".into()],
        };
        let text = announcement.text("10.1.2.3".parse().unwrap());
        for part in [
            "0.0.0.0:2049\n",
            "  /x (/srv/x) to * (ro); to 10.0.0.1 (rw)\n",
            "10.1.2.3:/x /mnt\n",
            "note: mind the gap\n",
            "control: /run/c.sock\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let nothing = Announcement { exports: Vec::new(), ..announcement };
        let text = nothing.text("10.1.2.3".parse().unwrap());
        assert!(text.contains("\n  nothing is exported\n") && !text.contains("mount -t"));
    }
}
