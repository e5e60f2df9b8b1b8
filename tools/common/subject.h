/* subject.h - what a tool needs to run a program from a file: its text, the model that it names,
 * numbers for its symbols, tensors.
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

/* A program's text, from a file or "-"; of a network's JSON the program that it is lowered to,
 * which names it as its model. */
zt_prog *zt_cli_program(zt_cli *cli, const char *path);

/* head.c: the first `size` bytes of a file, or of standard input ("-"), which keeps them. Of a pipe
 * there only where it begins a program or a network: that is kept as a file then, and can be opened
 * as often as one likes. 0: none. */
size_t zt_cli_head(zt_cli *cli, const char *path, char *head, size_t size);
bool zt_cli_begins_program(const void *head, size_t size); /* may these begin one? */

/* network.c: is the file a network's JSON? */
bool zt_cli_is_network(zt_cli *cli, const char *path);
/* Its program. */
zt_prog *zt_cli_network(zt_cli *cli, const char *path, const zt_nn_options *options);

/* --bind n=16,ctx=64 (NULL: none). ZT_EUSAGE says what is wrong with it. */
typedef struct zt_bindings {
    zt_binding items[ZT_MAX_SYMBOLS]; /* [count] */
    int count;
    char names[ZT_MAX_SYMBOLS][64]; /* what items[i].symbol points to: not to be copied */
} zt_bindings;
zt_status zt_bindings_parse(zt_ctx *ctx, const char *text, zt_bindings *bindings);

/* The same, and what `program` itself says of symbols that the text does not name. `bindings` is good as long as program
 * is. */
zt_status zt_bindings_of(zt_ctx *ctx, const char *text, const zt_prog *program, zt_bindings *bindings);

/* model_path.c. Where is a file that a program names? In the program's folder (program NULL or "-":
 * the current directory), or, where it is not there, as a path from the current directory. Where a
 * program is written to a file `to`, its model is named from that file's folder; NULL or "-": from
 * the current directory. Paths are the caller's to free; NULL: no memory. */
char *zt_cli_beside(zt_ctx *ctx, const char *program, const char *file);
char *zt_cli_path_from(zt_ctx *ctx, const char *file, const char *program);
/* The model of a program that was read from `from` is named as from `to`. A model that is not there
 * keeps its name, and an absolute path does. */
zt_status zt_cli_move_model(zt_cli *cli, zt_prog *program, const char *from, const char *to);

/* What the command line says; each may be NULL. */
typedef struct zt_subject_opts {
    const char *path;       /* of the program: its model is named from there; NULL or "-": from here */
    const char *model;      /* -m: instead of the model that the program names */
    const char *data;       /* --data: tensors that are looked for before those of the model */
    const char *input;      /* -i: inputs and states by name */
    zt_checkpoint *tensors; /* the same, open; taken over, also on failure */
    const char *bindings;   /* --bind; what it leaves open is in the inputs' shapes, then in the program */
    bool counts;            /* an input 'counter' that is not given is 0 */
    bool draw;              /* what is not given is drawn from --seed: inputs; data of a program with
                        * no model, where none is given */
} zt_subject_opts;

typedef struct zt_subject {
    zt_cli *cli;
    const zt_prog *prog; /* the caller's */
    zt_gguf *model;      /* NULL: none, or it is this: */
    zt_nn *network;
    zt_checkpoint *data, *input;
    zt_store data_store, model_store, store;
    zt_bindings bind;
    zt_bound_inputs *inputs; /* inputs->bound has every type */
} zt_subject;

/* `program` is borrowed. */
zt_subject *zt_subject_open(zt_cli *cli, const zt_prog *program, const zt_subject_opts *options);
void zt_subject_close(zt_subject *subject);
/* A session on an engine, its states as they are to begin. The program is run as it is. */
zt_session *zt_subject_session(const zt_subject *subject, zt_engine *engine);
/* The same of what passes made of the program: it has the same inputs, states, data and outputs. */
zt_session *zt_subject_session_of(const zt_subject *subject, zt_engine *engine, const zt_prog *made);
zt_status zt_subject_step(const zt_subject *subject, zt_session *session);

#endif
