/* prefix.c - owns layers that tensors' names tell: those of language models, as S3's prefixes and
 * Meta's own files have them. */
#include "lib/nn/probe_internal.h"

#include <stdlib.h>
#include <string.h>

enum { NORM_1, ATTENTION, NORM_2, MLP, SLOTS, MAX_ROLES = 4 };

/* What follows a block's number. */
static const struct {
    const char *name;
    int slot, role; /* of the slot's */
} parts[] = {{"input_layernorm", NORM_1, 0},
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

/* A tensor by its name. block -1: none of these. */
typedef struct place {
    int64_t block;
    int slot, role;
    bool bias;
} place;

/* Behind "layers." or "h." at the beginning or behind a dot; NULL: there is none. */
static const char *behind_blocks(const char *name)
{
    static const char *const word[] = {"layers.", "h."};
    for (const char *at = name; at; at = strchr(at, '.'), at = at ? at + 1 : NULL)
        for (int k = 0; k < 2; k++)
            if (!strncmp(at, word[k], strlen(word[k])) && at[strlen(word[k])] >= '0' &&
                at[strlen(word[k])] <= '9')
                return at + strlen(word[k]);
    return NULL;
}

static place place_of(const char *name)
{
    place p = {.block = -1};
    const char *at = name ? behind_blocks(name) : NULL;
    int64_t block = 0;
    for (; at && *at >= '0' && *at <= '9' && block < 1 << 20; at++)
        block = 10 * block + (*at - '0');
    for (size_t i = 0; at && *at == '.' && i < sizeof parts / sizeof *parts; i++) {
        size_t n = strlen(parts[i].name);
        bool bias = !strncmp(at + 1, parts[i].name, n) && !strcmp(at + 1 + n, ".bias");
        if (!bias && (strncmp(at + 1, parts[i].name, n) || strcmp(at + 1 + n, ".weight"))) continue;
        return (place){block, parts[i].slot, parts[i].role, bias};
    }
    return p;
}

/* The tensors of one slot of a block; -1: it has none. */
typedef struct slot {
    int64_t weight[MAX_ROLES], bias[MAX_ROLES];
} slot;

static bool is(const zt_nn_probe *p, int64_t i, int rank, int64_t a, int64_t b)
{
    const zt_type *t = i < 0 || p->used[i] ? NULL : &p->g[i].type;
    return t && t->rank == rank && t->dim[0] == a && (rank < 2 || t->dim[1] == b);
}

static int64_t size(const zt_nn_probe *p, int64_t i, int d)
{
    return i < 0 || d >= p->g[i].type.rank ? -1 : p->g[i].type.dim[d];
}

/* All that it has is of these shapes, and it has all weights: [rows[k], cols[k]]. */
static bool fits(const zt_nn_probe *p, const slot *s, int n, const int64_t *rows,
                 const int64_t *cols)
{
    for (int k = 0; k < n; k++)
        if (!is(p, s->weight[k], 2, rows[k], cols[k]) ||
            (s->bias[k] >= 0 && !is(p, s->bias[k], 1, rows[k], 0)))
            return false;
    return true;
}

static void take(zt_nn_probe *p, zt_nn_archetype *a, const slot *s, int n, const char *const *name)
{
    for (int k = 0; k < n; k++) zt_probe_role(p, a, name[k], s->weight[k]);
    for (int k = 0; k < n; k++)
        if (s->bias[k] >= 0) zt_probe_role(p, a, name[n + k], s->bias[k]);
}

/* ---- the slots' layers: kind ZT_NN_KINDS where tensors are missing or of other shapes ------- */

static const zt_nn_archetype none = {.kind = ZT_NN_KINDS};

static zt_nn_archetype norm(zt_nn_probe *p, const slot *s)
{
    int64_t d = size(p, s->weight[0], 0);
    bool layer = s->bias[0] >= 0;
    zt_nn_archetype a = {.kind = layer ? ZT_NN_LAYERNORM : ZT_NN_RMSNORM,
                         .type = layer ? "LayerNorm by name" : "RMSNorm by name"};
    if (!is(p, s->weight[0], 1, d, 0) || (layer && !is(p, s->bias[0], 1, d, 0))) return none;
    zt_probe_role(p, &a, layer ? "s" : "w", s->weight[0]);
    if (layer) zt_probe_role(p, &a, "b", s->bias[0]);
    zt_probe_metric(&a, "d", d);
    return a;
}

static zt_nn_archetype attention(zt_nn_probe *p, const slot *s)
{
    static const char *const name[] = {"q", "k", "v", "o", "qb", "kb", "vb", "ob"};
    int64_t d = size(p, s->weight[0], 1), kv = size(p, s->weight[1], 0);
    zt_nn_archetype a = {.kind = ZT_NN_MHA, .type = "Multi-Head Attention by name"};
    if (!fits(p, s, 4, (int64_t[]){d, kv, kv, d}, (int64_t[]){d, d, d, d})) return none;
    take(p, &a, s, 4, name);
    zt_probe_metric(&a, "d", d);
    zt_probe_metric(&a, "kv", kv);
    return a;
}

static zt_nn_archetype gated(zt_nn_probe *p, const slot *s)
{
    static const char *const name[] = {"g", "u", "d", "gb", "ub", "db"};
    int64_t i = size(p, s->weight[0], 0), h = size(p, s->weight[0], 1);
    zt_nn_archetype a = {.kind = ZT_NN_SWIGLU, .type = "SwiGLU by name"};
    if (!fits(p, s, 3, (int64_t[]){i, i, h}, (int64_t[]){h, h, i})) return none;
    take(p, &a, s, 3, name);
    zt_probe_metric(&a, "h", h);
    zt_probe_metric(&a, "i", i);
    return a;
}

static zt_status put_block(zt_nn_probe *p, const place *at, int64_t block)
{
    static zt_nn_archetype (*const make[SLOTS])(zt_nn_probe * p, const slot *s) = {norm, attention,
                                                                                   norm, gated};
    slot s[SLOTS];
    zt_status st = ZT_OK;
    memset(s, 0xff, sizeof s); /* -1 */
    for (int64_t i = 0; i < p->n; i++)
        if (at[i].block == block)
            (at[i].bias ? s[at[i].slot].bias : s[at[i].slot].weight)[at[i].role] = i;
    for (int k = 0; k < SLOTS && !st; k++) {
        zt_nn_archetype a = make[k](p, &s[k]), *before = p->found + p->n_found - 1;
        a.named = true;
        a.block = block;
        if (a.kind == ZT_NN_KINDS) continue;
        if (k % 2 && p->n_found && before->named && before->block == block && before->slot == k - 1)
            before->residual = before->metric[0].value == a.metric[0].value;
        a.slot = k;
        st = zt_probe_put(p, &a);
    }
    return st;
}

/* ---- before and behind the blocks ------------------------------------------------------------ */

/* The first of these names, else a name that ends so behind a dot; -1: none. */
static int64_t find(const zt_nn_probe *p, const char *const *name, int n)
{
    for (int k = 0; k < n; k++)
        for (int whole = 1; whole >= 0; whole--)
            for (int64_t i = 0; i < p->n; i++) {
                size_t have = strlen(p->g[i].name), want = strlen(name[k]);
                if (have < want || strcmp(p->g[i].name + have - want, name[k])) continue;
                if (have == want || (!whole && p->g[i].name[have - want - 1] == '.')) return i;
            }
    return -1;
}

static zt_status put_table(zt_nn_probe *p, int64_t i, zt_nn_kind kind, const char *type)
{
    zt_nn_archetype a = {.kind = kind, .type = type, .named = true, .block = -1};
    bool ids = kind == ZT_NN_EMBEDDING;
    if (i < 0 || p->g[i].type.rank != 2) return ZT_OK;
    zt_probe_role(p, &a, "w", i);
    zt_probe_metric(&a, ids ? "v" : "out", size(p, i, 0));
    zt_probe_metric(&a, ids ? "d" : "in", size(p, i, 1));
    return zt_probe_put(p, &a);
}

/* Without a head of their own, models read their logits off the embedding. */
static zt_status put_end(zt_nn_probe *p, int64_t table)
{
    static const char *const norms[] = {"model.norm.weight", "transformer.ln_f.weight",
                                        "ln_f.weight", "norm.weight"},
                             *const biases[] = {"model.norm.bias", "transformer.ln_f.bias",
                                                "ln_f.bias", "norm.bias"},
                             *const heads[] = {"lm_head.weight", "output.weight"};
    slot s = {{find(p, norms, 4)}, {find(p, biases, 4)}};
    int64_t head = find(p, heads, 2);
    zt_nn_archetype a = norm(p, &s);
    a.named = true;
    a.block = -1;
    zt_status st = a.kind == ZT_NN_KINDS ? ZT_OK : zt_probe_put(p, &a);
    if (st || (head >= 0 && p->used[head])) return st; /* which a hint took */
    return put_table(p, head < 0 ? table : head, ZT_NN_DENSE, "Dense by name");
}

/* ---- all ------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Blocks by their numbers, each once; how many. */
static int64_t sort_blocks(const place *at, int64_t n, int64_t *block)
{
    int64_t blocks = 0, kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (at[i].block >= 0) block[blocks++] = at[i].block;
    qsort(block, (size_t)blocks, sizeof *block, by_number);
    for (int64_t i = 0; i < blocks; i++)
        if (i == 0 || block[i] != block[i - 1]) block[kept++] = block[i];
    return kept;
}

/* Is there a block with more than a norm? Names of the rest alone tell nothing. */
static bool is_model(const zt_nn_probe *p, const place *at)
{
    for (int64_t i = 0; i < p->n; i++)
        if (at[i].block >= 0 && (at[i].slot == ATTENTION || at[i].slot == MLP)) return true;
    return false;
}

zt_status zt_probe_prefixes(zt_nn_probe *p)
{
    static const char *const tables[] = {"model.embed_tokens.weight", "transformer.wte.weight",
                                         "embeddings.weight",         "embed_tokens.weight",
                                         "tok_embeddings.weight",     "wte.weight"};
    place *at = zt_alloc_array(p->ctx, (size_t)p->n + 1, sizeof *at);
    int64_t *block = zt_alloc_array(p->ctx, (size_t)p->n + 1, sizeof *block), table = -1, n = 0;
    zt_status s = at && block ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < p->n && !s; i++) at[i] = place_of(p->used[i] ? NULL : p->g[i].name);
    if (!s && is_model(p, at)) {
        n = sort_blocks(at, p->n, block);
        table = find(p, tables, 6);
        if (table >= 0 && p->used[table]) table = -1;
        s = put_table(p, table, ZT_NN_EMBEDDING, "Embedding by name");
        for (int64_t i = 0; i < n && !s; i++) s = put_block(p, at, block[i]);
        if (!s) s = put_end(p, table);
    }
    zt_free(p->ctx, at);
    zt_free(p->ctx, block);
    return s;
}
