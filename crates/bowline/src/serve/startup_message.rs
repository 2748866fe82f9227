//! What `bowline serve` prints when it is ready: exports and their clients, the mount command, warnings, the
//! control socket.

use super::control::ServerControl;
use super::listen_addresses::{ListenAddresses, MountServer};
use crate::export_specs;
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
    /// How portmappers know the server.
    pub portmap: String,
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
        let _ =
            writeln!(text, "bowline {version} serves NFSv3 and NFSv2 on {}", self.listen.text());
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
            let proto = if self.listen.tcp.is_empty() { "udp" } else { "tcp" };
            let _ = writeln!(text, "mount it:");
            let _ = writeln!(text, "  {}", mount_command(proto, at, &export.path));
        }
        let _ = writeln!(text, "portmapper: {}", self.portmap);
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "state: {}", self.state_dir);
        if let Some(addr) = self.metrics {
            let _ = writeln!(text, "metrics: http://{addr}/metrics");
        }
        let _ = writeln!(text, "control: {}", self.control);
        text
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
        portmap: control.parts.portmap.how(),
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

/// The command that mounts `path`, without a portmapper and without a lock manager.
pub fn mount_command(proto: &str, server: MountServer, path: &str) -> String {
    let MountServer { host, port, v6 } = server;
    let family = if v6 { "6" } else { "" };
    let server = match host {
        Some(IpAddr::V4(addr)) => addr.to_string(),
        Some(IpAddr::V6(addr)) => format!("[{addr}]"),
        None => "SERVER".to_owned(),
    };
    let options = format!(
        "vers=3,proto={proto}{family},port={port},mountproto={proto}{family},mountport={port},nolock"
    );
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

    #[test]
    fn the_mount_command_has_every_option_a_client_needs() {
        let v4 = MountServer { host: "127.0.0.1".parse().ok(), port: 20049, v6: false };
        assert_eq!(
            mount_command("tcp", v4, "/srv/a"),
            "mount -t nfs -o vers=3,proto=tcp,port=20049,mountproto=tcp,mountport=20049,nolock \
             127.0.0.1:/srv/a /mnt"
        );
        let unknown = mount_command("tcp", MountServer { host: None, ..v4 }, "/a");
        assert!(unknown.ends_with(",nolock SERVER:/a /mnt"), "{unknown}");
        let v6 = MountServer { host: "::1".parse().ok(), port: 2049, v6: true };
        let command = mount_command("tcp", v6, "/it's here");
        assert!(command.ends_with(r"'[::1]:/it'\''s here' /mnt"), "{command}");
        assert!(command.contains("proto=tcp6,"), "{command}");
    }

    #[test]
    fn the_message_lists_exports_clients_and_addresses() {
        let at = Some(MountServer { host: "10.1.2.3".parse().ok(), port: 2049, v6: false });
        let message = StartupMessage {
            listen: ListenAddresses::both(&["0.0.0.0:2049".parse().unwrap()]),
            exports: vec![ExportLine {
                path: "/x".into(),
                directory: "/srv/x".into(),
                rules: vec![("*".into(), "ro".into()), ("10.0.0.1".into(), "rw".into())],
            }],
            portmap: "none".into(),
            state_dir: "/var/lib/s".into(),
            control: "/run/c.sock".into(),
            metrics: Some(([127, 0, 0, 1], 9049).into()),
            notes: vec!["check the disk".into()],
        };
        let text = message.text(at);
        for part in [
            "0.0.0.0:2049\n",
            "  /x (/srv/x) to * (ro); to 10.0.0.1 (rw)\n",
            "10.1.2.3:/x /mnt\n",
            "note: check the disk\n",
            "state: /var/lib/s\nmetrics: http://127.0.0.1:9049/metrics\ncontrol: /run/c.sock\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let nothing = StartupMessage { exports: Vec::new(), ..message };
        let text = nothing.text(at);
        assert!(text.contains("\n  nothing is exported\n") && !text.contains("mount -t"));
    }
}
