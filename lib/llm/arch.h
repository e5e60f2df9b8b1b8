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

/* Parts that a layer may have beside the common ones; the weights of a part are looked for only in
 * an architecture that has it. */
enum {
    ZT_PART_COMMON = 1,
    ZT_PART_BIASES = 2,    /* biases on attention and feed-forward, each where the file has it */
    ZT_PART_QK_NORM = 4,   /* a norm over each head of q and k, before rope */
    ZT_PART_POST_NORM = 8, /* norms on what attention and feed-forward add to the stream */
    ZT_PART_ROPE_TAB = 16  /* a divisor for each rotation, where the file has it */
};

typedef struct zt_arch {
    const char *name;      /* general.architecture, and the prefix of the keys */
    unsigned parts;        /* ZT_PART_* */
    const char *rope_pair; /* which two columns rotate together: "neighbours" or "halves" */
    bool embed_scale;      /* embeddings times sqrt(width) */
    int (*gate)(zt_prog *p, const char *name, int gate, int up); /* of the feed-forward */
    /* Of every `window_period` layers the last sees all keys, the others attention.sliding_window
     * of them, and turn by `local_theta`. 0: all see all. */
    int64_t window_period;
    double local_theta;
    /* Models of this many layers scale attention by 1/sqrt(width/heads), not 1/sqrt(head). */
    int64_t width_scaled_layers;
} zt_arch;

/* Row of the architecture that `g` names, or NULL and ZT_ENOTSUP (or ZT_EDATA: it names none). */
const zt_arch *zt_arch_of(const zt_gguf *g);

/* ---- hyper-parameters ------------------------------------------------------------------------ */

/* How the states of a text become its embedding. */
typedef enum zt_pooling { ZT_POOL_MEAN, ZT_POOL_FIRST, ZT_POOL_LAST } zt_pooling;

typedef struct zt_hyper {
    const zt_arch *arch;
    int64_t n_layers, width, ff, n_heads, n_kv_heads, head, vocab, ctx_train;
    int64_t q_width, kv_width; /* heads * head */
    int64_t rope_dims, rope_half;
    double theta, rope_scale; /* positions are multiplied by rope_scale */
    double local_theta;       /* of layers with a window */
    int64_t window;           /* 0: none */
    double eps, attn_scale, attn_cap, final_cap; /* a cap of 0: none */
    zt_pooling pooling;
} zt_hyper;

zt_status zt_hyper_read(const zt_gguf *g, zt_hyper *h);
bool zt_hyper_local(const zt_hyper *h, int64_t layer); /* does the layer see a window only */

/* ---- weights --------------------------------------------------------------------------------- */

typedef enum zt_weight {
    ZT_W_EMBED,
    ZT_W_ROPE_TAB,
    ZT_W_ATTN_NORM,
    ZT_W_Q,
    ZT_W_Q_BIAS,
    ZT_W_K,
    ZT_W_K_BIAS,
    ZT_W_V,
    ZT_W_V_BIAS,
    ZT_W_Q_NORM,
    ZT_W_K_NORM,
    ZT_W_O,
    ZT_W_O_BIAS,
    ZT_W_ATTN_POST,
    ZT_W_FF_NORM,
    ZT_W_GATE,
    ZT_W_GATE_BIAS,
    ZT_W_UP,
    ZT_W_UP_BIAS,
    ZT_W_DOWN,
    ZT_W_DOWN_BIAS,
    ZT_W_FF_POST,
    ZT_W_OUT_NORM,
    ZT_W_OUT,
    ZT_WEIGHT_COUNT
} zt_weight;

#define ZT_WEIGHT_NAME 64
/* "blk.3.attn_q.weight"; layer is not looked at for weights that are not a layer's. */
const char *zt_weight_name(zt_weight w, int64_t layer, char name[ZT_WEIGHT_NAME]);
/* Index of the tensor in the file, or -1 where the model has none. */
int64_t zt_weight_find(const zt_gguf *g, const zt_hyper *h, zt_weight w, int64_t layer);
/* Every weight that must be there is there, with the right shape; nothing else is in the file.
 * ZT_EDATA or ZT_ENOTSUP with the tensor's name, and both shapes. */
zt_status zt_weights_check(zt_gguf *g, const zt_hyper *h);

/* ---- the program ----------------------------------------------------------------------------- */

#define ZT_KV_BLOCK 32 /* positions a block of the cache; ctx is a multiple of it */

typedef struct zt_build_opts {
    bool exact;    /* activations stay f32 */
    zt_dtype kv;   /* of the cache */
    int64_t n_seq; /* rows of the block table */
    bool embed;    /* states after the last norm, not logits */
} zt_build_opts;

/* The forward pass, or NULL. The hyper-parameters and weights must have been checked. */
zt_prog *zt_llm_build(const zt_gguf *g, const zt_hyper *h, const zt_build_opts *opts);

#endif
