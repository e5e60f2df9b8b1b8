/* program.c - zt-run of a program: its inputs by name from a file, one step, its outputs to a file.
 *
 * States are cleared, or as the file has them; what the step leaves in them is not kept. What runs
 * is what the passes make of the program.
 */
#include "tools/common/subject.h"
#include "tools/zt-run/run.h"
#include "tools/zt-run/tensors.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[] = "zt program";

/* Its first words tell; of a pipe with a name, its name. */
bool run_is_program(zt_cli *cli, const char *path)
{
    char head[sizeof magic - 1];
    struct stat st;
    size_t n = path ? strlen(path) : 0;
    if (n == 0) return false;
    if (zt_cli_is_network(cli, path)) return true;
    if (strcmp(path, "-") && stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
        return n > 3 && !strcmp(path + n - 3, ".zt");
    return zt_cli_head(cli, path, head, sizeof head) == sizeof head &&
           !memcmp(head, magic, sizeof head);
}

/* ---- in -------------------------------------------------------------------------------------- */

static zt_status check_files(zt_cli *cli, const run_options *o)
{
    if (!strcmp(o->model, "-") && o->input && !strcmp(o->input, "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "standard input (-) can be one file only");
    zt_status s = zt_cli_refuse_same(cli, o->model, cli->output);
    if (!s) s = zt_cli_refuse_same(cli, o->input, cli->output);
    return s ? s : zt_cli_refuse_same(cli, o->data, cli->output);
}

/* Where inputs come from: the file named, else standard input if the program has any. */
static const char *input_of(const run_options *o, const zt_prog *p)
{
    if (o->input || zt_prog_count(p, ZT_VALUE_IN) == 0 || isatty(STDIN_FILENO) ||
        !strcmp(o->model, "-"))
        return o->input;
    return "-";
}

/* What a job holds besides r. */
typedef struct job {
    zt_cli *cli;
    const run_options *o;
    zt_prog *prog;
    bool csv;    /* inputs came as CSV, */
    int64_t columns; /* of its first line */
    char *bytes; /* which these were made of */
    zt_subject *subject;
} job;

static zt_prog *network(const job *j, const zt_nn_shape *in)
{
    return zt_cli_network(j->cli, j->o->model, &(zt_nn_options){.input = in, .cycles = j->o->cycles});
}

/* A network takes what comes in the shape in which it comes; lines of CSV are rows of numbers. */
static zt_status reshape_network(job *j, const zt_checkpoint *input)
{
    const zt_type *x = &zt_prog_value(j->prog, zt_prog_nth(j->prog, ZT_VALUE_IN, 0))->type;
    zt_nn_shape in = {.rank = 2, .dim = {0, 1}};
    zt_entry e;
    int64_t at = input ? zt_checkpoint_find(input, "x") : -1;
    if (at < 0 && input && zt_checkpoint_count(input) == 1) at = 0;
    if (at >= 0) {
        zt_checkpoint_get(input, at, &e);
        in.rank = e.type.rank;
        memcpy(in.dim, e.type.dim, sizeof in.dim);
    }
    for (int d = 1; d < x->rank && !input; d++) in.dim[1] *= x->dim[d];
    if (!input && x->rank == 1) in.dim[1] = j->columns; /* ids, so many a row */
    if (input ? at < 0 || in.rank < 1 : x->rank < 3 && (x->rank != 1 || j->columns < 2))
        return ZT_OK;
    zt_prog *p = network(j, &in);
    if (!p) return zt_ctx_status(j->cli->ctx);
    zt_prog_free(j->prog);
    j->prog = p;
    return ZT_OK;
}

static int64_t columns_of(const zt_source *s)
{
    char head[1 << 12];
    size_t n;
    int64_t columns = 1;
    if (zt_source_read_some(s, 0, head, sizeof head, sizeof head, &n)) return 1;
    for (size_t i = 0; i < n && head[i] != '\n'; i++) columns += head[i] == ',';
    return columns;
}

/* The file of inputs, CSV or a container of tensors, as its content tells. */
static zt_checkpoint *open_input(job *j, const char *path)
{
    zt_ctx *ctx = j->cli->ctx;
    bool network = zt_cli_is_network(j->cli, j->o->model);
    int n = zt_prog_count(j->prog, ZT_VALUE_IN) - (network && zt_prog_find(j->prog, "counter") >= 0);
    zt_checkpoint *c = NULL;
    zt_source *s = zt_source_open(ctx, path);
    if (!s) return NULL;
    j->csv = run_looks_csv(s);
    if (!j->csv) {
        c = zt_checkpoint_take(ctx, s);
        if (!c || !network || reshape_network(j, c) == ZT_OK) return c;
        zt_checkpoint_close(c);
        return NULL;
    }
    if (network) j->columns = columns_of(s);
    if (network && reshape_network(j, NULL)) {
        zt_source_close(s);
        return NULL;
    }
    if (n == 1)
        c = run_csv_read(ctx, s, &zt_prog_value(j->prog, zt_prog_nth(j->prog, ZT_VALUE_IN, 0))->type,
                         &j->bytes);
    else
        zt_fail(ctx, ZT_EUSAGE, "%s: CSV is for a program of one input, this has %d",
                zt_source_name(s), n);
    zt_source_close(s);
    return c;
}

static zt_status open_subject(job *j)
{
    const run_options *o = j->o;
    const char *path = input_of(o, j->prog);
    zt_subject_opts so = {.path = o->model, .data = o->data, .bindings = o->bind,
                          .counts = zt_cli_is_network(j->cli, o->model)};
    if (path) so.tensors = open_input(j, path);
    if (!path || so.tensors) j->subject = zt_subject_open(j->cli, j->prog, &so);
    return j->subject ? ZT_OK : zt_ctx_status(j->cli->ctx);
}

/* ---- out ------------------------------------------------------------------------------------- */

static zt_status write_csv(zt_cli *cli, const zt_type *t, const void *data)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_sink *sink = NULL;
    zt_status s = run_csv_put(t, data, &text);
    if (!s && !cli->output) s = zt_cli_write(cli, text.data, text.len);
    if (!s && cli->output) {
        sink = zt_sink_open(cli->ctx, cli->output, cli->force);
        s = sink ? zt_sink_write(sink, text.data, text.len) : zt_ctx_status(cli->ctx);
        if (!s) s = zt_sink_commit(sink);
    }
    zt_sink_close(sink);
    zt_str_fini(&text);
    return s;
}

/* All outputs by name, in order. */
static zt_status write_tensors(zt_cli *cli, const zt_bound_inputs *f, const zt_container *to)
{
    const zt_prog *p = f->prog;
    int n = zt_prog_n_outputs(p);
    zt_checkpoint_opts co = {.to = to, .force = cli->force};
    zt_entry *e = zt_calloc(cli->ctx, (size_t)n + 1, sizeof *e);
    zt_meta *meta = zt_meta_new(cli->ctx);
    for (int i = 0; e && i < n; i++) {
        const zt_type *t = &f->bound->type[zt_prog_output(p, i)->value];
        e[i] = (zt_entry){zt_prog_output(p, i)->name, zt_dtype_get(t->dtype)->name, *t,
                          zt_type_bytes(t)};
    }
    const char *path = cli->output ? cli->output : "-";
    zt_writer *w = e && meta ? zt_writer_open(cli->ctx, path, &co, meta, e, n) : NULL;
    zt_status s = w ? ZT_OK : zt_ctx_status(cli->ctx);
    for (int i = 0; i < n && !s; i++) s = zt_writer_put(w, f->out[i], e[i].bytes);
    if (!s) s = zt_writer_commit(w);
    zt_writer_close(w);
    zt_meta_free(meta);
    zt_free(cli->ctx, e);
    return s;
}

/* The form of the output: by its name; on stdout CSV where that came in and one tensor goes out. */
static zt_status write_outputs(const job *j)
{
    zt_cli *cli = j->cli;
    const zt_bound_inputs *f = j->subject->inputs;
    int n = zt_prog_n_outputs(j->prog);
    bool to_stdout = !cli->output || !strcmp(cli->output, "-");
    const zt_container *to = to_stdout ? NULL : zt_container_for(cli->output);
    if (run_is_csv(cli->output) && n != 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%s: CSV is for a program of one output, this has %d",
                       cli->output, n);
    if (run_is_csv(cli->output) || (to_stdout && n == 1 && j->csv))
        return write_csv(cli, &f->bound->type[zt_prog_output(j->prog, 0)->value], f->out[0]);
    zt_status s = to_stdout ? zt_cli_refuse_terminal(cli, "the outputs") : ZT_OK;
    return s ? s : write_tensors(cli, f, to ? to : zt_container_named("npz"));
}

/* ---- one step -------------------------------------------------------------------------------- */

static zt_status step(const job *j)
{
    zt_cli *cli = j->cli;
    const zt_bindings *b = &j->subject->bind;
    zt_engine *e = zt_cli_engine_for(cli, cli->threads, j->prog, b->items, b->count);
    zt_pass_opts po = {.sample = b->items, .n_sample = b->count, .engine = e};
    zt_prog *made = e ? zt_prog_passes(cli->ctx, j->prog, &po, NULL) : NULL;
    zt_session *s = made ? zt_subject_session_of(j->subject, e, made) : NULL;
    zt_status st = s ? zt_subject_step(j->subject, s) : zt_ctx_status(cli->ctx);
    if (!st && zt_session_get(s).fallbacks)
        zt_log(cli->ctx, ZT_LOG_INFO, "%d steps fell back to another engine",
               zt_session_get(s).fallbacks);
    zt_session_close(s);
    zt_prog_free(made);
    zt_engine_close(e);
    return st;
}

zt_status run_program(run *r)
{
    job j = {.cli = r->cli, .o = r->o};
    zt_status st = check_files(j.cli, j.o);
    bool net = !st && zt_cli_is_network(j.cli, j.o->model);
    if (!st) j.prog = net ? network(&j, NULL) : zt_cli_program(j.cli, j.o->model);
    if (!st) st = j.prog ? open_subject(&j) : zt_ctx_status(j.cli->ctx);
    if (!st) st = j.o->chunk_given ? run_rows(j.cli, j.o, j.subject->inputs) : step(&j);
    if (!st) st = write_outputs(&j);
    zt_subject_close(j.subject);
    zt_free(j.cli->ctx, j.bytes);
    zt_prog_free(j.prog);
    return st;
}
