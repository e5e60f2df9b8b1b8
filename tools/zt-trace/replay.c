/* replay.c - zt-trace diff --replay: one op with the inputs that it has in the program, on both
 * sides; what goes in and comes out in numbers; and (-o) the same as a program of its own, with its
 * values beside it, for who is to look into it.
 */
#include "tools/zt-trace/diff.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* ---- which, and with what -------------------------------------------------------------------- */

/* A line of the text, or the name of a value. */
static int find_step(const diff_job *j)
{
    const zt_prog *program = j->side[0].prog;
    const char *text = j->o->replay;
    char shown[96];
    int64_t line;
    if (zt_parse_i64(text, &line)) {
        for (int s = 0; s < zt_prog_n_steps(program); s++)
            if (zt_prog_step_line(program, s) == line) return s;
        zt_fail(j->cli->ctx, ZT_EUSAGE, "option '--replay': line %s of the program is no op", text);
        return -1;
    }
    int v = zt_prog_find(program, text);
    if (v >= 0 && zt_prog_value(program, v)->kind == ZT_VALUE_OP) return zt_prog_value(program, v)->index;
    zt_fail(j->cli->ctx, ZT_EUSAGE, "option '--replay': '%s' is neither a line with an op nor a "
            "value that an op makes", zt_escape(shown, sizeof shown, text, strlen(text)));
    return -1;
}

/* Value v as it stands in the file of -i; *found false: it does not. */
static zt_status put_recorded(const diff_job *j, int v, bool *found)
{
    zt_checkpoint *c = j->subject->input;
    zt_interpreter *interpreter = j->side[0].walk;
    const zt_type *type = &zt_interpreter_bound(interpreter)->type[v];
    int64_t i = c ? zt_checkpoint_find(c, zt_prog_value(j->side[0].prog, v)->name) : -1;
    zt_entry e;
    if (i >= 0) zt_checkpoint_get(c, i, &e);
    *found = i >= 0 && zt_type_equal(&e.type, type);
    if (!*found) return ZT_OK;
    void *bytes = zt_alloc(j->cli->ctx, zt_type_bytes(type) + 1);
    if (!bytes) return ZT_ENOMEM;
    zt_status status = zt_checkpoint_read(c, i, 0, bytes, zt_type_bytes(type));
    if (!status) status = zt_interpreter_put(interpreter, v, bytes);
    zt_free(j->cli->ctx, bytes);
    return status;
}

/* The op's inputs: recorded ones; where one is missing, all that comes before the op is run. */
static zt_status find_inputs(diff_job *j, int step)
{
    zt_interpreter *a = j->side[0].walk;
    const zt_step *st = zt_prog_step(j->side[0].prog, step);
    zt_status status = ZT_OK;
    bool all = true, found;
    int n = zt_op_info(st->op)->n_in;
    for (int k = 0; k < n && !status; k++) {
        if (st->in[k] < 0 || zt_prog_value(j->side[0].prog, st->in[k])->kind != ZT_VALUE_OP)
            continue;
        status = put_recorded(j, st->in[k], &found);
        all = all && found;
    }
    for (int i = 0; i < step && !all && !status; i++) status = zt_interpreter_step(a, i);
    for (int k = 0; k < n && !status; k++) {
        if (st->in[k] < 0 || zt_prog_value(j->side[0].prog, st->in[k])->kind == ZT_VALUE_DATA)
            continue;
        const void *bytes = zt_interpreter_get(a, st->in[k]);
        status = bytes ? zt_interpreter_put(j->side[1].walk, st->in[k], bytes) : zt_ctx_status(j->cli->ctx);
    }
    return status;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* A row: what is in value v of a side; of an output of the second with what it is off by. */
static zt_status put_value(const diff_job *j, zt_table *table, const char *what, int side, int v,
                           const char *engine, const zt_diff_item *item)
{
    zt_interpreter *interpreter = j->side[side].walk;
    const zt_type *type = &zt_interpreter_bound(interpreter)->type[v];
    const void *bytes = zt_interpreter_get(interpreter, v);
    char text[ZT_TYPE_TEXT], n[10][32];
    zt_summary s;
    if (!bytes) return zt_ctx_status(j->cli->ctx);
    zt_summarize(type, bytes, &s);
    snprintf(n[0], 32, "%" PRId64, s.nan);
    snprintf(n[1], 32, "%" PRId64, s.infinite);
    const char *cells[] = {what, zt_prog_value(j->side[side].prog, v)->name,
                           zt_type_text(type, text), engine, diff_number(s.min, n[2]),
                           diff_number(s.max, n[3]), diff_number(s.mean, n[4]),
                           diff_number(s.rms, n[5]), n[0], n[1], NULL, NULL, NULL, NULL, NULL};
    if (item) {
        cells[10] = diff_number(item->difference.max_abs, n[6]);
        cells[11] = diff_number(item->difference.nmse, n[7]);
        cells[12] = diff_number(item->bound, n[8]);
        cells[13] = diff_number(item->share, n[9]);
        cells[14] = item->share > 1 ? "beyond" : item->difference.bits ? "within" : "same";
    }
    return zt_table_row(table, cells);
}

/* Both results and their difference; `first` is the first that is beyond. */
static zt_status put_outputs(const diff_job *j, zt_table *table, int step, zt_diff_item *first,
                             int *beyond)
{
    const zt_step *st = zt_prog_step(j->side[0].prog, step);
    const zt_opinfo *info = zt_op_info(st->op);
    zt_interpreter *a = j->side[0].walk, *b = j->side[1].walk;
    zt_status status = ZT_OK;
    for (int k = 0; k < info->n_out && !status; k++) {
        zt_diff_item it;
        if (st->out[k] < 0) continue;
        status = zt_diff_step(a, b, step, k, &j->opts, &it);
        if (!status) status = put_value(j, table, info->out_name[k], 0, it.value, zt_interpreter_engine(a, step), NULL);
        if (!status) status = put_value(j, table, info->out_name[k], 1, it.value, zt_interpreter_engine(b, step), &it);
        if (it.share > 1 && !(*beyond)++) *first = it;
    }
    return status;
}

static zt_status put_table(diff_job *j, int step)
{
    static const char *const columns[] = {"what", "name", "type", "engine", "#min", "#max",
                                          "#mean", "#rms", "#nan", "#inf", "#max_abs", "#nmse",
                                          "#bound", "#share", "verdict"};
    const zt_step *st = zt_prog_step(j->side[0].prog, step);
    const zt_opinfo *info = zt_op_info(st->op);
    zt_table *table = zt_table_new(j->cli, "replay", columns, sizeof columns / sizeof *columns);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    zt_diff_item first;
    int beyond = 0;
    for (int k = 0; k < info->n_in && !status; k++)
        if (st->in[k] >= 0) status = put_value(j, table, info->in_name[k], 0, st->in[k], NULL, NULL);
    if (!status) status = put_outputs(j, table, step, &first, &beyond);
    if (!status) status = zt_table_print(table);
    if (!status) status = zt_cli_flush(j->cli);
    zt_table_free(table);
    if (status || !beyond) return status;
    diff_tell(j, &first);
    zt_cli_no(j->cli);
    return ZT_OK;
}

/* ---- a program of its own -------------------------------------------------------------------- */

typedef struct own {
    zt_prog *p;
    int map[ZT_MAX_IN]; /* of each input of the op */
    int value[ZT_MAX_IN]; /* values that go into the file, once each */
    int n;
} own;

static bool is_donated(const zt_step *step, int k)
{
    return k < zt_op_info(step->op)->def->donates;
}

/* Input k as an input, or data where it is; what the op uses up as a copy of one. */
static void declare(const diff_job *j, own *o, const zt_step *step, int k)
{
    int v = step->in[k];
    char copy[256];
    o->map[k] = ZT_NONE;
    if (v < 0) return;
    for (int i = 0; i < k; i++)
        if (step->in[i] == v) {
            o->map[k] = o->map[i];
            return;
        }
    const zt_value *value = zt_prog_value(j->side[0].prog, v);
    const zt_type *type = &zt_interpreter_bound(j->side[0].walk)->type[v];
    if (value->kind == ZT_VALUE_DATA)
        o->map[k] = zt_prog_data(o->p, value->name, type->dtype, type->rank, type->dim, value->name);
    else
        o->map[k] = zt_prog_in(o->p, value->name, type->dtype, type->rank, type->dim);
    snprintf(copy, sizeof copy, "%.240s.copy", value->name);
    if (is_donated(step, k)) o->map[k] = zt_program_scale(o->p, copy, o->map[k], NULL);
    o->value[o->n++] = v;
}

static zt_status make_program(const diff_job *j, own *o, int step)
{
    const zt_prog *program = j->side[0].prog;
    const zt_step *st = zt_prog_step(program, step);
    const zt_opinfo *info = zt_op_info(st->op);
    const char *names[ZT_MAX_OUT];
    int outputs[ZT_MAX_OUT];
    o->p = zt_prog_new(j->cli->ctx);
    if (!o->p) return ZT_ENOMEM;
    for (int k = 0; k < info->n_in; k++) declare(j, o, st, k);
    for (int k = 0; k < info->n_out; k++)
        names[k] = st->out[k] < 0 ? "_" : zt_prog_value(program, st->out[k])->name;
    zt_status status = zt_ctx_status(j->cli->ctx);
    if (!status)
        status = zt_prog_op(o->p, st->op, zt_interpreter_bound(j->side[0].walk)->attrs[step], o->map, names,
                       outputs);
    for (int k = 0; k < info->n_out && !status; k++)
        if (outputs[k] >= 0) status = zt_prog_out(o->p, names[k], outputs[k]);
    return status;
}

static zt_status write_values(const diff_job *j, const own *o, const char *path)
{
    zt_interpreter *a = j->side[0].walk;
    zt_checkpoint_opts opts = {.to = zt_container_named("npz"), .force = j->cli->force};
    zt_entry entry[ZT_MAX_IN];
    zt_meta *meta = zt_meta_new(j->cli->ctx);
    if (!meta) return ZT_ENOMEM;
    for (int i = 0; i < o->n; i++) {
        const zt_type *type = &zt_interpreter_bound(a)->type[o->value[i]];
        entry[i] = (zt_entry){zt_prog_value(j->side[0].prog, o->value[i])->name,
                              zt_dtype_get(type->dtype)->name, *type, zt_type_bytes(type)};
    }
    zt_writer *w = zt_writer_open(j->cli->ctx, path, &opts, meta, entry, o->n);
    zt_status status = w ? ZT_OK : zt_ctx_status(j->cli->ctx);
    for (int i = 0; i < o->n && !status; i++) {
        const void *bytes = zt_interpreter_get(a, o->value[i]);
        status = bytes ? zt_writer_put(w, bytes, (size_t)entry[i].bytes) : zt_ctx_status(j->cli->ctx);
    }
    if (!status) status = zt_writer_commit(w);
    zt_writer_close(w);
    zt_meta_free(meta);
    return status;
}

/* case.zt, and case.npz beside it. */
static zt_status write_case(const diff_job *j, int step)
{
    const char *path = j->cli->output;
    size_t n = strlen(path);
    char values[4096];
    own o = {0};
    if (n < 4 || strcmp(path + n - 3, ".zt") || n + 2 > sizeof values)
        return zt_fail(j->cli->ctx, ZT_EUSAGE, "--replay -o: name a program, NAME.zt: its values "
                       "go into NAME.npz");
    snprintf(values, sizeof values, "%.*s.npz", (int)(n - 3), path);
    zt_status status = make_program(j, &o, step);
    if (!status && !j->cli->force && !access(path, F_OK))
        status = zt_fail(j->cli->ctx, ZT_ECREATE, "%s: is there already (--force overwrites)", path);
    if (!status) status = write_values(j, &o, values);
    if (!status) status = trace_write_program(j->cli, o.p);
    zt_prog_free(o.p);
    return status;
}

zt_status diff_replay(diff_job *j)
{
    int step = find_step(j);
    zt_status status = step < 0 ? zt_ctx_status(j->cli->ctx) : find_inputs(j, step);
    for (int i = 0; i < 2 && !status; i++) status = zt_interpreter_step(j->side[i].walk, step);
    if (!status && j->cli->output) status = write_case(j, step);
    return status ? status : put_table(j, step);
}
