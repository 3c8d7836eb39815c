//! `proxy` of a `[[path]]`: the HTTP proxy that its connections go through.

use std::fmt;

use toml_keys::Section;
use zeroize::Zeroizing;

use super::Remote;

/// What it looks like.
const EXAMPLE: &str = "\"proxy.example.org:3128\"";

/// An HTTP proxy, whose address takes the place of the station's among what is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxy {
    /// What it is asked for: where the station waits, one of them.
    pub(crate) targets: Vec<Remote>,
    /// With which name and password.
    pub(crate) login: Option<Login>,
}

/// `NAME:PASSWORD`, which nothing shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login(pub(crate) Zeroizing<String>);

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// Reads where a path's proxy is, and its login; mistakes show no password.
pub(super) fn read(section: &Section<'_>) -> Option<(Remote, Option<Login>)> {
    let text = section.text("proxy")?;
    let plain = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let (login, at) = match plain.rsplit_once('@') {
        Some((login, at)) => (Some(login), at),
        None => (None, plain),
    };
    let is_login = |login: &str| login.contains(':') && !login.contains(char::is_control);
    if !login.is_none_or(is_login) {
        let what = "has no name and password before the @: write \"NAME:PASSWORD@HOST:PORT\"";
        section.wrong("proxy", what);
        return None;
    }
    let Some(at) = at.parse().ok().filter(|at: &Remote| at.port() != 0) else {
        let what = format!(
            "is no HTTP proxy: write its address or name with a port, such as {EXAMPLE}, and NAME:PASSWORD@ before \
             that where it asks for them"
        );
        section.wrong("proxy", what);
        return None;
    };
    Some((at, login.map(|login| Login(login.to_owned().into()))))
}
