//! Names of the descriptors that the loop waits for.

/// What a ready descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The signals.
    Signals,
    /// The kernel's announcements about interfaces.
    Interfaces,
    /// The tunnel.
    Tunnel,
    /// The status socket, or a client of it that reads slowly.
    Status(usize),
    /// The socket of events, or a client that follows them.
    Events(usize),
    /// A socket at an interface, by its slot.
    Socket(usize),
    /// An outlet beside it, by the slot and its place.
    Outlet(usize, usize),
    /// The configuration, read again.
    File,
    /// Names of hosts that were looked up.
    Names,
    /// The socket of `fulmar pair`, or one of its connections.
    Guests(usize),
    /// A socket of a relayed link's node, by the link's place, and which one.
    Hop(usize, usize),
    /// A connection that carries a path, by its place.
    Stream(usize),
    /// A local endpoint, by its place, and which of its descriptors.
    Endpoint(usize, usize),
}

impl Token {
    /// Packs kind, place and part into a number.
    pub(crate) fn encode(self) -> u64 {
        let (kind, place, part) = match self {
            Self::Signals => (0, 0, 0),
            Self::Interfaces => (1, 0, 0),
            Self::Tunnel => (2, 0, 0),
            Self::Status(part) => (3, 0, part),
            Self::Socket(slot) => (4, slot, 0),
            Self::Endpoint(place, part) => (5, place, part),
            Self::Outlet(slot, place) => (6, slot, place),
            Self::Names => (7, 0, 0),
            Self::File => (8, 0, 0),
            Self::Events(part) => (9, 0, part),
            Self::Guests(part) => (10, 0, part),
            Self::Hop(place, part) => (11, place, part),
            Self::Stream(place) => (12, place, 0),
        };
        kind << 48 | (place as u64) << 16 | part as u64
    }

    /// Unpacks what [`Token::encode`] made.
    pub(crate) fn decode(token: u64) -> Self {
        let (place, part) = ((token >> 16 & 0xFFFF_FFFF) as usize, (token & 0xFFFF) as usize);
        match token >> 48 {
            0 => Self::Signals,
            1 => Self::Interfaces,
            2 => Self::Tunnel,
            3 => Self::Status(part),
            4 => Self::Socket(place),
            6 => Self::Outlet(place, part),
            7 => Self::Names,
            8 => Self::File,
            9 => Self::Events(part),
            10 => Self::Guests(part),
            11 => Self::Hop(place, part),
            12 => Self::Stream(place),
            _ => Self::Endpoint(place, part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_their_numbers() {
        for token in [
            Token::Signals,
            Token::Interfaces,
            Token::Tunnel,
            Token::Status(0),
            Token::Status(3),
            Token::Names,
            Token::File,
            Token::Events(0),
            Token::Events(65_535),
            Token::Guests(4),
            Token::Hop(7, 3),
            Token::Stream(70_000),
            Token::Socket(7),
            Token::Outlet(3, 256),
            Token::Endpoint(300, 8),
        ] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
