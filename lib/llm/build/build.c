/* build.c - the one builder: hyper-parameters and weights become the program of a forward pass.
 *
 *   in ids, pos, seq: i32[n]   table: i32[S, ctx/32]   rows: i32[m]      out logits: f32[m,V]
 *   state kc0, vc0, ...: [ctx, kv_width]                     or states: f32[m,width]
 *   or, of latent attention, kc0, ...: [ctx, latent_width]
 *
 * with recurrent layers also
 *
 *   in from, to: i32[n]      state of such a layer: f32[slots,...]
 *
 * for a head also out hidden: f32[n,width], and of the head
 *
 *   in ids, pos, seq: i32[n]   table   rows   hidden: f32[n,width]    out logits: f32[m,V]   state: f32[m,width]
 *
 * and of an encoder
 *
 *   in ids, types, pos, last: i32[n]                         out states: f32[n,width]
 *
 * and of a lesson (learn.h), n texts of T tokens
 *
 *   in ids, target, pos: i32[n,T]                            out loss: f32
 *
 * n tokens go in, and logits come out for those m of them that `rows` names. Only n, m and ctx are
 * symbols, so a prompt and a token are the same program. In the last layer everything after
 * attention is done for the wanted rows alone. Names carry the layer: q3 is made in layer 3.
 * An encoder has no cache: its keys are the step's own rows, one text a step, of which each row
 * sees those up to `last`; rows after that one are padding that nobody sees.
 * Errors stay in the context: a value of -1 is passed on, and zt_llm_build looks once at the end.
 */
#include "lib/llm/build/internal.h"
#include "lib/tensor/block_row.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *zt_layer_label(zt_program_builder *builder, const char *what)
{
    snprintf(builder->label, sizeof builder->label, "%s%" PRId64, what, builder->layer);
    return builder->label;
}

/* ---- weights -------------------------------------------------------------------------------- */

int zt_weight_data(zt_program_builder *builder, zt_weight weight)
{
    char name[ZT_WEIGHT_NAME], wide[ZT_WEIGHT_NAME + 4];
    zt_type type;
    int64_t index = weight < ZT_WEIGHT_COUNT ? zt_weight_find(builder->gguf, builder->hyper, weight, builder->layer) : -1;
    if (index < 0) return ZT_NONE;
    const char *tensor = zt_gguf_tensor(builder->gguf, index, &type, NULL, NULL);
    snprintf(name, sizeof name, "%s", tensor);
    size_t length = strlen(name), suffix_length = strlen(".weight");
    if (length > suffix_length && strcmp(name + length - suffix_length, ".weight") == 0) name[length - suffix_length] = 0;
    if (builder->opts->lesson && !builder->opts->adapter) type.dtype = ZT_F32;
    int data = zt_prog_find(builder->program, name); /* some are used twice */
    bool again = data >= 0;
    if (!again) data = zt_prog_data(builder->program, name, type.dtype, type.rank, type.dim, tensor);
    bool bias = length > 5 && strcmp(name + length - 5, ".bias") == 0;
    bool vector = type.rank == 1 || (type.rank == 2 && (bias || type.dim[0] == 1));
    if (!vector || type.dtype == ZT_F32 || zt_dtype_get(type.dtype)->kind != 'F') return data;
    snprintf(wide, sizeof wide, "%s.f32", name);
    return again ? zt_prog_find(builder->program, wide)
                 : zt_program_cast(builder->program, wide, data, &(zt_cast_attrs){.to.s = "f32"});
}

const char *zt_act_word(const zt_program_builder *builder, int weight, bool fine)
{
    zt_dtype dtype = zt_prog_value(builder->program, weight)->type.dtype;
    bool round = zt_dtype_get(dtype)->kind == 'Q' || dtype == ZT_BF16;
    return !round || builder->opts->exact ? "f32" : fine ? "q16" : "q8";
}

int zt_emit_linear(zt_program_builder *builder, const char *what, int x, int weight, int bias, bool fine)
{
    zt_linear_attrs attrs = zt_linear_defaults();
    if (weight < 0) return -1;
    snprintf(attrs.act.s, sizeof attrs.act.s, "%s", zt_act_word(builder, weight, fine));
    if (builder->opts->adapter) return zt_emit_frozen(builder, what, x, weight, bias);
    return zt_program_linear(builder->program, what, x, weight, bias, &attrs);
}

int zt_layer_linear(zt_program_builder *builder, const char *what, int x, zt_weight weight, zt_weight bias)
{
    int data = zt_weight_data(builder, weight), bias_data = zt_weight_data(builder, bias);
    bool fine = weight == ZT_W_K || weight == ZT_W_V || weight == ZT_W_QKV;
    return zt_emit_linear(builder, zt_layer_label(builder, what), x, data, bias_data, fine);
}

int zt_emit_norm(zt_program_builder *builder, const char *label, int x, zt_weight weight, zt_weight bias, int64_t dims)
{
    int gain = zt_weight_data(builder, weight);
    if (gain == ZT_NONE) return x;
    if (builder->hyper->arch->layer_norm)
        return zt_program_layer_norm(builder->program, label, x, gain, zt_weight_data(builder, bias),
                                     &(zt_layer_norm_attrs){.eps = builder->hyper->eps}, NULL, NULL);
    return zt_program_rms_norm(builder->program, label, x, gain, &(zt_rms_norm_attrs){.eps = builder->hyper->eps, .dims = dims},
                               NULL);
}

int zt_emit_layer_norm(zt_program_builder *builder, const char *what, int x, zt_weight weight, zt_weight bias)
{
    return zt_emit_norm(builder, zt_layer_label(builder, what), x, weight, bias, 0);
}

int zt_emit_scale(zt_program_builder *builder, const char *label, int x, double by)
{
    return by == 1 ? x : zt_program_scale(builder->program, label, x, &(zt_scale_attrs){.by = by});
}

int zt_emit_slice(zt_program_builder *builder, const char *what, int x, int axis, int64_t from, int64_t to)
{
    zt_slice_attrs attrs = {.axis = axis, .from = from, .to = to};
    return zt_program_slice(builder->program, zt_layer_label(builder, what), x, &attrs);
}

int zt_emit_columns(zt_program_builder *builder, const char *what, int x, int64_t from, int64_t to)
{
    return zt_emit_slice(builder, what, x, 1, from, to);
}

/* ---- attention ------------------------------------------------------------------------------ */

static const zt_layer_sizes *sizes_of(const zt_program_builder *builder) { return &builder->hyper->layer[builder->layer]; }

/* A layer norm of each head, times a row of weights for each. */
static int norm_heads(zt_program_builder *builder, char which, int x, int gains, int64_t heads)
{
    const zt_hyper *hyper = builder->hyper;
    zt_prog *program = builder->program;
    int64_t head = sizes_of(builder)->head;
    zt_reshape_attrs by_head = {.shape = {3, {builder->row_count, heads, head}}},
                     flat = {.shape = {2, {builder->row_count, heads * head}}};
    char label[3] = {which, 's', 0};
    int y = zt_program_reshape(program, zt_layer_label(builder, label), x, &by_head);
    label[1] = 'n';
    y = zt_program_layer_norm(program, zt_layer_label(builder, label), y, ZT_NONE, ZT_NONE,
                              &(zt_layer_norm_attrs){.eps = hyper->eps}, NULL, NULL);
    label[1] = 'g';
    y = zt_program_mul(program, zt_layer_label(builder, label), y, gains);
    label[1] = 'f';
    return zt_program_reshape(program, zt_layer_label(builder, label), y, &flat);
}

/* Norm of q or k, 'q' or 'k': of each head, or of all heads together. */
static int norm_projected(zt_program_builder *builder, char which, int x)
{
    const zt_hyper *hyper = builder->hyper;
    const char label[3] = {which, 'n', 0};
    if (hyper->parts & ZT_PART_HEAD_NORMS)
        return norm_heads(builder, which, x, zt_weight_data(builder, which == 'q' ? ZT_W_Q_NORMS : ZT_W_K_NORMS),
                          which == 'q' ? sizes_of(builder)->n_heads : sizes_of(builder)->n_kv_heads);
    if (zt_balances_gains(builder)) return zt_emit_balanced_norm(builder, which, x);
    return zt_emit_norm(builder, zt_layer_label(builder, label), x, which == 'q' ? ZT_W_Q_NORM : ZT_W_K_NORM, ZT_WEIGHT_COUNT,
                        hyper->arch->qk_norm_whole ? 0 : sizes_of(builder)->head);
}

int zt_emit_rope(zt_program_builder *builder, char which, int x)
{
    const zt_hyper *hyper = builder->hyper;
    bool local = hyper->local[builder->layer];
    const char what[3] = {which, 'r', 0};
    if (!hyper->rotated[builder->layer]) return x;
    int tab = local && hyper->arch->local_plain ? ZT_NONE : builder->divisors;
    return zt_program_rope(builder->program, zt_layer_label(builder, what), x, builder->pos, tab,
                           local ? &hyper->local_rope : &hyper->rope);
}

/* A norm of each head of q or k, without weights: its ones have the shape of some of another norm's. */
static int norm_unit(zt_program_builder *builder, char which, int x)
{
    zt_prog *program = builder->program;
    const int64_t head = sizes_of(builder)->head;
    const char part[] = {which, 'u', '_', 0}, ones_label[] = {which, 'u', '1', '_', 0}, label[] = {which, 'u', 0};
    int some = zt_emit_slice(builder, part, zt_weight_data(builder, ZT_W_ATTN_NORM), 0, 0, head);
    int ones = zt_program_fill_like(program, zt_layer_label(builder, ones_label), some, &(zt_fill_like_attrs){1});
    return zt_program_rms_norm(program, zt_layer_label(builder, label), x, ones,
                               &(zt_rms_norm_attrs){.eps = builder->hyper->eps, .dims = head}, NULL);
}

/* q or k, normed and rotated in the order of the architecture. */
static int norm_and_rotate(zt_program_builder *builder, char which, int x)
{
    const zt_hyper *hyper = builder->hyper;
    if (hyper->arch->unit_norms) {
        x = zt_emit_rope(builder, which, x);
        return hyper->unit_norms && hyper->rotated[builder->layer] ? norm_unit(builder, which, x) : x;
    }
    if (builder->hyper->arch->qk_norm_last) return norm_projected(builder, which, zt_emit_rope(builder, which, x));
    return zt_emit_rope(builder, which, norm_projected(builder, which, x));
}

int zt_update_cache(zt_program_builder *builder, const char *state, const char *after, int x)
{
    return zt_update_cache_of(builder, state, after, x, sizes_of(builder)->kv_width);
}

static bool is_cached(const zt_program_builder *builder) { return !builder->hyper->arch->encoder && !builder->opts->lesson; }

/* The state's cache is that of keys, or of values: vc. */
int zt_update_cache_of(zt_program_builder *builder, const char *state, const char *after, int x, int64_t width)
{
    if (!is_cached(builder)) return x;
    const zt_dtype dtype = state[0] == 'v' ? builder->opts->kv_values : builder->opts->kv;
    int cache = zt_prog_state(builder->program, zt_layer_label(builder, state), dtype, 2, (int64_t[]){builder->ctx, width});
    int cache_after =
        zt_program_kv_put(builder->program, zt_layer_label(builder, after), cache, x, builder->pos, builder->seq, builder->table);
    zt_prog_keep(builder->program, cache, cache_after);
    return cache_after;
}

typedef struct heads {
    int q, k, v;
} heads;

/* Of q's columns each head's first half; the others become the gates. */
static int split_gates(zt_program_builder *builder, int x)
{
    zt_prog *program = builder->program;
    int64_t head = sizes_of(builder)->head;
    zt_reshape_attrs by_head = {.shape = {3, {builder->row_count, sizes_of(builder)->n_heads, 2 * head}}},
                     flat = {.shape = {2, {builder->row_count, sizes_of(builder)->q_width}}};
    int both = zt_program_reshape(program, zt_layer_label(builder, "qg_h"), x, &by_head);
    int q = zt_program_slice(program, zt_layer_label(builder, "qg_q"), both, &(zt_slice_attrs){.axis = 2, .from = 0, .to = head});
    int gates = zt_program_slice(program, zt_layer_label(builder, "qg_g"), both,
                                 &(zt_slice_attrs){.axis = 2, .from = head, .to = 2 * head});
    gates = zt_program_reshape(program, zt_layer_label(builder, "qg_f"), gates, &flat);
    builder->gates = zt_program_sigmoid(program, zt_layer_label(builder, "qg_s"), gates);
    return zt_program_reshape(program, zt_layer_label(builder, "qg_r"), q, &flat);
}

/* Does the layer compute keys and values, or read those of an earlier one? */
static bool has_own_cache(const zt_program_builder *builder) { return sizes_of(builder)->cache == builder->layer; }

static heads project_heads(zt_program_builder *builder, int x)
{
    const zt_hyper *hyper = builder->hyper;
    const zt_layer_sizes *sizes = sizes_of(builder);
    heads projected = {.k = ZT_NONE, .v = ZT_NONE};
    if (!(hyper->parts & ZT_PART_FUSED_QKV)) {
        projected.q = zt_layer_linear(builder, "q", x, ZT_W_Q, ZT_W_Q_BIAS);
        if (hyper->arch->gated_attention) projected.q = split_gates(builder, projected.q);
        if (!has_own_cache(builder)) return projected;
        projected.k = zt_layer_linear(builder, "k", x, ZT_W_K, ZT_W_K_BIAS);
        bool alike = zt_weight_find(builder->gguf, hyper, ZT_W_V, builder->layer) < 0;
        projected.v = alike ? projected.k : zt_layer_linear(builder, "v", x, ZT_W_V, ZT_W_V_BIAS);
        return projected;
    }
    int all = zt_layer_linear(builder, "qkv", x, ZT_W_QKV, ZT_W_QKV_BIAS);
    int64_t k_end = sizes->q_width + sizes->kv_width;
    projected.q = zt_emit_columns(builder, "q", all, 0, sizes->q_width);
    if (!has_own_cache(builder)) return projected;
    projected.k = zt_emit_columns(builder, "k", all, sizes->q_width, k_end);
    projected.v = zt_emit_columns(builder, "v", all, k_end, sizes->qkv_width);
    return projected;
}

/* [texts * tokens, heads * head] as [texts, tokens, heads, head]. */
static int reshape_heads(zt_program_builder *builder, const char *what, int x, int64_t texts, int64_t tokens, int64_t n_heads)
{
    zt_reshape_attrs attrs = {.shape = {4, {texts, tokens, n_heads, sizes_of(builder)->head}}};
    return zt_program_reshape(builder->program, zt_layer_label(builder, what), x, &attrs);
}

/* What attention [n, T, heads, head] has where a sink takes its share: times e^lse / (e^lse + e^sink), lse [n, heads, T]. */
static int leave_share(zt_program_builder *builder, int attended, int lse, int sinks, int64_t texts, int64_t tokens)
{
    zt_prog *program = builder->program;
    zt_transpose_attrs by_token = {{3, {0, 2, 1}}};
    zt_reshape_attrs column = {.shape = {4, {texts, tokens, sizes_of(builder)->n_heads, 1}}};
    int share = zt_program_transpose(program, zt_layer_label(builder, "lt"), lse, &by_token);
    share = zt_program_sub(program, zt_layer_label(builder, "ld"), share, sinks);
    share = zt_program_sigmoid(program, zt_layer_label(builder, "lg"), share);
    share = zt_program_reshape(program, zt_layer_label(builder, "lr"), share, &column);
    return zt_program_mul(program, zt_layer_label(builder, "as"), attended, share);
}

/* Attention without a cache, of texts of so many tokens each; `length`: tokens that are seen, ZT_NONE: all. */
static int attend(zt_program_builder *builder, heads projected, int64_t texts, int64_t tokens, int length, zt_sdpa_attrs *attrs)
{
    const zt_layer_sizes *sizes = sizes_of(builder);
    snprintf(attrs->layout.s, sizeof attrs->layout.s, "bshd");
    int q = reshape_heads(builder, "qt", projected.q, texts, tokens, sizes->n_heads),
        k = reshape_heads(builder, "kt", projected.k, texts, tokens, sizes->n_kv_heads);
    int v = reshape_heads(builder, "vt", projected.v, texts, tokens, sizes->n_kv_heads);
    int sinks = zt_weight_data(builder, ZT_W_SINKS), lse;
    int attended = zt_program_sdpa(builder->program, zt_layer_label(builder, "at"), q, k, v, builder->relative, length, attrs,
                                   sinks == ZT_NONE ? NULL : &lse);
    if (sinks != ZT_NONE) attended = leave_share(builder, attended, lse, sinks, texts, tokens);
    zt_reshape_attrs back = {.shape = {2, {builder->row_count, sizes->q_width}}};
    return zt_program_reshape(builder->program, zt_layer_label(builder, "a"), attended, &back);
}

/* Attention of a lesson: each text by itself, each token sees itself and the tokens before it. */
static int causal_attention(zt_program_builder *builder, heads projected)
{
    const zt_hyper *hyper = builder->hyper;
    zt_sdpa_attrs attrs = zt_sdpa_defaults();
    attrs.scale = sizes_of(builder)->attn_scale;
    attrs.causal = 1;
    attrs.softcap = hyper->attn_cap;
    int64_t texts = builder->texts, tokens = builder->opts->lesson;
    const bool local = hyper->local[builder->layer] && hyper->window;
    if (local && hyper->arch->chunked) { /* each chunk is a text of its own */
        if (tokens <= hyper->window) return attend(builder, projected, texts, tokens, ZT_NONE, &attrs);
        texts = zt_prog_dim(builder->program, '*', texts, tokens / hyper->window);
        return attend(builder, projected, texts, hyper->window, ZT_NONE, &attrs);
    }
    attrs.left = local ? hyper->window - 1 : -1;
    return attend(builder, projected, texts, tokens, ZT_NONE, &attrs);
}

/* Attention of an encoder's layer with learned biases or a window, half before a token and half behind it, up to the text's last
 * token. */
static int encoder_attention(zt_program_builder *builder, heads projected)
{
    const zt_hyper *hyper = builder->hyper;
    zt_sdpa_attrs attrs = zt_sdpa_defaults();
    attrs.scale = sizes_of(builder)->attn_scale;
    attrs.softcap = hyper->attn_cap;
    if (hyper->local[builder->layer]) attrs.left = attrs.right = hyper->window / 2;
    return attend(builder, projected, 1, builder->row_count, builder->length, &attrs);
}

/* A norm of each head's values, without weights: those of the norm of keys are taken for their shape. */
static int norm_values(zt_program_builder *builder, int v)
{
    const zt_hyper *hyper = builder->hyper;
    if (!hyper->arch->value_norm) return v;
    int ones = zt_program_fill_like(builder->program, zt_layer_label(builder, "vo"), zt_weight_data(builder, ZT_W_K_NORM),
                                    &(zt_fill_like_attrs){1});
    return zt_program_rms_norm(builder->program, zt_layer_label(builder, "vn"), v, ones,
                               &(zt_rms_norm_attrs){.eps = hyper->eps, .dims = sizes_of(builder)->head}, NULL);
}

/* Heads as a cache of the type is read and written: rotated where it has blocks, so that no few columns decide their scales.
 * Rotated queries and keys have the products that they had, and a second rotation takes back that of values. */
static int rotate_heads(zt_program_builder *builder, const char *what, zt_dtype dtype, int x)
{
    if (x == ZT_NONE || !is_cached(builder) || !zt_is_block_cache(dtype)) return x;
    return zt_program_hadamard(builder->program, zt_layer_label(builder, what), x,
                               &(zt_hadamard_attrs){.head = sizes_of(builder)->head});
}

/* Keys and values after those of the step; those of the layer whose cache this one reads. */
static void update_keys(zt_program_builder *builder, heads *projected)
{
    zt_layer_keys *own = &builder->keys[sizes_of(builder)->cache];
    if (has_own_cache(builder)) {
        const int values = norm_values(builder, projected->v);
        own->k = zt_update_cache(builder, "kc", "kp", rotate_heads(builder, "kh", builder->opts->kv, projected->k));
        own->v = zt_update_cache(builder, "vc", "vp", rotate_heads(builder, "vh", builder->opts->kv_values, values));
    }
    projected->k = own->k;
    projected->v = own->v;
}

/* q, k and v within the limit on either side of 0. */
static void clamp_heads(zt_program_builder *builder, heads *projected)
{
    const zt_clamp_attrs attrs = {-builder->hyper->qkv_clamp, builder->hyper->qkv_clamp};
    projected->q = zt_program_clamp(builder->program, zt_layer_label(builder, "ql"), projected->q, &attrs);
    if (projected->k == ZT_NONE) return;
    projected->k = zt_program_clamp(builder->program, zt_layer_label(builder, "kl"), projected->k, &attrs);
    projected->v = zt_program_clamp(builder->program, zt_layer_label(builder, "vl"), projected->v, &attrs);
}

/* With linear biases; an encoder's go by the position of the query, which sees the whole text. */
static int biased_attention(zt_program_builder *builder, heads projected, const zt_attention_attrs *attrs)
{
    const zt_hyper *hyper = builder->hyper;
    zt_attention_alibi_attrs biased = {attrs->head, attrs->scale, attrs->window, attrs->softcap, hyper->alibi};
    bool encoder = hyper->arch->encoder;
    return zt_program_attention_alibi(builder->program, zt_layer_label(builder, "a"), projected.q, projected.k, projected.v,
                                      encoder ? builder->last : builder->pos, builder->seq, builder->table,
                                      encoder ? builder->pos : ZT_NONE, &biased);
}

static int attend_cached(zt_program_builder *builder, heads projected)
{
    const zt_hyper *hyper = builder->hyper;
    zt_attention_attrs attrs = {.head = sizes_of(builder)->head,
                                .scale = sizes_of(builder)->attn_scale,
                                .window = hyper->local[builder->layer] ? hyper->window : 0,
                                .softcap = hyper->attn_cap};
    if (hyper->alibi > 0) return biased_attention(builder, projected, &attrs);
    int seen = hyper->arch->encoder ? builder->last : builder->pos, sinks = zt_weight_data(builder, ZT_W_SINKS);
    if (sinks != ZT_NONE) {
        zt_attention_sinks_attrs same = {attrs.head, attrs.scale, attrs.window, attrs.softcap};
        return zt_program_attention_sinks(builder->program, zt_layer_label(builder, "a"), projected.q, projected.k, projected.v,
                                          sinks, seen, builder->seq, builder->table, &same);
    }
    if (hyper->arch->chunked && attrs.window > 0) {
        zt_attention_chunked_attrs same = {attrs.head, attrs.scale, attrs.window, attrs.softcap};
        return zt_program_attention_chunked(builder->program, zt_layer_label(builder, "a"), projected.q, projected.k, projected.v,
                                            seen, builder->seq, builder->table, &same);
    }
    return zt_program_attention(builder->program, zt_layer_label(builder, "a"), projected.q, projected.k, projected.v, seen,
                                builder->seq, builder->table, &attrs);
}

int zt_emit_attention(zt_program_builder *builder, int x)
{
    const zt_hyper *hyper = builder->hyper;
    if (hyper->parts & ZT_PART_LATENT) return zt_emit_latent_attention(builder, x);
    heads projected = project_heads(builder, x);
    if (hyper->qkv_clamp > 0) clamp_heads(builder, &projected);
    projected.q = norm_and_rotate(builder, 'q', projected.q);
    if (has_own_cache(builder)) projected.k = norm_and_rotate(builder, 'k', projected.k);
    if (builder->temper != ZT_NONE && !(hyper->arch->temper_length && hyper->rotated[builder->layer]))
        projected.q = zt_program_mul(builder->program, zt_layer_label(builder, "qm"), projected.q, builder->temper);
    update_keys(builder, &projected);
    if (builder->opts->lesson) return causal_attention(builder, projected);
    if (builder->length != ZT_NONE && (hyper->local[builder->layer] || builder->relative != ZT_NONE))
        return encoder_attention(builder, projected);
    projected.q = rotate_heads(builder, "qh", builder->opts->kv, projected.q);
    return rotate_heads(builder, "ah", builder->opts->kv_values, attend_cached(builder, projected));
}

static int emit_gated_attention(zt_program_builder *builder, int x)
{
    builder->gates = ZT_NONE;
    int attended = zt_emit_attention(builder, x);
    if (builder->gates == ZT_NONE) return attended;
    return zt_program_mul(builder->program, zt_layer_label(builder, "qg_a"), attended, builder->gates);
}

/* ---- layers --------------------------------------------------------------------------------- */

/* What mixes the tokens in layers of a kind, and the weights by which its result enters the stream. */
static const struct {
    int (*emit)(zt_program_builder *builder, int x);
    zt_weight out, out_bias;
} mixers[ZT_LAYER_KINDS] = {
    [ZT_LAYER_ATTENTION] = {emit_gated_attention, ZT_W_O, ZT_W_O_BIAS},
    [ZT_LAYER_DELTA_NET] = {zt_emit_delta_net, ZT_W_DELTA_OUT, ZT_WEIGHT_COUNT},
    [ZT_LAYER_SHORT_CONV] = {zt_emit_short_conv, ZT_W_SHORT_OUT, ZT_WEIGHT_COUNT},
    [ZT_LAYER_MAMBA] = {zt_emit_mamba, ZT_W_SCAN_OUT, ZT_WEIGHT_COUNT},
    [ZT_LAYER_MAMBA2] = {zt_emit_mamba2, ZT_W_SCAN_OUT, ZT_WEIGHT_COUNT},
    [ZT_LAYER_BESIDE_MAMBA2] = {emit_gated_attention, ZT_W_O, ZT_W_O_BIAS},
    [ZT_LAYER_TIME_MIX] = {zt_emit_time_mix, ZT_W_TIME_OUT, ZT_WEIGHT_COUNT},
};

/* Activation sparsity: what of the gate is above its mean by so many deviations, less that bound; else 0. */
static int cut_gate(zt_program_builder *builder, int gate)
{
    zt_prog *program = builder->program;
    double cutoff = sizes_of(builder)->cutoff;
    if (cutoff == -INFINITY) return gate;
    zt_mean_attrs of_row = {.axes = {1, {1}}, .keepdims = 1};
    int mean = zt_program_mean(program, zt_layer_label(builder, "gm"), gate, &of_row);
    gate = zt_program_sub(program, zt_layer_label(builder, "gc"), gate, mean);
    int deviation = zt_program_square(program, zt_layer_label(builder, "gq"), gate);
    deviation = zt_program_mean(program, zt_layer_label(builder, "gv"), deviation, &of_row);
    deviation = zt_program_sqrt(program, zt_layer_label(builder, "gd"), deviation);
    deviation = zt_program_scale(program, zt_layer_label(builder, "gb"), deviation, &(zt_scale_attrs){.by = cutoff});
    gate = zt_program_sub(program, zt_layer_label(builder, "gx"), gate, deviation);
    return zt_program_relu(program, zt_layer_label(builder, "gr"), gate);
}

int zt_emit_feed_forward(zt_program_builder *builder, int x)
{
    const zt_hyper *hyper = builder->hyper;
    int gate, up = ZT_NONE;
    if (hyper->parts & ZT_PART_FUSED_UP) {
        int both = zt_layer_linear(builder, "gu", x, ZT_W_GATE_UP, ZT_WEIGHT_COUNT);
        gate = zt_emit_columns(builder, "g", both, 0, sizes_of(builder)->ff);
        up = zt_emit_columns(builder, "u", both, sizes_of(builder)->ff, sizes_of(builder)->up_width);
    } else if (hyper->parts & ZT_PART_GATE) {
        gate = zt_layer_linear(builder, "g", x, ZT_W_GATE, ZT_W_GATE_BIAS);
        up = zt_layer_linear(builder, "u", x, ZT_W_UP, ZT_W_UP_BIAS);
    } else {
        gate = zt_layer_linear(builder, "u", x, ZT_W_UP, ZT_W_UP_BIAS);
    }
    gate = cut_gate(builder, gate);
    int activated =
        hyper->arch->xielu ? zt_emit_xielu(builder, gate) : hyper->act(builder->program, zt_layer_label(builder, "f"), gate, up);
    return zt_layer_linear(builder, "d", activated, ZT_W_DOWN, ZT_W_DOWN_BIAS);
}

/* Of x, the sum after attention, and of `read`, which is what the feed-forward reads. */
static int feed_forward(zt_program_builder *builder, int x, int read)
{
    const zt_hyper *hyper = builder->hyper;
    if (!hyper->sparse[builder->layer]) return zt_emit_feed_forward(builder, read);
    return hyper->parts & ZT_PART_BESIDE ? zt_emit_experts_beside(builder, x, read) : zt_emit_experts(builder, read);
}

/* x times a factor of the layer, where there is one. */
static int scale_layer(zt_program_builder *builder, int x)
{
    int factor = zt_weight_data(builder, ZT_W_LAYER_SCALE);
    return factor == ZT_NONE ? x : zt_program_mul(builder->program, zt_layer_label(builder, "xf"), x, factor);
}

void zt_keep_rows(zt_program_builder *builder, bool attended)
{
    zt_prog *program = builder->program;
    zt_gather_elements_attrs of_rows = {.axis = 0, .oob = {"error"}};
    if (builder->per_layer != ZT_NONE)
        builder->per_layer = zt_program_gather(program, "pl_rows", builder->per_layer, builder->rows, NULL);
    if (attended) {
        builder->pos = zt_program_gather_elements(program, "pos_rows", builder->pos, builder->rows, &of_rows);
        builder->seq = zt_program_gather_elements(program, "seq_rows", builder->seq, builder->rows, &of_rows);
        if (builder->temper != ZT_NONE)
            builder->temper = zt_program_gather(program, "t_rows", builder->temper, builder->rows, NULL);
    }
    builder->row_count = zt_prog_symbol(program, "m");
    builder->rows = ZT_NONE;
}

/* The rows with logits, where no layer from here on computes keys that later tokens read: those that there are read the caches
 * of earlier layers. */
static int keep_wanted_rows(zt_program_builder *builder, int x)
{
    const zt_hyper *hyper = builder->hyper;
    for (int64_t layer = builder->layer; layer <= builder->last_layer; layer++)
        if (hyper->layer[layer].cache == layer) return x;
    if (builder->rows == ZT_NONE) return x;
    x = zt_program_gather(builder->program, "x_rows", x, builder->rows, NULL);
    zt_keep_rows(builder, builder->layer <= builder->last_layer);
    return x;
}

/* A layer that is a feed-forward alone: x + scale * feed_forward(norm(x)). */
static int emit_sole_feed_forward(zt_program_builder *builder, int x, int normed)
{
    if (builder->layer == builder->last_layer && builder->rows != ZT_NONE) {
        x = zt_program_gather(builder->program, "x_rows", x, builder->rows, NULL);
        normed = zt_program_gather(builder->program, "h_rows", normed, builder->rows, NULL);
        zt_keep_rows(builder, false);
    }
    int fed =
        zt_emit_scale(builder, zt_layer_label(builder, "ds"), feed_forward(builder, x, normed), builder->hyper->residual_scale);
    return zt_program_add(builder->program, zt_layer_label(builder, "x"), x, fed);
}

/* Attention and a state-space layer beside it. */
static int add_beside(zt_program_builder *builder, int attended, int beside)
{
    beside = zt_layer_linear(builder, "xo", beside, ZT_W_SCAN_OUT, ZT_WEIGHT_COUNT);
    return zt_program_add(builder->program, zt_layer_label(builder, "ox"), attended, beside);
}

/* One layer, in the residual form; a norm is the identity where the model does not have it:
 *
 *     x = norm(x + scale * norm(attention(norm(x))))
 *     x = norm(x + scale * norm(feed_forward(norm(x))))
 *
 * A parallel feed-forward reads x as it was before attention; without a norm of its own, the one that attention reads. In
 * place of attention there may be a recurrent mixer, and some models have no feed-forward.
 */
static int emit_layer(zt_program_builder *builder, int x)
{
    const zt_hyper *hyper = builder->hyper;
    double scale = hyper->residual_scale;
    bool one_norm = hyper->parallel && !(hyper->parts & ZT_PART_FF_NORM);
    int normed = zt_emit_layer_norm(builder, "h", x, ZT_W_ATTN_NORM, ZT_W_ATTN_NORM_BIAS), before = x;
    int seen =
        hyper->parts & ZT_PART_NORM_2 ? zt_emit_layer_norm(builder, "hs", x, ZT_W_ATTN_NORM_2, ZT_W_ATTN_NORM_2_BIAS) : normed;
    const zt_layer_kind kind = sizes_of(builder)->kind;
    if (kind == ZT_LAYER_FEED_FORWARD) return emit_sole_feed_forward(builder, x, normed);
    int attended = mixers[kind].emit(builder, seen);
    int beside = kind == ZT_LAYER_BESIDE_MAMBA2 ? zt_emit_mamba2(builder, seen) : ZT_NONE;
    const bool channels = hyper->parts & ZT_PART_CHANNEL_MIX; /* which reads the row before too */
    if (builder->layer == builder->last_layer && builder->rows != ZT_NONE && !channels) {
        attended = zt_program_gather(builder->program, "a_rows", attended, builder->rows, NULL);
        x = before = zt_program_gather(builder->program, "x_rows", x, builder->rows, NULL);
        if (one_norm) normed = zt_program_gather(builder->program, "h_rows", normed, builder->rows, NULL);
        if (beside != ZT_NONE) beside = zt_program_gather(builder->program, "b_rows", beside, builder->rows, NULL);
        zt_keep_rows(builder, false);
    }
    attended = zt_layer_linear(builder, "o", attended, mixers[kind].out, mixers[kind].out_bias);
    if (beside != ZT_NONE) attended = add_beside(builder, attended, beside);
    attended = zt_emit_layer_norm(builder, "on", attended, ZT_W_ATTN_POST, ZT_WEIGHT_COUNT);
    attended = zt_emit_scale(builder, zt_layer_label(builder, "os"), attended, scale);
    x = zt_program_add(builder->program, zt_layer_label(builder, "y"), x, attended);
    x = zt_emit_layer_norm(builder, "yn", x, ZT_W_ATTN_SUM, ZT_W_ATTN_SUM_BIAS);
    if (channels) return zt_emit_channel_mix(builder, x);
    if (sizes_of(builder)->ff == 0 && !hyper->sparse[builder->layer]) return x;
    int source = one_norm ? normed : hyper->parallel ? before : x;
    int read = zt_emit_layer_norm(builder, "hf", source, ZT_W_FF_NORM, ZT_W_FF_NORM_BIAS);
    read = zt_emit_layer_norm(builder, "hp", read, ZT_W_FF_NORM_POST, ZT_WEIGHT_COUNT);
    read = zt_emit_layer_norm(builder, "hb", read, ZT_W_FF_NORM_BARE, ZT_WEIGHT_COUNT);
    int fed = feed_forward(builder, x, read);
    fed = zt_emit_layer_norm(builder, "dn", fed, ZT_W_FF_POST, ZT_WEIGHT_COUNT);
    fed = zt_emit_scale(builder, zt_layer_label(builder, "ds"), fed, scale);
    x = zt_program_add(builder->program, zt_layer_label(builder, "x"), x, fed);
    x = zt_emit_layer_norm(builder, "xn", x, ZT_W_FF_SUM, ZT_W_FF_SUM_BIAS);
    return scale_layer(builder, zt_add_per_layer(builder, x, x));
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int declare_input(zt_program_builder *builder, const char *name, int64_t length)
{
    return zt_prog_in(builder->program, name, ZT_I32, 1, &length);
}

/* i32[n,T], as one row behind the other. */
static int flat_input(zt_program_builder *builder, const char *name, const char *flat)
{
    int x = zt_prog_in(builder->program, name, ZT_I32, 2, (int64_t[]){builder->texts, builder->opts->lesson});
    zt_reshape_attrs attrs = {.shape = {1, {builder->rows_all}}};
    return zt_program_reshape(builder->program, flat, x, &attrs);
}

static int lesson_inputs(zt_program_builder *builder)
{
    builder->texts = zt_prog_symbol(builder->program, "n");
    builder->row_count = builder->rows_all = zt_prog_dim(builder->program, '*', builder->texts, builder->opts->lesson);
    builder->types = builder->last = builder->seq = builder->table = builder->rows = ZT_NONE;
    int ids = flat_input(builder, "ids", "ids_flat");
    builder->target = flat_input(builder, "target", "target_flat");
    builder->pos = flat_input(builder, "pos", "pos_flat");
    if (builder->hyper->recurrent) zt_lesson_states(builder);
    return ids;
}

/* Declares the inputs; the ids. */
static int declare_inputs(zt_program_builder *builder)
{
    zt_prog *program = builder->program;
    if (builder->opts->lesson) return lesson_inputs(builder);
    int64_t rows = builder->row_count = zt_prog_symbol(program, "n");
    int ids = declare_input(builder, "ids", rows);
    builder->types = builder->last = builder->seq = builder->table = builder->rows = ZT_NONE;
    if (builder->hyper->arch->encoder) {
        builder->types = declare_input(builder, "types", rows);
        builder->pos = declare_input(builder, "pos", rows);
        builder->last = declare_input(builder, "last", rows);
        return ids;
    }
    int64_t wanted = zt_prog_symbol(program, "m");
    builder->ctx = zt_prog_symbol(program, "ctx");
    int64_t blocks = zt_prog_dim(program, '/', builder->ctx, ZT_KV_BLOCK);
    builder->pos = declare_input(builder, "pos", rows);
    builder->seq = declare_input(builder, "seq", rows);
    builder->table = zt_prog_in(program, "table", ZT_I32, 2, (int64_t[]){builder->opts->n_seq, blocks});
    builder->rows = declare_input(builder, "rows", wanted);
    if (builder->opts->head) builder->hidden = zt_prog_in(program, "hidden", ZT_F32, 2, (int64_t[]){rows, builder->hyper->width});
    if (!builder->hyper->recurrent || builder->opts->head) return ids;
    builder->from = declare_input(builder, "from", rows);
    builder->to = declare_input(builder, "to", rows);
    return ids;
}

/* x plus a row of the table `weight` for each of `indices`; x where there is no such table. */
static int add_table_row(zt_program_builder *builder, const char *row, const char *sum, int x, zt_weight weight, int indices)
{
    int table = zt_weight_data(builder, weight);
    if (table == ZT_NONE) return x;
    return zt_program_add(builder->program, sum, x, zt_program_gather(builder->program, row, table, indices, NULL));
}

/* The embedded tokens; `*table` is the embedding's value. */
static int embed_tokens(zt_program_builder *builder, int ids, int *table)
{
    *table = zt_weight_data(builder, ZT_W_EMBED);
    int x = zt_program_gather(builder->program, "x", *table, ids, NULL);
    x = zt_emit_scale(builder, "xs", x, builder->hyper->embed_scale);
    x = add_table_row(builder, "x_type", "xt", x, ZT_W_TYPES, builder->types);
    x = add_table_row(builder, "x_pos", "xp", x, ZT_W_POSITIONS, builder->pos);
    return zt_emit_norm(builder, "x_embd", x, ZT_W_EMBED_NORM, ZT_W_EMBED_NORM_BIAS, 0);
}

/* The matrices behind the last norm, of each row: of rows that are averaged afterwards, or one of which counts, the product of
 * the mean is the mean of the products. */
static int emit_dense(zt_program_builder *builder, int x)
{
    int first = zt_weight_data(builder, ZT_W_DENSE_2), second = zt_weight_data(builder, ZT_W_DENSE_3);
    if (first != ZT_NONE) x = zt_emit_linear(builder, "dense_2_out", x, first, ZT_NONE, true);
    return second == ZT_NONE ? x : zt_emit_linear(builder, "dense_3_out", x, second, ZT_NONE, true);
}

/* The last norms; of all rows where a head reads them, then those with logits. */
static int emit_last_norms(zt_program_builder *builder, int x, int rows)
{
    x = zt_emit_norm(builder, "x_norm", x, ZT_W_OUT_NORM, ZT_W_OUT_NORM_BIAS, 0);
    x = zt_emit_norm(builder, "x_last", x, ZT_W_OUT_NORM_EMBD, ZT_WEIGHT_COUNT, 0);
    builder->hidden = x;
    return rows == ZT_NONE ? x : zt_program_gather(builder->program, "x_rows", x, rows, NULL);
}

/* States after the last norm, or logits. */
static int emit_output(zt_program_builder *builder, int x, int embedding)
{
    if (builder->opts->embed) return builder->hyper->classifies ? zt_emit_classifier(builder, x) : emit_dense(builder, x);
    int weight = zt_weight_data(builder, ZT_W_NEXT_OUT);
    if (weight == ZT_NONE) weight = zt_weight_data(builder, ZT_W_OUT);
    int bias = zt_weight_data(builder, ZT_W_OUT_BIAS);
    x = zt_emit_linear(builder, "logits", x, weight == ZT_NONE ? embedding : weight, bias, true);
    x = zt_emit_scale(builder, "less", x, builder->hyper->logit_scale);
    if (builder->hyper->final_cap == 0) return x;
    return zt_program_softcap(builder->program, "capped", x, &(zt_softcap_attrs){.cap = builder->hyper->final_cap});
}

/* The table of rope divisors: one for every context, or one for long and one for short contexts. */
static int rope_divisors(zt_program_builder *builder)
{
    int tab = zt_weight_data(builder, ZT_W_ROPE_TAB);
    if (tab != ZT_NONE) return tab;
    return zt_weight_data(builder, builder->opts->ctx > builder->hyper->ctx_orig ? ZT_W_ROPE_LONG : ZT_W_ROPE_SHORT);
}

/* 1 + temperature ln(1 + floor(position / length)), for each row. */
static int query_scales(zt_program_builder *builder)
{
    const zt_hyper *hyper = builder->hyper;
    zt_prog *program = builder->program;
    zt_reshape_attrs column = {.shape = {2, {builder->row_count, 1}}};
    bool any = hyper->arch->temper_length == 0;
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) any = any || !hyper->rotated[layer];
    if (hyper->temperature == 0 || !any) return ZT_NONE;
    int at = zt_program_cast(program, "t_pos", builder->pos, &(zt_cast_attrs){.to.s = "f32"});
    if (hyper->arch->temper_length) at = zt_program_add_scalar(program, "t_from_1", at, &(zt_add_scalar_attrs){1});
    int length = zt_program_fill_like(program, "t_ctx", at, &(zt_fill_like_attrs){(double)hyper->temper_length});
    int laps = zt_program_floor(program, "t_floor", zt_program_div(program, "t_laps", at, length));
    int grown = zt_emit_scale(builder, "t_scale", zt_program_log1p(program, "t_log", laps), hyper->temperature);
    int one = zt_program_fill_like(program, "t_one", at, &(zt_fill_like_attrs){1});
    return zt_program_reshape(program, "t_column", zt_program_add(program, "t", grown, one), &column);
}

/* One more than the text's last token, which each row names. */
static int text_length(zt_program_builder *builder)
{
    const zt_hyper *hyper = builder->hyper;
    zt_prog *program = builder->program;
    bool windowed = false;
    zt_slice_attrs first = {.axis = 0, .from = 0, .to = 1};
    for (int64_t layer = 0; layer < hyper->n_layers && hyper->arch->encoder; layer++) windowed = windowed || hyper->local[layer];
    if (!windowed && !(hyper->parts & ZT_PART_RELATIVE)) return ZT_NONE;
    int last = zt_program_slice(program, "l_last", builder->last, &first);
    int real = zt_program_cast(program, "l_real", last, &(zt_cast_attrs){.to.s = "f32"});
    int one = zt_program_fill_like(program, "l_one", real, &(zt_fill_like_attrs){1});
    return zt_program_cast(program, "l", zt_program_add(program, "l_sum", real, one), &(zt_cast_attrs){.to.s = "i32"});
}

/* Declares the outputs: result is states, or logits. */
static zt_status declare_outputs(zt_program_builder *builder, int result)
{
    if (builder->opts->lesson)
        return zt_prog_out(builder->program, "loss",
                           zt_program_cross_entropy(builder->program, "mean", result, builder->target, ZT_NONE, NULL, NULL));
    zt_status status = zt_prog_out(builder->program, builder->opts->embed ? "states" : "logits", result);
    if (status != ZT_OK || builder->opts->embed) return status;
    status = zt_prog_out(builder->program, "best", zt_program_argmax(builder->program, "likeliest", result, NULL));
    if (status == ZT_OK && builder->opts->draws)
        status = zt_prog_out(builder->program, "token",
                             zt_drawing_build(builder->program, result, zt_prog_symbol(builder->program, "m")));
    if (status == ZT_OK && (builder->opts->hidden || builder->opts->head))
        status = zt_prog_out(builder->program, builder->opts->head ? "state" : "hidden", builder->hidden);
    return status;
}

zt_prog *zt_llm_build(const zt_gguf *gguf, const zt_hyper *hyper, const zt_build_opts *opts)
{
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    zt_program_builder builder = {.program = zt_prog_new(ctx), .gguf = gguf, .hyper = hyper, .opts = opts};
    int embedding;
    if (!builder.program) return NULL;
    bool cut = hyper->arch->chunked && hyper->window > 0 && opts->lesson > hyper->window && opts->lesson % hyper->window != 0;
    if (cut)
        zt_fail(ctx, ZT_ENOTSUP,
                "%s: training on texts of %" PRId64 " tokens is not supported: expected at most %" PRId64
                " or a multiple of that, the chunk of attention",
                zt_gguf_name(gguf), opts->lesson, hyper->window);
    if (opts->lesson && (hyper->parts & ZT_PART_INDEXER))
        zt_fail(ctx, ZT_ENOTSUP, "%s: models with an indexer that chooses keys cannot be trained", zt_gguf_name(gguf));
    zt_prog_model(builder.program, zt_gguf_name(gguf), zt_gguf_id(gguf));
    builder.last_layer = hyper->n_layers - !opts->head;
    builder.layer = opts->head ? hyper->n_layers : 0;
    int ids = declare_inputs(&builder), x = embed_tokens(&builder, ids, &embedding);
    if (opts->head) x = zt_emit_head_input(&builder, ids, x);
    builder.per_layer = zt_embed_per_layer(&builder, ids, x);
    builder.divisors = rope_divisors(&builder);
    builder.temper = query_scales(&builder);
    builder.heads = hyper->parts & ZT_PART_LATENT ? zt_emit_head_numbers(&builder) : ZT_NONE;
    builder.length = text_length(&builder);
    builder.relative = opts->lesson && hyper->alibi > 0 ? zt_emit_lesson_biases(&builder) : zt_emit_relative(&builder);
    bool streams = hyper->parts & ZT_PART_ALTUP;
    if (streams) x = zt_spread_streams(&builder, x);
    const int rows = opts->hidden ? builder.rows : ZT_NONE; /* those with logits, of states that are all wanted */
    if (opts->hidden) builder.rows = ZT_NONE;
    for (; builder.layer <= builder.last_layer; builder.layer++) {
        x = keep_wanted_rows(&builder, x);
        x = streams ? zt_emit_stream_layer(&builder, x) : emit_layer(&builder, x);
    }
    x = keep_wanted_rows(&builder, x);
    if (streams) x = zt_join_streams(&builder, x);
    builder.layer = builder.last_layer;
    x = opts->head ? zt_emit_head_norm(&builder, x) : emit_last_norms(&builder, x, rows);
    zt_status status = declare_outputs(&builder, emit_output(&builder, x, embedding));
    if (status == ZT_OK && zt_ctx_status(ctx) == ZT_OK) return builder.program;
    zt_prog_free(builder.program);
    return NULL;
}
