/* subject.c - programs that tools run: their text, their models, numbers for their symbols. */
#include "tools/common/subject.h"

#include <string.h>
#include <unistd.h>

/* May these first bytes begin a program? Of a stream that may not no more is read. */
bool zt_cli_begins_program(const void *head, size_t size)
{
    static const char word[] = "zt program";
    const char *cursor = head, *end = cursor + size;
    while (cursor < end && memchr(" \t\r", *cursor, 3)) cursor++;
    size_t remaining = (size_t)(end - cursor), word_length = sizeof word - 1;
    return memcmp(cursor, word, remaining < word_length ? remaining : word_length) == 0;
}

zt_prog *zt_cli_program(zt_cli *cli, const char *path)
{
    if (zt_cli_is_network(cli, path)) return zt_cli_network(cli, path, &(zt_nn_options){0});
    zt_source *source = zt_source_open_if(cli->ctx, path, zt_cli_begins_program);
    if (!source) return NULL;
    size_t size = (size_t)zt_source_size(source);
    char *text = zt_alloc(cli->ctx, size + 1);
    bool read = text && zt_source_read(source, 0, text, size) == ZT_OK;
    zt_prog *program = read ? zt_prog_parse(cli->ctx, zt_source_name(source), text, size) : NULL;
    zt_free(cli->ctx, text);
    zt_source_close(source);
    return program;
}

/* The `length` bytes at `pair`, "NAME=N", as the next binding. */
static zt_status parse_binding(zt_ctx *ctx, const char *pair, size_t length, zt_bindings *bindings)
{
    char shown[64], number[24];
    size_t name = strcspn(pair, "=");
    if (bindings->count == ZT_MAX_SYMBOLS || name >= length || name == 0 || name >= sizeof bindings->names[0])
        return zt_fail(ctx, ZT_EUSAGE, "--bind: '%s' is not NAME=N,...", zt_escape(shown, sizeof shown, pair, length));
    zt_binding *next = &bindings->items[bindings->count];
    size_t digits = length - name - 1;
    snprintf(bindings->names[bindings->count], sizeof bindings->names[0], "%.*s", (int)name, pair);
    snprintf(number, sizeof number, "%.*s", (int)(digits < 24 ? digits : 23), pair + name + 1);
    next->symbol = bindings->names[bindings->count];
    if (!zt_parse_i64(number, &next->value) || next->value < 0)
        return zt_fail(ctx, ZT_EUSAGE, "--bind: '%s' is not a non-negative integer",
                       zt_escape(shown, sizeof shown, pair + name + 1, digits));
    bindings->count++;
    return ZT_OK;
}

zt_status zt_bindings_parse(zt_ctx *ctx, const char *text, zt_bindings *bindings)
{
    zt_status status = ZT_OK;
    bindings->count = 0;
    for (const char *pair = text; pair && *pair && status == ZT_OK;) {
        size_t length = strcspn(pair, ",");
        status = parse_binding(ctx, pair, length, bindings);
        pair += length + (pair[length] == ',');
    }
    return status;
}

/* Numbers for symbols that `program` does not have do nothing, where a misspelt one would leave the program's own. */
static void warn_of_others(zt_ctx *ctx, const zt_prog *program, const zt_bindings *bindings)
{
    char shown[96];
    for (int i = 0; i < bindings->count; i++) {
        int symbol = 0;
        while (symbol < zt_prog_n_symbols(program) && strcmp(zt_prog_symbol_name(program, symbol), bindings->items[i].symbol))
            symbol++;
        if (symbol == zt_prog_n_symbols(program))
            zt_log(ctx, ZT_LOG_WARN, "--bind: the program has no symbol '%s'",
                   zt_escape(shown, sizeof shown, bindings->items[i].symbol, strlen(bindings->items[i].symbol)));
    }
}

static zt_status parse_bindings_for(zt_ctx *ctx, const char *text, const zt_prog *program, zt_bindings *bindings)
{
    zt_status status = zt_bindings_parse(ctx, text, bindings);
    if (!status) warn_of_others(ctx, program, bindings);
    return status;
}

zt_status zt_bindings_of(zt_ctx *ctx, const char *text, const zt_prog *program, zt_bindings *bindings)
{
    zt_status status = parse_bindings_for(ctx, text, program, bindings);
    if (!status) zt_prog_bindings(program, bindings->items, &bindings->count);
    return status;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* -m, or the network that the program was made of, or the file that it names. */
static zt_status open_model(zt_subject *subject, const zt_subject_opts *options)
{
    zt_ctx *ctx = subject->cli->ctx;
    const char *named = zt_prog_model_file(subject->prog);
    char shown[96];
    const char *given = options->model ? options->model : zt_cli_is_network(subject->cli, options->path) ? options->path : NULL;
    if (!given && !named) return ZT_OK;
    char *path = given ? zt_strdup(ctx, given) : zt_cli_beside(ctx, options->path, named);
    if (!path) return ZT_ENOMEM;
    if (!given && access(path, F_OK))
        zt_fail(ctx, ZT_ENOENT, "the program's model '%s' does not exist: specify one with -m",
                zt_escape(shown, sizeof shown, named, strlen(named)));
    else if (zt_cli_is_network(subject->cli, path))
        subject->network = zt_nn_open(ctx, path, subject->cli->seed);
    else
        subject->model = zt_model_open(ctx, path);
    zt_free(ctx, path);
    zt_status status = zt_ctx_status(ctx);
    if (subject->model) status = zt_prog_check_model(ctx, subject->prog, subject->model);
    if (subject->network) status = zt_prog_check_id(ctx, subject->prog, zt_nn_name(subject->network), zt_nn_id(subject->network));
    if (!status && subject->model) subject->model_store = zt_gguf_store(subject->model);
    if (!status && subject->network) subject->model_store = zt_nn_store(subject->network);
    return status;
}

/* ---- data: two stores as one. Handles are theirs times two, odd for the model's. ------------- */

static zt_status find_data(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_subject *subject = user;
    const zt_store *stores[] = {&subject->data_store, &subject->model_store};
    for (int i = 0; i < 2; i++) {
        zt_status status = stores[i]->find ? stores[i]->find(stores[i]->user, name, type, handle) : ZT_ENOENT;
        if (status == ZT_OK) *handle = 2 * *handle + i;
        if (status != ZT_ENOENT) return status;
    }
    return ZT_ENOENT;
}

static zt_status read_some(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    const zt_subject *subject = user;
    const zt_store *store = handle % 2 ? &subject->model_store : &subject->data_store;
    return store->read(store->user, handle / 2, offset, dst, size);
}

static zt_status open_data(zt_subject *subject, const zt_subject_opts *options)
{
    if (options->data) subject->data = zt_checkpoint_open(subject->cli->ctx, options->data, 0);
    if (options->data && !subject->data) return zt_ctx_status(subject->cli->ctx);
    if (subject->data) subject->data_store = zt_checkpoint_store(subject->data);
    subject->store = (zt_store){.user = subject, .find = find_data, .read = read_some};
    return ZT_OK;
}

/* ---- the subject ----------------------------------------------------------------------------- */

/* Standard input is one file. */
static zt_status check_stdin(zt_ctx *ctx, const zt_subject_opts *options)
{
    const char *const paths[] = {options->path, options->model, options->data, options->input};
    int count = 0;
    for (int i = 0; i < 4; i++) count += paths[i] && !strcmp(paths[i], "-");
    return count < 2 ? ZT_OK : zt_fail(ctx, ZT_EUSAGE, "standard input (-) can be used for one file only");
}

static zt_status open_input(zt_subject *subject, const zt_subject_opts *options)
{
    zt_status status = parse_bindings_for(subject->cli->ctx, options->bindings, subject->prog, &subject->bind);
    if (!status && options->input) subject->input = zt_checkpoint_open(subject->cli->ctx, options->input, 0);
    if (!status && options->input && !subject->input) status = zt_ctx_status(subject->cli->ctx);
    if (!status && subject->input)
        status =
            zt_bound_inputs_symbols(subject->cli->ctx, subject->prog, subject->input, subject->bind.items, &subject->bind.count);
    if (!status) zt_prog_bindings(subject->prog, subject->bind.items, &subject->bind.count);
    return status;
}

static zt_status open_all(zt_subject *subject, const zt_subject_opts *options)
{
    zt_ctx *ctx = subject->cli->ctx;
    zt_status status = check_stdin(ctx, options);
    if (!status) status = open_input(subject, options);
    if (!status) status = open_model(subject, options);
    if (!status) status = open_data(subject, options);
    if (status) return status;
    zt_bound_inputs_opts bound_options = {.bind = subject->bind.items,
                                          .n_bind = subject->bind.count,
                                          .from = subject->input,
                                          .store = &subject->store,
                                          .counts = options->counts,
                                          .draw = options->draw,
                                          .draw_data = options->draw && !subject->model && !subject->network && !subject->data,
                                          .seed = subject->cli->seed};
    subject->inputs = zt_bound_inputs_new(ctx, subject->prog, &bound_options);
    return subject->inputs ? ZT_OK : zt_ctx_status(ctx);
}

zt_subject *zt_subject_open(zt_cli *cli, const zt_prog *program, const zt_subject_opts *options)
{
    zt_subject *subject = zt_calloc(cli->ctx, 1, sizeof *subject);
    if (!subject) zt_checkpoint_close(options->tensors);
    if (!subject) return NULL;
    subject->cli = cli;
    subject->prog = program;
    subject->input = options->tensors;
    if (open_all(subject, options) == ZT_OK) return subject;
    zt_subject_close(subject);
    return NULL;
}

void zt_subject_close(zt_subject *subject)
{
    if (!subject) return;
    zt_bound_inputs_free(subject->inputs);
    zt_checkpoint_close(subject->input);
    zt_checkpoint_close(subject->data);
    zt_gguf_close(subject->model);
    zt_nn_close(subject->network);
    zt_free(subject->cli->ctx, subject);
}

zt_session *zt_subject_session(const zt_subject *subject, zt_engine *engine)
{
    return zt_subject_session_of(subject, engine, subject->prog);
}

zt_session *zt_subject_session_of(const zt_subject *subject, zt_engine *engine, const zt_prog *made)
{
    zt_session_opts session_options = {
        .strict = subject->cli->strict, .fixed = subject->bind.items, .n_fixed = subject->bind.count};
    zt_session *session = zt_session_open(engine, made, &subject->inputs->store, &session_options);
    if (!session || zt_bound_inputs_states(subject->inputs, session) == ZT_OK) return session;
    zt_session_close(session);
    return NULL;
}

zt_status zt_subject_step(const zt_subject *subject, zt_session *session)
{
    return zt_session_step(session, subject->bind.items, subject->bind.count, (const void *const *)subject->inputs->in,
                           subject->inputs->out);
}
