/* A disk that fails, is slow, or loses what was not synced: preloaded into a node.
 *
 * LEASEHOLD_CHAOS_DISK names a file that is read at every sync: "fail" makes it fail with EIO, "slow N" makes it take N ms
 * longer, anything else leaves it alone. LEASEHOLD_CHAOS_UNSYNCED names a file that lists what was written to log segments
 * and not synced yet, a line each: offset, length, path. Whoever pulls the plug takes that away.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* More than a group commit writes at once. Beyond, writes are not listed: they are taken for synced. */
#define UNSYNCED_MAX 4096

struct range {
    int fd;
    long long offset;
    unsigned long long length;
    char path[256];
};

static struct range unsynced[UNSYNCED_MAX];
static int unsynced_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int list_file(void)
{
    static int file = -1;
    const char *path = getenv("LEASEHOLD_CHAOS_UNSYNCED");
    if (file < 0 && path)
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_TRUNC, 0644);
    return file;
}

/* Renews the list. Written in one piece: whoever reads it after a kill sees the old list or the new one. */
static void write_list(void)
{
    static char text[UNSYNCED_MAX * 64];
    size_t end = 0;
    int file = list_file();
    if (file < 0)
        return;
    for (int place = 0; place < unsynced_count && end + 400 < sizeof text; place++) {
        struct range *one = &unsynced[place];
        end += (size_t)sprintf(text + end, "%lld %llu %s\n", one->offset, one->length, one->path);
    }
    syscall(SYS_pwrite64, file, text, end, 0L);
    syscall(SYS_ftruncate, file, (long)end);
}

static void note_write(int fd, unsigned long long length, long long offset)
{
    char link[64], path[256];
    if (list_file() < 0)
        return;
    sprintf(link, "/proc/self/fd/%d", fd);
    long size = readlink(link, path, sizeof path - 1);
    if (size < 5 || memcmp(path + size - 4, ".seg", 4) != 0)
        return;
    path[size] = 0;
    pthread_mutex_lock(&lock);
    if (unsynced_count < UNSYNCED_MAX) {
        struct range *one = &unsynced[unsynced_count++];
        one->fd = fd;
        one->offset = offset;
        one->length = length;
        memcpy(one->path, path, (size_t)size + 1);
        write_list();
    }
    pthread_mutex_unlock(&lock);
}

static void note_sync(int fd)
{
    int kept = 0;
    pthread_mutex_lock(&lock);
    for (int place = 0; place < unsynced_count; place++)
        if (unsynced[place].fd != fd)
            unsynced[kept++] = unsynced[place];
    if (kept != unsynced_count) {
        unsynced_count = kept;
        write_list();
    }
    pthread_mutex_unlock(&lock);
}

/* Whether a sync is to fail; waits first if it is to be slow. */
static int is_to_fail(void)
{
    char word[32] = "";
    const char *path = getenv("LEASEHOLD_CHAOS_DISK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        if (read(file, word, sizeof word - 1) < 0)
            word[0] = 0;
        close(file);
    }
    if (strncmp(word, "slow ", 5) == 0) {
        long ms = atol(word + 5);
        struct timespec wait = { ms / 1000, ms % 1000 * 1000000 };
        nanosleep(&wait, NULL);
    }
    return strncmp(word, "fail", 4) == 0;
}

static int synced(int fd, long call)
{
    if (is_to_fail()) {
        errno = EIO;
        return -1;
    }
    long result = syscall(call, fd);
    if (result == 0)
        note_sync(fd);
    return (int)result;
}

int fdatasync(int fd)
{
    return synced(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return synced(fd, SYS_fsync);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    note_write(fd, length, offset);
    return syscall(SYS_pwrite64, fd, bytes, length, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    return pwrite64(fd, bytes, length, offset);
}
