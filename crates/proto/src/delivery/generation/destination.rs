//! The destination: decodes generations, hands out their packets, and says which it has.

use std::collections::{BTreeMap, VecDeque};

use coding::block::Decoder;
use coding::{CoefficientKey, Outcome};

use super::LENGTH;
use crate::limits;
use crate::window::SeenWindow;

/// Generations that are remembered.
const SEEN: u64 = 2 * limits::GENERATIONS;

/// A packet that was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Its generation, which has k of them, dummies included …
    pub(crate) generation: u64,
    pub(crate) k: usize,
    /// … and its place there, from 0.
    pub(crate) place: usize,
    /// The packet.
    pub(crate) bytes: Vec<u8>,
}

/// Counts what came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Generations that were decoded.
    pub(crate) decoded: u64,
    /// Combinations that said nothing new.
    pub(crate) redundant: u64,
    /// Generations that were given up, where more were open than may be.
    pub(crate) given_up: u64,
}

#[derive(Debug)]
struct Open {
    decoder: Decoder,
    k: usize,
    /// Bytes of each combination.
    bytes: usize,
}

/// Decodes generations.
#[derive(Debug)]
pub(crate) struct Destination {
    /// Those that are decoded; made with the first combination.
    decoded: Option<SeenWindow>,
    open: BTreeMap<u64, Open>,
    bytes: usize,
    /// How many bytes may be held, if no more are to be.
    most: usize,
    ready: VecDeque<Packet>,
    /// The last that were decoded, and how many came before them.
    told: VecDeque<u64>,
    forgotten: u64,
    counters: Received,
}

impl Default for Destination {
    fn default() -> Self {
        Self {
            decoded: None,
            open: BTreeMap::new(),
            bytes: 0,
            most: limits::TUNNEL_BYTES,
            ready: VecDeque::new(),
            told: VecDeque::new(),
            forgotten: 0,
            counters: Received::default(),
        }
    }
}

impl Destination {
    /// Takes a combination; false if no honest source makes it. A generation has as many packets as
    /// the combination has coefficients, at most [`limits::GENERATION_PACKETS`], and its number is
    /// at most [`limits::LAST_GENERATION`].
    pub(crate) fn handle_combination(
        &mut self,
        generation: u64,
        coefficients: &[u8],
        payload: &[u8],
    ) -> bool {
        let (k, bytes) = (coefficients.len(), payload.len());
        if bytes < LENGTH
            || !(1..=limits::GENERATION_PACKETS).contains(&k)
            || generation > limits::LAST_GENERATION
        {
            return false;
        }
        let decoded = self.decoded.get_or_insert_with(|| SeenWindow::new(SEEN));
        if !decoded.is_new(generation) {
            self.counters.redundant += 1;
            // Of what is so old that it is forgotten nothing can be said: a path held a copy for
            // long.
            if decoded.next() - generation <= SEEN {
                self.tell(generation);
            }
            return true;
        }
        let Some(open) = self.open(generation, k, bytes) else { return false };
        match open.decoder.push_coded(coefficients, payload) {
            Outcome::Innovative => {}
            Outcome::Malformed => return false,
            _ => self.counters.redundant += 1,
        }
        if self.open.get(&generation).is_some_and(|open| open.decoder.is_complete()) {
            return self.finish(generation);
        }
        self.keep_within_bounds();
        true
    }

    /// Returns the next packet.
    pub(crate) fn poll(&mut self) -> Option<Packet> {
        self.ready.pop_front()
    }

    /// Returns which generation is to be acknowledged to one who was told of the first `count`, and
    /// how many it knows then. Of what one is told late, the oldest is left out: its source asks
    /// again.
    pub(crate) fn ack(&self, count: u64) -> Option<(u64, u64)> {
        let count = count.max(self.forgotten);
        let place = usize::try_from(count - self.forgotten).ok()?;
        self.told.get(place).map(|generation| (*generation, count + 1))
    }

    /// Returns how many ACKs there have been.
    pub(crate) fn acks(&self) -> u64 {
        self.forgotten + self.told.len() as u64
    }

    /// Returns the bytes that are held.
    pub(crate) fn held(&self) -> usize {
        self.bytes
    }

    /// Notes how many bytes more may be held.
    pub(crate) fn set_room(&mut self, room: usize) {
        self.most = self.bytes.saturating_add(room).min(limits::TUNNEL_BYTES);
    }

    /// Tells whether no generation is open.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Gives back what an idle destination needs not. What is open by then its source has given up;
    /// otherwise it sends as much again.
    pub(crate) fn give_back(&mut self) {
        self.counters.given_up += self.open.len() as u64;
        (self.open, self.bytes) = (BTreeMap::new(), 0);
        self.ready = VecDeque::new();
        self.forgotten = self.acks();
        self.told = VecDeque::new();
    }

    /// Returns what came in.
    pub(crate) fn counters(&self) -> Received {
        self.counters
    }

    /// Returns a generation's decoder; none where it was another generation before.
    fn open(&mut self, generation: u64, k: usize, bytes: usize) -> Option<&mut Open> {
        if !self.open.contains_key(&generation) {
            // The source's key is of no use here: combinations bring their coefficients.
            let decoder = Decoder::new(k, bytes, CoefficientKey::new(0)).ok()?;
            self.bytes += cost(k, bytes);
            self.open.insert(generation, Open { decoder, k, bytes });
        }
        self.open.get_mut(&generation).filter(|open| (open.k, open.bytes) == (k, bytes))
    }

    /// Hands out the packets of a generation that is decoded; false if its source made nonsense.
    fn finish(&mut self, generation: u64) -> bool {
        let Some(Open { decoder, k, .. }) = self.close(generation) else { return true };
        let mut makes_sense = true;
        for place in 0..k {
            match decoder.get(place).map(packet) {
                Some(Ok(None)) => {}
                Some(Ok(Some(bytes))) => {
                    let bytes = bytes.to_vec();
                    self.ready.push_back(Packet { generation, k, place, bytes });
                }
                Some(Err(TooLong)) | None => makes_sense = false,
            }
        }
        self.counters.decoded += 1;
        if let Some(decoded) = &mut self.decoded {
            decoded.insert(generation);
            // What has fallen out of the window is never decoded.
            let floor = decoded.next().saturating_sub(SEEN);
            while let Some((&first, _)) = self.open.first_key_value()
                && first < floor
            {
                self.close(first);
                self.counters.given_up += 1;
            }
        }
        self.tell(generation);
        makes_sense
    }

    fn tell(&mut self, generation: u64) {
        self.told.push_back(generation);
        if self.told.len() > limits::DECODED_TO_TELL {
            self.told.pop_front();
            self.forgotten += 1;
        }
    }

    /// Gives up the oldest where more is open than an honest source leaves open.
    fn keep_within_bounds(&mut self) {
        while (self.bytes > self.most || self.open.len() as u64 > limits::GENERATIONS)
            && let Some((&first, _)) = self.open.first_key_value()
        {
            self.close(first);
            self.counters.given_up += 1;
        }
    }

    fn close(&mut self, generation: u64) -> Option<Open> {
        let open = self.open.remove(&generation)?;
        self.bytes -= cost(open.k, open.bytes);
        Some(open)
    }
}

/// What a symbol claims to hold is more than it has.
struct TooLong;

/// Returns the packet in a decoded symbol; none in a dummy.
fn packet(symbol: &[u8]) -> Result<Option<&[u8]>, TooLong> {
    let Some((length, rest)) = symbol.split_first_chunk::<LENGTH>() else { return Err(TooLong) };
    match usize::from(u16::from_be_bytes(*length)) {
        0 => Ok(None),
        length => rest.get(..length).map(Some).ok_or(TooLong),
    }
}

/// What an open generation costs, bytes.
fn cost(k: usize, bytes: usize) -> usize {
    limits::BESIDE_GENERATION + k * (bytes + limits::BESIDE)
}

#[cfg(test)]
mod tests {
    use super::super::{Published, Source, Way};
    use super::*;
    use units::{Duration, Instant, Rate};

    fn source(k: usize) -> Source {
        let mut source =
            Source::new(k, Published { f: Some(usize::MAX), r: 10, of_each: false }, 7);
        let (rate, rtt) = (Rate::from_mbps(8.0), Duration::from_millis(40));
        source.set_way(Some(Way { transmitters: 1, rate, rtt, least_rtt: rtt }));
        source
    }

    /// Gives a combination of a generation, and returns the packets that come of it.
    fn give(source: &mut Source, destination: &mut Destination, generation: u64) -> Vec<Packet> {
        let one = source.take(Instant::ZERO, generation, Duration::ZERO).expect("it is in flight");
        assert!(destination.handle_combination(one.generation, one.coefficients, one.payload));
        core::iter::from_fn(|| destination.poll()).collect()
    }

    #[test]
    fn a_generation_is_decoded_at_rank_k_and_its_dummies_are_nothing() {
        for k in [1, 2, 4, 16] {
            let (mut source, mut destination) = (source(k), Destination::default());
            let count = k.div_ceil(2);
            let packets: Vec<Vec<u8>> =
                (0..count).map(|tag| vec![tag as u8 + 1; 100 + tag]).collect();
            source.pack(&packets);
            let mut came = Vec::new();
            let mut given = 0;
            while came.is_empty() {
                came = give(&mut source, &mut destination, 0);
                given += 1;
            }
            assert!((k..k + 3).contains(&given), "{given} of {k}");
            let places = came.iter().map(|packet| (packet.place, packet.k));
            assert!(places.eq((0..count).map(|place| (place, k))));
            assert!(came.iter().map(|packet| &packet.bytes).eq(&packets));
            assert_eq!((destination.ack(0), destination.ack(1)), (Some((0, 1)), None));
            assert!(destination.is_idle() && destination.held() == 0);
            assert!(give(&mut source, &mut destination, 0).is_empty(), "each once");
            assert_eq!(destination.ack(1), Some((0, 2)), "the ACK was lost");
        }
    }

    #[test]
    fn what_no_honest_source_makes_is_refused() {
        let mut destination = Destination::default();
        for (generation, coefficients, payload) in [
            (0, &[1, 2][..], &[1][..]),
            (0, &[], &[0, 1, 2]),
            (0, &[1; 17], &[0, 1, 2]),
            (limits::LAST_GENERATION + 1, &[1], &[0, 1, 2]),
            (u64::MAX, &[1], &[0, 1, 2]),
            // It claims more than there is.
            (1, &[1], &[9, 9, 2]),
        ] {
            assert!(!destination.handle_combination(generation, coefficients, payload));
        }
        assert!(destination.handle_combination(5, &[1, 0], &[0, 1, 2]));
        assert!(!destination.handle_combination(5, &[1, 0, 0], &[0, 1, 2]), "another k");
        assert!(!destination.handle_combination(5, &[0, 1], &[0, 1, 2, 0]), "another length");
        assert!(destination.handle_combination(5, &[0, 0], &[0, 0, 0]), "it says nothing");
        assert_eq!(destination.poll(), None);
        assert!(destination.handle_combination(limits::LAST_GENERATION, &[1], &[0, 1, 7]));
        assert_eq!(destination.poll().map(|packet| packet.bytes), Some(vec![7]));
    }

    #[test]
    fn what_a_path_held_until_it_was_forgotten_is_no_mistake() {
        let mut destination = Destination::default();
        for generation in 0..=SEEN {
            assert!(destination.handle_combination(generation, &[1], &[0, 1, 7]));
        }
        while destination.poll().is_some() {}
        let acks = destination.acks();
        assert!(destination.handle_combination(0, &[1], &[0, 1, 7]));
        assert_eq!((destination.poll(), destination.acks()), (None, acks));
    }

    #[test]
    fn what_is_open_is_bounded_and_the_oldest_is_given_up() {
        let mut destination = Destination::default();
        for generation in 0..3 * limits::GENERATIONS {
            assert!(destination.handle_combination(generation, &[1, 2, 3], &[0; 1_400]));
            assert!(destination.held() <= limits::TUNNEL_BYTES);
        }
        assert!(destination.counters().given_up > 0);
        destination.set_room(0);
        let held = destination.held();
        destination.handle_combination(1 << 20, &[1; 16], &[0; 1_400]);
        assert!(destination.held() <= held);
    }

    #[test]
    fn what_its_source_has_given_up_is_not_kept_for_ever() {
        let (mut source, mut destination) = (source(2), Destination::default());
        source.pack(&[vec![1; 100], vec![2; 100]]);
        assert!(give(&mut source, &mut destination, 0).is_empty());
        assert!(!destination.is_idle() && destination.held() > 0);
        destination.give_back();
        assert_eq!((destination.held(), destination.counters().given_up), (0, 1));
        // Its source has not, after all.
        assert!(give(&mut source, &mut destination, 0).is_empty());
        assert_eq!(give(&mut source, &mut destination, 0).len(), 2);
    }

    #[test]
    fn who_is_told_late_is_told_of_the_newest() {
        let mut destination = Destination::default();
        let count = limits::DECODED_TO_TELL as u64 + 10;
        for generation in 0..count {
            destination.handle_combination(generation, &[1], &[0, 1, 2]);
        }
        assert_eq!((destination.acks(), destination.ack(count)), (count, None));
        assert_eq!(destination.ack(0), Some((10, 11)));
    }
}
