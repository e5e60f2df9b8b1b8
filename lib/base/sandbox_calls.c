/* sandbox_calls.c - the list of system calls that a sandbox keeps, and the seccomp filter that is made of it.
 *
 * A row is a call, the group that keeps it, and up to two conditions on its arguments. A call may have several rows: one that
 * is met is enough. Calls without a met row fail with EPERM, so that the C library and drivers can do without them. */
#include "lib/base/sandbox_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* Calls that are newer than the headers of some distributions; the numbers are the same on all processors. */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* ---- conditions on arguments ----------------------------------------------------------------- */

typedef enum test_kind {
    ALWAYS,
    EQUALS, /* the argument, an int, is `bits` */
    LACKS,  /* it has none of the bits */
    HAS,    /* it has all of them */
    MASKED, /* its bits below 16 are `bits`: a type of sockets without its flags */
    OWN,    /* it is this process */
    NONE    /* it is a null pointer */
} test_kind;

typedef struct argument_test {
    test_kind kind;
    int argument;
    uint32_t bits;
} argument_test;

typedef struct call_row {
    int number;
    unsigned group; /* zt_sandbox_keep; 0: always kept */
    argument_test tests[2];
} call_row;

#define WRITES   ZT_SANDBOX_KEEP_WRITES
#define SERVER   ZT_SANDBOX_KEEP_SERVER
#define CLIENT   ZT_SANDBOX_KEEP_CLIENT
#define DEVICE   ZT_SANDBOX_KEEP_DEVICE
#define PROGRAMS ZT_SANDBOX_KEEP_PROGRAMS
#define RANKS    ZT_SANDBOX_KEEP_RANKS
#define COUNTERS ZT_SANDBOX_KEEP_COUNTERS

#define CALL(name)                                  {.number = SYS_##name},
#define CALL_OF(keep, name)                         {.number = SYS_##name, .group = keep},
#define CALL_IF(name, test_1)                       {.number = SYS_##name, .tests = {test_1}},
#define CALL_OF_IF(keep, name, test_1)              {.number = SYS_##name, .group = keep, .tests = {test_1}},
#define CALL_OF_IF_BOTH(keep, name, test_1, test_2) {.number = SYS_##name, .group = keep, .tests = {test_1, test_2}},
#define IS(kind_, argument_, bits_)                                                                                              \
    {                                                                                                                            \
        .kind = kind_, .argument = argument_, .bits = bits_                                                                      \
    }

/* Threads, but not processes. */
#define THREAD (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND)
/* Files are opened for reading only, where there is no output. */
#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

/* ---- the list -------------------------------------------------------------------------------- */

/* clang-format off */
static const call_row kept[] = {
    /* open files */
    CALL(read) CALL(write) CALL(readv) CALL(writev) CALL(pread64) CALL(pwrite64) CALL(preadv) CALL(pwritev) CALL(lseek) CALL(close)
    CALL(fstat) CALL(fstatfs) CALL(dup) CALL(dup3) CALL(fcntl) CALL(flock) CALL(fsync) CALL(fdatasync) CALL(ftruncate)
    CALL(fallocate) CALL(fadvise64) CALL(readahead) CALL(copy_file_range) CALL(sendfile) CALL(splice) CALL(tee) CALL(pipe2)
    CALL(ppoll) CALL(pselect6) CALL(getdents64)
#ifdef SYS_close_range
    CALL(close_range)
#endif
    /* names */
    CALL(newfstatat) CALL(statx) CALL(statfs) CALL(faccessat) CALL(faccessat2) CALL(readlinkat) CALL(getcwd) CALL(chdir)
    CALL_IF(openat, IS(LACKS, 2, CHANGES))
    /* terminals: their size and the modes of a line editor, but not TIOCSTI, which types */
    CALL_IF(ioctl, IS(EQUALS, 1, TCGETS)) CALL_IF(ioctl, IS(EQUALS, 1, TCSETS)) CALL_IF(ioctl, IS(EQUALS, 1, TCSETSW))
    CALL_IF(ioctl, IS(EQUALS, 1, TCSETSF)) CALL_IF(ioctl, IS(EQUALS, 1, TIOCGWINSZ)) CALL_IF(ioctl, IS(EQUALS, 1, TIOCGPGRP))
    CALL_IF(ioctl, IS(EQUALS, 1, FIONREAD)) CALL_IF(ioctl, IS(EQUALS, 1, TIOCSWINSZ))
    /* memory; code comes from files only, as dlopen maps it */
    CALL(brk) CALL(munmap) CALL(mremap) CALL(madvise) CALL(mincore) CALL(msync) CALL(mlock) CALL(munlock) CALL(get_mempolicy)
    CALL_IF(mmap, IS(LACKS, 2, PROT_EXEC))
    {.number = SYS_mmap, .tests = {IS(LACKS, 2, PROT_WRITE), IS(LACKS, 3, MAP_ANONYMOUS)}},
    CALL_IF(mprotect, IS(LACKS, 2, PROT_EXEC))
    /* threads */
    CALL(exit) CALL(exit_group) CALL(futex) CALL(futex_waitv) CALL(set_robust_list) CALL(get_robust_list) CALL(set_tid_address)
    CALL(rseq) CALL(membarrier) CALL(gettid) CALL(sched_yield) CALL(sched_getaffinity) CALL(sched_setaffinity)
    CALL(sched_getscheduler) CALL(sched_getparam) CALL(sched_get_priority_max) CALL(sched_get_priority_min) CALL(getcpu)
    CALL_IF(clone, IS(HAS, 0, THREAD))
    CALL_IF(prctl, IS(EQUALS, 0, PR_SET_NAME)) CALL_IF(prctl, IS(EQUALS, 0, PR_GET_NAME))
    CALL_IF(prctl, IS(EQUALS, 0, 0x53564d41)) /* PR_SET_VMA: a name of a mapping */
    /* time */
    CALL(nanosleep) CALL(clock_nanosleep) CALL(clock_gettime) CALL(clock_getres) CALL(gettimeofday) CALL(times)
    CALL(getitimer) CALL(setitimer)
    /* this process */
    CALL(getpid) CALL(getppid) CALL(getuid) CALL(geteuid) CALL(getgid) CALL(getegid) CALL(getgroups) CALL(getpgid) CALL(getsid)
    CALL(getrusage) CALL(sysinfo) CALL(uname) CALL(getrandom) CALL(umask) CALL(getpriority) CALL(restart_syscall)
    CALL_IF(prlimit64, IS(NONE, 2, 0)) CALL(getrlimit)
    /* signals, to this process alone */
    CALL(rt_sigaction) CALL(rt_sigprocmask) CALL(rt_sigreturn) CALL(rt_sigpending) CALL(rt_sigsuspend) CALL(rt_sigtimedwait)
    CALL(sigaltstack)
    CALL_IF(kill, IS(OWN, 0, 0)) CALL_IF(tgkill, IS(OWN, 0, 0))
    /* outputs */
    CALL_OF(WRITES, openat) CALL_OF(WRITES, mkdirat) CALL_OF(WRITES, unlinkat) CALL_OF(WRITES, renameat) CALL_OF(WRITES, renameat2)
    CALL_OF(WRITES, linkat) CALL_OF(WRITES, fchmod) CALL_OF(WRITES, fchown) CALL_OF(WRITES, utimensat) CALL_OF(WRITES, getxattr)
    CALL_OF(WRITES, listxattr) CALL_OF(WRITES, fsetxattr) CALL_OF(WRITES, fremovexattr) CALL_OF(WRITES, sync_file_range)
    /* a server: sockets that others connect to; none that sends where it likes */
    CALL_OF_IF(SERVER, socket, IS(MASKED, 1, SOCK_STREAM)) CALL_OF(SERVER, bind) CALL_OF(SERVER, listen) CALL_OF(SERVER, accept)
    CALL_OF(SERVER, accept4) CALL_OF(SERVER, setsockopt) CALL_OF(SERVER, getsockopt) CALL_OF(SERVER, getsockname)
    CALL_OF(SERVER, getpeername) CALL_OF(SERVER, recvfrom) CALL_OF(SERVER, recvmsg) CALL_OF(SERVER, shutdown)
    CALL_OF_IF(SERVER, socketpair, IS(EQUALS, 0, AF_UNIX)) CALL_OF_IF_BOTH(SERVER, sendto, IS(LACKS, 3, MSG_FASTOPEN), IS(NONE, 4, 0))
    CALL_OF_IF(SERVER, sendmsg, IS(LACKS, 2, MSG_FASTOPEN)) CALL_OF(SERVER, eventfd2)
    CALL_OF(SERVER, epoll_create1) CALL_OF(SERVER, epoll_ctl) CALL_OF(SERVER, epoll_pwait)
    /* a client of HTTP: libcurl and the resolver of the C library */
    CALL_OF(CLIENT, socket) CALL_OF(CLIENT, connect) CALL_OF(CLIENT, bind) CALL_OF(CLIENT, setsockopt) CALL_OF(CLIENT, getsockopt)
    CALL_OF(CLIENT, getsockname) CALL_OF(CLIENT, getpeername) CALL_OF(CLIENT, recvfrom) CALL_OF(CLIENT, recvmsg)
    CALL_OF(CLIENT, recvmmsg) CALL_OF(CLIENT, sendto) CALL_OF(CLIENT, sendmsg) CALL_OF(CLIENT, sendmmsg) CALL_OF(CLIENT, shutdown)
    CALL_OF_IF(CLIENT, socketpair, IS(EQUALS, 0, AF_UNIX)) CALL_OF(CLIENT, eventfd2)
    CALL_OF(CLIENT, epoll_create1) CALL_OF(CLIENT, epoll_ctl) CALL_OF(CLIENT, epoll_pwait)
    /* the exceptions from `withheld`: local sockets of drivers, programs of their compilers, ranks of Open MPI */
    CALL_OF_IF(DEVICE, socket, IS(EQUALS, 0, AF_UNIX))
    CALL_OF(PROGRAMS, clone) CALL_OF(PROGRAMS, execve) CALL_OF(PROGRAMS, kill) CALL_OF(PROGRAMS, tgkill)
    CALL_OF(RANKS, socket) CALL_OF(RANKS, kill) CALL_OF(RANKS, process_vm_readv) CALL_OF(RANKS, process_vm_writev)
    /* counters of this process: of no other */
    CALL_OF_IF(COUNTERS, perf_event_open, IS(EQUALS, 1, 0))
    CALL_OF(COUNTERS, ioctl)
#ifdef __x86_64__ /* the older calls of this processor */
    CALL(stat) CALL(lstat) CALL(access) CALL(readlink) CALL(poll) CALL(select) CALL(pipe) CALL(dup2) CALL(getpgrp) CALL(time)
    CALL(alarm) CALL(pause) CALL(arch_prctl)
    CALL_IF(open, IS(LACKS, 1, CHANGES)) CALL_OF(WRITES, open) CALL_OF(WRITES, creat) CALL_OF(WRITES, mkdir)
    CALL_OF(WRITES, rmdir) CALL_OF(WRITES, unlink) CALL_OF(WRITES, rename) CALL_OF(WRITES, link)
    CALL_OF(SERVER, epoll_wait) CALL_OF(SERVER, epoll_create) CALL_OF(CLIENT, epoll_wait) CALL_OF(CLIENT, epoll_create)
    CALL_OF(PROGRAMS, fork) CALL_OF(PROGRAMS, vfork)
#endif
};

/* What drivers of GPUs and Open MPI call besides is not known beforehand: with them all calls are kept but these, and those that
 * end the process. io_uring would make calls that a filter does not see. */
static const int withheld[] = {
    SYS_execve, SYS_execveat, SYS_clone, SYS_socket, SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal, SYS_pidfd_getfd, SYS_process_vm_readv, SYS_io_uring_setup,
#ifdef __x86_64__
    SYS_fork, SYS_vfork,
#endif
};

/* No program of this kind makes them: whoever does is not one. Ranks read each other's memory. */
static const int fatal[] = {
    SYS_ptrace, SYS_process_vm_writev, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_mount, SYS_umount2,
    SYS_pivot_root, SYS_chroot, SYS_swapon, SYS_reboot, SYS_bpf, SYS_userfaultfd, SYS_setns, SYS_unshare, SYS_add_key, SYS_keyctl,
    SYS_request_key, SYS_open_by_handle_at, SYS_acct, SYS_settimeofday, SYS_clock_settime, SYS_personality,
};
/* clang-format on */

/* ---- the filter ------------------------------------------------------------------------------ */

typedef struct call_filter {
    struct sock_filter *code;
    unsigned short length;
} call_filter;

enum {
    KEPT = sizeof kept / sizeof *kept,
    FATAL = sizeof fatal / sizeof *fatal,
    WITHHELD = sizeof withheld / sizeof *withheld,
    PER_ROW = 10,
    FRAME = 16
};

static void emit(call_filter *filter, unsigned code, uint32_t value, int if_true, int if_false)
{
    filter->code[filter->length++] =
        (struct sock_filter){(unsigned short)code, (unsigned char)if_true, (unsigned char)if_false, value};
}

static void load_number(call_filter *filter) { emit(filter, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0); }

/* Half of an argument: both processors have the low one first. */
static void load_argument(call_filter *filter, int argument, int half)
{
    size_t at = offsetof(struct seccomp_data, args) + 8 * (size_t)argument + 4 * (size_t)half;
    emit(filter, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0);
}

/* Jumps over `rest` instructions unless the loaded value is the expected one; the jumps are filled in by end_row. */
static void require(call_filter *filter, uint32_t value) { emit(filter, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0xff); }

static void emit_test(call_filter *filter, const argument_test *test)
{
    if (test->kind == ALWAYS) return;
    load_argument(filter, test->argument, 0);
    if (test->kind == LACKS || test->kind == HAS) emit(filter, BPF_ALU | BPF_AND | BPF_K, test->bits, 0, 0);
    if (test->kind == MASKED) emit(filter, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
    require(filter, test->kind == LACKS || test->kind == NONE ? 0 : test->kind == OWN ? (uint32_t)getpid() : test->bits);
    if (test->kind != NONE) return;
    load_argument(filter, test->argument, 1);
    require(filter, 0);
}

/* A call that is another, or whose arguments are others, goes on behind the row, with its number loaded. */
static void emit_row(call_filter *filter, int number, const argument_test tests[2], uint32_t verdict)
{
    unsigned short first = filter->length;
    require(filter, (uint32_t)number);
    bool tested = tests && tests[0].kind != ALWAYS;
    for (int i = 0; tested && i < 2; i++) emit_test(filter, &tests[i]);
    emit(filter, BPF_RET | BPF_K, verdict, 0, 0);
    unsigned short end = filter->length;
    if (tested) load_number(filter);
    for (unsigned short i = first; i < end; i++)
        if (filter->code[i].jf == 0xff) filter->code[i].jf = (unsigned char)((i == first && tested ? end + 1 : end) - i - 1);
}

/* Another calling convention of the processor (32 bits, x32) would have other numbers. */
static void emit_architecture(call_filter *filter)
{
    emit(filter, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(filter, BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0);
    emit(filter, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    load_number(filter);
#ifdef __x86_64__
    emit(filter, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    emit(filter, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
#endif
}

static void build_filter(call_filter *filter, unsigned keeps)
{
    const bool commands = keeps & ZT_SANDBOX_KEEP_COMMANDS;
    const uint32_t refused = SECCOMP_RET_ERRNO | EPERM;
    emit_architecture(filter);
    for (int i = 0; i < KEPT && !commands; i++)
        if (!kept[i].group || kept[i].group & keeps) emit_row(filter, kept[i].number, kept[i].tests, SECCOMP_RET_ALLOW);
    /* Its flags are in memory, where a filter cannot look: the C library then uses clone. */
    if (!commands) emit_row(filter, SYS_clone3, NULL, SECCOMP_RET_ERRNO | ENOSYS);
    for (int i = 0; i < FATAL; i++) emit_row(filter, fatal[i], NULL, commands ? refused : SECCOMP_RET_KILL_PROCESS);
    bool open = !commands && keeps & (DEVICE | RANKS);
    for (int i = 0; i < WITHHELD && open; i++) emit_row(filter, withheld[i], NULL, refused);
    emit(filter, BPF_RET | BPF_K, commands || open ? SECCOMP_RET_ALLOW : refused, 0, 0);
}

bool zt_seccomp_has(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

zt_status zt_sandbox_restrict_calls(zt_ctx *ctx, unsigned keeps, bool *installed)
{
    call_filter filter = {.code = zt_alloc_array(ctx, (KEPT + FATAL + WITHHELD + 2) * PER_ROW + FRAME, sizeof *filter.code)};
    *installed = false;
    if (!filter.code) return ZT_ENOMEM;
    build_filter(&filter, keeps);
    struct sock_fprog program = {.len = filter.length, .filter = filter.code};
    /* Before Linux 5.16 a filter also disabled speculation around stores, which would slow down kernels of the engines. */
    *installed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0;
    zt_free(ctx, filter.code);
    return ZT_OK;
}
