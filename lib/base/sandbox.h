/* sandbox.h - a process gives up what it does not need, before it reads files of others.
 *
 *     zt_sandbox_path paths[] = {{"m.gguf", ZT_SANDBOX_READ}, {"out", ZT_SANDBOX_CREATE}};
 *     zt_sandbox_config config = {.paths = paths, .path_count = 2};
 *     zt_sandbox_parts parts;
 *     zt_status status = zt_sandbox_enter(ctx, &config, &parts);
 *
 * Afterwards the process, its threads and all that it starts open only the given paths (Landlock) and make only the system calls
 * of a short list (seccomp-bpf): no program is executed, no socket opened, no other process traced or signalled. Files that
 * are open stay usable. Nothing of this can be undone. A refused call fails with EPERM or EACCES; those that no program of this
 * kind makes (ptrace, bpf, mount ...) end the process. What the kernel lacks is left out, and `parts` says so.
 *
 * sandbox_calls.c is the list of system calls, sandbox_files.c the rules of files.
 */
#ifndef ZT_SANDBOX_H
#define ZT_SANDBOX_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What may be done with a path: a file, or a directory with all that is below it. */
typedef enum zt_sandbox_use {
    ZT_SANDBOX_READ = 1,     /* read files, list directories */
    ZT_SANDBOX_WRITE = 2,    /* write files that exist */
    ZT_SANDBOX_CREATE = 4,   /* in a directory: create, write, rename and remove files */
    ZT_SANDBOX_FOLDERS = 8,  /* in a directory: create, rename and remove directories, move files between them */
    ZT_SANDBOX_SOCKETS = 16, /* in a directory: create and remove Unix-domain sockets */
    ZT_SANDBOX_DEVICES = 32, /* open device files for reading and writing, with their ioctls */
    ZT_SANDBOX_EXECUTE = 64  /* execute files */
} zt_sandbox_use;

typedef struct zt_sandbox_path {
    const char *path; /* one that does not exist is left out */
    unsigned uses;    /* zt_sandbox_use */
} zt_sandbox_path;

/* System calls that are kept besides those for computing and for files. */
typedef enum zt_sandbox_keep {
    ZT_SANDBOX_KEEP_WRITES = 1,    /* create, rename, remove and link files */
    ZT_SANDBOX_KEEP_SERVER = 2,    /* listen on a socket and accept connections, but not connect */
    ZT_SANDBOX_KEEP_CLIENT = 4,    /* connect to a server, with resolution of its name */
    ZT_SANDBOX_KEEP_DEVICE = 8,    /* drivers of GPUs: all calls but execution, sockets of a network and signals */
    ZT_SANDBOX_KEEP_PROGRAMS = 16, /* start programs; which ones, the files with ZT_SANDBOX_EXECUTE say */
    ZT_SANDBOX_KEEP_RANKS = 32,    /* Open MPI: all calls but execution */
    ZT_SANDBOX_KEEP_COUNTERS = 64, /* performance counters of the process itself */
    ZT_SANDBOX_KEEP_COMMANDS = 128 /* commands of the user run below: all files and calls, except those that end the process,
                                    * which are refused */
} zt_sandbox_keep;

typedef struct zt_sandbox_config {
    unsigned keeps; /* zt_sandbox_keep */
    const zt_sandbox_path *paths;
    int path_count;
    int temporaries; /* temporary files that are opened first, because TMPDIR is closed afterwards: 0 to 16 */
} zt_sandbox_config;

typedef struct zt_sandbox_parts {
    int files;       /* version of Landlock that restricts files; 0: files are not restricted */
    bool calls;      /* is there a filter of system calls? */
    bool privileges; /* are new privileges (setuid programs) refused? */
} zt_sandbox_parts;

/* The part that this kernel or this build lacks, such as "Landlock (CONFIG_SECURITY_LANDLOCK)"; NULL: it has all. */
const char *zt_sandbox_lacks(void);

/* Enters the sandbox. To be called before threads are started. Without memory for the rules ZT_ENOMEM, and the sandbox is not
 * complete; what the kernel refuses is no failure, but missing in *parts. */
zt_status zt_sandbox_enter(zt_ctx *ctx, const zt_sandbox_config *config, zt_sandbox_parts *parts);

#ifdef __cplusplus
}
#endif
#endif
