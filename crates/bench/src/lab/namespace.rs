//! Private network namespaces: created empty except for a loopback that is up, entered by threads
//! of their own, removed with the last descriptor, thread or child process that uses them.
//!
//! A socket stays in the namespace in which it was created, whichever thread uses it later: create
//! it inside [`Namespace::run`] and return it.

use super::LabError;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The congestion control of experiments, Linux's own.
pub(super) const CONGESTION: &str = "cubic";
/// Where `ip` and `tc` may be, for users whose path lacks these directories.
const ADMIN_PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// A network namespace; clones are the same one.
#[derive(Debug, Clone)]
pub struct Namespace {
    file: Arc<OwnedFd>,
    label: Arc<str>,
    host: bool,
}

impl Namespace {
    /// A new one, with a loopback interface that is up; `label` is for messages. Its IPv4 connections have Linux's
    /// own congestion control, whatever the machine's setting is: one that paces (BBR) would measure its timers.
    ///
    /// # Errors
    /// [`LabError::Unable`] without root, without namespaces in the kernel, or without `ip`.
    pub fn new(label: &str) -> Result<Self, LabError> {
        let made = std::thread::Builder::new().name(format!("netns {label}")).spawn(|| {
            sys::netns::enter_new()?;
            sys::netns::own()
        });
        let made = made.and_then(|thread| thread.join().unwrap_or_else(|_| Err(died())));
        let file = made.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => LabError::Unable(
                "a private network needs root (CAP_SYS_ADMIN): run this with sudo".into(),
            ),
            io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
                LabError::Unable("this kernel has no network namespaces (CONFIG_NET_NS)".into())
            }
            _ => LabError::Failed(format!("cannot make a network namespace: {error}")),
        })?;
        let new = Self { file: Arc::new(file), label: label.into(), host: false };
        new.ip(&["link", "set", "lo", "up"])?;
        for network in ["127.0.0.0/8", "127.0.0.1/32"] {
            let own = ["route", "replace", "local", network, "dev", "lo", "table", "local"];
            let as_before = ["proto", "kernel", "scope", "host", "src", "127.0.0.1"];
            new.ip(&[&own[..], &as_before, &["congctl", CONGESTION]].concat())?;
        }
        Ok(new)
    }

    /// The namespace of this process.
    ///
    /// # Errors
    /// [`LabError::Failed`] without `/proc`.
    pub fn host() -> Result<Self, LabError> {
        let file = sys::netns::own()
            .map_err(|error| LabError::of("opening this process' network namespace", &error))?;
        Ok(Self { file: Arc::new(file), label: "host".into(), host: true })
    }

    /// Its name in messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Moves the calling thread into it permanently; children that it starts begin there.
    ///
    /// # Errors
    /// [`LabError::Unable`] without root.
    pub fn enter(&self) -> Result<(), LabError> {
        let doing = || format!("setting_up the network namespace {}", self.label);
        sys::netns::enter(&self.file).map_err(|error| LabError::of(&doing(), &error))
    }

    /// Runs `work` on a thread inside, and waits for it; a panic is passed on to the caller.
    ///
    /// # Errors
    /// As [`Namespace::enter`], or no thread can be started.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        std::thread::scope(|scope| {
            let inside = || self.enter().map(|()| work());
            let thread = std::thread::Builder::new()
                .name(format!("in {}", self.label))
                .spawn_scoped(scope, inside)
                .map_err(|error| LabError::of("starting a thread", &error))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts a thread inside that runs `work`.
    ///
    /// # Errors
    /// No thread can be started; a failure to enter is the thread's result.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T, LabError>>, LabError> {
        let own = self.clone();
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || own.enter().map(|()| work()))
            .map_err(|error| LabError::of("starting a thread", &error))
    }

    /// Runs a program inside and returns its output.
    ///
    /// # Errors
    /// [`LabError::Unable`] if it is not installed (`package` has it); [`LabError::Failed`] with its
    /// own error message if it fails.
    pub fn tool(&self, program: &str, package: &str, args: &[&str]) -> Result<String, LabError> {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(args).env("PATH", format!("{path}:{ADMIN_PATH}")).env("LC_ALL", "C");
        let output = self.run(|| {
            sys::child::die_with_parent(&mut command);
            command.output()
        })?;
        let output = output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                LabError::Unable(format!("`{program}` is not installed: apt-get install {package}"))
            }
            _ => LabError::Failed(format!("cannot run `{program}`: {error}")),
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        Err(LabError::Failed(format!("`{program} {}` in {}: {said}", args.join(" "), self.label)))
    }

    /// Runs `ip` inside.
    ///
    /// # Errors
    /// As [`Namespace::tool`].
    pub fn ip(&self, args: &[&str]) -> Result<String, LabError> {
        self.tool("ip", "iproute2", args)
    }

    /// A path by which another process of the same user can open it, as long as this one lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// A network sysctl inside, as `net.ipv4.tcp_rmem`.
    ///
    /// # Errors
    /// [`LabError::Failed`]: no sysctl has this name.
    pub fn sysctl(&self, name: &str) -> Result<String, LabError> {
        let text = self.run(|| std::fs::read_to_string(sysctl_path(name)))?;
        let text = text.map_err(|error| LabError::Failed(format!("sysctl {name}: {error}")))?;
        Ok(text.trim().to_owned())
    }

    /// Sets a network sysctl inside; never that of the machine itself.
    ///
    /// # Errors
    /// [`LabError::Failed`]: it is the machine's namespace, no sysctl inside a namespace has this
    /// name (it is global), or the value is refused.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        if self.host {
            return Err(LabError::Failed(format!("sysctl {name} is the machine's: left alone")));
        }
        let set = self.run(|| std::fs::write(sysctl_path(name), value))?;
        set.map_err(|error| LabError::Failed(format!("sysctl {name} = {value}: {error}")))
    }

    /// Configures TCP for the experiments: buffers that can fill a long fast line, and no metrics of
    /// earlier connections, with which one trial would determine the next one's slow start. For the
    /// congestion control see [`super::Interface::pin_congestion`].
    ///
    /// # Errors
    /// As [`Namespace::set_sysctl`].
    pub fn tune_tcp(&self) -> Result<(), LabError> {
        for (name, value) in [
            ("net.ipv4.tcp_rmem", "4096 131072 67108864"),
            ("net.ipv4.tcp_wmem", "4096 65536 67108864"),
            ("net.ipv4.tcp_no_metrics_save", "1"),
        ] {
            self.set_sysctl(name, value)?;
        }
        Ok(())
    }
}

fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

fn died() -> io::Error {
    io::Error::other("the thread that should make it died")
}

#[cfg(test)]
mod tests {
    use super::Namespace;
    use crate::lab::LabError;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn private() -> Option<Namespace> {
        match Namespace::new("test") {
            Ok(namespace) => Some(namespace),
            Err(error @ LabError::Unable(_)) => {
                testing::skip(testing::Missing::Namespaces, error);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn sockets_made_inside_stay_inside() {
        let Some(inside) = private() else { return };
        let listener = inside.run(|| TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            listener.accept().unwrap().0.write_all(b"hello").unwrap();
        });
        let mut stream = inside.run(|| TcpStream::connect(addr).unwrap()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        server.join().unwrap();
        assert_eq!(sys::tcp::congestion(&stream).unwrap(), super::CONGESTION);
    }

    #[test]
    fn sysctls_are_set_inside_the_namespace_only() {
        let Some(inside) = private() else { return };
        let name = "net.ipv4.tcp_no_metrics_save";
        let host = Namespace::host().unwrap();
        let before = host.sysctl(name).unwrap();
        inside.tune_tcp().unwrap();
        assert_eq!(inside.sysctl(name).unwrap(), "1");
        assert_eq!(inside.sysctl("net.ipv4.tcp_wmem").unwrap(), "4096\t65536\t67108864");
        assert_eq!(host.sysctl(name).unwrap(), before);
        assert!(host.set_sysctl(name, &before).is_err());
    }

    #[test]
    fn a_tool_that_is_missing_or_fails_is_named() {
        let Some(inside) = private() else { return };
        let missing = inside.tool("no-such-tool", "its-package", &[]).unwrap_err();
        assert!(matches!(&missing, LabError::Unable(why) if why.contains("its-package")));
        let failed = inside.ip(&["link", "set", "nothing0", "up"]).unwrap_err();
        assert!(matches!(&failed, LabError::Failed(why) if why.contains("nothing0")), "{failed}");
        assert!(matches!(failed.outcome(), crate::result::Outcome::Failed(_)));
    }

    #[test]
    fn a_namespace_is_removed_with_its_last_handle() {
        let Some(inside) = private() else { return };
        let number = |ns: &Namespace| std::fs::read_link(ns.path()).unwrap();
        let (first, clone) = (number(&inside), inside.clone());
        drop(inside);
        assert_eq!(number(&clone), first);
        let path = clone.path();
        drop(clone);
        assert!(std::fs::read_link(path).map_or(true, |now| now != first));
    }
}
