/* internal.h - private to lib/llm: what the files of the builder share. build.c has layers and attention,
 * build/latent.c latent attention, build/experts.c routed experts, build/recurrent.c what recurrent layers share,
 * build/delta.c gated delta nets, build/classifier.c a classifier of texts, build/per_layer.c
 * embeddings for each layer, build/streams.c several streams, build/head.c the head that predicts further tokens, build/adapter.c an adapter that is trained.
 */
#ifndef ZT_BUILD_INTERNAL_H
#define ZT_BUILD_INTERNAL_H

#include "lib/llm/arch/arch.h"

typedef struct zt_layer_keys {
    int k, v; /* what attention reads: the layer's caches after the step, or its keys and values where there is no cache */
} zt_layer_keys;

typedef struct zt_program_builder {
    zt_prog *program;
    const zt_gguf *gguf;
    const zt_hyper *hyper;
    const zt_build_opts *opts;
    int pos, seq, table, rows; /* inputs; of an encoder pos alone, */
    int from, to;              /* slots of states, where layers are recurrent (zt_state_start) */
    int types, last;           /* and these */
    int relative;              /* biases of attention, f32[1,heads,n,n]; ZT_NONE in most models */
    int length;                /* tokens of an encoder's text, i32[1]; ZT_NONE where no layer has a window */
    int gates;                 /* of the layer's attention; ZT_NONE: it has none */
    int target;                /* of a lesson */
    int64_t texts, rows_all;   /* of a lesson: n, and n T */
    int hidden;                /* of the head: states of the model behind its last norm, f32[n,width] */
    int divisors;              /* divisors of rope, ZT_NONE in most models */
    int heads;                 /* i32[n,heads]: the number of each head; ZT_NONE without latent attention */
    int temper;                /* what each row of q is multiplied by, f32[n,1]; ZT_NONE in most models */
    int first_values;          /* of RWKV-7: the values of layer 0 */
    int per_layer;             /* each row's embeddings for all layers, f32[n, layers * length]; ZT_NONE in most models */
    int64_t ctx;               /* the symbol */
    int64_t layer, last_layer;
    int64_t row_count; /* of what is computed now: n, or m behind the last attention with a cache of its own */
    zt_layer_keys keys[ZT_MAX_LAYERS];
    char label[32];
} zt_program_builder;

/* "q3" in layer 3; good until the next call. */
const char *zt_layer_label(zt_program_builder *builder, const char *what);

/* The data value of a weight, named as the tensor less ".weight"; ZT_NONE where there is none.
 * Vectors are used in f32: that is how converters write them, but a file may say otherwise. */
int zt_weight_data(zt_program_builder *builder, zt_weight weight);

/* x weight^T + bias. The number format of the activations depends on the weight, unless `exact` keeps f32:
 *
 *     weight            activations
 *     block-quantized   8 bits, or 16 bits with `fine`
 *     bf16              bf16
 *     f16, f32          f32
 *
 * `fine` is used for k and v, which all later tokens read, and for the logits: together they make more than half of the
 * error against exact arithmetic, q almost none (bench/results/perplexity.md). */
int zt_emit_linear(zt_program_builder *builder, const char *what, int x, int weight, int bias, bool fine);
/* The same of a weight that is not trained, plus what the adapter of opts adds to it (adapter.c). */
int zt_emit_frozen(zt_program_builder *builder, const char *what, int x, int weight, int bias);
/* The word for activations by this weight. */
const char *zt_act_word(const zt_program_builder *builder, int weight, bool fine);
/* A product of the current layer, by its weight and bias. */
int zt_layer_linear(zt_program_builder *builder, const char *what, int x, zt_weight weight, zt_weight bias);
/* A state of the current layer, f32[slots,...]: `dim` has the rank - 1 sizes of a slot. Of a lesson zeros in one slot. */
int zt_layer_state(zt_program_builder *builder, const char *what, int rank, const int64_t *dim);
/* What the layer made of that state stays for the next step; of a lesson it does not. */
void zt_layer_keep_state(zt_program_builder *builder, int before, int after);
/* The inputs `from` and `to` of a lesson, from its positions: each text starts from zeros, and no state is kept. */
void zt_lesson_states(zt_program_builder *builder);
/* A causal convolution of the columns of x, of the current layer, by its weight and bias; with `silu`, silu of that. Its
 * state is named `state`. */
int zt_layer_causal_conv(zt_program_builder *builder, const char *what, const char *state, int x, zt_weight weight,
                         zt_weight bias, bool silu);
/* Of each row the row before it less itself, in the current layer; before a text's first row there are zeros. Names of values
 * and of the state begin with the letter. */
int zt_layer_token_shift(zt_program_builder *builder, char letter, int x);
int zt_emit_scale(zt_program_builder *builder, const char *label, int x, double by);
/* A norm of the row, or (dims) of each head in it; x itself where there is no such weight. */
int zt_emit_norm(zt_program_builder *builder, const char *label, int x, zt_weight weight, zt_weight bias, int64_t dims);
/* A norm of the current layer. bias ZT_WEIGHT_COUNT: this norm has no bias in any architecture. */
int zt_emit_layer_norm(zt_program_builder *builder, const char *what, int x, zt_weight weight, zt_weight bias);
/* Columns from..to-1 of x. */
int zt_emit_columns(zt_program_builder *builder, const char *what, int x, int64_t from, int64_t to);
/* Attention of the current layer, before its output matrix; [rows, q_width]. */
int zt_emit_attention(zt_program_builder *builder, int x);
/* The feed-forward of the current layer without experts; x and the value [rows, width]. */
int zt_emit_feed_forward(zt_program_builder *builder, int x);

/* The product of the current layer by stacked matrices of which `which` i32[rows,k] says one for each row [rows,k,columns]. */
int zt_emit_expert_linear(zt_program_builder *builder, const char *what, int x, int weight, int which, int bias, bool fine);
/* Columns from..to-1 of x's axis. */
int zt_emit_slice(zt_program_builder *builder, const char *what, int x, int axis, int64_t from, int64_t to);
/* rope, as the current layer turns; `what` 'q' or 'k'. */
int zt_emit_rope(zt_program_builder *builder, char which, int x);
/* Stores rows of kv_width columns in the state's cache and returns the updated cache; without a cache, x itself. */
int zt_update_cache(zt_program_builder *builder, const char *state, const char *after, int x);
int zt_update_cache_of(zt_program_builder *builder, const char *state, const char *after, int x, int64_t width);

/* build/balance.c: are the gains of the current layer's norms of q and k balanced, for a cache with keys of blocks? */
bool zt_balances_gains(const zt_program_builder *builder);
/* The norm of each head of q or k, 'q' or 'k', with balanced gains. */
int zt_emit_balanced_norm(zt_program_builder *builder, char which, int x);

/* build/latent.c: attention whose cache is one latent row for all heads; x [rows,width], the value [rows,o_width]. */
int zt_emit_latent_attention(zt_program_builder *builder, int x);
/* i32[n,heads], the number of each head. */
int zt_emit_head_numbers(zt_program_builder *builder);

/* build/relative.c: what learned biases add to the scores of an encoder's attention, f32[1,heads,n,n]; ZT_NONE: there are none. */
int zt_emit_relative(zt_program_builder *builder);

/* build/alibi.c: what linear biases add to the scores of a text of a lesson, f32[heads,T,T]. */
int zt_emit_lesson_biases(zt_program_builder *builder);

/* build/xielu.c: the curve of the current layer. */
int zt_emit_xielu(zt_program_builder *builder, int x);

/* build/classifier.c: the scores f32[rows, labels] of states x. */
int zt_emit_classifier(zt_program_builder *builder, int x);

/* build/experts.c: the feed-forward of a layer with experts; x and the value [rows, width]. */
int zt_emit_experts(zt_program_builder *builder, int x);
/* build/delta.c: what a gated delta net makes of x, before its output matrix: [rows, heads * value]. */
int zt_emit_delta_net(zt_program_builder *builder, int x);
/* Of a layer with experts beside its feed-forward, which reads `read`; the router and the experts read x, each after a norm
 * of its own. */
int zt_emit_experts_beside(zt_program_builder *builder, int x, int read);

/* build/head.c: what the layer of the head reads, of ids, or of x where they are embedded already, and of the hidden states; and its last
 * norm, which also sets what a step further reads. */
int zt_emit_head_input(zt_program_builder *builder, int ids, int x);
int zt_emit_head_norm(zt_program_builder *builder, int x);

/* build/per_layer.c: the embeddings of ids for each layer, from their rows of a table and from x, the embedded tokens. */
int zt_embed_per_layer(zt_program_builder *builder, int ids, int x);
/* x plus what the current layer makes of its embedding, by a gate that reads `source`. The same without x: ZT_NONE. */
int zt_add_per_layer(zt_program_builder *builder, int x, int source);

/* build/streams.c: x [rows, width] as several streams [rows, streams * width], a layer of them, and their mean. */
int zt_spread_streams(zt_program_builder *builder, int x);
int zt_emit_stream_layer(zt_program_builder *builder, int streams);
int zt_join_streams(zt_program_builder *builder, int streams);

/* build/mamba.c: what short convolutions and state-space layers give to their last matrix. */
int zt_emit_short_conv(zt_program_builder *builder, int x);
int zt_emit_mamba(zt_program_builder *builder, int x);
int zt_emit_mamba2(zt_program_builder *builder, int x);

/* build/rwkv.c: what RWKV-7's time mix gives to its last matrix; x plus its channel mix, in the last layer of the rows with
 * logits alone. */
int zt_emit_time_mix(zt_program_builder *builder, int x);
int zt_emit_channel_mix(zt_program_builder *builder, int x);
/* build.c: from here on the rows with logits alone: their number, what a layer reads beside x, and (attended) their positions. */
void zt_keep_rows(zt_program_builder *builder, bool attended);

#endif
