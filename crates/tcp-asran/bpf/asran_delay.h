/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* asran_delay: ASRAN that looks at the delay, to tell a full queue from a bad link
 *
 * ASRAN judges a loss by the window alone, and gives back after every loss the window that the connection had before the
 * previous one. So the window ratchets up from loss to loss until the buffer of the bottleneck is full: the throughput is
 * kept, and everything that shares the link waits behind a standing queue. The round-trip time says how long that queue
 * is, and the rate of delivery says which window the path carries without one:
 *
 *	min_rtt  = least RTT of the last 5 to 10 s
 *	standing = least RTT of the last half to whole round trip	what jitter leaves of it
 *	q        = standing - min_rtt					queueing delay
 *	backlog  = cwnd * q / standing					own packets in the queue (Little's law)
 *	bdp      = highest rate of delivery of the last 5 to 10 round trips * min_rtt
 *	limit    = max(8, bdp / 8)					packets of our own that may wait
 *
 * on a loss found by duplicate ACKs, with cwnd as it was just before:
 *	full, if shared:  q > half of the longest q of the last 5 to 10 s
 *	      otherwise:  backlog > limit, or backlog > limit / 2 and 3/4 q > safe
 *	if full:	original_ssthresh     = cwnd / 2		as NewReno, and nothing is given back
 *			recalculated_ssthresh = original_ssthresh
 *	otherwise:	original_ssthresh     = max(cwnd / 2, min(cwnd, bdp))	the queue is drained, the link stays busy
 *			recalculated_ssthresh = min(max(last_max_cwnd, cwnd), bdp + 3/4 limit)
 *	last_max_cwnd = cwnd
 *	safe = longest q of the last 5 to 10 s that stood for max(4, limit / 2) round trips without a loss: a queue that
 *	       overflows does not stand, it grows by a packet in each of them
 *
 * in congestion avoidance, once a round trip:
 *	crowded, or backlog < 3/4 limit:	cwnd += 1 as NewReno
 *	backlog > limit:			cwnd -= 1
 *	otherwise:				cwnd stays
 * in slow start:
 *	backlog > limit, and not crowded:	it ends, cwnd = min(cwnd, bdp + limit / 2)
 * every 5 s, or after 1 s when cwnd was lowered 4 times in a row (a probe):
 *	cwnd = bdp - 1 for one round trip, then slow start to what it was
 *	what is left of q without our backlog, over q, is the others' share of the link:
 *	shared  = more than an eighth is left
 *	crowded = more than half is left
 *
 * `shared` says that the queue may be long without our doing, and that losses in its upper half are due to it. `crowded`
 * is what keeps a sender that holds itself back from being left with nothing by senders that fill a queue until
 * it overflows, such as CUBIC: beside them it is NewReno. The probe also shows min_rtt to a sender that is alone.
 *
 *	ACK --> on_delay_sample: min_rtt, standing, rate; once a round trip `decide`: GROW, HOLD, SHRINK
 *	    +-> on_delay_ack (outside recoveries): probe, slow start, congestion avoidance
 *	loss -> on_delay_reduction --> the phases of asran: DECIDED, PENDING, RESTORING
 *
 * Source: our own. Of the paper it keeps last_max_cwnd and the order of events: cwnd is reduced, then slow-starts to a
 * recalculated ssthresh [ASRAN §3.2], [ASRAN alg. 1].
 *
 * Deviations from the paper:
 *  1. Why a packet was lost is judged by the delay, not by cwnd having outgrown last_max_cwnd. So the first loss, too, is
 *     the link's where there is no queue, and nothing is given back where there is a long one.
 *  2. A loss on a bad link does not halve the window: that would leave the link idle for a round trip.
 *  3. What is given back is capped by what the rate of delivery supports.
 *  4. Congestion avoidance and slow start stop at a short queue.
 * Timeouts, explicit congestion and undoing are as in asran: those of NewReno.
 *
 * Known limits: a connection that begins behind a queue that never empties takes a part of it for the path; after a path
 * has grown longer it takes the difference for a queue, for up to 10 s. NewReno is what is left in both cases.
 */
#ifndef FULMAR_ASRAN_DELAY_H
#define FULMAR_ASRAN_DELAY_H

/* ---- The algorithm: pure functions over a small state; integers, no division by zero ---- */

/* Rates are in packets per 2^24 µs, as in tcp_bbr.c: one packet in 16 s is 1, and 2^16 packets per µs still fit. */
#define RATE_SHIFT 24
/* µs; the extremes of the delay are forgotten after one to two of these. BBR keeps min_rtt for 10 s. */
#define SPAN_US 5000000
/* round trips; the highest rate is forgotten after one to two of these. BBR keeps it for 10. */
#define RATE_SPAN 5
/* packets that may always wait: enough that a loss, which drains the queue, does not leave the link idle */
#define LEAST_LIMIT 8
/* round trips without a loss after which a queue is safe, at least */
#define SAFE_ROUNDS 4
/* µs between probes: as often as a min_rtt may be forgotten */
#define PROBE_EVERY_US 5000000
/* round trips in a row in which the window was lowered but the queue stayed: a probe is then due early */
#define PROBE_AFTER_SHRINKS 4
/* µs; how much earlier */
#define PROBE_EARLIER_US 4000000
/* packets; the least window that this algorithm itself sets, as BBR does */
#define LEAST_WINDOW 4

enum growth { GROW, HOLD, SHRINK };
enum probe { PROBE_NONE, PROBE_LOW, PROBE_WATCH };

struct asran_delay {
	struct asran asran;      /* last_max_cwnd, and the phases of a recovery */
	u32 min_rtt_us;          /* of this span; 0 for none, as in all that follow */
	u32 earlier_min_rtt_us;  /* of the span before */
	u32 longest_us;          /* longest q of this span */
	u32 earlier_longest_us;
	u32 safe_us;             /* longest safe q of this span */
	u32 earlier_safe_us;
	u64 span_until_us;       /* end of this span */
	u32 run_us;              /* shortest q of the round trips without a loss that are being counted */
	u32 run_rounds;          /* how many these are */
	u64 rate;                /* packets per 2^24 µs; of this span */
	u64 earlier_rate;        /* of the span before */
	u32 rate_rounds;         /* round trips of this span */
	u32 half_min_us;         /* least RTT of this half of a round trip */
	u32 earlier_half_min_us; /* of the half before */
	u32 second_half;         /* whether a round trip ends with this half */
	u64 half_until_us;       /* end of this half */
	u32 growth;              /* enum growth: of this round trip */
	u32 shrinks;             /* round trips in a row with SHRINK */
	u32 shared;              /* whether others have a part of the queue */
	u32 crowded;             /* whether others fill it */
	u32 probe;               /* enum probe */
	u64 probe_us;            /* when the next stage of the probe is due, or the next probe */
	u32 probe_min_us;        /* least RTT since the probe began */
	u32 probe_queue_us;      /* q when it began */
};

/* What an ACK says */
struct delay_sample {
	u64 now_us;
	u32 rtt_us;           /* of the newest packet that it acknowledges; 0 for none */
	u32 rate_delivered;   /* packets ... */
	u32 rate_interval_us; /* ... that were delivered in this time; 0 for none */
	u32 cwnd;
};

/* Window and threshold, and whether NewReno may let the window grow from there */
struct delay_window {
	u32 cwnd;
	u32 ssthresh;
	bool grows;
};

/* Returns the lesser of two times; 0 stands for none. */
INLINE u32 lesser_us(u32 a, u32 b)
{
	return a && (!b || a < b) ? a : b;
}

INLINE u32 delay_min_rtt_us(const struct asran_delay *d)
{
	return lesser_us(d->min_rtt_us, d->earlier_min_rtt_us);
}

INLINE u32 standing_us(const struct asran_delay *d)
{
	return lesser_us(d->half_min_us, d->earlier_half_min_us);
}

INLINE u32 queue_us(const struct asran_delay *d)
{
	u32 standing = standing_us(d), least = delay_min_rtt_us(d);

	return standing > least ? standing - least : 0;
}

INLINE u32 backlog(const struct asran_delay *d, u32 cwnd)
{
	u32 standing = standing_us(d);

	return standing ? (u64)cwnd * queue_us(d) / standing : 0;
}

/* Rounded up, so that a slow path has room for one packet; 0 before the first rate. */
INLINE u32 bdp(const struct asran_delay *d)
{
	u64 rate = d->rate > d->earlier_rate ? d->rate : d->earlier_rate;

	return (rate * delay_min_rtt_us(d) + (1 << RATE_SHIFT) - 1) >> RATE_SHIFT;
}

INLINE u32 backlog_limit(const struct asran_delay *d)
{
	return max_u32(LEAST_LIMIT, bdp(d) / 8);
}

INLINE bool is_queue_full(const struct asran_delay *d, u32 cwnd)
{
	u32 queue = queue_us(d), waiting = backlog(d, cwnd), limit = backlog_limit(d);

	if (d->shared)
		return 2 * queue > max_u32(d->longest_us, d->earlier_longest_us);
	return waiting > limit || (waiting > limit / 2 && queue / 4 * 3 > max_u32(d->safe_us, d->earlier_safe_us));
}

/* Once a round trip: what congestion avoidance does in the next one. */
INLINE void decide(struct asran_delay *d, u32 cwnd)
{
	u32 waiting = backlog(d, cwnd), limit = backlog_limit(d);

	if (waiting <= limit / 2)
		d->crowded = 0;
	if (d->crowded || waiting < limit * 3 / 4)
		d->growth = GROW;
	else
		d->growth = waiting > limit ? SHRINK : HOLD;
	d->shrinks = d->growth == SHRINK ? d->shrinks + 1 : 0;
}

/* Once a round trip: which queues there were, and which of them stood. */
INLINE void record_queue(struct asran_delay *d)
{
	u32 queue = queue_us(d);

	d->longest_us = max_u32(d->longest_us, queue);
	d->run_us = d->run_rounds ? min_u32(d->run_us, queue) : queue;
	if (++d->run_rounds >= max_u32(SAFE_ROUNDS, backlog_limit(d) / 2)) {
		d->safe_us = max_u32(d->safe_us, d->run_us);
		d->run_rounds = 0;
	}
}

INLINE void end_half_round(struct asran_delay *d, const struct delay_sample *s)
{
	if (d->second_half) {
		/* What a probe sees is neither a queue to remember nor room to grow into. */
		if (d->probe == PROBE_NONE) {
			record_queue(d);
			decide(d, s->cwnd);
		}
		if (++d->rate_rounds >= RATE_SPAN) {
			d->earlier_rate = d->rate;
			d->rate = 0;
			d->rate_rounds = 0;
		}
	}
	d->second_half = !d->second_half;
	d->earlier_half_min_us = d->half_min_us;
	d->half_min_us = 0;
	d->half_until_us = s->now_us + s->rtt_us / 2;
}

INLINE void end_span(struct asran_delay *d, u64 now_us)
{
	d->earlier_min_rtt_us = d->min_rtt_us;
	d->earlier_longest_us = d->longest_us;
	d->earlier_safe_us = d->safe_us;
	d->min_rtt_us = d->longest_us = d->safe_us = 0;
	d->span_until_us = now_us + SPAN_US;
}

/* Every ACK, also during a recovery */
INLINE void on_delay_sample(struct asran_delay *d, const struct delay_sample *s)
{
	u64 rate;

	if (s->rtt_us) {
		if (s->now_us >= d->half_until_us)
			end_half_round(d, s);
		if (s->now_us >= d->span_until_us)
			end_span(d, s->now_us);
		d->min_rtt_us = lesser_us(d->min_rtt_us, s->rtt_us);
		d->half_min_us = lesser_us(d->half_min_us, s->rtt_us);
		d->probe_min_us = lesser_us(d->probe_min_us, s->rtt_us);
	}
	if (s->rate_interval_us) {
		rate = ((u64)s->rate_delivered << RATE_SHIFT) / s->rate_interval_us;
		d->rate = rate > d->rate ? rate : d->rate;
	}
}

/* A loss, a timeout or an explicit congestion signal; returns the ssthresh for a loss. */
INLINE u32 on_delay_reduction(struct asran_delay *d, u32 cwnd)
{
	u32 original_ssthresh = max_u32(cwnd / 2, 2);
	u32 last_max_cwnd = d->asran.last_max_cwnd;
	u32 restored, carried = bdp(d);

	on_reduction(&d->asran, cwnd, original_ssthresh);
	d->probe = PROBE_NONE;
	d->run_rounds = 0;
	if (is_queue_full(d, cwnd)) {
		restored = original_ssthresh;
	} else {
		original_ssthresh = max_u32(original_ssthresh, min_u32(cwnd, carried));
		restored = min_u32(max_u32(last_max_cwnd, cwnd), carried + backlog_limit(d) * 3 / 4);
	}
	d->asran.recalculated_ssthresh = max_u32(restored, original_ssthresh);
	return original_ssthresh;
}

INLINE void begin_probe(struct asran_delay *d, struct delay_window *w, u64 now_us)
{
	d->probe = PROBE_LOW;
	d->probe_us = now_us + standing_us(d);
	d->probe_min_us = 0;
	d->probe_queue_us = queue_us(d);
	d->shrinks = 0;
	d->growth = HOLD;
	w->ssthresh = w->cwnd;
	w->cwnd = max_u32(min_u32(w->cwnd, max_u32(bdp(d), 1) - 1), LEAST_WINDOW);
}

/* What was sent at the low window is acknowledged a round trip later; only then is the delay without our backlog known. */
INLINE void judge_probe(struct asran_delay *d)
{
	u32 least = delay_min_rtt_us(d);
	u32 left = d->probe_min_us > least ? d->probe_min_us - least : 0;

	d->shared = left > d->probe_queue_us / 8 && left > least / 32;
	d->crowded = left > d->probe_queue_us / 2 && left > least / 8;
}

INLINE void advance_probe(struct asran_delay *d, struct delay_window *w, u64 now_us)
{
	if (d->probe == PROBE_NONE) {
		u64 until_us = now_us + (d->shrinks >= PROBE_AFTER_SHRINKS ? PROBE_EARLIER_US : 0);

		if (until_us >= d->probe_us && w->cwnd >= w->ssthresh && bdp(d))
			begin_probe(d, w, now_us);
	} else if (now_us >= d->probe_us) {
		if (d->probe == PROBE_LOW) {
			d->probe = PROBE_WATCH;
			d->probe_us = now_us + standing_us(d);
		} else {
			judge_probe(d);
			d->probe = PROBE_NONE;
			d->probe_us = now_us + PROBE_EVERY_US;
		}
	}
}

/* An ACK outside recoveries, after on_delay_sample */
INLINE struct delay_window on_delay_ack(struct asran_delay *d, u64 now_us, u32 cwnd, u32 ssthresh)
{
	struct delay_window w = { .cwnd = cwnd, .ssthresh = ssthresh, .grows = 1 };

	advance_probe(d, &w, now_us);
	if (d->probe == PROBE_LOW) {
		w.grows = 0;
	} else if (w.cwnd < w.ssthresh) {
		if (!d->crowded && bdp(d) && backlog(d, cwnd) > backlog_limit(d)) {
			w.cwnd = max_u32(min_u32(cwnd, bdp(d) + backlog_limit(d) / 2), LEAST_WINDOW);
			w.ssthresh = w.cwnd;
			w.grows = 0;
		}
	} else if (d->growth != GROW) {
		if (d->growth == SHRINK && w.cwnd > LEAST_WINDOW)
			w.cwnd--;
		if (d->growth == SHRINK)
			d->growth = HOLD;
		w.grows = 0;
	}
	return w;
}

/* ---- State of a socket ---- */

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_SK_STORAGE);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, int);
	MAP_TYPE(value, struct asran_delay);
} asran_delay_sockets SEC(".maps");

INLINE struct asran_delay *delay_state_of(struct sock *sk)
{
	return bpf_sk_storage_get(&asran_delay_sockets, sk, 0, 0);
}

/* ---- asran_delay: over NewReno ---- */

SEC("struct_ops")
void asran_delay_init(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	struct asran_delay *d = bpf_sk_storage_get(&asran_delay_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!d)
		return;
	*d = (struct asran_delay){};
	d->probe_us = tcp_sk(sk)->tcp_mstamp + PROBE_EVERY_US;
	trace(sk, &d->asran, TRACE_INIT, 0);
}

SEC("struct_ops")
void asran_delay_release(u64 *ctx)
{
	bpf_sk_storage_delete(&asran_delay_sockets, ARGUMENT(ctx, 0, struct sock *));
}

SEC("struct_ops")
void asran_delay_pkts_acked(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	const struct ack_sample *ack = ARGUMENT(ctx, 1, const struct ack_sample *);
	struct asran_delay *d = delay_state_of(sk);

	if (is_absurd(sk))
		mend_reno(sk, d ? &d->asran : 0);
	struct delay_sample s = {
		.now_us = tcp_sk(sk)->tcp_mstamp,
		.rtt_us = ack->rtt_us > 0 ? ack->rtt_us : 0,
		.rate_delivered = tcp_sk(sk)->rate_delivered,
		.rate_interval_us = tcp_sk(sk)->rate_interval_us,
		.cwnd = tcp_sk(sk)->snd_cwnd,
	};

	if (d)
		on_delay_sample(d, &s);
}

SEC("struct_ops")
void asran_delay_cong_avoid(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 acked = ARGUMENT(ctx, 2, u32);
	struct asran_delay *d = delay_state_of(sk);
	struct delay_window w = { .grows = 1 };

	if (d) {
		w = on_delay_ack(d, tp->tcp_mstamp, tp->snd_cwnd, tp->snd_ssthresh);
		tp->snd_cwnd = w.cwnd;
		tp->snd_ssthresh = w.ssthresh;
	}
	if (w.grows)
		tcp_reno_cong_avoid(sk, ARGUMENT(ctx, 1, u32), acked);
	trace(sk, d ? &d->asran : 0, TRACE_ACK, acked);
}

SEC("struct_ops")
u32 asran_delay_ssthresh(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	struct asran_delay *d = delay_state_of(sk);
	u32 original_ssthresh;

	if (!d)
		return tcp_reno_ssthresh(sk);
	original_ssthresh = on_delay_reduction(d, tcp_sk(sk)->snd_cwnd);
	trace(sk, &d->asran, TRACE_REDUCTION, original_ssthresh);
	return original_ssthresh;
}

SEC("struct_ops")
void asran_delay_set_state(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	u8 new_state = ARGUMENT(ctx, 1, u8);
	struct asran_delay *d = delay_state_of(sk);

	if (!d)
		return;
	/* ssthresh() was not told that this is not the loss of a single packet. */
	if ((new_state == TCP_CA_CWR || new_state == TCP_CA_Loss) && d->asran.original_ssthresh)
		tcp_sk(sk)->snd_ssthresh = min_u32(tcp_sk(sk)->snd_ssthresh, d->asran.original_ssthresh);
	on_state(&d->asran, new_state);
	trace(sk, &d->asran, TRACE_STATE, new_state);
}

SEC("struct_ops")
void asran_delay_cwnd_event(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	enum tcp_ca_event event = ARGUMENT(ctx, 1, enum tcp_ca_event);
	struct asran_delay *d = delay_state_of(sk);

	if (!d)
		return;
	if (event == CA_EVENT_LOSS) {
		on_timeout(&d->asran);
		trace(sk, &d->asran, TRACE_TIMEOUT, 0);
	} else if (event == CA_EVENT_COMPLETE_CWR) {
		tcp_sk(sk)->snd_ssthresh = on_recovered(&d->asran, tcp_sk(sk)->snd_ssthresh);
		trace(sk, &d->asran, TRACE_RECOVERED, 0);
	}
}

SEC("struct_ops")
u32 asran_delay_undo_cwnd(u64 *ctx)
{
	struct sock *sk = ARGUMENT(ctx, 0, struct sock *);
	struct asran_delay *d = delay_state_of(sk);

	if (d) {
		on_undo(&d->asran);
		trace(sk, &d->asran, TRACE_UNDO, 0);
	}
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops asran_delay = {
	.name = "asran_delay",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)asran_delay_init,
	.release = (void *)asran_delay_release,
	.ssthresh = (void *)asran_delay_ssthresh,
	.set_state = (void *)asran_delay_set_state,
	.cwnd_event = (void *)asran_delay_cwnd_event,
	.cong_avoid = (void *)asran_delay_cong_avoid,
	.pkts_acked = (void *)asran_delay_pkts_acked,
	.undo_cwnd = (void *)asran_delay_undo_cwnd,
};

#endif
