/* subject.c - programs that tools run: their text, their models, numbers for their symbols. */
#include "tools/common/subject.h"

#include <string.h>
#include <unistd.h>

/* May these first bytes begin a program? Of a stream that may not no more is read. */
bool zt_cli_begins_program(const void *head, size_t n)
{
    static const char word[] = "zt program";
    const char *at = head, *end = at + n;
    while (at < end && memchr(" \t\r", *at, 3)) at++;
    size_t left = (size_t)(end - at), most = sizeof word - 1;
    return memcmp(at, word, left < most ? left : most) == 0;
}

zt_prog *zt_cli_program(zt_cli *cli, const char *path)
{
    if (zt_cli_is_network(cli, path)) return zt_cli_network(cli, path, &(zt_nn_options){0});
    zt_source *s = zt_source_open_if(cli->ctx, path, zt_cli_begins_program);
    if (!s) return NULL;
    size_t n = (size_t)zt_source_size(s);
    char *text = zt_alloc(cli->ctx, n + 1);
    bool read = text && zt_source_read(s, 0, text, n) == ZT_OK;
    zt_prog *p = read ? zt_prog_parse(cli->ctx, zt_source_name(s), text, n) : NULL;
    zt_free(cli->ctx, text);
    zt_source_close(s);
    return p;
}

/* The n bytes at `at`, "NAME=N", as the next binding. */
static zt_status take_binding(zt_ctx *ctx, const char *at, size_t n, zt_bindings *b)
{
    char shown[64], number[24];
    size_t name = strcspn(at, "=");
    if (b->n == ZT_MAX_SYMBOLS || name >= n || name == 0 || name >= sizeof b->name[0])
        return zt_fail(ctx, ZT_EUSAGE, "--bind: '%s' is not NAME=N,...",
                       zt_escape(shown, sizeof shown, at, n));
    zt_binding *next = &b->at[b->n];
    size_t digits = n - name - 1;
    snprintf(b->name[b->n], sizeof b->name[0], "%.*s", (int)name, at);
    snprintf(number, sizeof number, "%.*s", (int)(digits < 24 ? digits : 23), at + name + 1);
    next->symbol = b->name[b->n];
    if (!zt_parse_i64(number, &next->value) || next->value < 0)
        return zt_fail(ctx, ZT_EUSAGE, "--bind: '%s' is not a size",
                       zt_escape(shown, sizeof shown, at + name + 1, digits));
    b->n++;
    return ZT_OK;
}

zt_status zt_bindings_parse(zt_ctx *ctx, const char *text, zt_bindings *b)
{
    zt_status s = ZT_OK;
    b->n = 0;
    for (const char *at = text; at && *at && s == ZT_OK;) {
        size_t n = strcspn(at, ",");
        s = take_binding(ctx, at, n, b);
        at += n + (at[n] == ',');
    }
    return s;
}

/* Numbers for symbols that p does not have do nothing, where a misspelt one would leave p's own. */
static void warn_of_others(zt_ctx *ctx, const zt_prog *p, const zt_bindings *b)
{
    char shown[96];
    for (int i = 0; i < b->n; i++) {
        int s = 0;
        while (s < zt_prog_n_symbols(p) && strcmp(zt_prog_symbol_name(p, s), b->at[i].symbol)) s++;
        if (s == zt_prog_n_symbols(p))
            zt_log(ctx, ZT_LOG_WARN, "--bind: the program has no symbol '%s'",
                   zt_escape(shown, sizeof shown, b->at[i].symbol, strlen(b->at[i].symbol)));
    }
}

static zt_status parse_for(zt_ctx *ctx, const char *text, const zt_prog *p, zt_bindings *b)
{
    zt_status s = zt_bindings_parse(ctx, text, b);
    if (!s) warn_of_others(ctx, p, b);
    return s;
}

zt_status zt_bindings_of(zt_ctx *ctx, const char *text, const zt_prog *p, zt_bindings *b)
{
    zt_status s = parse_for(ctx, text, p, b);
    if (!s) zt_prog_bindings(p, b->at, &b->n);
    return s;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* -m, or the network that the program was made of, or the file that it names. */
static zt_status open_model(zt_subject *s, const zt_subject_opts *o)
{
    zt_ctx *ctx = s->cli->ctx;
    const char *named = zt_prog_model_file(s->prog);
    char shown[96];
    const char *given = o->model ? o->model : zt_cli_is_network(s->cli, o->path) ? o->path : NULL;
    if (!given && !named) return ZT_OK;
    char *path = given ? zt_strdup(ctx, given) : zt_cli_beside(ctx, o->path, named);
    if (!path) return ZT_ENOMEM;
    if (!given && access(path, F_OK))
        zt_fail(ctx, ZT_ENOENT, "the program's model '%s' is not there: name one with -m",
                zt_escape(shown, sizeof shown, named, strlen(named)));
    else if (zt_cli_is_network(s->cli, path))
        s->network = zt_nn_open(ctx, path, s->cli->seed);
    else
        s->model = zt_model_open(ctx, path);
    zt_free(ctx, path);
    zt_status st = zt_ctx_status(ctx);
    if (s->model) st = zt_prog_check_model(ctx, s->prog, s->model);
    if (s->network)
        st = zt_prog_check_id(ctx, s->prog, zt_nn_name(s->network), zt_nn_id(s->network));
    if (!st && s->model) s->of_model = zt_gguf_store(s->model);
    if (!st && s->network) s->of_model = zt_nn_store(s->network);
    return st;
}

/* ---- data: two stores as one. Handles are theirs times two, odd for the model's. ------------- */

static zt_status find_data(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_subject *s = user;
    const zt_store *of[] = {&s->of_data, &s->of_model};
    for (int i = 0; i < 2; i++) {
        zt_status st = of[i]->find ? of[i]->find(of[i]->user, name, type, handle) : ZT_ENOENT;
        if (st == ZT_OK) *handle = 2 * *handle + i;
        if (st != ZT_ENOENT) return st;
    }
    return ZT_ENOENT;
}

static zt_status read_some(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    const zt_subject *s = user;
    const zt_store *of = handle % 2 ? &s->of_model : &s->of_data;
    return of->read(of->user, handle / 2, offset, dst, n);
}

static zt_status open_data(zt_subject *s, const zt_subject_opts *o)
{
    if (o->data) s->data = zt_checkpoint_open(s->cli->ctx, o->data, 0);
    if (o->data && !s->data) return zt_ctx_status(s->cli->ctx);
    if (s->data) s->of_data = zt_checkpoint_store(s->data);
    s->both = (zt_store){.user = s, .find = find_data, .read = read_some};
    return ZT_OK;
}

/* ---- the subject ----------------------------------------------------------------------------- */

/* Standard input is one file. */
static zt_status check_stdin(zt_ctx *ctx, const zt_subject_opts *o)
{
    const char *const from[] = {o->path, o->model, o->data, o->input};
    int n = 0;
    for (int i = 0; i < 4; i++) n += from[i] && !strcmp(from[i], "-");
    return n < 2 ? ZT_OK : zt_fail(ctx, ZT_EUSAGE, "standard input (-) can be one file only");
}

static zt_status open_input(zt_subject *s, const zt_subject_opts *o)
{
    zt_status st = parse_for(s->cli->ctx, o->bind, s->prog, &s->bind);
    if (!st && o->input) s->input = zt_checkpoint_open(s->cli->ctx, o->input, 0);
    if (!st && o->input && !s->input) st = zt_ctx_status(s->cli->ctx);
    if (!st && s->input)
        st = zt_bound_inputs_symbols(s->cli->ctx, s->prog, s->input, s->bind.at, &s->bind.n);
    if (!st) zt_prog_bindings(s->prog, s->bind.at, &s->bind.n);
    return st;
}

static zt_status make(zt_subject *s, const zt_subject_opts *o)
{
    zt_ctx *ctx = s->cli->ctx;
    zt_status st = check_stdin(ctx, o);
    if (!st) st = open_input(s, o);
    if (!st) st = open_model(s, o);
    if (!st) st = open_data(s, o);
    if (st) return st;
    zt_bound_inputs_opts fo = {.bind = s->bind.at,
                       .n_bind = s->bind.n,
                       .from = s->input,
                       .store = &s->both,
                       .counts = o->counts,
                       .draw = o->draw,
                       .draw_data = o->draw && !s->model && !s->network && !s->data,
                       .seed = s->cli->seed};
    s->feed = zt_bound_inputs_new(ctx, s->prog, &fo);
    return s->feed ? ZT_OK : zt_ctx_status(ctx);
}

zt_subject *zt_subject_open(zt_cli *cli, const zt_prog *p, const zt_subject_opts *o)
{
    zt_subject *s = zt_calloc(cli->ctx, 1, sizeof *s);
    if (!s) zt_checkpoint_close(o->tensors);
    if (!s) return NULL;
    s->cli = cli;
    s->prog = p;
    s->input = o->tensors;
    if (make(s, o) == ZT_OK) return s;
    zt_subject_close(s);
    return NULL;
}

void zt_subject_close(zt_subject *s)
{
    if (!s) return;
    zt_bound_inputs_free(s->feed);
    zt_checkpoint_close(s->input);
    zt_checkpoint_close(s->data);
    zt_gguf_close(s->model);
    zt_nn_close(s->network);
    zt_free(s->cli->ctx, s);
}

zt_session *zt_subject_session(const zt_subject *s, zt_engine *e)
{
    return zt_subject_session_of(s, e, s->prog);
}

zt_session *zt_subject_session_of(const zt_subject *s, zt_engine *e, const zt_prog *made)
{
    zt_session_opts so = {.strict = s->cli->strict, .fixed = s->bind.at, .n_fixed = s->bind.n};
    zt_session *run = zt_session_open(e, made, &s->feed->store, &so);
    if (!run || zt_bound_inputs_states(s->feed, run) == ZT_OK) return run;
    zt_session_close(run);
    return NULL;
}

zt_status zt_subject_step(const zt_subject *s, zt_session *run)
{
    return zt_session_step(run, s->bind.at, s->bind.n, (const void *const *)s->feed->in,
                           s->feed->out);
}
