/* pipeline.c - shaders into pipelines, each once for every set of constants. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* ---- code, made from shaders/ by glslc -mfmt=c ----------------------------------------------- */

#define X(s) extern const uint32_t zt_vk_code_##s[], zt_vk_size_##s;
ZT_VK_SHADERS(X)
#undef X

static const struct {
    const uint32_t *code, *size;
} shaders[ZT_VK_N_SHADERS] = {
#define X(s) {zt_vk_code_##s, &zt_vk_size_##s},
    ZT_VK_SHADERS(X)
#undef X
};

/* ---- pipelines ------------------------------------------------------------------------------- */

static VkPipeline build_of(zt_vk_engine *e, const uint32_t *spec, const uint32_t *words,
                           size_t bytes)
{
    VkSpecializationMapEntry entry[ZT_VK_SPECS];
    for (uint32_t i = 0; i < ZT_VK_SPECS; i++) entry[i] = (VkSpecializationMapEntry){i, 4 * i, 4};
    const VkSpecializationInfo constants = {ZT_VK_SPECS, entry, ZT_VK_SPECS * sizeof *spec, spec};
    const VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = bytes,
                                           .pCode = words};
    VkShaderModule module;
    VkPipeline made = VK_NULL_HANDLE;
    VkResult r = e->vk.CreateShaderModule(e->device, &code, NULL, &module);
    if (zt_vk_check(e->base.ctx, r, "CreateShaderModule")) return VK_NULL_HANDLE;
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = e->layout};
    r = e->vk.CreateComputePipelines(e->device, e->cache, 1, &info, NULL, &made);
    e->vk.DestroyShaderModule(e->device, module, NULL);
    return zt_vk_check(e->base.ctx, r, "CreateComputePipelines") ? VK_NULL_HANDLE : made;
}

static VkPipeline build(zt_vk_engine *e, const zt_vk_call *c)
{
    const uint32_t *code = shaders[c->shader].code;
    size_t bytes = *shaders[c->shader].size;
    if (!c->n_body) return build_of(e, c->spec, code, bytes);
    uint32_t *own = zt_vk_module(e->base.ctx, code, bytes, c->body, c->n_body, &bytes);
    VkPipeline made = own ? build_of(e, c->spec, own, bytes) : VK_NULL_HANDLE;
    zt_free(e->base.ctx, own);
    return made;
}

static bool is_pipe_of(const zt_vk_pipe *p, const zt_vk_call *c)
{
    return p->shader == c->shader && p->n_body == c->n_body &&
           !memcmp(p->spec, c->spec, sizeof p->spec) &&
           (!c->n_body || !memcmp(p->body, c->body, (size_t)c->n_body * sizeof *p->body));
}

/* Room for one more. */
static bool grow(zt_vk_engine *e)
{
    if (e->n_pipes < e->room_pipes) return true;
    int room = e->room_pipes ? 2 * e->room_pipes : 32;
    zt_vk_pipe *more = zt_realloc(e->base.ctx, e->pipe, (size_t)room * sizeof *more);
    if (!more) return false;
    e->pipe = more;
    e->room_pipes = room;
    return true;
}

VkPipeline zt_vk_pipeline(zt_vk_engine *e, const zt_vk_call *c)
{
    for (int i = 0; i < e->n_pipes; i++)
        if (is_pipe_of(&e->pipe[i], c)) return e->pipe[i].pipeline;
    if (!grow(e)) return VK_NULL_HANDLE;
    zt_vk_pipe p = {.shader = c->shader, .n_body = c->n_body};
    memcpy(p.spec, c->spec, sizeof p.spec);
    if (c->n_body) {
        p.body = zt_alloc_array(e->base.ctx, (size_t)c->n_body, sizeof *p.body);
        if (!p.body) return VK_NULL_HANDLE;
        memcpy(p.body, c->body, (size_t)c->n_body * sizeof *p.body);
    }
    p.pipeline = build(e, c);
    if (p.pipeline)
        e->pipe[e->n_pipes++] = p;
    else
        zt_free(e->base.ctx, p.body);
    return p.pipeline;
}

void zt_vk_pipelines_close(zt_vk_engine *e)
{
    zt_vk_cache_close(e);
    for (int i = 0; i < e->n_pipes; i++) {
        e->vk.DestroyPipeline(e->device, e->pipe[i].pipeline, NULL);
        zt_free(e->base.ctx, e->pipe[i].body);
    }
    zt_free(e->base.ctx, e->pipe);
    e->pipe = NULL;
    e->n_pipes = e->room_pipes = 0;
}
