/* ranks.c - owns messages between the processes of mpirun: libmpi, opened at run time, as Open MPI's ABI has it.
 *
 * Handles of Open MPI are addresses of symbols of the library (ompi_mpi_comm_world); MPICH has numbers instead, and is not
 * supported. Only the thread that opens the ranks calls MPI. A receive polls, and sleeps between polls, so that ranks on one
 * machine leave its cores to those that compute.
 */
#include "lib/base/ranks.h"
#include "lib/base/require.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

enum { TAG_DATA = 1, TAG_ERROR = 2, ANY_SOURCE = -1, FUNNELED = 1, PIECE = 1 << 30, MESSAGE = 512, STATUS_BYTES = 64 };

/* Name, and the types of the arguments; all return int, 0 for success. */
#define MPI_FUNCTIONS(X)                                                                                                         \
    X(Init_thread, (int *, char ***, int, int *))                                                                                \
    X(Finalize, (void))                                                                                                          \
    X(Comm_rank, (void *, int *))                                                                                                \
    X(Comm_size, (void *, int *))                                                                                                \
    X(Comm_set_errhandler, (void *, void *))                                                                                     \
    X(Send, (const void *, int, void *, int, int, void *))                                                                       \
    X(Recv, (void *, int, void *, int, int, void *, void *))                                                                     \
    X(Iprobe, (int, int, void *, int *, void *))                                                                                 \
    X(Get_count, (const void *, void *, int *))

typedef struct mpi_library {
    void *handle;
#define X(name, arguments) int(*name) arguments;
    MPI_FUNCTIONS(X)
#undef X
    void *world, *byte, *errors_return;
} mpi_library;

struct zt_ranks {
    zt_ctx *ctx;
    mpi_library mpi;
    int count, own;
};

/* What a rank that fails sends to rank 0. */
typedef struct failure {
    int32_t status;
    char message[MESSAGE];
} failure;

/* ---- the environment ------------------------------------------------------------------------- */

/* The first of these variables that is a number from 0; or `otherwise`. */
static int read_number(const char *const *names, int otherwise)
{
    for (; *names; names++) {
        const char *text = getenv(*names);
        int64_t number;
        if (text && zt_parse_i64(text, &number) && number >= 0 && number < INT_MAX) return (int)number;
    }
    return otherwise;
}

int zt_ranks_started(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    static const char *const pmix[] = {"PMIX_RANK", NULL}, *const step[] = {"SLURM_STEP_NUM_TASKS", NULL};
    return read_number(sizes, read_number(pmix, -1) < 0 ? 0 : read_number(step, 1));
}

int zt_ranks_started_as(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
    return zt_ranks_started() > 1 ? read_number(names, 0) : 0;
}

/* ---- the library ----------------------------------------------------------------------------- */

/* POSIX lets a function's address come through a pointer to an object (dlsym). */
static bool find_function(void *handle, const char *name, void *function)
{
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static zt_status open_library(zt_ctx *ctx, mpi_library *mpi)
{
    static const char *const names[] = {"libmpi.so.40", "libmpi.so", NULL};
    const char *own = getenv("ZT_LIBMPI"), *const only[] = {own, NULL}, *why = NULL;
    /* Its modules look for symbols of the library among the global ones. */
    for (const char *const *name = own && *own ? only : names; *name && !mpi->handle; name++) {
        mpi->handle = dlopen(*name, RTLD_NOW | RTLD_GLOBAL);
        if (!mpi->handle && !why) why = dlerror();
    }
    if (!mpi->handle)
        return zt_fail(ctx, ZT_ENOTSUP, "mpirun started %d ranks, but Open MPI's library cannot be opened: %s",
                       zt_ranks_started(), why ? why : names[0]);
    bool whole = true;
#define X(name, arguments) whole = find_function(mpi->handle, "MPI_" #name, &mpi->name) && whole;
    MPI_FUNCTIONS(X)
#undef X
    mpi->world = dlsym(mpi->handle, "ompi_mpi_comm_world");
    mpi->byte = dlsym(mpi->handle, "ompi_mpi_byte");
    mpi->errors_return = dlsym(mpi->handle, "ompi_mpi_errors_return");
    if (whole && mpi->world && mpi->byte && mpi->errors_return) return ZT_OK;
    return zt_fail(ctx, ZT_ENOTSUP, "%s is not Open MPI's library", own && *own ? own : names[0]);
}

static zt_status fail_mpi(const zt_ranks *ranks, const char *what)
{
    return zt_fail(ranks->ctx, ZT_ESYS, "rank %d: %s failed", ranks->own, what);
}

static zt_status join_ranks(zt_ranks *ranks)
{
    mpi_library *mpi = &ranks->mpi;
    int level;
    if (mpi->Init_thread(NULL, NULL, FUNNELED, &level)) return fail_mpi(ranks, "MPI_Init_thread");
    mpi->Comm_set_errhandler(mpi->world, mpi->errors_return);
    if (mpi->Comm_rank(mpi->world, &ranks->own) || mpi->Comm_size(mpi->world, &ranks->count))
        return fail_mpi(ranks, "MPI_Comm_rank");
    if (ranks->count != zt_ranks_started())
        return zt_fail(ranks->ctx, ZT_ENOTSUP,
                       "mpirun started %d ranks, but Open MPI's library finds %d: both must be of the same Open MPI",
                       zt_ranks_started(), ranks->count);
    return zt_ranks_agree(ranks, "the versions of zt", ZT_VERSION, strlen(ZT_VERSION));
}

zt_ranks *zt_ranks_open(zt_ctx *ctx)
{
    zt_ranks *ranks = zt_calloc(ctx, 1, sizeof *ranks);
    if (!ranks) return NULL;
    ranks->ctx = ctx;
    ranks->count = 1;
    if (open_library(ctx, &ranks->mpi) == ZT_OK && join_ranks(ranks) == ZT_OK) return ranks;
    zt_free(ctx, ranks);
    return NULL;
}

void zt_ranks_close(zt_ranks *ranks)
{
    if (!ranks) return;
    ranks->mpi.Finalize();
    zt_free(ranks->ctx, ranks); /* the library stays: it cannot be opened again */
}

int zt_ranks_count(const zt_ranks *ranks) { return ranks ? ranks->count : 1; }
int zt_ranks_own(const zt_ranks *ranks) { return ranks ? ranks->own : 0; }

/* ---- waiting --------------------------------------------------------------------------------- */

/* Has a message arrived? */
static bool has_arrived(zt_ranks *ranks, int from, int tag, void *status)
{
    int flag = 0;
    return ranks->mpi.Iprobe(from, tag, ranks->mpi.world, &flag, status) == 0 && flag;
}

/* The failure of another rank, if one has sent it. */
static zt_status check_failures(zt_ranks *ranks)
{
    _Alignas(8) char status[STATUS_BYTES] = {0};
    failure failed;
    int from;
    if (ranks->own != 0 || !has_arrived(ranks, ANY_SOURCE, TAG_ERROR, status)) return ZT_OK;
    memcpy(&from, status, sizeof from); /* MPI_SOURCE is the first member */
    if (ranks->mpi.Recv(&failed, sizeof failed, ranks->mpi.byte, from, TAG_ERROR, ranks->mpi.world, NULL))
        return fail_mpi(ranks, "MPI_Recv");
    failed.message[MESSAGE - 1] = 0;
    bool known = failed.status > ZT_OK && failed.status < ZT_STATUS_COUNT;
    return zt_fail(ranks->ctx, known ? (zt_status)failed.status : ZT_ESYS, "rank %d: %s", from, failed.message);
}

/* The first waits are short: most messages are on their way. */
static void wait_a_little(double since)
{
    double waited = zt_seconds() - since;
    if (waited < 100e-6)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, waited < 10e-3 ? 30000 : waited < 1 ? 100000 : 1000000}, NULL);
}

static zt_status wait_for(zt_ranks *ranks, int from, void *status)
{
    double since = zt_seconds();
    for (;;) {
        if (has_arrived(ranks, from, TAG_DATA, status)) return ZT_OK;
        zt_status failed = check_failures(ranks);
        if (failed) return failed;
        wait_a_little(since);
    }
}

zt_status zt_ranks_wait(zt_ranks *ranks, double seconds, int *from)
{
    if (!ranks) return ZT_EUSAGE;
    ZT_REQUIRE(ranks->ctx, from, ZT_EUSAGE);
    _Alignas(8) char status[STATUS_BYTES] = {0};
    double since = zt_seconds();
    *from = -1;
    while (zt_seconds() - since < seconds) {
        if (has_arrived(ranks, ANY_SOURCE, TAG_DATA, status)) {
            memcpy(from, status, sizeof *from); /* MPI_SOURCE is the first member */
            return ZT_OK;
        }
        zt_status failed = check_failures(ranks);
        if (failed) return failed;
        wait_a_little(since);
    }
    return ZT_OK;
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_other(const zt_ranks *ranks, int rank) { return rank >= 0 && rank < ranks->count && rank != ranks->own; }

zt_status zt_ranks_send(zt_ranks *ranks, int to, const void *bytes, size_t size)
{
    if (!ranks) return ZT_EUSAGE;
    ZT_REQUIRE(ranks->ctx, is_other(ranks, to) && (bytes || !size), ZT_EUSAGE);
    const char *cursor = bytes;
    do {
        size_t piece = size < PIECE ? size : PIECE;
        if (ranks->mpi.Send(cursor, (int)piece, ranks->mpi.byte, to, TAG_DATA, ranks->mpi.world))
            return fail_mpi(ranks, "MPI_Send");
        cursor += piece;
        size -= piece;
    } while (size);
    return ZT_OK;
}

/* Receives a message of exactly so many bytes. */
static zt_status receive_piece(zt_ranks *ranks, int from, char *bytes, size_t size)
{
    _Alignas(8) char status[STATUS_BYTES] = {0};
    int sent = -1;
    zt_status waited = wait_for(ranks, from, status);
    if (waited) return waited;
    ranks->mpi.Get_count(status, ranks->mpi.byte, &sent);
    if (sent != (int)size)
        return zt_fail(ranks->ctx, ZT_ESYS, "rank %d sent %d bytes to rank %d, expected %zu", from, sent, ranks->own, size);
    if (ranks->mpi.Recv(bytes, (int)size, ranks->mpi.byte, from, TAG_DATA, ranks->mpi.world, NULL))
        return fail_mpi(ranks, "MPI_Recv");
    return ZT_OK;
}

zt_status zt_ranks_receive(zt_ranks *ranks, int from, void *bytes, size_t size)
{
    if (!ranks) return ZT_EUSAGE;
    ZT_REQUIRE(ranks->ctx, is_other(ranks, from) && (bytes || !size), ZT_EUSAGE);
    char *cursor = bytes;
    zt_status status = ZT_OK;
    do {
        size_t piece = size < PIECE ? size : PIECE;
        status = receive_piece(ranks, from, cursor, piece);
        cursor += piece;
        size -= piece;
    } while (size && !status);
    return status;
}

/* A rank receives from the one without its lowest bit, and sends to those with one more bit below it. */
zt_status zt_ranks_broadcast(zt_ranks *ranks, void *bytes, size_t size)
{
    if (!ranks) return ZT_OK;
    ZT_REQUIRE(ranks->ctx, bytes || !size, ZT_EUSAGE);
    int own = ranks->own, bit = own & -own;
    zt_status status = own ? zt_ranks_receive(ranks, own - bit, bytes, size) : ZT_OK;
    if (!own)
        for (bit = 1; bit < ranks->count;) bit *= 2;
    for (bit /= 2; bit && !status; bit /= 2)
        if (own + bit < ranks->count) status = zt_ranks_send(ranks, own + bit, bytes, size);
    return status;
}

zt_status zt_ranks_agree(zt_ranks *ranks, const char *what, const void *bytes, size_t size)
{
    if (!ranks) return ZT_OK;
    ZT_REQUIRE(ranks->ctx, what && (bytes || !size), ZT_EUSAGE);
    XXH128_hash_t own = XXH3_128bits(bytes, size), other;
    int32_t differs = 0;
    zt_status status = ranks->own ? zt_ranks_send(ranks, 0, &own, sizeof own) : ZT_OK;
    for (int rank = 1; rank < ranks->count && !ranks->own && !status; rank++) {
        status = zt_ranks_receive(ranks, rank, &other, sizeof other);
        if (!status && !differs && memcmp(&own, &other, sizeof own) != 0) differs = rank;
    }
    if (!status) status = zt_ranks_broadcast(ranks, &differs, sizeof differs);
    if (status || !differs) return status;
    return zt_fail(ranks->ctx, ZT_EUSAGE, "rank %d: %s differ from those of rank 0", differs, what);
}

void zt_ranks_report(zt_ranks *ranks, zt_status status, const char *message, double seconds)
{
    if (!ranks || !ranks->own) return;
    failure failed = {.status = (int32_t)status};
    if (message) strncpy(failed.message, message, MESSAGE - 1);
    ranks->mpi.Send(&failed, sizeof failed, ranks->mpi.byte, 0, TAG_ERROR, ranks->mpi.world);
    /* Polling also moves the message on. */
    for (double since = zt_seconds(); zt_seconds() - since < seconds; wait_a_little(since))
        has_arrived(ranks, ANY_SOURCE, TAG_DATA, NULL);
}
