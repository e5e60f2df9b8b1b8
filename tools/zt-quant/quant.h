/* quant.h - private to zt-quant: the options, and a tensor's way from one file to the other. */
#ifndef QUANT_H
#define QUANT_H

#include "tools/common/cli.h"

#define WORDS     ZT_OPTION_WORDS
#define LIB_WORDS ZT_OPTION_LIB_WORDS
#include "tools/zt-quant/options.def"

typedef struct quant_options {
#define OPTION ZT_OPTION_FIELD
#include "tools/zt-quant/options.def"
} quant_options;

/* A tensor: as it comes, what it becomes, and what that cost. */
typedef struct quant_job {
    zt_entry source;
    zt_mix_tensor choice;
    zt_type type; /* what it becomes */
    bool copy;    /* its bytes go over as they are */
    bool weighed; /* there is an importance of its columns, or of each expert's */
    zt_loss_of loss;
    const char *old_word, *new_word; /* of a network: the names of its types; NULL: source and type say them */
    uint64_t bytes;                  /* and what it becomes */
} quant_job;

/* A type that is given for the tensors whose names match. */
typedef struct quant_wish {
    char *pattern;         /* a glob, or of a line of the file a regular expression */
    zt_mix_pattern *regex; /* NULL: a glob */
    int64_t line;          /* of --tensor-type-file; 0: of --tensor-type */
    zt_storage net;        /* of a network; ZT_STORE_COUNT: the type is of models alone */
} quant_wish;

typedef struct quant_run {
    zt_cli *cli;
    zt_ctx *ctx;
    const quant_options *options;
    const char *input_path, *output_path; /* the operands; output_path NULL: nothing is written */
    const char *output_name;              /* the output that is named, also where nothing is written; NULL */
    size_t target;                        /* options->target, as the history says it */
    const zt_mix *mix;                    /* NULL: the type is of networks alone */
    zt_storage storage;                   /* the type, of a network; ZT_STORE_COUNT: it is of models alone */
    zt_mix_wish *wishes;                  /* [wish_count] types for some tensors; the last match applies */
    quant_wish *wish_of;                  /* [wish_count] where each comes from */
    int64_t wish_count;
    zt_dtype embedding_type, output_type; /* ZT_DTYPE_COUNT: not given */
    zt_checkpoint *input;
    zt_imatrix *imatrix; /* NULL: none */
    quant_job *jobs;     /* [tensor_count] in the input's order */
    int64_t tensor_count, layer_count;
    bool is_llm;  /* a language model: it says its architecture */
    bool fitting; /* losses are those of outputs, where importance is known */
    struct quant_crew *crew;
    struct quant_scales *scales; /* of the tensor that is being written, where its type has some */
} quant_run;

/* ---- options.c ------------------------------------------------------------------------------- */

extern const zt_tool quant_tool;
quant_options *quant_options_init(void);
/* What goes together, the mix, the wishes, the operands. */
zt_status quant_options_check(quant_run *run);
/* The words of --type, as --list-types has them: for zt_opt.values. */
const char *quant_type_names(const void *user, int i);
/* Are types chosen by a size: --target-size or --bpw? */
bool quant_fits(const quant_options *options);

/* ---- wishes.c: types that the user names for some tensors -------------------------------------- */

/* A type of models, or of networks, or of both. false: neither knows the name. */
bool quant_find_type(const char *name, const zt_mix **mix, zt_storage *net);
zt_status quant_take_wishes(quant_run *run);
void quant_free_wishes(quant_run *run);
#define QUANT_WISH_TEXT 400
/* "--tensor-type 'GLOB'" or "FILE:LINE: 'REGEX'", for messages. */
const char *quant_wish_text(const quant_run *run, int64_t index, char text[QUANT_WISH_TEXT]);
/* It matches none of `of_what`: an error of an option, a warning of a file. */
zt_status quant_wish_unused(quant_run *run, int64_t index, const char *of_what);
bool quant_wants_scaled(const quant_run *run); /* has a type that is asked for scales beside its codes? */

/* ---- plan.c: what becomes of each tensor ----------------------------------------------------- */

zt_status quant_open(quant_run *run); /* the input */
zt_status quant_plan(quant_run *run); /* its tensors' types; who falls back is said aloud */
zt_status quant_retype(quant_run *run, quant_job *job, zt_dtype dtype);
/* Fallbacks, said aloud; with --strict they are a "no". */
void quant_tell_fallbacks(quant_run *run);

/* ---- meta.c: what the file says of itself ---------------------------------------------------- */

/* A number, or the first of an array of them; 0 where there is none. */
int64_t quant_meta_i64(const zt_meta *meta, const char *arch, const char *key);
zt_status quant_meta(quant_run *run);          /* all but the history, once */
zt_status quant_put_file_type(quant_run *run); /* again, where types have changed since */
zt_status quant_put_history(quant_run *run, zt_meta *meta);

/* ---- rows.c: the work, on every thread ------------------------------------------------------- */

typedef struct quant_crew quant_crew;
quant_crew *quant_crew_new(quant_run *run);
void quant_crew_free(quant_crew *crew);

/* What is done with rows as they are ready, in order; NULL: nothing. */
typedef zt_status quant_put_fn(void *user, const void *bytes, size_t size);
/* Rows of a job, from..to-1, as type `dtype`; `loss` (NULL: none) gets what that costs. The bytes do not
 * depend on how many threads there are. */
zt_status quant_rows(quant_run *run, int64_t job, int64_t from, int64_t to, zt_dtype dtype, zt_loss_of *loss, quant_put_fn *put,
                     void *user);
int64_t quant_n_rows(const zt_type *type);
int64_t quant_n_experts(const zt_type *type); /* matrices in it */
void quant_add_loss(zt_loss_of *sum, const zt_loss_of *added);

/* ---- scaled.c: types with scales beside them ------------------------------------------------- */

typedef struct quant_scales { /* of one tensor */
    float *scale;             /* [count] */
    int64_t count;
    bool each_row;
} quant_scales;

bool quant_is_scaled(zt_dtype dtype);
bool quant_can(zt_dtype dtype); /* is there a way to write this type */
zt_status quant_scaled_rows(zt_ctx *ctx, const zt_quantizer *quantizer, const float *values, int64_t rows,
                            const quant_scales *scales, uint8_t *out, float *decoded);
zt_status quant_scales_of(quant_run *run, int64_t job, quant_scales *scales);
char *quant_scale_entry(quant_run *run, const quant_job *quantized, zt_entry *entry);

/* ---- net.c: networks, as JSON holds them ----------------------------------------------------- */

/* Is the input a network, and the type one of theirs? */
bool quant_is_net(quant_run *run);
zt_status quant_net(quant_run *run);
/* It is none: what is asked for must be of models. */
zt_status quant_check_model(quant_run *run);

uint64_t quant_new_bytes(const quant_job *job); /* of a tensor as it becomes */
/* Does the input carry a network's frame? */
bool quant_has_frame(quant_run *run);

/* ---- write.c, tables.c, fit.c, imatrix.c ----------------------------------------------------- */

/* The tensors of the output, in the input's order; scales behind what they scale. */
typedef struct quant_outputs {
    zt_entry *entries; /* [count] */
    char **names;      /* [count] those that are ours */
    int64_t count;
} quant_outputs;

zt_status quant_outputs_list(quant_run *run, quant_outputs *outputs);
void quant_outputs_free(quant_run *run, quant_outputs *outputs);
const zt_container *quant_container(const quant_run *run);   /* of the output */
zt_status quant_file_bytes(quant_run *run, uint64_t *bytes); /* exactly, of the whole output */

zt_status quant_write(quant_run *run); /* or only measures, where nothing is to be written */
zt_status quant_print_plan(quant_run *run);
zt_status quant_print_losses(quant_run *run);
zt_status quant_list_types(zt_cli *cli);
zt_status quant_fit(quant_run *run); /* --target-size, --bpw: other types, by their errors */
zt_status quant_make_imatrix(quant_run *run);

#endif
