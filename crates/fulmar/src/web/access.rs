//! Who may look: which names the page has, and who knows the token.
//!
//! A name check stands against DNS rebinding, by which a foreign page in the operator's own browser
//! would reach an address of this host under the foreign page's name. Addresses and localhost
//! cannot be bound to anything else.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN};
use hyper::{Method, Request};
use ring::hmac;

use super::arguments::Plan;

/// Where a browser says whose page asks.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Where it says what the answer is for.
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// The cookie's name.
const COOKIE_NAME: &str = "fulmar";
/// How long a browser keeps it.
const COOKIE_AGE: Duration = Duration::from_secs(30 * 86_400);
/// Wrong tokens that an address may present within [`FORGIVEN_AFTER`] and be told so. A right one
/// opens whatever was tried before: others who come from the same address, or by a foreign page in
/// the operator's browser, keep nobody out.
const WRONG_TRIES: usize = 10;
/// When a wrong token is forgotten.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);
/// Wrong tries that are remembered, of all addresses.
const REMEMBERED: usize = 4_096;

/// What a request is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may look.
    Welcome,
    /// It has not shown the token.
    Unknown,
    /// It calls us by a name that is none of ours.
    WrongName,
    /// Too many wrong tokens came from there.
    TooMany,
}

/// The rules of one server.
pub(super) struct Access {
    token: Option<Token>,
    names: Vec<String>,
    is_secure: bool,
    /// A proxy says for whom it asks.
    is_behind_proxy: bool,
    /// Where it may be, beside this host.
    proxies: Vec<IpAddr>,
    guesses: Guesses,
}

/// When wrong tokens came, and from where; the oldest first.
#[derive(Default)]
pub(super) struct Guesses(Mutex<VecDeque<(Instant, IpAddr)>>);

/// What is kept of the token: neither it nor the cookie can be compared byte by byte from outside.
pub(super) struct Token {
    key: hmac::Key,
    tag: hmac::Tag,
    cookie: String,
}

impl Access {
    /// Makes the rules of a server.
    pub(super) fn new(plan: &Plan) -> Self {
        let (names, is_behind_proxy) = (plan.names.clone(), plan.is_behind_proxy);
        let is_secure = plan.tls.is_some() || is_behind_proxy;
        let (token, proxies) = (plan.token.as_deref().map(Token::new), plan.proxies.clone());
        Self { token, names, is_secure, is_behind_proxy, proxies, guesses: Guesses::default() }
    }

    /// Tells whether a connection from there may be the proxy's.
    pub(super) fn is_proxy(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        self.is_behind_proxy && (from.is_loopback() || self.proxies.contains(&from))
    }

    /// Tells whether a connection goes past the proxy: nothing that it sends was encrypted.
    pub(super) fn is_past_proxy(&self, from: IpAddr) -> bool {
        !self.proxies.is_empty() && !self.is_proxy(from)
    }

    /// Returns whom a request comes from: where a proxy stands before us, whom it says; others may
    /// say what they like.
    pub(super) fn origin(&self, headers: &HeaderMap, from: IpAddr) -> IpAddr {
        let told = headers.get_all("x-forwarded-for").iter().next_back();
        // The last one is the proxy's own word; those before it are whatever its client wrote.
        let last =
            told.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
        last.filter(|_| self.is_proxy(from)).unwrap_or(from)
    }

    /// Judges a request from an address.
    pub(super) fn judge(&self, headers: &HeaderMap, from: IpAddr) -> Verdict {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !self.is_ours(host) {
            return Verdict::WrongName;
        }
        let Some(token) = &self.token else { return Verdict::Welcome };
        if cookies(headers).any(|cookie| token.is_cookie(cookie)) {
            return Verdict::Welcome;
        }
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match bearer.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(shown) => self.try_token(shown, from),
            None => Verdict::Unknown,
        }
    }

    /// Judges a token.
    pub(super) fn try_token(&self, shown: &str, from: IpAddr) -> Verdict {
        let Some(token) = &self.token else { return Verdict::Welcome };
        self.guesses.judge(from, || token.is_token(shown))
    }

    /// Tells whether a browser asks in the name of another page. It may follow a link to us; what
    /// another page loads, frames or posts is refused, whoever is logged in there. Programs say
    /// nothing of pages.
    pub(super) fn is_of_foreign_page<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers();
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match only(headers, SEC_FETCH_SITE) {
            Some("same-origin" | "none") => false,
            Some(_) => !(is_read && only(headers, SEC_FETCH_DEST) == Some("document")),
            None if headers.contains_key(SEC_FETCH_SITE) => true,
            None => !is_read && headers.contains_key(ORIGIN) && !self.is_own_origin(headers),
        }
    }

    /// Tells whether a request that is to change something comes from this page: a browser says so,
    /// and a foreign page can neither say it nor send JSON without asking first.
    pub(super) fn is_own_page(&self, headers: &HeaderMap) -> bool {
        let is_same = !headers.contains_key(SEC_FETCH_SITE)
            || only(headers, SEC_FETCH_SITE) == Some("same-origin");
        let is_json = only(headers, CONTENT_TYPE) == Some("application/json");
        self.is_own_origin(headers) && is_same && is_json
    }

    /// Tells whether the page that a browser names is ours.
    fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        let scheme = if self.is_secure { "https://" } else { "http://" };
        let page = only(headers, ORIGIN).and_then(|origin| origin.strip_prefix(scheme));
        let (page, host) = (page.unwrap_or_default(), only(headers, HOST).unwrap_or_default());
        // A proxy may ask for another name than the browser does.
        let named = || page.rsplit_once(':').map_or(page, |(name, _)| name).to_ascii_lowercase();
        let is_ours = page.eq_ignore_ascii_case(host)
            || self.is_behind_proxy && self.names.contains(&named());
        !page.is_empty() && is_ours
    }

    /// Returns the header that makes a browser keep that it knows the token.
    pub(super) fn set_cookie(&self) -> Option<String> {
        let cookie = &self.token.as_ref()?.cookie;
        let secure = if self.is_secure { "; Secure" } else { "" };
        let age = COOKIE_AGE.as_secs();
        Some(format!(
            "{COOKIE_NAME}={cookie}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"
        ))
    }

    /// Tells whether a Host header names this page.
    fn is_ours(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let address =
            name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        address.parse::<IpAddr>().is_ok() || name == "localhost" || self.names.contains(&name)
    }
}

/// Judges a request as the server does: headers a line each, then a token of the form.
#[cfg(fuzzing)]
pub(super) fn try_headers(lines: &str, from: IpAddr) {
    let plan = Plan {
        listen: (from, 8470).into(),
        sockets: Vec::new(),
        token: Some("hVq0jvB1b0vXc0Yp2mYt0c5uW1k8aGd3".to_owned()),
        names: vec!["ground.local".to_owned()],
        tls: None,
        is_behind_proxy: lines.len().is_multiple_of(2),
        proxies: vec![from],
        pairing: None,
    };
    let access = Access::new(&plan);
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.parse::<hyper::header::HeaderName>().ok()?, value.trim().parse().ok()?))
    };
    let headers: HeaderMap = lines.lines().filter_map(header).collect();
    let origin = access.origin(&headers, from);
    for _ in 0..2 * WRONG_TRIES {
        let is_known = access.judge(&headers, origin) == Verdict::Welcome;
        assert!(!is_known || lines.contains("hVq0"), "whoever has not got the token stays outside");
        let guessed = access.try_token(lines, origin);
        assert!(guessed != Verdict::Welcome || lines.contains("hVq0"));
    }
    assert!(access.guesses.0.lock().is_ok_and(|wrong| wrong.len() <= REMEMBERED));
}

impl Guesses {
    /// Judges a token, and tells who has shown too many wrong ones to wait.
    ///
    /// A token that is right is believed all the same: it has 144 bits, and those who guess share
    /// their address with others.
    pub(super) fn judge(&self, from: IpAddr, is_right: impl FnOnce() -> bool) -> Verdict {
        if is_right() {
            return Verdict::Welcome;
        }
        let (now, from) = (Instant::now(), network(from));
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while wrong.front().is_some_and(|(at, _)| now.duration_since(*at) > FORGIVEN_AFTER) {
            wrong.pop_front();
        }
        if wrong.iter().filter(|(_, address)| *address == from).count() >= WRONG_TRIES {
            return Verdict::TooMany;
        }
        if wrong.len() == REMEMBERED {
            wrong.pop_front();
        }
        wrong.push_back((now, from));
        Verdict::Unknown
    }
}

impl Token {
    pub(super) fn new(token: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        // The same after a restart, another one with another token.
        let cookie = URL_SAFE_NO_PAD.encode(hmac::sign(&key, b"cookie of fulmar web"));
        Self { tag: hmac::sign(&key, token.as_bytes()), key, cookie }
    }

    pub(super) fn is_token(&self, shown: &str) -> bool {
        hmac::verify(&self.key, shown.as_bytes(), self.tag.as_ref()).is_ok()
    }

    fn is_cookie(&self, shown: &str) -> bool {
        // Tags of both under a secret key: how far they agree tells nothing about how far these do.
        let tag = hmac::sign(&self.key, self.cookie.as_bytes());
        hmac::verify(&self.key, shown.as_bytes(), tag.as_ref()).is_ok()
    }
}

/// Returns what a client can have all addresses of: of IPv6, a network of 64 bits.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    }
}

/// Returns the one value of a header. Of two, another program between may have judged the other
/// one.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    match headers.get_all(name).iter().collect::<Vec<_>>()[..] {
        [one] => one.to_str().ok(),
        _ => None,
    }
}

/// Returns the values of our cookie.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|value| value.split("; ")).filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "hVq0jvB1b0vXc0Yp2mYt0c5uW1k8aGd3";
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// The rules of a page behind a proxy.
    fn access(token: Option<&str>, names: &[&str]) -> Access {
        Access::new(&Plan {
            listen: (HERE, 8470).into(),
            sockets: Vec::new(),
            token: token.map(str::to_owned),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            tls: None,
            is_behind_proxy: true,
            proxies: Vec::new(),
            pairing: None,
        })
    }

    fn headers(all: &[(HeaderName, &str)]) -> HeaderMap {
        let all = all.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        [(HOST, "127.0.0.1:8470".parse().unwrap())].into_iter().chain(all).collect()
    }

    #[test]
    fn a_foreign_name_is_refused_also_where_no_token_is_needed() {
        let rules = access(None, &["ground.local"]);
        for (host, ours) in [
            ("127.0.0.1:8470", true),
            ("[::1]:8470", true),
            ("[::1]", true),
            ("localhost", true),
            ("LOCALHOST:80", true),
            ("Ground.local.:8470", true),
            ("192.168.1.4", true),
            ("evil.example:8470", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:8470", false),
            ("", false),
        ] {
            assert_eq!(rules.is_ours(host), ours, "{host}");
        }
        assert_eq!(rules.judge(&HeaderMap::new(), HERE), Verdict::WrongName);
        assert_eq!(rules.judge(&headers(&[]), HERE), Verdict::Welcome);
        assert!(rules.set_cookie().is_none());
    }

    #[test]
    fn the_token_opens_by_header_and_cookie_and_nothing_else_does() {
        let rules = access(Some(TOKEN), &[]);
        let judge = |name: HeaderName, value: &str| rules.judge(&headers(&[(name, value)]), HERE);
        assert_eq!(rules.judge(&headers(&[]), HERE), Verdict::Unknown);
        assert_eq!(judge(AUTHORIZATION, &format!("Bearer {TOKEN}")), Verdict::Welcome);
        assert_eq!(judge(AUTHORIZATION, &format!("Bearer {TOKEN}x")), Verdict::Unknown);
        let set = rules.set_cookie().unwrap();
        assert!(set.ends_with("; Secure") && set.contains("HttpOnly") && !set.contains(TOKEN));
        let cookie = set.split(';').next().unwrap();
        assert_eq!(judge(COOKIE, &format!("a=b; {cookie}")), Verdict::Welcome);
        assert_eq!(judge(COOKIE, &format!("fulmar={TOKEN}")), Verdict::Unknown);
        let other = access(Some("another token of 24 bytes"), &[]);
        assert_ne!(other.set_cookie(), rules.set_cookie());
    }

    #[test]
    fn only_this_very_page_may_change_something() {
        let mut rules = access(None, &["drones.example"]);
        let sent = |rules: &Access, origin: &str, more: &[(HeaderName, &str)]| {
            let json = (CONTENT_TYPE, "application/json");
            rules.is_own_page(&headers(&[&[(ORIGIN, origin), json], more].concat()))
        };
        // The page is at 127.0.0.1:8470, by a proxy that speaks TLS.
        for (origin, ours) in [
            ("https://127.0.0.1:8470", true),
            ("https://drones.example", true),
            ("https://Drones.Example:444", true),
            ("http://127.0.0.1:8470", false),
            ("https://127.0.0.1:8471", false),
            ("https://127.0.0.1", false),
            ("https://evil.example", false),
            ("https://localhost:8470", false),
            ("https://drones.example.evil.example", false),
            ("https://", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(sent(&rules, origin, &[]), ours, "{origin}");
        }
        let own = "https://127.0.0.1:8470";
        assert!(sent(&rules, own, &[(SEC_FETCH_SITE, "same-origin")]));
        for site in ["same-site", "cross-site", "none"] {
            assert!(!sent(&rules, own, &[(SEC_FETCH_SITE, site)]), "{site}");
        }
        let form = [(ORIGIN, own), (CONTENT_TYPE, "text/plain")];
        assert!(
            !rules.is_own_page(&headers(&form)),
            "a form of a foreign page can be sent like that"
        );
        assert!(!rules.is_own_page(&headers(&[(CONTENT_TYPE, "application/json")])));
        (rules.is_behind_proxy, rules.is_secure) = (false, false);
        assert!(sent(&rules, "http://127.0.0.1:8470", &[]) && !sent(&rules, own, &[]));
        assert!(!sent(&rules, "http://drones.example", &[]), "it came by another name");
    }

    #[test]
    fn a_proxys_own_word_says_who_asks() {
        let rules = access(Some(TOKEN), &[]);
        let forwarded = HeaderName::from_static("x-forwarded-for");
        let told = headers(&[(forwarded.clone(), "10.9.9.9, 192.0.2.7")]);
        assert_eq!(rules.origin(&told, HERE), IpAddr::from([192, 0, 2, 7]));
        assert_eq!(rules.origin(&headers(&[(forwarded, "nonsense")]), HERE), HERE);
        assert_eq!(rules.origin(&headers(&[]), HERE), HERE);
    }

    #[test]
    fn nobody_but_the_proxy_is_believed_about_others() {
        let mut rules = access(Some(TOKEN), &[]);
        let told = headers(&[(HeaderName::from_static("x-forwarded-for"), "192.0.2.7")]);
        let [proxy, other] = ["10.0.0.5", "10.0.0.6"].map(|text| text.parse::<IpAddr>().unwrap());
        let mapped = "::ffff:10.0.0.5".parse().unwrap();
        for from in [proxy, other, mapped] {
            assert_eq!(rules.origin(&told, from), from, "no proxy is named");
            assert!(!rules.is_past_proxy(from), "it may be one");
        }
        rules.proxies = vec![proxy];
        let client = IpAddr::from([192, 0, 2, 7]);
        for (from, seen) in [(proxy, client), (mapped, client), (HERE, client), (other, other)] {
            assert_eq!(rules.origin(&told, from), seen, "{from}");
            assert_eq!(rules.is_past_proxy(from), from == other, "{from}");
        }
        rules.is_behind_proxy = false;
        assert_eq!(rules.origin(&told, HERE), HERE);
    }

    #[test]
    fn what_another_page_sends_is_told_from_what_programs_and_this_page_send() {
        let rules = access(None, &["drones.example"]);
        let is_foreign = |method: Method, sent: &[(HeaderName, &str)]| {
            let mut request = Request::new(());
            (*request.method_mut(), *request.headers_mut()) = (method, headers(sent));
            rules.is_of_foreign_page(&request)
        };
        let site = |site: &'static str| (SEC_FETCH_SITE, site);
        let (own, evil) = ((ORIGIN, "https://drones.example"), (ORIGIN, "https://evil.example"));
        let document = (SEC_FETCH_DEST, "document");
        for (method, sent, expected) in [
            (Method::GET, vec![], false),
            (Method::POST, vec![], false),
            (Method::GET, vec![site("same-origin")], false),
            (Method::GET, vec![site("none"), document.clone()], false),
            (Method::GET, vec![site("cross-site"), document.clone()], false),
            (Method::GET, vec![site("cross-site"), (SEC_FETCH_DEST, "iframe")], true),
            (Method::GET, vec![site("same-site")], true),
            (Method::GET, vec![site("same-origin"), site("cross-site")], true),
            (Method::POST, vec![site("cross-site"), document], true),
            (Method::POST, vec![site("same-origin"), (ORIGIN, "null")], false),
            (Method::POST, vec![own.clone()], false),
            (Method::POST, vec![evil.clone()], true),
            (Method::POST, vec![own, evil.clone()], true),
            (Method::POST, vec![(ORIGIN, "null")], true),
            (Method::GET, vec![evil], false),
        ] {
            assert_eq!(is_foreign(method.clone(), &sent), expected, "{method} {sent:?}");
        }
    }

    #[test]
    fn guesses_are_counted_by_network_and_bounded() {
        let rules = access(Some(TOKEN), &[]);
        let from = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
        for guess in 0..WRONG_TRIES as u16 {
            assert_eq!(rules.try_token("wrong", from(guess)), Verdict::Unknown);
        }
        assert_eq!(rules.try_token("wrong", from(999)), Verdict::TooMany);
        assert_eq!(rules.try_token("wrong", HERE), Verdict::Unknown);
        assert_eq!(rules.try_token(TOKEN, from(999)), Verdict::Welcome, "guesses keep nobody out");
        for network in 0..2 * REMEMBERED as u32 {
            rules.try_token("wrong", IpAddr::from(network.to_be_bytes()));
        }
        assert_eq!(rules.guesses.0.lock().unwrap().len(), REMEMBERED);
    }
}
