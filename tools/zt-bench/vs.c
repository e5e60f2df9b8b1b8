/* vs.c - zt-bench compare --vs OLD NEW: two subjects in turn, whatever they are.
 *
 * Two ops or programs are measured as by op --vs, two models as by model --vs. Anything else is a
 * command that prints results, as zt-bench of two builds does with --format json: each round runs
 * both, and the median of each row that one prints is one sample.
 */
#include "tools/zt-bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 28 }; /* that a command may print */

/* ---- kinds ----------------------------------------------------------------------------------- */

/* A program's file, or a line such as 'neg f32[4]'. */
static bool is_op(const char *text)
{
    zt_op op;
    size_t length = strlen(text), word;
    if (length > 3 && !strcmp(text + length - 3, ".zt")) return true;
    text += strspn(text, " \t");
    word = strcspn(text, " \t");
    return zt_op_find(text, word, &op) && strchr(text + word, '[');
}

static bool is_model(const char *text)
{
    struct stat info;
    return stat(text, &info) == 0 && (S_ISDIR(info.st_mode) || (S_ISREG(info.st_mode) && !(info.st_mode & 0111)));
}

/* ---- commands that print results ------------------------------------------------------------- */

static zt_status read_pipe(zt_ctx *ctx, int descriptor, zt_str *text)
{
    char piece[4096];
    for (;;) {
        ssize_t size = read(descriptor, piece, sizeof piece);
        if (size == 0) return ZT_OK;
        if (size < 0 && errno != EINTR) return zt_fail(ctx, ZT_EIO, "pipe: %s", strerror(errno));
        if (zt_cli_interrupted()) return ZT_EINTR;
        if (size > 0 && text->len > MOST_BYTES) return zt_fail(ctx, ZT_EDATA, "a command printed more than %d bytes", MOST_BYTES);
        if (size > 0 && zt_str_put(text, piece, (size_t)size)) return zt_ctx_status(ctx);
    }
}

/* What the command prints. */
static zt_status catch_output(const bench_line *command, zt_str *text)
{
    int pipe_ends[2];
    double when;
    struct rusage usage;
    if (pipe2(pipe_ends, O_CLOEXEC)) return zt_fail(command->ctx, ZT_ESYS, "pipe: %s", strerror(errno));
    int pid = bench_start(command, pipe_ends[1], false, &when);
    close(pipe_ends[1]);
    zt_status status = pid < 0 ? zt_ctx_status(command->ctx) : read_pipe(command->ctx, pipe_ends[0], text);
    close(pipe_ends[0]); /* what still writes ends by SIGPIPE */
    zt_status end = pid < 0 ? ZT_OK : bench_wait(command, pid, false, &usage);
    return status ? status : end;
}

/* A round's medians become samples; the first round makes the rows. */
static zt_status add_round(zt_ctx *ctx, const bench_options *options, bench_list *list, const bench_list *round, bool first,
                           double *scratch)
{
    bench_result *target = list->first;
    for (const bench_result *result = round->first; result; result = result->next) {
        if (first) target = bench_add(ctx, list, result->test, result->threads, result->unit, bench_most(options));
        if (first && !target) return zt_ctx_status(ctx);
        if (!target || target->threads != result->threads || strcmp(target->test, result->test) ||
            strcmp(target->unit, result->unit))
            return zt_fail(ctx, ZT_EDATA, "'%s' printed different rows from those before", list->command);
        target->samples[target->count++] = bench_summarize(result->samples, result->count, scratch).median;
        target = target->next;
    }
    return target ? zt_fail(ctx, ZT_EDATA, "'%s' printed fewer rows than before", list->command) : ZT_OK;
}

static zt_status one_round(const bench_line *commands, const bench_options *options, bench_list *list, double *scratch)
{
    zt_str text;
    bench_list round = {0};
    bool first = !list->first;
    zt_str_init(&text, commands->ctx);
    zt_status status = catch_output(commands, &text);
    if (!status) status = bench_read_text(commands->ctx, commands->name, text.data ? text.data : "", text.len, &round);
    if (!status) status = add_round(commands->ctx, options, list, &round, first, scratch);
    if (!status && first) {
        list->machine = round.machine;
        memcpy(list->engine, round.engine, sizeof list->engine);
    }
    bench_list_free(commands->ctx, &round);
    zt_str_fini(&text);
    return status;
}

static zt_status run_rounds(zt_cli *cli, const bench_options *options, const bench_line commands[2], bench_list lists[2])
{
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    zt_status status = scratch ? ZT_OK : zt_ctx_status(cli->ctx);
    int64_t reps = options->reps;
    for (int64_t i = 0; i < reps && !status; i++) {
        for (int turn = 0; turn < 2 && !status; turn++) {
            int k = bench_turn(2, i, turn);
            status = zt_cli_interrupted() ? ZT_EINTR : one_round(&commands[k], options, &lists[k], scratch);
        }
        zt_progress(cli, &(zt_work){"compare", NULL, "rounds", (double)(i + 1), (double)reps});
        if (!status && i + 1 == reps) status = bench_more_of(cli, options, lists, &reps);
    }
    zt_free(cli->ctx, scratch);
    return status;
}

static zt_status compare_commands(zt_cli *cli, const bench_options *options)
{
    bench_line commands[2] = {{0}};
    bench_list lists[2] = {{0}};
    zt_status status = ZT_OK;
    for (int k = 0; k < 2 && !status; k++) {
        status = bench_line_of(cli->ctx, cli->operands[1 + k], &commands[k]);
        if (!status && !(lists[k].command = zt_strdup(cli->ctx, commands[k].name))) status = ZT_ENOMEM;
    }
    if (!status) status = run_rounds(cli, options, commands, lists);
    if (!status) status = bench_answer(cli, options, lists);
    for (int k = 0; k < 2; k++) {
        bench_line_free(&commands[k]);
        bench_list_free(cli->ctx, &lists[k]);
    }
    return status;
}

zt_status bench_versus(zt_cli *cli, const bench_options *options)
{
    if (cli->n_operands != 3) return zt_fail(cli->ctx, ZT_EUSAGE, "compare --vs needs two subjects, got %d", cli->n_operands - 1);
    const char *old = cli->operands[1], *now = cli->operands[2];
    bool ops = is_op(old) && is_op(now), models = !ops && is_model(old) && is_model(now);
    const char *none = ops      ? "prompt|generate|depth|exact"
                       : models ? "bind|ops"
                                : BENCH_MEASURING "|prompt|generate|depth|exact|bind|ops";
    if (zt_cli_refuse_given(cli, none, ops ? "ops" : models ? "models" : "commands")) return ZT_EUSAGE;
    return ops ? bench_op(cli, options) : models ? bench_model(cli, options) : compare_commands(cli, options);
}
