//! A client of UDP whose far end has a name: it is opened once an address is known, and anew when
//! the name has another one. UDP does not tell that nobody is there any more, so silence is a
//! reason to look the name up again.

use proto::{Duration, Instant};
use sys::poller::Poller;

use super::whereabouts::Whereabouts;
use super::{LocalEndpoint, Port, Tokens, told, udp};

/// A name whose address has said nothing for so long is looked up again: it may have another one.
const UNHEARD: Duration = Duration::from_secs(30);

impl LocalEndpoint {
    /// Takes what was said of a name, and looks it up again where its address does not work, or
    /// says nothing.
    pub(super) fn follow_name(&mut self, now: Instant) {
        let Some(far) = &mut self.far else { return };
        let is_news = far.handle_timeout(now);
        match self.port.get() {
            None if is_news => self.port.hurry(now),
            Some(Port::Udp(port)) => {
                let remote = port.remote();
                if is_news && remote.is_none_or(|remote| !far.all().contains(&remote)) {
                    self.port.lose(now, format!("{} has another address now", self.config.name));
                    self.port.hurry(now);
                } else if port.trouble().is_some()
                    || now.since(port.heard().unwrap_or(self.opened_at)) >= UNHEARD
                {
                    far.ask(now);
                }
            }
            _ => {}
        }
    }
}

/// Opens a client of UDP at the first address of its name that this host can send to.
pub(super) fn open(
    far: &mut Whereabouts,
    tokens: Tokens,
    now: Instant,
    poller: &Poller,
) -> Result<Port, String> {
    far.ask(now);
    let mut trouble = None;
    for &address in far.all() {
        match udp::UdpPort::client(address, tokens, poller) {
            Ok(port) => return Ok(Port::Udp(port)),
            Err(error) => trouble = trouble.or(Some(format!("{address}: {}", told(&error, false)))),
        }
    }
    Err(trouble.unwrap_or_else(|| far.trouble()))
}
