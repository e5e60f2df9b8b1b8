/* sandbox_files.c - rules of files: Landlock, by its system calls and the numbers of landlock(7), because the headers of
 * a distribution know fewer versions than the kernel that runs. */
#include "lib/base/sandbox_internal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CREATE_RULESET = 444, ADD_RULE, RESTRICT_SELF }; /* the same on all processors */
enum { RULE_PATH_BENEATH = 1, ASK_VERSION = 1 };

/* Rights on files, in the order of the kernel's bits. */
enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_DIR = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_CHAR = 1 << 6,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    MAKE_SOCK = 1 << 9,
    MAKE_FIFO = 1 << 10,
    MAKE_BLOCK = 1 << 11,
    MAKE_SYM = 1 << 12,
    REFER = 1 << 13,     /* version 2 */
    TRUNCATE = 1 << 14,  /* version 3 */
    IOCTL_DEV = 1 << 15, /* version 5 */
    OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
};
enum { BIND_TCP = 1 << 0, CONNECT_TCP = 1 << 1 };        /* version 4 */
enum { SCOPE_ABSTRACT = 1 << 0, SCOPE_SIGNAL = 1 << 1 }; /* version 6 */

struct ruleset {
    uint64_t files, network, scope;
};

struct path_rule {
    uint64_t rights;
    int32_t parent;
} __attribute__((packed));

/* What each use of a path needs. */
static const struct {
    unsigned use;
    uint64_t rights;
} uses[] = {
    {ZT_SANDBOX_READ, READ_FILE | READ_DIR},
    {ZT_SANDBOX_WRITE, WRITE_FILE | TRUNCATE},
    {ZT_SANDBOX_CREATE, WRITE_FILE | TRUNCATE | MAKE_REG | REMOVE_FILE},
    {ZT_SANDBOX_FOLDERS, MAKE_DIR | REMOVE_DIR | READ_DIR | REFER},
    {ZT_SANDBOX_SOCKETS, MAKE_SOCK | REMOVE_FILE},
    {ZT_SANDBOX_DEVICES, READ_FILE | WRITE_FILE | READ_DIR | IOCTL_DEV},
    {ZT_SANDBOX_EXECUTE, READ_FILE | READ_DIR | EXECUTE},
};

/* The rights that each version has, from version 1 on. */
static const uint64_t rights_of_version[] = {(1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1};

int zt_landlock_version(void)
{
    long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
    return version > 0 ? (int)version : 0;
}

static uint64_t rights_of(unsigned wanted)
{
    uint64_t rights = 0;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (wanted & uses[i].use) rights |= uses[i].rights;
    return rights;
}

/* A path that cannot be opened is left out: it cannot be used either. */
static void allow_path(int ruleset, const zt_sandbox_path *path, uint64_t handled)
{
    struct stat info;
    int fd = open(path->path, O_PATH | O_CLOEXEC);
    if (fd < 0) return;
    struct path_rule rule = {rights_of(path->uses) & handled, fd};
    if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) rule.rights &= OF_FILES;
    if (rule.rights) syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0);
    close(fd);
}

/* Where sockets are kept, their addresses are not restricted: ports of a resolver or of Open MPI are not known. A server binds
 * but does not connect. */
static uint64_t network_of(unsigned keeps)
{
    if (keeps & (ZT_SANDBOX_KEEP_CLIENT | ZT_SANDBOX_KEEP_RANKS)) return 0;
    return keeps & ZT_SANDBOX_KEEP_SERVER ? CONNECT_TCP : BIND_TCP | CONNECT_TCP;
}

int zt_sandbox_restrict_files(const zt_sandbox_config *config)
{
    enum { VERSIONS = sizeof rights_of_version / sizeof *rights_of_version, NETWORK = 4, SCOPES = 6 };
    int version = zt_landlock_version();
    if (!version) return 0;
    struct ruleset handled = {.files = rights_of_version[(version < VERSIONS ? version : VERSIONS) - 1]};
    size_t size = sizeof handled.files;
    if (version >= NETWORK) {
        handled.network = network_of(config->keeps);
        size += sizeof handled.network;
    }
    if (version >= SCOPES) {
        handled.scope = config->keeps & ZT_SANDBOX_KEEP_RANKS ? 0 : SCOPE_ABSTRACT | SCOPE_SIGNAL;
        size += sizeof handled.scope;
    }
    int ruleset = (int)syscall(CREATE_RULESET, &handled, size, 0);
    if (ruleset < 0) return 0;
    for (int i = 0; i < config->path_count; i++) allow_path(ruleset, &config->paths[i], handled.files);
    bool restricted = syscall(RESTRICT_SELF, ruleset, 0) == 0;
    close(ruleset);
    return restricted ? version : 0;
}
