/* latent.c - the builder of multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024): what is cached of a token is
 * one row for all heads, its latent c and the rotated key k' that all heads share.
 *
 *     q[h]     = plain columns p[h] and rotated columns r[h] of a projection of x
 *     row      = norm(c), rope(k')      c, k' = x kv_a^T
 *     score    = scale (p[h] . (k_b[h]^T c) + r[h] . k')
 *     y[h]     = v_b[h] sum over keys of softmax(score) c
 *
 * The absorbed form is built, for tokens and for prompts: k_b goes to the query, (k_b[h] p[h]) . c, and v_b to the sum. Then
 * attention is that of one key head whose key is the row and whose value is the same row, and a row's result does not depend on
 * how many rows there are. To expand keys and values of a prompt would take fewer multiplications, (plain + rope + value) instead
 * of (2 latent + rope) for each pair of query and key, but give other bits than the tokens after it get.
 */
#include "lib/llm/build/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

static int reshape(zt_program_builder *builder, const char *what, int x, int rank, const int64_t *dim)
{
    zt_reshape_attrs attrs = {.shape = {.n = rank}};
    memcpy(attrs.shape.dim, dim, (size_t)rank * sizeof *dim);
    return zt_program_reshape(builder->program, zt_layer_label(builder, what), x, &attrs);
}

/* [rows, columns] as [rows, heads, columns of a head]. */
static int split_heads(zt_program_builder *builder, const char *what, int x, int64_t columns)
{
    return reshape(builder, what, x, 3, (int64_t[]){builder->row_count, builder->hyper->n_heads, columns});
}

static int join_heads(zt_program_builder *builder, const char *what, int x, int64_t columns)
{
    return reshape(builder, what, x, 2, (int64_t[]){builder->row_count, builder->hyper->n_heads * columns});
}

/* a's columns, then b's. */
static int beside(zt_program_builder *builder, const char *what, int a, int b, int axis)
{
    return zt_program_concat(builder->program, zt_layer_label(builder, what), a, b, ZT_NONE, ZT_NONE, ZT_NONE,
                             &(zt_concat_attrs){axis});
}

int zt_emit_head_numbers(zt_program_builder *builder)
{
    zt_prog *program = builder->program;
    zt_reshape_attrs column = {.shape = {2, {builder->row_count, 1}}};
    int at = zt_program_cast(program, "h_pos", builder->pos, &(zt_cast_attrs){.to.s = "f32"});
    at = zt_program_reshape(program, "h_column", at, &column);
    at = zt_program_repeat(program, "h_rows", at, &(zt_repeat_attrs){1, builder->hyper->n_heads});
    at = zt_program_fill_like(program, "h_ones", at, &(zt_fill_like_attrs){1});
    at = zt_program_cumsum(program, "h_sums", at, &(zt_cumsum_attrs){.axis = 1, .exclusive = 1});
    return zt_program_cast(program, "heads", at, &(zt_cast_attrs){.to.s = "i32"});
}

/* ---- keys and values from one matrix --------------------------------------------------------- */

/* `op` of data alone. It is data too, which a session computes once (constant_data.c); in a lesson, where weights change, it is
 * a step. */
static int derive(zt_program_builder *builder, const char *what, zt_op op, const void *attrs, int data)
{
    zt_prog *program = builder->program;
    const char *label = zt_layer_label(builder, what), *tensor;
    zt_type type;
    int in[ZT_MAX_IN], out[ZT_MAX_OUT] = {-1};
    char text[ZT_TYPE_TEXT];
    if (data < 0) return -1;
    for (int k = 0; k < ZT_MAX_IN; k++) in[k] = ZT_NONE;
    in[0] = data;
    if (builder->opts->lesson) return zt_prog_op(program, op, attrs, in, (const char *[ZT_MAX_OUT]){label}, out) ? -1 : out[0];
    type = zt_prog_value(program, data)->type;
    tensor = zt_prog_value(program, data)->tensor;
    zt_str name;
    zt_str_init(&name, zt_gguf_ctx(builder->gguf));
    zt_status status = zt_str_printf(&name, "@%s %s ", zt_op_info(op)->name, zt_type_text(&type, text));
    if (!status) status = zt_str_put_json(&name, tensor, strlen(tensor));
    if (!status) status = zt_prog_attrs_print(program, op, attrs, &name);
    const zt_type *const types[ZT_MAX_IN] = {&type};
    zt_type made[ZT_MAX_OUT];
    if (!status) status = zt_op_info(op)->def->infer(zt_gguf_ctx(builder->gguf), attrs, types, made);
    int value = status ? -1 : zt_prog_data(program, label, made[0].dtype, made[0].rank, made[0].dim, name.data);
    zt_str_fini(&name);
    return value;
}

/* The one matrix of keys and values as [heads, plain + value, latent]; ZT_NONE where there are two. */
static int by_head(zt_program_builder *builder)
{
    const zt_hyper *hyper = builder->hyper;
    zt_reshape_attrs attrs = {.shape = {3, {hyper->n_heads, hyper->latent.key_value, hyper->latent.rank}}};
    if (hyper->parts & ZT_PART_SPLIT_B) return ZT_NONE;
    return derive(builder, "kvb", ZT_OP_reshape, &attrs, zt_weight_data(builder, ZT_W_KV_B));
}

/* k_b [heads, latent, plain]; of the one matrix the rows of keys, in f32 and transposed. */
static int key_matrices(zt_program_builder *builder, int matrices)
{
    const zt_hyper *hyper = builder->hyper;
    if (hyper->parts & ZT_PART_SPLIT_B) return zt_weight_data(builder, ZT_W_K_B);
    int all = derive(builder, "kvf", ZT_OP_cast, &(zt_cast_attrs){.to.s = "f32"}, matrices);
    all = derive(builder, "kbs", ZT_OP_slice, &(zt_slice_attrs){1, 0, hyper->latent.plain}, all);
    return derive(builder, "kb", ZT_OP_transpose, &(zt_transpose_attrs){{3, {0, 2, 1}}}, all);
}

/* The sums [rows, heads, latent] by v_b. Of the one matrix the rows of keys come out too, and are dropped: it is read in the
 * type that it has. */
static int expand_values(zt_program_builder *builder, int sums, int matrices)
{
    const zt_hyper *hyper = builder->hyper;
    if (hyper->parts & ZT_PART_SPLIT_B)
        return zt_emit_expert_linear(builder, "av", sums, zt_weight_data(builder, ZT_W_V_B), builder->heads, ZT_NONE, true);
    int both = zt_emit_expert_linear(builder, "akv", sums, matrices, builder->heads, ZT_NONE, true);
    return zt_emit_slice(builder, "av", both, 2, hyper->latent.plain, hyper->latent.key_value);
}

/* ---- queries and the row --------------------------------------------------------------------- */

static int norm_latent(zt_program_builder *builder, const char *what, int x, zt_weight weight)
{
    zt_rms_norm_attrs attrs = {.eps = builder->hyper->arch->latent_eps};
    int gain = zt_weight_data(builder, weight);
    return zt_program_rms_norm(builder->program, zt_layer_label(builder, what), x, gain, &attrs, NULL);
}

/* What queries are made of, with a norm; ZT_NONE where they are made of x. */
static int query_latent(zt_program_builder *builder, int x)
{
    if (!(builder->hyper->parts & ZT_PART_Q_RANK)) return ZT_NONE;
    return norm_latent(builder, "qan", zt_layer_linear(builder, "qa", x, ZT_W_Q_A, ZT_WEIGHT_COUNT), ZT_W_Q_A_NORM);
}

/* Queries of the latent and of rope, [rows, heads * (latent + rope)]. */
static int make_queries(zt_program_builder *builder, int x, int latent, int matrices)
{
    const zt_hyper *hyper = builder->hyper;
    int q = latent == ZT_NONE ? zt_layer_linear(builder, "q", x, ZT_W_Q_WHOLE, ZT_WEIGHT_COUNT)
                              : zt_layer_linear(builder, "q", latent, ZT_W_Q_B, ZT_WEIGHT_COUNT);
    q = split_heads(builder, "qh", q, hyper->layer[builder->layer].head);
    int plain = zt_emit_slice(builder, "qp", q, 2, 0, hyper->latent.plain);
    int turned = zt_emit_slice(builder, "qt", q, 2, hyper->latent.plain, hyper->layer[builder->layer].head);
    turned = zt_emit_rope(builder, 'q', join_heads(builder, "qf", turned, hyper->rope_dims));
    turned = split_heads(builder, "qs", turned, hyper->rope_dims);
    int absorbed = zt_emit_expert_linear(builder, "ql", plain, key_matrices(builder, matrices), builder->heads, ZT_NONE, true);
    q = join_heads(builder, "qx", beside(builder, "qc", absorbed, turned, 2), hyper->latent.row);
    return builder->temper == ZT_NONE ? q : zt_program_mul(builder->program, zt_layer_label(builder, "qm"), q, builder->temper);
}

typedef struct latent_row {
    int latent, key; /* [rows, latent], [rows, rope] */
} latent_row;

static latent_row make_row(zt_program_builder *builder, int x)
{
    const zt_hyper *hyper = builder->hyper;
    int data = zt_weight_data(builder, ZT_W_KV_A);
    int both = zt_emit_linear(builder, zt_layer_label(builder, "kv"), x, data, ZT_NONE, true);
    int latent = zt_emit_slice(builder, "ka", both, 1, 0, hyper->latent.rank);
    int key = zt_emit_slice(builder, "kt", both, 1, hyper->latent.rank, hyper->latent.row);
    latent = norm_latent(builder, "kan", latent, ZT_W_KV_A_NORM);
    return (latent_row){latent, zt_emit_rope(builder, 'k', key)};
}

/* ---- the indexer ----------------------------------------------------------------------------- */

/* What it reads: queries, the cache of its keys, and how much each of its heads weighs. */
typedef struct indexer {
    int q, k, weights;
} indexer;

/* The first columns of each of its heads, rotated in halves. */
static int turn_index(zt_program_builder *builder, const char *what, int x)
{
    zt_rope_attrs attrs = builder->hyper->rope;
    attrs.head = builder->hyper->latent.index_head;
    attrs.dims = builder->hyper->rope_dims;
    snprintf(attrs.pair.s, sizeof attrs.pair.s, "halves");
    return zt_program_rope(builder->program, zt_layer_label(builder, what), x, builder->pos, builder->divisors, &attrs);
}

/* The authors turn queries and keys by Hadamard's matrix, which does not change their products, and divide weights by the root of
 * heads times columns, which does not change the choice. */
static indexer make_indexer(zt_program_builder *builder, int x, int latent)
{
    const zt_latent_sizes *sizes = &builder->hyper->latent;
    zt_prog *program = builder->program;
    indexer made;
    int gain = zt_weight_data(builder, ZT_W_INDEX_K_NORM), bias = zt_weight_data(builder, ZT_W_INDEX_K_NORM_BIAS);
    int k = zt_layer_linear(builder, "ik", x, ZT_W_INDEX_K, ZT_WEIGHT_COUNT);
    made.q = turn_index(builder, "iqr", zt_layer_linear(builder, "iq", latent, ZT_W_INDEX_Q, ZT_WEIGHT_COUNT));
    k = zt_program_layer_norm(program, zt_layer_label(builder, "ikn"), k, gain, bias, &(zt_layer_norm_attrs){.eps = 1e-6}, NULL,
                              NULL);
    k = turn_index(builder, "ikr", k);
    made.k = zt_update_cache_of(builder, "ic", "ip", k, sizes->index_head);
    made.weights = zt_layer_linear(builder, "iw", x, ZT_W_INDEX_WEIGHTS, ZT_WEIGHT_COUNT);
    return made;
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Of a lesson: each text by itself, each token sees itself and the tokens before it. */
static int attend_texts(zt_program_builder *builder, int q, int row, int latent)
{
    const zt_hyper *hyper = builder->hyper;
    int64_t texts = builder->texts, tokens = builder->opts->lesson;
    zt_sdpa_attrs attrs = zt_sdpa_defaults();
    attrs.scale = hyper->layer[builder->layer].attn_scale;
    attrs.causal = 1;
    attrs.softcap = hyper->attn_cap;
    snprintf(attrs.layout.s, sizeof attrs.layout.s, "bshd");
    q = reshape(builder, "qb", q, 4, (int64_t[]){texts, tokens, hyper->n_heads, hyper->latent.row});
    row = reshape(builder, "kbr", row, 4, (int64_t[]){texts, tokens, 1, hyper->latent.row});
    latent = reshape(builder, "vbr", latent, 4, (int64_t[]){texts, tokens, 1, hyper->latent.rank});
    int sums = zt_program_sdpa(builder->program, zt_layer_label(builder, "at"), q, row, latent, ZT_NONE, ZT_NONE, &attrs, NULL);
    return split_heads(builder, "al", sums, hyper->latent.rank);
}

/* Over the cache, whose rows are keys and values; of the sums the latent's columns count. */
static int attend_cache(zt_program_builder *builder, int q, int row, const indexer *by)
{
    const zt_hyper *hyper = builder->hyper;
    int cache = zt_update_cache(builder, "kc", "kp", row), sums;
    zt_attention_attrs attrs = {
        .head = hyper->latent.row, .scale = hyper->layer[builder->layer].attn_scale, .softcap = hyper->attn_cap};
    zt_attention_indexed_attrs indexed = {attrs.head, attrs.scale, hyper->latent.index_topk, attrs.softcap};
    const char *label = zt_layer_label(builder, "at");
    if (by)
        sums = zt_program_attention_indexed(builder->program, label, q, cache, cache, by->q, by->k, by->weights, builder->pos,
                                            builder->seq, builder->table, &indexed);
    else
        sums = zt_program_attention(builder->program, label, q, cache, cache, builder->pos, builder->seq, builder->table, &attrs);
    return zt_emit_slice(builder, "al", split_heads(builder, "as", sums, hyper->latent.row), 2, 0, hyper->latent.rank);
}

int zt_emit_latent_attention(zt_program_builder *builder, int x)
{
    int matrices = by_head(builder), latent = query_latent(builder, x), q = make_queries(builder, x, latent, matrices), sums;
    latent_row made = make_row(builder, x);
    int row = beside(builder, "k", made.latent, made.key, 1);
    if (builder->opts->lesson) { /* build.c refuses those of models with an indexer */
        sums = attend_texts(builder, q, row, made.latent);
    } else if (builder->hyper->parts & ZT_PART_INDEXER) {
        indexer by = make_indexer(builder, x, latent);
        sums = attend_cache(builder, q, row, &by);
    } else {
        sums = attend_cache(builder, q, row, NULL);
    }
    return join_heads(builder, "a", expand_values(builder, sums, matrices), builder->hyper->latent.value);
}
