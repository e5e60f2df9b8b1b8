/* ranks.h - the processes that mpirun starts, as ranks that exchange messages.
 *
 *     zt_ranks *ranks = zt_ranks_started() > 1 ? zt_ranks_open(ctx) : NULL;
 *     if (zt_ranks_own(ranks) == 1) zt_ranks_send(ranks, 0, sums, bytes);
 *     else if (zt_ranks_own(ranks) == 0) zt_ranks_receive(ranks, 1, sums, bytes);
 *     zt_ranks_broadcast(ranks, weights, bytes);       // rank 0's, to all
 *     zt_ranks_close(ranks);
 *
 * NULL is a program that runs alone: rank 0 of 1. Messages of a pair of ranks arrive in order; sender and receiver state the same
 * size. Ranks trust each other.
 *
 * The library of Open MPI is opened at run time, so that programs run without it; nothing is opened unless mpirun has started
 * the process. ZT_LIBMPI in the environment names another file.
 */
#ifndef ZT_RANKS_H
#define ZT_RANKS_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_ranks zt_ranks;

/* The number of ranks that the environment states; 0 unless mpirun (or srun with PMIx) started this process. */
int zt_ranks_started(void);
/* The number of this rank in the environment, from 0; 0 where there is none. Both read only the environment. */
int zt_ranks_started_as(void);

/* Joins the other ranks: all of them must call it. Once a process. NULL: ZT_ENOTSUP, the library is missing or of another MPI; ZT_EUSAGE,
 * another rank has another version of zt. */
zt_ranks *zt_ranks_open(zt_ctx *ctx);
/* Waits until all ranks call it. After a failure, exit without it: mpirun then ends the other ranks. NULL: no effect. */
void zt_ranks_close(zt_ranks *ranks);

int zt_ranks_count(const zt_ranks *ranks); /* how many there are; NULL: 1 */
int zt_ranks_own(const zt_ranks *ranks);   /* the number of this one, from 0; NULL: 0 */

/* Sends bytes to another rank. May wait until it receives them. ZT_ESYS: MPI failed. */
zt_status zt_ranks_send(zt_ranks *ranks, int to, const void *bytes, size_t size);
/* Waits for bytes of another rank. ZT_ESYS: MPI failed, or another size was sent. On rank 0, the status that another rank has
 * failed with (zt_ranks_report), with its message. */
zt_status zt_ranks_receive(zt_ranks *ranks, int from, void *bytes, size_t size);
/* Waits for a message of any rank, which the next zt_ranks_receive of it takes. *from: its number; -1: none has come within so many
 * seconds. Errors as of zt_ranks_receive. */
zt_status zt_ranks_wait(zt_ranks *ranks, double seconds, int *from);
/* Copies rank 0's bytes to all ranks, each of which must call it. NULL: no effect. */
zt_status zt_ranks_broadcast(zt_ranks *ranks, void *bytes, size_t size);
/* Compares bytes, such as the text of all options, with those of rank 0; all ranks must call it. ZT_EUSAGE on all if they differ:
 * "rank 2: the options differ from those of rank 0" (what, a plural: "the options"). NULL: no effect. */
zt_status zt_ranks_agree(zt_ranks *ranks, const char *what, const void *bytes, size_t size);

/* For a rank that fails: sends status and message to rank 0, whose next receive fails with them, and waits until mpirun ends
 * this process, or for so many seconds. On rank 0, or NULL: no effect. */
void zt_ranks_report(zt_ranks *ranks, zt_status status, const char *message, double seconds);

#ifdef __cplusplus
}
#endif
#endif
