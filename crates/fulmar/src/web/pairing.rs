//! Pairing on the page: the one thing here that changes anything, and so with rules of its own.
//!
//! It is there where its operator has named a token for it, which is another one than that for
//! looking. A request is a POST of JSON from this very page (`Access::is_own_page`), and has the
//! token in its body, where no address, cookie or log holds it: a foreign page in the operator's
//! browser does not know it, and neither does who may only look. Nobody else is shown the code. One
//! code at a time.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::json;
use sys::print::tell;
use zeroize::Zeroizing;

use super::access::{Guesses, Token, Verdict};
use crate::edit::sections::{NAME_RULE, is_name};
use crate::pair::Hosted;

/// What the arguments say of it.
pub(super) struct PairingPlan {
    /// The station's file.
    pub(super) file: PathBuf,
    pub(super) token: String,
}

/// The pairing of one server.
pub(super) struct Pairing {
    file: PathBuf,
    token: Token,
    guesses: Guesses,
    hosted: Arc<Mutex<Option<Hosted>>>,
}

/// A request of the page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    token: String,
    #[serde(rename = "do")]
    what: What,
    #[serde(default)]
    name: String,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum What {
    /// Show the code that is there, or make one.
    Begin,
    /// Tell how it stands.
    Show,
    /// End it.
    End,
}

/// Why a request was refused, in words for the page.
pub(super) enum Refusal {
    /// It makes no sense.
    Malformed,
    /// The token is wrong.
    WrongToken,
    /// Too many wrong tokens came from there.
    TooMany,
    /// There is no code, and why.
    Failed(String),
}

impl Pairing {
    pub(super) fn new(plan: &PairingPlan) -> Self {
        let (file, token) = (plan.file.clone(), Token::new(&plan.token));
        Self { file, token, guesses: Guesses::default(), hosted: Arc::default() }
    }

    /// Does what a request asks for, and says how the pairing stands, as JSON.
    ///
    /// # Errors
    /// Why it was refused.
    pub(super) async fn handle(
        &self,
        body: &[u8],
        from: IpAddr,
    ) -> Result<Zeroizing<String>, Refusal> {
        let asked: Asked = serde_json::from_slice(body).map_err(|_| Refusal::Malformed)?;
        match self.guesses.judge(from, || self.token.is_token(asked.token.trim())) {
            Verdict::Welcome => {}
            Verdict::TooMany => return Err(Refusal::TooMany),
            Verdict::Unknown | Verdict::WrongName => {
                tell(format_args!("fulmar: somebody at {from} gave a wrong token for pairing"));
                return Err(Refusal::WrongToken);
            }
        }
        let (hosted, file) = (self.hosted.clone(), self.file.clone());
        let name = Some(asked.name.trim().to_owned()).filter(|name| !name.is_empty());
        // Beside the loop: the daemon may take seconds to answer.
        let done = tokio::task::spawn_blocking(move || {
            let mut hosted = hosted.lock().unwrap_or_else(PoisonError::into_inner);
            match asked.what {
                What::End if hosted.take().is_some_and(|hosted| hosted.is_open()) => {
                    tell(format_args!("fulmar: {from} has ended the pairing"));
                }
                What::Begin if !hosted.as_ref().is_some_and(Hosted::is_open) => {
                    *hosted = None;
                    if let Some(name) = name.as_deref().filter(|name| !is_name(name)) {
                        return Err(format!(
                            "\"{}\" cannot be a name: {NAME_RULE}",
                            name.escape_debug()
                        ));
                    }
                    *hosted = Some(Hosted::begin(&file, name)?);
                    tell(format_args!("fulmar: a pairing code is shown to {from}"));
                }
                _ => {}
            }
            Ok(show(hosted.as_ref()))
        });
        let done = done.await.unwrap_or_else(|error| Err(error.to_string()));
        done.map_err(Refusal::Failed)
    }
}

fn show(hosted: Option<&Hosted>) -> Zeroizing<String> {
    let none = || Zeroizing::new(json!({"state": "none"}).to_string());
    hosted.map_or_else(none, Hosted::show)
}
