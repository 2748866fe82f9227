//! How clients of a test reach its server: over plain TCP, or over TLS with certificates of `bowline tls init`.

use super::{bowline, text};
use client::{Client, Error, starttls};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tls::{Authority, ClientFiles, ClientTls, ConnectError, Purpose, Request};

const NFS3: (u32, u32) = (proto::nfs3::PROGRAM, proto::nfs3::VERSION);

/// One of the ways.
pub enum Channel {
    Plain,
    Tls(Box<Certificates>),
}

/// An authority, a server's certificate for `localhost`, and a client that knows the authority.
pub struct Certificates {
    dir: TempDir,
    pub client: ClientTls,
}

impl Channel {
    pub fn tls() -> Self {
        let dir = tempfile::tempdir().unwrap();
        init(dir.path());
        let files = ClientFiles { ca: Some(dir.path().join("ca.pem")), identity: None };
        let client = ClientTls::open(&files, true, tls::ALPN).unwrap();
        Self::Tls(Box::new(Certificates { dir, client }))
    }

    /// The server's options.
    pub fn options(&self) -> Vec<String> {
        match self {
            Self::Plain => Vec::new(),
            Self::Tls(certificates) => certificates.options(),
        }
    }

    /// What an export's options end with, so that no client comes another way.
    pub const fn demanded(&self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Tls(_) => ",xprtsec=tls:mtls",
        }
    }

    /// A new connection.
    ///
    /// # Errors
    /// The server is gone, or goes meanwhile. Any other end of a handshake fails the test.
    pub fn connect(&self, at: SocketAddr, patience: Duration) -> client::Result<Client> {
        let Self::Tls(certificates) = self else { return Client::tcp(at, patience) };
        match starttls::connect(at, patience, NFS3, (&certificates.client, "localhost")) {
            Ok(stream) => Ok(Client::over_tls(stream, patience)),
            Err(starttls::StartTlsError::Connection(error)) => Err(error),
            Err(starttls::StartTlsError::Handshake(ConnectError::Io(source))) => {
                Err(Error::Io { peer: at.to_string(), source })
            }
            Err(error) => panic!("no TLS: {error}"),
        }
    }
}

impl Certificates {
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Issues the server's certificate once more.
    pub fn renew(&self) {
        init(self.dir.path());
    }

    /// The files of a client's certificate that ends then.
    pub fn identity(&self, end: SystemTime) -> (PathBuf, PathBuf) {
        let read = |name: &str| std::fs::read_to_string(self.file(name)).unwrap();
        let authority = Authority::load(&read("ca.pem"), &read("ca.key")).unwrap();
        let names = ["client.test".to_owned()];
        let request = Request { names: &names, purpose: Some(Purpose::Client), end };
        let issued = authority.issue_as(&request).unwrap();
        let write = |name: &str, text: &str| {
            let path = self.file(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        (write("client.pem", &issued.certificate), write("client.key", &issued.key))
    }

    fn options(&self) -> Vec<String> {
        let file = |name: &str| self.file(name).display().to_string();
        ["--tls-cert", &file("server.pem"), "--tls-key", &file("server.key")]
            .map(str::to_owned)
            .into()
    }
}

fn init(dir: &Path) {
    let made = bowline(&["tls", "init", "localhost", "--dir", dir.to_str().unwrap()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
}
