/* vulkan_cache.c - what a driver compiled, kept in a file of the user's cache folder that may be
 * anything: another driver's, changed, cut short, no file at all, written by several at once.
 * Skipped, aloud, where there is no adapter. */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_VULKAN
#include "tests/engine/fake_vulkan.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], file[512]; /* the cache folder, and the one file in it */

/* A run of the engine; what the driver was given. */
static size_t run_once(zt_ctx *ctx)
{
    bool right = true;
    kept.given = 0;
    zt_engine *engine = open_fake(ctx);
    zt_status status = engine ? watched(engine, &right) : zt_ctx_status(ctx);
    zt_engine_close(engine);
    if (!status && right && !zt_ctx_status(ctx)) return kept.given;
    diag("%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return SIZE_MAX;
}

/* The name of the only file in the cache folder; false: there is none, or more. */
static bool find_file(void)
{
    char dir[128];
    int n = 0;
    snprintf(dir, sizeof dir, "%s/zt", folder);
    DIR *directory = opendir(dir);
    for (struct dirent *at; directory && (at = readdir(directory));)
        if (at->d_name[0] != '.' || strlen(at->d_name) > 2) {
            snprintf(file, sizeof file, "%s/%s", dir, at->d_name);
            n++;
        }
    if (directory) closedir(directory);
    return n == 1;
}

/* The file with byte `at` changed (-1: none), cut to `count` bytes. */
static void spoil(const char *bytes, size_t count, long at)
{
    FILE *stream = fopen(file, "wb");
    if (!stream) return;
    fwrite(bytes, 1, count, stream);
    if (at >= 0) {
        fseek(stream, at, SEEK_SET);
        fputc(bytes[at] ^ 0x10, stream);
    }
    fclose(stream);
}

static void test_spoiled(zt_ctx *ctx, size_t whole)
{
    static const long at[] = {0, 16, 23, 24, 39, 40, 44, 48, 56, 100, 1071};
    static const size_t cut[] = {0, 1, 39, 40, 72, 1071};
    char bytes[2048];
    FILE *stream = fopen(file, "rb");
    size_t size = stream ? fread(bytes, 1, sizeof bytes, stream) : 0;
    bool good = size == whole + 40;
    if (stream) fclose(stream);
    for (size_t i = 0; i < sizeof at / sizeof at[0] && good; i++) {
        spoil(bytes, size, at[i]);
        good = run_once(ctx) == 0 && run_once(ctx) == whole;
    }
    ok(good, "a byte changed: the driver is not given it, and the file is made anew");
    for (size_t i = 0; i < sizeof cut / sizeof cut[0] && good; i++) {
        spoil(bytes, cut[i], -1);
        good = run_once(ctx) == 0 && run_once(ctx) == whole;
    }
    ok(good, "cut short: likewise");
    remove(file);
    good = good && mkfifo(file, 0600) == 0 && run_once(ctx) == 0;
    remove(file);
    good = good && mkdir(file, 0700) == 0 && run_once(ctx) == 0;
    ok(good && rmdir(file) == 0, "a pipe or a folder in its place: as if there were none");
}

/* What each of the processes does: write it, take it away. argv: "once", the folder, the file. */
static int one_of_many(char **argv)
{
    zt_ctx *ctx = zt_ctx_new();
    bool good = true;
    setenv("XDG_CACHE_HOME", argv[2], 1);
    for (int k = 0; k < 4 && good; k++) {
        if (k % 2) remove(argv[3]);
        good = run_once(ctx) != SIZE_MAX;
    }
    zt_ctx_free(ctx);
    return !good;
}

static bool at_once(void)
{
    pid_t child[3];
    bool good = true;
    for (int i = 0; i < 3; i++) {
        child[i] = fork();
        if (child[i] == 0) execl("/proc/self/exe", "vulkan_cache", "once", folder, file, NULL);
        if (child[i] == 0) _exit(1);
    }
    for (int i = 0; i < 3; i++) {
        int status = 1;
        good = child[i] > 0 && waitpid(child[i], &status, 0) == child[i] && status == 0 && good;
    }
    return good;
}

/* Data as this adapter's driver would write them. */
static bool make_kept(zt_ctx *ctx)
{
    zt_engine *engine = zt_engine_open(ctx, "vulkan", NULL);
    const zt_vk_engine *v = (const zt_vk_engine *)engine;
    if (!engine) return false;
    kept.on = true;
    kept.head =
        (VkPipelineCacheHeaderVersionOne){sizeof kept.head, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, v->vendor, v->model, {0}};
    memcpy(kept.head.pipelineCacheUUID, v->cache_uuid, VK_UUID_SIZE);
    for (size_t i = 0; i < sizeof kept.body; i++) kept.body[i] = (uint8_t)(i * 7);
    zt_engine_close(engine);
    return true;
}

static void test_cache(zt_ctx *ctx)
{
    const size_t whole = sizeof kept.head + sizeof kept.body;
    snprintf(folder, sizeof folder, "/tmp/zt-cache-XXXXXX");
    if (!make_kept(ctx) || !mkdtemp(folder)) return;
    setenv("XDG_CACHE_HOME", folder, 1);
    kept.head.vendorID++;
    ok(run_once(ctx) == 0 && !find_file(), "another driver's data are not kept");
    kept.head.vendorID--;
    ok(run_once(ctx) == 0 && find_file(), "what the driver compiled is kept: %s", file);
    ok(run_once(ctx) == whole && find_file(), "and given back to it");
    test_spoiled(ctx, whole);
    ok(run_once(ctx) == 0 && at_once(), "three processes at once");
    run_once(ctx);
    ok(find_file() && run_once(ctx) == whole, "leave one whole file");
    remove(file);
    snprintf(file, sizeof file, "%s/zt", folder);
    ok(rmdir(file) == 0, "and nothing else");
    rmdir(folder);
    kept.on = false;
}

int main(int argc, char **argv)
{
    zt_ctx *ctx = zt_ctx_new();
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1); /* which it would keep beside ours */
    if (argc == 4 && make_kept(ctx)) return one_of_many(argv);
    if (device_is_there(ctx, "vulkan")) test_cache(ctx);
    return device_done(ctx, NULL);
}
#else
DEVICE_NOT_BUILT("vulkan")
#endif
