// ASRAN over NewReno as a congestion control of ns-3 [ASRAN §3.2, alg. 1].
//
// On a loss that duplicate ACKs show (fast recovery):
//
//   original_ssthresh     = what NewReno computes (half of what is in flight, at least two segments)
//   recalculated_ssthresh = max(original_ssthresh, last_max_cwnd)
//   last_max_cwnd         = cwnd just before this loss
//
// The window itself falls as NewReno's does. Below recalculated_ssthresh the sender is in slow start,
// above it in congestion avoidance. A retransmission timeout behaves as NewReno; last_max_cwnd is
// noted all the same.
//
// When it takes effect. ns-3 (3.37) ends fast recovery with cwnd = ssthresh, and its proportional rate
// reduction sends up to ssthresh before that: returning recalculated_ssthresh from GetSsThresh() lifts
// the window to last_max_cwnd without any reduction and without slow start. So GetSsThresh() returns
// original_ssthresh, and recalculated_ssthresh replaces it when recovery is over and the window has been
// set. That moment is the first IncreaseWindow() in the state CA_OPEN: ns-3 announces
// CA_EVENT_COMPLETE_CWR *before* it sets the window, which is too early.
//
// Deviations from the paper
//  1. The paper's own code returned the larger value at once ("returns a larger value", §5.1.1). That is
//     the attribute Jump, false by default: an ablation, for comparison with the paper's figure.
//  2. original_ssthresh is ns-3's (bytes in flight / 2), where algorithm 1 writes current_max_cwnd / 2.

#ifndef FULMAR_TCP_ASRAN_H
#define FULMAR_TCP_ASRAN_H

#include "ns3/tcp-congestion-ops.h"

namespace ns3
{

/** NewReno that slow-starts back to the window that it had before the last loss but one. */
class TcpAsran : public TcpNewReno
{
  public:
    static TypeId GetTypeId();

    TcpAsran() = default;
    TcpAsran(const TcpAsran& other) = default;
    ~TcpAsran() override = default;

    std::string GetName() const override;
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override;
    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override;
    void CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event) override;
    Ptr<TcpCongestionOps> Fork() override;

  private:
    bool m_jump{false};                 //!< Whether the larger value is returned at once (deviation 1).
    uint32_t m_lastMaxCwnd{0};          //!< last_max_cwnd, bytes; 0 before the first loss.
    uint32_t m_recalculatedSsThresh{0}; //!< Takes effect when recovery is over; 0 for none.
};

} // namespace ns3

#endif // FULMAR_TCP_ASRAN_H
