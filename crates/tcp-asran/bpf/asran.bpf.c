// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/* ASRAN (Adaptive Ssthresh Reviser for flying Ad hoc Networks): a loss on a bad link does not cost the window for long
 *
 * A sender that loses a segment before it has outgrown the window of its previous loss was probably not stopped by a full
 * buffer but by the link. It lowers its window as its base algorithm does, but may slow-start back to what the path has
 * carried before:
 *
 *	on a loss found by duplicate ACKs, with cwnd as it was just before:
 *		original_ssthresh     = NewReno: cwnd / 2        CUBIC: beta * cwnd
 *		recalculated_ssthresh = max(original_ssthresh, last_max_cwnd)
 *		last_max_cwnd         = cwnd
 *	while recovery lasts:	ssthresh = original_ssthresh, cwnd falls to it
 *	when recovery is over:	ssthresh = recalculated_ssthresh
 *		cwnd <  ssthresh	slow start: back at the old capacity in a few round trips
 *		cwnd >= ssthresh	congestion avoidance of the base algorithm
 *
 * The first loss finds last_max_cwnd = 0, and a buffer that overflows at a window grown well past the last one finds
 * original_ssthresh >= last_max_cwnd: both behave as the base algorithm does. So does a retransmission timeout.
 *
 * State (struct asran, in socket-local storage because CUBIC owns icsk_ca_priv):
 *
 *	            loss             set_state(Recovery)        COMPLETE_CWR
 *	  STEADY ---------> DECIDED ---------------------> PENDING ---------> RESTORING
 *	     ^                 | CWR, Loss                    | Loss, undo        | next loss
 *	     +-----------------+------------------------------+                   +---> DECIDED
 *
 * Source: [ASRAN §3.2], [ASRAN §3.3], [ASRAN alg. 1].
 *
 * Two ways in which Linux differs from the textbook:
 *  - During recovery the kernel steers cwnd towards ssthresh (proportional rate reduction) and sets cwnd = ssthresh at its
 *    end. A hook that simply returned recalculated_ssthresh would therefore make cwnd *jump* to last_max_cwnd without any
 *    reduction. `asran` and `asran_cubic` return original_ssthresh and install the recalculated one once recovery is
 *    over. `asran_jump` is that simple hook, kept as an ablation: by its own words ([ASRAN §5.1.1], "returns a larger
 *    value") it is what the paper measured.
 *  - ssthresh() is asked for timeouts and for explicit congestion (ECN, CWR) as well, and is not told which. The state
 *    that follows tells, and only TCP_CA_Recovery arms the recalculated value. A timeout in the middle of a recovery
 *    does not ask ssthresh() again: set_state(TCP_CA_Loss) drops what was pending.
 *
 * Deviations from the paper:
 *  1. The recalculated value is installed after recovery and not during it (above); `asran_jump` does it the paper's way.
 *  2. A recovery that turns out to be needless (Eifel, DSACK, F-RTO) is undone by the kernel; then last_max_cwnd, too,
 *     goes back to what it was, and nothing is restored. The paper does not mention undoing.
 *  3. A reduction asked for by ECN is the base algorithm's, because nothing was lost; last_max_cwnd is kept up to date.
 *     So is the one for a loss that a tail loss probe has mended: Linux reports both alike (TCP_CA_CWR).
 *  4. `asran_cubic` does not let HyStart end the slow start *of a restoration*: HyStart looks for an unknown capacity by a
 *     rise of the round-trip time, and on a radio link that rises for other reasons, while this slow start ends at a
 *     window that the path has carried. The first slow start of a connection, and the one after a timeout, keep HyStart.
 *     `asran_jump` leaves HyStart alone, which may then take the higher threshold for a slow start and lower it.
 *  5. Algorithm 1 halves the window; over CUBIC original_ssthresh is CUBIC's, as the paper's Tables 1 and 2 imply.
 *
 * On a kernel that skips hooks, a value that no hook has returned is put right at the next ACK: mend(), below.
 *
 * A socket for which the kernel has no memory for the state (net.core.optmem_max) behaves as the base algorithm.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* ---- The algorithm: pure functions over a small state ---- */

enum phase { STEADY, DECIDED, PENDING, RESTORING };

struct asran {
	u32 last_max_cwnd;         /* packets; cwnd just before the last loss, 0 before the first */
	u32 original_ssthresh;     /* packets; what the base algorithm asked for at the last loss */
	u32 earlier_max_cwnd;      /* what last_max_cwnd was before the last loss, in case it is undone */
	u32 recalculated_ssthresh; /* packets; of the last loss */
	u32 phase;
};

/* [ASRAN alg. 1], line 4 */
INLINE u32 recalculated_ssthresh(u32 original_ssthresh, u32 last_max_cwnd)
{
	return max_u32(original_ssthresh, last_max_cwnd);
}

/* A loss, a timeout or an explicit congestion signal: the next call of on_state() tells which. */
INLINE void on_reduction(struct asran *a, u32 cwnd, u32 original_ssthresh)
{
	a->recalculated_ssthresh = recalculated_ssthresh(original_ssthresh, a->last_max_cwnd);
	a->original_ssthresh = original_ssthresh;
	a->earlier_max_cwnd = a->last_max_cwnd;
	a->last_max_cwnd = cwnd;
	a->phase = DECIDED;
}

INLINE void on_state(struct asran *a, u8 new_state)
{
	if (new_state == TCP_CA_Recovery && a->phase == DECIDED)
		a->phase = PENDING;
	else if (new_state == TCP_CA_CWR || new_state == TCP_CA_Loss)
		a->phase = STEADY;
}

INLINE void on_timeout(struct asran *a)
{
	a->phase = STEADY;
}

/* The end of a recovery: returns the ssthresh that holds from now on. */
INLINE u32 on_recovered(struct asran *a, u32 ssthresh)
{
	if (a->phase != PENDING)
		return ssthresh;
	a->phase = a->recalculated_ssthresh > ssthresh ? RESTORING : STEADY;
	return max_u32(a->recalculated_ssthresh, ssthresh);
}

/* The kernel found that nothing was lost. */
INLINE void on_undo(struct asran *a)
{
	a->last_max_cwnd = a->earlier_max_cwnd;
	a->phase = STEADY;
}

/* Slow start that ASRAN asked for, as opposed to that of a new connection or of a timeout */
INLINE bool is_restoring(const struct asran *a, u32 cwnd)
{
	return a->phase == RESTORING && cwnd < a->recalculated_ssthresh;
}

/* ---- State of a socket, and its trace ---- */

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_SK_STORAGE);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, int);
	MAP_TYPE(value, struct asran);
} asran_sockets SEC(".maps");

/* Set by the loader before the object is loaded; while it is false the verifier removes all tracing. */
const volatile bool traced = 0;

/* 1 MiB: 18,000 records, as many as 90 flows at 100 ACKs a second write in two seconds. What does not fit is dropped. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 1024 * 1024);
} asran_trace SEC(".maps");

enum trace_kind { TRACE_INIT, TRACE_REDUCTION, TRACE_STATE, TRACE_RECOVERED, TRACE_TIMEOUT, TRACE_UNDO, TRACE_ACK, TRACE_MENDED };

struct trace_record {
	u32 kind;
	u32 detail; /* reduction: the returned ssthresh; state: the new state; ACK: packets */
	u32 cwnd;
	u32 ssthresh;
	struct asran state;
	u32 srtt_us;
	u16 local_port;
	u16 peer_port;
};

INLINE struct asran *state_of(struct sock *sk)
{
	return bpf_sk_storage_get(&asran_sockets, sk, 0, 0);
}

INLINE void trace(struct sock *sk, const struct asran *a, u32 kind, u32 detail)
{
	if (!traced || !a)
		return;
	struct trace_record record = {
		.kind = kind,
		.detail = detail,
		.cwnd = tcp_sk(sk)->snd_cwnd,
		.ssthresh = tcp_sk(sk)->snd_ssthresh,
		.state = *a,
		.srtt_us = tcp_sk(sk)->srtt_us >> 3,
		.local_port = sk->__sk_common.skc_num,
		.peer_port = __builtin_bswap16(sk->__sk_common.skc_dport),
	};
	bpf_ringbuf_output(&asran_trace, &record, sizeof(record), 0);
}

/* ---- What the flavours have in common ---- */

INLINE void start(struct sock *sk)
{
	struct asran *a = bpf_sk_storage_get(&asran_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!a)
		return;
	*a = (struct asran){};
	trace(sk, a, TRACE_INIT, 0);
}

INLINE void stop(struct sock *sk)
{
	bpf_sk_storage_delete(&asran_sockets, sk);
}

INLINE void reduce(struct sock *sk, u32 original_ssthresh)
{
	struct asran *a = state_of(sk);

	if (!a)
		return;
	on_reduction(a, tcp_sk(sk)->snd_cwnd, original_ssthresh);
	trace(sk, a, TRACE_REDUCTION, original_ssthresh);
}

INLINE void change_state(struct sock *sk, u8 new_state)
{
	struct asran *a = state_of(sk);

	if (!a)
		return;
	on_state(a, new_state);
	trace(sk, a, TRACE_STATE, new_state);
}

INLINE void take_event(struct sock *sk, enum tcp_ca_event event)
{
	struct asran *a;

	if (event != CA_EVENT_COMPLETE_CWR && event != CA_EVENT_LOSS)
		return;
	a = state_of(sk);
	if (!a)
		return;
	if (event == CA_EVENT_LOSS) {
		on_timeout(a);
		trace(sk, a, TRACE_TIMEOUT, 0);
	} else {
		tcp_sk(sk)->snd_ssthresh = on_recovered(a, tcp_sk(sk)->snd_ssthresh);
		trace(sk, a, TRACE_RECOVERED, 0);
	}
}

/* More packets than any window has, and fewer than the low half of a kernel address nearly always has. */
#define ABSURD (1 << 20)

INLINE bool is_absurd_ssthresh(u32 ssthresh)
{
	return ssthresh >= ABSURD && ssthresh != TCP_INFINITE_SSTHRESH;
}

INLINE bool is_absurd(struct sock *sk)
{
	return is_absurd_ssthresh(tcp_sk(sk)->snd_ssthresh) || tcp_sk(sk)->snd_cwnd >= ABSURD;
}

/* Puts right a ssthresh or a window that no hook has returned.
 *
 * Linux runs every hook. A kernel that was changed to keep BPF away from a protected process does not: one was met (6.18)
 * whose __bpf_prog_enter() makes the trampoline skip the program while process 1 is the current one. When an interrupt
 * brings an ACK at such a moment, none of the hooks runs, and the kernel takes for the result of ssthresh() or
 * undo_cwnd() whatever is on its stack, half an address: once in half an hour of a flow on a bad link.
 * The window would then be millions of packets. What ssthresh() would have said follows from the window before the loss.
 * A missed call of another hook costs at most what a loss costs the base algorithm.
 */
INLINE void mend(struct sock *sk, struct asran *a, u32 numerator, u32 shift)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (is_absurd_ssthresh(tp->snd_ssthresh)) {
		tp->snd_ssthresh = max_u32((u64)tp->prior_cwnd * numerator >> shift, 2);
		if (a)
			a->last_max_cwnd = tp->prior_cwnd;
	}
	if (tp->snd_cwnd >= ABSURD)
		tp->snd_cwnd = max_u32(min_u32(tp->prior_cwnd, tp->snd_ssthresh), 2);
	if (a) {
		a->phase = STEADY;
		trace(sk, a, TRACE_MENDED, tp->snd_ssthresh);
	}
}

INLINE void mend_reno(struct sock *sk, struct asran *a)
{
	mend(sk, a, 1, 1);
}

/* CUBIC's beta is 717 / 1024; its epoch ends as it does after a timeout. */
INLINE void mend_cubic(struct sock *sk, struct asran *a)
{
	mend(sk, a, 717, 10);
	cubictcp_state(sk, TCP_CA_Loss);
}

INLINE u32 undo(struct sock *sk)
{
	struct asran *a = state_of(sk);

	if (a) {
		on_undo(a);
		trace(sk, a, TRACE_UNDO, 0);
	}
	return tcp_reno_undo_cwnd(sk);
}

INLINE void trace_ack(struct sock *sk, u32 acked)
{
	if (traced)
		trace(sk, state_of(sk), TRACE_ACK, acked);
}

/* ---- asran: over NewReno ---- */

SEC("struct_ops")
void asran_init(u64 *ctx)
{
	start(ARGUMENT(ctx, 0, struct sock *));
}

SEC("struct_ops")
void asran_release(u64 *ctx)
{
	stop(ARGUMENT(ctx, 0, struct sock *));
}

SEC("struct_ops")
u32 asran_ssthresh(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u32 original_ssthresh = tcp_reno_ssthresh(sk);

	reduce(sk, original_ssthresh);
	return original_ssthresh;
}

SEC("struct_ops")
void asran_set_state(u64 *ctx)
{
	change_state(ARGUMENT(ctx, 0, struct sock *), ARGUMENT(ctx, 1, u8));
}

SEC("struct_ops")
void asran_cwnd_event(u64 *ctx)
{
	take_event(ARGUMENT(ctx, 0, struct sock *), ARGUMENT(ctx, 1, enum tcp_ca_event));
}

SEC("struct_ops")
void asran_pkts_acked(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);

	if (is_absurd(sk))
		mend_reno(sk, state_of(sk));
}

SEC("struct_ops")
void asran_cong_avoid(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u32 acked = ARGUMENT(ctx, 2, u32);

	tcp_reno_cong_avoid(sk, ARGUMENT(ctx, 1, u32), acked);
	trace_ack(sk, acked);
}

SEC("struct_ops")
u32 asran_undo_cwnd(u64 *ctx)
{
	return undo(ARGUMENT(ctx, 0, struct sock *));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops asran = {
	.name = "asran",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)asran_init,
	.release = (void *)asran_release,
	.ssthresh = (void *)asran_ssthresh,
	.set_state = (void *)asran_set_state,
	.cwnd_event = (void *)asran_cwnd_event,
	.cong_avoid = (void *)asran_cong_avoid,
	.pkts_acked = (void *)asran_pkts_acked,
	.undo_cwnd = (void *)asran_undo_cwnd,
};

/* ---- asran_cubic: over the kernel's CUBIC ---- */

SEC("struct_ops")
void asran_cubic_init(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);

	cubictcp_init(sk);
	start(sk);
}

SEC("struct_ops")
void asran_cubic_release(u64 *ctx)
{
	stop(ARGUMENT(ctx, 0, struct sock *));
}

SEC("struct_ops")
u32 asran_cubic_ssthresh(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u32 original_ssthresh = cubictcp_recalc_ssthresh(sk);

	reduce(sk, original_ssthresh);
	return original_ssthresh;
}

SEC("struct_ops")
void asran_cubic_set_state(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u8 new_state = ARGUMENT(ctx, 1, u8);

	cubictcp_state(sk, new_state);
	change_state(sk, new_state);
}

SEC("struct_ops")
void asran_cubic_cwnd_event(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	enum tcp_ca_event event = ARGUMENT(ctx, 1, enum tcp_ca_event);

	cubictcp_cwnd_event(sk, event);
	take_event(sk, event);
}

SEC("struct_ops")
void asran_cubic_cong_avoid(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u32 acked = ARGUMENT(ctx, 2, u32);

	cubictcp_cong_avoid(sk, ARGUMENT(ctx, 1, u32), acked);
	trace_ack(sk, acked);
}

/* Lets CUBIC measure the round-trip time, and takes back what HyStart does to a restoration (deviation 4). */
SEC("struct_ops")
void asran_cubic_pkts_acked(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u32 ssthresh;
	struct asran *a;

	if (is_absurd(sk))
		mend_cubic(sk, state_of(sk));
	ssthresh = tcp_sk(sk)->snd_ssthresh;
	cubictcp_acked(sk, ARGUMENT(ctx, 1, const struct ack_sample *));
	if (tcp_sk(sk)->snd_ssthresh == ssthresh)
		return;
	a = state_of(sk);
	if (a && is_restoring(a, tcp_sk(sk)->snd_cwnd))
		tcp_sk(sk)->snd_ssthresh = ssthresh;
}

SEC("struct_ops")
u32 asran_cubic_undo_cwnd(u64 *ctx)
{
	return undo(ARGUMENT(ctx, 0, struct sock *));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops asran_cubic = {
	.name = "asran_cubic",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)asran_cubic_init,
	.release = (void *)asran_cubic_release,
	.ssthresh = (void *)asran_cubic_ssthresh,
	.set_state = (void *)asran_cubic_set_state,
	.cwnd_event = (void *)asran_cubic_cwnd_event,
	.cong_avoid = (void *)asran_cubic_cong_avoid,
	.pkts_acked = (void *)asran_cubic_pkts_acked,
	.undo_cwnd = (void *)asran_cubic_undo_cwnd,
};

/* ---- asran_jump: the paper's own hook over CUBIC, an ablation ---- */

/* Gives the base algorithm its ssthresh back: what the hook returned was meant for losses in recovery alone. */
INLINE void take_back(struct sock *sk)
{
	struct asran *a = state_of(sk);

	if (a && (a->phase == DECIDED || a->phase == PENDING))
		tcp_sk(sk)->snd_ssthresh = a->original_ssthresh;
}

INLINE void settle(struct sock *sk)
{
	struct asran *a = state_of(sk);

	if (!a)
		return;
	a->phase = STEADY;
	trace(sk, a, TRACE_RECOVERED, 0);
}

SEC("struct_ops")
u32 asran_jump_ssthresh(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u32 original_ssthresh = cubictcp_recalc_ssthresh(sk);
	struct asran *a;

	reduce(sk, original_ssthresh);
	a = state_of(sk);
	return a ? a->recalculated_ssthresh : original_ssthresh;
}

SEC("struct_ops")
void asran_jump_set_state(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u8 new_state = ARGUMENT(ctx, 1, u8);

	cubictcp_state(sk, new_state);
	if (new_state == TCP_CA_CWR || new_state == TCP_CA_Loss)
		take_back(sk);
	change_state(sk, new_state);
}

SEC("struct_ops")
void asran_jump_cwnd_event(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	enum tcp_ca_event event = ARGUMENT(ctx, 1, enum tcp_ca_event);

	cubictcp_cwnd_event(sk, event);
	if (event == CA_EVENT_LOSS)
		take_back(sk);
	/* Nothing is installed at the end of a recovery: the hook has returned it already. */
	if (event == CA_EVENT_COMPLETE_CWR)
		settle(sk);
	else
		take_event(sk, event);
}

SEC("struct_ops")
void asran_jump_pkts_acked(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);

	if (is_absurd(sk))
		mend_cubic(sk, state_of(sk));
	cubictcp_acked(sk, ARGUMENT(ctx, 1, const struct ack_sample *));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops asran_jump = {
	.name = "asran_jump",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)asran_cubic_init,
	.release = (void *)asran_cubic_release,
	.ssthresh = (void *)asran_jump_ssthresh,
	.set_state = (void *)asran_jump_set_state,
	.cwnd_event = (void *)asran_jump_cwnd_event,
	.cong_avoid = (void *)asran_cubic_cong_avoid,
	.pkts_acked = (void *)asran_jump_pkts_acked,
	.undo_cwnd = (void *)asran_cubic_undo_cwnd,
};

/* ---- asran_delay: with an eye on the delay ---- */

#include "asran_delay.h"

#include "asran_replay.h"
