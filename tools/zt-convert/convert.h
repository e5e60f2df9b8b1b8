/* convert.h - private to zt-convert: its options, and one job on its way from inputs to an output.
 *
 * main.c chooses what is done; options.c has the options; input.c opens and picks tensors; names.c
 * matches and renames them; network.c makes a network's weights float; edit.c changes metadata; write.c converts; list.c, hash.c, check.c and
 * probe.c look. */
#ifndef ZT_CONVERT_TOOL_H
#define ZT_CONVERT_TOOL_H

#include "tools/common/cli.h"

typedef struct convert_options {
    bool list, meta, check, hash, no_history, probe, blueprint;
    int by; /* layer|dtype; -1: each tensor */
    const char *cat, *to, *dtype;
    zt_opt_list select, drop, rename, set, unset, hint;
    size_t shard;
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
    CONVERT_PROBE,
    CONVERT_BLUEPRINT,
    CONVERT_N_MODES
};

extern const zt_tool convert_tool;
convert_options *convert_options_init(void);

/* A tensor that goes out: where it is, and what it becomes. */
typedef struct pick {
    zt_checkpoint *from;
    int64_t i;
    zt_entry in, out;
    bool coded; /* weights of a network that become f32: */
    zt_net_weights codes;
    int64_t count; /* how many there are */
} pick;

typedef struct job {
    zt_cli *cli;
    zt_ctx *ctx;
    const convert_options *o;
    char **path; /* of the inputs, n_in of them */
    int n_in;
    const char *out; /* NULL: an edit in place, or nothing is written */
    zt_checkpoint **in;
    zt_meta *meta; /* the output's */
    pick *picked;
    int64_t n;
    zt_arena *texts;
    bool many; /* inputs are looked at: lines and rows say of which they are */
    zt_table *table;
} job;

/* input.c */
/* flags of zt_checkpoint_open; a folder is a Hugging Face model. */
zt_checkpoint *job_open_one(job *j, const char *path, unsigned flags);
zt_status job_dtype(job *j, zt_dtype *t); /* --dtype; ZT_DTYPE_COUNT: none */
zt_status job_open(job *j);               /* all inputs, and the output's metadata */
zt_status job_pick(job *j);               /* by --select, --drop, --rename, --dtype */
zt_status job_interrupted(job *j);        /* ZT_EINTR when SIGINT came */

/* network.c: --dtype of a network that the input carries: its weights and its frame become f32. */
bool job_has_frame(const job *j);
zt_status job_network_dtype(job *j);
/* To a container of tensors: a network must have some; layers without are noted. */
zt_status job_check_weights(job *j);
/* All of a pick's weights as f32, [count]; zt_free it. NULL on failure. */
float *job_network_read(job *j, const pick *p);

/* names.c */
bool glob_matches(const char *pattern, const char *text);
/* The name by the rules "FROM=TO", where * of TO stand for what those of FROM matched; the first
 * rule that matches counts. NULL: no memory. */
const char *renamed(job *j, const char *name);
bool rename_matches(const char *rule, const char *name); /* "FROM=TO" */
zt_status check_renames(job *j);

/* edit.c */
zt_status job_edit(job *j); /* --unset, --set, file type, history */
/* A value as text: of long ones the beginning, if `brief`. */
zt_status put_value(zt_str *s, const zt_meta_item *item, bool brief);

/* The table of a look. All columns, the first is the file, which is left out where there is one input; the
 * rows of all inputs go into one table, which main.c prints. They live as long. */
zt_status job_table(job *j, const char *schema, const char *const *columns, int n);
zt_status job_row(job *j, const char *const *cells);

/* What is done. */
zt_status job_convert(job *j);
bool job_is_hf(const job *j); /* the output is a Hugging Face directory */
zt_status job_to_hf(job *j);
zt_status job_list(job *j);
zt_status job_meta(job *j);
zt_status job_hash(job *j);
zt_status job_check(job *j);
zt_status job_cat(job *j);
/* probe.c: tensors of unknown names as layers, by their geometry. */
zt_status job_probe(job *j);
zt_status job_blueprint(job *j);
bool job_mounts(job *j); /* is the conversion one of these to a network? */
zt_status job_mount(job *j);

/* "[4,576]" */
const char *shape_text(const zt_type *t, char buf[ZT_TYPE_TEXT]);

#endif
