/* cpu.c - the processor: how many there are for us, what they can do, what they are called. */
#include "lib/base/internal.h"
#include "lib/base/processor.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#if __has_include(<sys/platform/x86.h>) /* glibc 2.33 and later */
#define ASKS_LIBC
#include <sys/platform/x86.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

double zt_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- how many -------------------------------------------------------------------------------- */

static int affinity_count(void)
{
    for (size_t cpus = 1024; cpus <= 1 << 16; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set) return 1;
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        int failed = sched_getaffinity(0, bytes, set), count = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (count > 0) return count;
    }
    return 1;
}

/* This process's group in the unified hierarchy (cgroups(7)): the line "0::/path". */
static bool cgroup_path(char *path, size_t bytes)
{
    char line[1024];
    FILE *file = fopen("/proc/self/cgroup", "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0) found = snprintf(path, bytes, "/sys/fs/cgroup%s", line + 3) < (int)bytes;
    }
    if (file) fclose(file);
    return found;
}

/* Whole processors that cpu.max of one group allows, at least 1; 0: no limit there. */
static int read_quota(const char *group)
{
    char name[1200];
    long long quota, period;
    snprintf(name, sizeof name, "%s/cpu.max", group);
    FILE *file = fopen(name, "re");
    int processors = 0;
    if (file && fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0)
        processors = quota < period ? 1 : quota / period > 65536 ? 65536 : (int)(quota / period);
    if (file) fclose(file);
    return processors;
}

int zt_cpu_count(void)
{
    int count = affinity_count();
    char path[1100];
    if (!cgroup_path(path, sizeof path)) return count;
    size_t root = strlen("/sys/fs/cgroup");
    for (;;) { /* a limit holds for everything below it */
        int quota = read_quota(path);
        count = quota && quota < count ? quota : count;
        char *slash = strrchr(path, '/');
        if (strlen(path) <= root || !slash) return count;
        *slash = '\0';
    }
}

/* ---- what they can do ------------------------------------------------------------------------ */

static const char *const isa_names[ZT_ISA_COUNT] = {"scalar", "avx2", "avx512", "neon", "dotprod"};

const char *zt_isa_name(zt_isa isa) { return (unsigned)isa < ZT_ISA_COUNT ? isa_names[isa] : "unknown"; }

bool zt_isa_parse(const char *name, zt_isa *out)
{
    if (!name) return false;
    for (int i = 0; i < ZT_ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) == 0) {
            *out = (zt_isa)i;
            return true;
        }
    }
    return false;
}

bool zt_isa_has(zt_isa isa)
{
    const zt_isa best = zt_isa_best(), first = best < ZT_ISA_NEON ? ZT_ISA_AVX2 : ZT_ISA_NEON;
    return isa == ZT_ISA_SCALAR || (isa >= first && isa <= best);
}

#if defined(ZT_HAVE_AVX512)
enum { BUILT = ZT_ISA_AVX512 };
#elif defined(ZT_HAVE_AVX2)
enum { BUILT = ZT_ISA_AVX2 };
#else
enum { BUILT = ZT_ISA_SCALAR };
#endif

#if defined(ASKS_LIBC)

/* Of x86_cpu_AVX2 and so on: is it there, with registers that the system saves. The C library asked
 * when the program began; cpuid itself takes tens of microseconds where a hypervisor answers it. */
static bool is_active(unsigned feature)
{
    const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(feature / 128);
    return leaf->active_array[feature % 128 / 32] >> feature % 32 & 1;
}

/* Of a list that ends with 0, which no feature here is. */
static bool all_active(const unsigned *feature)
{
    while (*feature && is_active(*feature)) feature++;
    return !*feature;
}

static const unsigned avx512[] = {x86_cpu_AVX512F,     x86_cpu_AVX512BW,    x86_cpu_AVX512DQ,    x86_cpu_AVX512VL,
                                  x86_cpu_AVX512_VNNI, x86_cpu_AVX512_VBMI, x86_cpu_AVX512_BF16, 0};

zt_isa zt_isa_best(void)
{
    static const unsigned avx2[] = {x86_cpu_AVX, x86_cpu_AVX2, x86_cpu_FMA, x86_cpu_F16C, x86_cpu_BMI2, 0};
    zt_isa best = !all_active(avx2) ? ZT_ISA_SCALAR : !all_active(avx512) ? ZT_ISA_AVX2 : ZT_ISA_AVX512;
    return best < (zt_isa)BUILT ? best : (zt_isa)BUILT;
}

/* AMD's processors alone have SSE4A. */
static bool is_amd(void)
{
    unsigned sse4a = x86_cpu_SSE4A;
    return __x86_get_cpuid_feature_leaf(sse4a / 128)->cpuid_array[sse4a % 128 / 32] >> sse4a % 32 & 1;
}

/* Intel's give half the rate of FMAs, AMD's twice it. */
bool zt_cpu_slow_bf16(void) { return !is_amd(); }

/* Intel's streams end with a page of 4 KiB, and what a core has under way beside them is bounded by
 * the instructions that wait: with some ten of them a line that is two thirds of what plain reading
 * has. AMD's go on over pages, and where a kernel does nothing but read, to ask for more takes from them;
 * one that computes between two lines they keep waiting (Zen 4: 8 and 16 rows take 11 per cent less time
 * so, 4 rows 3; with a reach of 1024 more than without). A Zen 3 with rows of f16 or bf16 does best with 512:
 * 5 to 7 per cent. */
size_t zt_cpu_reach(bool few)
{
    if (is_amd() && few) return all_active(avx512) ? 0 : 512;
    if (is_amd()) return 8192;
    return 4096;
}

/* On a Granite Rapids 2048 is best: with codes of 8 bits 12 per cent less time than without, with those of 4
 * bits 25, with 4096 4 more. (On an Emerald Rapids those of 8 bits take as long either way.) On a Zen 4
 * short groups of 8 bits take less with it (576 columns, 10 KB: 3 to 10 per cent more tokens a second), long
 * ones as much either way. For a Zen 3, which has twice the instructions to do for a line, 2048 is best too,
 * where one group is read at a time (tile_codes.h): Q4_1 156 to 194 tokens a second, Q8_0 110 to 132; with 1024
 * and 4096 half of that. */
size_t zt_cpu_reach_of_codes(int bits)
{
    if (is_amd() && all_active(avx512)) return bits == 8 ? 512 : 0;
    return 2048;
}

/* Linux lends them to those who ask, as frames of signals grow by 8 KiB. */
bool zt_cpu_amx(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM of arch_prctl(2) */
    static const unsigned amx[] = {x86_cpu_AMX_TILE, x86_cpu_AMX_INT8, 0};
    return all_active(amx) && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* Intel's have two ports for 512 bits, AMD's two that multiply and two that add. */
bool zt_cpu_shared_ports(void) { return !is_amd(); }

#else

bool zt_cpu_slow_bf16(void) { return false; }

bool zt_cpu_amx(void) { return false; }

size_t zt_cpu_reach(bool few)
{
    (void)few;
    return 0;
}

size_t zt_cpu_reach_of_codes(int bits)
{
    (void)bits;
    return 0;
}

bool zt_cpu_shared_ports(void) { return false; }

#if defined(ZT_HAVE_NEON)
/* All AArch64 processors have NEON. */
zt_isa zt_isa_best(void)
{
#if defined(ZT_HAVE_DOTPROD)
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) return ZT_ISA_DOTPROD;
#endif
    return ZT_ISA_NEON;
}
#else
zt_isa zt_isa_best(void) { return ZT_ISA_SCALAR; }
#endif

#endif

#if defined(__x86_64__)

/* The brand string: leaves 80000002h to 80000004h, 48 bytes padded with spaces or zeros. */
static void read_model(char out[ZT_CPU_MODEL])
{
    uint32_t registers[12];
    char raw[sizeof registers + 1] = "";
    bool available = true;
    for (unsigned i = 0; i < 3 && available; i++) {
        uint32_t *leaf = registers + 4 * i;
        available = __get_cpuid(0x80000002u + i, &leaf[0], &leaf[1], &leaf[2], &leaf[3]);
    }
    if (available) memcpy(raw, registers, sizeof registers);
    const char *text = raw + strspn(raw, " ");
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ') length--;
    snprintf(out, ZT_CPU_MODEL, "%.*s", (int)length, length ? text : "");
}

#else

static void read_model(char out[ZT_CPU_MODEL]) { out[0] = '\0'; }

#endif

const char *zt_cpu_model(char buffer[ZT_CPU_MODEL])
{
    if (!buffer) return NULL;
    read_model(buffer);
    if (!buffer[0]) strcpy(buffer, "unknown");
    return buffer;
}
