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
    /// Where metrics and the web page are served.
    pub metrics: Option<WebAddress>,
    /// Warnings for the operator.
    pub notes: Vec<String>,
}

/// Where metrics and the web page are served.
#[derive(Debug, Clone)]
pub struct WebAddress {
    /// The address that is listened on.
    pub addr: SocketAddr,
    /// The first name of the certificate, with which they are served over TLS too.
    pub name: Option<String>,
}

impl WebAddress {
    /// The address for a browser. A name stands for all addresses, which are none to go to.
    fn url(&self) -> String {
        let Self { addr, name } = self;
        match name {
            None => format!("http://{addr}"),
            Some(name) if addr.ip().is_unspecified() => {
                let port = addr.port();
                match name.parse::<IpAddr>() {
                    Ok(ip) => format!("https://{}", SocketAddr::new(ip, port)),
                    Err(_) => format!("https://{name}:{port}"),
                }
            }
            Some(_) => format!("https://{addr}"),
        }
    }
}

/// An export.
#[derive(Debug, Clone)]
pub struct ExportLine {
    /// The path that clients mount with versions 2 and 3.
    pub path: String,
    /// The path that clients mount with version 4; `None` if that does not reach it.
    pub version_4_path: Option<String>,
    /// Where its files are.
    pub directory: String,
    /// Who may mount it and how: clients, options.
    pub rules: Vec<(String, String)>,
}

/// Most exports that are listed; `bowline exports` lists all.
const LISTED_MAX: usize = 20;
/// Where clients of version 4 expect a server (RFC 8881 §2.9.3).
const NFS_PORT: u16 = 2049;

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
            for command in self.mount_commands(export, at) {
                let _ = writeln!(text, "  {command}");
            }
        }
        let _ = writeln!(text, "portmapper: {}", self.portmap);
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "state: {}", self.state_dir);
        if let Some(place) = &self.metrics {
            let (url, also) =
                (place.url(), if place.name.is_some() { ", also http://" } else { "" });
            let _ = writeln!(text, "metrics: {url}/metrics{also}\npage: {url}/{also}");
        }
        let _ = writeln!(text, "control: {}", self.control);
        text
    }

    /// The commands that mount an export with Linux: by version 4 with the newest minor version that both have, which
    /// needs no option but a port other than its own; all exports by their root; and by version 3.
    fn mount_commands(&self, export: &ExportLine, at: MountServer) -> Vec<String> {
        let mut commands = Vec::new();
        if let Some(path) = &export.version_4_path
            && self.versions.has_v4()
            && !self.listen.tcp.is_empty()
        {
            let port = (at.port != NFS_PORT).then(|| format!("port={}", at.port));
            let port = port.as_deref().unwrap_or_default();
            commands.push(mount_command(port, at, path));
            if path != "/" {
                commands.push(format!("{}  # all exports", mount_command(port, at, "/")));
            }
        }
        let version_3 = self.version_3_options(at);
        commands.extend(version_3.map(|options| mount_command(&options, at, &export.path)));
        commands
    }

    /// The options of mount(8) for version 3. It needs port 111 for its locks; without it there are none.
    fn version_3_options(&self, at: MountServer) -> Option<String> {
        let MountServer { port, v6, .. } = at;
        let family = if v6 { "6" } else { "" };
        let proto = if self.listen.tcp.is_empty() { "udp" } else { "tcp" };
        if !self.versions.has_v3() {
            None
        } else if self.ports_announced {
            Some(format!("vers=3,proto={proto}{family},mountproto={proto}{family}"))
        } else {
            Some(format!(
                "vers=3,proto={proto}{family},port={port},\
                 mountproto={proto}{family},mountport={port},nolock"
            ))
        }
    }
}

/// Prints the message for a server that is ready.
pub fn print(control: &ServerControl, listen: &ListenAddresses, metrics: Option<SocketAddr>) {
    let name = || {
        let names = &control.tls.as_ref()?.tls.current().certificate.names;
        Some(names.first().cloned().unwrap_or_else(|| "SERVER".to_owned()))
    };
    let config = &control.config;
    let table = control.parts.exports.load();
    let version_4_path = |export: &export::Export| {
        let path = table.pseudo().path_of(&export.path, table.exports())?;
        Some(String::from_utf8_lossy(path).into_owned())
    };
    let line = |export: &std::sync::Arc<export::Export>| ExportLine {
        path: export.path_text(),
        version_4_path: version_4_path(export),
        directory: export.source.to_string(),
        rules: export_specs::rules_text(export.rules(), &export.shared_options()),
    };
    let message = StartupMessage {
        listen: listen.clone(),
        exports: table.exports().iter().map(line).collect(),
        versions: config.values.versions.clone(),
        portmap: control.parts.portmap.how(),
        ports_announced: control.parts.portmap.announces_locks(),
        state_dir: config.state_dir.display().to_string(),
        control: config.control.display().to_string(),
        metrics: metrics.map(|addr| WebAddress { addr, name: name() }),
        notes: control.warnings(),
    };
    let rules = table.exports().first().map(|export| export.rules()).unwrap_or_default();
    let clients: Vec<_> = rules.iter().map(|rule| &rule.client).collect();
    print_text(&message.text(listen.mount_server(&clients)));
}

/// Writes to standard output. The server goes on if that is closed.
pub fn print_text(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The command that mounts `path` with these options of mount(8), if any.
pub fn mount_command(options: &str, server: MountServer, path: &str) -> String {
    let server = match server.host {
        Some(IpAddr::V4(addr)) => addr.to_string(),
        Some(IpAddr::V6(addr)) => format!("[{addr}]"),
        None => "SERVER".to_owned(),
    };
    let options = if options.is_empty() { String::new() } else { format!("-o {options} ") };
    format!("mount -t nfs {options}{} /mnt", quoted(&format!("{server}:{path}")))
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
    use super::{
        ExportLine, ListenAddresses, MountServer, StartupMessage, WebAddress, mount_command,
    };
    use nfs::NfsVersions;

    fn message() -> StartupMessage {
        StartupMessage {
            listen: ListenAddresses::both(&["0.0.0.0:2049".parse().unwrap()]),
            exports: vec![ExportLine {
                path: "/x".into(),
                version_4_path: Some("/x".into()),
                directory: "/srv/x".into(),
                rules: vec![("*".into(), "ro".into()), ("10.0.0.1".into(), "rw".into())],
            }],
            versions: NfsVersions::default(),
            portmap: "none".into(),
            ports_announced: false,
            state_dir: "/var/lib/s".into(),
            control: "/run/c.sock".into(),
            metrics: Some(WebAddress { addr: ([127, 0, 0, 1], 9049).into(), name: None }),
            notes: vec!["check the disk".into()],
        }
    }

    #[test]
    fn the_mount_command_has_every_option_a_client_needs() {
        let v4 = MountServer { host: "127.0.0.1".parse().ok(), port: 20049, v6: false };
        assert_eq!(
            message().version_3_options(v4).as_deref(),
            Some("vers=3,proto=tcp,port=20049,mountproto=tcp,mountport=20049,nolock")
        );
        assert_eq!(mount_command("vers=3", v4, "/a"), "mount -t nfs -o vers=3 127.0.0.1:/a /mnt");
        let unknown = mount_command("vers=3", MountServer { host: None, ..v4 }, "/a");
        assert!(unknown.ends_with(" SERVER:/a /mnt"), "{unknown}");
        let v6 = MountServer { host: "::1".parse().ok(), port: 2049, v6: true };
        let command = mount_command("vers=3", v6, "/it's here");
        assert!(command.ends_with(r"'[::1]:/it'\''s here' /mnt"), "{command}");
        assert!(message().version_3_options(v6).unwrap().contains("proto=tcp6,"));
    }

    #[test]
    fn version_4_needs_no_option_but_another_port() {
        let at = MountServer { host: "10.1.2.3".parse().ok(), port: 2049, v6: false };
        let commands = |message: &StartupMessage, at| {
            message.mount_commands(message.exports.first().unwrap(), at)
        };
        let announced = StartupMessage { ports_announced: true, ..message() };
        assert_eq!(
            commands(&announced, at),
            [
                "mount -t nfs 10.1.2.3:/x /mnt",
                "mount -t nfs 10.1.2.3:/ /mnt  # all exports",
                "mount -t nfs -o vers=3,proto=tcp,mountproto=tcp 10.1.2.3:/x /mnt"
            ]
        );
        assert!(announced.text(Some(at)).contains(" serves NFS versions 2,3,4.0,4.1,4.2 on "));
        let elsewhere = commands(&announced, MountServer { port: 20049, ..at });
        assert_eq!(elsewhere[0], "mount -t nfs -o port=20049 10.1.2.3:/x /mnt");
        // an export that is the root, and one that version 4 does not reach
        let mut root = announced.clone();
        root.exports[0].version_4_path = Some("/".into());
        assert_eq!(commands(&root, at)[0], "mount -t nfs 10.1.2.3:/ /mnt");
        assert_eq!(commands(&root, at).len(), 2);
        root.exports[0].version_4_path = None;
        assert!(commands(&root, at).iter().all(|command| command.contains("vers=3")));
        let old = StartupMessage { versions: "2,3".parse().unwrap(), ..announced };
        assert_eq!(commands(&old, at).len(), 1);
    }

    #[test]
    fn a_page_over_tls_is_named_as_the_certificate_has_it() {
        let url = |addr: &str, name: Option<&str>| {
            WebAddress { addr: addr.parse().unwrap(), name: name.map(str::to_owned) }.url()
        };
        assert_eq!(url("192.0.2.1:9049", None), "http://192.0.2.1:9049");
        assert_eq!(url("192.0.2.1:9049", Some("nfs.test")), "https://192.0.2.1:9049");
        assert_eq!(url("0.0.0.0:9049", Some("nfs.test")), "https://nfs.test:9049");
        assert_eq!(url("[::]:9049", Some("2001:db8::1")), "https://[2001:db8::1]:9049");
        let addr = ([127, 0, 0, 1], 9049).into();
        let metrics = Some(WebAddress { addr, name: Some("nfs.test".into()) });
        let text = StartupMessage { metrics, ..message() }.text(None);
        assert!(text.contains("\npage: https://127.0.0.1:9049/, also http://\n"), "{text}");
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
