/*
 * Lets user-mode Linux run where a processor has more registers than its kernel knows (AMX: 8 KiB of them).
 *
 * The host's kernel sets a process's extended registers only from a buffer that is as long as all of them,
 * and Linux 6.1 in user space has room for the first 2.7 KiB: no process of its own would ever start. So its
 * PTRACE_SETREGSET is lengthened with zeros, which for registers that a process has not asked for is what they
 * hold. Reading is cut short by the kernel itself, and needs nothing.
 *
 * Loaded into linux.uml by kernel-client.sh (LD_PRELOAD).
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

typedef long (*ptrace_fn)(int, pid_t, void *, void *);

/* How many bytes of extended registers a process has; 0 if the kernel does not say. */
static size_t bytes_of_all(ptrace_fn real, pid_t pid)
{
	static char all[ALL_MAX];
	struct iovec place = { all, sizeof all };

	return real(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &place) ? 0 : place.iov_len;
}

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_fn real;
	static size_t all_bytes;
	static char whole[ALL_MAX];
	va_list args;

	if (!real)
		real = (ptrace_fn)dlsym(RTLD_NEXT, "ptrace");
	va_start(args, request);
	pid_t pid = va_arg(args, pid_t);
	void *addr = va_arg(args, void *);
	void *data = va_arg(args, void *);
	va_end(args);
	if (request != PTRACE_SETREGSET || addr != (void *)NT_X86_XSTATE)
		return real(request, pid, addr, data);
	if (!all_bytes)
		all_bytes = bytes_of_all(real, pid);
	const struct iovec *given = data;
	if (given->iov_len >= all_bytes)
		return real(request, pid, addr, data);
	memset(whole, 0, all_bytes);
	memcpy(whole, given->iov_base, given->iov_len);
	struct iovec longer = { whole, all_bytes };
	return real(request, pid, addr, &longer);
}
