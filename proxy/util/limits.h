/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - every bound of the core in one place, each with its reason. */
#ifndef PROXY_LIMITS_H
#define PROXY_LIMITS_H

enum proxy_limits {
	CALL_WORK = 256, /* packets and positions that one call handles beyond its own: the rest waits for the next
	                    tick. Each takes up to 150 steps, a microsecond if nothing is in the cache */
	REQUESTER_LOOKS = 64, /* flows of one requester's QPN that are searched for the target of a late error; others
	                       * get none */
	/* LAN */
	LAN_PKT_MAX = 4224, /* PMTU 4096 + IPv6 40 + UDP 8 + BTH 12 + RETH 16 + ImmDt 4 + ICRC 4, to the largest slot */
	LAN_MTU_PAYLOAD_MAX = 4096, /* largest IB path MTU */
	PSN_HALF = 1 << 23,         /* serial arithmetic on 24 bits */
	FLOW_SPAN_MAX = 1 << 22,    /* PSNs between the oldest unsettled and the newest: a quarter of the PSN space, so
	                               that a stale PSN and a new one cannot be mistaken for each other */
	FP_RING = 1024,       /* words of fingerprint ring per flow: 512 starts and ends of messages */
	PATIENCE_PKTS = 64,   /* packets past a gap before the gap counts as a loss: one adaptive-routing burst */
	ACK_EVERY_PKTS = 64,  /* an ACK at least this often without AckReq */
	READS_PER_FLOW = 256, /* open and kept READs and ATOMICs: rxe allows 128 outstanding */
	OPS_PER_FLOW = 16,    /* open and kept operations per flow, averaged over the table; a few flows may have
	                       * READS_PER_FLOW */
	TEMPLATE_MAX = 96,    /* ACK packet with IPv6 header: 40 + 8 + 12 + 4 + 4, rounded up */
	CM_CONNS = 1024,      /* connections in set-up or known by CM, least recently used goes first */
	PREFIXES_MAX = 32,    /* per side of a link */
	PAIR_MODES_MAX = 16,  /* a hello with all of them and all prefixes fits in its message */
	/* WAN */
	LANES_MAX = 256, /* lane is one byte on the wire */
	SHARDS_MAX = 64,
	PATHS_MAX = 8, /* of a link: each costs every lane 100 KiB of packet numbers */
	PATH_WEIGHT_MAX = 1000,
	WAN_MTU_MIN = 1280,
	WAN_MTU_MAX = 9216,
	WAN_REFS_MAX = 10, /* packets or control items in one datagram that need repair if it is lost */
	WAN_PN_SPAN = 1 << 18, /* packet numbers of a lane, from the oldest unsettled to the newest: 2.3 GB at 9000 */
	WAN_RX_BITS = 1 << 19,       /* twice WAN_PN_SPAN: the receiver remembers more than may be unsettled, so that
	                              * "old" is never "lost" */
	WAN_TAG_LEN = 16,            /* room for the AEAD tag, kept also while the link is not sealed */
	PIECE_UNIT = 64,             /* pieces of packets are cut at multiples of this: 66 units make a slot */
	HOLD_OFF_ALPHA = 3, /* a flow that drains well may hold so many times the free bytes of its pool (share.c) */
	CREDIT_MIN_BYTES = 64 << 10, /* a flow's credit never falls below this */
	/* FEC */
	FEC_K_MAX = 240, /* k: datagrams of a group, ... */
	FEC_M_MAX = 16,  /* ... and m: repair datagrams of a group; the cost of coding grows with m */
	FEC_PLACES_MAX = 240, /* numbers of a group, unprotected ones between them included: places and repairs share
	                         the 256 elements of a field */
	FEC_DEPTH_MAX = 32,   /* groups that take turns: a burst of so many losses takes one datagram of each */
	FEC_BLOCK_MAX = 4096, /* numbers of a block, in all groups: 37 MB at 9000 */
	FEC_BLOCK_PARITY_MAX = 256, /* repair datagrams of a block, in all groups */
	FEC_KEEP_BYTES_MAX = 72 << 20, /* received datagrams that a receiver keeps, per shard: two blocks */
	FEC_KEEP_MIN = 512,            /* least number of datagrams that a receiver keeps */
	/* barrier */
	LAN_IP_MAX = 9216,         /* an IP packet that is not RoCEv2: jumbo frames */
	BARRIER_ENTRIES_MAX = 512, /* flows that a snapshot names: 8 KiB behind a packet */
	BARRIER_QUEUES = 1024,     /* directed host pairs with packets behind a barrier */
	BARRIER_RAW_PARCELS = 4096, /* RoCEv2 packets that are not RC, at the edge beside their receiver */
	BARRIER_SKIP_MAX = 32,     /* ports in BarrierSkip= */
	BARRIER_GONE = 256,        /* far flows that are remembered as forgotten */
	HOST_ALIASES_MAX = 192,    /* further addresses of machines */
	IP_PARTIAL_MAX = 16,       /* incomplete IP packets of a lane: more do not interleave on the WAN */
	POOL_STUCK_MS = 5000, /* a pool that is full without progress for so long does not just wait for a round trip or
	                       * a cut */
	RD_OP_ASK_BACK_BYTES = 8 << 20, /* that rxe is asked for again at most before the response that is wanted: 7 ms at
	                                 * 10 Gbit/s */
	RAW_SEEN_MAX = 65536, /* numbers of a lane's packets without a flow that are known apart: more than follow a lost
	                       * one before its repair, on paths of unlike length too: 100 Gbit/s for 20 ms. 8 KiB */
	/* tables */
	FLOWS_MAX = 1 << 20,
	END_TO_END_PLACES = 4096, /* pairs of hosts with queue pairs beyond MaxFlows=, before they share places: 64 KiB */
	EVENT_RING = 1024,
	HOSTS_HEARD = 1024, /* hosts known to route this way: 24 KiB */
	FLOWS_ENDED_MIN = 32, FLOWS_ENDED_MAX = 1024, /* ended flows that are remembered, of each kind: half a MiB */
};

#endif
