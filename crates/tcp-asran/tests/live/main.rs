//! Real connections of the kernel over a link that loses what it is told to: every hook's run is
//! written down by the algorithm itself, and checked event by event. No times are checked: a busy
//! machine is no reason to fail.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

mod checks;
mod link;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fulmar_tcp_asran::{Error, Flavour, Flow, Loaded, Record, Step, flows};
use sys::byte_stream::{Transport, connect, listen, reset_on_close};

use checks::{Seen, check};
use link::Link;

/// How long one step of a connection may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
/// A window that shows what a loss does to it, packets.
const WINDOW: u32 = 60;

/// A sender at work, and what its algorithm has done so far.
struct Run {
    loaded: Loaded,
    link: Link,
    records: Vec<Record>,
    /// How many of the records have been looked at.
    cursor: usize,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Run {
    /// Starts a transfer; `None`, and a line that says why, where this machine cannot.
    fn start(test: &str, flavour: Flavour, transport: Transport) -> Option<Run> {
        let skip = |reason: &dyn std::fmt::Display| {
            println!("SKIPPED: {test}: {reason}");
            None
        };
        let loaded = match Loaded::load_traced(&[flavour]) {
            Ok(loaded) => loaded,
            Err(error @ Error::Refused { .. }) => panic!("{error}"),
            Err(error) => return skip(&error),
        };
        let link = match Link::create() {
            Ok(link) => link,
            Err(error) => return skip(&error),
        };
        if transport == Transport::Mptcp
            && let Err(error) = add_a_sub_flow(&link)
        {
            return skip(&error);
        }
        let end = Arc::<AtomicBool>::default();
        let at = SocketAddr::from(([10, 9, 0, 2], 5_201));
        let listener = link.receiver.run(|| listen(transport, "cubic", at)).unwrap();
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => return skip(&error),
        };
        let receiving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 65_536];
            while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
        });
        let name = loaded.name(flavour).to_owned();
        let stream = link.sender.run(|| connect(transport, &name, at, PATIENCE)).unwrap().unwrap();
        let ended = Arc::clone(&end);
        let sending = thread::spawn(move || send(stream, &ended));
        let threads = vec![sending, receiving];
        Some(Run { loaded, link, records: Vec::new(), cursor: 0, end, threads })
    }

    /// Waits for the first record after the last one that was waited for.
    fn until(&mut self, what: &str, is_met: impl Fn(&Record) -> bool) -> Record {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.records.extend(self.loaded.take_trace().unwrap());
            let rest = &self.records[self.cursor..];
            if let Some(found) = rest.iter().position(&is_met) {
                self.cursor += found + 1;
                return rest[found];
            }
            self.cursor = self.records.len();
            let last = &self.records[self.records.len().saturating_sub(20)..];
            assert!(Instant::now() < deadline, "{what}: not seen; last {last:#?}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Loses a packet and waits for the end of the recovery that follows. Where the machine was so
    /// busy that the kernel took it for something else, it loses another.
    fn lose_and_recover(&mut self) -> Record {
        for _ in 0..20 {
            self.link.lose_one();
            self.until("a loss", |record| matches!(record.step, Step::Reduction(_)));
            let ends = [Step::Recovered, Step::Timeout, Step::Undo];
            let end = self.until("the end of a recovery", |record| ends.contains(&record.step));
            if end.step == Step::Recovered {
                return end;
            }
            self.until_acked(1, |record| record.cwnd >= 8);
        }
        panic!("twenty losses and no recovery: {:?}", self.records.last());
    }

    /// Lets everything be lost until the retransmission timer has fired.
    fn time_out(&mut self) {
        for _ in 0..5 {
            self.link.outage(true);
            let lost = |record: &Record| matches!(record.step, Step::Timeout | Step::State(4));
            let found = self.until("a timeout", lost);
            self.link.outage(false);
            if found.step == Step::Timeout {
                return;
            }
            // A timeout in the middle of a recovery keeps its reduction, and is not announced.
            self.until_acked(1, |record| record.cwnd >= 8);
        }
        panic!("five outages and no timeout: {:?}", self.records.last());
    }

    fn until_acked(&mut self, times: u32, is_met: impl Fn(&Record) -> bool) {
        for _ in 0..times {
            self.until("an ACK", |record| matches!(record.step, Step::Ack(_)) && is_met(record));
        }
    }

    fn flows(&self) -> Vec<Flow> {
        self.link.sender.run(flows).unwrap().unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn send(mut stream: TcpStream, end: &AtomicBool) {
    reset_on_close(&stream).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let data = vec![7; 65_536];
    while !end.load(Ordering::Acquire) {
        let _ = stream.write(&data);
    }
}

fn add_a_sub_flow(link: &Link) -> std::io::Result<()> {
    for arguments in [
        "mptcp limits set subflow 2 add_addr_accepted 2",
        "mptcp endpoint add 10.9.0.3 dev link0 subflow",
    ] {
        for namespace in [&link.sender, &link.receiver] {
            if arguments.contains("10.9.0.3") && std::ptr::eq(namespace, &link.receiver) {
                continue;
            }
            let mut command = Command::new("ip");
            command.args(arguments.split(' '));
            let output = namespace.run(|| command.output())??;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(std::io::Error::other(format!("ip {arguments}: {said}")));
            }
        }
    }
    Ok(())
}

/// Takes a connection through every case of the algorithm, over any base.
fn fly(test: &str, flavour: Flavour) -> Option<Seen> {
    let mut run = Run::start(test, flavour, Transport::Tcp)?;
    run.until_acked(1, |record| record.cwnd >= WINDOW);
    // Three losses: after the second and the third the window is restored.
    for _ in 0..3 {
        let end = run.lose_and_recover();
        run.until_acked(5, |record| record.cwnd >= end.ssthresh);
    }
    run.time_out();
    run.until_acked(1, |record| record.cwnd >= 8);
    run.lose_and_recover();
    run.until_acked(1, |record| record.cwnd >= 8);
    // What an operator sees is what the algorithm remembers.
    let flows = run.flows();
    let flow = flows.iter().find(|flow| flow.socket.remote.port() == 5_201).unwrap();
    assert_eq!(flow.socket.congestion, run.loaded.name(flavour));
    assert!(flow.memory.is_some_and(|memory| memory.last_max_cwnd > 0), "{flow:?}");
    Some(check(flavour, &run.records, true))
}

#[test]
fn asran_reduces_first_then_slow_starts_back() {
    let name = "asran_reduces_first_then_slow_starts_back";
    let Some(seen) = fly(name, Flavour::Asran) else { return };
    assert!(seen.as_the_base >= 1 && seen.restored >= 1 && seen.timeouts >= 1, "{seen:?}");
    println!("{name}: {seen:?}");
}

#[test]
fn asran_cubic_reduces_first_then_slow_starts_back() {
    let name = "asran_cubic_reduces_first_then_slow_starts_back";
    let Some(seen) = fly(name, Flavour::AsranCubic) else { return };
    assert!(seen.as_the_base >= 1 && seen.restored >= 1 && seen.timeouts >= 1, "{seen:?}");
    println!("{name}: {seen:?}");
}

#[test]
fn asran_jump_jumps() {
    let Some(seen) = fly("asran_jump_jumps", Flavour::AsranJump) else { return };
    assert!(seen.as_the_base >= 1 && seen.jumped >= 1 && seen.timeouts >= 1, "{seen:?}");
    println!("asran_jump_jumps: {seen:?}");
}

#[test]
fn sub_flows_of_mptcp_use_it() {
    let name = "sub_flows_of_mptcp_use_it";
    let Some(mut run) = Run::start(name, Flavour::AsranCubic, Transport::Mptcp) else { return };
    run.until_acked(1, |record| record.cwnd >= WINDOW);
    let deadline = Instant::now() + PATIENCE;
    let ours = |run: &Run| -> Vec<Flow> {
        let name = run.loaded.name(Flavour::AsranCubic);
        let mut flows = run.flows();
        flows.retain(|flow| flow.socket.is_subflow && flow.socket.congestion == name);
        flows
    };
    while ours(&run).len() < 2 {
        assert!(Instant::now() < deadline, "one sub-flow only: {:?}", run.flows());
        thread::sleep(Duration::from_millis(20));
    }
    let sub_flows = ours(&run);
    assert!(sub_flows.iter().all(|flow| flow.memory.is_some()), "{sub_flows:?}");
    // A sub-flow that loses a packet recovers as a single connection does.
    for _ in 0..4 {
        run.lose_and_recover();
        run.until_acked(20, |_| true);
    }
    let ports: std::collections::BTreeSet<u16> =
        run.records.iter().map(|record| record.local_port).collect();
    assert!(ports.len() >= 2, "{ports:?}");
    for port in ports {
        let own: Vec<Record> =
            run.records.iter().filter(|record| record.local_port == port).copied().collect();
        println!("{name}: {:?}", check(Flavour::AsranCubic, &own, false));
    }
}
