//! A thread's claim on a processor, and what it got of it.
//!
//! Not a scheduler of our own: it asks the kernel for real-time priority or the next best thing,
//! and reads the kernel's accounts of waiting. The emulator asks at its start and judges itself by
//! the accounts at its end.

use std::fs;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use units::Duration;

/// Slice asked for where real-time priority is not to be had: the kernel's shortest. The fair
/// scheduler lets a waking thread of short slices go before running ones of long slices.
const SHORT_SLICE: Duration = Duration::from_micros(100);
/// How often the kernel's processor accounts tick: USER_HZ, fixed at 100 on Linux.
const ACCOUNT_TICK: Duration = Duration::from_millis(10);

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// SCHED_FIFO: runs whenever it wants to, before every ordinary thread.
    Fifo,
    /// The fair scheduler with a short slice: wakes early, shares with ordinary threads.
    ShortSlice,
    /// The fair scheduler as for everybody.
    Fair,
}

/// Gives the calling thread SCHED_FIFO at `priority` (1 to 99) or, without the right to it, the
/// shortest slice of the fair scheduler; says which it got.
pub fn prefer_realtime(priority: i32) -> Scheduling {
    let parameters = libc::sched_param { sched_priority: priority };
    // Children must not inherit it: a busy child would take the machine.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is valid for the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &parameters) } {
        0 => Scheduling::Fifo,
        _ => prefer_short_slice(),
    }
}

/// Gives the calling thread the shortest slice of the fair scheduler, which needs no right: it
/// wakes early and shares; says what it got.
pub fn prefer_short_slice() -> Scheduling {
    match set_slice(SHORT_SLICE) {
        Ok(()) => Scheduling::ShortSlice,
        Err(_) => Scheduling::Fair,
    }
}

/// Sets by how much the kernel may prolong the calling thread's sleeps to merge wake-ups.
///
/// The default is 50 µs; a thread with SCHED_FIFO has none in any case.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    // Zero would mean "the default again".
    let nanos = slack.as_nanos().clamp(1, u32::MAX.into()) as libc::c_ulong;
    // SAFETY: takes no pointers; affects this thread alone.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the processors that the calling thread may run on; none where the kernel does not tell.
pub fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None);
    allowed.map_or(Vec::new(), |set| (0..CpuSet::MAX_CPU).filter(|one| set.is_set(*one)).collect())
}

/// Keeps the calling thread on one processor.
///
/// # Errors
/// When there is no such processor for it.
pub fn stay_on(processor: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        only.set(processor);
    }
    Ok(sched_setaffinity(None, &only)?)
}

/// What a thread got of the processors since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadAccount {
    /// Time it ran.
    pub ran: Duration,
    /// Time it was ready to run and had to wait for a processor.
    pub waited: Duration,
}

impl ThreadAccount {
    /// Reads the calling thread's account; `None` where the kernel keeps none.
    pub fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let (ran, waited) = (fields.next()?.ok()?, fields.next()?.ok()?);
        Some(Self { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited) })
    }
}

/// What the whole machine suffered since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineAccount {
    /// Time in which some task waited for a processor (`/proc/pressure/cpu`); `None` where the
    /// kernel does not say.
    pub pressure: Option<Duration>,
    /// Processor time that the hypervisor gave to others, summed over processors.
    pub stolen: Option<Duration>,
}

impl MachineAccount {
    /// Reads the machine's accounts.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").ok();
        Self { pressure: pressure(), stolen: stat.as_deref().and_then(stolen_total) }
    }
}

/// Returns the processor time that a process has used since it started, its own and the kernel's
/// for it, of all of its threads, to a hundredth of a second; `None` where there is no such
/// process.
pub fn processor_time(process: u32) -> Option<Duration> {
    processor_time_total(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Returns the time in which some task of the machine waited for a processor, since it started.
///
/// `None` where the kernel does not say. Cheap, unlike [`MachineAccount::read`].
pub fn pressure() -> Option<Duration> {
    pressure_total(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

/// Asks the fair scheduler for `slice` (Linux 6.12; earlier kernels ignore it).
fn set_slice(slice: Duration) -> io::Result<()> {
    // SAFETY: `sched_attr` is plain data for which all zeroes is a valid value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_runtime = slice.as_nanos();
    // The call sets the niceness too: that which a service manager gave stays.
    attributes.sched_nice = rustix::process::getpriority_process(None).unwrap_or(0);
    // SAFETY: the pointer is valid for the call and the structure says its own size.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn pressure_total(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

fn stolen_total(text: &str) -> Option<Duration> {
    // user nice system idle iowait irq softirq steal …, in ticks: proc(5).
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: u32 = line.split_ascii_whitespace().nth(8)?.parse().ok()?;
    Some(ACCOUNT_TICK * ticks)
}

fn processor_time_total(text: &str) -> Option<Duration> {
    // The name, in brackets, may hold anything; behind it utime and stime are the fields 14 and 15:
    // proc(5).
    let (_, fields) = text.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u32>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(ACCOUNT_TICK * user.checked_add(system)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::skip;

    #[test]
    fn accounts_are_read_as_the_kernel_writes_them() {
        let text = "some avg10=1.70 avg60=1.11 avg300=0.62 total=9578658\nfull avg10=0.00 total=0";
        assert_eq!(pressure_total(text), Some(Duration::from_micros(9_578_658)));
        let text = "cpu  96365 0 20 300 4 5 6 70 8 9\ncpu0 1 2 3 4 5 6 7 8 9 10";
        assert_eq!(stolen_total(text), Some(Duration::from_millis(700)));
        assert_eq!((pressure_total(""), stolen_total("cpu 1 2")), (None, None));
        let text = "71 (a) b) S 1 71 71 0 -1 4194304 90 0 0 0 250 31 0 0 20 0 1 0 5 9 1";
        assert_eq!(processor_time_total(text), Some(Duration::from_millis(2_810)));
        assert_eq!(processor_time_total("71 (fulmar) S 1"), None);
        assert!(processor_time(std::process::id()).is_some());
    }

    #[test]
    fn a_thread_that_works_has_run() {
        let Some(before) = ThreadAccount::read() else {
            return skip("a_thread_that_works_has_run", "this kernel keeps no schedstat");
        };
        let sum: u64 = (0..20_000_000_u64).fold(0, |sum, x| std::hint::black_box(sum ^ x));
        std::hint::black_box(sum);
        let after = ThreadAccount::read().expect("was readable before");
        assert!(after.ran > before.ran);
    }

    #[test]
    fn a_thread_stays_on_a_processor_that_it_may_use() {
        let allowed = processors();
        let last = *allowed.last().expect("a thread runs somewhere");
        let stayed = std::thread::spawn(move || stay_on(last).map(|()| processors()));
        assert_eq!(stayed.join().expect("no panic").expect("allowed"), [last]);
        assert!(stay_on(CpuSet::MAX_CPU).is_err());
        assert_eq!(processors(), allowed, "and no other thread");
    }
}
