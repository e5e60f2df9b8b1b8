/* diff.c - zt-trace diff: a program on two engines, instruction sets or numbers of threads, or two
 * programs, compared op by op. The first op beyond its bound is named; the answer is the exit code.
 */
#include "tools/zt-trace/diff.h"

#include <inttypes.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

const char *diff_where(const diff_side *side, int step, char *buf, size_t n)
{
    long line = zt_prog_step_line(side->prog, step);
    if (line == 0)
        snprintf(buf, n, "step %d", step);
    else if (!strcmp(side->path, "-"))
        snprintf(buf, n, "line %ld", line);
    else {
        char shown[256];
        zt_escape(shown, sizeof shown, side->path, strlen(side->path));
        snprintf(buf, n, "%s:%ld", shown, line);
    }
    return buf;
}

const char *diff_index(const zt_type *type, int64_t element, char *buf, size_t n)
{
    int64_t at[ZT_MAX_RANK];
    size_t len = 0;
    for (int d = type->rank; d-- > 0; element /= type->dim[d]) at[d] = element % type->dim[d];
    buf[0] = 0;
    for (int d = 0; d < type->rank && len < n; d++)
        len += (size_t)snprintf(buf + len, n - len, "%s%" PRId64, d ? "," : "[", at[d]);
    if (len < n) snprintf(buf + len, n - len, type->rank ? "]" : "[]");
    return buf;
}

const char *diff_number(double x, char buf[32])
{
    snprintf(buf, 32, "%.4g", x);
    return buf;
}

void diff_tell(const diff_job *j, const zt_diff_item *item)
{
    const diff_side *b = &j->side[1];
    const zt_bound *bound = zt_interpreter_bound(b->walk);
    const zt_step *step = zt_prog_step(b->prog, item->step);
    const zt_opinfo *info = zt_op_info(step->op);
    char where[300], index[240], type[ZT_TYPE_TEXT], got[40], want[40], given[1024] = "";
    size_t at = 0;
    for (int k = 0; k < info->n_in && at < sizeof given; k++)
        if (step->in[k] >= 0)
            at += (size_t)snprintf(given + at, sizeof given - at, "%s%s %s", at ? ", " : "",
                                   info->in_name[k], zt_type_text(&bound->type[step->in[k]], type));
    zt_type_text(&bound->type[item->value], type);
    snprintf(got, sizeof got, "%.9g", item->difference.got);
    snprintf(want, sizeof want, "%.9g", item->difference.want);
    if (item->difference.worst < 0)
        zt_cli_note(j->cli, "%s: step %d, %s '%s' %s of %s: equal numbers, %" PRId64
                    " with other bits",
                    diff_where(b, item->step, where, sizeof where), item->step, info->name,
                    zt_prog_value(b->prog, item->value)->name, type, given, item->difference.bits);
    else
        zt_cli_note(j->cli, "%s: step %d, %s '%s' %s of %s: element %s is %s, not %s; largest "
                    "error %.3g, NMSE %.3g, allowed %.3g",
                    diff_where(b, item->step, where, sizeof where), item->step, info->name,
                    zt_prog_value(b->prog, item->value)->name, type, given,
                    diff_index(&bound->type[item->value], item->difference.worst, index, sizeof index), got,
                    want, item->difference.max_abs, item->difference.nmse, item->bound);
}

/* ---- comparing ------------------------------------------------------------------------------- */

typedef struct report {
    diff_job *j;
    zt_table *table;
    int items, same, beyond, rows;
    zt_diff_item first;
} report;

static const char *verdict(const zt_diff_item *item)
{
    return item->share > 1 ? "beyond" : item->difference.bits == 0 ? "same" : "within";
}

static zt_status put_item(void *user, const zt_diff_item *item)
{
    report *r = user;
    const diff_side *b = &r->j->side[1];
    char step[16], line[24], type[ZT_TYPE_TEXT], n[4][32], bits[24];
    r->items++;
    r->same += item->difference.bits == 0;
    bool beyond = item->share > 1;
    if (beyond && !r->beyond++) r->first = *item;
    if (zt_cli_interrupted()) return zt_fail(r->j->cli->ctx, ZT_EINTR, "interrupted");
    if (!beyond && !r->j->o->all) return ZT_OK;
    r->rows++;
    snprintf(step, sizeof step, "%d", item->step);
    snprintf(line, sizeof line, "%ld", zt_prog_step_line(b->prog, item->step));
    snprintf(bits, sizeof bits, "%" PRId64, item->difference.bits);
    const char *cells[] = {step, line, zt_op_info(zt_prog_step(b->prog, item->step)->op)->name,
                           zt_prog_value(b->prog, item->value)->name,
                           zt_type_text(&zt_interpreter_bound(b->walk)->type[item->value], type),
                           zt_interpreter_engine(b->walk, item->step), diff_number(item->difference.max_abs, n[0]),
                           diff_number(item->difference.nmse, n[1]), diff_number(item->bound, n[2]),
                           diff_number(item->share, n[3]), bits, verdict(item)};
    return zt_table_row(r->table, cells);
}

static zt_status compare(diff_job *j)
{
    static const char *const columns[] = {"#step", "#line", "op", "name", "type", "engine",
                                          "#max_abs", "#nmse", "#bound", "#share", "#differ",
                                          "verdict"};
    report r = {.j = j};
    r.table = zt_table_new(j->cli, "diff", columns, sizeof columns / sizeof *columns);
    if (!r.table) return ZT_ENOMEM;
    zt_status status = zt_diff(j->side[0].walk, j->side[1].walk, &j->opts, put_item, &r);
    if (!status && (r.rows || j->cli->format != ZT_FMT_AUTO)) status = zt_table_print(r.table);
    if (!status) status = zt_cli_flush(j->cli);
    zt_table_free(r.table);
    if (status) return status;
    if (r.beyond) diff_tell(j, &r.first);
    zt_cli_note(j->cli, "%d values compared: %d the same bits, %d beyond %s", r.items, r.same,
                r.beyond, r.beyond == 1 ? "its bound" : "their bounds");
    if (r.beyond) zt_cli_no(j->cli);
    return ZT_OK;
}

/* ---- the two sides --------------------------------------------------------------------------- */

/* Of one program without a pair of anything: ref judges. */
static zt_status open_engines(diff_job *j)
{
    zt_cli *cli = j->cli;
    zt_cli_second second = zt_cli_pair(cli);
    bool judge = !cli->pair && !j->two_programs;
    const char *name[2] = {judge ? "ref" : cli->engine, second.engine};
    zt_engine_opts eo[2] = {{.threads = (int)cli->threads, .isa = cli->isa, .tile = cli->tile},
                            {.threads = (int)second.threads, .isa = second.isa, .tile = cli->tile}};
    for (int i = 0; i < 2; i++) {
        j->side[i].engine = zt_engine_open(cli->ctx, name[i], &eo[i]);
        if (!j->side[i].engine) return zt_ctx_status(cli->ctx);
    }
    /* Threads alone change no bit: promise (a) of design.md. */
    bool alike = !j->two_programs && !judge && !strcmp(name[0], name[1]) && eo[0].isa == eo[1].isa;
    j->opts = (zt_diff_opts){.through = j->o->through, .exact = j->o->exact || alike,
                             .judge = j->side[0].engine->vt == &zt_engine_ref};
    return ZT_OK;
}

static zt_status open_walks(diff_job *j)
{
    const zt_subject *s = j->subject;
    zt_binding bind[ZT_MAX_SYMBOLS];
    int n = s->bind.n;
    memcpy(bind, s->bind.at, (size_t)n * sizeof *bind);
    zt_prog_bindings(j->side[1].prog, bind, &n); /* those that the first program does not have */
    for (int i = 0; i < 2; i++) {
        diff_side *d = &j->side[i];
        d->walk = zt_interpreter_open(d->engine, d->prog, &s->feed->store, bind, n,
                               j->cli->strict);
        if (!d->walk) return zt_ctx_status(j->cli->ctx);
    }
    const zt_prog *program = j->side[0].prog;
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_IN) && !status; i++)
        status = zt_interpreter_put(j->side[0].walk, zt_prog_nth(program, ZT_VALUE_IN, i), s->feed->in[i]);
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_STATE) && !status; i++)
        if (s->feed->state[i])
            status = zt_interpreter_put(j->side[0].walk, zt_prog_nth(program, ZT_VALUE_STATE, i),
                             s->feed->state[i]);
    return status;
}

static zt_status open_sides(diff_job *j, char **operands, int n)
{
    zt_ctx *ctx = j->cli->ctx;
    j->two_programs = n == 2;
    for (int i = 0; i < 2; i++) j->side[i].path = n == 0 ? "-" : operands[n == 2 ? i : 0];
    j->side[0].prog = trace_program(j->cli, operands, n);
    if (!j->side[0].prog) return zt_ctx_status(ctx);
    j->side[1].prog = n == 2 ? trace_program(j->cli, operands + 1, 1) : j->side[0].prog;
    if (!j->side[1].prog) return zt_ctx_status(ctx);
    zt_status status = open_engines(j);
    if (status) return status;
    j->subject = trace_subject(j->cli, j->o, j->side[0].prog, operands, n);
    return j->subject ? open_walks(j) : zt_ctx_status(ctx);
}

static void close_sides(diff_job *j)
{
    for (int i = 0; i < 2; i++) zt_interpreter_close(j->side[i].walk);
    zt_subject_close(j->subject);
    for (int i = 0; i < 2; i++) zt_engine_close(j->side[i].engine);
    if (j->two_programs) zt_prog_free(j->side[1].prog);
    zt_prog_free(j->side[0].prog);
}

static zt_status check_use(const diff_job *j, int n)
{
    zt_ctx *ctx = j->cli->ctx;
    if (j->cli->output && !j->o->replay)
        return zt_fail(ctx, ZT_EUSAGE, "diff: --output goes with --replay only");
    if (j->o->replay && n == 2)
        return zt_fail(ctx, ZT_EUSAGE, "--replay takes one program, not two");
    return ZT_OK;
}

zt_status trace_diff(zt_cli *cli, const trace_options *options, char **operands, int n)
{
    diff_job j = {.cli = cli, .o = options};
    zt_status status = check_use(&j, n);
    if (!status) status = open_sides(&j, operands, n);
    if (!status) status = options->replay ? diff_replay(&j) : compare(&j);
    close_sides(&j);
    return status;
}
