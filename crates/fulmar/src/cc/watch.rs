//! `fulmar cc watch`: the live connections that use ASRAN, as a table or as lines of JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use proto::Duration;
use serde_json::{Value, json};
use sys::print::{Reader, print_anew, print_while_read};
use tcp_asran::{Flavour, Flow};

use crate::status::{columns, milliseconds, rate};

/// How often the kernel is asked.
const EVERY: Duration = Duration::from_secs(1);

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

/// Shows them until interrupted, or `count` times.
pub(crate) fn run(all: bool, count: Option<u64>, json: bool) -> Result<(), String> {
    let mut shown = 0;
    loop {
        let flows =
            tcp_asran::flows().map_err(|error| format!("ask about connections: {error}"))?;
        let flows: Vec<Flow> = flows.into_iter().filter(|flow| all || is_ours(flow)).collect();
        let reader = if json {
            print_while_read(object(&flows))?
        } else if count == Some(1) {
            print_while_read(table(&flows).trim_end())?
        } else {
            print_anew(&table(&flows))?
        };
        shown += 1;
        if reader == Reader::Gone || count.is_some_and(|count| shown >= count) {
            return Ok(());
        }
        std::thread::sleep(EVERY.into());
    }
}

/// Names of experiments have a suffix.
fn is_ours(flow: &Flow) -> bool {
    Flavour::ALL.iter().any(|flavour| flow.socket.congestion.starts_with(flavour.name()))
}

fn table(flows: &[Flow]) -> String {
    if flows.is_empty() {
        return "no connection uses them here (--all shows every connection, --netns another namespace)\n"
            .to_owned();
    }
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(flows.iter().map(row));
    columns(&rows)
}

fn row(flow: &Flow) -> Vec<String> {
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
        rate(info.delivery_rate.as_bps() as f64 / 1e6),
    ]
}

fn object(flows: &[Flow]) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let connections: Vec<Value> = flows.iter().map(connection).collect();
    json!({"unix_time": now.as_secs_f64(), "connections": connections})
}

fn connection(flow: &Flow) -> Value {
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
        "delivery_rate_kbps": info.delivery_rate.as_bps() / 1000,
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
        assert!(table(&[restoring]).contains("asran_cubic (mptcp)  restoring  20    40        30"));
        assert!(table(&[]).contains("--all"));
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut plain = Flow { memory: None, ..flow() };
        plain.socket.info.ssthresh = None;
        let value = object(&[plain]);
        assert_eq!(value["connections"][0]["ssthresh"], Value::Null);
        assert_eq!(value["connections"][0]["last_max_cwnd"], Value::Null);
        assert_eq!(value["connections"][0]["mptcp_subflow"], true);
    }
}
