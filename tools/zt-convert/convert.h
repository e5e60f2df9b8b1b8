/* convert.h - private to zt-convert: its options, and one job on its way from inputs to an output.
 *
 * main.c chooses what is done; options.c has the options; input.c opens and picks tensors; names.c
 * matches and renames them; network.c makes a network's weights float; edit.c changes metadata; write.c converts; list.c, hash.c,
 * check.c and probe.c look; signature.c signs and verifies. */
#ifndef ZT_CONVERT_TOOL_H
#define ZT_CONVERT_TOOL_H

#include "tools/common/cli.h"

#define WORDS ZT_OPTION_WORDS
#include "tools/zt-convert/options.def"

typedef struct convert_options {
#define OPTION ZT_OPTION_FIELD
#include "tools/zt-convert/options.def"
} convert_options;

/* What zt-convert does: the modes of its option table. */
enum {
    CONVERT_WRITE,
    CONVERT_EDIT,
    CONVERT_HF,
    CONVERT_MOUNT,
    CONVERT_LIST,
    CONVERT_META,
    CONVERT_CHECK,
    CONVERT_HASH,
    CONVERT_CAT,
    CONVERT_SIGN,
    CONVERT_VERIFY,
    CONVERT_PROBE,
    CONVERT_BLUEPRINT,
    CONVERT_N_MODES
};

extern const zt_tool convert_tool;
convert_options *convert_options_init(void);

/* A tensor that goes out: where it is, and what it becomes. */
typedef struct picked_tensor {
    zt_checkpoint *checkpoint;
    int64_t index;
    zt_entry in, out;
    bool coded; /* weights of a network that become f32: */
    zt_net_weights codes;
    int64_t count; /* how many there are */
} picked_tensor;

typedef struct convert_job {
    zt_cli *cli;
    zt_ctx *ctx;
    const convert_options *options;
    char **paths; /* of the inputs, input_count of them */
    int input_count;
    const char *output_path; /* NULL: an edit in place, or nothing is written */
    zt_checkpoint **inputs;
    zt_meta *meta; /* the output's */
    picked_tensor *picked;
    int64_t picked_count;
    zt_arena *texts;
    bool many; /* inputs are looked at: lines and rows say of which they are */
    zt_table *table;
} convert_job;

/* input.c */
/* flags of zt_checkpoint_open; a folder is a Hugging Face model. */
zt_checkpoint *job_open_one(convert_job *job, const char *path, unsigned flags);
zt_status job_dtype(convert_job *job, zt_dtype *dtype); /* --dtype; ZT_DTYPE_COUNT: none */
zt_status job_open(convert_job *job);                   /* all inputs, and the output's metadata */
zt_status job_pick(convert_job *job);                   /* by --select, --drop, --rename, --dtype */
zt_status job_interrupted(convert_job *job);            /* ZT_EINTR when SIGINT came */

/* network.c: --dtype of a network that the input carries: its weights and its frame become f32. */
bool job_has_frame(const convert_job *job);
zt_status job_network_dtype(convert_job *job);
/* To a container of tensors: a network must have some; layers without are noted. */
zt_status job_check_weights(convert_job *job);
/* All of a pick's weights as f32, [count]; zt_free it. NULL on failure. */
float *job_network_read(convert_job *job, const picked_tensor *picked);

/* names.c */
bool glob_matches(const char *pattern, const char *text);
/* The name by the rules "FROM=TO", where * of TO stand for what those of FROM matched; the first
 * rule that matches counts. NULL: no memory. */
const char *rename_tensor(convert_job *job, const char *name);
bool rename_matches(const char *rule, const char *name); /* "FROM=TO" */
zt_status check_renames(convert_job *job);

/* edit.c */
zt_status job_edit(convert_job *job); /* --unset, --set, file type, history */
/* A value as text: of long ones the beginning, if `brief`. */
zt_status put_value(zt_str *out, const zt_meta_item *item, bool brief);

/* The table of a look. All columns, the first is the file, which is left out where there is one input; the
 * rows of all inputs go into one table, which main.c prints. They live as long. */
zt_status job_table(convert_job *job, const char *schema, const char *const *columns, int column_count);
zt_status job_row(convert_job *job, const char *const *cells);

/* What is done. */
zt_status job_convert(convert_job *job);
bool job_is_hf(const convert_job *job); /* the output is a Hugging Face directory */
zt_status job_to_hf(convert_job *job);
zt_status job_list(convert_job *job);
zt_status job_meta(convert_job *job);
zt_status job_hash(convert_job *job);
zt_status job_check(convert_job *job);
zt_status job_cat(convert_job *job);
zt_status job_sign(convert_job *job);
zt_status job_verify(convert_job *job);
/* probe.c: tensors of unknown names as layers, by their geometry. */
zt_status job_probe(convert_job *job);
zt_status job_blueprint(convert_job *job);
bool job_mounts(convert_job *job); /* is the conversion one of these to a network? */
zt_status job_mount(convert_job *job);

/* "[4,576]" */
const char *shape_text(const zt_type *type, char buffer[ZT_TYPE_TEXT]);

#endif
