/* Keeps what a power cut would lose: for every write to a log that no fsync has followed yet, the bytes that
 * stood there before. SIGKILL leaves the page cache, so a killed server loses nothing that it wrote; rolled
 * back by this journal, its files are what a machine without power would have found on its disk.
 *
 * Off unless the page asks for it. It can begin while the server runs: all that was written before counts as
 * on the disk, which a sync makes true. It goes on from one life of the server to the next, as the page cache
 * does. The journal is a file of fixed size beside the page, mapped shared, so that it outlives a SIGKILL:
 *
 *   header    4096 bytes
 *   slots     one a file that has writes without an fsync
 *   chunks    each a list of entries in the order of the writes: offset, length, size of the file before, wall
 *             clock, then the old bytes (none where the file only grew)
 *
 * Laws: an entry is whole and in its list before the write that it can undo begins. A file's lock is held
 * from there to the end of the write, so that no fsync takes an entry for done whose write is still to come.
 * An fsync lets go what was written before it began, after its delay. Where the journal is full, all of that
 * file so far counts as on the disk and is counted as such: a rollback then finds a state that was, though a
 * later one.
 *
 * The same calls are where a full disk shows itself: they refuse (ENOSPC) what would make a file longer, of
 * the kinds that the page names. Not seen: mmap, sendfile, copy_file_range, stdio, O_DSYNC; names (creating, renaming, removing)
 * count as on the disk at once. powercut.py rolls back and repeats the layout.
 */
#include <stdarg.h>

#include "shim.h"

#include <linux/aio_abi.h>
#include <linux/falloc.h>
#include <linux/uio.h>

#define JOURNAL_MAGIC 0x4f444e555852u /* "RXUNDO" */
#define JOURNAL_VERSION 1
#define HEADER_BYTES 4096
#define SLOTS 512
#define CHUNK_BYTES 65536u
#define MOST_CHUNKS 16384
#define MOST_OLD_BYTES 32768u
#define NO_SPACE 28
#define COALESCED_NS 10000000u /* growth within 10 ms is one entry */
#define INVALID 22

struct header {
    uint64_t magic, version, bytes, generation;
    uint64_t slots, chunks, chunk_bytes;
    uint64_t overflows; /* times that a file's entries were let go because there was no room */
    uint64_t kept_bytes; /* old bytes written into the journal since it began */
    uint64_t reserved[503];
};
_Static_assert(sizeof(struct header) == HEADER_BYTES, "the journal's header");

struct slot {
    uint64_t used, device, inode, birth_ns, kind;
    uint64_t first, last; /* chunks, counted from 1; 0: none */
    uint64_t reserved;
};

struct chunk {
    uint64_t next;   /* counted from 1; 0: none */
    uint64_t used;   /* bytes of entries that are whole */
    uint64_t serial; /* grows from chunk to chunk */
    uint64_t last;   /* where the last entry begins */
    unsigned char entries[CHUNK_BYTES - 32];
};
_Static_assert(sizeof(struct chunk) == CHUNK_BYTES, "a chunk's layout");

struct entry {
    uint64_t offset, length, size_before, wall_ns;
    unsigned char old[];
};

struct journal {
    struct header header;
    struct slot slots[SLOTS];
    struct chunk chunks[];
};

static struct journal *journal; /* mapped once a life and never let go: another thread may be in it */
static uint64_t generation;     /* that is in force; 0: none */
static int switching;
static char journal_path[1024];

/* Not in the file, so that no lock outlives who held it. */
static int table_lock, slot_locks[SLOTS];
static uint64_t sealed_serial[SLOTS]; /* entries may not be added to chunks up to it */
static uint32_t free_chunks[MOST_CHUNKS];
static uint32_t free_count;
static size_t top; /* no slot from here on was ever used in this life */
static uint64_t newest_serial;

static void lock(int *held)
{
    while (__atomic_exchange_n(held, 1, __ATOMIC_ACQUIRE))
        call(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void unlock(int *held)
{
    __atomic_store_n(held, 0, __ATOMIC_RELEASE);
}

static struct chunk *chunk_of(uint64_t number)
{
    return &journal->chunks[number - 1];
}

/* What is not reachable from a slot is free. */
static void find_free_chunks(void)
{
    static unsigned char taken[MOST_CHUNKS];
    uint64_t chunks = journal->header.chunks;
    for (uint64_t i = 0; i < chunks; i++)
        taken[i] = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &journal->slots[i];
        sealed_serial[i] = 0;
        slot->used = slot->used && slot->first;
        if (!slot->used)
            continue;
        top = i + 1;
        slot->last = 0;
        for (uint64_t at = slot->first; at && at <= chunks && !taken[at - 1]; at = chunk_of(at)->next) {
            taken[at - 1] = 1;
            slot->last = at;
            if (chunk_of(at)->serial > newest_serial)
                newest_serial = chunk_of(at)->serial;
        }
    }
    free_count = 0;
    for (uint64_t i = chunks; i > 0; i--)
        if (!taken[i - 1])
            free_chunks[free_count++] = (uint32_t)i;
}

/* Begin with nothing kept. */
static void lay_out(uint64_t bytes, uint64_t asked)
{
    journal->header.magic = 0;
    for (size_t i = 0; i < SLOTS; i++)
        journal->slots[i].used = journal->slots[i].first = 0;
    uint64_t chunks = (bytes - sizeof(struct journal)) / CHUNK_BYTES;
    journal->header.version = JOURNAL_VERSION;
    journal->header.bytes = bytes;
    journal->header.generation = asked;
    journal->header.slots = SLOTS;
    journal->header.chunks = chunks < MOST_CHUNKS ? chunks : MOST_CHUNKS;
    journal->header.chunk_bytes = CHUNK_BYTES;
    journal->header.overflows = journal->header.kept_bytes = 0;
    __atomic_store_n(&journal->header.magic, JOURNAL_MAGIC, __ATOMIC_RELEASE);
}

static int is_whole(uint64_t bytes, uint64_t asked)
{
    const struct header *header = &journal->header;
    return header->magic == JOURNAL_MAGIC && header->version == JOURNAL_VERSION && header->bytes == bytes
        && header->generation == asked && header->slots == SLOTS && header->chunk_bytes == CHUNK_BYTES
        && header->chunks <= MOST_CHUNKS
        && header->chunks <= (bytes - sizeof(struct journal)) / CHUNK_BYTES;
}

/* Maps the file, which is made with all its blocks: a full disk must not become a fault of mysqld's. */
static int map(uint64_t bytes)
{
    if (bytes < sizeof(struct journal) + CHUNK_BYTES)
        return 0;
    long fd = call(__NR_openat, AT_FDCWD, (long)journal_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666, 0, 0);
    if (fd < 0)
        return 0;
    struct statx about;
    call(__NR_fchmod, fd, 0666, 0, 0, 0, 0);
    long at = -INVALID;
    if (call(__NR_statx, fd, (long)"", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE, (long)&about, 0) == 0
        && (about.stx_mode & TYPE_MASK) == TYPE_FILE
        && (about.stx_size == bytes || call(__NR_ftruncate, fd, (long)bytes, 0, 0, 0, 0) == 0)
        && call(__NR_fallocate, fd, 0, 0, (long)bytes, 0, 0) == 0)
        at = call(__NR_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    call(__NR_close, fd, 0, 0, 0, 0, 0);
    if (at < 0 && at > -4096)
        return 0;
    journal = (struct journal *)at;
    return 1;
}

/* Another journal is asked for, or none; `from_before`: one of the last life goes on. */
static void switch_to(uint64_t asked, int from_before)
{
    static uint64_t mapped_bytes;
    uint64_t bytes = __atomic_load_n(&attached->journal_bytes, __ATOMIC_RELAXED);
    if (asked && !journal) {
        mapped_bytes = bytes;
        if (!map(bytes))
            return;
    }
    if (asked && !(from_before && is_whole(mapped_bytes, asked))) {
        lock(&table_lock);
        for (size_t i = 0; i < SLOTS; i++)
            lock(&slot_locks[i]);
        lay_out(mapped_bytes, asked);
        find_free_chunks();
        for (size_t i = 0; i < SLOTS; i++)
            unlock(&slot_locks[i]);
        unlock(&table_lock);
        call(__NR_sync, 0, 0, 0, 0, 0, 0);
    } else if (asked) {
        find_free_chunks();
    }
    __atomic_store_n(&generation, asked, __ATOMIC_RELEASE);
}

/* Whether writes to such a file are kept now. */
static int keeps(const struct file *file)
{
    uint64_t asked = __atomic_load_n(&attached->journal, __ATOMIC_RELAXED);
    if (asked != __atomic_load_n(&generation, __ATOMIC_ACQUIRE)
        && !__atomic_exchange_n(&switching, 1, __ATOMIC_ACQUIRE)) {
        switch_to(asked, 0);
        unlock(&switching);
    }
    return asked && asked == __atomic_load_n(&generation, __ATOMIC_ACQUIRE) && file->regular
        && (attached->journal_kinds >> file->kind & 1);
}

static int is_of(const struct slot *slot, const struct file *file)
{
    return slot->used && slot->inode == file->inode && slot->device == file->device
        && slot->birth_ns == file->birth_ns;
}

/* Lets go all chunks up to a serial; the slot with them when none is left. Its lock is held. */
static void let_go(size_t index, uint64_t serial)
{
    struct slot *slot = &journal->slots[index];
    uint64_t at = slot->first, kept = at;
    while (kept && chunk_of(kept)->serial <= serial)
        kept = chunk_of(kept)->next;
    if (kept == at)
        return;
    lock(&table_lock);
    __atomic_store_n(&slot->first, kept, __ATOMIC_RELEASE);
    if (!kept)
        __atomic_store_n(&slot->used, 0, __ATOMIC_RELEASE);
    for (uint64_t next; at != kept; at = next) {
        next = chunk_of(at)->next;
        free_chunks[free_count++] = (uint32_t)at;
    }
    unlock(&table_lock);
}

/* The file's slot, its lock held; `make`: a new one where it has none. SLOTS: none. */
static size_t take_slot(const struct file *file, int make)
{
    for (;;) {
        size_t index = SLOTS, empty = SLOTS;
        lock(&table_lock);
        for (size_t i = 0; i < top && index == SLOTS; i++) {
            if (is_of(&journal->slots[i], file))
                index = i;
            else if (!journal->slots[i].used && empty == SLOTS)
                empty = i;
        }
        if (index == SLOTS && make && empty == SLOTS && top < SLOTS)
            empty = top++;
        if (index == SLOTS && make && empty < SLOTS) {
            struct slot *slot = &journal->slots[empty];
            slot->device = file->device;
            slot->inode = file->inode;
            slot->birth_ns = file->birth_ns;
            slot->kind = (uint64_t)file->kind;
            slot->first = slot->last = 0;
            __atomic_store_n(&slot->used, 1, __ATOMIC_RELEASE);
            index = empty;
        }
        unlock(&table_lock);
        if (index == SLOTS)
            return SLOTS;
        lock(&slot_locks[index]);
        if (is_of(&journal->slots[index], file))
            return index;
        unlock(&slot_locks[index]);
    }
}

/* Where an entry of this size can be added to a slot's chunks; NULL where the journal is full. */
static struct chunk *room_for(size_t index, uint64_t bytes)
{
    struct slot *slot = &journal->slots[index];
    if (slot->first) {
        struct chunk *last = chunk_of(slot->last);
        if (last->serial > sealed_serial[index] && last->used + bytes <= sizeof last->entries)
            return last;
    }
    lock(&table_lock);
    uint64_t number = free_count ? free_chunks[--free_count] : 0;
    uint64_t serial = ++newest_serial;
    unlock(&table_lock);
    if (!number)
        return NULL;
    struct chunk *chunk = chunk_of(number);
    chunk->next = chunk->used = chunk->last = 0;
    chunk->serial = serial;
    __atomic_store_n(slot->first ? &chunk_of(slot->last)->next : &slot->first, number, __ATOMIC_RELEASE);
    slot->last = number;
    return chunk;
}

static uint64_t padded(uint64_t length)
{
    return (length + 7) & ~(uint64_t)7;
}

/* Reads what a file holds, whatever its descriptor was opened for: only to write, or past the page cache. */
static void read_old(int fd, unsigned char *bytes, uint64_t length, uint64_t offset)
{
    uint64_t done = 0;
    int other = -1;
    while (done < length) {
        long got = call(__NR_pread64, other >= 0 ? other : fd, (long)(bytes + done), (long)(length - done),
                        (long)(offset + done), 0, 0);
        if (got > 0) {
            done += (uint64_t)got;
        } else if (got == -INTERRUPTED) {
            continue;
        } else if ((got == -BAD_FILE || got == -INVALID) && other < 0) {
            char path[32] = "/proc/self/fd/";
            size_t at = 14, digits = 1;
            for (unsigned rest = (unsigned)fd; rest >= 10; rest /= 10)
                digits++;
            path[at + digits] = 0;
            for (unsigned rest = (unsigned)fd; digits; rest /= 10)
                path[at + --digits] = (char)('0' + rest % 10);
            other = (int)call(__NR_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
            if (other < 0)
                break;
        } else {
            break;
        }
    }
    if (other >= 0)
        call(__NR_close, other, 0, 0, 0, 0, 0);
    while (done < length)
        bytes[done++] = 0;
}

/* One entry; 0 where there is no room. */
static int keep_one(size_t index, int fd, uint64_t offset, uint64_t length, uint64_t size)
{
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    struct slot *slot = &journal->slots[index];
    if (!length && slot->first) {
        struct chunk *last = chunk_of(slot->last);
        struct entry *before = (struct entry *)(last->entries + last->last);
        if (last->serial > sealed_serial[index] && last->used && !before->length
            && now_ns - before->wall_ns < COALESCED_NS && before->size_before <= size)
            return 1;
    }
    uint64_t bytes = sizeof(struct entry) + padded(length);
    struct chunk *chunk = room_for(index, bytes);
    if (!chunk)
        return 0;
    struct entry *entry = (struct entry *)(chunk->entries + chunk->used);
    entry->offset = offset;
    entry->length = length;
    entry->size_before = size;
    entry->wall_ns = now_ns;
    if (length)
        read_old(fd, entry->old, length, offset);
    chunk->last = chunk->used;
    __atomic_store_n(&chunk->used, chunk->used + bytes, __ATOMIC_RELEASE);
    add(&journal->header.kept_bytes, length);
    return 1;
}

/* Keeps what stands between two offsets, and the file's size, before it changes. The slot's lock is held. */
static void keep(size_t index, int fd, uint64_t from, uint64_t to, uint64_t size)
{
    if (to > size)
        to = size;
    if (from >= to) {
        if (!keep_one(index, fd, size, 0, size))
            goto full;
        return;
    }
    for (; from < to; from += MOST_OLD_BYTES) {
        uint64_t length = to - from < MOST_OLD_BYTES ? to - from : MOST_OLD_BYTES;
        if (!keep_one(index, fd, from, length, size))
            goto full;
    }
    return;
full:
    add(&journal->header.overflows, 1);
    let_go(index, UINT64_MAX);
}

/* Before a write: the slot, locked until after it; SLOTS where nothing is kept; REFUSED where the file would
 * grow and the page says that the disk is full. `offset` may be the descriptor's own (AT_POSITION). */
#define AT_POSITION UINT64_MAX
#define REFUSED (SLOTS + 1)

static uint64_t position_of(int fd, const struct file *file)
{
    long flags = call(__NR_fcntl, fd, F_GETFL, 0, 0, 0, 0);
    long at = flags >= 0 && flags & O_APPEND ? (long)file->size : call(__NR_lseek, fd, 0, 1, 0, 0, 0);
    return at < 0 ? file->size : (uint64_t)at;
}

static size_t begin(int fd, uint64_t offset, uint64_t length)
{
    struct file file;
    if (!attached || (!attached->journal && !generation && !attached->full) || !length || !look(fd, &file)
        || !file.regular)
        return SLOTS;
    uint64_t full = __atomic_load_n(&attached->full, __ATOMIC_RELAXED) >> file.kind & 1;
    if (full && (offset == AT_POSITION ? position_of(fd, &file) : offset) + length > file.size)
        return REFUSED;
    if (!keeps(&file))
        return SLOTS;
    size_t index = take_slot(&file, 1);
    if (index == SLOTS) {
        add(&journal->header.overflows, 1);
        return SLOTS;
    }
    look(fd, &file);
    if (offset == AT_POSITION)
        offset = position_of(fd, &file);
    keep(index, fd, offset, offset + length, file.size);
    return index;
}

static void release(size_t index)
{
    if (index >= SLOTS)
        return;
    /* A slot that nothing was kept in (no room) is nobody's. */
    if (!journal->slots[index].first)
        __atomic_store_n(&journal->slots[index].used, 0, __ATOMIC_RELEASE);
    unlock(&slot_locks[index]);
}

static long end(size_t index, long answer)
{
    release(index);
    return answer_of(answer);
}

uint64_t journal_seal(const struct file *file)
{
    if ((!attached->journal && !generation) || !keeps(file))
        return 0;
    size_t index = take_slot(file, 0);
    if (index == SLOTS)
        return 0;
    const struct slot *slot = &journal->slots[index];
    uint64_t serial = slot->first ? chunk_of(slot->last)->serial : 0;
    sealed_serial[index] = serial;
    unlock(&slot_locks[index]);
    return serial;
}

void journal_synced(const struct file *file, uint64_t sealed)
{
    size_t index = take_slot(file, 0);
    if (index == SLOTS)
        return;
    let_go(index, sealed);
    unlock(&slot_locks[index]);
}

void journal_attach(const char *page_path)
{
    static const char ending[] = ".journal";
    size_t length = 0;
    while (page_path[length] && length + sizeof ending < sizeof journal_path) {
        journal_path[length] = page_path[length];
        length++;
    }
    for (size_t i = 0; i < sizeof ending; i++)
        journal_path[length + i] = ending[i];
    uint64_t asked = __atomic_load_n(&attached->journal, __ATOMIC_RELAXED);
    if (asked)
        switch_to(asked, 1);
}

/* What mysqld calls, in front of the C library's. */

static uint64_t bytes_of(const struct iovec *pieces, int count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

EXPORTED long write(int fd, const void *bytes, size_t length)
{
    size_t slot = begin(fd, AT_POSITION, length);
    return end(slot, slot == REFUSED ? -NO_SPACE : call(__NR_write, fd, (long)bytes, (long)length, 0, 0, 0));
}

EXPORTED long pwrite64(int fd, const void *bytes, size_t length, int64_t offset)
{
    size_t slot = begin(fd, (uint64_t)offset, length);
    return end(slot, slot == REFUSED ? -NO_SPACE : call(__NR_pwrite64, fd, (long)bytes, (long)length, offset, 0, 0));
}

EXPORTED long pwrite(int fd, const void *bytes, size_t length, int64_t offset)
{
    return pwrite64(fd, bytes, length, offset);
}

EXPORTED long writev(int fd, const struct iovec *pieces, int count)
{
    size_t slot = begin(fd, AT_POSITION, bytes_of(pieces, count));
    return end(slot, slot == REFUSED ? -NO_SPACE : call(__NR_writev, fd, (long)pieces, count, 0, 0, 0));
}

EXPORTED long pwritev64(int fd, const struct iovec *pieces, int count, int64_t offset)
{
    size_t slot = begin(fd, (uint64_t)offset, bytes_of(pieces, count));
    return end(slot, slot == REFUSED ? -NO_SPACE : call(__NR_pwritev, fd, (long)pieces, count, offset, 0, 0));
}

EXPORTED long pwritev(int fd, const struct iovec *pieces, int count, int64_t offset)
{
    return pwritev64(fd, pieces, count, offset);
}

EXPORTED long pwritev64v2(int fd, const struct iovec *pieces, int count, int64_t offset, int flags)
{
    size_t slot = begin(fd, offset == -1 ? AT_POSITION : (uint64_t)offset, bytes_of(pieces, count));
    return end(slot, slot == REFUSED ? -NO_SPACE : call(__NR_pwritev2, fd, (long)pieces, count, offset, 0, flags));
}

EXPORTED long pwritev2(int fd, const struct iovec *pieces, int count, int64_t offset, int flags)
{
    return pwritev64v2(fd, pieces, count, offset, flags);
}

/* Writes that end later: a server waits for them before its fsync, so the lock need not be held so long. */
EXPORTED int io_submit(unsigned long context, long count, struct iocb **requests)
{
    for (long i = 0; i < count; i++) {
        const struct iocb *request = requests[i];
        uint64_t length = request->aio_nbytes;
        if (request->aio_lio_opcode == IOCB_CMD_PWRITEV)
            length = bytes_of((const struct iovec *)request->aio_buf, (int)request->aio_nbytes);
        else if (request->aio_lio_opcode != IOCB_CMD_PWRITE)
            continue;
        release(begin((int)request->aio_fildes, (uint64_t)request->aio_offset, length));
    }
    /* libaio's own form: the error is the answer. */
    return (int)call(__NR_io_submit, (long)context, count, (long)requests, 0, 0, 0);
}

/* What a new size cuts off, or that it grows. */
static size_t begin_resize(int fd, uint64_t size)
{
    struct file file;
    if (!attached || !look(fd, &file) || file.size == size)
        return SLOTS;
    return file.size > size ? begin(fd, size, file.size - size) : begin(fd, file.size, size - file.size);
}

EXPORTED int ftruncate64(int fd, int64_t size)
{
    size_t slot = begin_resize(fd, (uint64_t)size);
    return (int)end(slot, slot == REFUSED ? -NO_SPACE : call(__NR_ftruncate, fd, size, 0, 0, 0, 0));
}

EXPORTED int ftruncate(int fd, int64_t size)
{
    return ftruncate64(fd, size);
}

/* Room that is kept for a file may make it longer, or (a hole, zeroes) take what stands there. */
static long allocate(int fd, int mode, int64_t offset, int64_t length)
{
    struct file file;
    size_t slot = SLOTS;
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
        slot = begin(fd, (uint64_t)offset, (uint64_t)length);
    else if (mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE))
        slot = begin(fd, (uint64_t)offset, UINT64_MAX / 2 - (uint64_t)offset);
    else if (!(mode & FALLOC_FL_KEEP_SIZE) && attached && look(fd, &file)
             && (uint64_t)(offset + length) > file.size)
        slot = begin(fd, file.size, (uint64_t)(offset + length) - file.size);
    long answer = slot == REFUSED ? -NO_SPACE : call(__NR_fallocate, fd, mode, offset, length, 0, 0);
    release(slot);
    return answer;
}

EXPORTED int fallocate64(int fd, int mode, int64_t offset, int64_t length)
{
    return (int)answer_of(allocate(fd, mode, offset, length));
}

EXPORTED int fallocate(int fd, int mode, int64_t offset, int64_t length)
{
    return fallocate64(fd, mode, offset, length);
}

/* Answers the error's number and leaves errno alone (POSIX). */
EXPORTED int posix_fallocate64(int fd, int64_t offset, int64_t length)
{
    return (int)-allocate(fd, 0, offset, length);
}

EXPORTED int posix_fallocate(int fd, int64_t offset, int64_t length)
{
    return posix_fallocate64(fd, offset, length);
}

/* A file that is opened to be emptied is opened first and emptied then, so that what it held is kept. */
static int open_file(int directory, const char *path, int flags, unsigned mode)
{
    int empties = attached && attached->journal && flags & O_TRUNC && (flags & O_ACCMODE) != O_RDONLY;
    long fd = call(__NR_openat, directory, (long)path, empties ? flags & ~O_TRUNC : flags, mode, 0, 0);
    if (fd >= 0 && empties && ftruncate64((int)fd, 0) != 0) {
        /* A pipe or a device has no size. */
    }
    return (int)answer_of(fd);
}

#define MODE_OF(flags, mode) \
    unsigned mode = 0; \
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, unsigned); \
        va_end(more); \
    }

EXPORTED int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_file(AT_FDCWD, path, flags, mode);
}

EXPORTED int open(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_file(AT_FDCWD, path, flags, mode);
}

EXPORTED int openat64(int directory, const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_file(directory, path, flags, mode);
}

EXPORTED int openat(int directory, const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_file(directory, path, flags, mode);
}

EXPORTED int __open64_2(const char *path, int flags)
{
    return open_file(AT_FDCWD, path, flags, 0);
}

EXPORTED int __open_2(const char *path, int flags)
{
    return open_file(AT_FDCWD, path, flags, 0);
}

/* Of a file that goes, nothing is left to undo: its number may be another file's within the clock's tick that
 * times of birth are read from. */
static void forget(const char *path)
{
    struct file file;
    if (!attached || !attached->journal)
        return;
    long fd = call(__NR_openat, AT_FDCWD, (long)path, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0, 0, 0);
    if (fd < 0)
        return;
    struct statx about;
    if (call(__NR_statx, fd, (long)"", AT_EMPTY_PATH, STATX_NLINK, (long)&about, 0) == 0 && about.stx_nlink == 1
        && look((int)fd, &file) && keeps(&file)) {
        size_t index = take_slot(&file, 0);
        if (index < SLOTS) {
            let_go(index, UINT64_MAX);
            release(index);
        }
    }
    call(__NR_close, fd, 0, 0, 0, 0, 0);
}

EXPORTED int unlink(const char *path)
{
    forget(path);
    return (int)answer_of(call(__NR_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0));
}

EXPORTED int rename(const char *from, const char *to)
{
    forget(to);
    return (int)answer_of(call(__NR_renameat2, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 0, 0));
}
