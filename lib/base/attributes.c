/* attributes.c - owns carrying mode, owner and extended attributes from a file over to the one that
 * replaces it. */
#include "lib/base/attributes.h"
#include "lib/base/require.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Those that belong to the file, not to its bytes: capabilities and signatures of IMA and EVM are
 * left behind, as the kernel drops them when a file is written. */
static const char *const kept[] = {"system.posix_acl_access", "system.posix_acl_default", "system.nfs4_acl", "security.selinux"};

static bool is_kept(const char *name)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strcmp(name, kept[i]) == 0) return true;
    return strncmp(name, "user.", 5) == 0;
}

static void put_attribute(zt_ctx *ctx, int fd, const char *path, const char *name, void *value, size_t capacity)
{
    ssize_t size = getxattr(path, name, value, capacity);
    if (size >= 0 && fsetxattr(fd, name, value, (size_t)size, 0) == 0) return;
    zt_log(ctx, ZT_LOG_INFO, "%s: cannot keep the attribute '%s': %s", path, name, strerror(errno));
}

/* Where the old file has no access control list, the new one loses what it inherited from the directory:
 * it would let others in. */
static void drop_inherited(int fd, const char *path)
{
    if (getxattr(path, kept[0], NULL, 0) < 0 && errno == ENODATA) fremovexattr(fd, kept[0]);
}

/* The kernel allows 64 KiB of names, and of each value. */
static zt_status put_attributes(zt_ctx *ctx, int fd, const char *path)
{
    enum { ROOM = 1 << 16 };
    char *names = zt_alloc(ctx, 2 * ROOM);
    ssize_t names_size = names ? listxattr(path, names, ROOM) : -1;
    for (ssize_t name = 0; name < names_size; name += (ssize_t)strlen(names + name) + 1)
        if (is_kept(names + name)) put_attribute(ctx, fd, path, names + name, names + ROOM, ROOM);
    zt_free(ctx, names);
    return names ? ZT_OK : ZT_ENOMEM;
}

/* The mode that is allowed to whoever the file belongs to now. */
static mode_t mode_for(const struct stat *old, bool owner, bool group)
{
    mode_t mode = old->st_mode & 07777;
    if (!owner) mode &= ~(mode_t)S_ISUID;
    if (!group) mode &= ~(mode_t)S_ISGID & (~(mode_t)S_IRWXG | (mode & S_IRWXO) << 3);
    return mode;
}

zt_status zt_attributes_keep(zt_ctx *ctx, int fd, const char *path, const struct stat *old)
{
    if (!ctx) return ZT_EUSAGE;
    ZT_REQUIRE(ctx, old, ZT_EUSAGE);
    struct stat now;
    bool owner, group;
    if (fstat(fd, &now)) return zt_fail(ctx, ZT_EIO, "%s: %s", path, strerror(errno));
    group = now.st_gid == old->st_gid || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    owner = now.st_uid == old->st_uid || fchown(fd, old->st_uid, (gid_t)-1) == 0;
    if (!owner || !group)
        zt_log(ctx, ZT_LOG_INFO, "%s: cannot keep the owner %u:%u", path, (unsigned)old->st_uid, (unsigned)old->st_gid);
    drop_inherited(fd, path);
    zt_status status = put_attributes(ctx, fd, path);
    if (status == ZT_OK && fchmod(fd, mode_for(old, owner, group)))
        status = zt_fail(ctx, ZT_EIO, "%s: cannot keep the file mode: %s", path, strerror(errno));
    return status;
}

zt_status zt_attributes_keep_folder(zt_ctx *ctx, const char *fresh, const char *path)
{
    if (!ctx) return ZT_EUSAGE;
    struct stat old;
    if (stat(path, &old) || !S_ISDIR(old.st_mode)) return ZT_OK;
    int fd = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return zt_fail(ctx, ZT_EIO, "%s: %s", fresh, strerror(errno));
    zt_status status = zt_attributes_keep(ctx, fd, path, &old);
    close(fd);
    return status;
}

/* By a descriptor: in a sandbox no mode is changed by name, since Landlock does not restrict that. */
bool zt_attributes_open_folder(const char *fresh)
{
    mode_t mask = umask(0);
    umask(mask);
    int fd = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool changed = fd >= 0 && fchmod(fd, 0777 & ~mask) == 0;
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return changed;
}
