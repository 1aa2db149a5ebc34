/* Loaded into a node that is about to lose its power: writes down, in order, what happens to the
 * log's file. A power cut at any moment can then be played: what was synced stays, of the rest any
 * subset of pages does.
 *
 * Journal: records of `type u8 | id u64 | offset u64 | length u64 | data`, native byte order.
 * W write (before it happens), S sync begins, E sync has returned, T truncate, A line of the
 * acknowledgements.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 4096
enum { OTHER = 0, LOG = 1, ACKS = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char kind_of[FILES];
static int journal = -1;
static uint64_t next_id = 1;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static int (*real_fdatasync)(int);
static int (*real_fsync)(int);
static int (*real_ftruncate)(int, off64_t);
static int (*real_open)(const char *, int, ...);
static int (*real_close)(int);

__attribute__((constructor)) static void begin(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_open = dlsym(RTLD_NEXT, "open64");
    real_close = dlsym(RTLD_NEXT, "close");
    const char *path = getenv("RAFT_SHIM_JOURNAL");
    if (path) journal = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static int ends(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static int kind(int fd) { return fd >= 0 && fd < FILES ? kind_of[fd] : OTHER; }

static uint64_t note(char type, uint64_t id, uint64_t offset, const void *data, uint64_t length) {
    if (journal < 0) return 0;
    pthread_mutex_lock(&lock);
    if (id == 0) id = next_id++;
    unsigned char head[25];
    head[0] = (unsigned char)type;
    memcpy(head + 1, &id, 8);
    memcpy(head + 9, &offset, 8);
    memcpy(head + 17, &length, 8);
    struct iovec parts[2] = {{head, sizeof head}, {(void *)data, data ? length : 0}};
    if (writev(journal, parts, 2) < 0) abort();
    pthread_mutex_unlock(&lock);
    return id;
}

static int opened(const char *path, int fd) {
    if (fd >= 0 && fd < FILES) {
        kind_of[fd] = ends(path, "/log/db") ? LOG : ends(path, "/acks") ? ACKS : OTHER;
    }
    return fd;
}

int open64(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return opened(path, real_open(path, flags, mode));
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return opened(path, real_open(path, flags, mode));
}

int close(int fd) {
    if (fd >= 0 && fd < FILES) kind_of[fd] = OTHER;
    return real_close(fd);
}

ssize_t write(int fd, const void *data, size_t length) {
    if (kind(fd) == ACKS) note('A', 0, 0, data, length);
    return real_write(fd, data, length);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    if (kind(fd) == LOG) note('W', 0, (uint64_t)offset, data, length);
    return real_pwrite(fd, data, length, offset);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    return pwrite64(fd, data, length, offset);
}

static int synced(int fd, int (*sync)(int)) {
    uint64_t id = kind(fd) == LOG ? note('S', 0, 0, NULL, 0) : 0;
    int result = sync(fd);
    if (id && result == 0) note('E', id, 0, NULL, 0);
    return result;
}

int fdatasync(int fd) { return synced(fd, real_fdatasync); }
int fsync(int fd) { return synced(fd, real_fsync); }

int ftruncate64(int fd, off64_t length) {
    if (kind(fd) == LOG) note('T', 0, (uint64_t)length, NULL, 0);
    return real_ftruncate(fd, length);
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
