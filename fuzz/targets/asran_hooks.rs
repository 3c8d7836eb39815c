//! The hooks of the kernel's congestion controls, as the kernel calls them, and as one that leaves
//! some out does.
//!
//! The source is the one that is compiled for BPF; `kernel/asran_hooks.c` stands in for the kernel.
//! Promises: nothing that C leaves undefined, no threshold above what the connection has had or
//! below two packets, and what a hook that was left out has left behind is gone with the next ACK.

#![no_main]

/// `struct fake_socket`.
#[repr(C, align(8))]
struct Socket {
    cwnd: u32,
    ssthresh: u32,
    prior_cwnd: u32,
    srtt_us: u32,
    mstamp_us: u64,
    rate_delivered: u32,
    rate_interval_us: u32,
    has_storage: u32,
    kept: u32,
    hystart: u32,
    reserved: u32,
    /// `struct asran`, of which the fifth word is the phase, and what `asran_delay` keeps behind
    /// it.
    state: [u32; 36],
}

unsafe extern "C" {
    fn asran_hooks_socket_bytes() -> u32;
    fn asran_hooks_call(flavour: u32, hook: u32, socket: *mut Socket, a: u32, b: u32) -> u32;
}

const INFINITE: u32 = 0x7fff_ffff;
/// From here on a window or a threshold is what a hook that was left out has left behind.
const ABSURD: u32 = 1 << 20;
/// What `asran_delay` leaves of a window at least.
const LEAST_WINDOW: u32 = 4;
const PHASES: u32 = 4;

#[derive(Clone, Copy)]
enum Hook {
    Init,
    Release,
    Ssthresh,
    SetState,
    Event,
    Acked,
    Avoid,
    Undo,
}

const COMPLETE_CWR: u32 = 2;
const LOSS: u32 = 3;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open = 0,
    Cwr = 2,
    Recovery = 3,
    Loss = 4,
}

/// The kernel, as far as hooks notice it (net/ipv4/tcp_input.c).
struct Kernel {
    socket: Socket,
    flavour: u32,
    state: State,
    prior_ssthresh: u32,
    /// The largest window that there has been.
    largest: u32,
}

impl Kernel {
    fn new(flavour: u32, cwnd: u32, has_storage: bool) -> Self {
        let socket = Socket {
            cwnd,
            ssthresh: INFINITE,
            prior_cwnd: 0,
            srtt_us: 0,
            mstamp_us: 1,
            rate_delivered: 0,
            rate_interval_us: 0,
            has_storage: has_storage.into(),
            kept: 0,
            hystart: 0,
            reserved: 0,
            state: [0; 36],
        };
        // SAFETY: the function takes and touches nothing.
        assert_eq!(unsafe { asran_hooks_socket_bytes() } as usize, size_of::<Socket>());
        let mut kernel =
            Self { socket, flavour, state: State::Open, prior_ssthresh: 0, largest: cwnd };
        kernel.call(Hook::Init, 0, 0);
        kernel
    }

    fn call(&mut self, hook: Hook, a: u32, b: u32) -> u32 {
        // SAFETY: the socket is laid out as the other side has it, and outlives the call.
        unsafe { asran_hooks_call(self.flavour, hook as u32, &raw mut self.socket, a, b) }
    }

    fn enter(&mut self, state: State) {
        self.call(Hook::SetState, state as u32, 0);
        self.state = state;
    }

    /// What begins every reduction.
    fn reduce(&mut self) {
        self.socket.prior_cwnd = self.socket.cwnd;
        self.prior_ssthresh = self.socket.ssthresh;
        self.socket.ssthresh = self.call(Hook::Ssthresh, 0, 0);
        assert!((2..=self.largest.max(2)).contains(&self.socket.ssthresh));
    }

    fn slow_down(&mut self, state: State) {
        if self.state == State::Open {
            self.reduce();
            self.enter(state);
        }
    }

    /// The end of a recovery, or of a reduction that congestion asked for.
    fn finish(&mut self) {
        if matches!(self.state, State::Recovery | State::Cwr) {
            self.socket.cwnd = self.socket.cwnd.min(self.socket.ssthresh);
            self.call(Hook::Event, COMPLETE_CWR, 0);
        }
        if self.state != State::Open {
            self.enter(State::Open);
        }
    }

    fn time_out(&mut self, in_flight: u32) {
        if matches!(self.state, State::Open | State::Cwr) {
            self.reduce();
        }
        self.call(Hook::Event, LOSS, 0);
        self.socket.cwnd = in_flight.min(self.socket.cwnd).max(1);
        self.enter(State::Loss);
    }

    fn undo(&mut self) {
        if self.state == State::Open || self.socket.prior_cwnd == 0 {
            return;
        }
        self.socket.cwnd = self.call(Hook::Undo, 0, 0);
        self.socket.ssthresh = self.socket.ssthresh.max(self.prior_ssthresh);
        self.enter(State::Open);
    }

    fn acknowledge(&mut self, acked: u32, rtt_us: u32) {
        self.call(Hook::Acked, acked, rtt_us);
        let Socket { cwnd, ssthresh, .. } = self.socket;
        assert!(cwnd < ABSURD && (ssthresh < ABSURD || ssthresh == INFINITE), "{cwnd}, {ssthresh}");
        match self.state {
            State::Recovery | State::Cwr => {
                // Proportional rate reduction: towards the threshold.
                self.socket.cwnd = cwnd.saturating_sub(acked).max(ssthresh.min(cwnd)).max(1);
            }
            State::Open | State::Loss => {
                self.call(Hook::Avoid, 0, acked);
                let most = cwnd.saturating_add(acked.max(1)).max(LEAST_WINDOW);
                assert!(
                    (1..=most).contains(&self.socket.cwnd),
                    "{} after {cwnd}",
                    self.socket.cwnd
                );
            }
        }
    }

    /// A hook was left out, and the kernel took what lay on its stack for the answer.
    fn leave_out(&mut self, garbage: u32, window: bool) {
        let garbage = garbage.saturating_add(ABSURD).min(INFINITE - 1);
        let place = if window { &mut self.socket.cwnd } else { &mut self.socket.ssthresh };
        *place = garbage;
        // Nothing reads it before the next ACK does.
        self.acknowledge(1, 0);
    }

    fn check(&mut self) {
        let Socket { cwnd, ssthresh, kept, state, .. } = self.socket;
        self.largest = self.largest.max(cwnd);
        assert!(cwnd >= 1, "no window");
        let highest = self.largest.max(LEAST_WINDOW);
        assert!(ssthresh == INFINITE || (2..=highest).contains(&ssthresh), "{ssthresh}");
        assert!(kept == 0 || state[4] < PHASES, "phase {}", state[4]);
    }
}

/// Reads numbers off the input; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u32 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte.into()
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes(core::array::from_fn(|_| self.byte() as u8))
    }
}

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let mut input = Input(script);
    let choice = input.byte();
    let mut kernel = Kernel::new(choice % 4, 1 + input.byte() * 8, choice < 224);
    while !input.0.is_empty() {
        let what = input.byte();
        let small = what >> 4;
        match what % 16 {
            0..=3 => {
                kernel.socket.mstamp_us += u64::from(input.byte()) << small;
                let rtt_us = input.byte() << small;
                kernel.acknowledge(1 + small, rtt_us);
            }
            4 => {
                kernel.socket.mstamp_us += u64::from(input.number());
                let (acked, rtt_us) = (input.byte() * 257, input.number());
                kernel.acknowledge(acked, rtt_us);
            }
            5 => {
                kernel.socket.rate_delivered = input.byte() << small;
                kernel.socket.rate_interval_us = input.byte() << small;
            }
            6 => {
                kernel.socket.rate_delivered = input.number();
                kernel.socket.rate_interval_us = input.number();
            }
            7 | 8 => kernel.slow_down(State::Recovery),
            9 => kernel.slow_down(State::Cwr),
            10 | 11 => kernel.finish(),
            12 => kernel.time_out(small),
            13 => kernel.undo(),
            14 => kernel.leave_out(input.number(), small % 2 == 1),
            _ if small < 8 => kernel.socket.hystart = small % 2,
            _ => {
                kernel.call(Hook::Release, 0, 0);
                kernel.call(Hook::Init, 0, 0);
            }
        }
        kernel.check();
    }
    kernel.call(Hook::Release, 0, 0);
    assert_eq!(kernel.socket.kept, 0, "a socket leaves nothing behind");
});
