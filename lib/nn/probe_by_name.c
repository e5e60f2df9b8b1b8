/* probe_by_name.c - owns layers that are found by the names of tensors: those of language models, as Loom's prefixes and
 * Meta's own files have them. */
#include "lib/nn/probe_internal.h"

#include <stdlib.h>
#include <string.h>

enum { NORM_1, ATTENTION, NORM_2, MLP, SLOTS, MAX_ROLES = 4 };

/* What follows a block's number. */
static const struct {
    const char *name;
    int slot, role; /* of the slot's */
} name_parts[] = {{"input_layernorm", NORM_1, 0},
                  {"ln_1", NORM_1, 0},
                  {"attention_norm", NORM_1, 0},
                  {"self_attn.q_proj", ATTENTION, 0},
                  {"self_attn.k_proj", ATTENTION, 1},
                  {"self_attn.v_proj", ATTENTION, 2},
                  {"self_attn.o_proj", ATTENTION, 3},
                  {"attention.wq", ATTENTION, 0},
                  {"attention.wk", ATTENTION, 1},
                  {"attention.wv", ATTENTION, 2},
                  {"attention.wo", ATTENTION, 3},
                  {"post_attention_layernorm", NORM_2, 0},
                  {"ln_2", NORM_2, 0},
                  {"ffn_norm", NORM_2, 0},
                  {"mlp.gate_proj", MLP, 0},
                  {"mlp.up_proj", MLP, 1},
                  {"mlp.down_proj", MLP, 2},
                  {"mlp.w1", MLP, 0},
                  {"mlp.w3", MLP, 1},
                  {"mlp.w2", MLP, 2},
                  {"feed_forward.w1", MLP, 0},
                  {"feed_forward.w3", MLP, 1},
                  {"feed_forward.w2", MLP, 2}};

/* The place of a tensor, from its name. block -1: not one of these names. */
typedef struct name_place {
    int64_t block;
    int slot, role;
    bool bias;
} name_place;

/* The text behind "layers." or "h.", at the beginning or behind a dot, before a digit; NULL: none. */
static const char *skip_blocks(const char *name)
{
    static const char *const word[] = {"layers.", "h."};
    for (const char *cursor = name; cursor; cursor = strchr(cursor, '.'), cursor = cursor ? cursor + 1 : NULL)
        for (int k = 0; k < 2; k++)
            if (!strncmp(cursor, word[k], strlen(word[k])) && cursor[strlen(word[k])] >= '0' && cursor[strlen(word[k])] <= '9')
                return cursor + strlen(word[k]);
    return NULL;
}

static name_place parse_name(const char *name)
{
    name_place none = {.block = -1};
    const char *cursor = name ? skip_blocks(name) : NULL;
    int64_t block = 0;
    for (; cursor && *cursor >= '0' && *cursor <= '9' && block < 1 << 20; cursor++) block = 10 * block + (*cursor - '0');
    for (size_t i = 0; cursor && *cursor == '.' && i < sizeof name_parts / sizeof *name_parts; i++) {
        size_t length = strlen(name_parts[i].name);
        bool bias = !strncmp(cursor + 1, name_parts[i].name, length) && !strcmp(cursor + 1 + length, ".bias");
        if (!bias && (strncmp(cursor + 1, name_parts[i].name, length) || strcmp(cursor + 1 + length, ".weight"))) continue;
        return (name_place){block, name_parts[i].slot, name_parts[i].role, bias};
    }
    return none;
}

/* The tensors of one slot of a block; -1: it has none. */
typedef struct block_slot {
    int64_t weight[MAX_ROLES], bias[MAX_ROLES];
} block_slot;

static bool has_shape(const zt_nn_probe *probe, int64_t tensor, int rank, int64_t rows, int64_t columns)
{
    const zt_type *type = tensor < 0 || probe->used[tensor] ? NULL : &probe->geometries[tensor].type;
    return type && type->rank == rank && type->dim[0] == rows && (rank < 2 || type->dim[1] == columns);
}

static int64_t get_dimension(const zt_nn_probe *probe, int64_t tensor, int axis)
{
    return tensor < 0 || axis >= probe->geometries[tensor].type.rank ? -1 : probe->geometries[tensor].type.dim[axis];
}

/* Does the slot have all weights, of shapes [rows[k], cols[k]], and biases of [rows[k]] or none? */
static bool has_shapes(const zt_nn_probe *probe, const block_slot *slot, int count, const int64_t *rows, const int64_t *cols)
{
    for (int k = 0; k < count; k++)
        if (!has_shape(probe, slot->weight[k], 2, rows[k], cols[k]) ||
            (slot->bias[k] >= 0 && !has_shape(probe, slot->bias[k], 1, rows[k], 0)))
            return false;
    return true;
}

static void add_roles(zt_nn_probe *probe, zt_nn_archetype *archetype, const block_slot *slot, int count, const char *const *name)
{
    for (int k = 0; k < count; k++) zt_probe_role(probe, archetype, name[k], slot->weight[k]);
    for (int k = 0; k < count; k++)
        if (slot->bias[k] >= 0) zt_probe_role(probe, archetype, name[count + k], slot->bias[k]);
}

/* ---- the slots' layers: kind ZT_NN_KINDS where tensors are missing or of other shapes ------- */

static const zt_nn_archetype none = {.kind = ZT_NN_KINDS};

static zt_nn_archetype match_norm(zt_nn_probe *probe, const block_slot *slot)
{
    int64_t width = get_dimension(probe, slot->weight[0], 0);
    bool layer = slot->bias[0] >= 0;
    zt_nn_archetype archetype = {.kind = layer ? ZT_NN_LAYERNORM : ZT_NN_RMSNORM,
                                 .type = layer ? "LayerNorm by name" : "RMSNorm by name"};
    if (!has_shape(probe, slot->weight[0], 1, width, 0) || (layer && !has_shape(probe, slot->bias[0], 1, width, 0))) return none;
    zt_probe_role(probe, &archetype, layer ? "s" : "w", slot->weight[0]);
    if (layer) zt_probe_role(probe, &archetype, "b", slot->bias[0]);
    zt_probe_metric(&archetype, "d", width);
    return archetype;
}

static zt_nn_archetype match_attention(zt_nn_probe *probe, const block_slot *slot)
{
    static const char *const name[] = {"q", "k", "v", "o", "qb", "kb", "vb", "ob"};
    int64_t width = get_dimension(probe, slot->weight[0], 1), kv_width = get_dimension(probe, slot->weight[1], 0);
    zt_nn_archetype archetype = {.kind = ZT_NN_MHA, .type = "Multi-Head Attention by name"};
    if (!has_shapes(probe, slot, 4, (int64_t[]){width, kv_width, kv_width, width}, (int64_t[]){width, width, width, width}))
        return none;
    add_roles(probe, &archetype, slot, 4, name);
    zt_probe_metric(&archetype, "d", width);
    zt_probe_metric(&archetype, "kv", kv_width);
    return archetype;
}

static zt_nn_archetype match_gated(zt_nn_probe *probe, const block_slot *slot)
{
    static const char *const name[] = {"g", "u", "d", "gb", "ub", "db"};
    int64_t inner = get_dimension(probe, slot->weight[0], 0), hidden = get_dimension(probe, slot->weight[0], 1);
    zt_nn_archetype archetype = {.kind = ZT_NN_SWIGLU, .type = "SwiGLU by name"};
    if (!has_shapes(probe, slot, 3, (int64_t[]){inner, inner, hidden}, (int64_t[]){hidden, hidden, inner})) return none;
    add_roles(probe, &archetype, slot, 3, name);
    zt_probe_metric(&archetype, "h", hidden);
    zt_probe_metric(&archetype, "i", inner);
    return archetype;
}

static zt_status put_block(zt_nn_probe *probe, const name_place *places, int64_t block)
{
    static zt_nn_archetype (*const make[SLOTS])(zt_nn_probe * probe, const block_slot *slots) = {match_norm, match_attention,
                                                                                                 match_norm, match_gated};
    block_slot slots[SLOTS];
    zt_status status = ZT_OK;
    memset(slots, 0xff, sizeof slots); /* -1 */
    for (int64_t i = 0; i < probe->tensor_count; i++)
        if (places[i].block == block)
            (places[i].bias ? slots[places[i].slot].bias : slots[places[i].slot].weight)[places[i].role] = i;
    for (int slot = 0; slot < SLOTS && !status; slot++) {
        zt_nn_archetype archetype = make[slot](probe, &slots[slot]), *before = probe->archetypes + probe->archetype_count - 1;
        archetype.named = true;
        archetype.block = block;
        if (archetype.kind == ZT_NN_KINDS) continue;
        if (slot % 2 && probe->archetype_count && before->named && before->block == block && before->slot == slot - 1)
            before->residual = before->metrics[0].value == archetype.metrics[0].value;
        archetype.slot = slot;
        status = zt_probe_put(probe, &archetype);
    }
    return status;
}

/* ---- before and behind the blocks ------------------------------------------------------------ */

/* The tensor with the first of these names, else one whose name ends so behind a dot; -1: none. */
static int64_t find_tensor(const zt_nn_probe *probe, const char *const *name, int count)
{
    for (int name_index = 0; name_index < count; name_index++)
        for (int whole = 1; whole >= 0; whole--)
            for (int64_t tensor_index = 0; tensor_index < probe->tensor_count; tensor_index++) {
                size_t have = strlen(probe->geometries[tensor_index].name), want = strlen(name[name_index]);
                if (have < want || strcmp(probe->geometries[tensor_index].name + have - want, name[name_index])) continue;
                if (have == want || (!whole && probe->geometries[tensor_index].name[have - want - 1] == '.')) return tensor_index;
            }
    return -1;
}

static zt_status put_table(zt_nn_probe *probe, int64_t tensor, zt_nn_kind kind, const char *type)
{
    zt_nn_archetype archetype = {.kind = kind, .type = type, .named = true, .block = -1};
    bool ids = kind == ZT_NN_EMBEDDING;
    if (tensor < 0 || probe->geometries[tensor].type.rank != 2) return ZT_OK;
    zt_probe_role(probe, &archetype, "w", tensor);
    zt_probe_metric(&archetype, ids ? "v" : "out", get_dimension(probe, tensor, 0));
    zt_probe_metric(&archetype, ids ? "d" : "in", get_dimension(probe, tensor, 1));
    return zt_probe_put(probe, &archetype);
}

/* A model without a head of its own uses the embedding as the head. */
static zt_status put_end(zt_nn_probe *probe, int64_t table)
{
    static const char *const norms[] = {"model.norm.weight", "transformer.ln_f.weight", "ln_f.weight", "norm.weight"},
                             *const biases[] = {"model.norm.bias", "transformer.ln_f.bias", "ln_f.bias", "norm.bias"},
                             *const heads[] = {"lm_head.weight", "output.weight"};
    block_slot slot = {{find_tensor(probe, norms, 4)}, {find_tensor(probe, biases, 4)}};
    int64_t head = find_tensor(probe, heads, 2);
    zt_nn_archetype archetype = match_norm(probe, &slot);
    archetype.named = true;
    archetype.block = -1;
    zt_status status = archetype.kind == ZT_NN_KINDS ? ZT_OK : zt_probe_put(probe, &archetype);
    if (status || (head >= 0 && probe->used[head])) return status; /* used by a hint */
    return put_table(probe, head < 0 ? table : head, ZT_NN_DENSE, "Dense by name");
}

/* ---- all ------------------------------------------------------------------------------------- */

static int compare_numbers(const void *left, const void *right)
{
    int64_t first = *(const int64_t *)left, second = *(const int64_t *)right;
    return first < second ? -1 : first > second;
}

/* Writes the numbers of blocks in ascending order, each once; returns how many. */
static int64_t sort_blocks(const name_place *places, int64_t count, int64_t *blocks)
{
    int64_t block_count = 0, kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (places[i].block >= 0) blocks[block_count++] = places[i].block;
    qsort(blocks, (size_t)block_count, sizeof *blocks, compare_numbers);
    for (int64_t i = 0; i < block_count; i++)
        if (i == 0 || blocks[i] != blocks[i - 1]) blocks[kept++] = blocks[i];
    return kept;
}

/* Is there a block with attention or a gated layer? Norms alone do not make a model. */
static bool is_model(const zt_nn_probe *probe, const name_place *places)
{
    for (int64_t i = 0; i < probe->tensor_count; i++)
        if (places[i].block >= 0 && (places[i].slot == ATTENTION || places[i].slot == MLP)) return true;
    return false;
}

zt_status zt_probe_prefixes(zt_nn_probe *probe)
{
    static const char *const tables[] = {"model.embed_tokens.weight", "transformer.wte.weight", "embeddings.weight",
                                         "embed_tokens.weight",       "tok_embeddings.weight",  "wte.weight"};
    name_place *places = zt_alloc_array(probe->ctx, (size_t)probe->tensor_count + 1, sizeof *places);
    int64_t *block = zt_alloc_array(probe->ctx, (size_t)probe->tensor_count + 1, sizeof *block), table = -1, block_count = 0;
    zt_status status = places && block ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < probe->tensor_count && !status; i++)
        places[i] = parse_name(probe->used[i] ? NULL : probe->geometries[i].name);
    if (!status && is_model(probe, places)) {
        block_count = sort_blocks(places, probe->tensor_count, block);
        table = find_tensor(probe, tables, 6);
        if (table >= 0 && probe->used[table]) table = -1;
        status = put_table(probe, table, ZT_NN_EMBEDDING, "Embedding by name");
        for (int64_t i = 0; i < block_count && !status; i++) status = put_block(probe, places, block[i]);
        if (!status) status = put_end(probe, table);
    }
    zt_free(probe->ctx, places);
    zt_free(probe->ctx, block);
    return status;
}
