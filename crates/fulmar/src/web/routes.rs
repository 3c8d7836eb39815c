//! What is at which address: the page and its parts, what it shows, metrics, and the question for
//! the token.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::watch::Receiver;
use tokio::time::timeout;

use super::access::{Access, Verdict};
use super::pairing::{Pairing, Refusal};
use super::{metrics, view};
use crate::watch::Watch;

/// Nothing but our own files: no inline script or style, no frame, no other host.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const EVERYWHERE: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // Nobody else is told where somebody comes from; with `no-referrer` our own form would not say
    // that it is ours.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The largest form that can be the question's.
const FORM: usize = 1_024;
/// How long a form may take to come in.
const FORM_WITHIN: Duration = Duration::from_secs(5);
/// How long the page is kept waiting while nothing is new.
const NEWS_WITHIN: Duration = Duration::from_secs(5);

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

const PAGE: &str = include_str!("page/index.html");
const LOGIN: &str = include_str!("page/login.html");
/// Where the question says that a token was wrong.
const LOGIN_MARK: &str = "<!--wrong-->";

/// What a server shows.
pub(super) struct Site {
    pub(super) watch: Watch,
    /// Changes whenever there is something new.
    pub(super) news: Receiver<u64>,
    pub(super) access: Access,
    /// None where nobody may pair here.
    pub(super) pairing: Option<Pairing>,
}

type Answer = Response<Full<Bytes>>;

/// Answers a request that came from an address, and tells whether who asked may look.
pub(super) async fn answer(
    site: &Site,
    request: Request<Incoming>,
    from: IpAddr,
) -> (Answer, Verdict) {
    let past_proxy = site.access.is_past_proxy(from);
    let from = site.access.origin(request.headers(), from);
    if past_proxy || site.access.is_of_foreign_page(&request) {
        let what = match past_proxy {
            true => {
                "This port is for the proxy alone: use the proxy's address, or name this one with --proxy.\n"
            }
            false => "Another page asked for this.\n",
        };
        return (text(StatusCode::FORBIDDEN, what), Verdict::Unknown);
    }
    let verdict = site.access.judge(request.headers(), from);
    (found_at(site, request, from, verdict).await, verdict)
}

async fn found_at(
    site: &Site,
    request: Request<Incoming>,
    from: IpAddr,
    verdict: Verdict,
) -> Answer {
    if verdict == Verdict::WrongName {
        let what = "This page does not go by that name. Use its address, or give `fulmar web` the name with --name \
                    (behind a proxy with --behind-proxy).\n";
        return text(StatusCode::MISDIRECTED_REQUEST, what);
    }
    let path = request.uri().path();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match (path, is_read, verdict) {
        ("/login", false, _) if request.method() == Method::POST => {
            login(site, request, from).await
        }
        ("/api/pairing", false, verdict) if *request.method() == Method::POST => {
            match (&site.pairing, verdict) {
                (Some(pairing), Verdict::Welcome) => pair(site, pairing, request, from).await,
                (Some(_), Verdict::TooMany) => too_many(),
                (Some(_), _) => unknown(),
                (None, _) => text(StatusCode::METHOD_NOT_ALLOWED, "Nobody may pair here.\n"),
            }
        }
        (_, false, _) => text(StatusCode::METHOD_NOT_ALLOWED, "This page is only read.\n"),
        // These say nothing of any daemon, and the question needs them too.
        ("/style.css", ..) => found("text/css; charset=utf-8", include_str!("page/style.css")),
        ("/app.js", ..) => found("text/javascript; charset=utf-8", include_str!("page/app.js")),
        ("/pairing.js", ..) => {
            found("text/javascript; charset=utf-8", include_str!("page/pairing.js"))
        }
        ("/icon.svg", ..) => found("image/svg+xml", include_str!("page/icon.svg")),
        (.., Verdict::TooMany) => too_many(),
        ("/", _, Verdict::Unknown) => respond(StatusCode::UNAUTHORIZED, HTML, LOGIN),
        (.., Verdict::Unknown) => unknown(),
        ("/", ..) => found(HTML, PAGE),
        ("/api/view", ..) => {
            found(JSON, show(site, request.uri().query().unwrap_or_default()).await)
        }
        ("/metrics", ..) => found(METRICS, metrics_text(site).await),
        _ => text(
            StatusCode::NOT_FOUND,
            "Nothing is here; the page is at /, metrics are at /metrics.\n",
        ),
    }
}

/// Shows the daemons as the page asks for them; while nothing is new, it waits.
async fn show(site: &Site, query: &str) -> String {
    let asked = view::Asked::parse(query);
    let mut news = site.news.clone();
    if asked.revision == Some(*news.borrow_and_update()) {
        let _ = timeout(NEWS_WITHIN, news.changed()).await;
    }
    let revision = *news.borrow();
    let mut view = view::show(&site.watch.seen(), revision, &asked);
    view["pairing"] = site.pairing.is_some().into();
    view.to_string()
}

/// Writes the metrics, beside the loop: those of a thousand drones take a while.
async fn metrics_text(site: &Site) -> String {
    let watch = site.watch.clone();
    let written = tokio::task::spawn_blocking(move || {
        let daemons: Vec<_> = watch
            .seen()
            .iter()
            .map(|(name, seen)| (name.clone(), seen.report.clone(), seen.took))
            .collect();
        metrics::text(&daemons)
    });
    written.await.unwrap_or_default()
}

/// Takes a token from the question's form.
async fn login(site: &Site, request: Request<Incoming>, from: IpAddr) -> Answer {
    let Some(body) = body(request).await else {
        return text(StatusCode::BAD_REQUEST, "That is not the form.\n");
    };
    let mut pairs = form_urlencoded::parse(&body);
    let token = pairs.find(|(name, _)| name == "token").unwrap_or_default().1;
    match site.access.try_token(token.trim(), from) {
        Verdict::Welcome => {
            let mut answer = respond(StatusCode::SEE_OTHER, TEXT, "");
            answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
            let cookie = site.access.set_cookie().and_then(|cookie| cookie.parse().ok());
            if let Some(cookie) = cookie {
                answer.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            answer
        }
        Verdict::TooMany => too_many(),
        _ => {
            let told = "<p class=\"wrong\" role=\"alert\">That is not the token.</p>";
            respond(StatusCode::UNAUTHORIZED, HTML, LOGIN.replace(LOGIN_MARK, told))
        }
    }
}

/// Pairs, or says why not.
async fn pair(site: &Site, pairing: &Pairing, request: Request<Incoming>, from: IpAddr) -> Answer {
    if !site.access.is_own_page(request.headers()) {
        return refuse(StatusCode::FORBIDDEN, "only the page itself may ask for this");
    }
    let Some(body) = body(request).await else {
        return refuse(StatusCode::BAD_REQUEST, "the request did not come in");
    };
    match pairing.handle(&body, from).await {
        Ok(shown) => found(JSON, shown.as_bytes().to_vec()),
        Err(Refusal::Malformed) => refuse(StatusCode::BAD_REQUEST, "the request makes no sense"),
        Err(Refusal::WrongToken) => {
            refuse(StatusCode::FORBIDDEN, "that is not the token for pairing")
        }
        Err(Refusal::TooMany) => refuse(
            StatusCode::TOO_MANY_REQUESTS,
            "too many wrong tokens came from there: wait a minute",
        ),
        Err(Refusal::Failed(why)) => refuse(StatusCode::CONFLICT, &why),
    }
}

/// Reads the body of a small request; none where it is large or slow.
async fn body(request: Request<Incoming>) -> Option<Bytes> {
    let body = timeout(FORM_WITHIN, Limited::new(request.into_body(), FORM).collect()).await;
    Some(body.ok()?.ok()?.to_bytes())
}

fn refuse(status: StatusCode, problem: &str) -> Answer {
    respond(status, JSON, serde_json::json!({"problem": problem}).to_string())
}

fn unknown() -> Answer {
    let mut answer = text(
        StatusCode::UNAUTHORIZED,
        "The token is needed: open / in a browser, or send `Authorization: Bearer TOKEN`.\n",
    );
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

fn too_many() -> Answer {
    text(StatusCode::TOO_MANY_REQUESTS, "Too many wrong tokens came from there: wait a minute.\n")
}

fn found(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    respond(StatusCode::OK, kind, body)
}

fn text(status: StatusCode, body: &'static str) -> Answer {
    respond(status, TEXT, body)
}

fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in EVERYWHERE {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}
