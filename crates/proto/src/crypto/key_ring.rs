//! The key ring of a session: seals what goes out, opens what comes in, over epochs of keys.
//!
//! Handshakes make [`EpochKeys`] elsewhere; the replay window belongs to the path. New keys seal
//! from the moment they are installed; the previous keys still open what was on its way, long
//! enough for the slow path. A responder installs keys only when a datagram under them has
//! authenticated [specs/wire.md §5], so installed keys are always shared keys. An initiator that
//! receives nothing under the new keys, while datagrams under the old ones still come, seals with
//! the old ones again.
//!
//! ```text
//! nonce = path id (4 bytes) ‖ packet number (8 bytes), big endian    as in multipath QUIC
//! datagram = header ‖ AES-256-GCM(key of epoch and direction, nonce, aad = header, frames)
//! ```

use core::fmt;
use core::ops::Range;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use units::Instant;
use zeroize::Zeroizing;

use crate::ids::PathId;
use crate::limits;
use crate::wire::{DATA_HEADER, DataHeader};

const TAG: usize = 16;

/// The keys that one handshake made, one per direction, and both ends' names for them.
pub(crate) struct EpochKeys {
    /// Our name: what the peer writes into the header.
    pub(crate) local_index: u32,
    /// The peer's name: what we write into the header.
    pub(crate) remote_index: u32,
    seal: LessSafeKey,
    open: LessSafeKey,
}

impl EpochKeys {
    /// Takes the two keys of a finished handshake.
    pub(crate) fn new(local_index: u32, remote_index: u32, seal: [u8; 32], open: [u8; 32]) -> Self {
        let [seal, open] = [seal, open].map(Zeroizing::new);
        Self { local_index, remote_index, seal: aead_key(&seal), open: aead_key(&open) }
    }

    /// Makes the keys of both ends for tests; the first has `index`, the second its complement.
    #[cfg(test)]
    pub(crate) fn pair(index: u32) -> (Self, Self) {
        let (one, two) = ([index as u8; 32], [!index as u8; 32]);
        (Self::new(index, !index, one, two), Self::new(!index, index, two, one))
    }

    /// Opens a datagram in place; its contents are lost when it does not authenticate.
    pub(crate) fn open(
        &self,
        header: &DataHeader,
        datagram: &mut [u8],
    ) -> Result<Range<usize>, OpenError> {
        if datagram.len() < DATA_HEADER + TAG || header.receiver != self.local_index {
            return Err(OpenError::UnknownEpoch);
        }
        let (aad, sealed) = datagram.split_at_mut(DATA_HEADER);
        let nonce = nonce(header.path, header.packet_number);
        let plaintext = self
            .open
            .open_in_place(nonce, Aad::from(&*aad), sealed)
            .map_err(|_| OpenError::Unauthentic)?;
        Ok(DATA_HEADER..DATA_HEADER + plaintext.len())
    }

    fn seal(&self, path: PathId, packet_number: u64, datagram: &mut Vec<u8>) {
        let header = DataHeader { receiver: self.remote_index, path, packet_number }.encode();
        datagram[..DATA_HEADER].copy_from_slice(&header);
        let tag = self
            .seal
            .seal_in_place_separate_tag(
                nonce(path, packet_number),
                Aad::from(&header),
                &mut datagram[DATA_HEADER..],
            )
            .expect("a datagram is far shorter than the cipher's limit");
        datagram.extend_from_slice(tag.as_ref());
    }
}

impl fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochKeys({:08x} ⇄ {:08x})", self.local_index, self.remote_index)
    }
}

fn aead_key(bytes: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).expect("the key has the cipher's length"))
}

fn nonce(path: PathId, packet_number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[3] = path.0;
    bytes[4..].copy_from_slice(&packet_number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Says why a datagram was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OpenError {
    /// No keys of that name are held (any more).
    UnknownEpoch,
    /// It was forged or damaged.
    Unauthentic,
}

/// Says why a datagram was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SealError {
    /// No handshake has finished yet.
    NoKeys,
    /// The keys have sealed as much as they may; a rekey must come first.
    Exhausted,
    /// The path has sealed this packet number or a later one under these keys.
    NumberReused,
}

/// Tells where the frames of an opened datagram are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The frames, within the datagram.
    pub(crate) plaintext: Range<usize>,
    /// True once per epoch: the first datagram under its keys shows that the peer uses them too.
    pub(crate) newly_confirmed: bool,
}

/// Keeps the current keys of a session and those before them.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    current: Option<Epoch>,
    previous: Option<Epoch>,
    /// When the previous keys are forgotten.
    forget_at: Option<Instant>,
    has_opened: bool,
}

#[derive(Debug)]
struct Epoch {
    keys: EpochKeys,
    installed: Instant,
    sealed: u64,
    opened: u64,
    /// The lowest packet number that each path may seal. A nonce used twice would reveal the
    /// authentication key, so this does not depend on the callers' care alone.
    next_numbers: Box<[u64; 256]>,
}

impl KeyRing {
    /// Starts without keys.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Seals with `keys` from now on; the previous ones still open for a while.
    pub(crate) fn install(&mut self, now: Instant, keys: EpochKeys) {
        let next_numbers = Box::new([0; 256]);
        let epoch = Epoch { keys, installed: now, sealed: 0, opened: 0, next_numbers };
        self.previous = self.current.replace(epoch);
        self.forget_at = self.previous.as_ref().map(|_| now + limits::OLD_KEYS_KEPT);
    }

    /// Returns true when there are keys to seal with.
    pub(crate) fn has_keys(&self) -> bool {
        self.current.is_some()
    }

    /// Returns when the current keys were installed.
    pub(crate) fn installed_at(&self) -> Option<Instant> {
        self.current.as_ref().map(|epoch| epoch.installed)
    }

    /// Returns true when an authentic datagram was ever opened.
    pub(crate) fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// Opens a datagram in place, header included; the path's replay window was asked before.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        header: &DataHeader,
        datagram: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let epoch = [self.current.as_mut(), self.previous.as_mut()]
            .into_iter()
            .flatten()
            .filter(|epoch| now.since(epoch.installed) < limits::KEYS_OPEN_FOR)
            .find(|epoch| epoch.keys.local_index == header.receiver)
            .ok_or(OpenError::UnknownEpoch)?;
        let plaintext = epoch.keys.open(header, datagram)?;
        epoch.opened += 1;
        let newly_confirmed = epoch.opened == 1;
        self.has_opened = true;
        self.follow_peer(now, header.receiver);
        Ok(Opened { plaintext, newly_confirmed })
    }

    /// Returns our names for the keys that open.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        let epochs = [self.current.as_ref(), self.previous.as_ref()];
        epochs.into_iter().flatten().map(|epoch| epoch.keys.local_index)
    }

    /// Returns the peer's name for the keys that seal.
    pub(crate) fn remote_index(&self) -> Option<u32> {
        self.current.as_ref().map(|epoch| epoch.keys.remote_index)
    }

    /// Seals a datagram: `DATA_HEADER` reserved bytes and frames in, header, ciphertext, tag out.
    ///
    /// The packet numbers of a path ascend. On an error `datagram` is untouched.
    pub(crate) fn seal(
        &mut self,
        path: PathId,
        packet_number: u64,
        datagram: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        assert!(datagram.len() >= DATA_HEADER, "room for the header is reserved");
        let epoch = self.current.as_mut().ok_or(SealError::NoKeys)?;
        if epoch.sealed >= limits::SEALED_PER_EPOCH {
            return Err(SealError::Exhausted);
        }
        let next_number = &mut epoch.next_numbers[usize::from(path.0)];
        if packet_number < *next_number {
            return Err(SealError::NumberReused);
        }
        *next_number = packet_number + 1;
        epoch.keys.seal(path, packet_number, datagram);
        epoch.sealed += 1;
        Ok(())
    }

    /// Returns from when on the initiator has to begin a handshake for new keys.
    pub(crate) fn rekey_from(&self) -> Option<Instant> {
        let epoch = self.current.as_ref()?;
        let used = epoch.sealed.max(epoch.opened) >= limits::REKEY_AFTER_DATAGRAMS;
        match used || self.went_back() {
            true => Some(Instant::ZERO),
            false => Some(epoch.installed + limits::REKEY_AFTER),
        }
    }

    /// Returns when [`KeyRing::handle_timeout`] or [`KeyRing::rekey_from`] has news at the latest.
    pub(crate) fn timeout(&self, now: Instant) -> Option<Instant> {
        let rekey = self.current.as_ref().map(|epoch| epoch.installed + limits::REKEY_AFTER);
        let rekey = rekey.filter(|rekey| *rekey > now);
        [rekey, self.forget_at].into_iter().flatten().min()
    }

    /// Forgets keys whose time is over.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.forget_at.is_some_and(|forget_at| forget_at <= now) {
            self.previous = None;
            self.forget_at = None;
        }
    }

    /// Goes back to the previous keys where the peer uses those and not the current ones, and
    /// forward again when it uses these.
    fn follow_peer(&mut self, now: Instant, opened: u32) {
        let (Some(current), Some(previous)) = (&self.current, &self.previous) else { return };
        if previous.keys.local_index != opened {
            return;
        }
        let unheard = current.opened == 0 && now.since(current.installed) >= limits::KEYS_UNHEARD;
        if unheard || self.went_back() {
            core::mem::swap(&mut self.current, &mut self.previous);
        }
    }

    /// Tells whether the keys that seal are the older ones.
    fn went_back(&self) -> bool {
        let installed = |epoch: &Option<Epoch>| epoch.as_ref().map(|epoch| epoch.installed);
        installed(&self.previous) > installed(&self.current)
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    fn sealed(ring: &mut KeyRing, packet_number: u64) -> Vec<u8> {
        let mut datagram = vec![0; DATA_HEADER];
        datagram.extend_from_slice(b"frames");
        ring.seal(PathId(1), packet_number, &mut datagram).expect("there are keys");
        datagram
    }

    fn open(ring: &mut KeyRing, datagram: &[u8]) -> Result<Opened, OpenError> {
        open_at(ring, Instant::ZERO, datagram)
    }

    fn open_at(ring: &mut KeyRing, now: Instant, datagram: &[u8]) -> Result<Opened, OpenError> {
        let mut copy = datagram.to_vec();
        let header = DataHeader::decode(&copy).expect("it is a data datagram");
        let opened = ring.open(now, &header, &mut copy)?;
        assert_eq!(&copy[opened.plaintext.clone()], b"frames");
        Ok(opened)
    }

    fn rekey_due(ring: &KeyRing, now: Instant) -> bool {
        ring.rekey_from().is_some_and(|from| from <= now)
    }

    fn rings(index: u32) -> (KeyRing, KeyRing) {
        let (ours, theirs) = EpochKeys::pair(index);
        let (mut left, mut right) = (KeyRing::new(), KeyRing::new());
        left.install(Instant::ZERO, ours);
        right.install(Instant::ZERO, theirs);
        (left, right)
    }

    #[test]
    fn what_one_end_seals_the_other_opens_and_nobody_alters() {
        let (mut left, mut right) = rings(3);
        let datagram = sealed(&mut left, 5);
        assert_eq!(datagram.len(), DATA_HEADER + 6 + TAG);
        assert!(open(&mut right, &datagram).expect("authentic").newly_confirmed);
        assert!(!open(&mut right, &datagram).expect("authentic").newly_confirmed);
        for bit in 8..datagram.len() * 8 {
            let mut altered = datagram.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&mut right, &altered).is_err(), "bit {bit}");
        }
        assert!(open(&mut left, &datagram).is_err(), "reflected");
    }

    #[test]
    fn old_keys_open_for_a_while_after_new_ones_came() {
        let (mut left, mut right) = rings(3);
        let late = sealed(&mut left, 0);
        let now = Instant::ZERO + limits::REKEY_AFTER;
        assert!(rekey_due(&right, now) && !rekey_due(&right, now - Duration::from_nanos(1)));
        let (_, theirs) = EpochKeys::pair(9);
        right.install(now, theirs);
        assert!(!rekey_due(&right, now) && right.installed_at() == Some(now));
        assert!(!right.has_opened());
        assert!(open(&mut right, &late).is_ok());
        assert_eq!(right.timeout(now), Some(now + limits::OLD_KEYS_KEPT));
        right.handle_timeout(now + limits::OLD_KEYS_KEPT);
        assert_eq!(open(&mut right, &late), Err(OpenError::UnknownEpoch));
    }

    #[test]
    fn an_end_that_nobody_hears_under_new_keys_goes_back_and_forward_again() {
        let (mut left, mut right) = rings(3);
        let late = sealed(&mut left, 0);
        let now = Instant::ZERO + limits::REKEY_AFTER;
        let (ours, theirs) = EpochKeys::pair(9);
        right.install(now, theirs);
        let soon = now + limits::KEYS_UNHEARD / 2;
        assert!(open_at(&mut right, soon, &late).is_ok() && !rekey_due(&right, soon));

        // Nothing came under the new keys: what is sealed now, the peer opens with the old ones.
        let then = now + limits::KEYS_UNHEARD;
        assert!(
            open_at(&mut right, then, &sealed(&mut left, 1)).is_ok() && rekey_due(&right, then)
        );
        assert!(open_at(&mut left, then, &sealed(&mut right, 0)).is_ok());

        // It had them after all.
        left.install(then, ours);
        assert!(open_at(&mut right, then, &sealed(&mut left, 2)).expect("kept").newly_confirmed);
        assert!(!rekey_due(&right, then));
        assert!(open_at(&mut left, then, &sealed(&mut right, 1)).expect("kept").newly_confirmed);
    }

    #[test]
    fn keys_that_nobody_renews_open_nothing_in_the_end() {
        let (mut left, mut right) = rings(3);
        let datagram = sealed(&mut left, 0);
        let end = Instant::ZERO + limits::KEYS_OPEN_FOR;
        assert!(open_at(&mut right, end - Duration::from_nanos(1), &datagram).is_ok());
        assert_eq!(open_at(&mut right, end, &datagram), Err(OpenError::UnknownEpoch));
    }

    #[test]
    fn nothing_is_sealed_without_keys() {
        let mut datagram = vec![0; DATA_HEADER];
        let refused = KeyRing::new().seal(PathId(0), 0, &mut datagram);
        assert_eq!(refused, Err(SealError::NoKeys));
        assert_eq!(datagram.len(), DATA_HEADER);
    }

    #[test]
    fn no_packet_number_of_a_path_is_sealed_twice_under_the_same_keys() {
        let (mut left, _) = rings(3);
        let mut seal =
            |path, packet_number| left.seal(PathId(path), packet_number, &mut vec![0; DATA_HEADER]);
        assert_eq!(seal(1, 7), Ok(()));
        assert_eq!(seal(1, 7), Err(SealError::NumberReused));
        assert_eq!(seal(1, 6), Err(SealError::NumberReused));
        assert_eq!((seal(2, 7), seal(1, 8)), (Ok(()), Ok(())));
    }
}
