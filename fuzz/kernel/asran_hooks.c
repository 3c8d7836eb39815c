/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* The congestion controls' own source in user space: one socket, and the parts of a kernel that the hooks call
 *
 * The functions of NewReno and CUBIC are models: what they return is what Linux returns, what CUBIC keeps to itself is
 * left out. Nothing is traced. A hook is called by its number, in the order of `enum hook`.
 */
#include "asran.bpf.c"

enum flavour { FLAVOUR_ASRAN, FLAVOUR_CUBIC, FLAVOUR_JUMP, FLAVOUR_DELAY };
enum hook { HOOK_INIT, HOOK_RELEASE, HOOK_SSTHRESH, HOOK_SET_STATE, HOOK_EVENT, HOOK_ACKED, HOOK_AVOID, HOOK_UNDO };

/* What the target sees and sets; `tcp` stands first, as tcp_sk() has it. */
struct fake_socket {
	struct tcp_sock tcp;
	u32 has_storage;  /* whether there is memory for the state */
	u32 kept;         /* whether there is a state */
	u32 hystart;      /* whether CUBIC's HyStart lowers ssthresh at the next ACK */
	u32 reserved;
	union {
		struct asran asran;
		struct asran_delay delay;
	} state;
};

static void *storage_get(void *map, void *sk, void *value, u64 flags)
{
	struct fake_socket *fake = sk;

	(void)map;
	(void)value;
	if (!fake->kept && (flags & BPF_SK_STORAGE_GET_F_CREATE))
		fake->kept = fake->has_storage;
	return fake->kept ? &fake->state : 0;
}

static long storage_delete(void *map, void *sk)
{
	(void)map;
	((struct fake_socket *)sk)->kept = 0;
	return 0;
}

static long output(void *ringbuf, void *data, u64 size, u64 flags)
{
	(void)ringbuf, (void)data, (void)size, (void)flags;
	return 0;
}

/* The bound of a window, packets: below what the hooks take for nonsense. */
#define WINDOW_CLAMP (ABSURD / 2)
/* hystart_low_window of tcp_cubic.c */
#define HYSTART_LEAST 16

u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max_u32(tcp_sk(sk)->snd_cwnd >> 1, 2);
}

void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		tp->snd_cwnd = min_u32(tp->snd_cwnd + acked, tp->snd_ssthresh);
	else if (acked)
		tp->snd_cwnd++;
	tp->snd_cwnd = min_u32(tp->snd_cwnd, WINDOW_CLAMP);
}

u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return max_u32(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}

void cubictcp_init(struct sock *sk)
{
	(void)sk;
}

u32 cubictcp_recalc_ssthresh(struct sock *sk)
{
	return max_u32((u64)tcp_sk(sk)->snd_cwnd * 717 / 1024, 2);
}

void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

void cubictcp_state(struct sock *sk, u8 new_state)
{
	(void)sk, (void)new_state;
}

void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	(void)sk, (void)event;
}

void cubictcp_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)sample;
	if (((struct fake_socket *)sk)->hystart && tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd >= HYSTART_LEAST)
		tp->snd_ssthresh = tp->snd_cwnd;
}

/* Bytes of a socket, so that the target can see that it means the same. */
u32 asran_hooks_socket_bytes(void)
{
	return sizeof(struct fake_socket);
}

/* Calls a hook; returns what it returns, or 0. `a` and `b` are its arguments behind the socket. */
u32 asran_hooks_call(u32 flavour, u32 hook, struct fake_socket *fake, u32 a, u32 b)
{
	static struct tcp_congestion_ops *const all[] = { &asran, &asran_cubic, &asran_jump, &asran_delay };
	struct tcp_congestion_ops *ops = all[flavour];
	struct ack_sample sample = { .pkts_acked = a, .rtt_us = (s32)b, .in_flight = 0 };
	u64 ctx[] = { (u64)fake, a, b };

	bpf_sk_storage_get = storage_get;
	bpf_sk_storage_delete = storage_delete;
	bpf_ringbuf_output = output;
	switch (hook) {
	case HOOK_INIT:
		((void (*)(u64 *))ops->init)(ctx);
		return 0;
	case HOOK_RELEASE:
		((void (*)(u64 *))ops->release)(ctx);
		return 0;
	case HOOK_SSTHRESH:
		return ((u32(*)(u64 *))ops->ssthresh)(ctx);
	case HOOK_SET_STATE:
		((void (*)(u64 *))ops->set_state)(ctx);
		return 0;
	case HOOK_EVENT:
		((void (*)(u64 *))ops->cwnd_event)(ctx);
		return 0;
	case HOOK_ACKED:
		ctx[1] = (u64)&sample;
		((void (*)(u64 *))ops->pkts_acked)(ctx);
		return 0;
	case HOOK_AVOID:
		((void (*)(u64 *))ops->cong_avoid)(ctx);
		return 0;
	default:
		return ((u32(*)(u64 *))ops->undo_cwnd)(ctx);
	}
}
