// A library to preload: hides the kernel's vDSO from the program. User-mode Linux 7.2 has one without __vdso_getcpu, which
// rustix (1.1.6) takes for impossible.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

__attribute__((constructor)) static void hide(void) {
  unsigned long all[256];
  size_t kept = 0;
  int file = open("/proc/self/auxv", O_RDONLY);
  ssize_t len = read(file, all, sizeof all);
  close(file);
  for (ssize_t at = 0; (at + 2) * (ssize_t)sizeof *all <= len; at += 2) {
    if (all[at] == AT_SYSINFO_EHDR) continue;
    all[kept++] = all[at];
    all[kept++] = all[at + 1];
  }
  if (prctl(PR_SET_MM, PR_SET_MM_AUXV, all, kept * sizeof *all, 0)) perror("vdso.c");
}
