/* vulkan_faults.c - a driver that fails: every call of it once, with an error of its own and, where
 * work is handed over or waited for, by losing the device. What follows is an error with a message,
 * or as if nothing had been; then all goes back to the driver. Also as a device whose memory the host
 * does not see, so that copies go by a staging buffer. And what it compiled, kept in a file that may
 * be anything. Skipped, aloud, where there is no adapter. */
#include "tests/tap.h"

#ifdef ZT_HAVE_VULKAN
#include "lib/engine/vulkan/vk.h"
#include "lib/run/run.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the driver, with faults ----------------------------------------------------------------- */

static zt_vk_api real;
static int calls, fail_at; /* calls that may fail, so far; the one that does, 0: none */
static const char *only;   /* calls of that name alone may; NULL: all */
static int live;           /* objects that the driver has made and not got back */
static bool lose;          /* it fails by losing the device, where it can be lost */
static bool apart;         /* the host does not see the device's own memory */
static const char *failed; /* the call that did */

static bool hit(const char *name, bool may_lose)
{
    if ((lose && !may_lose) || (only && strcmp(only, name))) return false;
    if (++calls != fail_at) return false;
    failed = name;
    return true;
}

/* X(function, its error, can the device be lost there, parameters, arguments, live objects it makes) */
#define D VkDevice d
#define A const VkAllocationCallbacks *a
#define OOM VK_ERROR_OUT_OF_DEVICE_MEMORY
#define HOOM VK_ERROR_OUT_OF_HOST_MEMORY
#define CALLS(X)                                                                                   \
    X(CreateBuffer, OOM, 0, (D, const VkBufferCreateInfo *i, A, VkBuffer *o), (d, i, a, o), 1)     \
    X(BindBufferMemory, OOM, 0, (D, VkBuffer b, VkDeviceMemory m, VkDeviceSize n), (d, b, m, n), 0) \
    X(MapMemory, VK_ERROR_MEMORY_MAP_FAILED, 0,                                                    \
      (D, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize n, VkMemoryMapFlags f, void **o),        \
      (d, m, at, n, f, o), 0)                                                                      \
    X(CreateShaderModule, HOOM, 0,                                                                 \
      (D, const VkShaderModuleCreateInfo *i, A, VkShaderModule *o), (d, i, a, o), 1)               \
    X(CreatePipelineLayout, HOOM, 0,                                                               \
      (D, const VkPipelineLayoutCreateInfo *i, A, VkPipelineLayout *o), (d, i, a, o), 1)           \
    X(CreateComputePipelines, OOM, 0,                                                              \
      (D, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i, A, VkPipeline *o),  \
      (d, c, n, i, a, o), 1)                                                                       \
    X(CreatePipelineCache, HOOM, 0,                                                                \
      (D, const VkPipelineCacheCreateInfo *i, A, VkPipelineCache *o), (d, i, a, o), 1)             \
    X(GetPipelineCacheData, HOOM, 0, (D, VkPipelineCache c, size_t *n, void *p), (d, c, n, p), 0)  \
    X(CreateCommandPool, HOOM, 0,                                                                  \
      (D, const VkCommandPoolCreateInfo *i, A, VkCommandPool *o), (d, i, a, o), 1)                 \
    X(AllocateCommandBuffers, HOOM, 0,                                                             \
      (D, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *o), (d, i, o), 0)                 \
    X(BeginCommandBuffer, HOOM, 0, (VkCommandBuffer c, const VkCommandBufferBeginInfo *i), (c, i), 0) \
    X(EndCommandBuffer, OOM, 0, (VkCommandBuffer c), (c), 0)                                       \
    X(CreateFence, HOOM, 0, (D, const VkFenceCreateInfo *i, A, VkFence *o), (d, i, a, o), 1)       \
    X(ResetFences, OOM, 0, (D, uint32_t n, const VkFence *f), (d, n, f), 0)                        \
    X(WaitForFences, OOM, 1, (D, uint32_t n, const VkFence *f, VkBool32 all, uint64_t ns),         \
      (d, n, f, all, ns), 0)                                                                       \
    X(QueueSubmit, OOM, 1, (VkQueue q, uint32_t n, const VkSubmitInfo *i, VkFence f),              \
      (q, n, i, f), 0)                                                                             \
    X(CreateQueryPool, HOOM, 0,                                                                    \
      (D, const VkQueryPoolCreateInfo *i, A, VkQueryPool *o), (d, i, a, o), 1)                     \
    X(GetQueryPoolResults, OOM, 1,                                                                 \
      (D, VkQueryPool q, uint32_t at, uint32_t n, size_t bytes, void *p, VkDeviceSize step,        \
       VkQueryResultFlags f), (d, q, at, n, bytes, p, step, f), 0)

#define X(f, error, may_lose, parameters, arguments, makes)                                        \
    static VKAPI_ATTR VkResult VKAPI_CALL fake_##f parameters                                      \
    {                                                                                              \
        if (hit("vk" #f, may_lose)) return lose ? VK_ERROR_DEVICE_LOST : error;                  \
        VkResult r = real.f arguments;                                                             \
        if (r == VK_SUCCESS) live += makes;                                                        \
        return r;                                                                                  \
    }
CALLS(X)
#undef X

/* With `apart` there are two memory types, of which the driver's one stands behind both. */
static VKAPI_ATTR VkResult VKAPI_CALL fake_AllocateMemory(D, const VkMemoryAllocateInfo *i, A,
                                                          VkDeviceMemory *o)
{
    VkMemoryAllocateInfo its = *i;
    if (hit("vkAllocateMemory", false)) return OOM;
    if (apart) its.memoryTypeIndex = 0;
    VkResult r = real.AllocateMemory(d, &its, a, o);
    live += r == VK_SUCCESS;
    return r;
}

static VKAPI_ATTR void VKAPI_CALL fake_GetBufferMemoryRequirements(D, VkBuffer b,
                                                                   VkMemoryRequirements *o)
{
    real.GetBufferMemoryRequirements(d, b, o);
    if (apart) o->memoryTypeBits = 3;
}

static VKAPI_ATTR void VKAPI_CALL
fake_GetPhysicalDeviceMemoryProperties(VkPhysicalDevice p, VkPhysicalDeviceMemoryProperties *o)
{
    real.GetPhysicalDeviceMemoryProperties(p, o);
    if (!apart) return;
    o->memoryTypeCount = 2;
    o->memoryTypes[1] = o->memoryTypes[0];
    o->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    o->memoryTypes[1].propertyFlags =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}

#define GONE(X)                                                                                    \
    X(DestroyBuffer, VkBuffer) X(FreeMemory, VkDeviceMemory) X(DestroyShaderModule, VkShaderModule) \
    X(DestroyPipelineLayout, VkPipelineLayout) X(DestroyPipeline, VkPipeline)                      \
    X(DestroyPipelineCache, VkPipelineCache) X(DestroyCommandPool, VkCommandPool)                  \
    X(DestroyFence, VkFence) X(DestroyQueryPool, VkQueryPool)
#define X(f, type)                                                                                 \
    static VKAPI_ATTR void VKAPI_CALL fake_##f(D, type o, A)                                       \
    {                                                                                              \
        real.f(d, o, a);                                                                           \
        live--;                                                                                    \
    }
GONE(X)
#undef X

static VKAPI_ATTR void VKAPI_CALL fake_DestroyDevice(D, A)
{
    real.DestroyDevice(d, a);
    live--;
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_CreateDevice(VkPhysicalDevice p,
                                                        const VkDeviceCreateInfo *i, A, VkDevice *o)
{
    if (hit("vkCreateDevice", false)) return VK_ERROR_INITIALIZATION_FAILED;
    VkResult r = real.CreateDevice(p, i, a, o);
    live += r == VK_SUCCESS;
    return r;
}

/* A driver that has something to keep: lavapipe's cache is a header alone. */
static struct {
    bool on;
    VkPipelineCacheHeaderVersionOne head;
    uint8_t body[1000];
    size_t given; /* bytes that it got back; SIZE_MAX: other ones than these */
} kept;

static VKAPI_ATTR VkResult VKAPI_CALL keep_get(D, VkPipelineCache c, size_t *n, void *p)
{
    (void)d, (void)c;
    if (p) memcpy(p, &kept.head, sizeof kept.head);
    if (p) memcpy((char *)p + sizeof kept.head, kept.body, sizeof kept.body);
    *n = sizeof kept.head + sizeof kept.body;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL keep_create(D, const VkPipelineCacheCreateInfo *i, A,
                                                  VkPipelineCache *o)
{
    const VkPipelineCacheCreateInfo empty = {.sType = i->sType};
    kept.given = i->initialDataSize;
    if (kept.given &&
        (kept.given != sizeof kept.head + sizeof kept.body ||
         memcmp(i->pInitialData, &kept.head, sizeof kept.head) ||
         memcmp((const char *)i->pInitialData + sizeof kept.head, kept.body, sizeof kept.body)))
        kept.given = SIZE_MAX;
    return fake_CreatePipelineCache(d, &empty, a, o);
}

/* The device's own functions, ours before the driver's. */
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_GetDeviceProcAddr(D, const char *name)
{
    PFN_vkVoidFunction its = real.GetDeviceProcAddr(d, name);
    if (kept.on && !strcmp(name, "vkGetPipelineCacheData")) return (PFN_vkVoidFunction)keep_get;
    if (kept.on && !strcmp(name, "vkCreatePipelineCache")) {
        real.CreatePipelineCache = (PFN_vkCreatePipelineCache)its;
        return (PFN_vkVoidFunction)keep_create;
    }
#define X(f, ...)                                                                                  \
    if (!strcmp(name, "vk" #f)) {                                                                  \
        real.f = (PFN_vk##f)its;                                                                   \
        return (PFN_vkVoidFunction)fake_##f;                                                       \
    }
    CALLS(X)
    GONE(X)
    X(AllocateMemory)
    X(GetBufferMemoryRequirements)
    X(DestroyDevice)
#undef X
    return its;
}

static zt_engine *open_fake(zt_ctx *ctx)
{
    zt_vk_engine *e = zt_calloc(ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->base = (zt_engine){&zt_engine_vulkan, ctx};
    zt_status s = zt_vk_load(ctx, &e->vk, &e->instance);
    if (!s) {
        real = e->vk;
        e->vk.CreateDevice = fake_CreateDevice;
        e->vk.GetDeviceProcAddr = fake_GetDeviceProcAddr;
        e->vk.GetPhysicalDeviceMemoryProperties = fake_GetPhysicalDeviceMemoryProperties;
        s = zt_vk_device_open(e, 0);
    }
    if (!s) return &e->base;
    zt_engine_vulkan.close(&e->base);
    return NULL;
}

/* ---- what is asked of it --------------------------------------------------------------------- */

static zt_status find_w(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user, (void)name;
    *type = zt_type_make(ZT_F32, 2, (int64_t[]){1, 8});
    *handle = 0;
    return ZT_OK;
}

static zt_status read_w(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)user, (void)handle, (void)offset;
    for (size_t i = 0; i < n / 4; i++) ((float *)dst)[i] = 1;
    return ZT_OK;
}

static void ignore(void *user, const zt_plan *plan, int step, double seconds)
{
    (void)user, (void)plan, (void)step, (void)seconds;
}

/* A weight is added. */
static zt_status replayed(zt_ctx *ctx, zt_engine *e, bool *right)
{
    const int64_t dim[] = {1, 8};
    const zt_store store = {.find = find_w, .read = read_w};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    zt_prog *p = zt_prog_new(ctx);
    int a = zt_prog_in(p, "x", ZT_F32, 2, dim), w = zt_prog_data(p, "w", ZT_F32, 2, dim, "w");
    zt_prog_out(p, "y", zt_emit_add(p, NULL, zt_emit_add(p, NULL, a, w), a));
    zt_session *s = zt_session_open(e, p, &store, &(zt_session_opts){.strict = true});
    const void *in[] = {x};
    void *out[] = {y};
    zt_status st = s ? zt_session_step(s, NULL, 0, in, out) : zt_ctx_status(ctx);
    *right = *right && (st || (y[0] == 3 && y[7] == 17));
    zt_session_close(s);
    zt_prog_free(p);
    return st;
}

/* Each step's time is asked for. */
static zt_status watched(zt_engine *e, bool *right)
{
    const int64_t dim = 3;
    zt_type type[] = {zt_type_make(ZT_F32, 1, &dim), zt_type_make(ZT_F32, 1, &dim)};
    zt_place place[] = {{.kind = ZT_PLACE_IN}, {.kind = ZT_PLACE_OUT}};
    zt_step step = {.op = ZT_OP_add, .in = {0, 0}, .out = {1}};
    zt_plan plan = {.n_values = 2, .type = type, .place = place, .n_steps = 1, .step = &step,
                    .n_in = 1, .n_out = 1};
    const zt_watch watch = {.after = ignore};
    float x[3] = {1, 2, 3}, y[3] = {0};
    const void *in[] = {x};
    void *out[] = {y};
    zt_ready *r = e->vt->prepare(e, &plan);
    zt_status st = r ? e->vt->replay(e, r, in, out, &watch) : zt_ctx_status(e->ctx);
    *right = *right && (st || y[2] == 6);
    if (r) e->vt->unprepare(e, r);
    return st;
}

/* A state goes up and comes back. */
static zt_status copied(zt_engine *e, bool *right)
{
    const int64_t dim = 5;
    zt_type t = zt_type_make(ZT_F32, 1, &dim);
    float x[5] = {5, 4, 3, 2, 1}, y[5] = {0};
    zt_ebuf *b = e->vt->alloc(e, &t);
    zt_status st = b ? e->vt->upload(e, b, x) : zt_ctx_status(e->ctx);
    if (!st) st = e->vt->download(e, b, y);
    *right = *right && (st || !memcmp(x, y, sizeof x));
    e->vt->free(e, b);
    return st;
}

/* Ops ahead of the caller, handed over at two. */
static zt_status ahead(zt_ctx *ctx, zt_engine *e, bool *right)
{
    const int64_t dim = 6;
    zt_type t = zt_type_make(ZT_F32, 1, &dim);
    zt_run *r = zt_run_new(e, true);
    zt_tensor *x = zt_tensor_new(ctx, &t);
    zt_status st = r && x ? ZT_OK : ZT_ENOMEM;
    if (!st) {
        zt_run_flush_at(r, 2);
        for (int i = 0; i < 6; i++) ((float *)zt_tensor_data(x))[i] = (float)i;
        zt_tensor *y = zt_add(r, zt_add(r, zt_add(r, x, x), x), x);
        const float *data = y ? zt_tensor_data(y) : NULL;
        st = zt_ctx_status(ctx);
        *right = *right && (st || data[5] == 20);
    }
    zt_run_free(r);
    zt_tensor_unref(x);
    return st ? st : zt_ctx_status(ctx);
}

/* All of it on a fresh engine; the first failure ends it. */
static zt_status scenario(zt_ctx *ctx, bool *right)
{
    zt_engine *e = open_fake(ctx);
    zt_status s = e ? replayed(ctx, e, right) : zt_ctx_status(ctx);
    if (!s) s = watched(e, right);
    if (!s) s = copied(e, right);
    if (!s) s = ahead(ctx, e, right);
    zt_engine_close(e);
    return s ? s : zt_ctx_status(ctx);
}

/* ---- every call once ------------------------------------------------------------------------- */

static bool clean(zt_ctx *ctx, const char *message)
{
    zt_mem m = zt_mem_get(ctx);
    bool good = live == 0 && m.blocks == 0 && m.held == 0;
    if (!good)
        diag("%s failed (%s): %d objects, %zu blocks, %zu bytes left", failed ? failed : "nothing",
             message, live, m.blocks, m.held);
    return good;
}

static void every_call(zt_ctx *ctx, const char *how, int least)
{
    int n = 1, errors = 0, survived = 0;
    bool good = true, right = true, told = true;
    for (; n < 2000; n++) {
        char message[300] = "";
        failed = NULL;
        calls = live = 0;
        fail_at = n;
        zt_status s = scenario(ctx, &right);
        strncat(message, zt_ctx_error(ctx), sizeof message - 1);
        if (s && (!message[0] || (lose && !strstr(message, "the device is lost")))) {
            diag("%s failed: status %d, '%s'", failed, s, message);
            told = false;
        }
        zt_ctx_clear(ctx);
        good = clean(ctx, message) && good;
        errors += s != ZT_OK;
        survived += s == ZT_OK && failed != NULL;
        if (!failed) break;
    }
    ok(n > least && n < 2000 && errors > least / 2, "%s: each of %d calls failed once, %d were errors", how,
       n - 1, errors);
    ok(told, "%s: and said so", how);
    ok(right, "%s: what went well was right, %d times in spite of a failure", how, survived);
    ok(good, "%s: the driver got everything back", how);
}

/* After the device is lost every call says so, without asking the driver. */
static void stays_lost(zt_ctx *ctx)
{
    bool right = true;
    calls = fail_at = 0;
    zt_engine *e = open_fake(ctx);
    ok(e && copied(e, &right) == ZT_OK && watched(e, &right) == ZT_OK, "a device that works");
    lose = true;
    only = "vkQueueSubmit";
    fail_at = calls + 1;
    zt_status s = watched(e, &right);
    ok(s == ZT_ESYS, "that is lost: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    only = NULL;
    fail_at = 0;
    for (int i = 0; i < 2; i++, zt_ctx_clear(ctx)) {
        s = watched(e, &right);
        ok(s == ZT_ESYS && strstr(zt_ctx_error(ctx), "the device is lost"), "is lost for good: %s",
           zt_ctx_error(ctx));
    }
    ok(ahead(ctx, e, &right) != ZT_OK, "for ops ahead of the caller too");
    zt_ctx_clear(ctx);
    zt_engine_close(e);
    zt_ctx_clear(ctx);
    lose = false;
    ok(clean(ctx, ""), "and closes");
}

/* ---- what the driver compiled ---------------------------------------------------------------- */

static char folder[64], file[512]; /* the cache folder, and the one file in it */

/* A run of the engine; what the driver was given. */
static size_t run_once(zt_ctx *ctx)
{
    bool right = true;
    kept.given = 0;
    zt_engine *e = open_fake(ctx);
    zt_status s = e ? watched(e, &right) : zt_ctx_status(ctx);
    zt_engine_close(e);
    if (!s && right && !zt_ctx_status(ctx)) return kept.given;
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
    DIR *d = opendir(dir);
    for (struct dirent *at; d && (at = readdir(d));)
        if (at->d_name[0] != '.' || strlen(at->d_name) > 2) {
            snprintf(file, sizeof file, "%s/%s", dir, at->d_name);
            n++;
        }
    if (d) closedir(d);
    return n == 1;
}

/* The file with byte `at` changed (-1: none), cut to `n` bytes. */
static void spoil(const char *bytes, size_t n, long at)
{
    FILE *f = fopen(file, "wb");
    if (!f) return;
    fwrite(bytes, 1, n, f);
    if (at >= 0) {
        fseek(f, at, SEEK_SET);
        fputc(bytes[at] ^ 0x10, f);
    }
    fclose(f);
}

static void test_spoiled(zt_ctx *ctx, size_t whole)
{
    static const long at[] = {0, 16, 23, 24, 39, 40, 44, 48, 56, 100, 1071};
    static const size_t cut[] = {0, 1, 39, 40, 72, 1071};
    char bytes[2048];
    FILE *f = fopen(file, "rb");
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    bool good = n == whole + 40;
    if (f) fclose(f);
    for (size_t i = 0; i < sizeof at / sizeof at[0] && good; i++) {
        spoil(bytes, n, at[i]);
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
        if (child[i] == 0) execl("/proc/self/exe", "vulkan_faults", "once", folder, file, NULL);
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
    zt_engine *e = zt_engine_open(ctx, "vulkan", NULL);
    const zt_vk_engine *v = (const zt_vk_engine *)e;
    if (!e) return false;
    kept.on = true;
    kept.head = (VkPipelineCacheHeaderVersionOne){
        sizeof kept.head, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, v->vendor, v->model, {0}};
    memcpy(kept.head.pipelineCacheUUID, v->cache_uuid, VK_UUID_SIZE);
    for (size_t i = 0; i < sizeof kept.body; i++) kept.body[i] = (uint8_t)(i * 7);
    zt_engine_close(e);
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
    /* What is compiled here is nobody's. */
    setenv("XDG_CACHE_HOME", "/nonexistent", 1);
    zt_engine *e = zt_engine_open(ctx, "vulkan", NULL);
    if (!e) {
        skip("vulkan: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    zt_engine_close(e);
    if (e) {
        test_cache(ctx);
        setenv("XDG_CACHE_HOME", "/nonexistent", 1);
        every_call(ctx, "errors", 40);
        lose = true;
        every_call(ctx, "losses", 8);
        lose = false;
        stays_lost(ctx);
        apart = true;
        every_call(ctx, "memory apart", 60);
    }
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
#else
int main(void)
{
    skip("built without vulkan");
    return tap_done();
}
#endif
