//! Datagrams of strangers into both ends of a live session: never more bytes out than in, and the
//! session stays.
//!
//! The input is cut into datagrams: a control byte (which end, from where, and whether time
//! passes), the low byte of a length, and that many bytes.

#![no_main]

use std::cell::RefCell;

use proto::Duration;
use proto::fuzzing::Pair;

thread_local! {
    // A handshake costs more than a thousand inputs: the pair outlives them, which it must anyway.
    static PAIR: RefCell<Pair> = RefCell::new(Pair::new());
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| PAIR.with_borrow_mut(|pair| flood(pair, input)));

fn flood(pair: &mut Pair, mut input: &[u8]) {
    while let [control, len, rest @ ..] = input {
        let len = usize::from(*len) + 256 * usize::from(control >> 6);
        let (datagram, tail) = rest.split_at(len.min(rest.len()));
        input = tail;
        // 1 and 2 are the drone's addresses, 9 is the station's.
        let source = [0, 1, 2, 3, 4, 5, 6, 9][usize::from(control >> 1 & 7)];
        let answered = pair.inject(control & 1 != 0, source, datagram);
        assert!(answered <= datagram.len(), "{answered} bytes for {}", datagram.len());
        if control & 0x30 == 0x30 {
            pair.run(Duration::from_millis(5));
        }
    }
    assert!(pair.is_connected());
}
