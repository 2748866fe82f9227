//! The control socket against good, hung and hostile clients.

use admin::api::{
    Changed, ClientRow, ConnRow, DelegationRow, ExplainQuestion, Explanation, ExportChange,
    ExportRow, GraceStatus, LockRow, OpRow, OpenRow, PoolRow, RefusalRow, Released, Reloaded,
    ReportRow, Request, SessionRow, SettingRow, SocketRow, Status,
};
use admin::{Client, ClientError, Control, ControlServer, Refused, ServerError};
use bowline_admin as admin;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The limit on waiting for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

struct TestControl;

impl Control for TestControl {
    fn status(&self) -> Status {
        Status { version: "test".into(), pid: 7, ..Status::default() }
    }
    fn exports(&self) -> Vec<ExportRow> {
        Vec::new()
    }
    fn clients(&self) -> Vec<ClientRow> {
        Vec::new()
    }
    fn conns(&self) -> Vec<ConnRow> {
        Vec::new()
    }
    fn sockets(&self) -> Vec<SocketRow> {
        Vec::new()
    }
    fn pools(&self) -> Vec<PoolRow> {
        Vec::new()
    }
    fn ops(&self) -> Vec<OpRow> {
        Vec::new()
    }
    fn conn_activity(&self) -> Vec<admin::rates::ConnActivity> {
        Vec::new()
    }
    fn sample(&self, _: Option<&HashSet<u64>>) -> admin::api::Sample {
        admin::api::Sample::default()
    }
    fn reports(&self) -> Vec<ReportRow> {
        Vec::new()
    }
    fn report(&self, name: &str) -> Result<String, Refused> {
        Err(Refused(name.to_owned()))
    }
    fn report_style(&self) -> String {
        String::new()
    }
    fn metrics(&self, format: admin::Format) -> String {
        format!("{format:?}")
    }
    fn set(&self, key: &str, _: &str) -> Result<Changed, Refused> {
        Err(Refused(format!("no setting {key}")))
    }
    fn settings(&self, _: Option<&str>) -> Result<Vec<SettingRow>, Refused> {
        Ok(Vec::new())
    }
    fn locks(&self) -> Vec<LockRow> {
        Vec::new()
    }
    fn sessions(&self) -> Vec<SessionRow> {
        Vec::new()
    }
    fn delegations(&self) -> Vec<DelegationRow> {
        Vec::new()
    }
    fn opens(&self) -> Vec<OpenRow> {
        Vec::new()
    }
    fn explain(&self, question: &ExplainQuestion) -> Result<Explanation, Refused> {
        Err(Refused(format!("nobody of the name {}", question.client)))
    }
    fn refusals(&self) -> Vec<RefusalRow> {
        Vec::new()
    }
    fn release(&self, what: &str) -> Result<Released, Refused> {
        Err(Refused(format!("nobody of the name {what}")))
    }
    fn grace(&self, _: bool) -> Result<GraceStatus, Refused> {
        Ok(GraceStatus::default())
    }
    fn token(&self) -> Result<String, Refused> {
        Err(Refused("no page".to_owned()))
    }
    fn change_exports(&self, _: &ExportChange) -> Result<Reloaded, Refused> {
        Ok(Reloaded::default())
    }
    fn reload(&self, _: bool) -> Result<Reloaded, Refused> {
        Ok(Reloaded { exports: 3, ..Reloaded::default() })
    }
}

fn control() -> (tempfile::TempDir, ControlServer) {
    let dir = tempfile::tempdir().unwrap();
    let server =
        ControlServer::start(&dir.path().join("deep/c.sock"), Arc::new(TestControl)).unwrap();
    (dir, server)
}

#[test]
fn every_request_of_a_connection_is_answered() {
    let (_dir, server) = control();
    let mut client = Client::connect(server.path()).unwrap();
    assert_eq!(client.ask::<Status>(&Request::Status).unwrap().pid, 7);
    assert_eq!(client.ask::<Reloaded>(&Request::Reload { dry_run: false }).unwrap().exports, 3);
    let set = Request::Set { key: "x".into(), value: "y".into() };
    let refused = client.ask::<Changed>(&set).unwrap_err();
    assert_eq!(refused.to_string(), "no setting x");
    assert_eq!(client.ask::<Vec<ConnRow>>(&Request::Conns).unwrap(), []);
}

#[test]
fn the_socket_has_mode_0600_and_is_removed_at_the_end() {
    let (dir, server) = control();
    let mode = std::fs::metadata(server.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(server);
    assert_eq!(std::fs::read_dir(dir.path().join("deep")).unwrap().count(), 0);
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let (_dir, server) = control();
    let path = server.path().to_path_buf();
    let second = ControlServer::start(&path, Arc::new(TestControl)).unwrap_err();
    assert!(matches!(second, ServerError::Taken(_)), "{second}");
    drop(server);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let third = ControlServer::start(&path, Arc::new(TestControl)).unwrap();
    assert!(Client::connect(third.path()).is_ok());
}

#[test]
fn a_misspelled_path_leaves_no_directories_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none/deep/c.sock");
    let error = ControlServer::start(&path, Arc::new(TestControl)).unwrap_err();
    assert!(matches!(error, ServerError::Make(..)), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_plain_file_is_never_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "precious").unwrap();
    let error = ControlServer::start(&path, Arc::new(TestControl)).unwrap_err();
    assert!(matches!(error, ServerError::NotASocket(_)), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn hung_clients_do_not_delay_others() {
    let (_dir, server) = control();
    let hung: Vec<UnixStream> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(server.path()).unwrap();
            stream.write_all(b"{\"command\":").unwrap();
            stream
        })
        .collect();
    // while those are connected
    let mut client = Client::connect(server.path()).unwrap();
    client.ask::<Status>(&Request::Status).unwrap();
    drop(hung);
}

#[test]
fn clients_beyond_the_limit_get_an_error() {
    let (_dir, server) = control();
    let hung: Vec<UnixStream> =
        (0..64).map(|_| UnixStream::connect(server.path()).unwrap()).collect();
    // a thread waits for each, as the server may refuse late
    let (sender, refusals) = std::sync::mpsc::channel();
    for stream in &hung {
        let (stream, sender) = (stream.try_clone().unwrap(), sender.clone());
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stream).read_line(&mut line);
            let _ = sender.send(read.is_ok() && line.contains("try again"));
        });
    }
    for _ in 0..32 {
        assert!(refusals.recv_timeout(PATIENCE).unwrap(), "an error with advice");
    }
    assert!(refusals.try_recv().is_err(), "32 are not refused");
    hung.iter().for_each(|stream| stream.shutdown(std::net::Shutdown::Both).unwrap());
    drop(hung);
    let begun = Instant::now();
    let answered = || {
        Client::connect(server.path()).and_then(|mut c| c.ask::<Status>(&Request::Status)).is_ok()
    };
    while !answered() {
        assert!(begun.elapsed() < PATIENCE, "their slots are free again");
    }
}

#[test]
fn invalid_requests_are_refused_and_an_endless_line_ends_the_connection() {
    let (_dir, server) = control();
    let mut stream = UnixStream::connect(server.path()).unwrap();
    stream.write_all(b"\x00\xff not json\n{\"command\":\"fly\"}\n").unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"version\":1,\"ok\":false,"), "{line}");
    }
    let _ = stream.write_all(&[b'x'; 100_000]);
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest);
    assert!(String::from_utf8_lossy(&rest).contains("longer than"), "{rest:?}");
}

#[test]
fn the_error_for_a_missing_server_names_bowline_serve() {
    let dir = tempfile::tempdir().unwrap();
    let error = Client::connect(&dir.path().join("none")).unwrap_err();
    assert!(matches!(error, ClientError::NoServer(_)));
    assert!(error.to_string().contains("bowline serve"));
}
