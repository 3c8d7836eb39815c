//! What can be said to `fulmar web`, and what of it goes together.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use super::pairing::PairingPlan;
use crate::pair::station_file;

/// Characters that a token must have: 24 of base64 are 144 bits.
const TOKEN_LENGTH: usize = 24;
/// And different ones among them. Of 24 of 16 that were drawn hardly ever fewer are (one in some
/// ten thousand millions for 4), and who types something has typed more than one key.
const DIFFERENT: usize = 8;
/// The longest file that can hold a token.
const TOKEN_FILE: u64 = 4_096;

const EXAMPLES: &str = "\
On this computer, with nothing to set up:
  fulmar web                         http://127.0.0.1:8470 for every daemon in /run/fulmar
  ssh -L 8470:127.0.0.1:8470 ground  and the same page on yours

From a telephone, which takes a token and TLS:
  (umask 077; head -c 24 /dev/urandom | base64 > web.token)
  openssl req -x509 -newkey ed25519 -nodes -days 825 -subj /CN=ground -keyout web.key -out web.crt
  fulmar web --listen 0.0.0.0:8470 --token-file web.token --tls-cert web.crt --tls-key web.key --name ground.local

Behind a proxy that has the certificate:
  fulmar web --behind-proxy --name drones.example --token-file web.token

And where the proxy runs on another computer, 192.0.2.5; nobody else is let in then:
  fulmar web --behind-proxy --listen 192.0.2.9:8470 --proxy 192.0.2.5 --name drones.example --token-file web.token

Pairing drones from the page, which takes a token of its own, and the rights of `fulmar pair`:
  sudo fulmar web --listen 127.0.0.1:8471 --pairing-token-file pairing.token

The page asks for the token once and keeps a cookie. A script, and Prometheus, send it as `Authorization: Bearer TOKEN`; \
metrics are at /metrics. docs/watch.md has the rest, alert rules and a dashboard.

Without a token whoever can connect to the address can look: on 127.0.0.1 every user of this computer.";

/// The arguments of `fulmar web`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "fulmar web --help has examples.")]
pub(crate) struct WebArguments {
    /// The address to serve at. One that others can reach takes a token, and TLS or a proxy.
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8470")]
    listen: SocketAddr,
    /// A daemon's socket, that of `fulmar status`; may be given several times. Without it: all in
    /// /run/fulmar, now and later.
    #[arg(short, long, value_name = "PATH")]
    socket: Vec<PathBuf>,
    /// A file with the token that whoever looks must know.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificate, with those above it, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy stands before it, which speaks TLS to the world and HTTP to this process.
    #[arg(long, conflicts_with = "tls_cert")]
    behind_proxy: bool,
    /// The address that the proxy connects from, where that is another computer; may be given
    /// several times. What X-Forwarded-For says is believed from there and from this computer
    /// alone, and nobody else may connect.
    #[arg(long, value_name = "ADDRESS", requires = "behind_proxy")]
    proxy: Vec<IpAddr>,
    /// A name that browsers call this page by, beside localhost and addresses; may be given several
    /// times.
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// Let who knows the token in this file pair drones from the page. Without it nothing can be
    /// changed there.
    #[arg(long, value_name = "FILE")]
    pairing_token_file: Option<PathBuf>,
    /// The station's configuration, which pairing changes; without it /etc/fulmar/station.toml.
    #[arg(short, long, value_name = "FILE", requires = "pairing_token_file")]
    config: Option<PathBuf>,
}

/// What the arguments come to.
pub(super) struct Plan {
    pub(super) listen: SocketAddr,
    pub(super) sockets: Vec<PathBuf>,
    pub(super) token: Option<String>,
    pub(super) names: Vec<String>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) is_behind_proxy: bool,
    /// Where the proxy is, beside this host.
    pub(super) proxies: Vec<IpAddr>,
    /// None where nobody may pair here.
    pub(super) pairing: Option<PairingPlan>,
}

impl WebArguments {
    /// Checks the arguments, and reads the files that they name.
    ///
    /// # Errors
    /// Say what does not go together, or which file is wrong.
    pub(super) fn plan(self) -> Result<Plan, String> {
        let is_local = self.listen.ip().is_loopback();
        if !is_local && self.tls_cert.is_none() && !self.behind_proxy {
            return Err(format!(
                "--listen {}: others can reach this address, and read what is sent: give --tls-cert and --tls-key, or \
                 --behind-proxy where a proxy speaks TLS; or listen at 127.0.0.1 and use `ssh -L`",
                self.listen
            ));
        }
        if (!is_local || self.behind_proxy) && self.token_file.is_none() {
            let what = "--token-file FILE is needed where others can reach the page; make one with: (umask 077; head -c \
                        24 /dev/urandom | base64 > FILE)";
            return Err(what.into());
        }
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let pairing = match self.pairing_token_file.as_deref().map(read_token).transpose()? {
            Some(own) if Some(&own) == token.as_ref() => {
                let what = "the token for pairing is that for looking: give it another one, so that who may look may \
                            not let anybody in";
                return Err(what.into());
            }
            Some(token) => Some(PairingPlan { file: station_file(self.config.as_deref())?, token }),
            None => None,
        };
        let tls = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let tls = tls.map(|(certificate, key)| read_tls(certificate, key)).transpose()?;
        let names = self.name.iter().map(|name| name.to_ascii_lowercase()).collect();
        let (listen, sockets, is_behind_proxy) = (self.listen, self.socket, self.behind_proxy);
        let proxies = self.proxy.iter().map(IpAddr::to_canonical).collect();
        Ok(Plan { listen, sockets, token, names, tls, is_behind_proxy, proxies, pairing })
    }
}

impl Plan {
    /// Says what whoever starts this should think over.
    pub(super) fn advice(&self) -> Option<String> {
        let is_open = self.is_behind_proxy && !self.listen.ip().is_loopback();
        (is_open && self.proxies.is_empty()).then(|| {
            format!(
                "fulmar: others than the proxy can reach {}, and send the token where it can be read: let only the proxy in with \
                 --proxy ADDRESS, or listen at 127.0.0.1. Until then X-Forwarded-For is believed from this computer alone",
                self.listen
            )
        })
    }
}

fn read_token(file: &Path) -> Result<String, String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(TOKEN_FILE).read_to_string(&mut text))
        .map_err(|error| format!("read the token in {}: {error}", file.display()))?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    let different: BTreeSet<u8> = token.bytes().collect();
    if token.len() < TOKEN_LENGTH || !is_plain || different.len() < DIFFERENT {
        return Err(format!(
            "the token in {} must be one word of at least {TOKEN_LENGTH} letters and digits, {DIFFERENT} of them different; make one \
             with: head -c 24 /dev/urandom | base64",
            file.display()
        ));
    }
    Ok(token.into())
}

fn read_tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let of = |file: &Path| {
        let file = file.display().to_string();
        move |error: String| format!("{file}: {error}")
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| of(certificate)(error.to_string()))?;
    if chain.is_empty() {
        return Err(of(certificate)("has no certificate in it".into()));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key)(error.to_string()))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| of(key)(format!("does not go with {}: {error}", certificate.display())))?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        web: WebArguments,
    }

    fn plan(arguments: &[&str]) -> Result<Plan, String> {
        let all = ["web"].iter().chain(arguments);
        Command::try_parse_from(all).map_err(|error| error.to_string())?.web.plan()
    }

    #[test]
    fn what_others_can_reach_takes_a_token_and_tls_or_a_proxy() {
        assert!(plan(&[]).is_ok_and(|plan| plan.token.is_none()));
        let refused = |arguments: &[&str]| plan(arguments).err().unwrap();
        assert!(refused(&["--listen", "0.0.0.0:8470"]).contains("--behind-proxy"));
        assert!(refused(&["--listen", "[::]:8470", "--behind-proxy"]).contains("--token-file"));
        assert!(refused(&["--behind-proxy"]).contains("--token-file"));

        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("web.token");
        let name = file.to_str().unwrap();
        let proxied = ["--listen", "[::]:8470", "--behind-proxy", "--token-file", name];
        let (same, spaced) = ("0".repeat(64), "with a space in the middle of it\n");
        for short in ["", "secret\n", spaced, &same] {
            std::fs::write(&file, short).unwrap();
            assert!(refused(&proxied).contains("one word"), "{short:?}");
        }
        std::fs::write(&file, "hVq0jvB1b0vXc0Yp2mYt0c5uW1k8aGd3\n").unwrap();
        assert!(plan(&proxied).is_ok_and(|plan| plan.is_behind_proxy && plan.token.is_some()));
        assert!(plan(&proxied).is_ok_and(|plan| plan.advice().is_some()), "anybody can reach it");
        let named = [&proxied[..], &["--proxy", "::ffff:192.0.2.5"]].concat();
        let named = plan(&named).ok().unwrap();
        assert!(named.advice().is_none() && named.proxies == [IpAddr::from([192, 0, 2, 5])]);
        assert!(refused(&["--proxy", "192.0.2.5"]).contains("--behind-proxy"));
        let tls = ["--tls-cert", name, "--tls-key", name];
        assert!(refused(&tls).contains("web.token"));
        let own = ["--token-file", name, "--pairing-token-file", name];
        assert!(refused(&own).contains("another one"));
        assert!(refused(&["--config", name]).contains("--pairing-token-file"));
        let pairing = ["--pairing-token-file", name, "--config", "/nowhere/station.toml"];
        assert!(refused(&pairing).contains("/nowhere/station.toml"));
    }
}
