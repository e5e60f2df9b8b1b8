/* merge_type.c - the child's types by --type: as zt-quant would choose
 * them. What columns weigh is not guessed, as zt-quant does where it
 * searches: that wants a tensor's first rows before its first code. */
#include "tools/zt-dna/merge.h"

#include <stdio.h>
#include <string.h>

/* A whole number of the model's own keys; 0 where there is none. */
static int64_t read_number(const zt_meta *meta, zt_bytes arch, const char *key)
{
    char name[160];
    uint32_t number = 0;
    snprintf(name, sizeof name, "%.*s.%s", (int)arch.n, arch.data, key);
    int64_t i = zt_meta_find(meta, name);
    const zt_meta_item *item = i >= 0 ? zt_meta_get(meta, i) : NULL;
    zt_gguf_kind elem;
    uint64_t count;
    if (!item) return 0;
    if (item->kind == ZT_GGUF_U32 || item->kind == ZT_GGUF_I32) memcpy(&number, item->value, 4);
    enum { HEAD = 12 }; /* kind and count before an array's elements */
    if (zt_meta_array(item, &elem, &count) && count && (elem == ZT_GGUF_U32 || elem == ZT_GGUF_I32))
        memcpy(&number, item->value + HEAD, 4);
    return number;
}

static zt_mix_of describe_model(const zt_meta *meta, const zt_mix *mix, char arch[65])
{
    int64_t i = zt_meta_find(meta, "general.architecture");
    zt_bytes name = i >= 0 ? zt_meta_text(zt_meta_get(meta, i)) : (zt_bytes){NULL, 0};
    zt_mix_of description = {.mix = mix};
    if (!name.data || name.n > 64) return description;
    snprintf(arch, 65, "%.*s", (int)name.n, name.data);
    description.arch = arch;
    description.n_layers = read_number(meta, name, "block_count");
    description.n_heads = read_number(meta, name, "attention.head_count");
    description.n_kv_heads = read_number(meta, name, "attention.head_count_kv");
    description.n_experts = read_number(meta, name, "expert_count");
    return description;
}

static zt_status put_type(zt_merge *merge, const zt_mix *mix)
{
    zt_meta *meta = zt_merge_meta(merge);
    enum { VERSION = 2 }; /* of the layouts, as llama.cpp has it */
    int64_t key_index = zt_meta_find(meta, "general.file_type");
    zt_status status = zt_meta_put_u32(meta, "general.quantization_version", VERSION);
    if (status == ZT_OK && mix->file_type >= 0) return zt_meta_put_u32(meta, "general.file_type", (uint32_t)mix->file_type);
    if (key_index >= 0) zt_meta_remove(meta, key_index);
    return status;
}

zt_status merge_retype(zt_cli *cli, zt_merge *merge, const char *type)
{
    const zt_mix *mix = zt_mix_find(type);
    char arch[65];
    int64_t count = zt_merge_count(merge);
    const zt_entry *entry = zt_merge_entries(merge);
    if (!mix) return zt_cli_no_mix(cli, "type", type);
    zt_mix_of description = describe_model(zt_merge_meta(merge), mix, arch);
    zt_mix_tensor *tensors = zt_calloc(cli->ctx, (size_t)count, sizeof *tensors);
    for (int64_t i = 0; tensors && i < count; i++) tensors[i] = (zt_mix_tensor){.name = entry[i].name, .type = &entry[i].type};
    zt_status status = tensors ? zt_mix_choose(cli->ctx, &description, tensors, count) : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < count; i++)
        if (!tensors[i].kept) status = zt_merge_retype(merge, i, tensors[i].dtype, tensors[i].search);
    zt_free(cli->ctx, tensors);
    return status == ZT_OK ? put_type(merge, mix) : status;
}
