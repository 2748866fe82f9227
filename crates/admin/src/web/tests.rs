//! The HTTP server with correct, silent and incorrect clients; the page's files.

use super::connection_limit::CONNECTIONS_MAX;
use super::{HttpConfig, HttpServer, Token};
use crate::control::Control;
use crate::control::tests::TestServer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn control() -> Arc<dyn Control> {
    Arc::new(TestServer::default())
}

fn server_with(token: Option<Arc<Token>>) -> HttpServer {
    let config = HttpConfig { token, ..HttpConfig::default() };
    HttpServer::start(([127, 0, 0, 1], 0).into(), &control(), config).unwrap()
}

fn server() -> HttpServer {
    server_with(None)
}

fn said(server: &HttpServer, text: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(text).unwrap();
    let mut said = Vec::new();
    // a client that has sent more than was read sees a reset instead of the end
    let _ = stream.read_to_end(&mut said);
    String::from_utf8(said).unwrap()
}

#[test]
fn each_path_has_its_answer() {
    let server = server();
    let get = |line: &str| said(&server, format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let metrics = get("GET /metrics?x=1");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.ends_with("\r\n\r\nPrometheus"), "{metrics}");
    let accept = "accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let open =
        said(&server, format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{accept}\r\n\r\n").as_bytes());
    assert!(open.contains("application/openmetrics-text;") && open.ends_with("\nOpenMetrics"));
    assert!(get("HEAD /metrics").contains("content-length: 10\r\n"));
    assert!(get("HEAD /metrics").ends_with("\r\n\r\n"));
    assert!(get("GET /other").starts_with("HTTP/1.1 404 "));
    assert!(get("POST /metrics").starts_with("HTTP/1.1 405 "));
    assert!(said(&server, b"\0\0\0\0 / x\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let page = get("GET /");
    assert!(
        page.contains("content-security-policy: default-src 'none'; script-src 'self';"),
        "{page}"
    );
    assert!(page.contains("text/html") && page.trim_end().ends_with("</html>"), "{page}");
    let report = get("GET /reports/one");
    assert!(report.contains("content-security-policy: default-src 'none'; script-src 'self';"));
    assert!(report.contains("text/html") && report.ends_with("<p>one</p>"), "{report}");
    assert!(get("GET /report.css").ends_with("p {}"));
    for wrong in ["two", "%2e%2e", "..%2fsecret", "a/b"] {
        let answer = get(&format!("GET /reports/{wrong}"));
        assert!(answer.starts_with("HTTP/1.1 404 "), "{wrong}: {answer}");
    }
    for path in ["exports", "locks", "opens", "sessions", "refusals", "settings", "reports"] {
        let list = get(&format!("GET /api/{path}"));
        assert!(list.ends_with("{\"version\":1,\"count\":0,\"rows\":[]}"), "{path}: {list}");
    }
    let access = get("GET /api/access");
    let wanted = "{\"version\":1,\"has_token\":false,\"has_tls\":false,\"is_private\":true}";
    assert!(access.ends_with(wanted), "{access}");
    // a handshake of TLS is no request, where there is no certificate
    assert!(said(&server, b"\x16\x03\x01\0\x05\x01\0\0\x01\0").starts_with("HTTP/1.1 400 "));
    let live = get("GET /api/live?conns");
    assert!(live.contains("{\"version\":1,") && live.contains("\"points\":[]"), "{live}");
}

#[test]
fn files_refer_to_nothing_elsewhere_and_are_small() {
    let mut bytes = 0;
    for (path, _, text) in super::routes::FILES {
        bytes += text.len();
        // the first line of the library says where it is from, and a picture what it is
        let own = [
            "/*! https://github.com/leeoniya/uPlot (v1.6.32) */",
            "xmlns=\"http://www.w3.org/2000/svg\"",
        ];
        let text = own.iter().fold(text.to_owned(), |text, own| text.replace(own, ""));
        assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
        assert!(!text.contains("sourceMappingURL") && !text.contains(" style="), "{path}");
        assert!(!text.contains("innerHTML") || path == "/uplot.js", "{path}");
    }
    assert!(bytes < 150_000, "{bytes}");
}

#[test]
fn settings_need_the_token() {
    let token = Arc::new(Token::new().unwrap());
    let server = server_with(Some(Arc::clone(&token)));
    let body = r#"{"key":"max-read","value":"64K"}"#;
    let post = |more: &str, body: &str| {
        let head = format!(
            "POST /api/set HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {}\r\n\r\n",
            body.len()
        );
        said(&server, (head + body).as_bytes())
    };
    assert!(post("", body).starts_with("HTTP/1.1 401 "));
    let text = token.text();
    for wrong in
        ["", &text[..31], &text.to_uppercase().replace(char::is_numeric, "A"), &format!("{text}0")]
    {
        let answer = post(&format!("Authorization: Bearer {wrong}\r\n"), body);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{wrong}: {answer}");
    }
    let right = format!("Authorization: Bearer {text}\r\n");
    // the server of this test refuses each change with the key
    let answer = post(&right, body);
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.ends_with("max-read"), "{answer}");
    assert!(post(&right, "{}").starts_with("HTTP/1.1 400 "));
    assert!(post(&right, &"x".repeat(20_000)).starts_with("HTTP/1.1 413 "));
    let none = server_with(None);
    let head = format!(
        "POST /api/set HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert!(said(&none, head.as_bytes()).starts_with("HTTP/1.1 401 "));
}

#[test]
fn silent_clients_delay_neither_others_nor_the_end() {
    let server = server();
    let silent: Vec<_> =
        (1..CONNECTIONS_MAX).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    assert!(said(&server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("Prometheus"));
    let long = vec![b'a'; super::HEAD_BYTES_MAX * 2];
    assert!(!said(&server, &long).starts_with("HTTP/1.1 200"));
    drop(server);
    drop(silent);
}
