/* quant.h - private to zt-quant: the options, and a tensor's way from one file to the other. */
#ifndef QUANT_H
#define QUANT_H

#include "tools/common/cli.h"

enum { QUANT_SCALE_ROW, QUANT_SCALE_TENSOR };

typedef struct quant_options {
    const char *type, *imatrix, *to, *model, *input;
    zt_opt_list wishes; /* GLOB=TYPE */
    size_t target;      /* --target-size: bytes of the whole file; 0: none */
    double bpw;         /* --bpw: bits of tensor data per weight; 0: none */
    int scale;          /* QUANT_SCALE_ */
    int rule;           /* zt_storage_rule, of networks */
    int64_t window;     /* tokens of a text for --make-imatrix */
    bool pure, strict, dry_run, measure, list_types, make_imatrix, no_history, scale_given;
} quant_options;

/* A tensor: as it comes, what it becomes, and what that cost. */
typedef struct quant_job {
    zt_entry in;
    zt_mix_tensor to;
    zt_type type; /* what it becomes */
    bool copy;    /* its bytes go over as they are */
    bool weighed; /* there is an importance of its columns, or of each expert's */
    zt_loss_of loss;
    const char *was, *is; /* of a network: the words of its types; NULL: in and type say them */
    uint64_t bytes;       /* and what it becomes */
} quant_job;

typedef struct quant {
    zt_cli *cli;
    zt_ctx *ctx;
    const quant_options *o;
    const char *from, *into; /* the operands; into NULL: nothing is written */
    const char *named;       /* the output that is named, also where nothing is written; NULL */
    size_t target;           /* o->target, as the history says it */
    const zt_mix *mix;    /* NULL: the type is of networks alone */
    zt_storage storage;   /* the type, of a network; ZT_STORE_COUNT: it is of models alone */
    zt_mix_wish *wish;    /* [o->wishes.n]; their globs are `globs` */
    zt_storage *net_wish; /* [o->wishes.n] as `storage` */
    char **glob;
    zt_checkpoint *in;
    zt_imatrix *imatrix; /* NULL: none */
    quant_job *job; /* [n] in the input's order */
    int64_t n, n_layers;
    bool is_llm;  /* a language model: it says its architecture */
    bool fitting; /* losses are those of outputs, where importance is known */
    struct quant_crew *crew;
    struct quant_scales *scales; /* of the tensor that is being written, where its type has some */
} quant;

/* ---- options.c ------------------------------------------------------------------------------- */

extern const zt_tool quant_tool;
quant_options *quant_options_init(void);
/* What goes together, the mix, the wishes, the operands. */
zt_status quant_options_check(quant *q);
/* Are types chosen by a size: --target-size or --bpw? */
bool quant_fits(const quant_options *o);

/* ---- plan.c: what becomes of each tensor ----------------------------------------------------- */

zt_status quant_open(quant *q); /* the input */
zt_status quant_plan(quant *q); /* its tensors' types; who falls back is said aloud */
zt_status quant_retype(quant *q, quant_job *j, zt_dtype t);
/* Fallbacks, said aloud; with --strict they are a "no". */
void quant_tell_fallbacks(quant *q);

/* ---- meta.c: what the file says of itself ---------------------------------------------------- */

/* A number, or the first of an array of them; 0 where there is none. */
int64_t quant_meta_i64(const zt_meta *m, const char *arch, const char *key);
zt_status quant_meta(quant *q); /* all but the history, once */
zt_status quant_put_file_type(quant *q); /* again, where types have changed since */
zt_status quant_put_history(quant *q, zt_meta *m);

/* ---- rows.c: the work, on every thread ------------------------------------------------------- */

typedef struct quant_crew quant_crew;
quant_crew *quant_crew_new(quant *q);
void quant_crew_free(quant_crew *c);

/* What is done with rows as they are ready, in order; NULL: nothing. */
typedef zt_status quant_put_fn(void *user, const void *bytes, size_t n);
/* Rows of a job, from..to-1, as type t; `loss` (NULL: none) gets what that costs. The bytes do not
 * depend on how many threads there are. */
zt_status quant_rows(quant *q, int64_t job, int64_t from, int64_t to, zt_dtype t, zt_loss_of *loss,
                     quant_put_fn *put, void *user);
int64_t quant_n_rows(const zt_type *t);
int64_t quant_n_experts(const zt_type *t); /* matrices in it */
void quant_add_loss(zt_loss_of *a, const zt_loss_of *b);

/* ---- scaled.c: types with scales beside them ------------------------------------------------- */

typedef struct quant_scales { /* of one tensor */
    float *scale; /* [n] */
    int64_t n;
    bool each_row;
} quant_scales;

bool quant_is_scaled(zt_dtype t);
bool quant_can(zt_dtype t); /* is there a way to write this type */
zt_status quant_scaled_rows(zt_ctx *ctx, const zt_quantizer *z, const float *x, int64_t rows,
                            const quant_scales *by, uint8_t *out, float *y);
zt_status quant_scales_of(quant *q, int64_t job, quant_scales *by);
char *quant_scale_entry(quant *q, const quant_job *j, zt_entry *e);

/* ---- net.c: networks, as JSON holds them ----------------------------------------------------- */

/* Is the input a network, and the type one of theirs? */
bool quant_is_net(quant *q);
zt_status quant_net(quant *q);
/* It is none: what is asked for must be of models. */
zt_status quant_check_model(quant *q);

uint64_t quant_new_bytes(const quant_job *j); /* of a tensor as it becomes */
/* Does the input carry a network's frame? */
bool quant_has_frame(quant *q);

/* ---- write.c, tables.c, fit.c, imatrix.c ----------------------------------------------------- */

/* The tensors of the output, in the input's order; scales behind what they scale. */
typedef struct quant_outputs {
    zt_entry *entry; /* [n] */
    char **name;     /* [n] those that are ours */
    int64_t n;
} quant_outputs;

zt_status quant_outputs_list(quant *q, quant_outputs *o);
void quant_outputs_free(quant *q, quant_outputs *o);
const zt_container *quant_container(const quant *q); /* of the output */
zt_status quant_file_bytes(quant *q, uint64_t *bytes); /* exactly, of the whole output */

zt_status quant_write(quant *q); /* or only measures, where nothing is to be written */
zt_status quant_print_plan(quant *q);
zt_status quant_print_losses(quant *q);
zt_status quant_list_types(zt_cli *cli);
zt_status quant_fit(quant *q); /* --target-size, --bpw: other types, by their errors */
zt_status quant_make_imatrix(quant *q);

#endif
