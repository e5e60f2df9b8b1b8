/* subject.h - everything that a tool needs to run a program from a file: its text, its model,
 * values of its symbols, and tensors.
 *
 *     zt_subject *s = zt_subject_open(cli, p, &(zt_subject_opts){.path = "run.zt", .draw = true});
 *     zt_session *run = zt_subject_session(s, engine);     // with its states
 *     zt_subject_step(s, run);                             // subject->inputs->in to subject->inputs->out
 *     zt_session_close(run);
 *     zt_subject_close(s);
 */
#ifndef ZT_SUBJECT_H
#define ZT_SUBJECT_H

#include "tools/common/cli.h"

/* Reads a program from a file or "-". A network (JSON) is lowered to a program that names it as its model. */
zt_prog *zt_cli_program(zt_cli *cli, const char *path);

/* head.c: reads up to `size` bytes from the start of a file or of standard input ("-") without consuming them. A pipe
 * on standard input is read only if it begins like a program or a network; it is then kept as a file that can be
 * opened repeatedly. Returns the number of bytes; 0: none. */
size_t zt_cli_head(zt_cli *cli, const char *path, char *head, size_t size);
bool zt_cli_begins_program(const void *head, size_t size); /* can a program begin with these bytes? */

/* network.c: is the file a network (JSON)? */
bool zt_cli_is_network(zt_cli *cli, const char *path);
/* The program of a network. */
zt_prog *zt_cli_network(zt_cli *cli, const char *path, const zt_nn_options *options);

/* Parses --bind, such as "n=16,ctx=64" (NULL: none). ZT_EUSAGE: invalid text. */
typedef struct zt_bindings {
    zt_binding items[ZT_MAX_SYMBOLS]; /* [count] */
    int count;
    char names[ZT_MAX_SYMBOLS][64]; /* target of items[i].symbol, so the struct must not be copied */
} zt_bindings;
zt_status zt_bindings_parse(zt_ctx *ctx, const char *text, zt_bindings *bindings);

/* The same, with the program's own values for symbols that the text does not name. `program` must outlive
 * `bindings`. */
zt_status zt_bindings_of(zt_ctx *ctx, const char *text, const zt_prog *program, zt_bindings *bindings);

/* model_path.c: paths of files that a program names. zt_cli_beside finds such a file in the directory of the program
 * (program NULL or "-": the current directory), or else relative to the current directory. zt_cli_path_from
 * makes the path of `file` relative to the directory of the file `program`; NULL or "-": to
 * the current directory. The caller frees the paths; NULL: out of memory. */
char *zt_cli_beside(zt_ctx *ctx, const char *program, const char *file);
char *zt_cli_path_from(zt_ctx *ctx, const char *file, const char *program);
/* Changes the model path of a program read from `from` so that it is relative to `to`. Absolute paths and paths of
 * missing models stay unchanged. */
zt_status zt_cli_move_model(zt_cli *cli, zt_prog *program, const char *from, const char *to);

/* Settings from the command line; each may be NULL. */
typedef struct zt_subject_opts {
    const char *path;       /* the program; its model path is relative to it; NULL or "-": current directory */
    const char *model;      /* -m: overrides the model of the program */
    const char *data;       /* --data: tensors that take precedence over those of the model */
    const char *input;      /* -i: inputs and states by name */
    zt_checkpoint *tensors; /* the same, already open; ownership passes to the call, also on failure */
    const char *bindings;   /* --bind; other symbols come from the shapes of inputs, then from the program */
    bool counts;            /* a missing input 'counter' is 0 */
    bool draw;              /* missing inputs are random numbers from --seed; so are data of a program
                        * without a model, if no data are given */
} zt_subject_opts;

typedef struct zt_subject {
    zt_cli *cli;
    const zt_prog *prog; /* the caller's */
    zt_gguf *model;      /* NULL: none, or a network: */
    zt_nn *network;
    zt_checkpoint *data, *input;
    zt_store data_store, model_store, store;
    zt_bindings bind;
    zt_bound_inputs *inputs; /* inputs->bound has the type of every value */
} zt_subject;

/* Opens all that the program needs. `program` is borrowed. */
zt_subject *zt_subject_open(zt_cli *cli, const zt_prog *program, const zt_subject_opts *options);
void zt_subject_close(zt_subject *subject);
/* A session of the unchanged program on an engine, with its initial states. */
zt_session *zt_subject_session(const zt_subject *subject, zt_engine *engine);
/* The same for a transformed program with the same inputs, states, data and outputs. */
zt_session *zt_subject_session_of(const zt_subject *subject, zt_engine *engine, const zt_prog *made);
zt_status zt_subject_step(const zt_subject *subject, zt_session *session);

#endif
