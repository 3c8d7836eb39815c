//! Waiting for file descriptors and for a precise instant at once: epoll with a timerfd.
//!
//! Level-triggered, so that a handler may stop after a bounded batch and is called again: one
//! flooding socket cannot starve the others. A timerfd rather than the timeout of `epoll_wait`,
//! which counts whole milliseconds (`epoll_pwait2` would need Linux 5.11, and companion computers
//! run older kernels).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use units::Instant;

/// The token that the timer's own descriptor uses; callers' tokens are smaller.
const TIMER: u64 = u64::MAX;
/// Descriptors reported by one wait; more are reported by the next.
const EVENTS: usize = 64;

/// What to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Input.
    Read,
    /// Room for output.
    Write,
    /// Input and room for output.
    ReadWrite,
}

/// Says that a descriptor is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number that the descriptor was added with.
    pub token: u64,
    /// Input waits, or the other end is gone: reading tells which.
    pub readable: bool,
    /// There is room for output.
    pub writable: bool,
    /// The other end hung up, or the device is gone.
    pub gone: bool,
}

/// Waits for descriptors and for an instant of [`crate::clock::now`].
pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed: Option<Instant>,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// Opens the poller.
    ///
    /// # Errors
    /// Those of `epoll_create1` and `timerfd_create`.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(Self { epoll, timer, armed: None, events: Vec::with_capacity(EVENTS) })
    }

    /// Waits for `descriptor` too; closing the descriptor ends that.
    ///
    /// # Errors
    /// Those of `epoll_ctl`.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        assert!(token != TIMER, "this token is the timer's");
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, descriptor, data, flags(interest))?)
    }

    /// Changes what `descriptor` is waited for.
    ///
    /// # Errors
    /// Those of `epoll_ctl`.
    pub fn modify(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, descriptor, data, flags(interest))?)
    }

    /// No longer waits for `descriptor`.
    ///
    /// # Errors
    /// Those of `epoll_ctl`.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// Waits until a descriptor is ready or `deadline` has come; replaces the contents of `ready`.
    ///
    /// `now` is the caller's reading of the clock: a deadline that is not after it does not wait.
    ///
    /// # Errors
    /// Those of `timerfd_settime` and `epoll_wait`; an interrupted wait is no error.
    pub fn wait(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        ready.clear();
        let due = deadline.is_some_and(|deadline| deadline <= now);
        if !due && deadline != self.armed {
            self.arm(deadline)?;
        }
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.events.clear();
        let events = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, events, due.then_some(&AT_ONCE)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut fired = false;
        for event in &self.events {
            let (flags, token) = (event.flags, event.data.u64());
            if token == TIMER {
                fired = true;
                continue;
            }
            let gone = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            ready.push(Ready {
                token,
                readable: gone || flags.contains(epoll::EventFlags::IN),
                writable: flags.contains(epoll::EventFlags::OUT),
                gone,
            });
        }
        // Setting the timer anew clears its readiness: nothing needs to be read.
        if fired { self.arm(None) } else { Ok(()) }
    }

    fn arm(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let nanos = deadline.map_or(0, |deadline| deadline.as_nanos().max(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanos % 1_000_000_000) as _,
        };
        let setting = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed = deadline;
        Ok(())
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Read => epoll::EventFlags::IN,
        Interest::Write => epoll::EventFlags::OUT,
        Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use units::Duration;

    use super::*;
    use crate::clock::now;

    #[test]
    fn wait_ends_at_the_deadline_and_not_before() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        for _ in 0..3 {
            let deadline = now() + Duration::from_micros(2_300);
            while now() < deadline {
                poller.wait(now(), Some(deadline), &mut ready).unwrap();
                assert!(ready.is_empty());
            }
        }
        let past = now();
        poller.wait(now(), Some(past), &mut ready).unwrap();
        assert!(now().since(past) < Duration::from_secs(1));
    }

    #[test]
    fn readiness_is_reported_until_it_is_consumed() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        let (mut near, far) = UnixStream::pair().unwrap();
        poller.add(&far, 7, Interest::Read).unwrap();
        near.write_all(b"x").unwrap();
        for _ in 0..2 {
            poller.wait(now(), None, &mut ready).unwrap();
            assert_eq!(ready, [Ready { token: 7, readable: true, writable: false, gone: false }]);
        }
        poller.modify(&far, 8, Interest::ReadWrite).unwrap();
        poller.wait(now(), None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 8, readable: true, writable: true, gone: false }]);
        poller.remove(&far).unwrap();
        poller.wait(now(), Some(now()), &mut ready).unwrap();
        assert!(ready.is_empty());
    }
}
