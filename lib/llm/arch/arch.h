/* arch.h - private to lib/llm: architectures as rows, hyper-parameters, and the weights of a model.
 *
 * What tells two architectures apart is a field of the row; what a file says is in zt_hyper; which
 * tensors there must be, and their shapes, is one table. The builder reads all three and nothing
 * else, so that an architecture is a row and a hostile file is refused before a weight is read.
 */
#ifndef ZT_ARCH_H
#define ZT_ARCH_H

#include "lib/llm/llm.h"

/* ---- architectures --------------------------------------------------------------------------- */

/* Parts that a model may have. A weight of the table in weights.c must be there, may be there or
 * has no place, as the parts say. */
enum {
    ZT_PART_ALL = 1,             /* what every model has */
    ZT_PART_BIASES = 1 << 1,     /* biases of matrices, each where the file has it */
    ZT_PART_QKV_BIAS = 1 << 2,   /* biases on q, k and v */
    ZT_PART_MORE_BIAS = 1 << 3,  /* biases on the other three or four matrices of a layer */
    ZT_PART_PRE_NORM = 1 << 4,   /* norms on what attention reads, and the feed-forward (ZT_PART_FF_NORM) */
    ZT_PART_POST_NORM = 1 << 5,  /* norms on what they add to the stream */
    ZT_PART_SUM_NORM = 1 << 6,   /* norms on the stream after each addition */
    ZT_PART_LAST_NORM = 1 << 7,  /* a norm after the last layer */
    ZT_PART_EMBED_NORM = 1 << 8, /* a norm before the first */
    ZT_PART_NORM_BIAS = 1 << 9,  /* biases on the norms */
    ZT_PART_QK_NORM = 1 << 10,   /* norms on q and k, before rope */
    ZT_PART_ROPE_TAB = 1 << 11,  /* divisors of the rotations, where the file has them */
    ZT_PART_POSITIONS = 1 << 12, /* learned embeddings of positions, not rope */
    ZT_PART_TYPES = 1 << 13,     /* embeddings of token types */
    ZT_PART_TYPES_MAY = 1 << 14, /* the same, where the file has them */
    ZT_PART_HEAD = 1 << 15,      /* logits: an output matrix, or the embedding once more */
    /* How matrices lie in the file: a row says how they usually do, the file has the last word. */
    ZT_PART_QKV = 1 << 16,       /* q, k and v are three matrices, */
    ZT_PART_FUSED_QKV = 1 << 17, /* or one */
    ZT_PART_GATE = 1 << 18,      /* gate and up are two matrices, */
    ZT_PART_FUSED_UP = 1 << 19,  /* or one; neither: no gate */
    ZT_PART_UP = 1 << 20,        /* up is a matrix of its own; with all but ZT_PART_FUSED_UP */
    /* The norm on what the feed-forward reads, under its name, or that of a norm after attention. */
    ZT_PART_FF_NORM = 1 << 21,
    ZT_PART_FF_NORM_POST = 1 << 22,
    ZT_PART_QK_NORM_MAY = 1 << 23, /* norms on q and k, where the file has them */
    ZT_PART_HEAD_BIAS = 1 << 24,   /* a bias on the logits, where the file has it */
    /* Routed experts, in layers that hyper.sparse names; the file says how many. */
    ZT_PART_EXPERTS = 1 << 25,     /* a router, and stacked matrices */
    ZT_PART_EXPERTS_MAY = 1 << 26, /* the same in a row: only where expert_count is there and not 0 */
    ZT_PART_CHOICE_BIAS = 1 << 27, /* a bias on scores for the choice of experts, not for their weights */
    ZT_PART_SHARED = 1 << 28,      /* an expert that every token passes; not where the file says a length of 0 */
    ZT_PART_SHARED_GATE = 1 << 29, /* times the sigmoid of a product of its own */
    /* A second norm, where layer 0 has it: attention reads that one, the feed-forward the first. */
    ZT_PART_NORM_2 = 1 << 30
};
/* Norms on q and k with weights of their own for each head, where layer 0 has them. */
#define ZT_PART_HEAD_NORMS ((uint64_t)1 << 31)
/* A score of each query head that takes its share of attention, without a value. */
#define ZT_PART_SINKS ((uint64_t)1 << 32)
/* Multi-head latent attention. Its matrices in the file: of q one or two with a norm between them; of the latent row, which
 * is cached; and of keys and values from it, one for each or one for both. */
#define ZT_PART_LATENT  ((uint64_t)1 << 33)
#define ZT_PART_Q_WHOLE ((uint64_t)1 << 34)
#define ZT_PART_Q_RANK  ((uint64_t)1 << 35)
#define ZT_PART_SPLIT_B ((uint64_t)1 << 36)
#define ZT_PART_WHOLE_B ((uint64_t)1 << 37)
/* A classifier of texts, where the file has it; the row's head_act says whether it may. */
#define ZT_PART_CLASSIFIER ((uint64_t)1 << 38)
/* A table of attention's biases by distance and head, in layer 0 for all. */
#define ZT_PART_RELATIVE ((uint64_t)1 << 60)
/* Of a gated delta net: beta and alpha by one matrix, for each key head beta's rows and then alpha's; or by two. */
#define ZT_PART_BETA_ALPHA ((uint64_t)1 << 39)
#define ZT_PART_BETA       ((uint64_t)1 << 40)
/* Embeddings of each token for each layer, which a gate of the layer weighs. */
#define ZT_PART_PER_LAYER ((uint64_t)1 << 41)
/* A factor of what a layer returns, where the file has it. */
#define ZT_PART_LAYER_SCALE ((uint64_t)1 << 42)
/* Divisors of the rotations, which must be there (ZT_PART_ROPE_TAB: may). */
#define ZT_PART_DIVISORS ((uint64_t)1 << 43)
/* Of several streams a layer changes one, and predicts the others (AltUp); a second path of low rank beside attention. */
#define ZT_PART_ALTUP ((uint64_t)1 << 44)
/* With ZT_PART_EXPERTS: experts beside the feed-forward of every layer, each with its norms; factors of what the router reads,
 * and of each expert's weight. */
#define ZT_PART_BESIDE ((uint64_t)1 << 45)
/* One or two matrices that states pass after the last norm, where the file has them (sentence-transformers' Dense). */
#define ZT_PART_DENSE ((uint64_t)1 << 46)
/* The norm after the last layer under the name of one before the first. */
#define ZT_PART_LAST_NORM_EMBD ((uint64_t)1 << 50)
/* A norm on what a state-space layer of Mamba 2 adds to the stream: of each group; or where the file has it. */
#define ZT_PART_SCAN_NORM     ((uint64_t)1 << 51)
#define ZT_PART_SCAN_NORM_MAY ((uint64_t)1 << 52)
/* Experts have gates: with ZT_PART_EXPERTS, unless the row says that they have none. */
#define ZT_PART_EXPERT_GATES ((uint64_t)1 << 54)
/* Experts read and return columns of their own, by a matrix before them and one behind them. */
#define ZT_PART_NARROW_EXPERTS ((uint64_t)1 << 55)
/* With ZT_PART_LATENT: an indexer, with heads and keys of its own, chooses the keys that attention goes over. */
#define ZT_PART_INDEXER ((uint64_t)1 << 56)
/* Of RWKV-7: a gate on the time mix, a group norm in it, and a channel mix in place of the feed-forward. */
#define ZT_PART_TIME_GATE   ((uint64_t)1 << 47)
#define ZT_PART_TIME_NORM   ((uint64_t)1 << 48)
#define ZT_PART_CHANNEL_MIX ((uint64_t)1 << 49)
/* The norm on what the feed-forward reads, under a name without ".weight". */
#define ZT_PART_FF_NORM_BARE ((uint64_t)1 << 53)

/* What the feed-forward reads: the sum after attention (sequential), or what attention read (parallel). The residual
 * connections are then one sum of three. */
typedef enum zt_residual {
    ZT_RESIDUAL_SEQUENTIAL,
    ZT_RESIDUAL_PARALLEL,
    ZT_RESIDUAL_BY_KEY, /* as use_parallel_residual says, which must be there */
    ZT_RESIDUAL_BY_NORM /* parallel in a model without norms on what the feed-forward reads */
} zt_residual;

/* How a router's scores of experts become weights. */
typedef enum zt_gating {
    ZT_GATING_SOFTMAX,
    ZT_GATING_SIGMOID,
    ZT_GATING_SOFTMAX_CHOSEN, /* softmax of the chosen scores alone */
    ZT_GATING_SPARSEMIXER     /* one expert after the other, each by the softmax of those whose scores come near it */
} zt_gating;

/* What mixes the tokens of a layer. All but attention and a feed-forward are recurrent: of the tokens before, they keep a
 * state of a fixed size instead of keys and values. */
typedef enum zt_layer_kind {
    ZT_LAYER_ATTENTION,
    ZT_LAYER_DELTA_NET,
    ZT_LAYER_SHORT_CONV,    /* a convolution between two gates */
    ZT_LAYER_MAMBA,         /* state-space layers of Mamba, */
    ZT_LAYER_MAMBA2,        /* and of Mamba 2 */
    ZT_LAYER_BESIDE_MAMBA2, /* attention and Mamba 2, which read the same and whose results are added */
    ZT_LAYER_TIME_MIX,      /* of RWKV-7 */
    ZT_LAYER_FEED_FORWARD,  /* nothing: a feed-forward, with the norm that the mixer of other layers has */
    ZT_LAYER_KINDS
} zt_layer_kind;

/* Which layers are of the row's kind `recurrent`: by keys of intervals and lists; those without key heads in
 * attention.head_count_kv; all. */
typedef enum zt_kinds { ZT_KINDS_BY_INTERVAL, ZT_KINDS_BY_HEADS, ZT_KINDS_ALL } zt_kinds;

static inline bool zt_layer_attends(zt_layer_kind kind) { return kind == ZT_LAYER_ATTENTION || kind == ZT_LAYER_BESIDE_MAMBA2; }
static inline bool zt_layer_is_recurrent(zt_layer_kind kind)
{
    return kind != ZT_LAYER_ATTENTION && kind != ZT_LAYER_FEED_FORWARD;
}

/* The feed-forward's curve, times up: f(gate) up; `up` ZT_NONE: f(gate). */
typedef int zt_act(zt_prog *p, const char *name, int gate, int up);

/* Multi-token prediction: a layer behind the last, with a norm of the next token's embedding, one of a hidden state, and a matrix that
 * makes the layer's input of both. A step further reads the state of the head itself. */
typedef enum zt_heads {
    ZT_HEADS_NONE,   /* such layers are not run */
    ZT_HEADS_NORMED, /* a step further reads the state behind the head's last norm, */
    ZT_HEADS_PLAIN   /* or before it */
} zt_heads;

typedef struct zt_arch {
    const char *name;      /* general.architecture, and the prefix of the keys */
    uint64_t parts;        /* ZT_PART_* */
    const char *prefix;    /* before the names of layers' tensors, and of the last norm; NULL: none */
    zt_act *ungated_act;   /* of a file whose layers have no gate; NULL: they must have what the row says */
    const char *rope_pair; /* which two columns rotate together: "neighbours" or "halves" */
    int64_t no_rope_every; /* the last of so many layers does not rotate; 0: all do */
    zt_act *act;           /* unless act_named: then hidden_activation, where it is there */
    bool act_named;
    bool xielu;      /* the curve is xIELU, whose numbers the file has for each layer */
    bool layer_norm; /* norms take the mean off; else RMS norms */
    /* Linear biases (ALiBi) in place of rope: minus the exponent of the last head's slope; 0: none. Named:
     * attention.max_alibi_bias must be there. In models of so many layers alone; 0: in all. */
    double alibi;
    bool alibi_named;
    int64_t alibi_layers;
    bool either_epsilon; /* attention.layer_norm_epsilon is that of RMS norms, where the key of these is absent */
    zt_residual residual;
    bool encoder;       /* every token sees the whole text; no cache, no logits */
    zt_act *head_act;   /* of a classifier's first matrix; NULL: the architecture has no classifier */
    bool head_softmax;  /* a classifier's scores become shares, unless classifier.softmax says otherwise or there is one */
    bool embed_scale;   /* embeddings times sqrt(width) */
    bool qk_norm_whole; /* one norm over all heads, not one over each */
    bool qk_norm_last;  /* the norms on q and k come after rope */
    bool tempered;      /* q grows with its position as attention.temperature_scale says, where it is there */
    /* Without that key by this; not every so many positions of the original context, but of attention.temperature_length,
     * usually this (0: of the context), in layers that do not rotate, whose positions count from 1. */
    double temperature;
    int64_t temper_length;
    bool
        unit_norms; /* where layers rotate, norms without weights follow: unless there are 128 experts, or attention.use_qk_norm */
    /* Of every `window_period` layers the last sees all keys, the others `attention.sliding_window`
     * of them, 0: all layers so. Without that key `window`; 0: none. */
    int64_t window_period, window;
    /* What layers with a window turn by: theta (0: as the others), and whether unscaled. */
    bool chunked; /* a window is a chunk of positions: what is before the chunk is not seen */
    double local_theta;
    bool local_plain;
    bool rotates_local;         /* where layers have a window, the others do not rotate */
    bool needs_window;          /* attention.sliding_window must be there */
    bool window_around;         /* of an encoder: half of the window is before a token, half behind it */
    bool window_later;          /* the first of every window_period layers sees all keys, not the last */
    bool first_unnormed;        /* layer 0 has no norm on what attention reads */
    double attn_cap, final_cap; /* where the file does not say */
    double attn_scale;          /* the same; 0: 1/sqrt(head) */
    bool value_norm;            /* values of each head have a norm without weights */
    bool value_may_be_key;      /* a layer without a window need not have V: the values are K's */
    bool needs_shared;          /* attention.shared_kv_layers must be there */
    /* Models of this many layers scale attention by 1/sqrt(width/heads), not 1/sqrt(head). */
    int64_t width_scaled_layers;
    bool divides_logits;    /* logit_scale must be there, and divides them, */
    bool multiplies_logits; /* or multiplies them */
    bool yarn_exact;        /* YaRN's first and last pair need not be whole numbers */
    bool logits_may;        /* logit_scale need not be there */
    bool pair_named;        /* where a part of a head rotates, rope.pair must say which two columns do together */
    bool rope_switch;       /* rope.scaling.finetuned = false: no rope at all */
    /* Experts: gating and normalisation where the file does not say, and what the sum of weights is at least. */
    zt_gating gating;
    bool normed_experts;
    double least_sum;
    double added_sum;     /* to the sum that weights are divided by */
    bool weighs_input;    /* an expert's weight multiplies what it reads; experts are chosen by scores before the sigmoid */
    bool shared_alike;    /* what all tokens pass is as long as an expert */
    bool shared_measured; /* its length is that of its key, however many experts it counts for */
    bool ungated_experts; /* experts have no gates, nor has what all tokens pass */
    bool bias_or_softmax; /* without a bias on the choice the gating is softmax, where the file does not say it */
    /* Layers of another kind than attention: those of attention.recurrent_layers, or all but the last of every
     * full_attention_interval, 4 without that key. */
    zt_layer_kind recurrent;
    zt_kinds kinds;         /* how the kinds of layers are found */
    bool sole_feed_forward; /* with ZT_KINDS_BY_HEADS: a layer has either a mixer or a feed-forward */
    bool gated_attention;   /* q has for each head as many columns more, whose sigmoid attention is multiplied by */
    bool tiled_heads;       /* of a delta net: value head h has key head h % G of G, not h / (H / G) */
    bool time_norm_may;     /* a file may be without the group norm of a time mix */
    bool expert_ff_alike;   /* an expert's length is feed_forward_length; else that over the experts of a token */
    double latent_eps;      /* of the norms of latent attention */
    bool
        yarn_all_dims; /* rope.scaling.yarn_log_multiplier is a tenth of mscale_all_dim, which scales all of q k, not rope's part */
    /* Scales that no key says: of embeddings, of residuals (over the root of the number of layers), of logits (over the width). */
    double embed_factor, residual_factor, logit_width;
    zt_heads heads; /* whether layers behind the last, that predict further tokens, can be run */
} zt_arch;

/* Row of the architecture that `gguf` names, or NULL and ZT_ENOTSUP (or ZT_EDATA: it names none). */
const zt_arch *zt_arch_of(const zt_gguf *gguf);
/* Row number i, in the table's order; NULL: past the last. */
const zt_arch *zt_arch_at(size_t i);
/* The curve that transformers calls so, or NULL. */
zt_act *zt_act_of(zt_bytes name);

/* ---- hyper-parameters ------------------------------------------------------------------------ */

/* How the states of a text become its embedding. */
typedef enum zt_pooling { ZT_POOL_MEAN, ZT_POOL_FIRST, ZT_POOL_LAST } zt_pooling;

#define ZT_MAX_LAYERS 1024

/* Sizes of one layer: a key of the file holds one number for all layers, or a list with one for each. */
typedef struct zt_layer_sizes {
    zt_layer_kind kind;
    int64_t n_heads, n_kv_heads, head;
    int64_t q_width, kv_width, qkv_width; /* heads * head; of q, k and v together */
    int64_t q_rows;                       /* of q's matrix: q_width, twice that with gates */
    int64_t q_norm, k_norm;               /* entries of q's and k's norms */
    int64_t o_width;                      /* columns of the output matrix: q_width, unless values are shorter than keys */
    int64_t ff, up_width;                 /* 2 ff: gate and up in one */
    int64_t share_rank;                   /* of a time mix: between the matrices of the share of layer 0's values */
    int64_t cache;                        /* the layer whose keys and values it reads: this one, or an earlier one */
    double attn_scale;
    double cutoff; /* the gate is cut off below so many deviations from its mean; -INFINITY: it is not */
} zt_layer_sizes;

/* Columns of multi-head latent attention. */
typedef struct zt_latent_sizes {
    int64_t q_rank;                /* between the two matrices of q; 0: there is one */
    int64_t rank, row;             /* of the latent; with the rotated key, which is what a cache holds of a token */
    int64_t plain, value;          /* of a head: those that do not rotate; its value's */
    int64_t key_value, key_values; /* plain + value, of one head and of all */
    int64_t index_heads, index_head, index_width; /* of the indexer: heads, columns of one and of all; */
    int64_t index_topk;                           /* the keys that it chooses */
} zt_latent_sizes;
/* Sizes of layers that are gated delta nets. */
typedef struct zt_delta_sizes {
    int64_t key_heads, heads, key, value;  /* heads: of values; lengths of a key, of a value */
    int64_t key_width, value_width, width; /* heads * length; of q, k and v together */
    int64_t both;                          /* 2 heads: beta and alpha */
    int64_t filter;                        /* tokens that the convolution sees */
} zt_delta_sizes;

/* xIELU of a layer: with p = ln(1 + e^alpha_p), n = beta + ln(1 + e^alpha_n)
 *
 *     x > 0    p x^2 + beta x
 *     else     n (e^min(x, eps) - 1 - x) + beta x
 */
typedef struct zt_xielu {
    double alpha_n, alpha_p, beta, eps;
} zt_xielu;

/* Sizes of state-space layers and of short convolutions. */
typedef struct zt_mamba_sizes {
    int64_t inner, heads, groups; /* channels; heads and groups of Mamba 2 */
    int64_t numbers;              /* of the state of a channel */
    int64_t filter;               /* tokens that the convolution sees */
    int64_t inputs;               /* groups * numbers: of b, and of c */
    int64_t mixed;                /* columns that the convolution takes */
    int64_t in_rows;              /* rows of the first matrix */
    int64_t step_rank, x_rows;    /* of Mamba: of the steps dt, and with b and c */
    int64_t per_group;            /* channels of a group */
    bool normed;                  /* steps, b and c go through norms without weights */
} zt_mamba_sizes;

/* Sizes of RWKV-7's layers. */
typedef struct zt_time_mix_sizes {
    int64_t heads, head;                      /* head: of keys and values */
    int64_t decay_rank, rate_rank, gate_rank; /* between the two matrices of w, of a and of the gate */
    int64_t lerps;                            /* of r, w, k, v, a and, with a gate, g */
    int64_t channels;                         /* length of a channel mix */
} zt_time_mix_sizes;

typedef struct zt_hyper {
    const zt_arch *arch;
    zt_act *act;
    uint64_t parts; /* the row's, as the file has them */
    int64_t n_layers, width, vocab, ctx_train;
    int64_t ff, n_heads, n_kv_heads, head; /* the largest of any layer */
    zt_layer_sizes layer[ZT_MAX_LAYERS];   /* what a layer has */
    zt_latent_sizes latent;                /* of latent attention, in all layers */
    bool recurrent;                        /* has any layer states (zt_layer_kind) */
    zt_delta_sizes delta;
    int64_t one; /* 1, for shapes */
    zt_mamba_sizes mamba;
    zt_time_mix_sizes time_mix;
    int64_t n_types;                                 /* of tokens */
    zt_rope_attrs rope, local_rope;                  /* dims and head are set; local: of layers with a window */
    int64_t rope_dims, rope_half;                    /* columns of a head without a window that rotate, in pairs */
    bool yarn_exact;                                 /* of the scaling: the row's, or the file's */
    int64_t ctx_orig;                                /* up to this context short divisors hold */
    int64_t window;                                  /* of layers with one */
    bool local[ZT_MAX_LAYERS];                       /* has the layer a window */
    bool rotated[ZT_MAX_LAYERS];                     /* does rope turn its q and k */
    bool parallel;                                   /* the feed-forward reads what attention reads */
    double eps, attn_cap, final_cap;                 /* a cap of 0: none */
    double temperature;                              /* q times 1 + temperature ln(1 + floor(position / temper_length)) */
    int64_t temper_length;                           /* in layers that do not rotate, with arch->temper_length: of position + 1 */
    bool unit_norms;                                 /* norms without weights on rotated q and k */
    double embed_scale, residual_scale, logit_scale; /* all factors; 1: none */
    zt_pooling pooling;
    bool classifies;   /* an embedding is the scores of the file's classifier, not states */
    bool head_softmax; /* and its scores become shares */
    bool head_mean;    /* which reads the mean of all states, not those of one token */
    zt_xielu xielu[ZT_MAX_LAYERS];
    int64_t buckets;                    /* of distances, in both directions, of ZT_PART_RELATIVE */
    double alibi;                       /* as in the row; 0: none */
    double qkv_clamp;                   /* q, k and v are at most this far from 0; 0: no limit */
    int64_t labels, head_width;         /* scores of a text; columns of what the last matrix reads */
    int64_t n_experts, experts_used;    /* of a layer; those of a token */
    int64_t expert_ff, shared_ff;       /* lengths of an expert, of what all tokens pass */
    int64_t expert_width;               /* columns that experts read and return: the model's, or fewer */
    int64_t expert_groups, groups_used; /* experts come from so many groups of equal size */
    double expert_scale;                /* times the weights */
    bool normed_experts;                /* weights sum to 1 before that */
    zt_gating gating;
    bool sparse[ZT_MAX_LAYERS];                    /* has the layer experts */
    bool fused_experts;                            /* gate over up in one stacked matrix, */
    int64_t expert_up_width;                       /* of 2 expert_ff rows */
    int64_t dense_2, dense_3;                      /* rows of the matrices behind the last norm; 0: there is none */
    int64_t extra_layers;                          /* behind the last: they predict further tokens; the first is the head */
    int64_t width_2;                               /* 2 width: an embedding beside a hidden state */
    int64_t per_layer;                             /* length of a token's embedding for one layer, 0: none; */
    int64_t per_layer_width;                       /* for all */
    int64_t streams, active_stream, other_streams; /* of AltUp, the one that layers change, and one less than streams */
    int64_t stream_pairs, laurel_rank;             /* streams squared; columns of the path of low rank */
} zt_hyper;

zt_status zt_hyper_read(const zt_gguf *gguf, zt_hyper *hyper);
/* hyper_head.c: sizes of the head, the layer behind the last, which is of the kind of the last one with attention. ZT_EDATA: the file
 * has no head; ZT_ENOTSUP: not of this architecture. */
zt_status zt_hyper_read_head(const zt_gguf *gguf, zt_hyper *hyper);

/* ---- weights --------------------------------------------------------------------------------- */

typedef enum zt_weight {
    ZT_W_EMBED,
    ZT_W_POSITIONS,
    ZT_W_TYPES,
    ZT_W_PER_LAYER_EMBED,
    ZT_W_PER_LAYER_PROJECTION,
    ZT_W_PER_LAYER_PROJECTION_NORM,
    ZT_W_STREAMS,  /* [other streams, width, width]: from the embedding, */
    ZT_W_UNSTREAM, /* and back */
    ZT_W_EMBED_NORM,
    ZT_W_EMBED_NORM_BIAS,
    ZT_W_ROPE_TAB,
    ZT_W_ROPE_LONG,
    ZT_W_ROPE_SHORT,
    ZT_W_ATTN_NORM,
    ZT_W_ATTN_NORM_BIAS,
    ZT_W_ATTN_NORM_2,
    ZT_W_ATTN_NORM_2_BIAS,
    ZT_W_Q,
    ZT_W_Q_BIAS,
    ZT_W_K,
    ZT_W_K_BIAS,
    ZT_W_V,
    ZT_W_V_BIAS,
    ZT_W_QKV,
    ZT_W_QKV_BIAS,
    ZT_W_Q_NORM,
    ZT_W_K_NORM,
    ZT_W_Q_NORMS, /* a row for each head */
    ZT_W_K_NORMS,
    ZT_W_SINKS,
    ZT_W_RELATIVE, /* [buckets, heads] */
    ZT_W_Q_WHOLE,  /* of latent attention */
    ZT_W_Q_A,
    ZT_W_Q_A_NORM,
    ZT_W_Q_B,
    ZT_W_KV_A,
    ZT_W_KV_A_NORM,
    ZT_W_K_B,     /* [heads, latent, plain] */
    ZT_W_V_B,     /* [heads, value, latent] */
    ZT_W_KV_B,    /* [heads * (plain + value), latent] */
    ZT_W_INDEX_Q, /* of the indexer */
    ZT_W_INDEX_K,
    ZT_W_INDEX_K_NORM,
    ZT_W_INDEX_K_NORM_BIAS,
    ZT_W_INDEX_WEIGHTS,
    ZT_W_O,
    ZT_W_O_BIAS,
    ZT_W_ATTN_POST,
    ZT_W_ATTN_SUM,
    ZT_W_ATTN_SUM_BIAS,
    ZT_W_FF_NORM,
    ZT_W_FF_NORM_BIAS,
    ZT_W_FF_NORM_POST,
    ZT_W_FF_NORM_BARE,
    ZT_W_DELTA_QKV,
    ZT_W_DELTA_GATE,
    ZT_W_DELTA_CONV,
    ZT_W_DELTA_DT,
    ZT_W_DELTA_A,
    ZT_W_DELTA_BETA,
    ZT_W_DELTA_ALPHA,
    ZT_W_DELTA_BETA_ALPHA,
    ZT_W_DELTA_NORM,
    ZT_W_DELTA_OUT,
    ZT_W_FF_POST_DENSE, /* beside experts */
    ZT_W_FF_NORM_EXPERTS,
    ZT_W_FF_POST_EXPERTS,
    ZT_W_ROUTER_SCALE,
    ZT_W_EXPERT_SCALE,
    ZT_W_SHORT_IN,
    ZT_W_SHORT_CONV,
    ZT_W_SHORT_OUT,
    ZT_W_SCAN_IN,
    ZT_W_SCAN_CONV,
    ZT_W_SCAN_CONV_BIAS,
    ZT_W_SCAN_X, /* Mamba: steps, b and c of the convolved */
    ZT_W_SCAN_DT,
    ZT_W_SCAN_DT_BIAS,
    ZT_W_SCAN_A,
    ZT_W_SCAN_D,
    ZT_W_SCAN_A_HEADS, /* Mamba 2: one number for each head */
    ZT_W_SCAN_D_HEADS,
    ZT_W_SCAN_DT_HEADS,
    ZT_W_SCAN_NORM,
    ZT_W_SCAN_OUT,
    ZT_W_TIME_LERP, /* [lerps,1,1,width] */
    ZT_W_TIME_W0,
    ZT_W_TIME_W1,
    ZT_W_TIME_W2,
    ZT_W_TIME_A0,
    ZT_W_TIME_A1,
    ZT_W_TIME_A2,
    ZT_W_TIME_V0, /* those of layer 0 are not used */
    ZT_W_TIME_V1,
    ZT_W_TIME_V2,
    ZT_W_TIME_G1,
    ZT_W_TIME_G2,
    ZT_W_TIME_K_K,
    ZT_W_TIME_K_A,
    ZT_W_TIME_R_K,
    ZT_W_TIME_KEY,
    ZT_W_TIME_VALUE,
    ZT_W_TIME_RECEPTANCE,
    ZT_W_TIME_NORM,
    ZT_W_TIME_NORM_BIAS,
    ZT_W_TIME_OUT,
    ZT_W_CHANNEL_NORM,
    ZT_W_CHANNEL_NORM_BIAS,
    ZT_W_CHANNEL_LERP,
    ZT_W_CHANNEL_KEY,
    ZT_W_CHANNEL_VALUE,
    ZT_W_ROUTER,
    ZT_W_ROUTER_BIAS,
    ZT_W_CHOICE_BIAS,
    ZT_W_EXPERTS_DOWN, /* from the model's width to that of experts, */
    ZT_W_EXPERTS_UP,   /* and back */
    ZT_W_GATE_EXPERTS, /* stacked: [experts, rows, columns] */
    ZT_W_UP_EXPERTS,
    ZT_W_GATE_UP_EXPERTS,
    ZT_W_DOWN_EXPERTS,
    ZT_W_GATE_EXPERTS_BIAS, /* [experts, rows] */
    ZT_W_UP_EXPERTS_BIAS,
    ZT_W_DOWN_EXPERTS_BIAS,
    ZT_W_SHARED_ROUTER,
    ZT_W_GATE_SHARED,
    ZT_W_UP_SHARED,
    ZT_W_DOWN_SHARED,
    ZT_W_GATE,
    ZT_W_GATE_BIAS,
    ZT_W_UP,
    ZT_W_UP_BIAS,
    ZT_W_GATE_UP, /* one above the other */
    ZT_W_DOWN,
    ZT_W_DOWN_BIAS,
    ZT_W_FF_POST,
    ZT_W_FF_SUM,
    ZT_W_FF_SUM_BIAS,
    ZT_W_NEXT_EMBED, /* of the head: tables of its own, where the file has them, */
    ZT_W_NEXT_OUT,
    ZT_W_NEXT_EMBED_NORM,
    ZT_W_NEXT_HIDDEN_NORM,
    ZT_W_NEXT_IN, /* [width, 2 width]: of the embedding, then of the hidden state */
    ZT_W_NEXT_OUT_NORM,
    ZT_W_PER_LAYER_GATE,
    ZT_W_PER_LAYER_OUT,
    ZT_W_PER_LAYER_POST,
    ZT_W_LAYER_SCALE,
    ZT_W_STREAM_ROUTER,
    ZT_W_STREAM_ROUTER_NORM,
    ZT_W_PREDICT,
    ZT_W_CORRECT,
    ZT_W_CORRECT_SCALE,
    ZT_W_LAUREL_LEFT,
    ZT_W_LAUREL_RIGHT,
    ZT_W_LAUREL_POST,
    ZT_W_OUT_NORM,
    ZT_W_OUT_NORM_BIAS,
    ZT_W_OUT_NORM_EMBD,
    ZT_W_OUT,
    ZT_W_OUT_BIAS,
    ZT_W_DENSE_2,
    ZT_W_DENSE_3,
    ZT_W_HEAD, /* of a classifier */
    ZT_W_HEAD_BIAS,
    ZT_W_HEAD_NORM,
    ZT_W_LABELS,
    ZT_W_LABELS_BIAS,
    ZT_WEIGHT_COUNT
} zt_weight;

#define ZT_WEIGHT_NAME 64
/* "blk.3.attn_q.weight"; layer is not looked at for weights that are not a layer's. */
const char *zt_weight_name(zt_weight weight, int64_t layer, char name[ZT_WEIGHT_NAME]);
/* Index of the tensor in the file, or -1 where the model has none. */
int64_t zt_weight_find(const zt_gguf *gguf, const zt_hyper *hyper, zt_weight weight, int64_t layer);
/* Every weight that must be there is there, with the right shape; nothing else is in the file.
 * ZT_EDATA or ZT_ENOTSUP with the tensor's name, and both shapes. */
zt_status zt_weights_check(zt_gguf *gguf, const zt_hyper *hyper);
/* The same of the head, whose sizes have been read. */
zt_status zt_weights_check_head(zt_gguf *gguf, const zt_hyper *hyper);

/* ---- the program ----------------------------------------------------------------------------- */

#define ZT_KV_BLOCK ZT_LLM_BLOCK

typedef struct zt_build_opts {
    bool exact;  /* activations stay f32 */
    zt_dtype kv; /* of keys in the cache, and of values; what is of blocks is rotated (op hadamard) before */
    zt_dtype kv_values;
    int64_t n_seq;  /* rows of the block table */
    int64_t slots;  /* of states of recurrent layers, where there are such layers */
    int64_t ctx;    /* of the session: says which of two tables of divisors holds */
    bool embed;     /* states after the last norm, not logits */
    bool hidden;    /* one output more: `hidden` f32[n,width], all rows behind the last norm, which a head reads */
    bool head;      /* of the head, not of the model: one input more, `hidden`, and one output more, `state` f32[m,width] */
    bool draws;     /* a third output `token`, drawn: draw.c has its inputs, behind the others */
    int64_t lesson; /* training: tokens of each text, with a loss instead of logits, without a cache; 0: off */
    const struct zt_llm_adapter *adapter; /* in training: what is trained instead of the weights, which keep their types */
} zt_build_opts;

/* The forward pass, or NULL. The hyper-parameters and weights must have been checked. */
zt_prog *zt_llm_build(const zt_gguf *gguf, const zt_hyper *hyper, const zt_build_opts *opts);

/* draw.c: the inputs of the op sample_token for `rows` rows; NULL: out of memory. */
enum { ZT_DRAW_INPUTS = 8 };
typedef struct zt_drawing zt_drawing;
zt_drawing *zt_drawing_new(zt_ctx *ctx, int64_t rows);
void zt_drawing_free(zt_drawing *drawing);
/* Sets up a row: the token to sample after the history and `count` more ids. */
void zt_drawing_row(zt_drawing *drawing, int64_t row, const zt_draw *draw, const int32_t *ids, size_t count);
void zt_drawing_inputs(const zt_drawing *drawing, const void *in[ZT_DRAW_INPUTS]); /* in the order of the op */
int zt_drawing_build(zt_prog *program, int logits, int64_t row_count); /* declares the inputs; returns the value of the token */
/* Is the engine a device with a kernel for the op? On the host, zt_sample reads the logits directly. */
bool zt_drawing_may(zt_engine *engine, int64_t vocab);

/* Slots of states of recurrent layers for so many sequences: one each, and room for states that go back. */
enum { ZT_SPARE_SLOTS = 2 };
static inline int64_t zt_llm_slots(int64_t sequences) { return sequences + ZT_SPARE_SLOTS; }

/* feed.c, for save.c: the caches were filled by other means than feeding, with these tokens up to `position`; and, if `state`,
 * slot 0 of the states of recurrent layers. ZT_ENOMEM. */
zt_status zt_llm_place(zt_llm *model, const int32_t *ids, int64_t position, bool state);
/* The slot with the states of recurrent layers at the position, which are computed if they are not there; 0 in a model
 * without recurrent layers. -1: failed. */
int zt_llm_state_slot(zt_llm *model);

/* forward.c, for save.c: " program " and 16 hex digits, which differ between programs of zt_llm_opts.forward; "": there
 * is none. */
enum { ZT_FORWARD_KEY = 32 };
zt_status zt_forward_key(const zt_llm *model, char key[ZT_FORWARD_KEY]);

#endif
