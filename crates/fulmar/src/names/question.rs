//! A question to name servers, and what they answer [RFC 1035]: both families at once, of all
//! servers at once, by one interface. The first answer that has addresses counts; that there is
//! none counts when every server says so, or when the time is over.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

use super::Link;

/// When a question leaves again, from the first time on: a mobile link that was idle takes a second
/// to wake up.
const ASK_AT: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(1_000), Duration::from_millis(2_500)];
/// How long answers are waited for, all in all.
const WITHIN: Duration = Duration::from_millis(4_500);
/// How long the other family is waited for once one has an address: it is asked in the same moment.
const OTHER_FAMILY: Duration = Duration::from_millis(500);
/// How long one look at the socket takes at most.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of an answer without TCP, beyond which servers cut it off; nothing is announced that lets
/// them send more.
const LARGEST: usize = 4_096;
/// Addresses of one answer.
const MOST: usize = 16;
/// Aliases that an answer leads over.
const ALIASES: usize = 16;

/// Why there is no address; what says more is greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failure {
    /// Nobody answered.
    Silence,
    /// Servers answered that they cannot tell.
    Refusal,
    /// Servers answered that there is none.
    NoSuch(&'static str),
}

/// What one server says of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Addresses(Vec<IpAddr>),
    Nothing(Failure),
}

/// Looks a name up at name servers, by the interface of a link.
pub(super) fn ask(host: &str, servers: &[SocketAddr], link: &Link) -> Result<Vec<IpAddr>, Failure> {
    let Ok(mut asked) = Asked::new(host, servers, link) else { return Err(Failure::Silence) };
    let began = Instant::now();
    let mut rounds = ASK_AT.iter();
    let mut next = rounds.next();
    loop {
        let now = began.elapsed();
        if next.is_some_and(|at| *at <= now) {
            asked.send();
            next = rounds.next();
        }
        asked.receive();
        if asked.is_over(began.elapsed()) {
            return asked.result();
        }
    }
}

/// Returns the addresses that an answer to a question of ours has, whoever may have sent it.
#[cfg(any(test, fuzzing))]
pub(crate) fn addresses_in(
    bytes: &[u8],
    id: u16,
    host: &str,
    is_ipv6: bool,
) -> Option<Vec<IpAddr>> {
    match read(bytes, id, host, is_ipv6)? {
        Said::Addresses(addresses) => Some(addresses),
        Said::Nothing(_) => Some(Vec::new()),
    }
}

/// A question that is under way.
struct Asked<'q> {
    host: &'q str,
    servers: &'q [SocketAddr],
    sockets: Vec<UdpSocket>,
    /// The number and the bytes of the question for IPv4, and for IPv6.
    questions: [(u16, Vec<u8>); 2],
    /// What each server said of each family.
    said: Vec<[Option<Said>; 2]>,
    found_at: Option<Instant>,
}

impl<'q> Asked<'q> {
    fn new(host: &'q str, servers: &'q [SocketAddr], link: &Link) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for is_ipv6 in [false, true] {
            if servers.iter().any(|server| server.is_ipv6() == is_ipv6) {
                sockets.push(sys::bound::udp(&link.name, is_ipv6)?);
            }
        }
        for socket in &sockets {
            socket.set_read_timeout(Some(LOOK / sockets.len() as u32))?;
        }
        let seed = sys::entropy::seed()?;
        let number = |at: usize| u16::from_le_bytes([seed[2 * at], seed[2 * at + 1]]);
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let mut questions = [(number(0), Vec::new()), (number(1), Vec::new())];
        for ((id, bytes), kind) in questions.iter_mut().zip([TYPE::A, TYPE::AAAA]) {
            *bytes = question(*id, host, kind).map_err(invalid)?;
        }
        let said = vec![[None, None]; servers.len()];
        Ok(Self { host, servers, sockets, questions, said, found_at: None })
    }

    /// Asks whoever has not answered.
    fn send(&self) {
        for (server, said) in self.servers.iter().zip(&self.said) {
            let socket = self.sockets.iter().find(|socket| {
                socket.local_addr().is_ok_and(|own| own.is_ipv6() == server.is_ipv6())
            });
            for ((_, bytes), said) in self.questions.iter().zip(said) {
                if let (Some(socket), None) = (socket, said) {
                    // One that cannot be reached now may be at the next time.
                    let _ = socket.send_to(bytes, server);
                }
            }
        }
    }

    fn receive(&mut self) {
        let mut buffer = [0; LARGEST];
        for socket in &self.sockets {
            let Ok((length, source)) = socket.recv_from(&mut buffer) else { continue };
            let is_it =
                |server: &SocketAddr| (server.ip(), server.port()) == (source.ip(), source.port());
            let Some(server) = self.servers.iter().position(is_it) else { continue };
            for (family, (id, _)) in self.questions.iter().enumerate() {
                if let Some(said) = read(&buffer[..length], *id, self.host, family == 1) {
                    if matches!(said, Said::Addresses(_)) {
                        self.found_at.get_or_insert_with(Instant::now);
                    }
                    self.said[server][family].get_or_insert(said);
                }
            }
        }
    }

    fn is_over(&self, after: Duration) -> bool {
        let has_addresses = |family: usize| {
            self.said.iter().any(|said| matches!(said[family], Some(Said::Addresses(_))))
        };
        let is_known = |family: usize| {
            has_addresses(family) || self.said.iter().all(|said| said[family].is_some())
        };
        let waited = self.found_at.is_some_and(|at| at.elapsed() >= OTHER_FAMILY);
        after >= WITHIN || waited || (is_known(0) && is_known(1))
    }

    fn result(self) -> Result<Vec<IpAddr>, Failure> {
        let (mut addresses, mut failure) = (Vec::new(), Failure::Silence);
        for said in self.said.into_iter().flatten().flatten() {
            match said {
                Said::Addresses(found) => addresses.extend(found),
                Said::Nothing(why) => failure = failure.max(why),
            }
        }
        let mut seen = Vec::new();
        addresses.retain(|address| {
            !seen.contains(address) && {
                seen.push(*address);
                true
            }
        });
        addresses.truncate(MOST);
        if addresses.is_empty() { Err(failure) } else { Ok(addresses) }
    }
}

fn question(id: u16, host: &str, kind: TYPE) -> Result<Vec<u8>, simple_dns::SimpleDnsError> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(host)?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec()
}

/// Reads an answer; nothing where it is none to this question.
fn read(bytes: &[u8], id: u16, host: &str, is_ipv6: bool) -> Option<Said> {
    let packet = Packet::parse(bytes).ok()?;
    let kind = if is_ipv6 { TYPE::AAAA } else { TYPE::A };
    let name = Name::new(host).ok()?;
    let [asked] = packet.questions.as_slice() else { return None };
    let is_ours = packet.id() == id
        && packet.has_flags(PacketFlag::RESPONSE)
        && asked.qname == name
        && asked.qtype == QTYPE::TYPE(kind);
    if !is_ours {
        return None;
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Some(Said::Nothing(Failure::NoSuch("there is no such name"))),
        // It cannot tell: another one may.
        _ => return Some(Said::Nothing(Failure::Refusal)),
    }
    // The aliases that the name has, one after the other.
    let mut names = vec![name];
    while let Some(RData::CNAME(alias)) = packet
        .answers
        .iter()
        .find(|it| matches!(it.rdata, RData::CNAME(_)) && names.last() == Some(&it.name))
        .map(|it| &it.rdata)
        && names.len() < ALIASES
        && !names.contains(&alias.0)
    {
        names.push(alias.0.clone());
    }
    let address = |record: &simple_dns::ResourceRecord<'_>| match &record.rdata {
        RData::A(it) if !is_ipv6 => Some(IpAddr::from(Ipv4Addr::from(it.address))),
        RData::AAAA(it) if is_ipv6 => Some(IpAddr::from(Ipv6Addr::from(it.address))),
        _ => None,
    };
    let of_name = packet.answers.iter().filter(|record| names.contains(&record.name));
    // What filters say of a name that they do not like leads nowhere.
    let leads_out = |ip: &IpAddr| !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast();
    let found: Vec<_> = of_name.filter_map(address).filter(leads_out).take(MOST).collect();
    Some(if found.is_empty() {
        Said::Nothing(Failure::NoSuch("it has no address"))
    } else {
        Said::Addresses(found)
    })
}

#[cfg(test)]
mod tests {
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, AAAA, CNAME};

    use super::*;

    /// Answers a question with an alias and addresses of both families.
    fn answer(to: &[u8], host: &str) -> Vec<u8> {
        let asked = Packet::parse(to).unwrap();
        let mut packet = Packet::new_reply(asked.id());
        packet.questions = asked.questions.clone();
        let name = || Name::new(host).unwrap();
        let alias = || Name::new("alias.example").unwrap();
        let mut add = |name, data| {
            packet.answers.push(ResourceRecord::new(name, CLASS::IN, 60, data));
        };
        add(name(), RData::CNAME(CNAME(alias())));
        add(alias(), RData::A(A { address: Ipv4Addr::new(192, 0, 2, 1).into() }));
        add(alias(), RData::A(A { address: 0 }));
        let address = "2001:db8::1".parse::<Ipv6Addr>().unwrap();
        add(alias(), RData::AAAA(AAAA { address: address.into() }));
        let stranger = Name::new("stranger.example").unwrap();
        add(stranger, RData::A(A { address: Ipv4Addr::new(192, 0, 2, 66).into() }));
        packet.build_bytes_vec_compressed().unwrap()
    }

    #[test]
    fn an_answer_is_read_over_its_aliases_and_no_other_name_counts() {
        let host = "Station.example";
        for (kind, is_ipv6, is) in
            [(TYPE::A, false, "192.0.2.1"), (TYPE::AAAA, true, "2001:db8::1")]
        {
            let asked = question(7, host, kind).unwrap();
            let answer = answer(&asked, "station.EXAMPLE");
            let found = addresses_in(&answer, 7, host, is_ipv6).unwrap();
            assert_eq!(found, [is.parse::<IpAddr>().unwrap()]);
            assert_eq!(addresses_in(&answer, 8, host, is_ipv6), None, "another question's");
            assert_eq!(addresses_in(&answer, 7, "other.example", is_ipv6), None);
            assert_eq!(addresses_in(&answer, 7, host, !is_ipv6), None);
            assert_eq!(addresses_in(&asked, 7, host, is_ipv6), None, "a question");
            for length in 0..answer.len() {
                addresses_in(&answer[..length], 7, host, is_ipv6);
            }
        }
    }
}
