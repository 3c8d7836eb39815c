// The mobility scenario of [ASRAN §5.2, Table 3, Fig. 7, 8] as far as the paper describes it: an
// operating UAV sends by TCP to the ground station over relay UAVs in an 802.11 ad hoc network routed by
// DSDV, and relays 2 and 3 exchange their places meanwhile.
//
//   op ---- R1 ---- R2 ---- GCS          before: op, R1, R2, GCS
//            |       |     /             during: R2 leaves R1's range; DSDV finds R4 or R3 after a while
//           R4 ---- R3 ---               after:  R3 is where R2 was
//
// The paper states: ns-3, DSDV, relays 2 and 3 swap, the path comes back over UAV 4. Its figure of the
// topology carries no distances. Rates, distances, speed, times and the DSDV interval are options here,
// with defaults of ours; README.md lists them. Prints one line per second of traffic, then a summary.

#include "tcp-asran.h"

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/dsdv-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"

#include <cmath>
#include <fstream>
#include <iostream>

using namespace ns3;

namespace
{

/** Nodes by their place in the container. */
enum Place : uint32_t
{
    OP,
    R1,
    R2,
    R3,
    R4,
    GCS,
    PLACES
};

/** Where each stands at first, metres. In range (130 m): op-R1, R1-R2, R1-R4, R2-R3, R2-GCS, R3-R4, R3-GCS. */
const Vector POSITIONS[PLACES] = {{0, 0, 50},
                                  {100, 0, 50},
                                  {200, 0, 50},
                                  {260, -80, 50},
                                  {165, -80, 50},
                                  {300, 0, 50}};

/** What can be asked for on the command line. */
struct Options
{
    std::string algorithm{"newreno"};
    uint32_t seed{1};
    double warmup{100};
    double traffic{60};
    double swapAfter{15};
    double swapEvery{0};
    double speed{10};
    double dsdv{15};
    double txPower{13};
    double fading{0};
    std::string rate{"OfdmRate54Mbps"};
    uint32_t buffer{131072};
    uint32_t queue{500};
    std::string trace;
};

Options
ParseOptions(int argc, char** argv)
{
    Options o;
    CommandLine cmd(__FILE__);
    cmd.AddValue("algorithm", "newreno, asran or asran_jump", o.algorithm);
    cmd.AddValue("seed", "Run of the random numbers; the same run gives both the same swap", o.seed);
    cmd.AddValue("warmup", "Seconds for DSDV to find its routes before traffic starts", o.warmup);
    cmd.AddValue("traffic", "Seconds of traffic", o.traffic);
    cmd.AddValue("swapAfter", "Seconds of traffic before relays 2 and 3 swap; up to a DSDV interval is added", o.swapAfter);
    cmd.AddValue("swapEvery", "Seconds between the starts of swaps; 0: they swap once", o.swapEvery);
    cmd.AddValue("speed", "Speed of the relays that move, m/s", o.speed);
    cmd.AddValue("dsdv", "PeriodicUpdateInterval of DSDV, s; its SettlingTime is a third of that", o.dsdv);
    cmd.AddValue("txPower", "Transmit power, dBm", o.txPower);
    cmd.AddValue("fading", "m of Nakagami fading; 0: none", o.fading);
    cmd.AddValue("rate", "Mode of every frame of data", o.rate);
    cmd.AddValue("buffer", "Bytes of the TCP send and receive buffers", o.buffer);
    cmd.AddValue("queue", "Packets of each MAC queue", o.queue);
    cmd.AddValue("trace", "File for cwnd and ssthresh over time", o.trace);
    cmd.Parse(argc, argv);
    return o;
}

/** Chooses the congestion control; a name that ns-3 does not know would crash it. */
void
ChooseAlgorithm(const Options& o)
{
    TypeId type;
    if (o.algorithm == "newreno")
    {
        type = TcpNewReno::GetTypeId();
    }
    else if (o.algorithm == "asran" || o.algorithm == "asran_jump")
    {
        type = TcpAsran::GetTypeId();
        Config::SetDefault("ns3::TcpAsran::Jump", BooleanValue(o.algorithm == "asran_jump"));
    }
    else
    {
        NS_FATAL_ERROR("--algorithm=" << o.algorithm << ": newreno, asran or asran_jump");
    }
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(type));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(o.buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(o.buffer));
    // Linux's tcp_retries2: with 6, which is ns-3's default, a connection dies in an outage of 20 s.
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(15));
    // A neighbour whose ARP broadcast was lost is asked again after a second, as Linux does: ns-3 lets it
    // be dead for 100 s, which is longer than what is measured here.
    Config::SetDefault("ns3::ArpCache::DeadTimeout", TimeValue(Seconds(1)));
}

/** Starts a relay towards `to`, and stops it there. */
void
Fly(Ptr<ConstantVelocityMobilityModel> relay, Vector to, double speed)
{
    const Vector way = to - relay->GetPosition();
    const double seconds = way.GetLength() / speed;
    relay->SetVelocity(Vector(way.x / seconds, way.y / seconds, way.z / seconds));
    Simulator::Schedule(Seconds(seconds), [relay, to] {
        relay->SetPosition(to);
        relay->SetVelocity(Vector(0, 0, 0));
    });
}

void
PlaceNodes(const NodeContainer& nodes, const Options& o)
{
    MobilityHelper mobility;
    auto places = CreateObject<ListPositionAllocator>();
    for (const auto& position : POSITIONS)
    {
        places->Add(position);
    }
    mobility.SetPositionAllocator(places);
    mobility.SetMobilityModel("ns3::ConstantVelocityMobilityModel");
    mobility.Install(nodes);

    // The phase between DSDV's updates and the swap decides how long the gap is, so each run draws it.
    auto phase = CreateObject<UniformRandomVariable>();
    phase->SetStream(1000);
    double at = o.warmup + o.swapAfter + phase->GetValue(0, o.dsdv);
    auto second = nodes.Get(R2)->GetObject<ConstantVelocityMobilityModel>();
    auto third = nodes.Get(R3)->GetObject<ConstantVelocityMobilityModel>();
    bool swapped = false;
    do
    {
        swapped = !swapped;
        Simulator::Schedule(Seconds(at), &Fly, second, POSITIONS[swapped ? R3 : R2], o.speed);
        Simulator::Schedule(Seconds(at), &Fly, third, POSITIONS[swapped ? R2 : R3], o.speed);
        at += o.swapEvery;
    } while (o.swapEvery > 0 && at < o.warmup + o.traffic);
}

NetDeviceContainer
InstallWifi(const NodeContainer& nodes, const Options& o)
{
    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::FriisPropagationLossModel", "Frequency", DoubleValue(5.18e9));
    if (o.fading > 0)
    {
        channel.AddPropagationLoss("ns3::NakagamiPropagationLossModel",
                                   "m0", DoubleValue(o.fading),
                                   "m1", DoubleValue(o.fading),
                                   "m2", DoubleValue(o.fading));
    }
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    phy.Set("TxPowerStart", DoubleValue(o.txPower));
    phy.Set("TxPowerEnd", DoubleValue(o.txPower));
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    Config::SetDefault("ns3::WifiMacQueue::MaxSize",
                       QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, o.queue)));
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211a);
    // Broadcasts at the rate of the data: else DSDV chooses neighbours that hear updates but no data.
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode", StringValue(o.rate),
                                 "ControlMode", StringValue("OfdmRate6Mbps"),
                                 "NonUnicastMode", StringValue(o.rate));
    auto devices = wifi.Install(phy, mac, nodes);
    wifi.AssignStreams(devices, 2000);
    return devices;
}

/** Counts what arrives, second by second. */
class Meter
{
  public:
    explicit Meter(double from)
        : m_from(from)
    {
    }

    void OnReceived(Ptr<const Packet> packet, const Address&)
    {
        const auto second = static_cast<size_t>(Simulator::Now().GetSeconds() - m_from);
        m_bytes.resize(std::max(m_bytes.size(), second + 1));
        m_bytes[second] += packet->GetSize();
    }

    void Print(const Options& o)
    {
        m_bytes.resize(static_cast<size_t>(o.traffic));
        double sum = 0;
        double squares = 0;
        uint32_t zero = 0;
        std::cout << "series";
        for (const auto bytes : m_bytes)
        {
            const double mbps = bytes * 8e-6;
            sum += mbps;
            squares += mbps * mbps;
            zero += bytes == 0;
            std::cout << ' ' << mbps;
        }
        const double n = m_bytes.size();
        const double mean = sum / n;
        const double deviation = std::sqrt((squares - n * mean * mean) / (n - 1));
        std::cout << "\nresult " << o.algorithm << ',' << o.seed << ',' << mean << ',' << deviation << ','
                  << zero << '\n';
    }

  private:
    double m_from;
    std::vector<uint64_t> m_bytes;
};

/** Writes cwnd and ssthresh of the sender's socket over time. */
void
Trace(const Options& o, uint32_t sender)
{
    if (o.trace.empty())
    {
        return;
    }
    static std::ofstream file(o.trace);
    const std::string socket = "/NodeList/" + std::to_string(sender) + "/$ns3::TcpL4Protocol/SocketList/0/";
    const auto write = +[](std::string what, uint32_t, uint32_t now) {
        file << Simulator::Now().GetSeconds() << ',' << what.substr(what.rfind('/') + 1) << ',' << now << '\n';
    };
    const auto state = +[](std::string, TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now) {
        file << Simulator::Now().GetSeconds() << ",State," << TcpSocketState::TcpCongStateName[now] << '\n';
    };
    Config::Connect(socket + "CongestionWindow", MakeCallback(write));
    Config::Connect(socket + "SlowStartThreshold", MakeCallback(write));
    Config::Connect(socket + "CongState", MakeCallback(state));
}

} // namespace

int
main(int argc, char** argv)
{
    const Options o = ParseOptions(argc, argv);
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(o.seed);
    ChooseAlgorithm(o);

    NodeContainer nodes(PLACES);
    PlaceNodes(nodes, o);
    const auto devices = InstallWifi(nodes, o);

    DsdvHelper dsdv;
    dsdv.Set("PeriodicUpdateInterval", TimeValue(Seconds(o.dsdv)));
    dsdv.Set("SettlingTime", TimeValue(Seconds(o.dsdv / 3)));
    InternetStackHelper stack;
    stack.SetRoutingHelper(dsdv);
    stack.Install(nodes);
    stack.AssignStreams(nodes, 3000);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.0");
    const auto interfaces = addresses.Assign(devices);

    const uint16_t port = 5001;
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    sink.Install(nodes.Get(GCS)).Start(Seconds(0));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(GCS), port));
    source.SetAttribute("MaxBytes", UintegerValue(0));
    source.Install(nodes.Get(OP)).Start(Seconds(o.warmup));

    Meter meter(o.warmup);
    nodes.Get(GCS)->GetApplication(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Meter::OnReceived, &meter));
    Simulator::Schedule(Seconds(o.warmup + 0.001), &Trace, o, nodes.Get(OP)->GetId());
    Simulator::Stop(Seconds(o.warmup + o.traffic));
    Simulator::Run();
    Simulator::Destroy();
    meter.Print(o);
    return 0;
}
