/* score_ranks.c - scores by the other ranks of mpirun: rank 0 deals the files, each other rank runs the command on them.
 *
 * Rank 0 sends a rank at most as many files as it has workers, and more when it has answered all of them. A score does not depend
 * on who measured it, so that the run is the same for any number of ranks.
 */
#include "tools/zt-dna/score.h"

#include <signal.h>
#include <string.h>

enum { END = -1, POLL_S = 1 };

typedef struct ranks_scorer {
    dna_scorer scorer; /* first: the interface */
    zt_cli *cli;
    int workers;
    int *waiting; /* [ranks]: files that a rank has not answered */
} ranks_scorer;

/* What a rank answers. */
typedef struct answer {
    int32_t index; /* of the job */
    int32_t kind;
    double fitness;
    char reason[DNA_REASON];
} answer;

/* ---- texts and numbers ----------------------------------------------------------------------- */

static zt_status send_text(zt_ranks *ranks, int to, const char *text)
{
    uint64_t size = strlen(text);
    zt_status status = zt_ranks_send(ranks, to, &size, sizeof size);
    return status ? status : zt_ranks_send(ranks, to, text, size);
}

/* From zt_alloc; NULL on error. */
static char *receive_text(zt_cli *cli)
{
    uint64_t size = 0;
    zt_status status = zt_ranks_receive(cli->ranks, 0, &size, sizeof size);
    char *text = status ? NULL : zt_calloc(cli->ctx, 1, size + 1);
    if (text) status = zt_ranks_receive(cli->ranks, 0, text, size);
    if (!status) return text;
    zt_free(cli->ctx, text);
    return NULL;
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

/* Sends the next files to a rank that has none. */
static zt_status deal(ranks_scorer *state, int rank, const dna_job *jobs, int count, int *next)
{
    zt_ranks *ranks = state->cli->ranks;
    int32_t files = (int32_t)(count - *next < state->workers ? count - *next : state->workers);
    if (!files || state->waiting[rank]) return ZT_OK;
    zt_status status = zt_ranks_send(ranks, rank, &files, sizeof files);
    for (int32_t i = 0; i < files && status == ZT_OK; i++) {
        int32_t index = *next;
        status = zt_ranks_send(ranks, rank, &index, sizeof index);
        if (status == ZT_OK) status = send_text(ranks, rank, jobs[(*next)++].path);
        state->waiting[rank]++;
    }
    return status;
}

static zt_status take_answer(ranks_scorer *state, int rank, const dna_job *jobs, int count, dna_scored_fn *scored, void *user)
{
    answer got;
    zt_status status = zt_ranks_receive(state->cli->ranks, rank, &got, sizeof got);
    if (status) return status;
    if (got.index < 0 || got.index >= count || got.kind < 0 || got.kind >= DNA_SCORE_KINDS || !state->waiting[rank])
        return zt_fail(state->cli->ctx, ZT_ESYS, "rank %d sent a score of no member", rank);
    dna_score score = {.kind = (dna_score_kind)got.kind, .fitness = got.fitness};
    memcpy(score.reason, got.reason, sizeof score.reason - 1);
    state->waiting[rank]--;
    return scored(user, jobs[got.index].member, &score);
}

static zt_status score_jobs(dna_scorer *scorer, const dna_job *jobs, int count, dna_scored_fn *scored, void *user)
{
    ranks_scorer *state = (ranks_scorer *)scorer;
    int ranks = zt_ranks_count(state->cli->ranks), next = 0, from;
    zt_status status = ZT_OK;
    for (int answered = 0; answered < count && status == ZT_OK;) {
        for (int rank = 1; rank < ranks && status == ZT_OK; rank++) status = deal(state, rank, jobs, count, &next);
        if (status == ZT_OK) status = zt_ranks_wait(state->cli->ranks, POLL_S, &from);
        if (status == ZT_OK && zt_cli_interrupted()) return zt_fail(state->cli->ctx, ZT_EINTR, "interrupted");
        if (status != ZT_OK || from < 0) continue;
        status = take_answer(state, from, jobs, count, scored, user);
        answered++;
    }
    return status;
}

static void close_scorer(dna_scorer *scorer)
{
    ranks_scorer *state = (ranks_scorer *)scorer;
    int32_t end = END;
    for (int rank = 1; rank < zt_ranks_count(state->cli->ranks); rank++)
        if (!state->waiting[rank]) zt_ranks_send(state->cli->ranks, rank, &end, sizeof end);
    zt_free(state->cli->ctx, state->waiting);
    zt_free(state->cli->ctx, state);
}

dna_scorer *dna_ranks_scorer(zt_cli *cli, const dna_command_opts *options)
{
    dna_scorer *checked = dna_command_scorer(cli, options); /* before the others have it */
    if (!checked) return NULL;
    checked->close(checked);
    ranks_scorer *state = zt_calloc(cli->ctx, 1, sizeof *state);
    int32_t workers = options->workers;
    double timeout = options->timeout;
    if (!state) return NULL;
    *state = (ranks_scorer){.scorer = {score_jobs, close_scorer}, .cli = cli, .workers = options->workers};
    state->waiting = zt_calloc(cli->ctx, (size_t)zt_ranks_count(cli->ranks), sizeof *state->waiting);
    zt_status status = state->waiting ? ZT_OK : ZT_ENOMEM;
    for (int rank = 1; rank < zt_ranks_count(cli->ranks) && status == ZT_OK; rank++) {
        status = zt_ranks_send(cli->ranks, rank, &workers, sizeof workers);
        if (status == ZT_OK) status = zt_ranks_send(cli->ranks, rank, &timeout, sizeof timeout);
        if (status == ZT_OK) status = send_text(cli->ranks, rank, options->command);
    }
    if (status == ZT_OK) return &state->scorer;
    zt_free(cli->ctx, state->waiting);
    zt_free(cli->ctx, state);
    return NULL;
}

/* ---- the others ------------------------------------------------------------------------------ */

static zt_status send_answer(void *user, int index, const dna_score *score)
{
    zt_cli *cli = user;
    answer sent = {.index = index, .kind = (int32_t)score->kind, .fitness = score->kind == DNA_SCORE_VALID ? score->fitness : 0};
    memcpy(sent.reason, score->reason, sizeof sent.reason);
    return zt_ranks_send(cli->ranks, 0, &sent, sizeof sent);
}

/* Measures so many files that rank 0 sends. */
static zt_status work(zt_cli *cli, dna_scorer *scorer, int files)
{
    dna_job *jobs = zt_calloc(cli->ctx, (size_t)files, sizeof *jobs);
    zt_status status = jobs ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < files && status == ZT_OK; i++) {
        int32_t index = 0;
        status = zt_ranks_receive(cli->ranks, 0, &index, sizeof index);
        jobs[i] = (dna_job){index, status == ZT_OK ? receive_text(cli) : NULL};
        if (status == ZT_OK && !jobs[i].path) status = zt_ctx_status(cli->ctx);
    }
    if (status == ZT_OK) status = scorer->score(scorer, jobs, files, send_answer, cli);
    for (int i = 0; jobs && i < files; i++) zt_free(cli->ctx, (char *)jobs[i].path);
    zt_free(cli->ctx, jobs);
    return status;
}

/* mpirun ends a job by SIGTERM: commands are ended then, as after an interrupt. */
static void on_termination(int sig)
{
    (void)sig;
    raise(SIGINT);
}

zt_status dna_score_work(zt_cli *cli)
{
    int32_t workers = 0, files = 0;
    dna_command_opts options = {.command = NULL};
    struct sigaction action = {.sa_handler = on_termination};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    zt_status status = zt_ranks_receive(cli->ranks, 0, &workers, sizeof workers);
    if (status == ZT_OK) status = zt_ranks_receive(cli->ranks, 0, &options.timeout, sizeof options.timeout);
    char *command = status == ZT_OK ? receive_text(cli) : NULL;
    options.command = command;
    options.workers = workers > 0 ? workers : 1;
    dna_scorer *scorer = command ? dna_command_scorer(cli, &options) : NULL;
    status = scorer ? ZT_OK : zt_ctx_status(cli->ctx);
    while (status == ZT_OK) {
        status = zt_ranks_receive(cli->ranks, 0, &files, sizeof files);
        if (status != ZT_OK || files <= 0) break;
        status = work(cli, scorer, files);
    }
    if (scorer) scorer->close(scorer);
    zt_free(cli->ctx, command);
    return status;
}
