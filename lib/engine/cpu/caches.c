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
    FILE *stream = fopen(path, "re");
    bool found = stream && fgets(line, size, stream);
    if (stream) fclose(stream);
    if (found) line[strcspn(line, "\n")] = 0;
    return found;
}

/* "32K"; 0 for text that is not a size. */
static size_t parse_size(const char *text)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return number > SIZE_MAX >> shift ? 0 : (size_t)number << shift;
}

/* "0-3,8,10-11": how many. */
static int count_listed(const char *list)
{
    long count = 0;
    for (const char *at = list; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at) break;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (last >= first && last - first < 1 << 16) count += last - first + 1;
        at = end + (*end == ',');
    }
    return count < 1 ? 1 : count > 1 << 16 ? 1 << 16 : (int)count;
}

/* Returns how many caches it put in *cache: 0 for a cache of instructions; -1: there is no cache `index`. */
static int read_cache(int index, zt_cpu_cache *cache)
{
    char type[32], size[32], level[16], sharers[4096];
    if (!read_line(index, "type", type, sizeof type)) return -1;
    if (!strcmp(type, "Instruction") || !read_line(index, "size", size, sizeof size) ||
        !read_line(index, "level", level, sizeof level))
        return 0;
    *cache = (zt_cpu_cache){.bytes = parse_size(size), .sharers = 1};
    snprintf(cache->name, sizeof cache->name, "L%.1s%s", level, strcmp(type, "Data") ? "" : "d");
    if (read_line(index, "shared_cpu_list", sharers, sizeof sharers)) cache->sharers = count_listed(sharers);
    return cache->bytes > 0;
}

static int library_caches(zt_cpu_cache *cache, int max)
{
    int count = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
    static const struct {
        int name;
        const char *called;
    } level[] = {{_SC_LEVEL1_DCACHE_SIZE, "L1d"}, {_SC_LEVEL2_CACHE_SIZE, "L2"}, {_SC_LEVEL3_CACHE_SIZE, "L3"}};
    for (int i = 0; i < 3 && count < max; i++) {
        long bytes = sysconf(level[i].name);
        if (bytes <= 0) continue;
        cache[count] = (zt_cpu_cache){.bytes = (size_t)bytes, .sharers = 1};
        strcpy(cache[count++].name, level[i].called);
    }
#endif
    return count;
}

int zt_cpu_caches(zt_cpu_cache *cache, int max)
{
    int count = 0;
    for (int i = 0, more; count < max && (more = read_cache(i, &cache[count])) >= 0; i++) count += more;
    return count ? count : library_caches(cache, max);
}
