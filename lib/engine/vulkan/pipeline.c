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

static VkPipeline build(zt_vk_engine *e, int shader, const uint32_t *spec)
{
    VkSpecializationMapEntry entry[ZT_VK_SPECS];
    for (uint32_t i = 0; i < ZT_VK_SPECS; i++) entry[i] = (VkSpecializationMapEntry){i, 4 * i, 4};
    const VkSpecializationInfo constants = {ZT_VK_SPECS, entry, ZT_VK_SPECS * sizeof *spec, spec};
    const VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = *shaders[shader].size,
                                           .pCode = shaders[shader].code};
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

VkPipeline zt_vk_pipeline(zt_vk_engine *e, int shader, const uint32_t spec[ZT_VK_SPECS])
{
    const size_t bytes = ZT_VK_SPECS * sizeof *spec;
    for (int i = 0; i < e->n_pipes; i++) {
        const zt_vk_pipe *p = &e->pipe[i];
        if (p->shader == shader && !memcmp(p->spec, spec, bytes))
            return p->pipeline;
    }
    if (e->n_pipes == e->room_pipes) {
        int room = e->room_pipes ? 2 * e->room_pipes : 32;
        zt_vk_pipe *more = zt_realloc(e->base.ctx, e->pipe, (size_t)room * sizeof *more);
        if (!more) return VK_NULL_HANDLE;
        e->pipe = more;
        e->room_pipes = room;
    }
    zt_vk_pipe p = {.shader = shader};
    memcpy(p.spec, spec, bytes);
    p.pipeline = build(e, shader, spec);
    if (p.pipeline) e->pipe[e->n_pipes++] = p;
    return p.pipeline;
}

void zt_vk_pipelines_close(zt_vk_engine *e)
{
    zt_vk_cache_close(e);
    for (int i = 0; i < e->n_pipes; i++)
        e->vk.DestroyPipeline(e->device, e->pipe[i].pipeline, NULL);
    zt_free(e->base.ctx, e->pipe);
    e->pipe = NULL;
    e->n_pipes = e->room_pipes = 0;
}
