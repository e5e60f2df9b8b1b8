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
    size_t n = strlen(text), word;
    if (n > 3 && !strcmp(text + n - 3, ".zt")) return true;
    text += strspn(text, " \t");
    word = strcspn(text, " \t");
    return zt_op_find(text, word, &op) && strchr(text + word, '[');
}

static bool is_model(const char *text)
{
    struct stat st;
    return stat(text, &st) == 0 &&
           (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !(st.st_mode & 0111)));
}

/* ---- commands that print results ------------------------------------------------------------- */

static zt_status read_pipe(zt_ctx *ctx, int fd, zt_str *s)
{
    char piece[4096];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n == 0) return ZT_OK;
        if (n < 0 && errno != EINTR) return zt_fail(ctx, ZT_EIO, "a pipe: %s", strerror(errno));
        if (zt_cli_interrupted()) return ZT_EINTR;
        if (n > 0 && s->len > MOST_BYTES)
            return zt_fail(ctx, ZT_EDATA, "a command prints more than %d bytes", MOST_BYTES);
        if (n > 0 && zt_str_put(s, piece, (size_t)n)) return zt_ctx_status(ctx);
    }
}

/* What the command prints. */
static zt_status catch_output(const bench_line *c, zt_str *s)
{
    int fd[2];
    double when;
    struct rusage u;
    if (pipe2(fd, O_CLOEXEC)) return zt_fail(c->ctx, ZT_ESYS, "a pipe: %s", strerror(errno));
    int pid = bench_start(c, fd[1], false, &when);
    close(fd[1]);
    zt_status st = pid < 0 ? zt_ctx_status(c->ctx) : read_pipe(c->ctx, fd[0], s);
    close(fd[0]); /* what still writes ends by SIGPIPE */
    zt_status end = pid < 0 ? ZT_OK : bench_wait(c, pid, false, &u);
    return st ? st : end;
}

/* A round's medians become samples; the first round makes the rows. */
static zt_status add_round(zt_ctx *ctx, const bench_options *o, bench_list *l,
                           const bench_list *round, bool first, double *scratch)
{
    bench_result *to = l->first;
    for (const bench_result *r = round->first; r; r = r->next) {
        if (first) to = bench_add(ctx, l, r->test, r->threads, r->unit, bench_most(o));
        if (first && !to) return zt_ctx_status(ctx);
        if (!to || to->threads != r->threads || strcmp(to->test, r->test) ||
            strcmp(to->unit, r->unit))
            return zt_fail(ctx, ZT_EDATA, "'%s' prints other rows than before", l->command);
        to->samples[to->n++] = bench_summarize(r->samples, r->n, scratch).median;
        to = to->next;
    }
    return to ? zt_fail(ctx, ZT_EDATA, "'%s' prints fewer rows than before", l->command) : ZT_OK;
}

static zt_status one_round(const bench_line *c, const bench_options *o, bench_list *l,
                           double *scratch)
{
    zt_str s;
    bench_list round = {0};
    bool first = !l->first;
    zt_str_init(&s, c->ctx);
    zt_status st = catch_output(c, &s);
    if (!st) st = bench_read_text(c->ctx, c->name, s.data ? s.data : "", s.len, &round);
    if (!st) st = add_round(c->ctx, o, l, &round, first, scratch);
    if (!st && first) {
        l->machine = round.machine;
        memcpy(l->engine, round.engine, sizeof l->engine);
    }
    bench_list_free(c->ctx, &round);
    zt_str_fini(&s);
    return st;
}

static zt_status run_rounds(zt_cli *cli, const bench_options *o, const bench_line c[2],
                            bench_list l[2])
{
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    zt_status s = scratch ? ZT_OK : zt_ctx_status(cli->ctx);
    int64_t reps = o->reps;
    for (int64_t i = 0; i < reps && !s; i++) {
        for (int turn = 0; turn < 2 && !s; turn++) {
            int k = bench_turn(2, i, turn);
            s = zt_cli_interrupted() ? ZT_EINTR : one_round(&c[k], o, &l[k], scratch);
        }
        zt_progress(cli, &(zt_work){"compare", NULL, "rounds", (double)(i + 1), (double)reps});
        if (!s && i + 1 == reps) s = bench_more_of(cli, o, l, &reps);
    }
    zt_free(cli->ctx, scratch);
    return s;
}

static zt_status compare_commands(zt_cli *cli, const bench_options *o)
{
    bench_line c[2] = {{0}};
    bench_list l[2] = {{0}};
    zt_status s = ZT_OK;
    for (int k = 0; k < 2 && !s; k++) {
        s = bench_line_of(cli->ctx, cli->operands[1 + k], &c[k]);
        if (!s && !(l[k].command = zt_strdup(cli->ctx, c[k].name))) s = ZT_ENOMEM;
    }
    if (!s) s = run_rounds(cli, o, c, l);
    if (!s) s = bench_answer(cli, o, l);
    for (int k = 0; k < 2; k++) {
        bench_line_free(&c[k]);
        bench_list_free(cli->ctx, &l[k]);
    }
    return s;
}

zt_status bench_versus(zt_cli *cli, const bench_options *o)
{
    if (cli->n_operands != 3)
        return zt_fail(cli->ctx, ZT_EUSAGE, "compare --vs takes two subjects, not %d",
                       cli->n_operands - 1);
    const char *old = cli->operands[1], *now = cli->operands[2];
    bool ops = is_op(old) && is_op(now), models = !ops && is_model(old) && is_model(now);
    const char *none = ops ? "prompt|generate|exact" : models ? "bind|ops"
                           : BENCH_MEASURING "|prompt|generate|exact|bind|ops";
    if (zt_cli_refuse_given(cli, none, ops ? "ops" : models ? "models" : "commands"))
        return ZT_EUSAGE;
    return ops ? bench_op(cli, o) : models ? bench_model(cli, o) : compare_commands(cli, o);
}
