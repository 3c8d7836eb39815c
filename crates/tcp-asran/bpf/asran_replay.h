/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* The algorithm without a socket: one event of a connection per run
 *
 * With it another implementation can be compared step by step. ASRAN's own part is the functions that the hooks call. The
 * base is modelled, because the kernel's functions want a real socket: a recovery sets cwnd = ssthresh at once, where the
 * kernel takes a round trip for it, and above ssthresh every flavour grows as NewReno does, over CUBIC too.
 *
 * The ACKs of asran_delay also say when they came and what they tell of the path; the other flavours ignore that.
 */
#ifndef FULMAR_ASRAN_REPLAY_H
#define FULMAR_ASRAN_REPLAY_H

enum replay_flavour { REPLAY_ASRAN, REPLAY_ASRAN_CUBIC, REPLAY_ASRAN_JUMP, REPLAY_ASRAN_DELAY };
enum replay_kind { REPLAY_START, REPLAY_ACK, REPLAY_LOSS, REPLAY_RECOVERED, REPLAY_TIMEOUT, REPLAY_UNDO };

struct replay {
	struct asran state;
	u32 flavour;
	u32 event;
	u32 value; /* start: cwnd; ACK: packets */
	u32 cwnd;
	u32 ssthresh;
	u32 cwnd_cnt;
	u32 prior_cwnd;
	u32 prior_ssthresh;
	u32 in_recovery;
	struct delay_sample sample; /* ACK: what it says, except for cwnd */
	struct asran_delay delay;   /* asran_delay only; its part that is ASRAN's is copied to `state` */
};

/* NewReno halves, CUBIC multiplies by 717 / 1024; never below two packets. */
INLINE u32 replay_original_ssthresh(const struct replay *r)
{
	if (r->flavour == REPLAY_ASRAN || r->flavour == REPLAY_ASRAN_DELAY)
		return max_u32(r->cwnd >> 1, 2);
	return max_u32((u64)r->cwnd * 717 / 1024, 2);
}

/* Slow start up to ssthresh, then a packet for each window of ACKs (tcp_slow_start, tcp_cong_avoid_ai). */
INLINE void replay_growth(struct replay *r)
{
	u32 acked = r->value, grown;

	if (r->cwnd < r->ssthresh) {
		grown = min_u32(r->cwnd + acked, r->ssthresh);
		acked -= grown - r->cwnd;
		r->cwnd = grown;
	}
	if (!acked)
		return;
	if (r->cwnd_cnt >= r->cwnd) {
		r->cwnd_cnt = 0;
		r->cwnd++;
	}
	r->cwnd_cnt += acked;
	if (r->cwnd_cnt >= r->cwnd && r->cwnd) {
		grown = r->cwnd_cnt / r->cwnd;
		r->cwnd_cnt -= grown * r->cwnd;
		r->cwnd += grown;
	}
}

INLINE void replay_ack(struct replay *r)
{
	struct delay_window w = { .grows = 1 };

	if (r->flavour == REPLAY_ASRAN_DELAY) {
		r->sample.cwnd = r->cwnd;
		on_delay_sample(&r->delay, &r->sample);
		if (!r->in_recovery) {
			w = on_delay_ack(&r->delay, r->sample.now_us, r->cwnd, r->ssthresh);
			r->cwnd = w.cwnd;
			r->ssthresh = w.ssthresh;
		}
	}
	if (w.grows && !r->in_recovery)
		replay_growth(r);
}

INLINE void replay_reduce(struct replay *r)
{
	r->prior_cwnd = r->cwnd;
	r->prior_ssthresh = r->ssthresh;
	if (r->flavour == REPLAY_ASRAN_DELAY) {
		r->ssthresh = on_delay_reduction(&r->delay, r->cwnd);
		r->state = r->delay.asran;
		return;
	}
	on_reduction(&r->state, r->cwnd, replay_original_ssthresh(r));
	r->ssthresh = r->state.original_ssthresh;
}

INLINE void replay_loss(struct replay *r)
{
	if (r->in_recovery)
		return;
	replay_reduce(r);
	on_state(&r->state, TCP_CA_Recovery);
	if (r->flavour == REPLAY_ASRAN_JUMP)
		r->ssthresh = r->state.recalculated_ssthresh;
	r->cwnd = min_u32(r->cwnd, r->ssthresh);
	r->in_recovery = 1;
}

/* A timeout in the middle of a recovery keeps the reduction that the recovery made. */
INLINE void replay_timeout(struct replay *r)
{
	if (!r->in_recovery)
		replay_reduce(r);
	r->ssthresh = r->state.original_ssthresh;
	on_timeout(&r->state);
	on_state(&r->state, TCP_CA_Loss);
	r->cwnd = 1;
	r->cwnd_cnt = 0;
	r->in_recovery = 0;
}

INLINE void replay_undo(struct replay *r)
{
	on_undo(&r->state);
	r->cwnd = max_u32(r->cwnd, r->prior_cwnd);
	r->ssthresh = max_u32(r->ssthresh, r->prior_ssthresh);
	r->in_recovery = 0;
}

INLINE int replay_event(struct replay *r)
{
	switch (r->event) {
	case REPLAY_START:
		r->delay = (struct asran_delay){ .probe_us = r->sample.now_us + PROBE_EVERY_US };
		r->state = (struct asran){};
		r->cwnd = r->value;
		r->ssthresh = TCP_INFINITE_SSTHRESH;
		r->cwnd_cnt = r->prior_cwnd = r->prior_ssthresh = r->in_recovery = 0;
		break;
	case REPLAY_ACK:
		replay_ack(r);
		break;
	case REPLAY_LOSS:
		replay_loss(r);
		break;
	case REPLAY_RECOVERED:
		if (!r->in_recovery)
			break;
		r->cwnd = r->ssthresh;
		r->ssthresh = on_recovered(&r->state, r->ssthresh);
		r->in_recovery = 0;
		break;
	case REPLAY_TIMEOUT:
		replay_timeout(r);
		break;
	case REPLAY_UNDO:
		replay_undo(r);
		break;
	default:
		return 1;
	}
	return 0;
}

INLINE int replay(struct replay *r)
{
	int outcome = replay_event(r);

	r->delay.asran = r->state;
	return outcome;
}

/* On a copy: the verifier refuses what compilers like to make of the context, pointers into the middle of it. */
SEC("syscall")
int asran_replay(struct replay *context)
{
	struct replay copy = *context;
	int result = replay(&copy);

	*context = copy;
	return result;
}

#endif
