/* What the parts of the shim share: system calls without a C library, the page that mysqld's node's agent
 * maps too, and what is known of the file behind a descriptor.
 */
#ifndef REPLEXPLORER_SHIM_H
#define REPLEXPLORER_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/stat.h>
#include <linux/time.h>
#include <linux/time_types.h>

/* The page: a file of 4096 bytes on the datadir's volume, 512 words of 64 bits, in the machine's byte
 * order. The agent reads all of it and writes delays, jitters and what it asks of the journal (fsyncpage.py repeats
 * the offsets). It outlives mysqld: counts go on and the delay stays. Whoever holds the write lock on it (an open
 * file description's) is the server that is attached.
 */
#define PAGE_MAGIC 0x00434e5953465852u /* "RXFSYNC" */
#define PAGE_VERSION 1
#define PAGE_BYTES 4096
#define MOST_KINDS 15

enum kind { REDO, BINLOG, RELAY, DATA, INDEX, DIRECTORY, OTHER };

struct figures {
    uint64_t fsyncs;
    uint64_t fsync_ns;   /* in the real call */
    uint64_t delayed_ns; /* after it */
    uint64_t delay_us;   /* asked; read again while it is waited for */
    uint64_t jitter_us;  /* asked: its standard deviation */
    uint64_t reserved[27];
};

struct page {
    uint64_t magic, version, bytes;
    uint64_t attaches, attached_ns; /* how often, and the wall clock of the last time */
    uint64_t journal;               /* asked: 0 for none, else another number each time one begins */
    uint64_t journal_bytes;         /* how large it may be */
    uint64_t journal_kinds;         /* whose writes it keeps: a bit each, 1 << kind */
    uint64_t full;                  /* kinds of files that may not grow, as on a full disk: a bit each */
    uint64_t own_delays;            /* kinds whose delay is not that of the others: the agent's alone */
    uint64_t stall_us;              /* what of each delay_us is a fault's: the agent's alone */
    uint64_t reserved[21];
    struct figures of[MOST_KINDS];
};
_Static_assert(sizeof(struct page) == PAGE_BYTES, "the page's layout");

#define EXPORTED __attribute__((visibility("default")))

extern int *__errno_location(void);

#if defined(__x86_64__)

static inline long call(long number, long a, long b, long c, long d, long e, long f)
{
    long answer;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
}

#elif defined(__aarch64__)

/* Else atomic operations are calls into libgcc, which is not there. */
#pragma GCC target("no-outline-atomics")

static inline long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}

#else
#error "no system calls for this machine"
#endif

/* The headers that name these are either the kernel's or the C library's, never both. */
#define INTERRUPTED 4
#define BAD_FILE 9
#define TYPE_MASK 0170000
#define TYPE_FILE 0100000
#define TYPE_DIRECTORY 0040000

/* What a descriptor is open on. An inode's number is used again, so the time of birth belongs to it. */
struct file {
    uint64_t device, inode, birth_ns; /* 0: the file system keeps no time of birth */
    uint64_t size;
    enum kind kind;
    int regular;
};

extern struct page *attached; /* NULL: nothing is counted, delayed or kept */

/* What is behind a descriptor; 0 where it is nothing that has a kind. */
int look(int fd, struct file *file);

static inline uint64_t clock_ns(int clock)
{
    struct __kernel_timespec now;
    call(__NR_clock_gettime, clock, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void add(uint64_t *figure, uint64_t amount)
{
    __atomic_fetch_add(figure, amount, __ATOMIC_RELAXED);
}

/* A system call's answer as the C library gives it. */
static inline long answer_of(long answer)
{
    if (answer >= 0 || answer < -4095)
        return answer;
    *__errno_location() = (int)-answer;
    return -1;
}

/* The undo journal (undojournal.c). */

/* The server begins: the journal of its last life goes on, where one is asked for. */
void journal_attach(const char *page_path);
/* An fsync begins: the number that journal_synced() takes once it has succeeded and its delay is over. */
uint64_t journal_seal(const struct file *file);
void journal_synced(const struct file *file, uint64_t sealed);

#endif
