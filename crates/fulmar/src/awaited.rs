//! What this host may not have yet: an address, a folder, the place of a socket. It is tried each
//! second, and what keeps it away is told: in the log once for each reason, in the report while it
//! lasts.
//!
//! Links have their own rule, since their interfaces are announced (`daemon/sockets.rs`), and so
//! have serial ports, which have queues to clear (`endpoints/serial.rs`).

use proto::{Duration, Instant};

/// How often what is not there is tried: a person who plugs a cable in waits no longer for the
/// daemon than for the cable.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// Something that is there, or is tried again.
pub(crate) struct Awaited<T> {
    /// What it is, for the log.
    what: String,
    there: Option<T>,
    trouble: Option<String>,
    next: Instant,
}

impl<T> Awaited<T> {
    /// Knows what it will be; the first attempt is due at once.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), there: None, trouble: None, next: Instant::ZERO }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.there.as_ref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.there.as_mut()
    }

    /// Says why it is not there.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// When it is to be tried; never while it is there.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.there.is_none().then_some(self.next)
    }

    /// Makes it due at once: what kept it away may have changed.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.next = self.next.min(now);
    }

    /// Opens it where that is due; returns whether it has come.
    pub(crate) fn try_again(
        &mut self,
        now: Instant,
        open: impl FnOnce() -> Result<T, String>,
    ) -> bool {
        if self.due().is_none_or(|due| due > now) {
            return false;
        }
        match open() {
            Ok(there) => {
                self.there = Some(there);
                if self.trouble.take().is_some() {
                    tracing::info!("{}: it is there now", self.what);
                }
                true
            }
            Err(trouble) => {
                self.lose(now, trouble);
                false
            }
        }
    }

    /// Closes it, and says why it is gone.
    pub(crate) fn lose(&mut self, now: Instant, trouble: String) {
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!("{}: {trouble}; it is tried every second", self.what);
        }
        (self.there, self.trouble, self.next) = (None, Some(trouble), now + RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_each_second_until_it_is_there_and_again_when_it_is_lost() {
        let mut one = Awaited::<u8>::new("one");
        let at = Instant::from_millis;
        assert!(!one.try_again(at(500), || Err("not yet".into())));
        assert_eq!((one.trouble(), one.due()), (Some("not yet"), Some(at(1_500))));
        assert!(!one.try_again(at(1_499), || panic!("too early")));
        assert!(one.try_again(at(1_500), || Ok(1)));
        assert_eq!((one.get(), one.trouble(), one.due()), (Some(&1), None, None));
        assert!(!one.try_again(at(9_000), || panic!("it is there")));
        one.lose(at(9_000), "gone".into());
        assert_eq!((one.get(), one.trouble(), one.due()), (None, Some("gone"), Some(at(10_000))));
    }
}
