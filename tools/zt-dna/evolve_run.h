/* evolve_run.h - private to zt-dna evolve: a run, and its directory.
 *
 *     DIR/state.json           options, operands and population of the generation in progress
 *     DIR/champion.json        the best member so far
 *     DIR/generations.ndjson   the lines of standard output
 *     DIR/gen/0007/012.json    member 12 of generation 7; of this generation and of the one before
 *     DIR/gen/0007/scores      a line for each member that was measured: "12 3.5", "13 failed: exit status 1"
 *     DIR/gen/0007/012.score   the same for one member, from others that measure
 *     DIR/pending              without --fitness: the members that have no score, a line each
 *     DIR/lock                 locked by the process that works in DIR
 *
 * Files are replaced by a rename; lines are appended, and one that is not whole is cut off. state.json is written when a
 * generation is complete: with it the next one is planned. Members that are missing are made again from the plan, and
 * scores are read, so a run that was killed goes on where it was.
 */
#ifndef ZT_DNA_EVOLVE_RUN_H
#define ZT_DNA_EVOLVE_RUN_H

#include "tools/zt-dna/evolve.h"
#include "tools/zt-dna/score.h"

#include <jansson.h>

enum { DNA_PATH = 4096 };

typedef struct evolve_run {
    zt_cli *cli;
    dna_options options; /* of the command line, or of the run that is resumed */
    const char *folder;
    int lock;   /* a descriptor; -1: none */
    int lines;  /* generations.ndjson; -1: not open */
    bool saved; /* state.json is there; else a failure removes the directory */
    bool made;  /* the directory is new */
    zt_arena *texts;
    const char **operands;
    int operand_count;
    zt_evolution *evolution;
    dna_genome *genome;
    dna_scorer *scorer; /* NULL: others measure */
    /* of the generation in progress */
    dna_score *scores;     /* [population] of members that were measured in this generation, elites not */
    int score_lines;       /* the file of scores, open for lines; -1: not open */
    int shown;             /* failures reported on stderr */
    bool champion_settled; /* its file was written at the end of a generation */
    zt_evolution_champion champion;
    uint64_t champion_hash; /* XXH64 of its file */
    bool champion_hashed;   /* the state of the run that is resumed has it; states of earlier versions do not */
    bool champion_lost;     /* its file is damaged, and there is no copy */
    bool renews;            /* members without a score are made again */
    int done, total;        /* members measured, to measure */
} evolve_run;

/* ---- evolve_settings.c ----------------------------------------------------------------------- */

/* {"--population":"50",...}: the options that a run keeps. */
zt_status dna_settings_put(const evolve_run *run, zt_str *out);
/* Takes the options of a run that is resumed. ZT_EUSAGE: one that is given is another. */
zt_status dna_settings_take(evolve_run *run, const json_t *object);
/* ZT_EDATA: the state is not one of zt-dna evolve; what: the part that is wrong. */
zt_status dna_fail_state(const evolve_run *run, const char *what);

/* ---- evolve_scores.c ------------------------------------------------------------------------- */

/* Takes a score: of a member that has none yet. */
typedef zt_status dna_found_fn(evolve_run *run, int member, const dna_score *score);
/* Reads the scores of the generation in progress, and opens the file for more. */
zt_status dna_scores_read(evolve_run *run, dna_found_fn *found);
zt_status dna_scores_add(evolve_run *run, int member, const dna_score *score);
void dna_scores_close(evolve_run *run); /* of this generation */

/* ---- evolve_champion.c ------------------------------------------------------------------------ */

/* A member that is better than all before is the champion at once. */
zt_status dna_champion_consider(evolve_run *run, int member, double fitness);
/* At the end of a generation: of equal ones the first, whichever was measured first. */
zt_status dna_champion_settle(evolve_run *run);
/* Of a run that is resumed: a file that is not the champion's is replaced by a copy, where there is one. */
zt_status dna_champion_restore(evolve_run *run);
/* ZT_EDATA: the champion's file is damaged. Called when the scores of the generation in progress are known. */
zt_status dna_champion_check(const evolve_run *run);

/* ---- evolve_run.c ---------------------------------------------------------------------------- */

/* Opens the directory of --output: a new run, or with --resume the one that is there. */
zt_status dna_run_open(evolve_run *run, char **operands, int count);
void dna_run_close(evolve_run *run);
zt_status dna_run_save(evolve_run *run);

/* DIR/gen/0007/012.SUFFIX of a member. */
const char *dna_member_path(const evolve_run *run, int generation, int member, const char *suffix, char path[DNA_PATH]);
/* DIR/NAME. */
const char *dna_run_path(const evolve_run *run, const char *name, char path[DNA_PATH]);
zt_status dna_make_folder(const evolve_run *run, const char *path); /* which may exist */
void dna_remove_generation(const evolve_run *run, int generation);  /* with its files, where there is one */
/* Opens a file for lines to be appended, after the first `most` whole ones (-1: all). -1 and an error. */
int dna_open_lines(const evolve_run *run, const char *path, int most);
zt_status dna_append_line(const evolve_run *run, int descriptor, const char *path, const zt_str *line);
zt_status dna_copy_file(const evolve_run *run, const char *from, const char *to);
/* Writes a text, as a file that replaces another. */
zt_status dna_put_file(const evolve_run *run, const char *path, const zt_str *text);

#endif
