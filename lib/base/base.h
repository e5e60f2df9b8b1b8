/* base.h - the base layer: context, errors, memory, strings, threads, files, random numbers.
 *
 * Objects
 *   zt_ctx     one per program (or per thread of work): the sticky error, the allocator, the log.
 *   zt_str     a growing byte string.            zt_map   string -> int64_t.
 *   zt_pool    a team of threads.                zt_source / zt_sink   files read / files written.
 *
 * Errors. A function that can fail returns a zt_status, or a pointer that is NULL on failure. The
 * sentence for a human is made where the fault was seen and kept in the context; the first one
 * stays until zt_ctx_clear. The library never prints, exits or aborts because of its input.
 *
 * Ownership. The caller of new, open or dup releases the result with free or close; every free
 * accepts NULL. Any other pointer parameter must not be NULL unless its comment allows it. A
 * pointer parameter is borrowed for the call; a pointer from a getter is borrowed until its owner
 * is released.
 *
 *     zt_ctx *ctx = zt_ctx_new();
 *     zt_source *in = zt_source_open(ctx, "m.gguf");
 *     if (!in) fprintf(stderr, "%s\n", zt_ctx_error(ctx));
 *     zt_source_close(in);
 *     zt_ctx_free(ctx);
 */
#ifndef ZT_BASE_H
#define ZT_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZT_VERSION "0.1.0"

#if defined(__GNUC__)
#define ZT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define ZT_PRINTF(f, a)
#endif

/* ---- status and context ---------------------------------------------------------------------- */

typedef enum zt_status {
    ZT_OK = 0,
    ZT_EUSAGE,  /* invalid argument or wrong use by the caller */
    ZT_EDATA,   /* malformed or inconsistent data */
    ZT_ESHAPE,  /* incompatible shapes or dtypes */
    ZT_ENOENT,  /* no such input */
    ZT_ENOTSUP, /* unsupported engine, architecture or feature */
    ZT_EBUG,    /* internal error: a bug in zt */
    ZT_ESYS,    /* a system call failed unexpectedly */
    ZT_ECREATE, /* an output cannot be created */
    ZT_EIO,     /* reading or writing failed */
    ZT_ENOMEM,  /* out of memory, or over a limit */
    ZT_EINTR,   /* interrupted by the user */
    ZT_STATUS_COUNT
} zt_status;

typedef struct zt_ctx zt_ctx;

zt_ctx *zt_ctx_new(void);      /* NULL only when memory is exhausted */
void zt_ctx_free(zt_ctx *ctx); /* does not check for leaks: zt_mem_get reports them */

/* Records an error unless one is already recorded; returns `status`, for `return zt_fail(...)`.
 * ctx NULL: only returns `status`. Thread-safe. */
zt_status zt_fail(zt_ctx *ctx, zt_status status, const char *format, ...) ZT_PRINTF(3, 4);
zt_status zt_ctx_status(const zt_ctx *ctx);   /* ZT_OK when nothing failed */
const char *zt_ctx_error(const zt_ctx *ctx);  /* "" when nothing failed */
void zt_ctx_clear(zt_ctx *ctx);               /* forgets the error, so that the next one is recorded */
const char *zt_status_name(zt_status status); /* "bad data", ... never NULL */

/* Registers an object of the caller under a kind and a name. The object is borrowed, the names
 * are copied; thing NULL removes the entry. Thread-safe. */
zt_status zt_ctx_put(zt_ctx *ctx, const char *kind, const char *name, const void *thing);
const void *zt_ctx_get(const zt_ctx *ctx, const char *kind, const char *name); /* NULL: none */

typedef enum zt_level { ZT_LOG_WARN, ZT_LOG_INFO, ZT_LOG_DEBUG } zt_level;
typedef void zt_log_fn(void *user, zt_level level, const char *line);
void zt_log_set(zt_ctx *ctx, zt_level up_to, zt_log_fn *fn, void *user); /* fn NULL: silence */
/* Passes one line, without a newline, to the log function if `level` is at most `up_to`. A line
 * of 2048 bytes or more is truncated and ends in "...". Thread-safe. */
void zt_log(zt_ctx *ctx, zt_level level, const char *format, ...) ZT_PRINTF(3, 4);

/* Metrics, reported to one function as they occur: counter "op" (ops run, by op name), "bytes" (size
 * of their outputs), "fallback" (ops run by a fallback engine, counted when run). */
typedef void zt_metrics_fn(void *user, const char *counter, const char *name, uint64_t add);
void zt_metrics_set(zt_ctx *ctx, zt_metrics_fn *fn, void *user); /* fn NULL: none */
bool zt_metrics_on(const zt_ctx *ctx);                           /* is a function set? Thread-safe */
/* Passes one count to the metrics function; without one it does nothing. Thread-safe. */
void zt_count(zt_ctx *ctx, const char *counter, const char *name, uint64_t add);

/* ---- memory ---------------------------------------------------------------------------------- */

/* All memory of the library goes through here: byte limit, peak, leak report and injected failure
 * live in one place. Blocks are aligned to 64 bytes; large ones are backed by huge pages where the
 * kernel has them. On failure NULL, and ZT_ENOMEM with the numbers in the context. Thread-safe. */
void *zt_alloc(zt_ctx *ctx, size_t bytes);                    /* not cleared; bytes 0 gives a valid pointer */
void *zt_calloc(zt_ctx *ctx, size_t count, size_t size);      /* cleared; count * size checked */
void *zt_alloc_array(zt_ctx *ctx, size_t count, size_t size); /* not cleared; count * size checked */
void *zt_realloc(zt_ctx *ctx, void *block, size_t bytes);     /* `block` NULL: alloc; on failure `block` stays */
void zt_free(zt_ctx *ctx, void *block);                       /* `block` NULL: nothing */
char *zt_strdup(zt_ctx *ctx, const char *text);               /* a copy of a string; zt_free it */
/* A copy of `length` bytes, zero-terminated; zt_free it. `text` may be NULL where `length` is 0. */
char *zt_strndup(zt_ctx *ctx, const char *text, size_t length);

typedef struct zt_mem {
    size_t limit;   /* most bytes that may be in use at once; 0: no limit */
    size_t held;    /* bytes in use */
    size_t peak;    /* most bytes in use at once */
    size_t blocks;  /* blocks in use: not 0 at the end is a leak */
    uint64_t calls; /* allocation requests, including refused ones */
} zt_mem;
zt_mem zt_mem_get(const zt_ctx *ctx); /* a copy of the counts now */
/* Sets the limit; 0: none. Existing blocks stay, even if they exceed it. */
void zt_mem_limit(zt_ctx *ctx, size_t bytes);
/* Refuse the n-th allocation from now on (1 is the next); `onwards`: and all after it. 0: none. */
void zt_mem_fail(zt_ctx *ctx, uint64_t nth, bool onwards);

/* Reserves memory outside the allocator, such as device memory, under the same limit and byte count.
 * ZT_ENOMEM: refused, and nothing is counted. */
zt_status zt_mem_reserve(zt_ctx *ctx, size_t bytes);
void zt_mem_release(zt_ctx *ctx, size_t bytes); /* what was reserved */

/* Sizes come from hostile files: every product and sum goes through these. false on overflow. */
bool zt_mul_size(size_t a, size_t b, size_t *out);   /* on overflow *out is not meaningful */
bool zt_add_size(size_t a, size_t b, size_t *out);   /* the same */
bool zt_mul_i64(int64_t a, int64_t b, int64_t *out); /* false also when a or b is negative */

/* An arena: many small blocks freed together, O(1) reset to a mark, never below the floor. Not
 * thread-safe. Functions that return a pointer return NULL on failure (ZT_ENOMEM). */
typedef struct zt_arena zt_arena;
zt_arena *zt_arena_new(zt_ctx *ctx, size_t chunk_bytes);                  /* 0: a sensible chunk */
void zt_arena_free(zt_arena *arena);                                      /* with all its blocks; NULL: nothing */
void *zt_arena_alloc(zt_arena *arena, size_t bytes);                      /* 16-byte aligned, not cleared */
char *zt_arena_strndup(zt_arena *arena, const char *text, size_t length); /* `length` bytes, closed by a zero */
size_t zt_arena_mark(const zt_arena *arena);                              /* the present end, for zt_arena_reset and _floor */
void zt_arena_reset(zt_arena *arena, size_t mark);                        /* frees what came after the mark, or the floor */
void zt_arena_floor(zt_arena *arena, size_t mark);                        /* what came before the mark stays: 0 at first */

/* A memory pool: blocks by size class (powers of two from 64 bytes on), reused. Thread-safe. */
typedef struct zt_bins zt_bins;
typedef struct zt_bins_stats {
    size_t taken, idle; /* bytes of blocks in use, and of free blocks kept for reuse */
    size_t idle_blocks;
    uint64_t hits, misses; /* requests served from free blocks, and by new blocks */
} zt_bins_stats;
zt_bins *zt_bins_new(zt_ctx *ctx);               /* empty; NULL: ZT_ENOMEM, ZT_ESYS */
void zt_bins_free(zt_bins *bins);                /* all blocks must have been given back */
void *zt_bins_take(zt_bins *bins, size_t bytes); /* aligned to 64 bytes, not cleared */
void zt_bins_give(zt_bins *bins, void *block);   /* NULL: nothing */
/* Releases free blocks, largest first, until at most `floor` bytes of them are left. */
void zt_bins_reset(zt_bins *bins, size_t floor);
zt_bins_stats zt_bins_get(const zt_bins *bins); /* a copy of the counts now */

/* ---- strings and maps ------------------------------------------------------------------------ */

/* A growing byte string, always closed by a zero byte that does not count. A put that has no memory
 * leaves the string as it was and the error in the context, and every put after it fails as well,
 * until zt_str_clear or zt_str_fini: so no text lacks a piece in the middle, and several puts may be
 * checked by the last of them. A put returns ZT_OK or ZT_ENOMEM; what it reads must not lie in the
 * string itself. */
typedef struct zt_str {
    zt_ctx *ctx;
    char *data; /* "" is possible, NULL only before the first put */
    size_t len, cap;
    bool failed; /* a put had no memory */
} zt_str;
void zt_str_init(zt_str *str, zt_ctx *ctx); /* empty; allocates nothing */
void zt_str_fini(zt_str *str);              /* frees the bytes; `str` is empty then, and may be used again */
void zt_str_clear(zt_str *str);             /* length 0, memory kept, puts succeed again */
zt_status zt_str_put(zt_str *str, const void *bytes, size_t size); /* appends `size` bytes */
zt_status zt_str_puts(zt_str *str, const char *text);              /* appends a string that a zero closes */
zt_status zt_str_putc(zt_str *str, char character);                /* appends one byte */
/* Appends formatted text. ZT_EUSAGE: the C library cannot format it. */
zt_status zt_str_printf(zt_str *str, const char *format, ...) ZT_PRINTF(2, 3);
/* Text from files: control bytes, DEL, C1 controls and broken UTF-8 become \xNN. */
zt_status zt_str_put_escaped(zt_str *str, const char *bytes, size_t size);
/* A JSON string with its quotes; broken UTF-8 becomes U+FFFD. */
zt_status zt_str_put_json(zt_str *str, const char *bytes, size_t size);
/* The shortest decimal that reads back as the same double: 0.1, 1e-05, inf, -inf, nan. */
zt_status zt_str_put_double(zt_str *str, double value);
/* The same for text of a known short length inside messages: escapes into buf, returns buf. */
const char *zt_escape(char *buffer, size_t buf_bytes, const char *bytes, size_t size);
/* Is `end` the whole of a dotted name, or its last parts? "a.b.c" ends in "c" and "b.c", not in "" or ".c". NULL: false. */
bool zt_name_ends_in(const char *name, const char *end);
bool zt_name_ends_in_n(const char *name, size_t length, const char *end, size_t end_length); /* the same of bytes */
/* Sizes: "512M" (10^6), "4GiB" (2^30), "20000"; false when it is not one or overflows. */
bool zt_parse_size(const char *text, size_t *out);
bool zt_parse_i64(const char *text, int64_t *out);   /* whole string, base 10 */
bool zt_parse_double(const char *text, double *out); /* whole string, the C locale */
/* Length in bytes (1 to 4) of the valid UTF-8 character at `text`, 0 if broken or cut; *code_point its code. */
int zt_utf8_decode(const char *text, size_t size, uint32_t *code_point);
bool zt_utf8_valid(const char *text, size_t size);    /* all of it? a zero is a character as well */
int zt_utf8_encode(uint32_t code_point, char out[4]); /* bytes written */

/* Byte strings to integers. Keys are borrowed: they must live as long as the map. */
typedef struct zt_map zt_map;
zt_map *zt_map_new(zt_ctx *ctx, size_t expect); /* room for `expect` keys; it grows. NULL: ZT_ENOMEM */
void zt_map_free(zt_map *map);                  /* NULL: nothing */
zt_status zt_map_put(zt_map *map, const char *key, size_t length, int64_t value); /* replaces */
/* Finds a key of `length` bytes. false: it is absent, *value stays. value may be NULL. */
bool zt_map_get(const zt_map *map, const char *key, size_t length, int64_t *value);
int64_t zt_map_find(const zt_map *map, const char *name); /* an index that was put; -1: none */
size_t zt_map_count(const zt_map *map);                   /* keys */

/* ---- threads --------------------------------------------------------------------------------- */

/* A team: the caller is thread 0, workers are 1..n-1. Waiting spins briefly, then sleeps. */
typedef struct zt_pool zt_pool;
typedef void zt_pool_fn(void *user, int thread, int n_threads);
/* n_threads is 1 to 256, the caller included. NULL: ZT_EUSAGE, ZT_ESYS, ZT_ENOMEM. */
zt_pool *zt_pool_new(zt_ctx *ctx, int n_threads);
void zt_pool_free(zt_pool *pool);      /* joins the workers; not while fn runs. NULL: nothing */
int zt_pool_size(const zt_pool *pool); /* threads, the caller included */
/* fn on every thread once; returns when all did. */
void zt_pool_run(zt_pool *pool, zt_pool_fn *fn, void *user);
void zt_pool_barrier(zt_pool *pool, int thread); /* inside fn: all threads meet */
/* Runs fn on the caller, and on every worker that arrives while the caller is still in it. fn must do
 * all of the work with the threads present, so that a delayed worker delays nobody. */
void zt_pool_help(zt_pool *pool, zt_pool_fn *fn, void *user);

/* A completion counter that threads of a pool wait for. Zero-initialised; reset by the caller when no
 * thread is in fn. Writes before an add are visible after the wait that it ends. */
typedef struct zt_gate {
    unsigned done, sleepers;
} zt_gate;
void zt_gate_add(zt_gate *gate, unsigned added, unsigned total);       /* `total` ends the waiting */
void zt_gate_wait(zt_gate *gate, unsigned total, const zt_pool *pool); /* until done is `total` */
int zt_cpu_count(void); /* processors this process may use (affinity, cgroup quota) */

/* ---- files ----------------------------------------------------------------------------------- */

/* An input that can be read at any offset: a regular file, or "-" (stdin), a FIFO or a pipe, which
 * are first spooled to an unnamed temporary file in TMPDIR. What cannot be opened (missing, no
 * permission, a directory) is ZT_ENOENT. */
typedef struct zt_source zt_source;
/* Opens an input; zt_source_close it. NULL on failure. */
zt_source *zt_source_open(zt_ctx *ctx, const char *path);
/* The same, but a stream whose first bytes (up to ZT_HEAD) `wanted` rejects is not spooled further:
 * the reader reports what is wrong, and an endless stream does no harm. */
#define ZT_HEAD 16
typedef bool zt_wanted(const void *head, size_t size);
/* `wanted` sees the first `size` bytes, at most ZT_HEAD. */
zt_source *zt_source_open_if(zt_ctx *ctx, const char *path, zt_wanted *wanted);
/* The same, but a stream is read sequentially, without a temporary file: offsets must rise, and
 * skipped bytes are lost. Its size is ZT_SIZE_UNKNOWN until its end is reached. */
#define ZT_SIZE_UNKNOWN ((uint64_t)INT64_MAX)
zt_source *zt_source_open_stream(zt_ctx *ctx, const char *path);
bool zt_source_streams(const zt_source *source); /* is it read forward only? */
/* Reads up to `size` bytes at `offset` of any source, at least `least` unless it ends. */
zt_status zt_source_read_some(const zt_source *source, uint64_t offset, void *dst, size_t size, size_t least, size_t *got);
/* Pushes back the last `size` bytes read of a stream. Other sources: no effect. */
zt_status zt_source_unread(zt_source *source, const void *bytes, size_t size);
/* Spools a stream for random access, if none of its bytes are lost. */
zt_status zt_source_spool(zt_source *source);
/* Bytes borrowed until close. */
zt_source *zt_source_memory(zt_ctx *ctx, const char *name, const void *bytes, size_t size);
void zt_source_close(zt_source *source);             /* NULL: nothing */
const char *zt_source_name(const zt_source *source); /* for messages: the path, or "stdin" */
uint64_t zt_source_size(const zt_source *source);    /* bytes, or ZT_SIZE_UNKNOWN */
int zt_source_fd(const zt_source *source);           /* the file's, its own; -1: no file, or a stream */
/* Reads all `size` bytes at `offset`. Past the size that the file had when it was opened: ZT_EDATA
 * (truncated). If the file has shrunk since then: ZT_EIO, never a signal. */
zt_status zt_source_read(const zt_source *source, uint64_t offset, void *dst, size_t size);
/* Directory of temporary files: TMPDIR of the environment, or /tmp. Borrowed from the environment. */
const char *zt_temporary_folder(void);
/* Whole files as text, for prompts and scripts. `*length` bytes, closed by a zero; free with zt_free. */
char *zt_read_all(zt_ctx *ctx, const char *path, size_t *length);

/* An output that is whole or absent: written beside its target, fsynced and renamed by commit.
 * "-" is stdout and is written through. Existing targets are refused (ZT_ECREATE) without `force`.
 * After a failed write everything further fails; close without commit leaves no trace. */
typedef struct zt_sink zt_sink;
/* NULL on failure: ZT_ECREATE; ZT_EIO for stdout; ZT_EINTR; ZT_ENOMEM. A file that is open as a
 * zt_source of the same context is refused also with `force`. */
zt_sink *zt_sink_open(zt_ctx *ctx, const char *path, bool force);
zt_status zt_sink_write(zt_sink *sink, const void *bytes, size_t size); /* `size` 0: nothing waits here */
/* `size` bytes of a source from `offset` on; from file to file the kernel copies them. */
zt_status zt_sink_copy(zt_sink *sink, const zt_source *source, uint64_t offset, uint64_t size);
/* Writes what is buffered and puts the file in its place. ZT_EIO, ZT_EINTR, ZT_ECREATE (a target
 * appeared meanwhile, without `force`). After it, whatever it returns, only close. */
zt_status zt_sink_commit(zt_sink *sink);
void zt_sink_close(zt_sink *sink); /* frees; without a commit the target is as it was. NULL: nothing */
/* Writes a whole file, completely or not at all: open, write, commit, close. */
zt_status zt_sink_put_file(zt_ctx *ctx, const char *path, bool force, const void *bytes, size_t size);

/* ---- random numbers, time, processor --------------------------------------------------------- */

/* Philox4x32-10 (Salmon et al., SC 2011): counter-based, so that a draw depends on nothing but its
 * name (seed, sequence, position). */
void zt_philox(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t out[4]);
double zt_uniform(uint64_t seed, uint64_t sequence, uint64_t position); /* [0, 1), 53 bits */
double zt_normal(uint64_t seed, uint64_t sequence, uint64_t position);  /* mean 0, deviation 1 */

double zt_seconds(void); /* monotonic clock */

/* Of x86-64: AVX2, and AVX512, which means F BW DQ VL VNNI BF16 VBMI. Of AArch64: NEON, and DOTPROD, NEON with FEAT_DotProd. */
typedef enum zt_isa { ZT_ISA_SCALAR, ZT_ISA_AVX2, ZT_ISA_AVX512, ZT_ISA_NEON, ZT_ISA_DOTPROD, ZT_ISA_COUNT } zt_isa;
zt_isa zt_isa_best(void);            /* the newest that processor and build have */
bool zt_isa_has(zt_isa isa);         /* have they this one? Always SCALAR */
const char *zt_isa_name(zt_isa isa); /* "scalar" "avx2" "avx512" "neon" "dotprod" */
/* By exact name, whether or not the processor has it. false: not a name, *out stays. */
bool zt_isa_parse(const char *name, zt_isa *out);
#define ZT_CPU_MODEL 64
const char *zt_cpu_model(char buffer[ZT_CPU_MODEL]); /* "AMD EPYC ..." or "unknown"; returns buf */

#ifdef __cplusplus
}
#endif
#endif
