/*
 * Extended registers of processes in user-mode Linux: two changes to the ptrace(2) of its kernel.
 *
 * It runs where a processor has more registers than its kernel knows (AMX: 8 KiB of them). The host's kernel sets a process's extended
 * registers only from a buffer that is as long as all of them, and Linux 6.1 in user space has room for the first 2.7 KiB: no process of
 * its own would ever start. So its PTRACE_SETREGSET is lengthened with zeros, which for registers that a process has not asked for is
 * what they hold. Reading is cut short by the kernel itself, and needs nothing.
 *
 * It neither sets registers that are set nor reads what it has read. After each system call and page fault of a process its kernel reads
 * the extended registers, at a page fault twice, and before the process goes on it sets them to what it has read, unless another thread
 * goes on or a signal handler begins. These requests are the dearest of all, as the host's kernel allocates memory for them. So what a
 * process was last known to hold is remembered until the process runs.
 *
 * Loaded into linux.uml by kernel-client.sh (LD_PRELOAD). Its kernel is one thread that calls ptrace.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Bytes of all extended registers that this knows to lengthen to; more than any processor has. */
#define ALL_MAX (64 << 10)

/* Processes whose registers are remembered, and how many bytes of each: as many as the kernel in user space has room for. */
#define KNOWN 256
#define KNOWN_BYTES 4096

typedef long (*ptrace_fn)(int, pid_t, void *, void *);

/* What a stopped process holds, if `len` is not 0; read into a buffer of so many bytes, if `room` is not 0. */
static struct known {
	pid_t pid;
	size_t len, room;
	char registers[KNOWN_BYTES];
} known[KNOWN];

static struct known *known_of(pid_t pid)
{
	return &known[(unsigned int)pid % KNOWN];
}

static void remember(pid_t pid, const void *registers, size_t len, size_t room)
{
	struct known *k = known_of(pid);

	k->pid = pid;
	k->room = room;
	k->len = len <= KNOWN_BYTES ? len : 0;
	memcpy(k->registers, registers, k->len);
}

static int holds(pid_t pid, const void *registers, size_t len)
{
	const struct known *k = known_of(pid);

	return k->pid == pid && len != 0 && k->len == len && !memcmp(k->registers, registers, len);
}

/* How many bytes of extended registers a process has; 0 if the kernel does not say. */
static size_t bytes_of_all(ptrace_fn real, pid_t pid)
{
	static char all[ALL_MAX];
	struct iovec place = { all, sizeof all };

	return real(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &place) ? 0 : place.iov_len;
}

static long set_registers(ptrace_fn real, pid_t pid, const struct iovec *given)
{
	static size_t all_bytes;
	static char whole[ALL_MAX];

	if (!all_bytes)
		all_bytes = bytes_of_all(real, pid);
	size_t len = given->iov_len;
	if (all_bytes && len > all_bytes)
		len = all_bytes;
	if (holds(pid, given->iov_base, len))
		return 0;
	struct iovec set = { given->iov_base, len };
	if (len < all_bytes) {
		memset(whole, 0, all_bytes);
		memcpy(whole, given->iov_base, len);
		set = (struct iovec){ whole, all_bytes };
	}
	long result = real(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &set);
	if (result == 0)
		remember(pid, given->iov_base, len, 0);
	return result;
}

static long read_registers(ptrace_fn real, pid_t pid, struct iovec *place)
{
	const struct known *k = known_of(pid);
	size_t room = place->iov_len;

	if (k->pid == pid && k->len != 0 && k->room == room) {
		memcpy(place->iov_base, k->registers, k->len);
		place->iov_len = k->len;
		return 0;
	}
	long result = real(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, place);
	if (result == 0)
		remember(pid, place->iov_base, place->iov_len, room);
	return result;
}

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_fn real;
	va_list args;

	if (!real)
		real = (ptrace_fn)dlsym(RTLD_NEXT, "ptrace");
	va_start(args, request);
	pid_t pid = va_arg(args, pid_t);
	void *addr = va_arg(args, void *);
	void *data = va_arg(args, void *);
	va_end(args);
	if (request == PTRACE_SETREGSET && addr == (void *)NT_X86_XSTATE)
		return set_registers(real, pid, data);
	if (request == PTRACE_GETREGSET && addr == (void *)NT_X86_XSTATE)
		return read_registers(real, pid, data);
	long result = real(request, pid, addr, data);
	switch ((int)request) {
	case PTRACE_GETREGS:
	case PTRACE_SETREGS:
	case PTRACE_GETSIGINFO:
		break;
	case PTRACE_CONT:
		/* without a signal it runs the kernel's own code in the process, which makes system calls and uses no such registers */
		if (!data)
			break;
		/* fallthrough */
	default:
		if (known_of(pid)->pid == pid)
			known_of(pid)->len = 0;
	}
	return result;
}
