//! A child process: its namespace and CPUs, its last output, and its end.
//!
//! The child is started by a thread that enters the namespace and the CPUs first, so the child begins
//! there, and that then waits for the [`Process`] to be dropped: the kernel kills the child when that
//! thread ends, in whatever way.

use super::ServerError;
use crate::lab::Namespace;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sys::child::{Ending, end};

/// How many of the last lines of standard error are kept,
const LINES_MAX: usize = 8;
/// and how much of each.
const LINE_BYTES_MAX: u64 = 400;
/// How long a server may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often its end is checked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The network and CPUs of a server.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// Its network; `None`: that of the thread that starts it.
    pub namespace: Option<Namespace>,
    /// Its CPUs; empty: all that this process may use.
    pub cpus: Vec<usize>,
}

impl Placement {
    /// In the network `namespace`.
    pub fn inside(namespace: &Namespace) -> Self {
        Self { namespace: Some(namespace.clone()), cpus: Vec::new() }
    }

    /// Runs `work` in the server's network.
    pub(super) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, ServerError> {
        match &self.namespace {
            Some(namespace) => Ok(namespace.run(work)?),
            None => Ok(work()),
        }
    }

    fn enter(&self) -> Result<(), ServerError> {
        if let Some(namespace) = &self.namespace {
            namespace.enter()?;
        }
        if !self.cpus.is_empty() {
            sys::thread::run_on(&self.cpus).map_err(|error| {
                ServerError::Unable(format!(
                    "the server cannot run on CPU {:?}: {error}",
                    self.cpus
                ))
            })?;
        }
        Ok(())
    }
}

/// A child process; ended when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    said: Arc<Mutex<VecDeque<String>>>,
    ended: Option<ExitStatus>,
    /// The process that gets the termination signal; the child ends when it does.
    asked: u32,
    // dropped last: then the thread ends, and the kernel kills what is left
    parent: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Process {
    /// Starts `command`, whose program Debian has in `package`. Standard output is thrown away.
    pub fn start(
        mut command: Command,
        package: &str,
        place: &Placement,
    ) -> Result<Self, ServerError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C is for this process, which ends the child when it has its results
        command.process_group(0);
        sys::child::die_with_parent(&mut command);
        let (tell, started) = mpsc::channel();
        let (hold, held) = mpsc::channel();
        let place = place.clone();
        let parent = std::thread::Builder::new().name("parent".into()).spawn(move || {
            let spawned = place.enter().map(|()| command.spawn());
            if tell.send(spawned).is_ok() {
                // ends when the other end is dropped
                let _: Result<(), _> = held.recv();
            }
        });
        let parent = parent.map_err(|error| ServerError::io("starting a thread", &error))?;
        let died = || ServerError::Io("the thread that starts servers died".into());
        let mut child = match started.recv().map_err(|_| died())?? {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ServerError::NotInstalled { program, package: package.into() });
            }
            Err(error) => return Err(ServerError::io(&format!("cannot run `{program}`"), &error)),
        };
        let said = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            // It ends with the last process that holds the pipe's other end; nobody waits for it.
            let listener = std::thread::Builder::new().name("listener".into());
            let listening = listener.spawn(move || listen(stderr, &said));
            listening.map_err(|error| ServerError::io("starting a thread", &error))?;
        }
        let asked = child.id();
        Ok(Self { child, said, ended: None, asked, parent: Some((hold, parent)) })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sets the process that gets the termination signal, a descendant with which the child ends.
    pub fn terminate_instead(&mut self, pid: u32) {
        self.asked = pid;
    }

    pub fn is_alive(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or_default();
        }
        self.ended.is_none()
    }

    /// The last lines that it wrote to standard error, as one.
    pub fn last_words(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().map(String::as_str).collect::<Vec<_>>().join(" | ")
    }

    /// How it ended and its last output.
    fn describe_end(&mut self) -> String {
        // its last output may still be in the pipe
        let begun = Instant::now();
        while self.last_words().is_empty() && begun.elapsed() < Duration::from_millis(200) {
            std::thread::sleep(LOOK_EVERY);
        }
        let how = match self.ended {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (_, Some(signal)) => format!("killed by signal {signal}"),
                _ => "ended".into(),
            },
            None => "it runs but its process cannot be read".into(),
        };
        match self.last_words().as_str() {
            "" => format!("{how}, without a word"),
            words => format!("{how}: {words}"),
        }
    }

    /// The error of a server that has ended.
    pub fn died(&mut self, name: &str) -> ServerError {
        ServerError::Died { name: name.into(), why: self.describe_end() }
    }

    /// The error of a server that ended before it served.
    pub fn did_not_start(&mut self, name: &str) -> ServerError {
        ServerError::DidNotStart { name: name.into(), why: self.describe_end() }
    }

    /// Terminates it, and kills it after `patience`.
    pub fn stop(&mut self, patience: Duration) {
        let begun = Instant::now();
        if self.is_alive() {
            let _ = end(self.asked, Ending::Terminate);
        }
        while self.is_alive() && begun.elapsed() < patience {
            std::thread::sleep(LOOK_EVERY);
        }
        if self.ended.is_none() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop(PATIENCE);
        if let Some((hold, parent)) = self.parent.take() {
            drop(hold);
            let _ = parent.join();
        }
    }
}

/// Keeps the last lines.
fn listen(stderr: ChildStderr, said: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            continue;
        }
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() == LINES_MAX {
            said.pop_front();
        }
        said.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::{Placement, Process};
    use crate::lab::Namespace;
    use crate::servers::ServerError;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn shell(script: &str, place: &Placement) -> Result<Process, ServerError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, "dash", place)
    }

    fn wait_for_end(process: &mut Process) {
        let begun = Instant::now();
        while process.is_alive() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!process.is_alive());
    }

    #[test]
    fn stderr_of_a_process_that_ends_early_is_quoted() {
        let mut process =
            shell("echo one >&2; echo; echo two >&2; exit 3", &Placement::default()).unwrap();
        wait_for_end(&mut process);
        std::thread::sleep(Duration::from_millis(100));
        let error = process.did_not_start("it").to_string();
        assert_eq!(error, "it did not start: exit status 3: one | two");
        let mut quiet = shell("kill -9 $$", &Placement::default()).unwrap();
        wait_for_end(&mut quiet);
        assert_eq!(quiet.died("it").to_string(), "it died: killed by signal 9, without a word");
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        let missing =
            Process::start(Command::new("no-such-server"), "a-package", &Placement::default());
        let error = missing.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("apt-get install a-package"), "{error}");
        assert!(matches!(error.outcome(), crate::result::Outcome::Unable(_)));
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed() {
        let mut process =
            shell("trap '' TERM; while :; do sleep 0.1; done", &Placement::default()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        process.stop(Duration::from_millis(200));
        assert!(!process.is_alive());
    }

    #[test]
    fn a_process_starts_in_its_namespace_and_on_its_cpus() {
        let cpu = sys::thread::allowed_cpus().unwrap()[0];
        let mut place = Placement { namespace: None, cpus: vec![cpu] };
        match Namespace::new("place") {
            Ok(namespace) => place.namespace = Some(namespace),
            Err(error) => eprintln!("without a namespace: {error}"),
        }
        let script = "grep Cpus_allowed_list /proc/self/status >&2; readlink /proc/self/ns/net >&2";
        let mut process = shell(script, &place).unwrap();
        wait_for_end(&mut process);
        std::thread::sleep(Duration::from_millis(100));
        let said = process.last_words();
        let ns = place.run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        assert_eq!(said, format!("Cpus_allowed_list: {cpu} | {}", ns.display()));
    }
}
