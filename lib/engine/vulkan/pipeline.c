/* pipeline.c - shaders into pipelines, each once for every set of constants. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* ---- code, made from shaders/ by glslc -mfmt=c ----------------------------------------------- */

#define X(s) extern const uint32_t zt_vk_code_##s[], zt_vk_size_##s;
ZT_VK_SHADERS(X)
#undef X
#define X(s) extern const uint32_t zt_vk_code_##s##_f64[], zt_vk_size_##s##_f64;
ZT_VK_TWINS(X)
#undef X

typedef struct shader_code {
    const uint32_t *code, *size;
} shader_code;

static const shader_code shaders[ZT_VK_N_SHADERS] = {
#define X(s) {zt_vk_code_##s, &zt_vk_size_##s},
    ZT_VK_SHADERS(X)
#undef X
};

/* In f64; NULL: it has none. */
static const shader_code twins[ZT_VK_N_SHADERS] = {
#define X(s) [ZT_VK_SHADER_##s] = {zt_vk_code_##s##_f64, &zt_vk_size_##s##_f64},
    ZT_VK_TWINS(X)
#undef X
};

/* ---- pipelines ------------------------------------------------------------------------------- */

static VkPipeline build_of(zt_vk_engine *engine, const uint32_t *spec, const uint32_t *words, size_t bytes)
{
    VkSpecializationMapEntry entry[ZT_VK_SPECS];
    for (uint32_t i = 0; i < ZT_VK_SPECS; i++) entry[i] = (VkSpecializationMapEntry){i, 4 * i, 4};
    uint32_t all[ZT_VK_SPECS];
    memcpy(all, spec, sizeof all);
    all[ZT_VK_FUSED] = engine->fused;
    const VkSpecializationInfo constants = {ZT_VK_SPECS, entry, sizeof all, all};
    const VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = words};
    VkShaderModule module;
    VkPipeline made = VK_NULL_HANDLE;
    VkResult result = engine->vk.CreateShaderModule(engine->device, &code, NULL, &module);
    if (zt_vk_check(engine->base.ctx, result, "CreateShaderModule")) return VK_NULL_HANDLE;
    const VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                              .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                        .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                        .module = module,
                                                        .pName = "main",
                                                        .pSpecializationInfo = &constants},
                                              .layout = engine->layout};
    result = engine->vk.CreateComputePipelines(engine->device, engine->cache, 1, &info, NULL, &made);
    engine->vk.DestroyShaderModule(engine->device, module, NULL);
    return zt_vk_check(engine->base.ctx, result, "CreateComputePipelines") ? VK_NULL_HANDLE : made;
}

static VkPipeline build_pipeline(zt_vk_engine *engine, const zt_vk_call *call)
{
    const bool twin = engine->doubles && call->spec[ZT_VK_FLOATS] == ZT_VK_F64 && twins[call->shader].code;
    const shader_code *shader = twin ? &twins[call->shader] : &shaders[call->shader];
    const uint32_t *code = shader->code;
    size_t bytes = *shader->size;
    if (!call->n_body) return build_of(engine, call->spec, code, bytes);
    uint32_t *own = zt_vk_module(engine->base.ctx, code, bytes, call->body, call->n_body, &bytes);
    VkPipeline made = own ? build_of(engine, call->spec, own, bytes) : VK_NULL_HANDLE;
    zt_free(engine->base.ctx, own);
    return made;
}

static bool is_pipe_of(const zt_vk_pipe *pipe, const zt_vk_call *call)
{
    return pipe->shader == call->shader && pipe->n_body == call->n_body && !memcmp(pipe->spec, call->spec, sizeof pipe->spec) &&
           (!call->n_body || !memcmp(pipe->body, call->body, (size_t)call->n_body * sizeof *pipe->body));
}

/* Room for one more. */
static bool grow_pipes(zt_vk_engine *engine)
{
    if (engine->n_pipes < engine->room_pipes) return true;
    int room = engine->room_pipes ? 2 * engine->room_pipes : 32;
    zt_vk_pipe *more = zt_realloc(engine->base.ctx, engine->pipe, (size_t)room * sizeof *more);
    if (!more) return false;
    engine->pipe = more;
    engine->room_pipes = room;
    return true;
}

VkPipeline zt_vk_pipeline(zt_vk_engine *engine, const zt_vk_call *call)
{
    for (int i = 0; i < engine->n_pipes; i++)
        if (is_pipe_of(&engine->pipe[i], call)) return engine->pipe[i].pipeline;
    if (!grow_pipes(engine)) return VK_NULL_HANDLE;
    zt_vk_pipe pipe = {.shader = call->shader, .n_body = call->n_body};
    memcpy(pipe.spec, call->spec, sizeof pipe.spec);
    if (call->n_body) {
        pipe.body = zt_alloc_array(engine->base.ctx, (size_t)call->n_body, sizeof *pipe.body);
        if (!pipe.body) return VK_NULL_HANDLE;
        memcpy(pipe.body, call->body, (size_t)call->n_body * sizeof *pipe.body);
    }
    pipe.pipeline = build_pipeline(engine, call);
    if (pipe.pipeline)
        engine->pipe[engine->n_pipes++] = pipe;
    else
        zt_free(engine->base.ctx, pipe.body);
    return pipe.pipeline;
}

void zt_vk_pipelines_close(zt_vk_engine *engine)
{
    zt_vk_cache_close(engine);
    for (int i = 0; i < engine->n_pipes; i++) {
        engine->vk.DestroyPipeline(engine->device, engine->pipe[i].pipeline, NULL);
        zt_free(engine->base.ctx, engine->pipe[i].body);
    }
    zt_free(engine->base.ctx, engine->pipe);
    engine->pipe = NULL;
    engine->n_pipes = engine->room_pipes = 0;
}
