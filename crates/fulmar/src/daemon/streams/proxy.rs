//! Through an HTTP proxy: what it is asked for, and what it answers [RFC 9110 §9.3.6].

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use httparse::Status;
use zeroize::Zeroizing;

use crate::config::{Login, Remote};

/// Bytes of an answer's head, and its fields, at most.
const MOST: usize = 8_192;
const MOST_FIELDS: usize = 64;

/// Returns what asks a proxy for a way to a station.
pub(super) fn request(to: &Remote, login: Option<&Login>) -> Zeroizing<String> {
    let login = login.map_or(String::new(), |login| {
        format!("Proxy-Authorization: Basic {}\r\n", BASE64.encode(login.0.as_bytes()))
    });
    format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{login}\r\n").into()
}

/// Tells whether the way is open, by what has come of the answer.
///
/// # Errors
/// Says why it is not and will not be.
pub(super) fn is_open(answer: &[u8], has_login: bool) -> Result<bool, String> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let length = match head.parse(answer) {
        Ok(Status::Partial) if answer.len() < MOST => return Ok(false),
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) | Err(_) => return Err("does not answer as an HTTP proxy does".into()),
    };
    match head.code.unwrap_or_default() {
        200..=299 if length == answer.len() => Ok(true),
        // The station says nothing before it has heard something.
        200..=299 => Err("says more than that the way is open: it is no HTTP proxy".into()),
        407 if has_login => Err("does not take the name and password of `proxy`".into()),
        407 => Err("asks for a name and password: proxy = \"NAME:PASSWORD@HOST:PORT\"".into()),
        code => {
            let reason = head.reason.unwrap_or_default().escape_debug();
            let reason: String = reason.take(60).collect();
            Err(format!("answers {code} {reason}: many let CONNECT to port 443 alone through"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_that_of_the_standard() {
        let to: Remote = "station.example.org:443".parse().unwrap();
        let asked = "CONNECT station.example.org:443 HTTP/1.1\r\nHost: station.example.org:443\r\n";
        assert_eq!(*request(&to, None), format!("{asked}\r\n"));
        let login = Login("Aladdin:open sesame".to_owned().into());
        // The pair of [RFC 7617 §2].
        let named = "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
        assert_eq!(*request(&to, Some(&login)), format!("{asked}{named}\r\n"));
        let to: Remote = "[2001:db8::1]:443".parse().unwrap();
        assert!(request(&to, None).starts_with("CONNECT [2001:db8::1]:443 HTTP/1.1\r\n"));
    }

    #[test]
    fn an_answer_is_awaited_whole_and_only_success_opens_the_way() {
        let open = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 x\r\n\r\n";
        for cut in 0..open.len() {
            assert_eq!(is_open(&open[..cut], false), Ok(false), "{cut}");
        }
        assert_eq!(is_open(open, false), Ok(true));
        assert_eq!(is_open(b"HTTP/1.0 200 OK\r\n\r\n", false), Ok(true));
        let refused = |answer: &[u8], login| is_open(answer, login).unwrap_err();
        assert!(refused(&[&open[..], b"\x05"].concat(), false).starts_with("says more"));
        let asks = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 3\r\n\r\nno!";
        assert!(refused(asks, false).contains("NAME:PASSWORD"));
        assert!(refused(asks, true).contains("does not take"));
        let forbidden = b"HTTP/1.1 403 For\x1Bbidden\r\n\r\n";
        assert!(!refused(forbidden, false).contains('\x1B'));
        assert!(refused(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", false).contains("502 Bad Gateway"));
        // A station, a web page, and what never ends.
        assert!(refused(&[39, 0, 2, 7], false).contains("does not answer as"));
        assert!(refused(b"<html>", false).contains("does not answer as"));
        let endless = [&b"HTTP/1.1 200 OK\r\nX: "[..], &[b'a'; MOST]].concat();
        assert!(refused(&endless, false).contains("does not answer as"));
    }
}
