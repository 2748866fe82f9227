//! Metrics: over HTTP and the control socket, in both formats, with names that alerts and the dashboard use.

use crate::operator_tables::connect;
use crate::rig::{Server, bowline, free_port, text, told};
use client::Client;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Where the server says that its metrics are.
fn address(server: &Server) -> SocketAddr {
    let line = server.lines.iter().find_map(|line| line.strip_prefix("metrics: http://"));
    line.unwrap().trim_end().strip_suffix("/metrics").unwrap().parse().unwrap()
}

fn get(at: SocketAddr, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {at}\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let head = head.to_lowercase();
    assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
    (head, body.to_owned())
}

fn value(metrics: &str, sample: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {metrics}")).parse().unwrap()
}

/// A server and its client: it has answered a MOUNT, three GETATTRs and a LOOKUP of nothing.
fn used_server() -> (Server, Client) {
    let server = Server::start(&["m=mem:", "--metrics", "127.0.0.1:0"]);
    let mut client = connect(&server);
    let root = client.mount(b"/m").unwrap();
    for _ in 0..3 {
        client.getattr(&root).unwrap();
    }
    client.lookup(&root, b"none").unwrap_err();
    (server, client)
}

#[test]
fn metrics_match_the_calls_made() {
    let (server, _connected) = used_server();
    let at = address(&server);
    let (head, metrics) = get(at, "*/*");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let getattr = r#"{program="nfs",version="3",procedure="GETATTR"}"#;
    for (sample, wanted) in [
        (format!("bowline_calls_total{getattr}"), 3.0),
        (format!("bowline_call_duration_seconds_count{getattr}"), 3.0),
        (
            r#"bowline_call_errors_total{program="nfs",version="3",procedure="LOOKUP",status="NOENT"}"#
                .to_owned(),
            1.0,
        ),
        (r#"bowline_export_errors_total{export="/m"}"#.to_owned(), 1.0),
        ("bowline_connections".to_owned(), 1.0),
        ("bowline_exports".to_owned(), 2.0),
        ("bowline_procedure_panics_total".to_owned(), 0.0),
    ] {
        assert!((value(&metrics, &sample) - wanted).abs() < 1e-9, "{sample}: {metrics}");
    }
    assert!(value(&metrics, "bowline_resident_memory_bytes") > 1e6);
    let (head, open) = get(at, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(open.ends_with("\n# EOF\n") && open.contains("\n# TYPE bowline_calls counter\n"));
    let socket = text(&server.ask(&["metrics"]).stdout);
    assert!((value(&socket, &format!("bowline_calls_total{getattr}")) - 3.0).abs() < 1e-9);
    let socket = text(&server.ask(&["metrics", "--openmetrics"]).stdout);
    assert!(socket.ends_with("# EOF\n"), "{socket}");
}

#[test]
fn metric_families_are_unique_and_contiguous() {
    let (_, metrics) = get(address(&used_server().0), "*/*");
    let (mut families, mut current) = (BTreeSet::new(), String::new());
    for line in metrics.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            current = family.split_once(' ').unwrap().0.to_owned();
            assert!(families.insert(current.clone()), "{current} comes twice");
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&current) && line.starts_with("bowline_"), "{line}");
        }
    }
    assert!(families.len() > 80, "{families:?}");
}

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/metrics").join(name)
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("bowline_")).map(str::to_owned).collect()
}

#[test]
fn alerts_and_dashboard_use_existing_metrics() {
    let (_, metrics) = get(address(&used_server().0), "*/*");
    let there = names(&metrics);
    for file in ["bowline-alerts.yml", "grafana-dashboard.json"] {
        let used = names(&std::fs::read_to_string(packaged(file)).unwrap());
        let missing: Vec<_> = used.difference(&there).collect();
        assert!(used.len() > 10 && missing.is_empty(), "{file}: {missing:?}");
    }
    let dashboard = std::fs::read(packaged("grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_slice(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}

/// Where Debian's package prometheus is installed.
#[test]
fn promtool_accepts_metrics_and_alerts() {
    let Ok(mut check) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    else {
        testing::skip(testing::Missing::Purpose, "promtool (Debian: prometheus)");
        return;
    };
    let (_, metrics) = get(address(&used_server().0), "*/*");
    check.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let said = check.wait_with_output().unwrap();
    let errors = text(&said.stderr);
    assert!(said.status.success() && errors.is_empty(), "{errors}");
    let rules = Command::new("promtool")
        .args(["check", "rules"])
        .arg(packaged("bowline-alerts.yml"))
        .output()
        .unwrap();
    assert!(rules.status.success(), "{}", text(&rules.stderr));
}

/// Prometheus, which scrapes a server each second; ends when dropped.
struct Prometheus {
    child: Child,
    at: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Over TLS, if an authority is named. `None` where it is not installed.
    fn start(target: SocketAddr, ca: Option<&Path>) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("prometheus.yml");
        let alerts = packaged("bowline-alerts.yml").canonicalize().unwrap();
        let tls =
            |ca: &Path| format!(", scheme: https, tls_config: {{ca_file: '{}'}}", ca.display());
        let tls = ca.map(tls).unwrap_or_default();
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs: [{{job_name: bowline{tls}, static_configs: [{{targets: ['{target}']}}]}}]\n",
            alerts.display()
        );
        std::fs::write(&config, text).unwrap();
        let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={at}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            testing::skip(testing::Missing::Purpose, "prometheus (Debian: prometheus)");
            return None;
        };
        Some(Self { child, at, _dir: dir })
    }

    /// The answer to `GET /api/v1/PATH`; none while it does not listen.
    fn ask(&self, path: &str) -> Option<serde_json::Value> {
        let mut stream = TcpStream::connect(self.at).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET /api/v1/{path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    fn query(&self, expression: &str) -> Option<serde_json::Value> {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let encoded = expression.bytes().map(|byte| match plain(&byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        self.ask(&format!("query?query={}", encoded.collect::<String>()))
    }
}

/// The expressions of all panels, as Grafana would send them.
fn dashboard_queries() -> Vec<String> {
    let text = std::fs::read(packaged("grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions = targets.filter_map(|target| target["expr"].as_str());
    let filled = |text: &str| text.replace("$instance", ".*").replace("$__rate_interval", "30s");
    expressions.map(filled).collect()
}

#[test]
fn the_queries_of_the_dashboard_and_the_alerts_run_in_prometheus() {
    let (server, mut client) = used_server();
    let Some(prometheus) = Prometheus::start(address(&server), None) else { return };
    let root = client.mount(b"/m").unwrap();
    let rows = |answer: &serde_json::Value| answer["data"]["result"].as_array().map_or(0, Vec::len);
    let begun = Instant::now();
    // a rate needs two scrapes
    let rate = "rate(bowline_calls_total[30s]) > 0";
    while prometheus.query(rate).is_none_or(|answer| rows(&answer) == 0) {
        client.getattr(&root).unwrap();
        assert!(begun.elapsed() < PATIENCE, "no rate: {:?}", prometheus.ask("targets"));
        std::thread::sleep(Duration::from_millis(200));
    }
    let (queries, mut empty) = (dashboard_queries(), Vec::new());
    for query in &queries {
        let answer = prometheus.query(query).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        if rows(&answer) == 0 {
            empty.push(query);
        }
    }
    // a server without errors, blocked calls and refusals has no rows of these
    assert!(queries.len() > 20 && empty.len() * 3 < queries.len(), "{empty:#?}");
    let rules = prometheus.ask("rules").unwrap();
    let groups = rules["data"]["groups"].as_array().unwrap();
    let rules: Vec<_> =
        groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() > 5 && rules.iter().all(|rule| rule["health"] != "err"), "{rules:#?}");
}

#[test]
fn prometheus_scrapes_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let made = bowline(&["tls", "init", "nfs.test", "--dir", dir.path().to_str().unwrap()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let file = |name| dir.path().join(name).display().to_string();
    let (cert, key) = (file("server.pem"), file("server.key"));
    let at = format!("127.0.0.1:{}", free_port());
    let server = Server::start(&["--metrics", &at, "--tls-cert", &cert, "--tls-key", &key]);
    let lines = server.lines.concat();
    assert!(lines.contains(&format!("metrics: https://{at}/metrics, also http://\n")), "{lines}");
    let ca = dir.path().join("ca.pem");
    let Some(prometheus) = Prometheus::start(at.parse().unwrap(), Some(&ca)) else { return };
    let begun = Instant::now();
    let encrypted = "bowline_web_connections_total{security=\"tls\"} > 2 and on() up == 1";
    let is_scraped = || {
        let answer = prometheus.query(encrypted)?;
        answer["data"]["result"].as_array().map(|rows| rows.len() == 1)
    };
    while is_scraped() != Some(true) {
        assert!(begun.elapsed() < PATIENCE, "not scraped: {:?}", prometheus.ask("targets"));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn the_page_changes_settings_with_the_token_of_the_control_socket() {
    let (server, _connected) = used_server();
    let at = address(&server);
    let token = text(&server.ask(&["token"]).stdout);
    let change = |token: &str| {
        let body = r#"{"key":"max-read","value":"64K"}"#;
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let head = format!("Authorization: Bearer {token}\r\nContent-Length: {length}");
        write!(stream, "POST /api/set HTTP/1.1\r\nHost: {at}\r\n{head}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(change("0").starts_with("HTTP/1.1 401 "));
    assert_eq!(text(&server.ask(&["get", "max-read"]).stdout), "1M\n");
    let answer = change(token.trim_end());
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"before\":\"1M\""),
        "{answer}"
    );
    assert_eq!(text(&server.ask(&["get", "max-read"]).stdout), "64K\n");
    let without = Server::start(&["m=mem:"]);
    assert!(told(&without.ask(&["token"]), 1).contains("--metrics"));
}
