/* The process that holds packets: one kernel queue (NFQUEUE) a peer, each packet let go at its due time.
 *
 * Law: due = max(came + hold + jitter, due of the packet before) + bits / bandwidth. A peer's packets
 * leave in the order in which they came; none is dropped here but by a loss or a cut that was asked for;
 * a shape that falls lets go at once what is then overdue, one that rises holds only later packets.
 * The agent asks in datagrams on standard input (struct ask); when that socket ends, all is let go.
 * Raw netlink: one message is a verdict on many packets, one call carries many messages, and of each
 * packet only its header is copied.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>

#ifdef DELAYQUEUE_TEST /* built as a library, whose test calls the pure part */
#define PURE
#else
#define PURE static
#endif

#define NS_PER_S 1000000000LL

/* Packets that one peer's queue holds; the kernel drops, and counts, what comes beyond. */
#define LONGEST_QUEUE 100000u
#define FIRST_ROOM 1024u
/* However narrow the link is; it keeps the arithmetic within bounds. */
#define LONGEST_WAIT_NS (3600 * NS_PER_S)
/* What a packet weighs on a wire beyond IP, as netem counts it. */
#define ETHERNET_BYTES 14

/* How far leaving together may move a packet: a share of its hold, and never more than this. */
#define SLACK_SHARE 64
#define MOST_SLACK_NS 100000
#define MOST_TOGETHER 64u

/* ---- pure: which packet leaves when ---- */

struct shape {
    int64_t hold_ns;
    int64_t jitter_ns; /* standard deviation */
    double loss;       /* 0..1, of each packet on its own */
    uint64_t bandwidth_bps; /* 0: no limit */
    bool cut;          /* every packet is lost */
};

struct packet {
    int64_t due_ns, came_ns;
    uint32_t id, bytes;
    float sigmas; /* its jitter, in standard deviations */
    bool lost;
};

/* The packets of one peer that wait, oldest first, in a ring that grows. */
struct held {
    struct packet *ring;
    uint32_t room, head, count, lost;
    int64_t last_due_ns;
    struct shape shape;
    uint64_t random[4];
    double spare_normal;
    bool has_spare;
};

/* Neighbours with one fate: all ids up to this one are let go, or lost. */
struct run {
    uint32_t last_id;
    uint32_t lost;
};

static uint64_t rotated(uint64_t bits, int by) { return bits << by | bits >> (64 - by); }

/* xoshiro256**, Blackman and Vigna 2018. */
static uint64_t random_bits(struct held *held) {
    uint64_t *s = held->random, result = rotated(s[1] * 5, 7) * 9, mixed = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= mixed;
    s[3] = rotated(s[3], 45);
    return result;
}

static double random_share(struct held *held) { return (double)(random_bits(held) >> 11) * 0x1p-53; }

/* Standard normal, by Marsaglia's polar method: two at a time. */
static double random_normal(struct held *held) {
    if (held->has_spare) {
        held->has_spare = false;
        return held->spare_normal;
    }
    double x, y, square;
    do {
        x = 2 * random_share(held) - 1;
        y = 2 * random_share(held) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    double scale = sqrt(-2 * log(square) / square);
    held->spare_normal = y * scale;
    held->has_spare = true;
    return x * scale;
}

/* Start empty and plain. The seed is spread by splitmix64, so that any number will do. */
PURE void held_start(struct held *held, uint64_t seed) {
    memset(held, 0, sizeof *held);
    held->last_due_ns = INT64_MIN;
    for (int word = 0; word < 4; word++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        held->random[word] = z ^ z >> 31;
    }
}

PURE void held_end(struct held *held) {
    free(held->ring);
    held->ring = NULL;
    held->room = held->count = 0;
}

static struct packet *held_at(const struct held *held, uint32_t place) {
    return &held->ring[(held->head + place) & (held->room - 1)];
}

static bool held_grow(struct held *held) {
    uint32_t room = held->room ? 2 * held->room : FIRST_ROOM;
    struct packet *ring = held->count < LONGEST_QUEUE ? malloc(room * sizeof *ring) : NULL;
    if (!ring)
        return false;
    for (uint32_t place = 0; place < held->count; place++)
        ring[place] = *held_at(held, place);
    free(held->ring);
    held->ring = ring;
    held->room = room;
    held->head = 0;
    return true;
}

/* When a packet leaves behind one that left at before_ns. What jitter takes or adds is at most the hold:
 * no packet leaves before it came, and none is held more than twice as long. */
static int64_t due_ns(const struct shape *shape, const struct packet *packet, int64_t before_ns) {
    int64_t jitter_ns = (int64_t)((double)packet->sigmas * (double)shape->jitter_ns);
    if (jitter_ns > shape->hold_ns)
        jitter_ns = shape->hold_ns;
    if (jitter_ns < -shape->hold_ns)
        jitter_ns = -shape->hold_ns;
    int64_t due = packet->came_ns + shape->hold_ns + jitter_ns;
    if (due < before_ns)
        due = before_ns;
    if (shape->bandwidth_bps)
        due += (int64_t)(packet->bytes * 8ull * NS_PER_S / shape->bandwidth_bps);
    int64_t latest = packet->came_ns + LONGEST_WAIT_NS;
    if (due > latest)
        due = latest > before_ns ? latest : before_ns;
    return due;
}

/* A packet came: hold it. False when there is no room. Whether it is lost is decided here, but it is dropped
 * in its turn: the kernel looks for a packet from the oldest on, so a verdict out of turn costs a search.
 */
PURE bool held_came(struct held *held, uint32_t id, uint32_t bytes, int64_t came_ns) {
    if (held->count >= LONGEST_QUEUE || (held->count == held->room && !held_grow(held)))
        return false;
    const struct shape *shape = &held->shape;
    struct packet packet = {.id = id, .bytes = bytes, .came_ns = came_ns};
    packet.lost = shape->cut || (shape->loss > 0 && random_share(held) < shape->loss);
    if (packet.lost) {
        packet.due_ns = held->count ? held_at(held, held->count - 1)->due_ns : came_ns;
        held->lost++;
    } else {
        packet.sigmas = shape->jitter_ns ? (float)random_normal(held) : 0;
        packet.due_ns = held->last_due_ns = due_ns(shape, &packet, held->last_due_ns);
    }
    *held_at(held, held->count++) = packet;
    return true;
}

/* What holds from now on; for those that wait it holds where it lets them go sooner. */
PURE void held_reshape(struct held *held, const struct shape *shape, int64_t now_ns) {
    int64_t before_ns = now_ns;
    for (uint32_t place = 0; place < held->count; place++) {
        struct packet *packet = held_at(held, place);
        int64_t due = packet->lost ? before_ns : due_ns(shape, packet, before_ns);
        if (due < packet->due_ns)
            packet->due_ns = due;
        if (packet->due_ns > before_ns)
            before_ns = packet->due_ns;
    }
    if (before_ns < held->last_due_ns)
        held->last_due_ns = before_ns;
    held->shape = *shape;
}

/* Packets that leave together, because a wake for each costs more CPU than the truth is worth. */
struct group {
    int64_t leaves_ns; /* in the middle between the first and the last due time; INT64_MAX: none waits */
    int64_t last_due_ns;
};

/* The oldest packet and those due so soon after it that leaving together moves none by more than the slack:
 * a small share of the hold, and bounded. One without neighbours leaves when it is due.
 */
PURE struct group held_next(const struct held *held) {
    if (!held->count)
        return (struct group){INT64_MAX, INT64_MAX};
    int64_t slack_ns = held->shape.hold_ns / SLACK_SHARE;
    if (slack_ns > MOST_SLACK_NS)
        slack_ns = MOST_SLACK_NS;
    int64_t first = held_at(held, 0)->due_ns, last = first;
    for (uint32_t place = 1; place < held->count && place < MOST_TOGETHER; place++) {
        int64_t due = held_at(held, place)->due_ns;
        if (due > first + 2 * slack_ns)
            break;
        last = due;
    }
    return (struct group){first + (last - first) / 2, last};
}

/* Take out what is due by then, in at most so many runs; answers how many runs. The ring keeps what was
 * taken out until the next packet comes. */
PURE uint32_t held_release(struct held *held, int64_t now_ns, struct run *runs, uint32_t most) {
    uint32_t found = 0;
    while (held->count) {
        const struct packet *oldest = held_at(held, 0);
        if (oldest->due_ns > now_ns)
            break;
        if (!found || runs[found - 1].lost != oldest->lost) {
            if (found == most)
                break;
            runs[found++].lost = oldest->lost;
        }
        runs[found - 1].last_id = oldest->id;
        held->lost -= oldest->lost;
        held->head = (held->head + 1) & (held->room - 1);
        held->count--;
    }
    return found;
}

/* ---- pure: how far from their due times packets left ---- */

#define STEPS 8 /* in each doubling: 12.5 % */
#define BUCKETS (STEPS * 40)
/* A window ends after so long, but not before it has enough packets for a percentile. */
#define WINDOW_NS (10 * NS_PER_S)
#define WINDOW_PACKETS 200

/* Counts by size of the error, of the window under way and the one before. */
struct errors {
    uint32_t counts[2][BUCKETS];
    uint64_t total[2];
    int64_t started_ns;
    int current;
};

static unsigned error_bucket(int64_t error_ns) {
    uint64_t us = (uint64_t)llabs(error_ns) / 1000;
    if (us < STEPS)
        return (unsigned)us;
    int doublings = 60 - __builtin_clzll(us);
    unsigned bucket = (unsigned)doublings * STEPS + (unsigned)(us >> doublings);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

PURE void errors_add(struct errors *errors, int64_t error_ns) {
    errors->counts[errors->current][error_bucket(error_ns)]++;
    errors->total[errors->current]++;
}

PURE void errors_turn(struct errors *errors, int64_t now_ns) {
    if (now_ns - errors->started_ns < WINDOW_NS || errors->total[errors->current] < WINDOW_PACKETS)
        return;
    errors->current = !errors->current;
    errors->started_ns = now_ns;
    errors->total[errors->current] = 0;
    memset(errors->counts[errors->current], 0, sizeof errors->counts[0]);
}

/* Packets in both windows. */
PURE uint64_t errors_total(const struct errors *errors) { return errors->total[0] + errors->total[1]; }

/* The error that 99 % of both windows do not exceed (upper end of its bucket); 0 without packets. */
PURE int64_t errors_p99_ns(const struct errors *errors) {
    uint64_t total = errors_total(errors), wanted = total - total / 100, seen = 0;
    for (unsigned bucket = 0; total && bucket < BUCKETS; bucket++) {
        seen += (uint64_t)errors->counts[0][bucket] + errors->counts[1][bucket];
        if (seen < wanted)
            continue;
        if (bucket < STEPS)
            return (bucket + 1) * 1000;
        unsigned doublings = bucket / STEPS - 1;
        return (int64_t)(bucket % STEPS + STEPS + 1) * (1000ll << doublings);
    }
    return 0;
}

#ifndef DELAYQUEUE_TEST

/* ---- the agent's messages: fixed size, native byte order; queueing.py has the same ---- */

enum { OP_SHAPE = 1, OP_CLOSE = 2, OP_STATS = 3 };

struct ask {
    uint32_t serial, op, queue;
    uint8_t address[4];
    uint64_t hold_ns, jitter_ns;
    double loss;
    uint64_t bandwidth_bps;
    uint32_t cut, unused;
};
_Static_assert(sizeof(struct ask) == 56, "as in queueing.py");

struct answer {
    uint32_t serial;
    int32_t error; /* errno */
    /* of the queue that was asked about; 0 when it is not bound */
    uint64_t packets, strangers, lost, dropped, held;
    /* of the process */
    uint64_t cpu_ns, wakes, all_packets, timer_late_ns, error_p99_ns, error_packets;
};
_Static_assert(sizeof(struct answer) == 96, "as in queueing.py");

/* ---- netlink: what linux/netlink.h and linux/netfilter/nfnetlink_queue.h define ---- */

enum { PROTOCOL_NETFILTER = 12, LEVEL_NETLINK = 270, OPTION_NO_ENOBUFS = 5 };
enum { MESSAGE_ERROR = 2, MESSAGE_PACKET = 0x300, MESSAGE_VERDICT = 0x301, MESSAGE_CONFIG = 0x302,
       MESSAGE_VERDICT_BATCH = 0x303 };
enum { FLAG_REQUEST = 1, FLAG_ACK = 4 };
enum { CONFIG_COMMAND = 1, CONFIG_PARAMS = 2, CONFIG_MAXLEN = 3, CONFIG_MASK = 4, CONFIG_FLAGS = 5 };
enum { COMMAND_BIND = 1, COPY_PACKET = 2, HEADER_BYTES = 20 };
/* FAIL_OPEN: what a full queue does not take passes. KEEP_SUPER (F_GSO): a 64 kB segment is one packet,
 * else the kernel cuts it up first. */
enum { FLAG_FAIL_OPEN = 1, FLAG_KEEP_SUPER = 4 };
enum { ATTR_HEADER = 1, ATTR_VERDICT = 2, ATTR_TIMESTAMP = 4, ATTR_PAYLOAD = 10, ATTR_FULL_LENGTH = 13 };
enum { VERDICT_DROP = 0, VERDICT_ACCEPT = 1 };
enum { SOURCE_ADDRESS_AT = 12 };

struct message_head {
    uint32_t length;
    uint16_t type, flags;
    uint32_t sequence, port;
    uint8_t family, version;
    uint16_t queue; /* network order */
};

struct attribute {
    uint16_t length, type;
};

struct verdict_message {
    struct message_head head;
    struct attribute attribute;
    uint32_t verdict, id; /* network order */
};
_Static_assert(sizeof(struct message_head) == 20 && sizeof(struct verdict_message) == 32, "no padding");

#define RECEIVE_BUFFER_BYTES (32 << 20)
#define BATCH 128u
#define INTAKE_MOST 4096u
#define RUNS 128u
#define MESSAGE_BYTES 512
/* A receive stamp older than this comes from a clock that was set, not from a packet that waited. */
#define LONGEST_INTAKE_NS 20000000
/* While packets wait, later ones cannot be due before them: a busy socket is then read only so often, when
 * we are awake anyway, but before the stamps are too old. */
#define REST_NS 1000000
#define LONGEST_REST_NS 8000000
/* A bound for the learned lateness of the timer: what is beyond is the machine's load. */
#define LATEST_WAKE_NS 100000
/* What is due so soon goes now: another wake would cost more CPU than the truth is worth here. */
#define EARLY_NS 30000
#define RETRY_NS 1000000
#define SLICE_NS 100000
#define QUEUES 64

struct peer_queue {
    struct held held;
    int socket;
    uint16_t number;
    uint8_t address[4];
    bool keeps_super, stamped, rests, verdict_failed;
    uint32_t last_id;
    int64_t read_ns, retry_ns;
    uint64_t packets, strangers, lost, overflown;
};

static struct peer_queue *queues[QUEUES];
static int queue_count;
static struct errors errors;
static uint64_t all_packets, wakes;
static int64_t timer_late_ns = 50000;

static int64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * NS_PER_S + time.tv_nsec;
}

static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static struct verdict_message verdict_message(const struct peer_queue *queue, int type, uint32_t verdict,
                                              uint32_t id) {
    return (struct verdict_message){
        .head = {.length = sizeof(struct verdict_message), .type = (uint16_t)type, .flags = FLAG_REQUEST,
                 .queue = htons(queue->number)},
        .attribute = {12, ATTR_VERDICT},
        .verdict = htonl(verdict),
        .id = htonl(id),
    };
}

/* A message under construction. */
struct draft {
    _Alignas(struct message_head) uint8_t bytes[256];
};

static struct message_head *draft_head(struct draft *draft) { return (struct message_head *)draft->bytes; }

static void draft_config(struct draft *draft, const struct peer_queue *queue, int flags) {
    memset(draft, 0, sizeof *draft);
    *draft_head(draft) = (struct message_head){.length = sizeof(struct message_head), .type = MESSAGE_CONFIG,
                                               .flags = (uint16_t)flags, .queue = htons(queue->number)};
}

static void draft_add(struct draft *draft, int type, const void *payload, size_t size) {
    struct message_head *head = draft_head(draft);
    struct attribute attribute = {(uint16_t)(sizeof attribute + size), (uint16_t)type};
    memcpy(draft->bytes + head->length, &attribute, sizeof attribute);
    memcpy(draft->bytes + head->length + sizeof attribute, payload, size);
    head->length += (uint32_t)(sizeof attribute + ((size + 3) & ~(size_t)3));
}

static void draft_add_number(struct draft *draft, int type, uint32_t number) {
    number = htonl(number);
    draft_add(draft, type, &number, sizeof number);
}

static void draft_add_flag(struct draft *draft, uint32_t flag, bool set) {
    draft_add_number(draft, CONFIG_FLAGS, set ? flag : 0);
    draft_add_number(draft, CONFIG_MASK, flag);
}

static bool send_all(const struct peer_queue *queue, const void *bytes, size_t size) {
    ssize_t sent;
    do
        sent = send(queue->socket, bytes, size, 0);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size;
}

/* ---- packets in ---- */

/* The two clocks at one moment, so that a batch of stamps needs them once. */
struct moment {
    int64_t monotonic_ns, real_ns;
};

static struct moment moment_now(void) { return (struct moment){now_ns(), clock_ns(CLOCK_REALTIME)}; }

/* When a packet came: by the kernel's stamp where there is one, so that it does not matter how late we
 * read it. */
static int64_t came_ns(struct peer_queue *queue, const uint8_t *stamp, struct moment moment) {
    uint64_t parts[2];
    queue->stamped = false;
    if (!stamp)
        return moment.monotonic_ns;
    memcpy(parts, stamp, sizeof parts);
    int64_t stamp_ns = (int64_t)be64toh(parts[0]) * NS_PER_S + (int64_t)be64toh(parts[1]) * 1000;
    int64_t waited_ns = moment.real_ns - stamp_ns;
    if (waited_ns < 0 || waited_ns > LONGEST_INTAKE_NS)
        return moment.monotonic_ns;
    queue->stamped = true;
    return moment.monotonic_ns - waited_ns;
}

static void take_packet(struct peer_queue *queue, const uint8_t *bytes, size_t size, struct moment moment) {
    const uint8_t *header = NULL, *stamp = NULL, *payload = NULL;
    uint32_t length = 0;
    struct attribute attribute;
    for (size_t at = sizeof(struct message_head); at + sizeof attribute <= size;
         at += (attribute.length + 3u) & ~3u) {
        memcpy(&attribute, bytes + at, sizeof attribute);
        if (attribute.length < sizeof attribute || at + attribute.length > size)
            break;
        const uint8_t *value = bytes + at + sizeof attribute;
        size_t value_size = attribute.length - sizeof attribute;
        if (attribute.type == ATTR_HEADER && value_size >= 4)
            header = value;
        else if (attribute.type == ATTR_TIMESTAMP && value_size >= 16)
            stamp = value;
        else if (attribute.type == ATTR_FULL_LENGTH && value_size >= 4)
            length = (uint32_t)value[0] << 24 | value[1] << 16 | value[2] << 8 | value[3];
        else if (attribute.type == ATTR_PAYLOAD) {
            payload = value_size >= HEADER_BYTES ? value : NULL;
            if (!length)
                length = (uint32_t)value_size;
        }
    }
    if (!header)
        return;
    uint32_t id;
    memcpy(&id, header, sizeof id);
    queue->last_id = ntohl(id);
    queue->packets++;
    all_packets++;
    if (!payload || memcmp(payload + SOURCE_ADDRESS_AT, queue->address, sizeof queue->address))
        queue->strangers++;
    if (!held_came(&queue->held, queue->last_id, length + ETHERNET_BYTES, came_ns(queue, stamp, moment))) {
        struct verdict_message drop = verdict_message(queue, MESSAGE_VERDICT, VERDICT_DROP, queue->last_id);
        send_all(queue, &drop, sizeof drop);
        queue->overflown++;
    }
}

/* Take packets that the kernel has for us, until there are none or a bound is reached; answers how many. */
static unsigned take_in(struct peer_queue *queue) {
    static _Alignas(struct message_head) uint8_t buffers[BATCH][MESSAGE_BYTES];
    static struct iovec vectors[BATCH];
    static struct mmsghdr messages[BATCH];
    if (!messages[0].msg_hdr.msg_iov)
        for (unsigned i = 0; i < BATCH; i++) {
            vectors[i] = (struct iovec){buffers[i], MESSAGE_BYTES};
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
        }
    unsigned taken = 0;
    int got;
    do {
        got = recvmmsg(queue->socket, messages, BATCH, MSG_DONTWAIT, NULL);
        struct moment moment = moment_now();
        for (int i = 0; i < got; i++) {
            const struct message_head *head = (const struct message_head *)buffers[i];
            if (messages[i].msg_len >= sizeof *head && head->type == MESSAGE_PACKET) {
                take_packet(queue, buffers[i], messages[i].msg_len, moment);
                taken++;
            }
        }
    } while (got == (int)BATCH && taken < INTAKE_MOST);
    return taken;
}

/* ---- packets out ---- */

/* Give the kernel back what is due by then, oldest first. */
static void let_go(struct peer_queue *queue, int64_t due_by_ns) {
    struct held *held = &queue->held;
    struct run runs[RUNS];
    struct verdict_message messages[1 + RUNS];
    uint32_t found;
    do {
        uint32_t head = held->head, count = held->count, told = 0;
        if (queue->verdict_failed) /* what that verdict was about goes now */
            messages[told++] = verdict_message(queue, MESSAGE_VERDICT_BATCH, VERDICT_ACCEPT,
                                               count ? held_at(held, 0)->id - 1 : queue->last_id);
        found = held_release(held, due_by_ns, runs, RUNS);
        for (uint32_t i = 0; i < found; i++)
            messages[told++] = verdict_message(queue, MESSAGE_VERDICT_BATCH,
                                               runs[i].lost ? VERDICT_DROP : VERDICT_ACCEPT, runs[i].last_id);
        if (!told)
            return;
        queue->verdict_failed = !send_all(queue, messages, told * sizeof messages[0]);
        int64_t left_ns = now_ns();
        queue->retry_ns = left_ns + RETRY_NS;
        for (uint32_t taken = count - held->count, i = 0; i < taken; i++) {
            const struct packet *packet = &held->ring[(head + i) & (held->room - 1)];
            if (packet->lost)
                queue->lost++;
            else
                errors_add(&errors, left_ns - packet->due_ns);
        }
    } while (found == RUNS);
}

/* ---- queues ---- */

static struct peer_queue *find_queue(uint32_t number) {
    for (int i = 0; i < queue_count; i++)
        if (queues[i]->number == number)
            return queues[i];
    return NULL;
}

/* Send a configuration and wait for its acknowledgement; errno. Packets that come first are taken in. */
static int configure(struct peer_queue *queue, struct draft *draft) {
    _Alignas(struct message_head) uint8_t buffer[MESSAGE_BYTES];
    if (!send_all(queue, draft->bytes, draft_head(draft)->length))
        return errno;
    for (;;) {
        ssize_t size = recv(queue->socket, buffer, sizeof buffer, 0);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return errno;
        const struct message_head *head = (const struct message_head *)buffer;
        int32_t code;
        if ((size_t)size >= sizeof *head && head->type == MESSAGE_ERROR) {
            memcpy(&code, buffer + 16, sizeof code);
            return -code;
        }
        if ((size_t)size >= sizeof *head && head->type == MESSAGE_PACKET)
            take_packet(queue, buffer, (size_t)size, moment_now());
    }
}

static int bind_queue(struct peer_queue *queue) {
    struct sockaddr_storage address = {.ss_family = AF_NETLINK};
    struct timeval patience = {.tv_sec = 1};
    int one = 1, bytes = RECEIVE_BUFFER_BYTES;
    if (bind(queue->socket, (struct sockaddr *)&address, 12) < 0)
        return errno;
    setsockopt(queue->socket, LEVEL_NETLINK, OPTION_NO_ENOBUFS, &one, sizeof one);
    if (setsockopt(queue->socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(queue->socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    setsockopt(queue->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);

    const uint8_t command[4] = {COMMAND_BIND, 0, 0, AF_INET};
    const uint8_t params[5] = {0, 0, 0, HEADER_BYTES, COPY_PACKET};
    struct draft draft;
    draft_config(&draft, queue, FLAG_REQUEST | FLAG_ACK);
    draft_add(&draft, CONFIG_COMMAND, command, sizeof command);
    int error = configure(queue, &draft);
    if (error)
        return error;
    draft_config(&draft, queue, FLAG_REQUEST | FLAG_ACK);
    draft_add(&draft, CONFIG_PARAMS, params, sizeof params);
    draft_add_number(&draft, CONFIG_MAXLEN, LONGEST_QUEUE);
    draft_add_flag(&draft, FLAG_KEEP_SUPER, queue->keeps_super);
    return configure(queue, &draft);
}

/* Loss and bandwidth are of packets as they are on a wire, so super packets are cut up for them. */
static bool keeps_super(const struct shape *shape) { return !(shape->loss > 0 || shape->bandwidth_bps); }

static int open_queue(uint32_t number, const uint8_t address[4], const struct shape *shape,
                      struct peer_queue **opened) {
    uint64_t seed;
    struct peer_queue *queue = queue_count < QUEUES ? calloc(1, sizeof *queue) : NULL;
    if (!queue)
        return ENOMEM;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint64_t)clock_ns(CLOCK_REALTIME);
    held_start(&queue->held, seed);
    queue->held.shape = *shape;
    queue->number = (uint16_t)number;
    queue->keeps_super = keeps_super(shape);
    memcpy(queue->address, address, sizeof queue->address);
    queue->socket = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, PROTOCOL_NETFILTER);
    int error = queue->socket < 0 ? errno : bind_queue(queue);
    if (error) {
        if (queue->socket >= 0)
            close(queue->socket);
        held_end(&queue->held);
        free(queue);
        return error;
    }
    *opened = queues[queue_count++] = queue;
    return 0;
}

static void set_keeps_super(struct peer_queue *queue, bool keeps) {
    struct draft draft;
    if (queue->keeps_super == keeps)
        return;
    draft_config(&draft, queue, FLAG_REQUEST);
    draft_add_flag(&draft, FLAG_KEEP_SUPER, keeps);
    if (send_all(queue, draft.bytes, draft_head(&draft)->length))
        queue->keeps_super = keeps;
}

/* What came before is still shaped as before; what is overdue by the new shape goes at once. */
static void reshape_queue(struct peer_queue *queue, const struct shape *shape) {
    set_keeps_super(queue, keeps_super(shape));
    while (take_in(queue) >= INTAKE_MOST)
        ;
    int64_t now = now_ns();
    held_reshape(&queue->held, shape, now);
    let_go(queue, now);
}

/* Let everything go in order and unbind. The kernel drops what a queue holds when it is unbound, so packets
 * pass it from before that on: no room, and what finds none passes. */
static void close_queue(struct peer_queue *queue) {
    reshape_queue(queue, &(struct shape){0});
    let_go(queue, INT64_MAX);
    struct {
        struct verdict_message first;
        uint8_t rest[sizeof(struct draft) + sizeof(struct verdict_message)];
    } farewell;
    struct draft draft;
    draft_config(&draft, queue, FLAG_REQUEST);
    draft_add_number(&draft, CONFIG_MAXLEN, 0);
    draft_add_flag(&draft, FLAG_FAIL_OPEN, true);
    size_t length = draft_head(&draft)->length;
    farewell.first = verdict_message(queue, MESSAGE_VERDICT_BATCH, VERDICT_ACCEPT, queue->last_id + (1u << 30));
    memcpy(farewell.rest, draft.bytes, length);
    memcpy(farewell.rest + length, &farewell.first, sizeof farewell.first);
    send_all(queue, &farewell, 2 * sizeof farewell.first + length);
    close(queue->socket);
    held_end(&queue->held);
    for (int i = 0; i < queue_count; i++)
        if (queues[i] == queue)
            queues[i] = queues[--queue_count];
    free(queue);
}

/* Packets that the kernel dropped for us: queue full, or our socket full. */
static uint64_t kernel_drops(const struct peer_queue *queue) {
    uint64_t found = 0;
    unsigned number;
    unsigned long long full, unread;
    FILE *table = fopen("/proc/net/netfilter/nfnetlink_queue", "re");
    if (!table)
        return 0;
    while (fscanf(table, "%u %*d %*u %*u %*u %llu %llu %*[^\n]", &number, &full, &unread) == 3)
        if (number == queue->number)
            found = full + unread;
    fclose(table);
    return found;
}

/* ---- the agent ---- */

static struct answer tell(const struct peer_queue *queue) {
    struct answer answer = {
        .cpu_ns = (uint64_t)clock_ns(CLOCK_PROCESS_CPUTIME_ID),
        .wakes = wakes,
        .all_packets = all_packets,
        .timer_late_ns = (uint64_t)timer_late_ns,
        .error_p99_ns = (uint64_t)errors_p99_ns(&errors),
        .error_packets = errors_total(&errors),
    };
    if (queue) {
        answer.packets = queue->packets;
        answer.strangers = queue->strangers;
        answer.lost = queue->lost;
        answer.dropped = queue->overflown + kernel_drops(queue);
        answer.held = queue->held.count - queue->held.lost;
    }
    return answer;
}

/* Carry out one command; false when the agent has gone. */
static bool obey(void) {
    struct ask ask = {0};
    ssize_t size = recv(STDIN_FILENO, &ask, sizeof ask, MSG_TRUNC);
    if (size <= 0)
        return size < 0 && errno == EINTR;
    int error = 0;
    struct peer_queue *queue = size == sizeof ask ? find_queue(ask.queue) : NULL;
    struct shape shape = {(int64_t)ask.hold_ns, (int64_t)ask.jitter_ns, ask.loss, ask.bandwidth_bps, ask.cut};
    if (size != sizeof ask || (ask.op == OP_SHAPE && ask.queue > UINT16_MAX))
        error = EINVAL;
    else if (ask.op == OP_SHAPE) {
        if (!queue)
            error = open_queue(ask.queue, ask.address, &shape, &queue);
        if (!error)
            reshape_queue(queue, &shape);
    } else if (ask.op == OP_CLOSE) {
        if (queue)
            close_queue(queue);
        queue = NULL;
    } else if (ask.op != OP_STATS)
        error = EINVAL;
    struct answer answer = tell(queue);
    answer.serial = ask.serial;
    answer.error = error;
    return send(STDIN_FILENO, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer;
}

/* ---- the loop ---- */

/* The timer wakes us late, by an amount that varies: set it earlier by the mean. */
static void learn_lateness(int64_t late_ns) {
    if (late_ns < 0)
        late_ns = 0;
    if (late_ns > LATEST_WAKE_NS)
        late_ns = LATEST_WAKE_NS;
    timer_late_ns += (late_ns - timer_late_ns) / 8;
}

/* Read a queue; one that is busy is then left alone for a while, which makes its next batch a larger one. */
static void read_queue(struct peer_queue *queue, int64_t now) {
    if (!take_in(queue))
        queue->rests = false;
    else {
        queue->rests = queue->stamped && now - queue->read_ns < LONGEST_REST_NS;
        queue->read_ns = now;
    }
}

/* Wait for packets, the agent or the next due time, and do what is to be done; false at the end. */
static bool turn(void) {
    struct pollfd sources[1 + QUEUES] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    int64_t now = now_ns(), wake = INT64_MAX;
    int count = queue_count;
    for (int i = 0; i < count; i++) {
        const struct peer_queue *queue = queues[i];
        int64_t leaves = held_next(&queue->held).leaves_ns;
        bool rests = queue->rests && leaves != INT64_MAX;
        sources[1 + i] = (struct pollfd){.fd = rests ? -1 : queue->socket, .events = POLLIN};
        if (leaves != INT64_MAX && leaves - timer_late_ns < wake)
            wake = leaves - timer_late_ns;
        if (rests && queue->read_ns + LONGEST_REST_NS < wake)
            wake = queue->read_ns + LONGEST_REST_NS;
        if (queue->verdict_failed && queue->retry_ns < wake)
            wake = queue->retry_ns;
    }
    int64_t wait = wake > now ? wake - now : 0;
    struct timespec timeout = {wait / NS_PER_S, wait % NS_PER_S};
    int ready = ppoll(sources, (nfds_t)(1 + count), wake == INT64_MAX ? NULL : &timeout, NULL);
    wakes++;
    now = now_ns();
    if (ready == 0 && wait)
        learn_lateness(now - wake);
    for (int i = 0; i < count; i++)
        if ((ready > 0 && sources[1 + i].revents) || (queues[i]->rests && now - queues[i]->read_ns >= REST_NS))
            read_queue(queues[i], now);
    for (int i = 0; i < count; i++) {
        struct group group = held_next(&queues[i]->held);
        int64_t by = now_ns() + EARLY_NS;
        if (by >= group.leaves_ns || queues[i]->verdict_failed)
            let_go(queues[i], by >= group.leaves_ns && group.last_due_ns > by ? group.last_due_ns : by);
    }
    errors_turn(&errors, now);
    return !(ready > 0 && sources[0].revents) || obey();
}

/* While any socket asks for it, the kernel stamps every packet when it comes. */
static void have_packets_stamped(void) {
    int one = 1, asks = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (asks >= 0)
        setsockopt(asks, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
}

/* A short slice has a waking process preferred over those that compute: on two busy cores p99 of the error
 * fell from 0.6..4.6 ms to 0.1..0.2. Kernels before 6.12 ignore it. */
static void ask_for_short_slices(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attributes = {.size = sizeof attributes, .policy = SCHED_OTHER, .runtime_ns = SLICE_NS};
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int main(void) {
    prctl(PR_SET_TIMERSLACK, 1);
    ask_for_short_slices();
    have_packets_stamped();
    while (turn())
        ;
    while (queue_count)
        close_queue(queues[0]);
    return 0;
}

#endif
