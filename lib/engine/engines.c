/* engines.c - the engines there are, by name. */
#include "lib/base/near.h"
#include "lib/base/require.h"
#include "lib/engine/contract_bits.h"
#include "lib/engine/engine.h"

#include <string.h>

static const zt_engine_vt *const built_in[] = {
    &zt_engine_cpu,
    &zt_engine_ref,
#ifdef ZT_HAVE_VULKAN
    &zt_engine_vulkan,
#endif
#ifdef ZT_HAVE_CUDA
    &zt_engine_cuda,
    &zt_engine_hip,
    &zt_engine_opencl,
#endif
    NULL,
};

/* Engines of the design that this build has no code for, as "NAME" or "NAME:DEVICE". */
static const char *const not_built[] = {
#ifndef ZT_HAVE_CUDA
    "cuda",   "hip", "opencl",
#endif
#ifndef ZT_HAVE_VULKAN
    "vulkan",
#endif
    NULL,
};

enum { N_BUILT_IN = sizeof built_in / sizeof built_in[0] - 1, N_NOT_BUILT = sizeof not_built / sizeof not_built[0] - 1 };

const char *zt_engine_list(int i) { return i >= 0 && i < N_BUILT_IN ? built_in[i]->name : NULL; }

static const char *engine_name(const void *user, int i)
{
    (void)user;
    return i == 0 ? "auto" : zt_engine_list(i - 1);
}

/* "NAME" is device 0. */
static bool is_device_of(const char *name, const char *engine, int64_t *device)
{
    size_t length = strlen(engine);
    *device = 0;
    if (strncmp(name, engine, length)) return false;
    return name[length] == 0 ||
           (name[length] == ':' && zt_parse_i64(name + length + 1, device) && *device >= 0 && *device < INT32_MAX);
}

static bool is_listed(const char *name, size_t length)
{
    const char *listed;
    for (int i = 0; (listed = engine_name(NULL, i)) != NULL; i++)
        if (strlen(listed) == length && memcmp(listed, name, length) == 0) return true;
    return false;
}

zt_engine *zt_engine_open(zt_ctx *ctx, const char *name, const zt_engine_opts *opts)
{
    ZT_REQUIRE(ctx, name, NULL);
    const zt_engine_opts usual = {.isa = zt_isa_best()};
    char text[256];
    size_t length = strlen(name);
    if (!opts) opts = &usual;
    if (strcmp(name, "auto") == 0) name = "cpu";
    int64_t device;
    for (int i = 0; i < N_BUILT_IN; i++) {
        zt_engine_opts with = *opts;
        if (!is_device_of(name, built_in[i]->name, &device)) continue;
        if (strchr(name, ':') && !built_in[i]->devices) break;
        with.device = strchr(name, ':') ? (int)device : opts->device;
        if (opts->compute != ZT_COMPUTE_F32 && !built_in[i]->computes) {
            zt_fail(ctx, ZT_ENOTSUP, "engine %s does not support compute type %s: only f32", built_in[i]->name,
                    zt_compute_name(opts->compute));
            return NULL;
        }
        if (opts->strict_bits && opts->compute != ZT_COMPUTE_F32) {
            zt_fail(ctx, ZT_ENOTSUP, "strict bits are those of compute type f32, not %s", zt_compute_name(opts->compute));
            return NULL;
        }
        zt_engine *engine = built_in[i]->open(ctx, &with);
        if (engine) engine->compute = opts->compute, engine->strict_bits = opts->strict_bits;
        return engine;
    }
    zt_escape(text, sizeof text, name, length < 60 ? length : 60);
    for (int i = 0; i < N_NOT_BUILT; i++) {
        if (!is_device_of(name, not_built[i], &device)) continue;
        zt_fail(ctx, ZT_ENOTSUP, "engine '%s': zt was built without %s", text, not_built[i]);
        return NULL;
    }
    if (is_listed(name, strcspn(name, ":")))
        zt_fail(ctx, ZT_EUSAGE, "engine '%s': invalid device number", text);
    else
        zt_fail_unknown(ctx, ZT_EUSAGE, "unknown engine", name, strlen(name), engine_name, NULL);
    return NULL;
}

static const zt_engine_vt *find_vtable(const char *name)
{
    for (int i = 0; i < N_BUILT_IN; i++)
        if (!strcmp(name, built_in[i]->name)) return built_in[i];
    return NULL;
}

int zt_engine_adapters(zt_ctx *ctx, const char *name, zt_adapter *adapter, int max)
{
    ZT_REQUIRE(ctx, name, 0);
    const zt_engine_vt *vtable = find_vtable(name);
    return vtable && vtable->adapters ? vtable->adapters(ctx, adapter, max) : 0;
}

bool zt_engine_has_devices(const char *name)
{
    if (!name) return false;
    const zt_engine_vt *vtable = find_vtable(name);
    return vtable && vtable->devices;
}

const zt_engine *zt_engine_inmost(const zt_engine *engine)
{
    if (!engine) return NULL;
    while (engine->inner) engine = engine->inner;
    return engine;
}

bool zt_engine_has_contract_bits(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    while (engine->inner) engine = engine->inner;
    if (zt_op_info(op)->def->flags & ZT_OPF_VIEW) return true;
    return engine->vt->has_contract_bits && engine->vt->has_contract_bits(engine, op, attrs, in, out);
}

bool zt_engine_runs(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    return engine->vt->has(engine, op, attrs, in, out) &&
           (!engine->strict_bits || zt_engine_has_contract_bits(engine, op, attrs, in, out));
}

void zt_engine_close(zt_engine *engine)
{
    if (engine) engine->vt->close(engine);
}

const char *zt_compute_name(zt_compute compute)
{
    if ((unsigned)compute > ZT_COMPUTE_FP8) return NULL;
    static const char *const names[] = {"f32", "f16", "bf16", "fp8"};
    return names[compute];
}
