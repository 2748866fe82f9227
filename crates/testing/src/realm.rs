//! A Kerberos realm with its KDC (MIT's, of the Debian packages krb5-kdc and krb5-admin-server) on a port of its own,
//! for tests of contexts that a library other than ours has begun.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the KDC may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The program of the KDC.
const KDC: &str = "/usr/sbin/krb5kdc";

/// The realm `LAB.TEST` with the principals `alice` and `nfs/server.lab.test`. Its KDC ends with it.
pub struct Realm {
    kdc: Child,
    dir: PathBuf,
}

impl Drop for Realm {
    fn drop(&mut self) {
        let _ = self.kdc.kill();
        let _ = self.kdc.wait();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

impl Realm {
    /// Whether the programs are there.
    #[must_use]
    pub fn is_possible() -> bool {
        Path::new(KDC).exists() && Path::new("/usr/sbin/kadmin.local").exists()
    }

    /// Makes a realm in an empty directory, with keys of one encryption type, as `aes256-cts-hmac-sha1-96`.
    ///
    /// # Panics
    /// If a program fails, or the KDC does not start.
    #[must_use]
    pub fn start(dir: &Path, kind: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let d = dir.display();
        let client = format!(
            "[libdefaults]\n default_realm = LAB.TEST\n dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n \
             rdns = false\n permitted_enctypes = {kind}\n[realms]\n LAB.TEST = {{\n  kdc = 127.0.0.1:{port}\n }}\n\
             [domain_realm]\n .lab.test = LAB.TEST\n"
        );
        let kdc = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n LAB.TEST = {{\n  \
             database_name = {d}/principal\n  key_stash_file = {d}/stash\n  master_key_type = {kind}\n  \
             supported_enctypes = {kind}:normal\n }}\n[logging]\n kdc = FILE:{d}/kdc.log\n"
        );
        let dir = dir.to_path_buf();
        fs::write(dir.join("krb5.conf"), client).unwrap();
        fs::write(dir.join("kdc.conf"), kdc).unwrap();
        let program = |name: &str| {
            let mut command = Command::new(name);
            command.env("KRB5_CONFIG", dir.join("krb5.conf"));
            command.env("KRB5_KDC_PROFILE", dir.join("kdc.conf"));
            command
        };
        run(program("/usr/sbin/kdb5_util").args(["create", "-r", "LAB.TEST", "-s", "-P", "master"]));
        let admin = |query: &str| run(program("/usr/sbin/kadmin.local").args(["-q", query]));
        for principal in ["alice", "nfs/server.lab.test"] {
            admin(&format!("addprinc -randkey {principal}"));
            admin(&format!("ktadd -k {d}/keytab {principal}"));
        }
        let mut kdc = program(KDC);
        let kdc = kdc.arg("-n").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let realm = Self { kdc, dir: dir.clone() };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < PATIENCE, "the KDC does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        realm
    }

    /// Has kadmin.local do something, as `ktadd -k FILE PRINCIPAL`.
    ///
    /// # Panics
    /// If it fails.
    pub fn kadmin(&self, query: &str) {
        run(Command::new("/usr/sbin/kadmin.local")
            .env("KRB5_CONFIG", self.config())
            .env("KRB5_KDC_PROFILE", self.dir.join("kdc.conf"))
            .args(["-q", query]));
    }

    /// The configuration of its clients and servers, for `KRB5_CONFIG`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.dir.join("krb5.conf")
    }

    /// The keys of both principals.
    #[must_use]
    pub fn keytab(&self) -> PathBuf {
        self.dir.join("keytab")
    }
}
