/*
 * Makes the disk of user-mode Linux one with a cache of its own, as real ones have: what was written and flushed
 * is noted in the order in which it came, so that volatile.py can make of it what a power cut would have left.
 *
 * DISK is the image, DISK_LOG where it is noted: for each write its offset and length in 8 bytes each, of this
 * machine's order, and its data; for each flush an offset of ~0 and no data. The image itself always holds
 * everything that was written; nothing is really flushed.
 *
 * Of a flush Linux 6.1 in user space makes nothing at all: its kernel hands the request to its thread for disks, which
 * does the pieces of a request one by one, and a flush has none. So a flush is what that thread is handed without
 * pieces. Should another version do it otherwise no flush is noted, everything counts as lost, and the tests fail.
 *
 * Loaded into linux.uml by kernel-client.sh (LD_PRELOAD).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FLUSH UINT64_MAX

/* The thread that writes to the disk. */
static long disk_thread;

static int is_disk(int fd)
{
	struct stat disk, this;
	const char *path = getenv("DISK");

	return path && !fstat(fd, &this) && !stat(path, &disk) &&
	       this.st_dev == disk.st_dev && this.st_ino == disk.st_ino;
}

/* One append each, so that who copies the log finds whole records. */
static void note(uint64_t at, const void *data, size_t len)
{
	static int log = -1;
	uint64_t head[2] = { at, len };
	struct iovec record[2] = { { head, sizeof head }, { (void *)data, len } };

	if (log < 0)
		log = open(getenv("DISK_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (writev(log, record, 2) != (ssize_t)(sizeof head + len))
		abort(); /* a disk that forgets what it was told proves nothing */
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
	static ssize_t (*real)(int, const void *, size_t, off64_t);

	if (!real)
		real = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
	ssize_t done = real(fd, data, len, at);
	if (done > 0 && is_disk(fd)) {
		disk_thread = syscall(SYS_gettid);
		note((uint64_t)at, data, (size_t)done);
	}
	return done;
}

/* The beginning of what the thread for disks is handed a pointer to: struct io_thread_req. */
struct handed {
	void *request;
	int fds[2];
	unsigned long offsets[2];
	unsigned long long offset;
	int sector_bytes;
	int error;
	int pieces;
};

static int is_flush(const struct handed *handed)
{
	return handed->pieces == 0 && handed->sector_bytes == 512 && is_disk(handed->fds[0]);
}

/*
 * The thread for disks gets requests. What a flush covers is what was done before it was handed over, so that it
 * counts before all that came with it.
 */
ssize_t read(int fd, void *data, size_t len)
{
	ssize_t got = syscall(SYS_read, fd, data, len);
	const struct handed **handed = data;

	if (got > 0 && got % sizeof *handed == 0 && syscall(SYS_gettid) == disk_thread)
		for (size_t n = 0; n < got / sizeof *handed; n++)
			if (is_flush(handed[n]))
				note(FLUSH, 0, 0);
	return got;
}

/* It cannot discard: that would be one more thing to note. */
int fallocate64(int fd, int mode, off64_t at, off64_t len)
{
	if (!is_disk(fd))
		return ((int (*)(int, int, off64_t, off64_t))dlsym(RTLD_NEXT, "fallocate64"))(fd, mode, at, len);
	errno = EOPNOTSUPP;
	return -1;
}
