// See the header for the algorithm, its source and its deviations.

#include "tcp-asran.h"

#include "ns3/boolean.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(TcpAsran);

TypeId
TcpAsran::GetTypeId()
{
    static TypeId tid = TypeId("ns3::TcpAsran")
                            .SetParent<TcpNewReno>()
                            .SetGroupName("Internet")
                            .AddConstructor<TcpAsran>()
                            .AddAttribute("Jump",
                                          "Return the larger ssthresh at once, as the paper's code did.",
                                          BooleanValue(false),
                                          MakeBooleanAccessor(&TcpAsran::m_jump),
                                          MakeBooleanChecker());
    return tid;
}

std::string
TcpAsran::GetName() const
{
    return m_jump ? "TcpAsranJump" : "TcpAsran";
}

uint32_t
TcpAsran::GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight)
{
    const uint32_t original = TcpNewReno::GetSsThresh(tcb, bytesInFlight);
    const uint32_t recalculated = std::max(original, m_lastMaxCwnd);
    m_lastMaxCwnd = tcb->m_cWnd;
    // ns-3 asks upon a timeout too, then before it changes the state: in CA_RECOVERY this is a fast
    // recovery, or a timeout during one, which CwndEvent() is told of next.
    if (tcb->m_congState != TcpSocketState::CA_RECOVERY)
    {
        m_recalculatedSsThresh = 0;
        return original;
    }
    m_recalculatedSsThresh = recalculated;
    return m_jump ? recalculated : original;
}

void
TcpAsran::CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event)
{
    if (event == TcpSocketState::CA_EVENT_LOSS)
    {
        m_recalculatedSsThresh = 0;
    }
    TcpNewReno::CwndEvent(tcb, event);
}

void
TcpAsran::IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked)
{
    if (m_recalculatedSsThresh > 0 && tcb->m_congState == TcpSocketState::CA_OPEN)
    {
        tcb->m_ssThresh = m_recalculatedSsThresh;
        m_recalculatedSsThresh = 0;
    }
    TcpNewReno::IncreaseWindow(tcb, segmentsAcked);
}

Ptr<TcpCongestionOps>
TcpAsran::Fork()
{
    return CopyObject<TcpAsran>(this);
}

} // namespace ns3
