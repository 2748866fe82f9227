//! What `bowline serve` prints when it is ready: exports and their clients, the mount command, warnings, the
//! control socket.

use super::control::ServerControl;
use super::listen_addresses::{ListenAddresses, MountServer};
use crate::export_specs;
use nfs::NfsVersions;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// The content of the message.
#[derive(Debug, Clone)]
pub struct StartupMessage {
    /// Where the server listens.
    pub listen: ListenAddresses,
    /// The exports, each with its rules.
    pub exports: Vec<ExportLine>,
    /// The versions that are served.
    pub versions: NfsVersions,
    /// How portmappers know the server.
    pub portmap: String,
    /// Clients find the ports of version 3, and those of locks, by port 111.
    pub ports_announced: bool,
    /// The state directory.
    pub state_dir: String,
    /// The control socket.
    pub control: String,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Warnings for the operator.
    pub notes: Vec<String>,
}

/// An export.
#[derive(Debug, Clone)]
pub struct ExportLine {
    /// The path that clients mount.
    pub path: String,
    /// Where its files are.
    pub directory: String,
    /// Who may mount it and how: clients, options.
    pub rules: Vec<(String, String)>,
}

/// Most exports that are listed; `bowline exports` lists all.
const LISTED_MAX: usize = 20;

impl StartupMessage {
    /// The text; clients reach the server `at` this address.
    pub fn text(&self, at: Option<MountServer>) -> String {
        let mut text = String::new();
        let version = env!("CARGO_PKG_VERSION");
        let (versions, on) = (&self.versions, self.listen.text());
        let _ = writeln!(text, "bowline {version} serves NFS versions {versions} on {on}");
        if self.exports.is_empty() {
            text.push_str("  nothing is exported\n");
        }
        for export in self.exports.iter().take(LISTED_MAX) {
            let _ = write!(text, "  {}", export.path);
            if export.directory != export.path {
                let _ = write!(text, " ({})", export.directory);
            }
            for (index, (clients, options)) in export.rules.iter().enumerate() {
                let mark = if index == 0 { " to " } else { "; to " };
                let _ = write!(text, "{mark}{clients} ({options})");
            }
            text.push('\n');
        }
        if let Some(more) = self.exports.len().checked_sub(LISTED_MAX).filter(|n| *n > 0) {
            let _ = writeln!(text, "  and {more} more: bowline exports");
        }
        if let (Some(export), Some(at)) = (self.exports.first(), at) {
            let _ = writeln!(text, "mount it:");
            for options in self.mount_options(at) {
                let _ = writeln!(text, "  {}", mount_command(&options, at, &export.path));
            }
        }
        let _ = writeln!(text, "portmapper: {}", self.portmap);
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "state: {}", self.state_dir);
        if let Some(addr) = self.metrics {
            let _ = writeln!(text, "metrics: http://{addr}/metrics\npage: http://{addr}/");
        }
        let _ = writeln!(text, "control: {}", self.control);
        text
    }

    /// The options of mount(8) for each version that Linux mounts today, the newest first. Version 3 needs port 111
    /// for its locks; without it there are none.
    fn mount_options(&self, at: MountServer) -> Vec<String> {
        let MountServer { port, v6, .. } = at;
        let family = if v6 { "6" } else { "" };
        let proto = if self.listen.tcp.is_empty() { "udp" } else { "tcp" };
        let mut options = Vec::new();
        if let Some(minor) = self.versions.newest_minor().filter(|_| proto == "tcp") {
            options.push(format!("vers=4.{minor},proto=tcp{family},port={port}"));
        }
        if self.versions.has_v3() && self.ports_announced {
            options.push(format!("vers=3,proto={proto}{family},mountproto={proto}{family}"));
        } else if self.versions.has_v3() {
            options.push(format!(
                "vers=3,proto={proto}{family},port={port},\
                 mountproto={proto}{family},mountport={port},nolock"
            ));
        }
        options
    }
}

/// Prints the message for a server that is ready.
pub fn print(control: &ServerControl, listen: &ListenAddresses, metrics: Option<SocketAddr>) {
    let config = &control.config;
    let line = |export: &std::sync::Arc<export::Export>| ExportLine {
        path: export.path_text(),
        directory: export.source.to_string(),
        rules: export_specs::rules_text(export.rules(), export.fsid),
    };
    let message = StartupMessage {
        listen: listen.clone(),
        exports: control.parts.exports.load().exports().iter().map(line).collect(),
        versions: config.values.versions.clone(),
        portmap: control.parts.portmap.how(),
        ports_announced: control.parts.portmap.announces_locks(),
        state_dir: config.state_dir.display().to_string(),
        control: config.control.display().to_string(),
        metrics,
        notes: control.warnings(),
    };
    let table = control.parts.exports.load();
    let rules = table.exports().first().map(|export| export.rules()).unwrap_or_default();
    let clients: Vec<_> = rules.iter().map(|rule| &rule.client).collect();
    print_text(&message.text(listen.mount_server(&clients)));
}

/// Writes to standard output. The server goes on if that is closed.
pub fn print_text(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The command that mounts `path` with these options of mount(8).
pub fn mount_command(options: &str, server: MountServer, path: &str) -> String {
    let server = match server.host {
        Some(IpAddr::V4(addr)) => addr.to_string(),
        Some(IpAddr::V6(addr)) => format!("[{addr}]"),
        None => "SERVER".to_owned(),
    };
    format!("mount -t nfs -o {options} {} /mnt", quoted(&format!("{server}:{path}")))
}

/// Quoted for a shell if necessary.
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
    use super::{ExportLine, ListenAddresses, MountServer, StartupMessage, mount_command};
    use nfs::NfsVersions;

    fn message() -> StartupMessage {
        StartupMessage {
            listen: ListenAddresses::both(&["0.0.0.0:2049".parse().unwrap()]),
            exports: vec![ExportLine {
                path: "/x".into(),
                directory: "/srv/x".into(),
                rules: vec![("*".into(), "ro".into()), ("10.0.0.1".into(), "rw".into())],
            }],
            versions: NfsVersions::default(),
            portmap: "none".into(),
            ports_announced: false,
            state_dir: "/var/lib/s".into(),
            control: "/run/c.sock".into(),
            metrics: Some(([127, 0, 0, 1], 9049).into()),
            notes: vec!["check the disk".into()],
        }
    }

    #[test]
    fn the_mount_command_has_every_option_a_client_needs() {
        let v4 = MountServer { host: "127.0.0.1".parse().ok(), port: 20049, v6: false };
        assert_eq!(
            message().mount_options(v4),
            ["vers=3,proto=tcp,port=20049,mountproto=tcp,mountport=20049,nolock"]
        );
        assert_eq!(mount_command("vers=3", v4, "/a"), "mount -t nfs -o vers=3 127.0.0.1:/a /mnt");
        let unknown = mount_command("vers=3", MountServer { host: None, ..v4 }, "/a");
        assert!(unknown.ends_with(" SERVER:/a /mnt"), "{unknown}");
        let v6 = MountServer { host: "::1".parse().ok(), port: 2049, v6: true };
        let command = mount_command("vers=3", v6, "/it's here");
        assert!(command.ends_with(r"'[::1]:/it'\''s here' /mnt"), "{command}");
        assert!(message().mount_options(v6)[0].contains("proto=tcp6,"));
    }

    #[test]
    fn mount_options_prefer_version_4_and_omit_registered_ports() {
        let at = MountServer { host: "10.1.2.3".parse().ok(), port: 2049, v6: false };
        let message = StartupMessage {
            versions: "2,3,4.1".parse().unwrap(),
            ports_announced: true,
            ..message()
        };
        assert_eq!(
            message.mount_options(at),
            ["vers=4.1,proto=tcp,port=2049", "vers=3,proto=tcp,mountproto=tcp"]
        );
        assert!(message.text(Some(at)).contains(" serves NFS versions 2,3,4.1 on "));
    }

    #[test]
    fn the_message_lists_exports_clients_and_addresses() {
        let at = Some(MountServer { host: "10.1.2.3".parse().ok(), port: 2049, v6: false });
        let message = message();
        let text = message.text(at);
        for part in [
            "0.0.0.0:2049\n",
            "  /x (/srv/x) to * (ro); to 10.0.0.1 (rw)\n",
            "10.1.2.3:/x /mnt\n",
            "note: check the disk\n",
            "state: /var/lib/s\nmetrics: http://127.0.0.1:9049/metrics\n\
             page: http://127.0.0.1:9049/\ncontrol: /run/c.sock\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let nothing = StartupMessage { exports: Vec::new(), ..message };
        let text = nothing.text(at);
        assert!(text.contains("\n  nothing is exported\n") && !text.contains("mount -t"));
    }
}
