/* rows.c - zt-run of a network some rows at a time: keys and values of its attention are kept from
 * one step to the next. */
#include "tools/common/subject.h"
#include "tools/zt-run/run.h"

#include <string.h>

typedef struct pieces {
    zt_cli *cli;
    const zt_bound_inputs *feed; /* of the program that takes all rows at once */
    zt_prog *prog;       /* that takes some, after its passes */
    zt_session *session;
    int64_t rows, each; /* of all, at most of a step */
    int32_t *pos;       /* [rows] */
    int64_t counter;    /* of what is drawn: one more each step */
    const void **in;    /* of prog's inputs: of all rows */
    size_t *step;       /* bytes of a row of these; 0: the same for every step */
} pieces;

static size_t row_bytes(const zt_type *t, int64_t rows)
{
    return rows ? zt_type_bytes(t) / (size_t)rows : 0;
}

/* What comes out must have a row for each that goes in. */
static zt_status check_rows(pieces *r)
{
    const zt_type *y = &r->feed->bound->type[zt_prog_output(r->feed->prog, 0)->value];
    const zt_type *x = &r->feed->bound->type[zt_prog_nth(r->feed->prog, ZT_VALUE_IN, 0)];
    r->rows = x->dim[0];
    if (y->rank > 0 && y->dim[0] == r->rows) return ZT_OK;
    return zt_fail(r->cli->ctx, ZT_EUSAGE,
                   "--chunk: the network does not give a row for each that it takes");
}

/* The network's program with caches, for inputs of the shape that came. */
static zt_status lower(pieces *r, const char *model, zt_engine *e)
{
    zt_ctx *ctx = r->cli->ctx;
    const zt_type *x =
        &zt_prog_value(r->feed->prog, zt_prog_nth(r->feed->prog, ZT_VALUE_IN, 0))->type;
    zt_nn_shape in = {.rank = x->rank};
    memcpy(in.dim, x->dim, sizeof in.dim);
    zt_prog *p = zt_cli_network(r->cli, model, &(zt_nn_options){.input = &in, .cache = true});
    zt_binding sample[] = {{"n", r->each}, {"ctx", r->rows}};
    int n = p ? zt_prog_n_symbols(p) : 0;
    zt_pass_opts po = {.sample = sample, .n_sample = n, .engine = e};
    r->prog = p ? zt_prog_passes(ctx, p, &po, NULL) : NULL;
    zt_session_opts so = {.strict = r->cli->strict, .fixed = &sample[1], .n_fixed = n > 1};
    if (r->prog) r->session = zt_session_open(e, r->prog, &r->feed->store, &so);
    zt_prog_free(p);
    return r->session ? ZT_OK : zt_ctx_status(ctx);
}

static int input_named(const zt_prog *p, const char *name)
{
    for (int i = 0; i < zt_prog_count(p, ZT_VALUE_IN); i++)
        if (!strcmp(zt_prog_value(p, zt_prog_nth(p, ZT_VALUE_IN, i))->name, name)) return i;
    return -1;
}

static zt_status find_inputs(pieces *r)
{
    int n = zt_prog_count(r->prog, ZT_VALUE_IN);
    r->pos = zt_alloc_array(r->cli->ctx, (size_t)r->rows + 1, sizeof *r->pos);
    r->in = zt_calloc(r->cli->ctx, (size_t)n + 1, sizeof *r->in);
    r->step = zt_calloc(r->cli->ctx, (size_t)n + 1, sizeof *r->step);
    if (!r->pos || !r->in || !r->step) return ZT_ENOMEM;
    for (int64_t i = 0; i < r->rows; i++) r->pos[i] = (int32_t)i;
    for (int i = 0; i < n; i++) {
        const char *name = zt_prog_value(r->prog, zt_prog_nth(r->prog, ZT_VALUE_IN, i))->name;
        int at = input_named(r->feed->prog, name);
        const zt_type *t =
            at < 0 ? NULL : &r->feed->bound->type[zt_prog_nth(r->feed->prog, ZT_VALUE_IN, at)];
        r->in[i] = t ? r->feed->in[at] : r->pos;
        r->step[i] = !t ? sizeof *r->pos : at == 0 ? row_bytes(t, r->rows) : 0;
        if (t && t->rank == 0 && !strcmp(name, "counter")) {
            memcpy(&r->counter, r->in[i], sizeof r->counter);
            r->in[i] = &r->counter;
        }
    }
    return ZT_OK;
}

static zt_status run_piece(pieces *r, int64_t from, int64_t n)
{
    const zt_type *y = &r->feed->bound->type[zt_prog_output(r->feed->prog, 0)->value];
    const void *in[ZT_MAX_IN] = {0};
    void *out = (char *)r->feed->out[0] + (size_t)from * row_bytes(y, r->rows);
    for (int i = 0; i < zt_prog_count(r->prog, ZT_VALUE_IN) && i < ZT_MAX_IN; i++)
        in[i] = (const char *)r->in[i] + (size_t)from * r->step[i];
    zt_status s = zt_session_step(r->session, &(zt_binding){"n", n}, 1, in, &out);
    r->counter++;
    return s;
}

zt_status run_rows(zt_cli *cli, const run_options *o, const zt_bound_inputs *feed)
{
    pieces r = {.cli = cli, .feed = feed, .each = o->chunk};
    zt_status s = check_rows(&r);
    if (s || r.rows == 0) return s;
    zt_engine *e = zt_cli_engine(cli);
    s = e ? lower(&r, o->model, e) : zt_ctx_status(cli->ctx);
    if (!s) s = find_inputs(&r);
    for (int64_t at = 0; at < r.rows && !s; at += r.each)
        s = run_piece(&r, at, r.rows - at < r.each ? r.rows - at : r.each);
    zt_free(cli->ctx, r.pos);
    zt_free(cli->ctx, r.in);
    zt_free(cli->ctx, r.step);
    zt_session_close(r.session);
    zt_prog_free(r.prog);
    zt_engine_close(e);
    return s;
}
