/* energy.c - energy of the processor by RAPL (running average power limit), as Linux reports it in powercap:
 *
 *     /sys/class/powercap/intel-rapl:0/name                  "package-0"; Intel's and AMD's processors
 *     /sys/class/powercap/intel-rapl:0/energy_uj             a counter in microjoules, by default for root alone
 *     /sys/class/powercap/intel-rapl:0/max_energy_range_uj   after which it begins again at 0
 *     /sys/class/powercap/intel-rapl:0:1/name                "dram", where the memory is counted apart
 *
 * Packages and memory are added up. The zones "core" and "uncore" are in their package, "psys" has the packages in it, and
 * intel-rapl-mmio counts the same again. Source: Linux, Documentation/power/powercap/powercap.rst.
 */
#include "tools/zt-bench/energy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *folder(void)
{
    const char *given = getenv("ZT_POWERCAP");
    return given && *given ? given : "/sys/class/powercap";
}

/* "intel-rapl:0" and "intel-rapl:0:1". */
static bool is_zone(const char *name) { return !strncmp(name, "intel-rapl:", 11); }

static int open_in(const char *zone, const char *file, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%s/%s/%s", folder(), zone, file);
    if (length > 0 && length < PATH_MAX) return open(path, O_RDONLY | O_CLOEXEC);
    errno = ENAMETOOLONG;
    return -1;
}

/* Reads the beginning of a file of sysfs. False: there is nothing. */
static bool read_text(int descriptor, char *text, size_t size)
{
    ssize_t length = pread(descriptor, text, size - 1, 0);
    text[length > 0 ? length : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    return length > 0;
}

static bool read_count(int descriptor, int64_t *count)
{
    char text[32];
    return read_text(descriptor, text, sizeof text) && zt_parse_i64(text, count) && *count >= 0;
}

/* Is it a zone that is counted? */
static bool is_counted(const char *zone)
{
    char path[PATH_MAX], name[64] = "";
    int descriptor = open_in(zone, "name", path);
    if (descriptor < 0) return false;
    read_text(descriptor, name, sizeof name);
    close(descriptor);
    return !strncmp(name, "package", 7) || !strcmp(name, "dram");
}

static zt_status open_zone(zt_ctx *ctx, bench_energy *energy, const char *zone)
{
    char path[PATH_MAX];
    bench_zone *opened = &energy->zones[energy->count];
    int range = open_in(zone, "max_energy_range_uj", path);
    bool known = range >= 0 && read_count(range, &opened->range);
    if (range >= 0) close(range);
    if (!known) return zt_fail(ctx, ZT_ENOTSUP, "--energy: %s: not a number of microjoules", path);
    opened->descriptor = open_in(zone, "energy_uj", path);
    if (opened->descriptor < 0)
        return zt_fail(ctx, ZT_ENOTSUP, "--energy: %s: %s%s", path, strerror(errno),
                       errno == EACCES ? " (the kernel lets root alone read it)" : "");
    energy->count++;
    if (read_count(opened->descriptor, &opened->last)) return ZT_OK;
    return zt_fail(ctx, ZT_ENOTSUP, "--energy: %s: not a number of microjoules", path);
}

zt_status bench_energy_open(zt_ctx *ctx, bench_energy *energy)
{
    *energy = (bench_energy){.count = 0};
    DIR *directory = opendir(folder());
    if (!directory)
        return zt_fail(ctx, ZT_ENOTSUP, "--energy: this machine reports no energy (RAPL): %s: %s", folder(), strerror(errno));
    zt_status status = ZT_OK;
    const struct dirent *entry;
    while (!status && energy->count < BENCH_MAX_ZONES && (entry = readdir(directory)))
        if (is_zone(entry->d_name) && is_counted(entry->d_name)) status = open_zone(ctx, energy, entry->d_name);
    closedir(directory);
    if (!status && energy->count == 0)
        status = zt_fail(ctx, ZT_ENOTSUP, "--energy: this machine reports no energy (RAPL): no package in %s", folder());
    return status;
}

void bench_energy_close(bench_energy *energy)
{
    for (int i = 0; i < energy->count; i++) close(energy->zones[i].descriptor);
    energy->count = 0;
}

/* A counter that went back has begun again at 0, once: a package of 200 W takes minutes to its range. */
double bench_energy_joules(bench_energy *energy)
{
    for (int i = 0; i < energy->count; i++) {
        bench_zone *zone = &energy->zones[i];
        int64_t now;
        if (!read_count(zone->descriptor, &now)) continue; /* the next reading has it */
        energy->microjoules += (double)(now >= zone->last ? now - zone->last : now + (zone->range - zone->last));
        zone->last = now;
    }
    return energy->microjoules * 1e-6;
}
