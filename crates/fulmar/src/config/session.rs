//! How sessions treat their traffic: `[transport]` and `[selector]`.

use proto::Duration;
use proto::select::{InspectedPorts, Policy, PolicyTable, SelectorConfig};
use proto::{
    CongestionKind, FlowCodeParameters, MessageForm, ProtectControl, SchedulerKind, SessionConfig,
    TunnelForm,
};
use toml_keys::Section;

use super::reliability;

/// The code point of expedited forwarding: Wi-Fi puts it into its voice queue.
const EXPEDITED_FORWARDING: u8 = 46;
/// Bytes of a path's send buffer: about 50 datagrams, what one batch needs.
const SEND_BUFFER: usize = 65_536;
/// Bytes of a path's receive buffer: 20 ms at 400 Mbit/s, while another process runs.
const RECEIVE_BUFFER: usize = 1 << 20;

/// The protocol's part and the sockets' part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transport {
    pub(crate) session: SessionConfig,
    /// Bytes that all sessions hold together.
    pub(crate) memory: usize,
    pub(crate) control_dscp: u8,
    pub(crate) send_buffer: usize,
    pub(crate) receive_buffer: usize,
    pub(crate) segmentation: bool,
}

/// Reads `[transport]` and `[selector]`.
pub(super) fn read(root: &Section<'_>) -> Transport {
    let mut session = SessionConfig::default();
    if let Some(section) = root.section("selector") {
        selector(&section, &mut session.selector);
        section.finish();
    }
    if let Some(section) = root.section("reliability") {
        session.reliability = reliability::read(&section);
        section.finish();
    }
    let mut transport = Transport {
        session,
        memory: proto::MEMORY,
        control_dscp: EXPEDITED_FORWARDING,
        send_buffer: SEND_BUFFER,
        receive_buffer: RECEIVE_BUFFER,
        segmentation: true,
    };
    if let Some(section) = root.section("transport") {
        read_transport(&section, &mut transport);
        section.finish();
    }
    transport
}

fn read_transport(section: &Section<'_>, transport: &mut Transport) {
    let session = &mut transport.session;
    let schedulers = [
        ("min_rtt", SchedulerKind::MinRtt),
        ("round_robin", SchedulerKind::RoundRobin),
        ("redundant", SchedulerKind::Redundant),
    ];
    set(&mut session.scheduler, section.choice("scheduler", &schedulers));
    let congestions = [
        ("delay_bounded", CongestionKind::DelayBounded),
        ("reno", CongestionKind::NewReno),
        ("cubic", CongestionKind::Cubic),
        ("asran", CongestionKind::Asran),
        ("asran_cubic", CongestionKind::AsranCubic),
        ("asran_delay", CongestionKind::AsranDelay),
        ("none", CongestionKind::None),
    ];
    set(&mut session.congestion, section.choice("congestion", &congestions));
    let protections = [
        ("strict", ProtectControl::Strict),
        ("balanced", ProtectControl::Balanced),
        ("off", ProtectControl::Off),
    ];
    set(&mut session.protect_control, section.choice("protect_control", &protections));
    message_form(section, &mut session.message);
    set(&mut session.coded_transfers, section.flag("coded_bulk"));
    let millis = |key, range| section.number(key, range).map(Duration::from_millis);
    set(&mut session.bulk_max_age, millis("bulk_max_age_ms", 10..=10_000));
    set(&mut session.rtp_deadline, millis("rtp_deadline_ms", 0..=2_000));
    set(&mut session.resequence_max, millis("resequence_max_ms", 0..=1_000));
    tunnel_form(section, session);
    let memory = section.number("memory_mib", 16..=1 << 20).map(|mib| (mib as usize) << 20);
    set(&mut transport.memory, memory);
    let bytes = |key| section.number(key, 4_096..=64 << 20).map(|bytes| bytes as usize);
    set(&mut transport.send_buffer, bytes("send_buffer_bytes"));
    set(&mut transport.receive_buffer, bytes("receive_buffer_bytes"));
    set(&mut transport.control_dscp, section.number("control_dscp", 0..=63).map(|dscp| dscp as u8));
    set(&mut transport.segmentation, section.flag("segmentation_offload"));
}

/// Reads which form of message delivery is used, and the published one's parameters.
fn message_form(section: &Section<'_>, form: &mut MessageForm) {
    let k = section.number("lrt_symbols", 1..=1_024).unwrap_or(64) as u16;
    let redundancy = section.fraction("lrt_redundancy", 0.0..=4.0).unwrap_or(0.5);
    let beta = section.fraction("lrt_share", 0.01..=1.0).unwrap_or(1.0);
    let published = MessageForm::Lrt { k, redundancy, beta };
    let forms = [("fulmar", MessageForm::Elastic), ("lrt", published)];
    set(form, section.choice("message_form", &forms));
    for key in ["lrt_symbols", "lrt_redundancy", "lrt_share"] {
        if section.has(key) && *form == MessageForm::Elastic {
            section.wrong(key, "belongs to message_form = \"lrt\"");
        }
    }
}

/// Reads how TCP of the tunnel travels, and the published form's parameters.
fn tunnel_form(section: &Section<'_>, session: &mut SessionConfig) {
    let mut parameters = FlowCodeParameters::default();
    set(&mut parameters.k, section.number("flowcode_k", 1..=16).map(|k| k as u8));
    parameters.f = section.number("flowcode_f", 1..=8_192).map(|f| f as u16);
    set(&mut parameters.r, section.number("flowcode_r", 1..=255).map(|r| r as u8));
    let published = TunnelForm::FlowCode(parameters);
    let forms =
        [("window", TunnelForm::Window), ("flowcode", published), ("plain", TunnelForm::Plain)];
    let form = section.choice("tunnel_form", &forms);
    let copies = session.scheduler == SchedulerKind::Redundant;
    if form.is_some_and(|form| form != TunnelForm::Plain) && copies {
        section.wrong(
            "tunnel_form",
            "must be \"plain\" beside scheduler = \"redundant\", which copies every packet",
        );
    }
    session.tunnel = form.unwrap_or(if copies { TunnelForm::Plain } else { session.tunnel });
    if section.has("resequence_max_ms") && session.tunnel != TunnelForm::Plain {
        section.wrong("resequence_max_ms", "belongs to tunnel_form = \"plain\"");
    }
    for key in ["flowcode_k", "flowcode_f", "flowcode_r"] {
        if section.has(key) && session.tunnel != published {
            section.wrong(key, "belongs to tunnel_form = \"flowcode\"");
        }
    }
}

fn selector(section: &Section<'_>, selector: &mut SelectorConfig) {
    if section.has("inspected_ports") {
        let any = section.is_text("inspected_ports", "any");
        if any {
            selector.ports = InspectedPorts::Any;
        } else if let Some(ports) = section.numbers("inspected_ports", 1..=65_535) {
            selector.ports = InspectedPorts::Listed(ports.into_iter().map(|p| p as u16).collect());
        }
    }
    set(&mut selector.forward_setup_signing, section.flag("forward_setup_signing"));
    if let Some(table) = section.section("to_vehicle") {
        policies(&table, &mut selector.to_vehicle);
        table.finish();
    }
    if let Some(table) = section.section("from_vehicle") {
        policies(&table, &mut selector.from_vehicle);
        table.finish();
    }
}

/// Reads lines such as `COMMAND_LONG = "transactional"`, `420 = "drop"`, `unknown = "telemetry"`.
fn policies(section: &Section<'_>, table: &mut PolicyTable) {
    const POLICIES: &str = "transactional, live, liveness, bulk, expiring, telemetry, or drop";
    for (key, value) in section.entries() {
        let policy = match value {
            Some("drop") => None,
            Some(name) if Policy::from_name(name).is_some() => Policy::from_name(name),
            Some(other) => {
                section.wrong(key, format!("\"{other}\" is not one of {POLICIES}"));
                continue;
            }
            None => {
                section.wrong(key, format!("needs the name of a policy in quotes: {POLICIES}"));
                continue;
            }
        };
        if key == "unknown" {
            table.unknown = policy;
            continue;
        }
        if let Err(error) = table.set(key, policy) {
            section.wrong(key, error.to_string());
        }
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}
