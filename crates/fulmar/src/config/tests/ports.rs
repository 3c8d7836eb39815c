//! Where things are: interfaces by name, pattern or hardware, addresses and names of both ends,
//! lines.

use super::*;

fn endpoint(keys: &str) -> String {
    drone(&format!("[[mavlink]]\nname = \"it\"\n{keys}\n"))
}

fn kind(keys: &str) -> EndpointKind {
    parse(&endpoint(keys), Path::new("x")).unwrap().endpoints.remove(0).kind
}

#[test]
fn clients_have_addresses_or_names_and_servers_addresses() {
    let name = || Remote::Name("localhost".into(), 5_760);
    let address = "[2001:db8::1]:5760".parse().unwrap();
    let of = |kind: &str, at: &str| format!("kind = \"{kind}\"\naddress = \"{at}\"");
    assert_eq!(kind(&of("tcp-client", "localhost:5760")), EndpointKind::TcpClient(name()));
    assert_eq!(kind(&of("udp-client", "localhost:5760")), EndpointKind::UdpClient(name()));
    assert_eq!(
        kind(&of("tcp-client", "[2001:db8::1]:5760")),
        EndpointKind::TcpClient(Remote::Address(address))
    );
    for (keys, why) in [
        (
            of("udp-server", "localhost:5760"),
            "is a name: a server waits at an address of this host",
        ),
        (
            of("tcp-server", "localhost:5760"),
            "is a name: a server waits at an address of this host",
        ),
        (of("tcp-client", "0.0.0.0:5760"), "is nobody's: 127.0.0.1 is this host"),
        (of("tcp-client", "localhost:0"), "needs a port other than 0"),
        (of("tcp-client", "localhost"), "or a name and port such as"),
        (
            of("tcp-client", "localhost:1") + "\nflow_control = \"none\"",
            "belongs to kind = \"serial\"",
        ),
    ] {
        let found = problems(&endpoint(&keys));
        assert!(found.len() == 1 && found[0].contains(why), "{keys}: {found:?}");
    }
    let control = "[[control]]\nname = \"c\"\nchannel = 9\nkind = \"udp-client\"\naddress = \"localhost:1\"\n";
    let rtp = "[[message]]\nname = \"m\"\nchannel = 8\nkind = \"rtp-client\"\naddress = \"localhost:2\"\n";
    assert_eq!(problems(&drone(&format!("{control}{rtp}"))), [""; 0]);
}

#[test]
fn a_serial_line_has_flow_control_where_the_file_says_so() {
    let of = |more: &str| kind(&format!("kind = \"serial\"\ndevice = \"/dev/ttyS1\"\n{more}"));
    let line = |rts_cts| EndpointKind::Serial("/dev/ttyS1".into(), Line { baud: 57_600, rts_cts });
    assert_eq!(of(""), line(false));
    assert_eq!(of("flow_control = \"none\""), line(false));
    assert_eq!(of("flow_control = \"rts-cts\""), line(true));
    let found = problems(&endpoint("kind = \"serial\"\ndevice = \"/dev/x\"\nflow_control = true"));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn one_path_has_both_families_and_an_interface_by_pattern_or_hardware() {
    let with = |interface: &str, remote: &str| {
        drone("").replace("wlan0", interface).replace("\"192.0.2.1:14700\"", remote)
    };
    let families =
        |remote: &str| parse(&with("wlan0", remote), Path::new("x")).unwrap().paths[0].families();
    let (ipv4, ipv6) = ("\"192.0.2.1:1\"", "\"[2001:db8::1]:1\"");
    assert_eq!(families(ipv4), Families::IPV4);
    assert_eq!(families(ipv6), Families { ipv4: false, ipv6: true });
    assert_eq!(families(&format!("[{ipv4}, {ipv6}]")), Families::BOTH);
    assert_eq!(families("\"station.example:1\""), Families::BOTH);
    for interface in ["wwan*", "wlx?c*", "usb:1-1.2", "/sys/devices/platform/soc/fe300000.mmcnr"] {
        assert_eq!(problems(&with(interface, ipv4)), [""; 0], "{interface}");
    }
    for interface in ["usb:", "/dev/wwan0", "wwan 0"] {
        let found = problems(&with(interface, ipv4));
        assert_eq!(found.len(), 1, "{interface}: {found:?}");
    }
    let tunnel = "[tunnel]\ninterface = \"usb:1-1\"\naddress = \"10.77.0.1/24\"\n";
    assert!(problems(&drone(tunnel))[0].contains("cannot be an interface"));
}
