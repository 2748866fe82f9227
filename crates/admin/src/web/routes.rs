//! What is answered to which path.

use super::answers::{Answers, Busy};
use super::live::{Live, ROWS_MAX, VERSION};
use super::transport::count;
use super::{HttpCounts, Peer, Token};
use crate::control::Control;
use crate::exposition::Format;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Longest body of a request: a key and a value.
const BODY_BYTES_MAX: usize = 16 << 10;
/// Nothing is loaded from elsewhere, nothing is inline, and no other page may show this one in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page's files: path, type, content.
pub const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("../../page/index.html")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("../../page/page.js")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../../page/page.css")),
    ("/uplot.js", "text/javascript; charset=utf-8", include_str!("../../page/uplot.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../../page/icon.svg")),
    ("/uplot.css", "text/css; charset=utf-8", include_str!("../../page/uplot.css")),
];

#[derive(Clone)]
struct AppState {
    answers: Answers,
    live: Arc<Live>,
    token: Option<Arc<Token>>,
    /// Whether the page is served over TLS too.
    has_tls: bool,
    counts: Arc<HttpCounts>,
}

/// All paths.
pub fn router(
    answers: Answers,
    token: Option<Arc<Token>>,
    has_tls: bool,
    counts: Arc<HttpCounts>,
) -> Router {
    let state = AppState { answers, live: Arc::default(), token, has_tls, counts };
    let mut router = Router::new()
        .route("/metrics", get(metrics))
        .route("/api/live", get(live))
        .route("/api/exports", list(|control| rows(control.exports())))
        .route("/api/locks", list(|control| rows(control.locks())))
        .route("/api/opens", list(|control| rows(control.opens())))
        .route("/api/sessions", list(|control| rows(control.sessions())))
        .route("/api/refusals", list(|control| rows(control.refusals())))
        .route("/api/settings", list(|control| rows(control.settings(None).unwrap_or_default())))
        .route("/api/reports", list(|control| rows(control.reports())))
        .route("/api/access", get(access))
        .route("/api/set", post(set))
        .route("/reports/{name}", get(report))
        .route("/report.css", get(report_style));
    for (path, kind, text) in FILES {
        router =
            router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }));
    }
    let none = || async { (StatusCode::NOT_FOUND, "404 Not Found\n") };
    router
        .fallback(none)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(map_response(with_headers))
        .with_state(state)
}

async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONNECTION, "close"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

impl IntoResponse for Busy {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, "too many requests wait: try again later\n")
            .into_response()
    }
}

/// OpenMetrics for a client that names it among what it accepts.
async fn metrics(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Busy> {
    let open = |value: &header::HeaderValue| {
        value.to_str().is_ok_and(|value| value.contains("application/openmetrics-text"))
    };
    let open = headers.get_all(header::ACCEPT).iter().any(open);
    let format = if open { Format::OpenMetrics } else { Format::Prometheus };
    let text = state.answers.ask(move |control| control.metrics(format)).await?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text))
}

fn json(text: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

/// Rates; with those of connections if the query is `conns`.
async fn live(State(state): State<AppState>, RawQuery(query): RawQuery) -> Result<Response, Busy> {
    let conns = query.as_deref() == Some("conns");
    let text = state.answers.ask(move |control| state.live.json(control, conns)).await?;
    Ok(json(text.as_str().to_owned()))
}

/// The answer with a list: its first rows, and how many there are.
#[derive(Serialize)]
struct Rows<T> {
    version: u32,
    count: usize,
    rows: Vec<T>,
}

fn rows<T: Serialize>(mut rows: Vec<T>) -> String {
    let count = rows.len();
    rows.truncate(ROWS_MAX);
    // encoding these types does not fail
    serde_json::to_string(&Rows { version: VERSION, count, rows }).unwrap_or_default()
}

fn list(ask: fn(&dyn Control) -> String) -> axum::routing::MethodRouter<AppState> {
    get(move |State(state): State<AppState>| async move { state.answers.ask(ask).await.map(json) })
}

/// A report, under the same policy as the page.
async fn report(State(state): State<AppState>, Path(name): Path<String>) -> Result<Response, Busy> {
    let found = state.answers.ask(move |control| control.report(&name)).await?;
    let html = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    Ok(match found {
        Ok(page) => (html, page).into_response(),
        Err(why) => (StatusCode::NOT_FOUND, why.0 + "\n").into_response(),
    })
}

async fn report_style(State(state): State<AppState>) -> Result<Response, Busy> {
    let text = state.answers.ask(|control| control.report_style()).await?;
    Ok(([(header::CONTENT_TYPE, "text/css; charset=utf-8")], text).into_response())
}

#[derive(Deserialize)]
struct Change {
    key: String,
    value: String,
}

/// Whether settings can be changed the way that a request came.
#[derive(Serialize)]
struct SettingAccess {
    version: u32,
    /// There is a token.
    has_token: bool,
    /// The page is served over TLS too.
    has_tls: bool,
    /// The request came over TLS, or from the server's machine.
    is_private: bool,
}

async fn access(State(state): State<AppState>, Extension(peer): Extension<Peer>) -> Response {
    let access = SettingAccess {
        version: VERSION,
        has_token: state.token.is_some(),
        has_tls: state.has_tls,
        is_private: peer.is_private(),
    };
    // encoding this type does not fail
    json(serde_json::to_string(&access).unwrap_or_default())
}

/// Changes a setting: with the token, over TLS or from this machine, by a script of the page (which alone can send this
/// header).
async fn set(
    State(state): State<AppState>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, Busy> {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if let Err(refusal) = state.permits(peer, given) {
        count(&state.counts.refused_changes);
        return Ok(refusal.into_response());
    }
    let Ok(Change { key, value }) = serde_json::from_str(&body) else {
        return Ok((StatusCode::BAD_REQUEST, "write {\"key\":…,\"value\":…}").into_response());
    };
    Ok(match state.answers.ask(move |control| control.set(&key, &value)).await? {
        Ok(changed) => {
            let client = peer.addr;
            tracing::info!(%client, "{} is now {}, by the web page", changed.key, changed.value);
            json(serde_json::to_string(&changed).unwrap_or_default())
        }
        Err(why) => (StatusCode::CONFLICT, why.0).into_response(),
    })
}

impl AppState {
    /// Whether a request with this token, sent this way, may change settings. A token that others could read on its way is
    /// replaced by a new one.
    fn permits(&self, peer: Peer, given: &str) -> Result<(), (StatusCode, String)> {
        let token = self.token.as_deref();
        if !peer.is_private() {
            let way = if self.has_tls {
                "settings are changed over TLS or from the server's machine only: open the page with https://, or forward \
                 the port with ssh -L"
            } else {
                "settings are changed over TLS or from the server's machine only: forward the port with ssh -L, or start the \
                 server with a certificate (--tls-cert and --tls-key; `bowline tls init` makes both) and open the page with \
                 https://"
            };
            let mut text = way.to_owned();
            if token.is_some_and(|token| token.renew_if(given)) {
                let client = peer.addr;
                tracing::warn!(%client, "the token of the web page came unencrypted over the network, so it is not valid any more; `bowline token` prints the new one");
                text += ". The token came unencrypted, so it is not valid any more; `bowline token` prints the new one";
            }
            return Err((StatusCode::FORBIDDEN, text));
        }
        if !token.is_some_and(|token| token.is(given)) {
            let text = "not the token that `bowline token` prints";
            return Err((StatusCode::UNAUTHORIZED, text.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HttpCounts, Peer, Token};
    use super::{Answers, AppState, Arc, StatusCode};
    use crate::control::Control;
    use crate::control::tests::TestServer;

    #[test]
    fn a_token_counts_over_tls_and_from_this_machine() {
        let control: Arc<dyn Control> = Arc::new(TestServer::default());
        let token = Arc::new(Token::new().unwrap());
        let state = |token, has_tls| AppState {
            answers: Answers::start(&control).unwrap(),
            live: Arc::default(),
            token,
            has_tls,
            counts: Arc::<HttpCounts>::default(),
        };
        let peer = |ip: &str, is_encrypted| Peer {
            addr: (ip.parse::<std::net::IpAddr>().unwrap(), 4000).into(),
            is_encrypted,
        };
        let with = state(Some(Arc::clone(&token)), true);
        let text = token.text();
        for from in [
            peer("127.0.0.1", false),
            peer("::ffff:127.0.0.2", false),
            peer("::1", false),
            peer("192.0.2.7", true),
        ] {
            assert!(with.permits(from, &text).is_ok(), "{from:?}");
            assert_eq!(with.permits(from, "x").unwrap_err().0, StatusCode::UNAUTHORIZED);
            assert!(state(None, true).permits(from, "").is_err());
        }
        let (status, words) = with.permits(peer("192.0.2.7", false), "x").unwrap_err();
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(words.contains("https://") && !words.contains("--tls-cert"), "{words}");
        let (_, words) = state(None, false).permits(peer("2001:db8::1", false), &text).unwrap_err();
        assert!(words.contains("ssh -L") && words.contains("--tls-cert"), "{words}");
        // one that others could read is not known any more
        let (status, words) = with.permits(peer("192.0.2.7", false), &text).unwrap_err();
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(words.contains("not valid any more"), "{words}");
        assert!(with.permits(peer("192.0.2.7", true), &text).is_err());
        assert!(with.permits(peer("192.0.2.7", true), &token.text()).is_ok());
    }
}
