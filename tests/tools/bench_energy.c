/* bench_energy.c - zt-bench's reading of RAPL: which zones count, counters that begin again at 0, files that are none. */
#include "tools/zt-bench/energy.c"

#include "tests/common/tap.h"

#include <math.h>
#include <sys/stat.h>

static zt_ctx *ctx;
static char root[] = "/tmp/zt-energy-XXXXXX";

static void put(const char *zone, const char *file, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, zone);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%s", root, zone, file);
    FILE *out = fopen(path, "w");
    if (out) {
        fputs(text, out);
        fclose(out);
    }
}

static void put_zone(const char *zone, const char *name, const char *range, const char *count)
{
    put(zone, "name", name);
    put(zone, "max_energy_range_uj", range);
    put(zone, "energy_uj", count);
}

static void test_sums(void)
{
    bench_energy energy;
    put_zone("intel-rapl:0", "package-0\n", "1000000\n", "900000\n");
    put_zone("intel-rapl:0:0", "core\n", "1000000\n", "5\n");
    put_zone("intel-rapl:0:1", "dram\n", "4000000\n", "100\n");
    put_zone("intel-rapl:1", "package-1\n", "1000000\n", "0\n");
    put_zone("intel-rapl:2", "psys\n", "1000000\n", "0\n");
    put_zone("intel-rapl-mmio:0", "package-0\n", "1000000\n", "0\n");
    zt_status status = bench_energy_open(ctx, &energy);
    ok(status == ZT_OK && energy.count == 3, "two packages and memory: %d zones", energy.count);
    ok(bench_energy_joules(&energy) == 0, "nothing yet");
    put("intel-rapl:0:1", "energy_uj", "500100\n");
    put("intel-rapl:0:0", "energy_uj", "999999\n");
    put("intel-rapl:2", "energy_uj", "999999\n");
    ok(fabs(bench_energy_joules(&energy) - .5) < 1e-12, "half a joule of memory");
    put("intel-rapl:0", "energy_uj", "150000\n");
    ok(fabs(bench_energy_joules(&energy) - .75) < 1e-12, "a counter that began again: 0.1 J to its range, 0.15 J after it");
    put("intel-rapl:1", "energy_uj", "");
    ok(fabs(bench_energy_joules(&energy) - .75) < 1e-12, "a reading that fails changes nothing");
    put("intel-rapl:1", "energy_uj", "250000\n");
    ok(fabs(bench_energy_joules(&energy) - 1) < 1e-12, "and the next one has it");
    bench_energy_close(&energy);
}

static void test_refused(const char *file, const char *text, const char *says)
{
    bench_energy energy;
    put("intel-rapl:0", file, text);
    zt_status status = bench_energy_open(ctx, &energy);
    ok(status == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), says), "%s '%s': %s", file, text, zt_ctx_error(ctx));
    bench_energy_close(&energy);
    zt_ctx_clear(ctx);
    put_zone("intel-rapl:0", "package-0\n", "1000000\n", "1\n");
}

static void test_absent(void)
{
    bench_energy energy;
    setenv("ZT_POWERCAP", "/nowhere/at/all", 1);
    zt_status status = bench_energy_open(ctx, &energy);
    ok(status == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), "reports no energy"), "%s", zt_ctx_error(ctx));
    bench_energy_close(&energy);
    zt_ctx_clear(ctx);
}

static void remove_all(void)
{
    static const char *const zones[] = {
        "intel-rapl:0", "intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:1", "intel-rapl:2", "intel-rapl-mmio:0", ""};
    static const char *const files[] = {"name", "max_energy_range_uj", "energy_uj", ""};
    for (int zone = 0; zone < 7; zone++)
        for (int file = 0; file < 4; file++) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/%s/%s", root, zones[zone], files[file]);
            if (*files[file] && *zones[zone]) unlink(path);
            if (!*files[file]) rmdir(path);
        }
}

int main(void)
{
    ctx = zt_ctx_new();
    if (!mkdtemp(root)) return 1;
    setenv("ZT_POWERCAP", root, 1);
    test_sums();
    test_refused("energy_uj", "x", "not a number of microjoules");
    test_refused("max_energy_range_uj", "-5", "not a number of microjoules");
    test_absent();
    remove_all();
    zt_ctx_free(ctx);
    return tap_done();
}
