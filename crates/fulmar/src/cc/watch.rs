//! `fulmar cc watch`: the live connections that use ASRAN, as a table or as lines of JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use proto::Duration;
use serde_json::{Value, json};
use sys::print::{Reader, print_anew, print_while_read};
use tcp_asran::{Flavour, Flow};

use crate::status::{columns, milliseconds, rate};

/// How often the kernel is asked.
const EVERY: Duration = Duration::from_secs(1);
/// How long the first rates are of.
const FIRST: Duration = Duration::from_millis(500);

const HEADINGS: [&str; 11] = [
    "from",
    "to",
    "algorithm",
    "state",
    "cwnd",
    "ssthresh",
    "last max",
    "rtt",
    "least",
    "resent",
    "delivers",
];

/// How fast each connection's bytes are acknowledged, Mbit/s. The kernel's own rate of delivery is
/// that of its last burst.
#[derive(Default)]
struct Rates(BTreeMap<[SocketAddr; 2], Seen>);

struct Seen {
    at: Instant,
    bytes: u64,
    mbps: Option<f64>,
}

/// Shows them until interrupted, or `count` times.
pub(crate) fn run(all: bool, count: Option<u64>, json: bool) -> Result<(), String> {
    let ask = || -> Result<Vec<Flow>, String> {
        let flows =
            tcp_asran::flows().map_err(|error| format!("ask about connections: {error}"))?;
        Ok(flows.into_iter().filter(|flow| all || is_ours(flow)).collect())
    };
    let (mut shown, mut rates) = (0, Rates::default());
    rates.update(&ask()?, Instant::now());
    std::thread::sleep(FIRST.into());
    loop {
        let flows = ask()?;
        rates.update(&flows, Instant::now());
        let reader = if json {
            print_while_read(object(&flows, &rates))?
        } else if count == Some(1) {
            print_while_read(table(&flows, &rates).trim_end())?
        } else {
            print_anew(&table(&flows, &rates))?
        };
        shown += 1;
        if reader == Reader::Gone || count.is_some_and(|count| shown >= count) {
            return Ok(());
        }
        std::thread::sleep(EVERY.into());
    }
}

impl Rates {
    fn update(&mut self, flows: &[Flow], now: Instant) {
        let known = std::mem::take(&mut self.0);
        for flow in flows {
            let (key, bytes) = (Self::key(flow), flow.socket.info.bytes_acked);
            let mbps = known.get(&key).and_then(|seen| {
                let seconds = now.duration_since(seen.at).as_secs_f64();
                let more = bytes.checked_sub(seen.bytes)?;
                (seconds > 0.0).then(|| more as f64 * 8e-6 / seconds)
            });
            self.0.insert(key, Seen { at: now, bytes, mbps });
        }
    }

    fn mbps(&self, flow: &Flow) -> Option<f64> {
        self.0.get(&Self::key(flow)).and_then(|seen| seen.mbps)
    }

    fn key(flow: &Flow) -> [SocketAddr; 2] {
        [flow.socket.local, flow.socket.remote]
    }
}

/// Names of experiments have a suffix.
fn is_ours(flow: &Flow) -> bool {
    Flavour::ALL.iter().any(|flavour| flow.socket.congestion.starts_with(flavour.name()))
}

fn table(flows: &[Flow], rates: &Rates) -> String {
    if flows.is_empty() {
        return "no connection uses them here (--all shows every connection, --netns another namespace)\n"
            .to_owned();
    }
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(flows.iter().map(|flow| row(flow, rates)));
    columns(&rows)
}

fn row(flow: &Flow, rates: &Rates) -> Vec<String> {
    let (socket, info) = (&flow.socket, &flow.socket.info);
    let ms = |span: Duration| milliseconds(span.as_secs_f64() * 1e3);
    let number =
        |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let kind = if socket.is_subflow { " (mptcp)" } else { "" };
    vec![
        socket.local.to_string(),
        socket.remote.to_string(),
        format!("{}{kind}", socket.congestion),
        state(flow).to_owned(),
        info.cwnd.to_string(),
        number(info.ssthresh),
        number(flow.memory.map(|memory| memory.last_max_cwnd)),
        ms(info.srtt),
        ms(info.min_rtt),
        info.retransmits.to_string(),
        rates.mbps(flow).map_or_else(|| "-".to_owned(), rate),
    ]
}

fn object(flows: &[Flow], rates: &Rates) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let connections: Vec<Value> = flows.iter().map(|flow| connection(flow, rates)).collect();
    json!({"unix_time": now.as_secs_f64(), "connections": connections})
}

fn connection(flow: &Flow, rates: &Rates) -> Value {
    let (socket, info) = (&flow.socket, &flow.socket.info);
    let ms = |span: Duration| span.as_micros() as f64 / 1e3;
    json!({
        "local": socket.local.to_string(),
        "remote": socket.remote.to_string(),
        "algorithm": socket.congestion,
        "mptcp_subflow": socket.is_subflow,
        "state": state(flow),
        "cwnd": info.cwnd,
        "ssthresh": info.ssthresh,
        "last_max_cwnd": flow.memory.map(|memory| memory.last_max_cwnd),
        "recalculated_ssthresh": flow.memory.map(|memory| memory.recalculated_ssthresh),
        "rtt_ms": ms(info.srtt),
        "min_rtt_ms": ms(info.min_rtt),
        "retransmits": info.retransmits,
        "rate_mbps": rates.mbps(flow),
        "burst_rate_mbps": info.delivery_rate.as_mbps(),
        "bytes_acked": info.bytes_acked,
    })
}

/// Says what goes on in the words of TCP, and that ASRAN is restoring the window while it is.
fn state(flow: &Flow) -> &'static str {
    let info = &flow.socket.info;
    let below = info.ssthresh.is_none_or(|ssthresh| info.cwnd < ssthresh);
    match info.state {
        2 => "reduced (ECN)",
        3 => "recovery",
        4 => "timeout",
        _ if below && flow.memory.is_some_and(|memory| memory.is_restoring(info.cwnd)) => {
            "restoring"
        }
        _ if below => "slow start",
        _ => "avoidance",
    }
}

#[cfg(test)]
mod tests {
    use sys::socket_diag::TcpSocket;
    use sys::tcp_info::TcpInfo;
    use tcp_asran::{Memory, Phase};

    use super::*;

    fn flow() -> Flow {
        let info = TcpInfo { cwnd: 20, ssthresh: Some(40), ..TcpInfo::default() };
        let socket = TcpSocket {
            local: "10.0.0.1:5201".parse().unwrap(),
            remote: "10.0.0.2:40000".parse().unwrap(),
            congestion: "asran_cubic".into(),
            info,
            is_subflow: true,
            storage: None,
        };
        let memory = Memory {
            last_max_cwnd: 30,
            original_ssthresh: 15,
            recalculated_ssthresh: 40,
            phase: Phase::Restoring,
        };
        Flow { socket, memory: Some(memory) }
    }

    #[test]
    fn a_restoration_is_told_from_slow_start() {
        let restoring = flow();
        assert_eq!(state(&restoring), "restoring");
        assert_eq!(state(&Flow { memory: None, ..restoring.clone() }), "slow start");
        let mut above = restoring.clone();
        above.socket.info.cwnd = 40;
        assert_eq!(state(&above), "avoidance");
        let none = Rates::default();
        assert!(
            table(&[restoring], &none)
                .contains("asran_cubic (mptcp)  restoring  20    40        30")
        );
        assert!(table(&[], &none).contains("--all"));
    }

    #[test]
    fn a_rate_is_of_what_was_acknowledged_meanwhile() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let mut flow = flow();
        flow.socket.info.delivery_rate = proto::Rate::from_mbps(40_098.0);
        rates.update(std::slice::from_ref(&flow), start);
        assert_eq!(rates.mbps(&flow), None);
        flow.socket.info.bytes_acked += 30_000_000;
        rates.update(std::slice::from_ref(&flow), start + std::time::Duration::from_secs(1));
        assert_eq!(object(&[flow], &rates)["connections"][0]["rate_mbps"], 240.0);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut plain = Flow { memory: None, ..flow() };
        plain.socket.info.ssthresh = None;
        let value = object(&[plain], &Rates::default());
        assert_eq!(value["connections"][0]["ssthresh"], Value::Null);
        assert_eq!(value["connections"][0]["last_max_cwnd"], Value::Null);
        assert_eq!(value["connections"][0]["mptcp_subflow"], true);
    }
}
