/* Goes in front of mysqld's fsync and fdatasync (LD_PRELOAD): counts them by the kind of file, and
 * makes each take longer by what the node's agent wrote into a page that both map. undojournal.c, in the
 * same library, keeps what a power cut would lose, where that is asked for.
 *
 * Laws: the real call is made first and its answer is the answer; the delay comes before the count;
 * no lock is ever waited for here; whatever is missing or refused leaves the plain call, never a server
 * that does not start. Raw system calls only, so that one file loads into old and new images: the one
 * name that it needs of the C library is __errno_location, in whatever version that is there.
 */
#include <linux/prctl.h>

#include "shim.h"

#define LONGEST_DELAY_US 60000000u

struct page *attached;

static long read_link(const char *path, char *text, size_t room)
{
    long length = call(__NR_readlinkat, AT_FDCWD, (long)path, (long)text, (long)room - 1, 0, 0);
    if (length >= 0)
        text[length] = 0;
    return length;
}

static size_t length_of(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

static int begins(const char *text, const char *with)
{
    while (*with)
        if (*text++ != *with++)
            return 0;
    return 1;
}

static int has(const char *text, const char *part)
{
    for (; *text; text++)
        if (begins(text, part))
            return 1;
    return 0;
}

static int ends(const char *text, const char *with)
{
    size_t length = length_of(text), tail = length_of(with);
    return length >= tail && begins(text + length - tail, with);
}

/* `name.000001` and on: a file of a log, with at least six digits. */
static int is_numbered(const char *name)
{
    const char *end = name + length_of(name);
    size_t digits = 0;
    while (end > name && end[-1] >= '0' && end[-1] <= '9')
        end--, digits++;
    return digits >= 6 && end > name + 1 && end[-1] == '.';
}

/* What a file is, by its path; log_bin and relay_log are named in my.cnf, InnoDB's names are fixed.
 * The index of a log is first written as `NAME.index_crash_safe`, then renamed. */
static enum kind kind_of_path(char *path)
{
    static const char deleted[] = " (deleted)";
    if (ends(path, deleted))
        path[length_of(path) - (sizeof deleted - 1)] = 0;
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (*at == '/')
            name = at + 1;
    if (has(path, "/#innodb_redo/") || begins(name, "ib_logfile"))
        return REDO;
    if (has(name, ".index"))
        return INDEX;
    if (is_numbered(name)) {
        if (has(name, "relay"))
            return RELAY;
        if (begins(name, "binlog.") || has(name, "-bin."))
            return BINLOG;
    }
    if (ends(name, ".ibd") || ends(name, ".ibu") || ends(name, ".ibt") || begins(name, "ibdata")
        || begins(name, "ibtmp") || begins(name, "undo_"))
        return DATA;
    return OTHER;
}

/* The path of a descriptor, in the room given: its length, or an error's negative number. */
static long path_of(int fd, char *path, size_t room)
{
    char link[32] = "/proc/self/fd/";
    char *at = link + length_of(link), digits[12];
    size_t count = 0;
    unsigned number = (unsigned)fd;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count)
        *at++ = digits[--count];
    *at = 0;
    return read_link(link, path, room);
}

/* What was learned of files, so that a path is looked up once a file and not once an fsync. A file is
 * known by its time of birth too, since an inode's number is used again; that time is as coarse as the
 * kernel's tick, so nothing is kept of a file so young that another could have had the number within it.
 * Four places a row; a row that another thread holds is not waited for: the path is looked up instead. */
#define YOUNG_NS 1000000000u
#define ROWS 256
#define PLACES 4

struct known {
    uint64_t device, inode, birth_ns;
    enum kind kind;
    int used;
};

static struct row {
    int busy;
    unsigned next;
    struct known place[PLACES];
} rows[ROWS];

static int take(struct row *row)
{
    return __atomic_exchange_n(&row->busy, 1, __ATOMIC_ACQUIRE) == 0;
}

static void leave(struct row *row)
{
    __atomic_store_n(&row->busy, 0, __ATOMIC_RELEASE);
}

static struct known *find(struct row *row, const struct known *file)
{
    for (size_t i = 0; i < PLACES; i++) {
        struct known *place = &row->place[i];
        if (place->used && place->inode == file->inode && place->device == file->device
            && place->birth_ns == file->birth_ns)
            return place;
    }
    return NULL;
}

static enum kind kind_of_name(int fd, int *sure)
{
    char path[1024];
    *sure = path_of(fd, path, sizeof path) >= 0;
    return *sure ? kind_of_path(path) : OTHER;
}

/* The kind of a file, from what was learned before or else from its name. */
static void remember(int fd, struct file *seen)
{
    struct known file = {seen->device, seen->inode, seen->birth_ns, OTHER, 1};
    uint64_t mixed = (file.inode ^ file.birth_ns ^ file.device) * 0x9e3779b97f4a7c15u;
    struct row *row = &rows[mixed >> 56];
    int sure;

    if (take(row)) {
        struct known *place = find(row, &file);
        if (place)
            seen->kind = place->kind;
        leave(row);
        if (place)
            return;
    }
    file.kind = seen->kind = kind_of_name(fd, &sure);
    if (sure && clock_ns(CLOCK_REALTIME) > file.birth_ns + YOUNG_NS && take(row)) {
        if (!find(row, &file))
            row->place[row->next++ % PLACES] = file;
        leave(row);
    }
}

int look(int fd, struct file *seen)
{
    struct statx about;
    int sure;
    if (call(__NR_statx, fd, (long)"", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
             STATX_TYPE | STATX_INO | STATX_BTIME | STATX_SIZE, (long)&about, 0) != 0) {
        seen->kind = kind_of_name(fd, &sure);
        return 0;
    }
    int dated = (about.stx_mask & STATX_BTIME) != 0;
    seen->device = (uint64_t)about.stx_dev_major << 32 | about.stx_dev_minor;
    seen->inode = about.stx_ino;
    seen->birth_ns = dated ? (uint64_t)about.stx_btime.tv_sec * 1000000000u + about.stx_btime.tv_nsec : 0;
    seen->size = about.stx_size;
    seen->regular = (about.stx_mode & TYPE_MASK) == TYPE_FILE;
    seen->kind = OTHER;
    if ((about.stx_mode & TYPE_MASK) == TYPE_DIRECTORY)
        seen->kind = DIRECTORY;
    else if (!dated)
        seen->kind = kind_of_name(fd, &sure);
    else
        remember(fd, seen);
    return 1;
}

/* A random number (splitmix64); the sum is shared, so that no two threads draw the same. */
static uint64_t drawn(void)
{
    static uint64_t last;
    uint64_t mixed = __atomic_add_fetch(&last, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED) ^ clock_ns(CLOCK_MONOTONIC);
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

/* About normal with mean 0 and standard deviation 65536: the sum of twelve uniform numbers of 16 bits. */
static int64_t deviation(void)
{
    int64_t sum = -6 * 65535;
    for (int i = 0; i < 3; i++)
        for (uint64_t bits = drawn(), taken = 0; taken < 4; taken++, bits >>= 16)
            sum += (int64_t)(bits & 0xffff);
    return sum;
}

static uint64_t limited(uint64_t us)
{
    return us < LONGEST_DELAY_US ? us : LONGEST_DELAY_US;
}

/* The delay that is asked now, for a call that is off its mean by `by` (see deviation()). */
static uint64_t asked_ns(const struct figures *of, int64_t by)
{
    int64_t us = (int64_t)limited(__atomic_load_n(&of->delay_us, __ATOMIC_RELAXED));
    us += (int64_t)limited(__atomic_load_n(&of->jitter_us, __ATOMIC_RELAXED)) * by / 65536;
    return us > 0 ? limited((uint64_t)us) * 1000 : 0;
}

/* Waits from `began_ns` for as long as is asked; the time that it took. The sleep is cut into slices, after
 * which the page is read again: a delay that falls lets go whoever waits, one that rises holds those
 * that come later. The timer's slack (50 us by default) would be added to every sleep. */
#define SLICE_NS 5000000u

static uint64_t wait_as_asked(const struct figures *of, uint64_t began_ns)
{
    int64_t by = __atomic_load_n(&of->jitter_us, __ATOMIC_RELAXED) ? deviation() : 0;
    uint64_t hold_ns = asked_ns(of, by), now_ns = began_ns;
    if (!hold_ns)
        return 0;
    long slack_ns = call(__NR_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0, 0);
    if (slack_ns > 1)
        call(__NR_prctl, PR_SET_TIMERSLACK, 1, 0, 0, 0, 0);
    while (now_ns < began_ns + hold_ns) {
        uint64_t until_ns = began_ns + hold_ns;
        if (until_ns - now_ns > SLICE_NS)
            until_ns = now_ns + SLICE_NS;
        struct __kernel_timespec until = {(long long)(until_ns / 1000000000u),
                                          (long long)(until_ns % 1000000000u)};
        long answer = call(__NR_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)&until, 0, 0, 0);
        now_ns = clock_ns(CLOCK_MONOTONIC);
        if (answer != 0 && answer != -INTERRUPTED)
            break;
        uint64_t hold_now_ns = asked_ns(of, by);
        if (hold_now_ns < hold_ns)
            hold_ns = hold_now_ns;
    }
    if (slack_ns > 1)
        call(__NR_prctl, PR_SET_TIMERSLACK, slack_ns, 0, 0, 0, 0);
    return now_ns - began_ns;
}

static int synced(long number, int fd)
{
    struct file file;
    if (!attached)
        return (int)answer_of(call(number, fd, 0, 0, 0, 0, 0));
    uint64_t sealed = look(fd, &file) ? journal_seal(&file) : 0;
    uint64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    long answer = call(number, fd, 0, 0, 0, 0, 0);
    if (answer < 0)
        return (int)answer_of(answer);
    uint64_t done_ns = clock_ns(CLOCK_MONOTONIC);
    struct figures *of = &attached->of[file.kind];
    uint64_t waited_ns = wait_as_asked(of, done_ns);
    if (sealed)
        journal_synced(&file, sealed);
    add(&of->fsync_ns, done_ns - began_ns);
    if (waited_ns)
        add(&of->delayed_ns, waited_ns);
    add(&of->fsyncs, 1);
    return 0;
}

EXPORTED int fsync(int fd)
{
    return synced(__NR_fsync, fd);
}

EXPORTED int fdatasync(int fd)
{
    return synced(__NR_fdatasync, fd);
}

/* The page's path, from the environment as the program was started with it; not every C library
 * hands it to a constructor. */
static int page_path(char *path, size_t room)
{
    static const char variable[] = "RX_DISK_PAGE=";
    char text[512];
    size_t matched = 0, length = 0;
    int skip = 0, found = 0;
    long fd = call(__NR_openat, AT_FDCWD, (long)"/proc/self/environ", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return 0;
    for (long got; !found && (got = call(__NR_read, fd, (long)text, sizeof text, 0, 0, 0)) > 0;) {
        for (long i = 0; i < got && !found; i++) {
            if (!text[i]) {
                found = !skip && matched == sizeof variable - 1 && length;
                matched = skip = 0;
                length = found ? length : 0;
            } else if (skip) {
                continue;
            } else if (matched < sizeof variable - 1) {
                skip = text[i] != variable[matched++];
            } else if (length + 1 < room) {
                path[length++] = text[i];
            } else {
                skip = 1;
            }
        }
    }
    call(__NR_close, fd, 0, 0, 0, 0, 0);
    path[length] = 0;
    return found;
}

/* Only the open file description that holds the lock counts: it goes with the process, however that
 * ends, and a second mysqld on the same volume stays out. */
static int lock(long fd)
{
    struct flock whole = {.l_type = F_WRLCK};
    return call(__NR_fcntl, fd, F_OFD_SETLK, (long)&whole, 0, 0, 0) == 0;
}

/* A page that is new, or of another layout, is written in full: a hole in it could turn a full disk
 * into a fault of mysqld's. Its file never shrinks below a page, since the agent maps it. */
static int lay_out(long fd)
{
    static struct page blank;
    uint64_t head[3];
    struct statx about;
    if (call(__NR_statx, fd, (long)"", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE, (long)&about, 0) != 0
        || (about.stx_mode & TYPE_MASK) != TYPE_FILE)
        return 0;
    if (about.stx_size == PAGE_BYTES
        && call(__NR_pread64, fd, (long)head, sizeof head, 0, 0, 0) == sizeof head
        && head[0] == PAGE_MAGIC && head[1] == PAGE_VERSION && head[2] == PAGE_BYTES)
        return 1;
    blank.magic = PAGE_MAGIC;
    blank.version = PAGE_VERSION;
    blank.bytes = PAGE_BYTES;
    return call(__NR_pwrite64, fd, (long)&blank, PAGE_BYTES, 0, 0, 0) == PAGE_BYTES
        && call(__NR_ftruncate, fd, PAGE_BYTES, 0, 0, 0, 0) == 0;
}

static struct page *page_of(long fd)
{
    /* The agent is another user, and mysqld's umask is nobody's business here. */
    call(__NR_fchmod, fd, 0666, 0, 0, 0, 0);
    if (!lay_out(fd))
        return NULL;
    long at = call(__NR_mmap, 0, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at < 0 && at > -4096 ? NULL : (struct page *)at;
}

__attribute__((constructor)) static void attach(void)
{
    char path[1024];
    if (read_link("/proc/self/exe", path, sizeof path) < 0 || !(ends(path, "/mysqld") || ends(path, "/mariadbd"))
        || !page_path(path, sizeof path))
        return;
    long fd = call(__NR_openat, AT_FDCWD, (long)path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666, 0, 0);
    if (fd < 0)
        return;
    if (fd < 3) { /* what mysqld takes for its standard streams it writes to */
        long higher = call(__NR_fcntl, fd, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
        call(__NR_close, fd, 0, 0, 0, 0, 0);
        if ((fd = higher) < 0)
            return;
    }
    struct page *page = lock(fd) ? page_of(fd) : NULL;
    if (!page) {
        call(__NR_close, fd, 0, 0, 0, 0, 0);
        return;
    }
    __atomic_store_n(&page->attached_ns, clock_ns(CLOCK_REALTIME), __ATOMIC_RELAXED);
    add(&page->attaches, 1);
    attached = page;
    journal_attach(path);
}
