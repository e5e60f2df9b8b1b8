/* score.h - private to zt-dna: who measures the fitness of a generation. A list of files goes in, scores come out.
 *
 *     dna_scorer *scorer = dna_command_scorer(cli, &(dna_command_opts){"./fitness {}", 4, 60});
 *     zt_status status = scorer->score(scorer, jobs, count, scored, user);
 *     scorer->close(scorer);
 *
 * To add another: a function that makes a dna_scorer, and its choice in open_scorer of evolve.c.
 */
#ifndef ZT_DNA_SCORE_H
#define ZT_DNA_SCORE_H

#include "tools/common/cli.h"

enum { DNA_REASON = 160 };

/* FAILED: the command did not succeed; INVALID: its output is not one finite number. */
typedef enum dna_score_kind {
    DNA_SCORE_VALID,
    DNA_SCORE_FAILED,
    DNA_SCORE_TIMEOUT,
    DNA_SCORE_INVALID,
    DNA_SCORE_KINDS
} dna_score_kind;

typedef struct dna_score {
    dna_score_kind kind;
    double fitness;          /* VALID */
    char reason[DNA_REASON]; /* of the others: "exit status 1" */
} dna_score;

typedef struct dna_job {
    int member;
    const char *path;
} dna_job;

/* Takes the score of jobs[].member; a status other than ZT_OK ends the scoring with it. Called by the thread that called
 * `score`, in any order. */
typedef zt_status dna_scored_fn(void *user, int member, const dna_score *score);

typedef struct dna_scorer dna_scorer;
struct dna_scorer {
    /* Scores all jobs, and calls `scored` once for each. ZT_EINTR after SIGINT, with nothing left running. */
    zt_status (*score)(dna_scorer *scorer, const dna_job *jobs, int count, dna_scored_fn *scored, void *user);
    void (*close)(dna_scorer *scorer);
};

/* score_command.c: a shell command for each file, several at a time. */
typedef struct dna_command_opts {
    const char *command; /* {} stands for the file's name, which is quoted; borrowed */
    int workers;
    double timeout; /* seconds; 0: none */
} dna_command_opts;
/* ZT_EUSAGE (NULL): the command has no {}. */
dna_scorer *dna_command_scorer(zt_cli *cli, const dna_command_opts *options);

/* score_ranks.c: the same by the other ranks of mpirun, each of which runs so many commands at a time. Once a process. */
dna_scorer *dna_ranks_scorer(zt_cli *cli, const dna_command_opts *options);
/* On another rank than 0: measures what rank 0 sends, until it closes its scorer. */
zt_status dna_score_work(zt_cli *cli);

/* score_text.c: the score that a text is: one finite number, with white space around it. */
void dna_score_parse(const char *text, size_t size, dna_score *score);
/* A line that says the same: a number, or "failed: REASON". */
zt_status dna_score_put(const dna_score *score, zt_str *out);
/* The score in such a line; any other text is INVALID. */
void dna_score_read(const char *text, size_t size, dna_score *score);

#endif
