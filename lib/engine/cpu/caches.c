/* caches.c - the data caches: Linux's sysfs (Documentation/ABI/testing/sysfs-devices-system-cpu),
 * and where that is not mounted what the C library knows. */
#include "lib/engine/cpu/caches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One line of a file of cache `index`; false: not there. */
static bool read_line(int index, const char *file, char *line, int size)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
    FILE *f = fopen(path, "re");
    bool there = f && fgets(line, size, f);
    if (f) fclose(f);
    if (there) line[strcspn(line, "\n")] = 0;
    return there;
}

/* "32K": 0 for what is no size. */
static size_t size_of(const char *text)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return n > SIZE_MAX >> shift ? 0 : (size_t)n << shift;
}

/* "0-3,8,10-11": how many. */
static int count_of(const char *list)
{
    long n = 0;
    for (const char *at = list; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at) break;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (last >= first && last - first < 1 << 16) n += last - first + 1;
        at = end + (*end == ',');
    }
    return n < 1 ? 1 : n > 1 << 16 ? 1 << 16 : (int)n;
}

/* How many are put in *c: none for a cache of instructions; -1: there is no cache `index`. */
static int read_cache(int index, zt_cpu_cache *c)
{
    char type[32], size[32], level[16], sharers[4096];
    if (!read_line(index, "type", type, sizeof type)) return -1;
    if (!strcmp(type, "Instruction") || !read_line(index, "size", size, sizeof size) ||
        !read_line(index, "level", level, sizeof level))
        return 0;
    *c = (zt_cpu_cache){.bytes = size_of(size), .sharers = 1};
    snprintf(c->name, sizeof c->name, "L%.1s%s", level, strcmp(type, "Data") ? "" : "d");
    if (read_line(index, "shared_cpu_list", sharers, sizeof sharers))
        c->sharers = count_of(sharers);
    return c->bytes > 0;
}

static int from_library(zt_cpu_cache *c, int max)
{
    int n = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
    static const struct {
        int name;
        const char *called;
    } level[] = {{_SC_LEVEL1_DCACHE_SIZE, "L1d"}, {_SC_LEVEL2_CACHE_SIZE, "L2"},
                 {_SC_LEVEL3_CACHE_SIZE, "L3"}};
    for (int i = 0; i < 3 && n < max; i++) {
        long bytes = sysconf(level[i].name);
        if (bytes <= 0) continue;
        c[n] = (zt_cpu_cache){.bytes = (size_t)bytes, .sharers = 1};
        strcpy(c[n++].name, level[i].called);
    }
#endif
    return n;
}

int zt_cpu_caches(zt_cpu_cache *c, int max)
{
    int n = 0;
    for (int i = 0, more; n < max && (more = read_cache(i, &c[n])) >= 0; i++) n += more;
    return n ? n : from_library(c, max);
}
