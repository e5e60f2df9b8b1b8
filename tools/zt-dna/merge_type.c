/* merge_type.c - the child's types by --type: as zt-quant would choose
 * them. What columns weigh is not guessed, as zt-quant does where it
 * searches: that wants a tensor's first rows before its first code. */
#include "tools/zt-dna/merge.h"

#include <stdio.h>
#include <string.h>

/* A whole number of the model's own keys; 0 where there is none. */
static int64_t number_of(const zt_meta *m, zt_bytes arch, const char *key)
{
    char name[160];
    uint32_t u = 0;
    snprintf(name, sizeof name, "%.*s.%s", (int)arch.n, arch.data, key);
    int64_t i = zt_meta_find(m, name);
    const zt_meta_item *item = i >= 0 ? zt_meta_get(m, i) : NULL;
    zt_gguf_kind elem;
    uint64_t count;
    if (!item) return 0;
    if (item->kind == ZT_GGUF_U32 || item->kind == ZT_GGUF_I32) memcpy(&u, item->value, 4);
    enum { HEAD = 12 }; /* kind and count before an array's elements */
    if (zt_meta_array(item, &elem, &count) && count && (elem == ZT_GGUF_U32 || elem == ZT_GGUF_I32))
        memcpy(&u, item->value + HEAD, 4);
    return u;
}

static zt_mix_of describe(const zt_meta *meta, const zt_mix *mix, char arch[65])
{
    int64_t i = zt_meta_find(meta, "general.architecture");
    zt_bytes name = i >= 0 ? zt_meta_text(zt_meta_get(meta, i)) : (zt_bytes){NULL, 0};
    zt_mix_of of = {.mix = mix};
    if (!name.data || name.n > 64) return of;
    snprintf(arch, 65, "%.*s", (int)name.n, name.data);
    of.arch = arch;
    of.n_layers = number_of(meta, name, "block_count");
    of.n_heads = number_of(meta, name, "attention.head_count");
    of.n_kv_heads = number_of(meta, name, "attention.head_count_kv");
    of.n_experts = number_of(meta, name, "expert_count");
    return of;
}

static zt_status put_type(zt_merge *m, const zt_mix *mix)
{
    zt_meta *meta = zt_merge_meta(m);
    enum { VERSION = 2 }; /* of the layouts, as llama.cpp has it */
    int64_t at = zt_meta_find(meta, "general.file_type");
    zt_status s = zt_meta_put_u32(meta, "general.quantization_version", VERSION);
    if (s == ZT_OK && mix->file_type >= 0)
        return zt_meta_put_u32(meta, "general.file_type", (uint32_t)mix->file_type);
    if (at >= 0) zt_meta_remove(meta, at);
    return s;
}

zt_status merge_retype(zt_cli *cli, zt_merge *m, const char *type)
{
    const zt_mix *mix = zt_mix_find(type);
    char arch[65];
    int64_t n = zt_merge_count(m);
    const zt_entry *e = zt_merge_entries(m);
    if (!mix)
        return zt_cli_no_mix(cli, "type", type);
    zt_mix_of of = describe(zt_merge_meta(m), mix, arch);
    zt_mix_tensor *t = zt_calloc(cli->ctx, (size_t)n, sizeof *t);
    for (int64_t i = 0; t && i < n; i++)
        t[i] = (zt_mix_tensor){.name = e[i].name, .type = &e[i].type};
    zt_status s = t ? zt_mix_choose(cli->ctx, &of, t, n) : ZT_ENOMEM;
    for (int64_t i = 0; s == ZT_OK && i < n; i++)
        if (!t[i].kept) s = zt_merge_retype(m, i, t[i].dtype, t[i].search);
    zt_free(cli->ctx, t);
    return s == ZT_OK ? put_type(m, mix) : s;
}
