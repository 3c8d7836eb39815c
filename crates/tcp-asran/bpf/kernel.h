/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* The few definitions of the kernel that the congestion controls touch, in place of a generated header of 100,000 lines.
 *
 * Structures marked __core name their fields, not their layout: the loader finds where each field lies in the running
 * kernel (CO-RE). Order and completeness do not matter, names and types do. Nothing here is specific to ASRAN.
 */
#ifndef FULMAR_KERNEL_H
#define FULMAR_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef _Bool bool;
typedef __SIZE_TYPE__ size_t;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define __core __attribute__((preserve_access_index))
#define __ksym __attribute__((section(".ksyms")))
/* Fields of a map's declaration, in the form in which the loader reads them from the type information. */
#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, type) typeof(type) *name
/* A hook gets its arguments as words; this reads one of them. */
#define ARGUMENT(ctx, index, type) ((type)(ctx)[index])

#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_CONG_NON_RESTRICTED 1

enum {
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_F_NO_PREALLOC = 1,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
};

enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_CWND_RESTART = 1,
	CA_EVENT_COMPLETE_CWR = 2,
	CA_EVENT_LOSS = 3,
};

enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

struct sock_common {
	u16 skc_dport; /* network byte order */
	u16 skc_num;   /* local port, host byte order */
} __core;

struct sock {
	struct sock_common __sk_common;
} __core;

struct tcp_sock {
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 prior_cwnd; /* before the last reduction */
	u32 srtt_us; /* eight times the smoothed round-trip time */
	u64 tcp_mstamp; /* us; when the newest segment came or went */
	u32 rate_delivered;
	u32 rate_interval_us;
} __core;

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
} __core;

struct rate_sample;

/* `name` stands first so that the loader of this crate, which may append a suffix, knows where it lies. */
struct tcp_congestion_ops {
	char name[16];
	u32 flags;
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*bpf_sk_storage_delete)(void *map, void *sk) = (void *)108;
static long (*bpf_ringbuf_output)(void *ringbuf, void *data, u64 size, u64 flags) = (void *)130;

/* The kernel's own NewReno and CUBIC, callable from here (Linux 5.13). */
extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void cubictcp_init(struct sock *sk) __ksym;
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;

INLINE u32 min_u32(u32 a, u32 b)
{
	return a < b ? a : b;
}

INLINE u32 max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

INLINE struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

#endif
