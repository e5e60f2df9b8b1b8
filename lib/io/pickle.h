/* pickle.h - private to lib/io: read Python pickles, protocols 0 to 5, as data.
 *
 * The opcodes of a pickle are a program for a small machine with a stack and a memo, which may name
 * any function and call it. This machine calls nothing: it builds numbers, texts, tuples, lists and
 * dictionaries; names are looked up in a list of those that PyTorch's tensors need
 * (lib/io/pickle_torch.c), and what stands for a call there makes a tensor's description. Any other
 * name, and any opcode that would make something else, is ZT_EDATA.
 *
 * Files are hostile: a pickle may spend `budget` bytes of memory in all. CPython's pickletools.py,
 * as facts.
 */
#ifndef ZT_PICKLE_H
#define ZT_PICKLE_H

#include "lib/io/gather.h"

typedef enum pk_kind {
    PK_NONE, /* None, and whatever holds no tensor: floats, devices */
    PK_BOOL,
    PK_INT,
    PK_LONG, /* an integer beyond 64 bits: its bytes, little endian */
    PK_TEXT,
    PK_TUPLE,
    PK_LIST, /* sets too */
    PK_DICT, /* keys and values in turn */
    PK_GLOBAL,
    PK_STORAGE,
    PK_TENSOR,
    PK_MARK
} pk_kind;

typedef struct pk_value {
    uint32_t kind, n; /* n: bytes of a text, items of a tuple */
    union {
        int64_t i;
        const char *text; /* closed by a zero, which does not count; may hold others */
        struct pk_value *item;
        struct pk_list *list;
        const struct pk_global *global;
        const struct pk_storage *storage;
        const struct pk_tensor *tensor;
    };
} pk_value;

typedef struct pk_list {
    pk_value *item;
    size_t n, room;
    bool set, ordered; /* a set; an OrderedDict */
} pk_list;

/* A dtype of PyTorch's. */
typedef struct pk_dtype {
    const char *name, *storage; /* "float32", "FloatStorage"; NULL: has no storage class */
    size_t item, swap;          /* bytes of an element, and of what an order of bytes is about */
    zt_dtype dtype;             /* ZT_DTYPE_COUNT: zt has none */
} pk_dtype;
extern const pk_dtype zt_pk_dtypes[];
extern const size_t zt_pk_n_dtypes;

typedef struct pk_storage {
    const char *key;
    const pk_dtype *dtype; /* NULL: untyped, numel counts bytes */
    uint64_t bytes;        /* of the storage of that key */
    uint64_t begin, some;  /* the bytes of it that this one means */
} pk_storage;

typedef struct pk_tensor {
    const pk_storage *storage;
    const pk_dtype *dtype;
    int rank;
    int64_t offset; /* elements */
    const int64_t *dim, *stride;
} pk_tensor;

enum { PK_BUFFER = 1 << 14 };

typedef struct pickle {
    zt_ctx *ctx;
    const char *file; /* for messages */
    zt_arena *keep;   /* all that is made */
    size_t budget;    /* bytes that may still be spent */
    bool plain;       /* nothing may be named */
    zt_fetch *fetch;
    void *user;
    uint64_t at, end; /* next byte to fetch, and where they end */
    size_t next, got; /* in the buffer */
    size_t ops;       /* done so far */
    pk_value *stack, *memo;
    size_t n, room, memo_n, memoized; /* slots of the memo; those in use */
    uint8_t buffer[PK_BUFFER];
} pickle;

/* Reads the pickle that begins at p->at; p->at is then behind it. The machine's own memory goes;
 * values live as long as p->keep. */
zt_status zt_pickle_read(pickle *p, pk_value *out);

/* ---- between pickle*.c and pickle_torch.c ---------------------------------------------------- */

zt_status zt_pk_fail(pickle *p, const char *what);   /* ZT_EDATA, with the byte */
void *zt_pk_alloc(pickle *p, size_t n, size_t size); /* NULL: too much, and the context says so */
zt_status zt_pk_append(pickle *p, pk_list *l, const pk_value *v, size_t n);
pk_list *zt_pk_list(pickle *p);

/* The value of a name that is allowed. */
zt_status zt_pk_global(pickle *p, const char *module, size_t m, const char *name, size_t n,
                       pk_value *out);
/* What f called with a tuple stands for. */
zt_status zt_pk_reduce(pickle *p, pk_value f, pk_value args, pk_value *out);
/* What setting an object's state comes to. */
zt_status zt_pk_build(pickle *p, pk_value object, pk_value state);
/* What a persistent id means: a storage. */
zt_status zt_pk_persistent(pickle *p, pk_value id, pk_value *out);

#endif
